// The hottest functions line by line and instruction by instruction, as tally annotate shows them.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Context } from "../context";
import { type AnnotateDocument, type AnnotatedLine, type AnnotatedLoop, type Figure, type Instruction, part } from "../data";
import { address, base, percent, whole } from "../format";
import { Bar, Missing } from "../parts";
import { change, link } from "../state";

function Cost(props: { it: Figure; of: number; all: number }) {
  const { it, of, all } = props;
  if (!it.value) return <span class="cost" />;
  const share = { share: it.value / (of || 1), low: it.low * (all / (of || 1)), high: Math.min(it.high * (all / (of || 1)), 1) };
  return <span class="cost" title={`${percent(it.share)} of everything, between ${percent(it.low)} and ${percent(it.high)}`}>
    <Bar it={share} /><span class="share-number">{percent(share.share)}</span></span>;
}

/** Loops around a place, as lines at the left; the deepest are the furthest in. */
function Nest(props: { depth: number; most: number }) {
  return <span class="nest" aria-label={props.depth ? `in ${props.depth} ${props.depth === 1 ? "loop" : "loops"}` : undefined}
               role={props.depth ? "img" : undefined}>
    {Array.from({ length: Math.min(props.most, 6) }, (_, i) => <i key={i} class={i < props.depth ? "in" : ""} />)}</span>;
}

type Annotated = AnnotateDocument["annotated"];

interface Shown {
  key: string;
  number: number;
  text: string;
  line: AnnotatedLine | null; // null: nothing was seen here
  inner: AnnotatedLine[]; // what is inlined at this line
  loops: number;
}

/** White space that all lines begin with. */
function indent(texts: string[]): number {
  const depths = texts.filter((text) => text.trim()).map((text) => text.length - text.trimStart().length);
  return depths.length ? Math.min(...depths) : 0;
}

/** The function's text with the lines that have figures, and under each what is inlined there. Lines of other files follow. */
function arrange(it: Annotated): Shown[] {
  const below = new Map<number, AnnotatedLine[]>(), tops = new Map<string, AnnotatedLine>();
  for (const line of it.lines)
    if (line.parent) below.set(line.parent, [...(below.get(line.parent) ?? []), line]);
    else tops.set(line.file + ":" + line.line, line);
  const all = (id: number): AnnotatedLine[] => (below.get(id) ?? []).flatMap((line) => [line, ...all(line.id)]);
  const loops = (file: string | null, number: number) => it.loops.filter((loop) => loop.file === file && loop.first_line &&
    loop.last_line && loop.first_line <= number && number <= loop.last_line).length;
  const { file, first_line: first } = it.function, source = (it.source ?? []).map((text) => text.replaceAll("\t", "        "));
  const cut = indent(source), rows: Shown[] = [];
  source.forEach((text, i) => {
    const key = file + ":" + (first + i), line = tops.get(key) ?? null;
    tops.delete(key);
    rows.push({ key, number: first + i, text: text.slice(cut), line, inner: line ? all(line.id) : [], loops: loops(file, first + i) });
  });
  const rest = [...tops.values()].sort((a, b) => (a.file === b.file ? a.line - b.line : (a.file ?? "") < (b.file ?? "") ? -1 : 1));
  for (const line of rest)
    rows.push({ key: line.file + ":" + line.line, number: line.line, line, inner: all(line.id), loops: loops(line.file, line.line),
                text: line.text ?? (line.file ? `${base(line.file)}:${line.line}` : "") });
  return rows;
}

