// Threads over time on a canvas, a row each, below one of their process. What is drawn is made of bins: as many steps of time as two pixels show. The period that
// is chosen, the cursor and what is being dragged lie over the canvas as elements, so that moving them draws nothing anew.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Context } from "./context";
import { moment, percent, whole } from "./format";
import { type Colour, coloursOf, css, GREY } from "./palette";
import { useWidth } from "./parts";
import type { Lane, Period, Timeline } from "./timeline";

const LEAST = 34, HIGHEST = 60, GAP = 7, AXIS = 24, FONT = '12px system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif';
const SMALL = FONT.replace("12", "11");
const NARROW = 620, GUTTER = 168, INDENT = 14, BIN = 2;

/** Instead of a colour: what is not looked at. */
const NONE = 0xffff;

export interface Row {
  lanes: Lane[];
  name: string;
  threads: number[]; // one, or those of a process; none: all of the recording
  inside: boolean; // below the row of its process
}

export interface Bins {
  first: number; // step of the first bin
  wide: number; // steps of a bin
  count: number;
  sums: Float64Array; // by bin, then by colour
  colours: number;
  most: number; // the highest bin
}

interface Palette {
  branch: Uint16Array; // the number of its colour, or NONE
  list: Colour[];
}

/** What a row has in each bin of the range that is shown. */
export function fill(timeline: Timeline, row: Row, range: Period, wide: number, { branch, list }: Palette): Bins {
  const first = Math.floor(range.from / wide) * wide, count = Math.max(Math.ceil((range.to - first) / wide), 1);
  const colours = list.length, sums = new Float64Array(count * colours);
  for (const lane of row.lanes)
    for (let i = timeline.find(lane, first); i < lane.end && timeline.step[i] < first + count * wide; i++) {
      const colour = branch[timeline.branch[i]];
      if (colour !== NONE) sums[Math.floor((timeline.step[i] - first) / wide) * colours + colour] += timeline.value[i];
    }
  let most = 0;
  for (let bin = 0; bin < count; bin++) {
    let sum = 0;
    for (let i = 0; i < colours; i++) sum += sums[bin * colours + i];
    most = Math.max(most, sum);
  }
  return { first, wide, count, sums, colours, most };
}

/** 1, 2 or 5 times a power of ten, at least so much. */
function round(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((it) => it * power >= least) ?? 10);
}

interface Where {
  range: Period;
  gutter: number; // pixels left of the range, for names
  width: number; // of all
}

interface Scene extends Where {
  timeline: Timeline;
  rows: Row[];
  high: number; // pixels of a row
  all: number; // ns of the recording
  palette: Palette;
  style: CSSStyleDeclaration;
  time: boolean; // a full row of one thread is a processor; else the highest bin
  chosen: Set<number> | null;
  lives: (row: Row) => [number, number] | null; // steps
}

function place({ range, gutter, width }: Where, step: number): number {
  return gutter + ((step - range.from) / (range.to - range.from)) * (width - gutter);
}

function drawAxis(pen: CanvasRenderingContext2D, scene: Scene, height: number, quiet: string, line: string): void {
  const { timeline, range, width, all, gutter } = scene, from = timeline.ns(range.from), to = timeline.ns(range.to);
  const each = round(((to - from) * 90) / Math.max(width - gutter, 1));
  pen.textAlign = "center";
  for (let at = Math.ceil(from / each) * each; at <= to; at += each) {
    const x = Math.round(place(scene, at / timeline.stepNs)) + 0.5, text = moment(at, all, each), half = pen.measureText(text).width / 2;
    pen.fillStyle = line;
    pen.fillRect(x - 0.5, AXIS - 4, 1, height - AXIS + 4);
    pen.fillStyle = quiet;
    if (x + half <= width) pen.fillText(text, Math.max(x, half + 3), AXIS / 2 - 1);
  }
  pen.textAlign = "left";
}

