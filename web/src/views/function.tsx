// One function: who calls it and what it calls, by samples and by exact calls.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { chosen, type Context, hottest, linkFunction, quantity } from "../context";
import { amount, margin, percent, whole } from "../format";
import { Graph } from "../graph";
import { combine, type Edge } from "../model";
import { calls, Figure, FunctionLink, Missing, Nameless, rowOf, Share, valueOf } from "../parts";
import { change, link } from "../state";
import { type Column, Table } from "../table";

interface Neighbour {
  fn: number; // 0: not known, or the outermost end
  value: number; // of the time, what goes along this way
  calls: number; // exact; -1: none were counted
}

/** What is on stacks right above and right below a function. A stack on which it recurs counts for each way once. */
function neighbours(context: Context, fn: number): { callers: Map<number, number>; callees: Map<number, number> } {
  const { model, sums, inlines } = context, of = inlines ? model.fn : model.owner;
  const callers = new Map<number, number>(), callees = new Map<number, number>();
  const add = (map: Map<number, number>, key: number, value: number) => map.set(key, combine(sums.peak, map.get(key) ?? 0, value));
  // Ways that are open on the present stack: a branch counts for one only if no branch above it does.
  const last = new Map<string, number>();
  const open = (way: string, branch: number) => {
    const end = last.get(way) ?? 0;
    if (branch < end) return false;
    last.set(way, model.end[branch]);
    return true;
  };
  for (let i = 1; i < model.count; i++) {
    const up = model.parent[i], inside = up > 0 && of[up] === of[i] && model.fn[i] !== of[i];
    if (inside || !sums.total[i]) continue; // an inlined part of the same function
    if (of[i] === fn && open("<" + of[up], i)) add(callers, up > 0 ? of[up] : 0, sums.total[i]);
    if (up > 0 && of[up] === fn && open(">" + of[i], i)) add(callees, of[i], sums.total[i]);
  }
  return { callers, callees };
}

function join(ways: Map<number, number>, edges: Edge[], side: "caller" | "callee", counted: boolean): Neighbour[] {
  const all = new Map<number, Neighbour>();
  for (const [fn, value] of ways) all.set(fn, { fn, value, calls: counted ? 0 : -1 });
  for (const edge of edges) {
    const known = all.get(edge[side]);
    if (known) known.calls = Math.max(known.calls, 0) + edge.calls;
    else all.set(edge[side], { fn: edge[side], value: 0, calls: edge.calls });
  }
  return [...all.values()].sort((a, b) => b.value - a.value || b.calls - a.calls || a.fn - b.fn);
}

function nameOf(context: Context, fn: number, outside: string): string {
  return fn > 0 ? context.model.names[fn] || "[unknown]" : outside;
}

function Ways(props: { context: Context; title: string; rows: Neighbour[]; outside: string; most: number }) {
  const { context, rows } = props, { model, sums, counter } = context;
  const columns: Column<Neighbour>[] = [
    { key: "value", title: "share", order: (row) => row.value,
      cell: (row) => (row.value ? <Share it={model.interval(counter, sums, row.value)} most={props.most} /> : "") }];
  if (model.callsCounter)
    columns.push({ key: "calls", title: "calls", hint: model.callsSaid, order: (row) => row.calls, cell: (row) => (row.calls > 0 ? whole(row.calls) : "") });
  columns.push({ key: "name", title: "function", left: true, wide: true, order: (row) => nameOf(context, row.fn, props.outside),
                 cell: (row) => row.fn > 0 ? <FunctionLink context={context} fn={row.fn} /> : <span class="quiet">{props.outside}</span> });
  return (
    <section>
      <h2>{props.title}</h2>
      <Table name={props.title} columns={columns} rows={rows} by="value" short empty="None known." marked={(row) => !!context.found?.[row.fn]} />
    </section>
  );
}

// --- the drawing: callers left, callees right ---

