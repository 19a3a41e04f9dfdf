// When what was done: threads over time. A period that is chosen here holds for all views.
import { useMemo } from "preact/hooks";
import { type Context } from "../context";
import { amount, moment, percent, whole } from "../format";
import { Legend } from "../graph";
import { Lanes, moved, type Row, zoomed } from "../lanes";
import { type Model, WHOLE } from "../model";
import { Missing, Top } from "../parts";
import { change } from "../state";
import { MOST_OPEN, rowsOf, textOf } from "./threads";
import type { Period } from "../timeline";

/** As the view of threads has them; where there are several processes, each with several threads is a row above these. Where there
 *  are many threads, only those of the processes of which some are chosen. */
function lanesOf(model: Model, counter: number, chosen: Set<number> | null): Row[] {
  const lanes = model.timeline!.lanes(counter), groups = rowsOf(model, counter, WHOLE), several = groups.length > 1;
  const open = (threads: number[]) => lanes.length <= MOST_OPEN || threads.some((it) => chosen?.has(it));
  const some = (threads: Set<number>) => lanes.filter((lane) => threads.has(lane.thread));
  const one = (thread: number, inside: boolean): Row => ({ lanes: some(new Set([thread])), threads: [thread], name: model.threadName(thread), inside });
  const rows = groups.flatMap(({ process, thread, threads }) => {
    if (thread >= 0) return [one(thread, false)];
    const all = model.threadsOf(process), inner = !several || open(all) ? threads.map((it) => one(it.thread, several)) : [];
    return several ? [{ lanes: some(new Set(all)), threads: all, name: model.processName(process), inside: false }, ...inner] : inner;
  }).filter((row) => row.lanes.length);
  return rows.length > 1 ? [{ lanes, threads: [], name: "all threads", inside: false }, ...rows] : rows;
}

function Sentence(props: { context: Context; counter: number; all: number; period: Period | null }) {
  const { context, all, counter, period } = props, { model } = context, timeline = model.timeline!, length = timeline.ns(all);
  const { threads, focus } = context.part, part = model.sums(counter, { threads, period, focus }), whole_ = model.sums(counter, { threads, period: null, focus });
  if (!period) return <span class="number long">{amount(length, "ns")}, {whole(whole_.samples)} samples</span>;
  const step = Math.max(timeline.ns(period.to - period.from) / 1000, timeline.stepNs);
  return (
    <span class="number long" role="status">{moment(timeline.ns(period.from), length, step)} – {moment(timeline.ns(period.to), length, step)}:
      {" "}{amount(timeline.ns(period.to - period.from), "ns")}, {whole(part.samples)} samples, {percent(whole_.all ? part.all / whole_.all : 0)} of all</span>
  );
}

export function TimelineView(props: { context: Context }) {
  const { context } = props, { model, place } = context, { timeline } = model;
  const counter = timeline ? (timeline.has(context.counter) ? context.counter : Math.min(...timeline.counters)) : 0;
  const rows = useMemo(() => (timeline ? lanesOf(model, counter, context.part.threads) : []), [model, counter, context.part.threads]);
  if (!timeline)
    return <Missing title="Timeline"><p>No timeline was recorded. <code>tally record --timeline -- COMMAND</code> keeps the time, thread and stack
      of each sample: threads over time, and every view limited to a time range.</p></Missing>;
  const all = Math.max(timeline.steps, Math.ceil(Number(model.data.meta.duration_ns ?? 0) / timeline.stepNs)), { period } = context.part;
  const range = timeline.period(place.options.range, all) ?? { from: 0, to: all }, isAll = range.from === 0 && range.to >= all;
  const closed = rows.some(({ threads }, i) => threads.length > 1 && !rows[i + 1]?.inside);
  const show = (next: Period | null) => change(place, { range: timeline.text(next) }, true);
  const middle = period ? (period.from + period.to) / 2 : (range.from + range.to) / 2;
  const toggle = ({ threads }: Row) => {
    const next = new Set(threads.length ? context.part.threads ?? [] : []), on = !threads.every((it) => next.has(it));
    threads.forEach((it) => (on ? next.add(it) : next.delete(it)));
    change(place, { threads: textOf(model, next) });
  };
  const known = model.sums(counter, { ...WHOLE, period: { from: 0, to: timeline.steps } }).samples, recorded = model.sums(counter, WHOLE).samples;
  return (
    <div class="view">
      <h1 class="hidden">Timeline</h1>
      <div class="bar-of-tools">
        <Sentence context={context} counter={counter} all={all} period={period} />
        <span class="space" />
        <button type="button" disabled={!period} onClick={() => change(place, { time: "" })}>whole recording</button>
        <div class="choice" role="group" aria-label="Zoom">
          <button type="button" aria-label="zoom out" disabled={isAll} onClick={() => show(zoomed(range, all, middle, 2))}>−</button>
          <button type="button" aria-label="zoom in" onClick={() => show(zoomed(range, all, middle, 0.5))}>+</button>
          <button type="button" disabled={!period} onClick={() => period && show(moved(period, all, period.from))}>zoom to selection</button>
          <button type="button" disabled={isAll} onClick={() => show(null)}>all</button>
        </div>
      </div>
      <Lanes context={context} rows={rows} counter={counter} range={range} all={all} period={period}
             onPeriod={(next) => change(place, { time: timeline.text(next) })} onRange={show} onRow={toggle} />
      <Legend context={context} strong rest={context.found ? "not matched" : ""} />
      {counter !== context.counter && <p class="note">The timeline is of {model.counter(counter).name}.</p>}
      {closed && <p class="note">Threads are shown of processes that the views are limited to; click the name of a process to limit them to it.</p>}
      {known < recorded && <p class="note">{whole(recorded - known)} of {whole(recorded)} samples have no time.</p>}
      {Number(model.data.meta.origins ?? 1) > 1 && <p class="note">Times are since the start of each recording that this profile was merged from.</p>}
      {counter === context.counter && (
        <div class="pair">
          <Top context={context} total={false} where={period ? ", in this time range" : ""} />
          <Top context={context} total={true} where={period ? ", in this time range" : ""} />
        </div>
      )}
    </div>
  );
}