/** Returns what a full row is: the highest bin, or for a single thread a processor. */
function drawRow(pen: CanvasRenderingContext2D, scene: Scene, row: Row, y: number, line: string): number {
  const { timeline, range, palette, gutter, width } = scene, shift = Number(scene.style.getPropertyValue("--strong")), bar = scene.high - GAP, wide = Math.max(1, Math.ceil(((range.to - range.from) * BIN) / (width - gutter)));
  const bins = fill(timeline, row, range, wide, palette), colours = palette.list.map((it) => css(it, shift));
  const full = scene.time && row.threads.length === 1 ? timeline.ns(wide) : bins.most || 1, life = scene.lives(row);
  pen.fillStyle = line;
  if (life) {
    const x = Math.max(place(scene, life[0]), gutter), end = Math.min(place(scene, life[1]), width);
    if (end > x) pen.fillRect(x, y + bar, end - x, 1);
  }
  for (let bin = 0; bin < bins.count; bin++) {
    const x = Math.max(place(scene, bins.first + bin * wide), gutter), end = Math.min(place(scene, bins.first + (bin + 1) * wide), width);
    for (let i = 0, at = y + bar; i < bins.colours; i++) {
      const value = bins.sums[bin * bins.colours + i];
      if (!value) continue;
      const high = Math.min((value / full) * bar, at - y);
      pen.fillStyle = colours[i];
      pen.fillRect(x, at - high, Math.max(end - x, 1), high);
      at -= high;
    }
  }
  return full / timeline.ns(wide);
}

/** What does not fit loses the end of its name, but not the number behind that. */
function shorten(pen: CanvasRenderingContext2D, name: string, room: number): string {
  if (pen.measureText(name).width <= room) return name;
  let keep = Math.max(name.lastIndexOf(" "), 1);
  const number = name.slice(keep);
  while (keep > 1 && pen.measureText(name.slice(0, keep) + "…" + number).width > room) keep--;
  return name.slice(0, keep) + "…" + number;
}

function drawName(pen: CanvasRenderingContext2D, scene: Scene, row: Row, y: number, note: string): void {
  const { gutter, width, chosen, high, style } = scene, indent = row.inside ? INDENT : 0;
  const marked = row.threads.length && row.threads.every((it) => chosen?.has(it));
  pen.font = marked ? "600 " + FONT : FONT;
  const text = shorten(pen, row.name, gutter ? gutter - 18 - indent : width / 2);
  if (!gutter) {
    pen.fillStyle = style.getPropertyValue("--back");
    pen.globalAlpha = 0.75;
    pen.fillRect(0, y - 1, pen.measureText(text).width + 8, 15);
    pen.globalAlpha = 1;
  }
  pen.fillStyle = marked ? style.getPropertyValue("--accent") : style.color;
  pen.fillText(text, gutter ? 10 + indent : 4, gutter ? y + (high - GAP) / 2 + (note ? -6 : 1) : y + 7);
  pen.font = SMALL;
  pen.fillStyle = style.getPropertyValue("--quiet");
  if (gutter && note) pen.fillText(note, 10, y + (high - GAP) / 2 + 8);
  pen.font = FONT;
}

/** "3 threads, " of a process. */
function parts(row: Row, after = ", "): string {
  return row.threads.length > 1 ? `${whole(row.lanes.length)} threads${after}` : "";
}