const BOX = 230, STEP = 40, HIGH = 30, MIDDLE = 250, SHOWN = 7;

function Box(props: { context: Context; fn: number; x: number; y: number; text: string; note: string; here?: boolean }) {
  const { x, y } = props, short = props.text.length > 27 ? props.text.slice(0, 17) + "…" + props.text.slice(-9) : props.text;
  const box = (
    <g class={props.here ? "box here" : "box"}>
      <title>{props.text}</title>
      <rect x={x} y={y} width={BOX} height={HIGH} rx="4" />
      <text x={x + 8} y={y + 13}>{short}</text>
      <text class="note" x={x + 8} y={y + 25}>{props.note}</text>
    </g>
  );
  return props.fn > 0 && !props.here ? <a href={linkFunction(props.context, props.fn)}>{box}</a> : box;
}

function Drawing(props: { context: Context; fn: number; callers: Neighbour[]; callees: Neighbour[] }) {
  const { context, fn } = props, { model, sums, functions } = context;
  const left = props.callers.slice(0, SHOWN), right = props.callees.slice(0, SHOWN);
  const rows = Math.max(left.length, right.length, 1), height = rows * STEP;
  const most = Math.max(...left.map((it) => it.value), ...right.map((it) => it.value), 1);
  const mid = height / 2, note = (it: Neighbour) => [it.value ? percent(it.value / (sums.all || 1)) : "",
    it.calls > 0 ? whole(it.calls) + (it.calls === 1 ? " call" : " calls") : ""].filter(Boolean).join(" · ");
  const width = 3 * BOX + 2 * (MIDDLE - 130), between = (width - 3 * BOX) / 2;
  const x1 = BOX + between, x2 = 2 * BOX + 2 * between;
  const place = (list: Neighbour[], i: number) => mid - (list.length * STEP) / 2 + i * STEP + STEP / 2;
  const arrow = (from: number, y: number, to: number, toY: number, it: Neighbour) => (
    <path class="way" d={`M${from},${y} C${(from + to) / 2},${y} ${(from + to) / 2},${toY} ${to},${toY}`}
          style={`stroke-width:${Math.max(1, (8 * it.value) / most)}`} />
  );
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => { if (box.current) box.current.scrollLeft = (width - box.current.clientWidth) / 2; }, [fn]);
  return (
    <div class="drawing" tabIndex={0} role="region" aria-label="Call graph" ref={box}>
      <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="group"
           aria-label={`Callers and callees of ${model.names[fn]}`}>
        {left.map((it, i) => arrow(BOX, place(left, i), x1, mid, it))}
        {right.map((it, i) => arrow(x1 + BOX, mid, x2, place(right, i), it))}
        {left.map((it, i) => <Box key={it.fn} context={context} fn={it.fn} x={0} y={place(left, i) - HIGH / 2}
                                  text={nameOf(context, it.fn, "outside")} note={note(it)} />)}
        {right.map((it, i) => <Box key={it.fn} context={context} fn={it.fn} x={x2} y={place(right, i) - HIGH / 2}
                                   text={nameOf(context, it.fn, "not known")} note={note(it)} />)}
        <Box context={context} fn={fn} x={x1} y={mid - HIGH / 2} here text={model.names[fn]}
             note={percent(functions.total[fn] / (sums.all || 1)) + " total, " + percent(functions.self[fn] / (sums.all || 1)) + " self"} />
      </svg>
    </div>
  );
}

