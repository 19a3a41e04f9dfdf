// Threads by process, each with its sums. Those that are ticked are the only ones in all views.
import { useMemo } from "preact/hooks";
import type { Context } from "../context";
import { amount, whole } from "../format";
import { combine, type Model, type Part } from "../model";
import { Share, valueOf } from "../parts";
import { change } from "../state";
import { type Column, Table } from "../table";

export const MOST_OPEN = 60; // rows; where there are more, processes are closed at first

interface Row {
  process: number;
  thread: number; // -1: the process with several threads
  value: number;
  samples: number;
  threads: Row[];
}

/** Threads as an address has them: "2.5.p3", p3 being all of process 3. */
export function setOf(model: Model, text: string | undefined): Set<number> | null {
  const parts = (text ?? "").split(".").filter(Boolean);
  const threads = parts.flatMap((part) => (part[0] === "p" ? model.threadsOf(Number(part.slice(1))) : [Number(part)]));
  return threads.length ? new Set(threads) : null;
}

export function textOf(model: Model, threads: Set<number>): string {
  const left = new Set(threads), parts: string[] = [];
  for (const process of new Set([...threads].map((it) => model.data.threads.process[it]))) {
    const all = model.threadsOf(process);
    if (all.length < 2 || !all.every((it) => left.has(it))) continue;
    all.forEach((it) => left.delete(it));
    parts.push("p" + process);
  }
  return [...[...left].sort((a, b) => a - b).map(String), ...parts].join(".");
}

/** Processes in the order of their sums; a process with one thread is that thread. */
export function rowsOf(model: Model, counter: number, part: Part): Row[] {
  const peak = model.counter(counter)?.combine === "peak", groups = new Map<number, Row>();
  for (const it of model.threads(counter, part)) {
    const process = model.data.threads.process[it.thread], row: Row = { ...it, process, threads: [] }, group = groups.get(process);
    if (!group) groups.set(process, { process, thread: -1, value: it.value, samples: it.samples, threads: [row] });
    else {
      group.value = combine(peak, group.value, it.value);
      group.samples += it.samples;
      group.threads.push(row);
    }
  }
  return [...groups.values()].map((group) => (group.threads.length === 1 ? group.threads[0] : group)).sort((a, b) => b.value - a.value);
}

/** When a process lived, on a line as long as the recording. */
function Life(props: { context: Context; process: number }) {
  const { data } = props.context.model, all = Number(data.meta.duration_ns ?? 0), process = data.processes[props.process];
  if (!all || !process) return null;
  const start = Math.min(process.start_ns / all, 1) * 100, end = process.end_ns ? Math.min(process.end_ns / all, 1) * 100 : 100;
  return (
    <svg class="bar life" viewBox="0 0 100 10" preserveAspectRatio="none" role="img"
         aria-label={`from ${amount(process.start_ns, "ns")} to ${process.end_ns ? amount(process.end_ns, "ns") : "the end"}`}>
      <rect class="bar-back" x="0" y="0" width="100" height="10" />
      <rect class="bar-fill" x={start} y="3" width={Math.max(end - start, 0.5)} height="4" />
    </svg>
  );
}

/** A box that stands for several threads. */
function Tick(props: { label: string; threads: number[]; chosen: Set<number> | null; onChange: (threads: number[], on: boolean) => void }) {
  const { threads, chosen } = props, count = threads.filter((it) => chosen?.has(it)).length, all = count === threads.length;
  return <input type="checkbox" aria-label={props.label} checked={all} ref={(box) => { if (box) box.indeterminate = count > 0 && !all; }}
                onChange={() => props.onChange(threads, !all)} />;
}