function draw(canvas: HTMLCanvasElement, scene: Scene, height: number, scrolled: number): void {
  const ratio = devicePixelRatio || 1, pen = canvas.getContext("2d"), { width, rows, chosen } = scene;
  if (!pen || width <= scene.gutter) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const of = (name: string) => scene.style.getPropertyValue(name);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.textBaseline = "middle";
  pen.font = FONT;
  drawAxis(pen, scene, height, of("--quiet"), of("--line"));
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, width, height - AXIS);
  pen.clip();
  rows.forEach((row, i) => {
    const y = AXIS + 4 + i * scene.high - scrolled;
    if (y + scene.high < AXIS || y > height) return;
    pen.globalAlpha = chosen && row.threads.length && !row.threads.some((it) => chosen.has(it)) ? 0.3 : 1;
    const full = drawRow(pen, scene, row, y, of("--line"));
    pen.globalAlpha = 1;
    drawName(pen, scene, row, y, row.threads.length !== 1 && scene.time ? `${parts(row)}up to ${full.toFixed(full < 9.95 ? 1 : 0)} CPUs` : parts(row, ""));
  });
  pen.restore();
}

/** The busiest functions of a row in some steps. */
function busiest(context: Context, row: Row, from: number, to: number): { samples: number; list: [string, number][] } {
  const { model, part: { focus } } = context, timeline = model.timeline!, of = context.inlines ? model.fn : model.owner;
  const values = new Map<number, number>();
  let samples = 0, all = 0;
  for (const lane of row.lanes)
    for (let i = timeline.find(lane, from); i < lane.end && timeline.step[i] < to; i++) {
      if (focus && !focus.inside[timeline.branch[i]]) continue;
      const fn = of[timeline.branch[i]];
      values.set(fn, (values.get(fn) ?? 0) + timeline.value[i]);
      samples += timeline.samples[i];
      all += timeline.value[i];
    }
  const list = [...values].sort((a, b) => b[1] - a[1]).slice(0, 3);
  return { samples, list: list.map(([fn, value]) => [model.names[fn] || "[unknown]", value / (all || 1)]) };
}

export interface LanesProps {
  context: Context;
  rows: Row[];
  counter: number; // one that has times
  range: Period; // what is shown
  all: number; // steps of the recording
  period: Period | null;
  onPeriod: (period: Period | null) => void;
  onRange: (range: Period | null) => void; // null: all of it
  onRow: (row: Row) => void;
}

interface Cursor {
  step: number;
  row: number;
}

/** Branches have the colours of their images. The last, grey, is for Tally's own and for what a search does not find in or below. */
function usePalette(context: Context): Palette {
  const { model, found, part: { focus } } = context;
  return useMemo(() => {
    const images = [...coloursOf(model)], rank = new Map(images.map(([image], i) => [image, i]));
    const branch = Uint16Array.from(model.fn, (fn) => rank.get(model.imageNames[fn]) ?? images.length);
    if (found)
      for (let i = 1, until = 0; i < model.count; i++) {
        if (found[model.fn[i]]) until = Math.max(until, model.end[i]);
        if (i >= until) branch[i] = images.length;
      }
    if (focus) focus.inside.forEach((inside, i) => { if (!inside) branch[i] = NONE; });
    return { branch, list: [...images.map((it) => it[1]), GREY] };
  }, [model, found, focus]);
}