export function FunctionView(props: { context: Context }) {
  const { context } = props, { model, sums, functions, counter, place } = context;
  const wanted = chosen(model, place), fn = wanted > 0 ? wanted : hottest(model, functions, context.part.threads);
  const ways = useMemo(() => (fn > 0 ? neighbours(context, fn) : null), [sums, fn, context.inlines]);
  const edges = useMemo(() => model.edges(context.part.threads), [model, context.part.threads]);
  const zoom = (key: string) => (place.options[key] ? place.options[key].split(".").map(Number) : []);
  if (fn <= 0 || !ways) return <Missing title="Callers/callees"><p>No function has a figure of this counter in what is selected.</p></Missing>;
  const counted = model.callsCounter > 0 && !context.part.period && !context.part.focus;
  const callers = join(ways.callers, edges.filter((it) => it.callee === fn), "caller", counted);
  const callees = join(ways.callees, edges.filter((it) => it.caller === fn), "callee", counted);
  const named = { fn: model.names[fn], image: model.imageNames[fn] };
  const self = model.interval(counter, sums, functions.self[fn]), total = model.interval(counter, sums, functions.total[fn]);
  const row = rowOf(context, fn), exact = calls(context, fn);
  const annotated = context.annotated.find((it) => it.name === model.names[fn] && it.image === model.imageNames[fn]);
  const timed = context.latency?.rows.some((it) => it.function === model.names[fn] && (it.image ?? "") === model.imageNames[fn]);
  const most = Math.max(...[...callers, ...callees].map((it) => model.interval(counter, sums, it.value).high), 0.001);
  return (
    <div class="view">
      {place.options.fn !== undefined && wanted <= 0 && <p class="warning">There is no function {place.options.fn} here; this is the hottest function.</p>}
      <h1>{model.names[fn]} <small>{model.imageNames[fn]}</small></h1>
      <Nameless context={context} functions={[fn]} />
      {model.data.functions.file[fn] && <p class="quiet">{model.data.functions.file[fn]}</p>}
      <dl class="figures">
        <Figure title={"self " + quantity(context)} note={valueOf(context, functions.self[fn])}>{percent(self.share)} <small>{self.high > self.low ? margin(self.low, self.high) : ""}</small></Figure>
        <Figure title={"total " + quantity(context)} note={valueOf(context, functions.total[fn])}>{percent(total.share)} <small>{total.high > total.low ? margin(total.low, total.high) : ""}</small></Figure>
        {exact.text && <Figure title="calls" note={row?.calls_complete === false ? "lower bound: some may not have been counted" : row?.recursive_calls ? "entering + recursive" : model.callsSaid}>{exact.text}</Figure>}
        {row?.ns_per_call && <Figure title="time per call" note={`between ${amount(row.ns_per_call.low, "ns")} and ${amount(row.ns_per_call.high, "ns")}`}>
          {amount(row.ns_per_call.value, "ns")}</Figure>}
      </dl>
      <p>
        {annotated && <><a class="button" href={link(place, "source", { ...named, part: annotated.part })}>Source and instructions</a>{" "}</>}
        <a class="button" href={link(place, "flame", { ...named, mode: "function", z: "" })}>Flame graph</a>
        {timed && <>{" "}<a class="button" href={linkFunction(context, fn, "latency")}>Latency</a></>}
      </p>
      <h2>Call graph</h2>
      <Drawing context={context} fn={fn} callers={callers} callees={callees} />
      {!model.callsCounter && <p class="quiet">Calls were not counted: <code>tally record --calls</code> counts every call, exactly.</p>}
      <div class="pair">
        <Ways context={context} title="Callers" rows={callers} outside="outside" most={most} />
        <Ways context={context} title="Callees" rows={callees} outside="not known" most={most} />
      </div>
      {functions.total[fn] > 0 && (
        <>
          <h2>Callers, flame graph</h2>
          <Graph context={context} direction="up" start={fn} zoom={zoom("zu")} found={context.found} flip={true} colours="image" height={260}
                 onZoom={(path) => change(place, { zu: path.join(".") })} label="Flame graph of the callers" />
          <h2>Callees, flame graph</h2>
          <Graph context={context} direction="function" start={fn} zoom={zoom("zd")} found={context.found} flip={false} colours="image" height={260}
                 onZoom={(path) => change(place, { zd: path.join(".") })} label="Flame graph of the callees" />
        </>
      )}
    </div>
  );
}
