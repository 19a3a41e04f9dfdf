// Memory by function: what was held at the peak, what was never released, how much went through. The counters are those of
// src/tool/profile/profile_heap.h.
import { useMemo } from "preact/hooks";
import type { Context } from "../context";
import { amount, percent, whole } from "../format";
import type { FunctionSums, Model, Sums } from "../model";
import { Bar, Figure, FunctionLink, Missing, NotAll } from "../parts";
import { change, link } from "../state";
import { type Column, Table } from "../table";

const SHOWN: [string, string, string][] = [
  ["heap.peak", "at peak", "allocated when the process had the most allocated"],
  ["heap.live", "live at exit", "bytes that were never freed"],
  ["heap.live.count", "live blocks", "blocks that were never freed"],
  ["heap.total", "allocated", "bytes of all allocations"],
  ["heap.count", "allocations", "number of all allocations"],
  ["heap.temporary", "temporary", "allocations freed before the next allocation of the same thread"],
  ["heap.largest", "largest", "the largest single allocation"],
];

interface Measure {
  name: string;
  title: string;
  hint: string;
  counter: number;
  unit: string;
  sums: Sums;
  functions: FunctionSums;
}

/** Was the heap recorded? */
export function measured(model: Model): boolean {
  return SHOWN.some(([name]) => model.counters.some((it) => model.counter(it).name === name));
}

function text(value: number, unit: string): string {
  return unit === "bytes" ? amount(value, unit) : whole(value);
}

/** What each process had at its peak: never all of it at a time. */
function peaks({ model, part }: Context, counter: number): number[] {
  const of = new Map<number, number>();
  for (const { thread, value } of model.threads(counter, part)) {
    const process = model.data.threads.process[thread];
    if (!part.threads || part.threads.has(thread)) of.set(process, (of.get(process) ?? 0) + value);
  }
  return [...of.values()].filter((it) => it > 0);
}

/** The sum of a counter; of peaks, the highest, as reports have it. */
function Sum({ context, it }: { context: Context; it: Measure }) {
  const { place } = context, graph = <a href={link(place, "flame", { counter: it.name })}>flame graph</a>;
  const each = it.name === "heap.peak" ? peaks(context, it.counter) : [], several = each.length > 1;
  return (
    <Figure title={it.title} note={several ? <>the highest of {each.length} processes; their sum is {text(it.sums.all, it.unit)}; {graph}</> : graph}>
      {text(several ? Math.max(...each) : it.sums.all, it.unit)}
    </Figure>
  );
}

export function HeapView(props: { context: Context }) {
  const { context } = props, { model, place, found } = context, total = place.options.of === "total";
  const measures = useMemo(() => SHOWN.flatMap(([name, title, hint]): Measure[] => {
    const counter = model.data.counters.findIndex((it) => it.name === name) + 1;
    return model.counters.includes(counter) ? [{ name, title, hint, counter, unit: model.counter(counter).unit,
      sums: model.sums(counter, context.part), functions: model.functions(counter, context.part, context.inlines) }] : [];
  }), [model, context.part, context.inlines]);
  const rows = useMemo(() => {
    const all = new Set<number>();
    for (const it of measures)
      for (const fn of it.functions.list) if ((!found || found[fn]) && (total || it.functions.self[fn])) all.add(fn);
    return [...all];
  }, [measures, found, total]);
  const columns = useMemo((): Column<number>[] => [
    ...measures.map((it, i): Column<number> => {
      const of = total ? it.functions.total : it.functions.self;
      return { key: it.name, title: it.title, hint: it.hint, minor: i > 0, order: (fn) => of[fn],
               cell: (fn) => of[fn] ? (
                 <span class={i < 2 ? "held" : ""} title={it.sums.all && !it.sums.peak ? percent(of[fn] / it.sums.all) + " of all" : undefined}>
                   {i < 2 && <Bar it={{ share: of[fn] / (it.sums.all || 1), low: 0, high: 0 }} />}
                   <span>{text(of[fn], it.unit)}</span></span>) : "" };
    }),
    { key: "name", title: "function", left: true, wide: true, order: (fn) => model.names[fn], cell: (fn) => <FunctionLink context={context} fn={fn} /> },
    { key: "image", title: "image", left: true, minor: true, order: (fn) => model.imageNames[fn], cell: (fn) => <span class="image">{model.imageNames[fn]}</span> },
  ], [context, measures, total]);
  if (!measures.length)
    return <Missing title="Heap"><p>Heap allocations were not recorded. <code>tally record --heap -- COMMAND</code> counts every allocation and free, by
      call stack: totals, the peak, and what is live at exit.</p></Missing>;
  const { exact, why } = model.counter(measures[0].counter), sampled = !exact;
  return (
    <div class="view">
      <h1>Heap</h1>
      <dl class="figures">
        {measures.map((it) => <Sum key={it.name} context={context} it={it} />)}
      </dl>
      <NotAll why={why} />
      {sampled && <p class="quiet">Allocations were sampled by size: figures are estimates.</p>}
      <div class="bar-of-tools">
        <div class="choice" role="group" aria-label="Self or total">
          <button type="button" aria-pressed={!total} onClick={() => change(place, { of: "" })}>self</button>
          <button type="button" aria-pressed={total} onClick={() => change(place, { of: "total" })}>total</button>
        </div>
      </div>
      <Table name="Heap by function" columns={columns} rows={rows} by={measures[0].name} empty="No function matches." />
    </div>
  );
}