export function Lanes(props: LanesProps) {
  const { context, rows, range, period, all } = props, { model } = context, timeline = model.timeline!;
  const box = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null), width = useWidth(box);
  const [cursor, setCursor] = useState<Cursor | null>(null), [drag, setDrag] = useState<Period | null>(null);
  const anchor = useRef<number | null>(null), pressed = useRef<{ x: number; step: number } | null>(null);
  const palette = usePalette(context), [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  const gutter = width < NARROW ? 0 : GUTTER, room = Math.max(innerHeight - 330, 240);
  const high = Math.min(Math.max(Math.floor((room - AXIS - 8) / rows.length), LEAST), HIGHEST), inside = AXIS + 8 + rows.length * high;
  const height = Math.min(inside, room);
  const wide = Math.max(1, Math.ceil(((range.to - range.from) * BIN) / Math.max(width - gutter, 1)));
  const scene = (style: CSSStyleDeclaration): Scene => ({
    style, timeline, rows, high, range, gutter, width, all: timeline.ns(all), palette, chosen: context.part.threads, time: model.counter(props.counter).unit === "ns",
    lives: (row) => life(context, row) });
  const redraw = () => { if (canvas.current && box.current) draw(canvas.current, scene(getComputedStyle(canvas.current)), height, box.current.scrollTop); };

  useLayoutEffect(redraw, [model, rows, props.counter, range.from, range.to, all, width, high, height, palette, dark, context.part.threads]);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)"), changed = () => setDark(scheme.matches);
    scheme.addEventListener("change", changed);
    return () => scheme.removeEventListener("change", changed);
  }, []);

  const clamp = (step: number) => Math.min(Math.max(step, 0), all);
  const at = (event: PointerEvent): Cursor & { x: number } => {
    const area = canvas.current!.getBoundingClientRect(), x = event.clientX - area.left;
    const step = range.from + ((x - gutter) / Math.max(width - gutter, 1)) * (range.to - range.from);
    const row = Math.floor((event.clientY - area.top - AXIS - 4 + box.current!.scrollTop) / high);
    return { x, step: Math.min(Math.max(Math.floor(step), range.from), range.to), row: Math.min(Math.max(row, 0), rows.length - 1) };
  };
  const span = (one: number, two: number): Period => ({ from: clamp(Math.min(one, two)), to: clamp(Math.max(one, two) + 1) });
  const down = (event: PointerEvent) => {
    const here = at(event);
    if (event.button || here.x < gutter) return;
    pressed.current = { x: here.x, step: here.step };
    canvas.current!.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    const here = at(event), from = pressed.current;
    canvas.current!.style.cursor = here.x < gutter ? "pointer" : "crosshair";
    setCursor({ step: here.step, row: here.row });
    if (from && Math.abs(here.x - from.x) > 3) setDrag(span(from.step, here.step));
  };
  const up = (event: PointerEvent) => {
    const here = at(event), from = pressed.current;
    pressed.current = null;
    if (!from) {
      if (here.x < gutter) props.onRow(rows[here.row]);
    } else if (drag) props.onPeriod(drag);
    else if (period) props.onPeriod(null);
    setDrag(null);
    anchor.current = null;
  };
  const zoom = (factor: number) => props.onRange(zoomed(range, all, cursor?.step ?? (range.from + range.to) / 2, factor));
  const go = (step: number, extend: boolean) => {
    const from = cursor?.step ?? range.from, to = Math.min(Math.max(step, 0), all - 1);
    setCursor({ step: to, row: cursor?.row ?? 0 });
    if (to < range.from || to >= range.to) props.onRange(moved(range, all, to - Math.round((range.to - range.from) / 2)));
    if (!extend) anchor.current = null;
    else {
      anchor.current ??= from;
      props.onPeriod(span(anchor.current, to));
    }
  };
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's: its own zoom, the page before
    const here = cursor?.step ?? range.from, row = cursor?.row ?? 0, stride = wide * (event.key.startsWith("Page") ? 20 : 2);
    const turn = (by: number) => {
      const next = Math.min(Math.max(row + by, 0), rows.length - 1), view = box.current!;
      setCursor({ step: here, row: next });
      view.scrollTop = Math.min(Math.max(view.scrollTop, (next + 1) * high + AXIS + 8 - height), next * high);
    };
    if (event.key === "ArrowRight" || event.key === "PageDown") go(here + stride, event.shiftKey);
    else if (event.key === "ArrowLeft" || event.key === "PageUp") go(here - stride, event.shiftKey);
    else if (event.key === "Home") go(0, event.shiftKey);
    else if (event.key === "End") go(all - 1, event.shiftKey);
    else if (event.key === "ArrowDown") turn(cursor ? 1 : 0);
    else if (event.key === "ArrowUp") turn(-1);
    else if (event.key === "Enter" && cursor) props.onRow(rows[row]);
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "z" && period) props.onRange(period);
    else if (event.key === "Escape") period ? props.onPeriod(null) : props.onRange(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const shown = drag ?? period, facts = cursor && rows[cursor.row] ? cursorFacts(context, rows[cursor.row], cursor.step, wide) : null;
  return (
    <div class="lanes">
      <div class="graph-box" ref={box} style={`height:${height}px`} onScroll={redraw}>
        <div style={`height:${inside}px`}>
          <div class="lanes-view" style={`width:${width}px;height:${height}px`}>
            <canvas ref={canvas} tabIndex={0} role="application" aria-label="Threads over time" aria-describedby="lanes-keys"
                    style={`width:${width}px;height:${height}px`} onKeyDown={keys} onPointerDown={down} onPointerMove={move} onPointerUp={up}
                    onPointerCancel={() => { pressed.current = null; setDrag(null); }} onPointerLeave={() => { if (!pressed.current) setCursor(null); }}
                    onWheel={(event) => { if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8); } }} />
            {shown && <Shade where={{ range, gutter, width }} period={shown} />}
            {cursor && <div class="lanes-cursor" style={`left:${Math.min(Math.max(place({ range, gutter, width }, cursor.step), gutter), width - 1)}px`} />}
          </div>
        </div>
      </div>
      <p id="lanes-keys" class="hidden">Arrow keys move the cursor and go from row to row, with Shift they select a time range; Enter filters by this
        thread or process, plus and minus zoom, z zooms to the selection, Escape clears the selection, then the zoom.</p>
      <p class="detail" aria-live="polite">
        {facts ?? <span class="quiet">Drag to select a time range, which all views are then limited to; click to clear it. Keys: arrows, with Shift
          to select, + and − to zoom, Esc.</span>}
      </p>
    </div>
  );
}