function Lines(props: { it: Annotated }) {
  const { it } = props, rows = useMemo(() => arrange(it), [it]);
  const of = it.function.total.value, all = it.function.total.share ? of / it.function.total.share : 0;
  const most = rows.reduce((deep, row) => Math.max(deep, row.loops), 0), counted = it.lines.some((line) => line.calls);
  if (!it.lines.length) return <p class="nothing">No line information: the function was compiled without -g. The instructions are available.</p>;
  return (
    <div class="code" tabIndex={0} role="region" aria-label="Source">
      <table>
        <thead><tr><th scope="col">self</th><th scope="col" class="minor">total</th>{counted && <th scope="col">calls</th>}<th scope="col">line</th>
          <th scope="col" class="left">source</th></tr></thead>
        <tbody>
          {rows.map((row) => [
            <tr key={row.key} class={row.line?.hot ? "hot" : ""}>
              <td>{row.line && <Cost it={row.line.self} of={of} all={all} />}</td>
              <td class="minor">{row.line && <Cost it={row.line.total} of={of} all={all} />}</td>
              {counted && <td>{row.line?.calls ? whole(row.line.calls) : ""}</td>}
              <td class="quiet">{row.number}</td>
              <td class="left"><Nest depth={row.loops} most={most} /><code>{row.text}</code></td>
            </tr>,
            ...row.inner.filter((line) => line.total.value).map((line) => (
              <tr key={line.id} class={"inner" + (line.hot ? " hot" : "")}>
                <td><Cost it={line.self} of={of} all={all} /></td>
                <td class="minor"><Cost it={line.total} of={of} all={all} /></td>
                {counted && <td>{line.calls ? whole(line.calls) : ""}</td>}
                <td class="quiet">{line.line}</td>
                <td class="left"><Nest depth={row.loops} most={most} />
                  <span class="quiet">{line.inlined ? line.inlined + " · " : ""}{line.file ? base(line.file) : ""} </span><code>{line.text?.trim() ?? ""}</code></td>
              </tr>
            ))])}
        </tbody>
      </table>
    </div>
  );
}

const NEAR = 12, MOST_ROWS = 600;

/** Instructions with a figure and those near them; the others are folded away unless all are wanted. */
function pick(list: Instruction[], all: boolean): (Instruction | number)[] {
  if (all || list.length <= MOST_ROWS) return list;
  const keep = new Uint8Array(list.length);
  const order = list.map((_, i) => i).filter((i) => list[i].self.value || list[i].total.value)
    .sort((a, b) => list[b].total.value - list[a].total.value).slice(0, 40);
  for (const i of order) keep.fill(1, Math.max(i - NEAR, 0), i + NEAR + 1);
  const rows: (Instruction | number)[] = [];
  for (let i = 0, hidden = 0; i < list.length; i++) {
    if (keep[i]) rows.push(list[i]);
    else if (++hidden && (i + 1 === list.length || keep[i + 1])) {
      rows.push(hidden);
      hidden = 0;
    }
    if (keep[i]) hidden = 0;
  }
  return rows;
}

