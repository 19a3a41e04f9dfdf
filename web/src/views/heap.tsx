// Memory by function: what was held at the peak, what was never released, how much went through. The counters are those of
// src/tool/profile/profile_heap.h.
import { useMemo } from "preact/hooks";
import type { Context } from "../context";
import { search } from "../flame";
import { amount, percent, whole } from "../format";
import type { FunctionSums, Sums } from "../model";
import { Bar, Figure, FunctionLink, Missing, NotAll } from "../parts";
import { change, link, useWords } from "../state";
import { type Column, Table } from "../table";

const SHOWN: [string, string, string][] = [
  ["heap.peak", "at the peak", "what was held when the whole process held the most"],
  ["heap.live", "never released", "bytes that were not released at the end"],
  ["heap.live.count", "live blocks", "blocks that were not released at the end"],
  ["heap.total", "in all", "bytes of all blocks that were ever allocated"],
  ["heap.count", "blocks", "how many blocks those were"],
  ["heap.temporary", "temporary", "blocks released before the next allocation of the same thread"],
  ["heap.largest", "largest", "the largest single block"],
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

function text(value: number, unit: string): string {
  return unit === "bytes" ? amount(value, unit) : whole(value);
}

export function HeapView(props: { context: Context }) {
  const { context } = props, { model, place } = context, total = place.options.of === "total";
  const [words, type] = useWords(place);
  const measures = useMemo(() => SHOWN.flatMap(([name, title, hint]): Measure[] => {
    const counter = model.data.counters.findIndex((it) => it.name === name) + 1;
    return model.counters.includes(counter) ? [{ name, title, hint, counter, unit: model.counter(counter).unit,
      sums: model.sums(counter, context.part), functions: model.functions(counter, context.part, context.inlines) }] : [];
  }), [model, context.part, context.inlines]);
  const rows = useMemo(() => {
    const found = words.trim() ? search(model, words) : null, all = new Set<number>();
    for (const it of measures)
      for (const fn of it.functions.list) if ((!found || found[fn]) && (total || it.functions.self[fn])) all.add(fn);
    return [...all];
  }, [measures, words, total]);
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
    { key: "image", title: "file", left: true, minor: true, order: (fn) => model.imageNames[fn], cell: (fn) => <span class="image">{model.imageNames[fn]}</span> },
  ], [context, measures, total]);
  if (!measures.length)
    return <Missing title="Memory"><p>Allocations were not counted. <code>tally record --heap -- COMMAND</code> counts every block that is
      allocated and released, by stack: totals, the peak, and what was never released.</p></Missing>;
  const { exact, why } = model.counter(measures[0].counter), sampled = !exact;
  return (
    <div class="view">
      <h1>Memory</h1>
      <dl class="figures">
        {measures.map((it) => (
          <Figure key={it.name} title={it.title} note={<a href={link(place, "flame", { counter: it.name })}>flame graph</a>}>{text(it.sums.all, it.unit)}</Figure>
        ))}
      </dl>
      <NotAll why={why} />
      {sampled && <p class="quiet">Blocks were sampled, some bytes apart: figures are estimates.</p>}
      <div class="bar-of-tools">
        <input id="search" type="search" placeholder="Search (/)" aria-label="Search functions" value={words}
               onInput={(event) => type(event.currentTarget.value)} />
        <div class="choice" role="group" aria-label="What counts for a function">
          <button type="button" aria-pressed={!total} onClick={() => change(place, { of: "" })}>allocated by it</button>
          <button type="button" aria-pressed={total} onClick={() => change(place, { of: "total" })}>with all it calls</button>
        </div>
      </div>
      <Table name="Memory by function" columns={columns} rows={rows} by={measures[0].name} empty="No function matches." />
    </div>
  );
}