/** What is not of the period. */
function Shade(props: { where: Where; period: Period }) {
  const { where, period } = props, { gutter, width } = where, x = (step: number) => Math.min(Math.max(place(where, step), gutter), width);
  const from = x(period.from), to = x(period.to);
  return (
    <>
      <div class="lanes-shade" style={`left:${gutter}px;width:${from - gutter}px`} />
      <div class="lanes-shade" style={`left:${to}px;width:${width - to}px`} />
    </>
  );
}

function cursorFacts(context: Context, row: Row, step: number, wide: number) {
  const timeline = context.model.timeline!, from = Math.floor(step / wide) * wide, { samples, list } = busiest(context, row, from, from + wide);
  const all = Number(context.model.data.meta.duration_ns ?? 0) || timeline.ns(timeline.steps);
  return (
    <>
      <b>{row.name}</b> <span class="quiet">{parts(row)}at {moment(timeline.ns(from), all, timeline.ns(wide))}</span>
      {samples ? ` · ${whole(samples)} ${samples === 1 ? "sample" : "samples"}` : " · nothing sampled"}
      {list.map(([name, share]) => <span key={name}> · <span class="name-inline">{name}</span>{list.length > 1 ? " " + percent(share) : ""}</span>)}
    </>
  );
}

function life(context: Context, row: Row): [number, number] | null {
  if (!row.threads.length) return null;
  const { data, timeline } = context.model, process = data.processes[data.threads.process[row.threads[0]]], { stepNs } = timeline!;
  const end = process?.end_ns || Number(data.meta.duration_ns ?? 0);
  return process && end > process.start_ns ? [process.start_ns / stepNs, end / stepNs] : null;
}

/** A range around `at`, `factor` times as long; null: everything. */
export function zoomed(range: Period, all: number, at: number, factor: number): Period | null {
  const long = Math.max(Math.round((range.to - range.from) * factor), 16);
  if (long >= all) return null;
  return moved({ from: 0, to: long }, all, Math.round(at - ((at - range.from) / (range.to - range.from)) * long));
}

export function moved(range: Period, all: number, from: number): Period {
  const long = range.to - range.from, start = Math.min(Math.max(from, 0), Math.max(all - long, 0));
  return { from: start, to: start + long };
}
