// A flame graph on a canvas, with mouse and keys.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Context, linkFunction } from "./context";
import { type Direction, Flame, type Frame } from "./flame";
import { margin, percent, points, whole } from "./format";
import { WHOLE } from "./model";
import { useWidth, valueOf } from "./parts";

const ROW = 20, FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace', CHARACTER = 7.25;
const HUES = [255, 145, 60, 310, 195, 95, 25, 340, 225, 170, 280, 120];

export type Colours = "image" | "difference";

/** Chroma and hue of a colour. Images have hues in the order of their weight; what the kernel does is grey. */
export function useHues(context: Context): Map<string, string> {
  const { model, counter } = context;
  return useMemo(() => { // of the whole recording, so that a file keeps its colour
    const weight = new Map<string, number>(), hues = new Map<string, string>(), functions = model.functions(counter, WHOLE, false);
    for (const fn of functions.list)
      weight.set(model.imageNames[fn], (weight.get(model.imageNames[fn]) ?? 0) + functions.self[fn]);
    [...weight].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).forEach(([image], i) =>
      hues.set(image, image.startsWith("[") ? "0.01 250"
        : `${i < HUES.length ? 0.09 : 0.04} ${HUES[i % HUES.length]}`));
    return hues;
  }, [model, counter]);
}

function differenceOf(flame: Flame, frame: Frame): number {
  return (flame.all > 0 ? frame.value / flame.all : 0) - (flame.oldAll > 0 ? frame.old / flame.oldAll : 0);
}

/** Orange: a larger share than before, blue: a smaller one. */
function differenceColour(change: number, most: number): string {
  const size = most > 0 ? Math.min(Math.abs(change) / most, 1) : 0;
  return size < 0.02 ? "0.005 250" : `${0.02 + 0.13 * size} ${change > 0 ? 55 : 250}`;
}

/** The files that stand out most, with their colours. */
export function Legend(props: { context: Context; strong?: boolean }) {
  const hues = useHues(props.context);
  return (
    <p class="legend">
      {[...hues].slice(0, 8).map(([image, colour]) => (
        <span key={image}><span class="swatch" style={`background:oklch(${props.strong ? "var(--strong)" : "var(--frame)"} ${colour})`} /> {image || "not known"}</span>
      ))}
    </p>
  );
}

interface Drawing {
  flame: Flame;
  frames: Frame[];
  found: Uint8Array | null;
  flip: boolean;
  levels: number;
  marked: Frame | null;
  zoomDepth: number;
  colour: (frame: Frame) => string;
}

function shorten(name: string, room: number): string {
  if (name.length <= room) return name;
  if (room < 5) return room < 2 ? "" : name.slice(0, room - 1) + "…";
  const tail = Math.floor((room - 1) / 3);
  return name.slice(0, room - 1 - tail) + "…" + name.slice(-tail);
}

function draw(canvas: HTMLCanvasElement, it: Drawing, width: number, height: number, scrolled: number): void {
  const ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
  if (!pen) return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = FONT;
  pen.textBaseline = "middle";
  const ink = getComputedStyle(canvas).color, light = matchMedia("(prefers-color-scheme: dark)").matches ? 0.7 : 0.82;
  for (const frame of it.frames) {
    const y = top(it, frame) - scrolled;
    if (y + ROW < 0 || y > height) continue;
    const x = frame.x0 * width, wide = (frame.x1 - frame.x0) * width;
    const dim = it.found && !it.found[frame.fn];
    pen.globalAlpha = dim ? 0.25 : frame.depth < it.zoomDepth ? 0.6 : 1;
    pen.fillStyle = `oklch(${light} ${it.colour(frame)})`;
    pen.fillRect(x, y, Math.max(wide - (wide > 3 ? 1 : 0), 0.5), ROW - 1);
    pen.globalAlpha = dim ? 0.6 : 1;
    if (frame === it.marked) {
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, Math.max(wide - 3, 1), ROW - 3);
    }
    const name = wide > 24 ? label(it.flame, frame, Math.floor((wide - 8) / CHARACTER)) : "";
    if (name) {
      pen.fillStyle = dim ? ink : "#0d0f13";
      pen.fillText(name, x + 4, y + ROW / 2);
    }
  }
  pen.globalAlpha = 1;
}