function Instructions(props: { it: Annotated }) {
  const { it } = props, list = it.instructions ?? [], [whole_, setWhole] = useState(false);
  const of = it.function.total.value, all = it.function.total.share ? of / it.function.total.share : 0;
  const depth = new Map(it.loops.map((loop) => [loop.id, loop.depth])), rows = useMemo(() => pick(list, whole_), [list, whole_]);
  const most = it.loops.reduce((deep, loop) => Math.max(deep, loop.depth), 0), counted = list.some((row) => row.calls);
  const lines = list.some((row) => row.file);
  if (!list.length) return <p class="nothing">The file of this function could not be read when the page was written, so its instructions are not known.</p>;
  let last = "";
  return (
    <div class="code" tabIndex={0} role="region" aria-label="Instructions">
      <table>
        <thead><tr><th scope="col">self</th><th scope="col" class="minor">total</th>{counted && <th scope="col">calls</th>}<th scope="col">address</th>
          <th scope="col" class="left">instruction</th>{lines && <th scope="col" class="left minor">line</th>}</tr></thead>
        <tbody>
          {rows.map((row, i) => {
            if (typeof row === "number")
              return <tr key={"gap" + i} class="inner"><td colSpan={4 + (counted ? 1 : 0) + (lines ? 1 : 0)} class="left">
                <button type="button" onClick={() => setWhole(true)}>{whole(row)} instructions without samples</button></td></tr>;
            const where = row.file ? `${base(row.file)}:${row.line}` : "", fresh = where !== last;
            last = where;
            return (
              <tr key={row.address} class={row.self.value >= 0.1 * it.function.self.value && row.self.value ? "hot" : ""}>
                <td><Cost it={row.self} of={of} all={all} /></td>
                <td class="minor"><Cost it={row.total} of={of} all={all} /></td>
                {counted && <td>{row.calls ? whole(row.calls) : ""}</td>}
                <td class="quiet"><code>{address(row.address)}</code></td>
                <td class="left"><Nest depth={depth.get(row.loop) ?? 0} most={most} /><code>{row.text}</code></td>
                {lines && <td class="left quiet minor">{fresh ? where : ""}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Loops(props: { it: Annotated }) {
  const loops = props.it.loops.filter((loop) => loop.total.value > 0).slice(0, 20), of = props.it.function.total.value;
  const all = props.it.function.total.share ? of / props.it.function.total.share : 0;
  if (!loops.length) return null;
  const where = (loop: AnnotatedLoop) => loop.file && loop.first_line
    ? `${base(loop.file)}:${loop.first_line}${loop.last_line !== loop.first_line ? "–" + loop.last_line : ""}`
    : `${address(loop.start)}–${address(loop.end)}`;
  return (
    <section>
      <h2>Loops</h2>
      <table class="plain">
        <thead><tr><th scope="col" class="left">where</th><th scope="col">depth</th><th scope="col">self</th><th scope="col">total</th></tr></thead>
        <tbody>
          {loops.map((loop) => (
            <tr key={loop.id}><td class="left">{" ".repeat(2 * (loop.depth - 1))}{where(loop)}</td><td>{loop.depth}</td>
              <td><Cost it={loop.self} of={of} all={all} /></td><td><Cost it={loop.total} of={of} all={all} /></td></tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

export function SourceView(props: { context: Context }) {
  const { context } = props, { place, annotated } = context;
  const { part: wanted, fn, image } = place.options, named = annotated.find((it) => it.name === fn && (!image || it.image === image));
  const here = annotated.find((it) => it.part === wanted && (it.name === fn || !fn)) ?? named ?? annotated[0];
  const [document_, setDocument] = useState<{ part: string; it: Annotated } | null>(null);
  useEffect(() => {
    let current = true;
    if (here) void part<AnnotateDocument>(here.part).then((it) => { if (it && current) setDocument({ part: here.part, it: it.annotated }); });
    return () => { current = false; };
  }, [here?.part]);
  if (!here)
    return <Missing title="Source and instructions"><p>This page has no annotated functions: it was written with <code>--annotate 0</code>, or no
      function with a name had a sample. <code>tally export --format html --annotate 20</code> includes the 20 hottest functions.</p></Missing>;
  const choose = (part: string) => {
    const other = annotated.find((one) => one.part === part);
    return link(place, "source", { fn: other?.name, image: other?.image, part, as: place.options.as });
  };
  const it = document_ && document_.part === here.part ? document_.it : null;
  const assembly = place.options.as === "asm" || (!!it && !it.lines.length);
  return (
    <div class="view">
      <div class="bar-of-tools">
        <label>Function{" "}
          <select value={here.part} onChange={(event) => location.assign(choose(event.currentTarget.value))}>
            {annotated.map((other) => <option key={other.part} value={other.part}>{other.name}</option>)}
          </select>
        </label>
        <div class="choice" role="group" aria-label="Show">
          <button type="button" aria-pressed={!assembly} disabled={!!it && !it.lines.length} onClick={() => change(place, { as: "" })}>source</button>
          <button type="button" aria-pressed={assembly} onClick={() => change(place, { as: "asm" })}>instructions</button>
        </div>
      </div>
      {fn && here.name !== fn && <p class="note">{fn} is not among the annotated functions; this is the one with the most self time.</p>}
      <h1>{here.name} <small>{here.image}</small></h1>
      {!it && <p class="quiet">Unpacking …</p>}
      {it && (
        <>
          <p class="quiet">Self {percent(it.function.self.share)}, total {percent(it.function.total.share)} of everything; shares below are of the
            function's total. {it.function.file ?? ""}</p>
          {it.notes.map((note) => <p class="note" key={note}>{note}</p>)}
          {assembly ? <Instructions it={it} key={here.part} /> : <Lines it={it} key={here.part} />}
          <Loops it={it} />
        </>
      )}
    </div>
  );
}
