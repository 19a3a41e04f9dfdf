// What it would give the whole program to run one function elsewhere, or faster: the arithmetic of tally candidates
// (src/tool/report/report_candidates.h), with its assumptions as sliders.
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Context } from "../context";
import { amount, times, whole } from "../format";
import { type Interval, isWhole, type Model } from "../model";
import { FunctionLink, Missing, rowOf, Share } from "../parts";
import { change } from "../state";
import { type Column, Table } from "../table";

/** Is it a counter of time, whose shares say what a speedup gives? */
export function isTime(model: Model, counter: number): boolean {
  const { unit, combine } = model.counter(counter) ?? {};
  return unit === "ns" && combine !== "peak";
}

const SPEEDUPS = [1.1, 1.25, 1.5, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 1000, Infinity];
const COSTS = [0, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6];

interface Candidate {
  fn: number;
  share: Interval;
  calls: number; // that enter; 0: not known
  bound: number;
  low: number;
  high: number;
}

/** How many times less the whole takes: 1 / (1 - f + f / K + N T / W). */
export function bound(share: number, speedup: number, cost: number): number {
  const remains = 1 - share + (isFinite(speedup) ? share / speedup : 0) + cost;
  return remains > 1e-12 ? 1 / remains : Infinity;
}

function judge(context: Context, fn: number, speedup: number, invoke: number): Candidate {
  const { model, sums, functions, counter } = context, share = model.interval(counter, sums, functions.total[fn]);
  const row = model.preferred() !== counter ? undefined : rowOf(context, fn);
  const known = row?.calls !== undefined && row.calls_complete !== false;
  const calls = known ? row.calls! - (row.recursive_calls ?? 0) : 0, cost = sums.all > 0 ? (calls * invoke) / sums.all : 0;
  const ends = [bound(share.low, speedup, cost), bound(share.high, speedup, cost)];
  return { fn, share, calls, bound: bound(share.share, speedup, cost), low: Math.min(...ends), high: Math.max(...ends) };
}

/** Does it only hold the time of what it calls? As candidates_is_root of src/tool/report/report_candidates_figures.c. */
function isRoot({ functions, model }: Context, it: Candidate): boolean {
  const threads = model.data.threads.tid.length - 1; // without number 0, which is none
  return it.calls <= Math.max(threads, 1) && it.share.share >= 0.95 && functions.self[it.fn] < functions.total[it.fn] / (it.calls ? 2 : 20);
}

function Curves(props: { context: Context; list: Candidate[]; invoke: number; speedup: number }) {
  const box = useRef<HTMLDivElement>(null), { context, list, invoke } = props;
  useEffect(() => {
    const holder = box.current;
    if (!holder) return;
    const style = getComputedStyle(holder), ink = style.color, grid = style.getPropertyValue("--line");
    const hues = ["--c1", "--c2", "--c3", "--c4", "--c5"].map((it) => style.getPropertyValue(it));
    const xs = Array.from({ length: 61 }, (_, i) => 10 ** (i / 30));
    const cost = (it: Candidate) => (context.sums.all > 0 ? (it.calls * invoke) / context.sums.all : 0);
    const font = "12px " + style.fontFamily, line = { stroke: grid, width: 1 };
    const axis = { stroke: ink, grid: line, ticks: line, font, labelFont: font, labelSize: 20, labelGap: 0 };
    const plot = new uPlot({
      width: holder.clientWidth, height: 240, legend: { live: false }, pxAlign: false, cursor: { show: false },
      scales: { x: { time: false, distr: 3 } },
      axes: [{ ...axis, size: 28, filter: (_, splits) => splits, label: "speedup of the function", values: (_, ticks) => ticks.map((it) => (it == null ? "" : [1, 2, 5, 10, 20, 50, 100].includes(it) ? it + "×" : "")) },
             { ...axis, label: "speedup of the program", values: (_, ticks) => ticks.map((it) => (Number.isInteger(it) ? String(it) : it.toFixed(2)) + "×"), size: 60 }],
      series: [{}, ...list.map((it, i) => {
        const name = context.model.names[it.fn];
        return { label: name.length > 40 ? name.slice(0, 39) + "…" : name, stroke: hues[i], width: 2, points: { show: false } };
      })],
    }, [xs, ...list.map((it) => xs.map((x) => bound(it.share.share, x, cost(it))))], holder);
    const observer = new ResizeObserver(() => plot.setSize({ width: holder.clientWidth, height: 240 }));
    observer.observe(holder);
    return () => { observer.disconnect(); plot.destroy(); };
  }, [list, invoke, context]);
  return <div class="chart" ref={box} role="img" aria-label="Speedup of the program by speedup of the function, of the five best candidates" />;
}