function top(it: Drawing, frame: Frame): number {
  return (it.flip ? it.levels - 1 - frame.depth : frame.depth) * ROW;
}

/** A name cut to the room there is; of a place without a name the address is kept. */
function label(flame: Flame, frame: Frame, room: number): string {
  const name = title(flame, frame), at = name.lastIndexOf("+0x");
  return at > 0 && name.length > room ? shorten(name.slice(at), room) : shorten(name, room);
}

function title(flame: Flame, frame: Frame): string {
  return frame.fn > 0 ? flame.model.names[frame.fn] || "[unknown]" : "all";
}

export interface GraphProps {
  context: Context;
  direction: Direction;
  start: number; // function on top, -1: everything
  zoom: number[];
  onZoom: (path: number[]) => void;
  colours: Colours;
  flip: boolean;
  found: Uint8Array | null;
  height: number; // pixels at most
  label: string;
}

export function Graph(props: GraphProps) {
  const { context, direction, start, colours, flip, found } = props;
  const box = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const [marked, setMarked] = useState<Frame | null>(null);
  const [hover, setHover] = useState<{ frame: Frame; x: number; y: number } | null>(null);
  const hues = useHues(context);
  const old = colours === "difference" ? context.old : null;
  const flame = useMemo(() => new Flame(context.model, context.sums, direction, start, old),
                        [context.model, context.sums, direction, start, old]);
  const frames = useMemo(() => (width ? flame.layout(props.zoom, width) : []), [flame, props.zoom.join(), width]);
  const levels = frames.reduce((most, frame) => Math.max(most, frame.depth + 1), 1);
  const height = Math.min(levels * ROW, props.height);
  const most = useMemo(() => old ? frames.reduce((it, frame) =>
    frame.parent ? Math.max(it, Math.abs(differenceOf(flame, frame))) : it, 0) : 0, [frames, old]);
  const drawing: Drawing = {
    flame, frames, found, flip, levels, marked, zoomDepth: Math.min(props.zoom.length, levels - 1),
    colour: (frame) => old ? differenceColour(differenceOf(flame, frame), most)
      : (frame.fn > 0 && hues.get(context.model.imageNames[frame.fn])) || "0.01 250",
  };
  const latest = useRef(drawing);
  latest.current = drawing;
  const redraw = () => {
    if (canvas.current && box.current) draw(canvas.current, latest.current, width, height, box.current.scrollTop);
  };

  useLayoutEffect(redraw);
  useEffect(() => setMarked(null), [frames]);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redraw);
    return () => scheme.removeEventListener("change", redraw);
  });
  useEffect(() => { if (box.current) box.current.scrollTop = flip ? box.current.scrollHeight : 0; }, [flip, levels]);

  const hit = (event: MouseEvent): Frame | null => {
    const area = canvas.current!.getBoundingClientRect();
    const x = (event.clientX - area.left) / width, y = event.clientY - area.top + box.current!.scrollTop;
    const level = Math.floor(y / ROW), depth = flip ? levels - 1 - level : level;
    return frames.find((it) => it.depth === depth && it.x0 <= x && x < it.x1) ?? null;
  };
  const show = (frame: Frame | null) => {
    setMarked(frame);
    if (!frame || !box.current) return;
    const y = top(drawing, frame), view = box.current;
    if (y < view.scrollTop) view.scrollTop = y;
    else if (y + ROW > view.scrollTop + height) view.scrollTop = y + ROW - height;
  };
  const zoomTo = (frame: Frame) => props.onZoom(Flame.path(frame));
  const keys = (event: KeyboardEvent) => {
    const at = marked ?? frames[0], inner = flip ? "ArrowUp" : "ArrowDown", outer = flip ? "ArrowDown" : "ArrowUp";
    const beside = (step: number) => {
      const row = frames.filter((it) => it.depth === at.depth).sort((a, b) => a.x0 - b.x0);
      return row[row.indexOf(at) + step] ?? at;
    };
    let next: Frame | null | undefined;
    if (event.key === inner) next = marked ? frames.find((it) => it.parent === at) ?? at : at;
    else if (event.key === outer) next = at.parent ?? at;
    else if (event.key === "ArrowRight") next = beside(1);
    else if (event.key === "ArrowLeft") next = beside(-1);
    else if (event.key === "Home") next = frames[0];
    else if (event.key === "Enter" && marked) zoomTo(marked);
    else if (event.key === "Escape") props.onZoom([]);
    else if (event.key === "Backspace") props.onZoom(props.zoom.slice(0, -1));
    else return;
    if (next) show(next);
    event.preventDefault();
  };

  const shown = hover?.frame ?? marked;
  return (
    <div class="graph">
      <div class="graph-box" ref={box} style={`height:${height}px`} onScroll={redraw}>
        <div style={`height:${levels * ROW}px`}>
          <canvas ref={canvas} tabIndex={0} role="application" aria-label={props.label} aria-describedby="graph-keys"
                  style={`width:${width}px;height:${height}px`} onKeyDown={keys}
                  onMouseMove={(event) => {
                    const frame = hit(event);
                    canvas.current!.style.cursor = frame ? "pointer" : "default";
                    setHover(frame && { frame, x: event.clientX, y: event.clientY });
                  }}
                  onMouseLeave={() => setHover(null)}
                  onClick={(event) => { const frame = hit(event); if (frame) { setHover(null); zoomTo(frame); } }} />
        </div>
      </div>
      <p id="graph-keys" class="hidden">Arrows move, Enter zooms, Backspace goes out, Escape shows all.</p>
      {hover && <Tip context={context} flame={flame} frame={hover.frame} old={!!old} x={hover.x} y={hover.y} />}
      <p class="detail" aria-live="polite">
        {shown ? <Sentence context={context} flame={flame} frame={shown} old={!!old} />
          : <span class="quiet">Point at a frame, or use the arrow keys; a click or Enter zooms, Esc shows all again.</span>}
      </p>
    </div>
  );
}