export function ThreadsView(props: { context: Context }) {
  const { context } = props, { model, counter, place, part } = context, chosen = part.threads;
  const rows = useMemo(() => rowsOf(model, counter, part), [model, counter, part.period, part.focus]);
  const all = useMemo(() => model.sums(counter, { ...part, threads: null }), [model, counter, part.period, part.focus]);
  const groups = rows.filter((row) => row.threads.length), many = rows.reduce((sum, row) => sum + 1 + row.threads.length, 0) > MOST_OPEN;
  const turned = useMemo(() => new Set((place.options.turned ?? "").split(".").filter(Boolean).map(Number)), [place.options.turned]);
  const isOpen = (row: Row) => turned.has(row.process) === many, allOpen = groups.every(isOpen);
  const turn = (processes: Set<number>) => change(place, { turned: [...processes].join(".") }, true);
  const toggle = (row: Row) => {
    const next = new Set(turned);
    if (!next.delete(row.process)) next.add(row.process);
    turn(next);
  };
  const choose = (threads: number[], on: boolean) => {
    const next = new Set(chosen ?? []);
    threads.forEach((it) => (on ? next.add(it) : next.delete(it)));
    change(place, { threads: textOf(model, next) });
  };
  const isGroup = (row: Row) => row.thread < 0;
  const name = (row: Row) => (isGroup(row) ? model.processName(row.process) : model.threadName(row.thread));
  const most = rows.length ? model.interval(counter, all, rows[0].value).high : 1;
  const columns: Column<Row>[] = useMemo(() => [
    { key: "only", title: "only", left: true, hint: "limit all views to these threads", cell: (row) => (
      <Tick label={`Only ${isGroup(row) ? "process " : ""}${name(row)}`} threads={isGroup(row) ? model.threadsOf(row.process) : [row.thread]} chosen={chosen} onChange={choose} />) },
    { key: "value", title: "share", order: (row) => row.value, cell: (row) => <Share it={model.interval(counter, all, row.value)} most={most} /> },
    { key: "amount", title: "value", minor: true, order: (row) => row.value, cell: (row) => valueOf(context, row.value) },
    ...(model.counter(counter)?.exact ? [] : [
      { key: "samples", title: "samples", minor: true, order: (row: Row) => row.samples, cell: (row: Row) => whole(row.samples) }]),
    { key: "thread", title: "process, thread", left: true, wide: true, order: name, cell: (row) => (isGroup(row) ? (
      <button type="button" class="disclose" aria-expanded={isOpen(row)} onClick={() => toggle(row)}>
        <span aria-hidden="true">{isOpen(row) ? "▾" : "▸"}</span> {name(row)} <small>{whole(row.threads.length)} threads</small></button>
    ) : <span class={rows.includes(row) ? "lone" : "inside"}>{name(row)}</span>) },
    { key: "pid", title: "pid", minor: true, order: (row) => model.data.processes[row.process]?.pid ?? 0, cell: (row) => {
      const { pid, origin } = model.data.processes[row.process] ?? {};
      return pid ? `${pid}${origin ? " @" + origin : ""}` : "";
    } },
    { key: "command", title: "command", left: true, minor: true, order: (row) => model.data.processes[row.process]?.command ?? "",
      cell: (row) => { const text = model.data.processes[row.process]?.command ?? ""; return rows.includes(row) ? <span class="image" title={text}>{text}</span> : ""; } },
    { key: "life", title: "lifetime", left: true, minor: true, cell: (row) => (rows.includes(row) ? <Life context={context} process={row.process} /> : "") },
  ], [rows, chosen, place]);
  return (
    <div class="view">
      <h1>Threads</h1>
      <div class="bar-of-tools">
        <span class="quiet">Tick processes or threads to limit all views to them.</span>
        <span class="space" />
        {chosen && <button type="button" onClick={() => change(place, { threads: "" })}>all threads</button>}
        {groups.length > 0 && <button type="button" onClick={() => turn(new Set(allOpen !== many ? groups.map((row) => row.process) : []))}>
          {allOpen ? "collapse all" : "expand all"}</button>}
      </div>
      <Table name="Threads" columns={columns} rows={rows} by="value" marked={(row) => !isGroup(row) && (chosen?.has(row.thread) ?? false)}
             below={(row) => (isOpen(row) ? row.threads : [])} empty="No thread has a figure of this counter." />
    </div>
  );
}
