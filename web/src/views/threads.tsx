import { useMemo } from "preact/hooks";
import type { Context } from "../context";
import { amount, whole } from "../format";
import { Share, valueOf } from "../parts";
import { change } from "../state";
import { type Column, Table } from "../table";

interface Row {
  thread: number;
  value: number;
  samples: number;
}

/** When a process lived, on a line as long as the recording. */
function Life(props: { context: Context; thread: number }) {
  const { data } = props.context.model, all = Number(data.meta.duration_ns ?? 0);
  const process = data.processes[data.threads.process[props.thread]];
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

export function ThreadsView(props: { context: Context }) {
  const { context } = props, { model, counter, place } = context, chosen = context.part.threads, { period } = context.part;
  const rows = useMemo(() => model.threads(counter, period), [model, counter, period]);
  const all = useMemo(() => model.sums(counter, { threads: null, period }), [model, counter, period]);
  const choose = (threads: Set<number>) =>
    change(place, { threads: threads.size && (period || threads.size < rows.length) ? [...threads].sort((a, b) => a - b).join(".") : "" });
  const toggle = (thread: number) => {
    const next = new Set(chosen ?? []);
    if (!next.delete(thread)) next.add(thread);
    choose(next);
  };
  const process = (row: Row) => model.data.processes[model.data.threads.process[row.thread]];
  const columns: Column<Row>[] = useMemo(() => [
    { key: "only", title: "only", left: true, cell: (row) => (
      <input type="checkbox" aria-label={`Only ${model.threadName(row.thread)}`} checked={chosen?.has(row.thread) ?? false}
             onChange={() => toggle(row.thread)} />) },
    { key: "value", title: "share", order: (row) => row.value,
      cell: (row) => <Share it={model.interval(counter, all, row.value)} most={rows.length ? model.interval(counter, all, rows[0].value).high : 1} /> },
    { key: "amount", title: "in full", minor: true, order: (row) => row.value, cell: (row) => valueOf(context, row.value) },
    ...(model.counter(counter)?.exact ? [] : [
      { key: "samples", title: "samples", minor: true, order: (row: Row) => row.samples, cell: (row: Row) => whole(row.samples) }]),
    { key: "thread", title: "thread", left: true, wide: true, order: (row) => model.threadName(row.thread), cell: (row) => model.threadName(row.thread) },
    { key: "process", title: "process", left: true, minor: true, order: (row) => process(row)?.pid ?? 0,
      cell: (row) => { const it = process(row); return it && row.thread ? `${it.name} ${it.pid}${it.origin ? " @" + it.origin : ""}` : ""; } },
    { key: "life", title: "process lived", left: true, minor: true, cell: (row) => <Life context={context} thread={row.thread} /> },
  ], [rows, chosen, place]);
  return (
    <div class="view">
      <h1>Threads</h1>
      <p class="quiet">Tick threads to see only these in all views{chosen ? "; " : "."}
        {chosen && <button type="button" onClick={() => choose(new Set())}>all threads again</button>}</p>
      <Table name="Threads" columns={columns} rows={rows} by="value" marked={(row) => chosen?.has(row.thread) ?? false}
             empty="No thread has a figure of this counter." />
    </div>
  );
}