export function CandidatesView(props: { context: Context }) {
  const { context } = props, { functions, place, model, found } = context, options = place.options;
  const speedAt = Math.min(Math.max(Number(options.k ?? SPEEDUPS.length - 1), 0), SPEEDUPS.length - 1);
  const costAt = Math.min(Math.max(Number(options.t ?? 0), 0), COSTS.length - 1);
  const speedup = SPEEDUPS[speedAt] ?? Infinity, invoke = COSTS[costAt] ?? 0;
  const time = isTime(model, context.counter);
  const all = useMemo(() => [...functions.list].filter((fn) => functions.total[fn] > 0 && model.isMovable(fn))
    .map((fn) => judge(context, fn, speedup, invoke)), [functions, speedup, invoke]);
  const rows = useMemo(() => all.filter((it) => !isRoot(context, it)), [all]), roots = all.filter((it) => isRoot(context, it));
  const best = useMemo(() => [...rows].sort((a, b) => b.bound - a.bound).slice(0, 5), [rows]);
  const shown = useMemo(() => rows.filter((it) => !found || found[it.fn]), [rows, found]);
  const columns = useMemo((): Column<Candidate>[] => [
    { key: "bound", title: "max. speedup", hint: "of the whole program, with its 95 % interval", order: (it) => it.bound,
      cell: (it) => <span class={it.low >= 1 - 1e-9 ? "" : "loss"}>{times(it.bound)} <small>{times(it.low)} – {times(it.high)}</small></span> },
    { key: "total", title: "total", minor: true, order: (it) => it.share.share, cell: (it) => <Share it={it.share} /> },
    { key: "calls", title: "calls", minor: true, order: (it) => it.calls, cell: (it) => (it.calls ? whole(it.calls) : "") },
    { key: "even", title: "break-even", minor: true, hint: "overhead per call at which nothing is gained",
      order: (it) => (it.calls ? context.functions.total[it.fn] / it.calls : -1),
      cell: (it) => it.calls ? amount((context.functions.total[it.fn] / it.calls) * (isFinite(speedup) ? 1 - 1 / speedup : 1), "ns") : "" },
    { key: "name", title: "function", left: true, wide: true, order: (it) => model.names[it.fn], cell: (it) => <FunctionLink context={context} fn={it.fn} /> },
    { key: "image", title: "image", left: true, minor: true, order: (it) => model.imageNames[it.fn], cell: (it) => <span class="image">{model.imageNames[it.fn]}</span> },
  ], [context, speedup, invoke]);
  if (!time)
    return <Missing title="Accelerator gain"><p>The gain is computed from time: choose a counter of time above, or record one
      with <code>tally record</code>.</p></Missing>;
  return (
    <div class="view">
      <h1>Accelerator gain</h1>
      <p class="quiet">How much faster the whole program runs at most if one function ran faster: on an accelerator, on several threads, or after
        optimization (Amdahl's law). Data transfer and waiting count only as far as the overhead per call includes them.</p>
      <div class="sliders">
        <label>Speedup of the function <b>{isFinite(speedup) ? times(speedup) : "unlimited"}</b>
          <input type="range" min="0" max={SPEEDUPS.length - 1} value={speedAt} aria-valuetext={isFinite(speedup) ? times(speedup) : "unlimited"}
                 onInput={(event) => change(place, { k: event.currentTarget.value }, true)} /></label>
        <label>Overhead per call <b>{amount(invoke, "ns")}</b>
          <input type="range" min="0" max={COSTS.length - 1} value={costAt} aria-valuetext={amount(invoke, "ns")}
                 disabled={!model.callsCounter || !isWhole(context.part)}
                 onInput={(event) => change(place, { t: event.currentTarget.value }, true)} /></label>
      </div>
      {!model.callsCounter && <p class="note">The overhead per call needs the number of calls: <code>tally record --calls</code> counts them.</p>}
      {roots.length > 0 && <p class="roots">{roots.length > 1 ? "Roots, which hold the time of all that they call: "
                                                              : "Root, which holds the time of all that it calls: "}
        {roots.map((it, i) => <>{i > 0 && ", "}<FunctionLink context={context} fn={it.fn} /></>)}</p>}
      <Curves context={context} list={best} invoke={invoke} speedup={speedup} />
      <Table name="Accelerator gain" columns={columns} rows={shown} by="bound" empty="No function matches." />
    </div>
  );
}
