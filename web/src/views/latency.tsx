// How long calls took: percentiles of every function that was timed, and of one of them the histogram on a logarithmic axis.
import { useMemo, useRef } from "preact/hooks";
import { type Context, linkFunction, linkNamed } from "../context";
import type { LatencyBucket, LatencyRow } from "../data";
import { amount, percent, whole } from "../format";
import { Figure, Missing, useWidth } from "../parts";
import { change, matches } from "../state";
import { type Column, Table } from "../table";

const HIGH = 250, TOP = 34, FOOT = 24, LEAST = 9; // of the drawing; pixels of a bar at least
const MARKS: [keyof LatencyRow & `${string}_ns`, string][] = [["p50_ns", "p50"], ["p90_ns", "p90"], ["p99_ns", "p99"], ["p999_ns", "p99.9"]];

export interface Bar {
  low: number; // ns; to below high
  high: number;
  calls: number;
  time: number; // ns, about
}

/** The ends of bars: powers of two, in `parts` equal parts each; whole numbers, and buckets of a profile begin at them. */
function ends(low: number, high: number, parts: number): number[] {
  const list = [0];
  for (let power = 1; list[list.length - 1] < high; power *= 2)
    for (let i = 0; i < parts; i++) {
      const end = power + Math.floor((power * i) / parts);
      if (end > list[list.length - 1]) list.push(end);
    }
  return list.filter((_, i) => (list[i + 1] ?? Infinity) > low && (i === 0 || list[i - 1] < high));
}

/** Buckets put together to bars, those without calls too; as many as fit. */
export function bars(buckets: LatencyBucket[], most: number): Bar[] {
  if (!buckets.length) return [];
  const low = buckets[0][0], last = buckets[buckets.length - 1], high = last[1] ?? last[0] * 2;
  const octaves = Math.log2(high / Math.max(low, 1)) + 1, parts = [32, 16, 8, 4, 2].find((it) => it * octaves <= most) ?? 1;
  const edges = ends(low, high, parts), list = edges.slice(0, -1).map((end, i): Bar => ({ low: end, high: edges[i + 1], calls: 0, time: 0 }));
  let at = 0;
  for (const [from, to, calls] of buckets) {
    while (at + 1 < list.length && list[at].high <= from) at++;
    list[at].calls += calls;
    list[at].time += calls * (to === null ? from : (from + to - 1) / 2);
  }
  return list;
}

interface Axis {
  x: (ns: number) => number; // 0 .. 1
  ticks: number[];
}

function axis(low: number, high: number): Axis {
  const from = Math.log(Math.max(low, 0.7)), to = Math.log(Math.max(high, 2)), ticks: number[] = [];
  for (let ten = 10 ** Math.floor(Math.log10(Math.max(low, 1))); ten <= high; ten *= 10) if (ten >= low) ticks.push(ten);
  return { x: (ns) => Math.min(Math.max((Math.log(Math.max(ns, 0.7)) - from) / (to - from || 1), 0), 1), ticks };
}

/** A distribution in a cell, on the axis of all rows. */
function Small(props: { row: LatencyRow; at: Axis }) {
  const { row, at } = props, list = useMemo(() => bars(row.buckets, 60), [row]), most = Math.max(...list.map((it) => it.calls), 1);
  return (
    <svg class="bar small" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-back" x="0" y="9.4" width="100" height=".6" />
      {list.filter((it) => it.calls).map((it) => {
        const x = 100 * at.x(it.low), high = Math.max((10 * it.calls) / most, 0.8);
        return <rect key={it.low} class="bar-fill" x={x} y={10 - high} width={Math.max(100 * at.x(it.high) - x, 0.8)} height={high} />;
      })}
    </svg>
  );
}

function Marks(props: { row: LatencyRow; at: Axis; wide: number }) {
  const { row, at, wide } = props;
  let last = -Infinity, line = 0;
  return (
    <>
      {MARKS.map(([key, name]) => {
        const x = wide * at.x(row[key]), text = `${name} ${amount(row[key], "ns")}`;
        line = x - last < 100 ? line + 1 : 0;
        last = x;
        const right = x > wide - 110, y = 11 + 13 * (line % 2);
        return (
          <g key={key} class="mark">
            <line x1={x} x2={x} y1={y + 3} y2={HIGH - FOOT} />
            <text x={right ? x - 3 : x + 3} y={y} text-anchor={right ? "end" : "start"}>{text}</text>
          </g>
        );
      })}
    </>
  );
}