interface Shown {
  context: Context;
  flame: Flame;
  frame: Frame;
  old: boolean;
}

function facts({ context, flame, frame, old }: Shown): string[] {
  const it = context.model.interval(context.counter, context.sums, frame.value);
  const list = [`${valueOf(context, frame.value)} · ${percent(it.share)}${it.high > it.low ? " " + margin(it.low, it.high) : ""}`];
  if (frame.samples && !context.model.counter(context.counter).exact) list.push(`${whole(frame.samples)} samples`);
  if (frame.self && frame.self !== frame.value) list.push(`${valueOf(context, frame.self)} itself`);
  if (old) list.push(`${points(differenceOf(flame, frame))} points against ${percent(frame.old / (flame.oldAll || 1))}`);
  return list;
}

function Sentence(props: Shown) {
  const { context, flame, frame } = props, name = title(flame, frame);
  return (
    <>
      {frame.fn > 0 && context.model.isCode(frame.fn) ? <a href={linkFunction(context, frame.fn)}>{name}</a> : <b>{name}</b>}
      {frame.fn > 0 && <span class="quiet"> {context.model.imageNames[frame.fn]}</span>}
      {facts(props).map((it) => <span key={it}> · {it}</span>)}
    </>
  );
}

function Tip(props: Shown & { x: number; y: number }) {
  const left = Math.min(props.x + 12, innerWidth - 320), over = props.y > innerHeight - 120;
  return (
    <div class="tip" aria-hidden="true"
         style={`left:${Math.max(left, 4)}px;${over ? `bottom:${innerHeight - props.y + 12}px` : `top:${props.y + 16}px`}`}>
      <b>{title(props.flame, props.frame)}</b>
      {props.frame.fn > 0 && <span class="quiet">{props.context.model.imageNames[props.frame.fn]}</span>}
      {facts(props).map((it) => <span key={it}>{it}</span>)}
    </div>
  );
}