function Histogram(props: { row: LatencyRow; time: boolean; logarithmic: boolean }) {
  const { row, time, logarithmic } = props, box = useRef<HTMLDivElement>(null), wide = useWidth(box);
  const list = useMemo(() => bars(row.buckets, wide / LEAST), [row, wide]);
  const of = (it: Bar) => (time ? it.time : it.calls), most = Math.max(...list.map(of), 1), all = list.reduce((sum, it) => sum + of(it), 0) || 1;
  const high = (value: number) => !value ? 0 : logarithmic ? Math.log1p(value) / Math.log1p(most) : value / most;
  const at = axis(list[0].low, list[list.length - 1].high), room = HIGH - FOOT - TOP;
  return (
    <div class="drawing histogram" ref={box}>
      <svg width={wide} height={HIGH} role="img" aria-label={`Latency of calls to ${row.function}: ${MARKS.map(([key, name]) => `${name} ${amount(row[key], "ns")}`).join(", ")}`}>
        {at.ticks.map((it) => {
          const x = wide * at.x(it);
          return (
            <g key={it} class="tick">
              <line x1={x} x2={x} y1={TOP} y2={HIGH - FOOT + 4} />
              <text x={Math.min(Math.max(x, 24), wide - 28)} y={HIGH - 6} text-anchor="middle">{amount(it, "ns").replace(/\.0+ /, " ")}</text>
            </g>
          );
        })}
        {list.filter(of).map((it) => {
          const x = wide * at.x(it.low), across = wide * at.x(it.high) - x, tall = Math.max(room * high(of(it)), 1.5);
          return (
            <rect key={it.low} class="bar-fill" x={x} y={HIGH - FOOT - tall} width={Math.max(across - 1, 1)} height={tall}>
              <title>{`${amount(it.low, "ns")} to ${amount(it.high, "ns")}: ${whole(it.calls)} ${it.calls === 1 ? "call" : "calls"}, ${percent(of(it) / all)}${time ? " of their time" : ""}`}</title>
            </rect>
          );
        })}
        <line class="base" x1="0" x2={wide} y1={HIGH - FOOT} y2={HIGH - FOOT} />
        <Marks row={row} at={at} wide={wide} />
      </svg>
    </div>
  );
}

function columnsOf(context: Context, rows: LatencyRow[]): Column<LatencyRow>[] {
  const at = axis(Math.min(...rows.map((it) => it.min_ns)), Math.max(...rows.map((it) => it.max_ns)) * 1.05);
  const time = (key: keyof LatencyRow & `${string}_ns`, title: string, minor = true): Column<LatencyRow> =>
    ({ key, title, minor, order: (row) => row[key], cell: (row) => amount(row[key], "ns") });
  return [
    { key: "calls", title: "calls", order: (row) => row.calls, cell: (row) => whole(row.calls) },
    { ...time("sum_ns", "sum"), hint: "time of all calls, including callees" },
    time("min_ns", "min"), time("p50_ns", "p50", false), time("p90_ns", "p90"), time("p99_ns", "p99", false), time("p999_ns", "p99.9"), time("max_ns", "max"),
    { key: "small", title: "distribution", left: true, minor: true, hint: "logarithmic time axis, the same in all rows", cell: (row) => <Small row={row} at={at} /> },
    { key: "name", title: "function", left: true, wide: true, order: (row) => row.function,
      cell: (row) => <a class="name" href={linkNamed(context, row.function, row.image ?? "", "latency")} title={row.function}>{row.function}</a> },
    { key: "image", title: "image", left: true, minor: true, order: (row) => row.image ?? "", cell: (row) => <span class="image" title={row.image ?? ""}>{row.image}</span> },
  ];
}

const NO_ROWS: LatencyRow[] = [];

export function LatencyView(props: { context: Context }) {
  const { context } = props, { place, model } = context, { fn, image } = place.options, rows = context.latency?.rows ?? NO_ROWS;
  const columns = useMemo(() => columnsOf(context, rows), [context, rows]);
  const shown = useMemo(() => (place.options.q ? rows.filter((it) => matches(`${it.function} ${it.image ?? ""}`, place.options.q)) : rows), [rows, place.options.q]);
  if (!rows.length)
    return <Missing title="Latency"><p>No call latencies were recorded. <code>tally record --function NAME -- COMMAND</code> times every call to the functions of
      that name, which may contain * and ?: percentiles, a histogram, and the call stacks.</p></Missing>;
  const named = rows.filter((it) => it.function === fn && (!image || it.image === image));
  const row = named[0] ?? [...rows].sort((a, b) => b.sum_ns - a.sum_ns)[0], time = place.options.of === "time", logarithmic = place.options.y === "log";
  const known = model.find(row.function, row.image ?? "");
  return (
    <div class="view">
      {fn !== undefined && !named.length && <p class="note">Calls to {fn} were not timed; this is the function with the highest sum.</p>}
      <h1><span class="hidden">Latency of </span>{row.function} <small>{row.image}</small></h1>
      <dl class="figures">
        <Figure title="calls" note={`sum ${amount(row.sum_ns, "ns")}`}>{whole(row.calls)}</Figure>
        <Figure title="median (p50)" note={`mean ${amount(row.sum_ns / (row.calls || 1), "ns")}`}>{amount(row.p50_ns, "ns")}</Figure>
        <Figure title="p99" note={`p99.9 ${amount(row.p999_ns, "ns")}`}>{amount(row.p99_ns, "ns")}</Figure>
        <Figure title="maximum" note={`minimum ${amount(row.min_ns, "ns")}`}>{amount(row.max_ns, "ns")}</Figure>
      </dl>
      <div class="bar-of-tools">
        <div class="choice" role="group" aria-label="Bars show">
          <button type="button" aria-pressed={!time} onClick={() => change(place, { of: "" })}>number of calls</button>
          <button type="button" aria-pressed={time} onClick={() => change(place, { of: "time" })}>time</button>
        </div>
        <label class="check"><input type="checkbox" checked={logarithmic} onChange={() => change(place, { y: logarithmic ? "" : "log" })} /> logarithmic
          scale</label>
        <span class="space" />
        {known > 0 && <a class="button" href={linkFunction(context, known)}>Callers/callees</a>}
      </div>
      <Histogram row={row} time={time} logarithmic={logarithmic} />
      <h2>All timed functions</h2>
      <Table name="Latency by function" columns={columns} rows={shown} by="sum_ns" empty="No function matches." short marked={(it) => it === row} />
    </div>
  );
}
