// A flame graph on a canvas, with mouse and keys.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Context, linkFunction } from "./context";
import { type Direction, Flame, type Frame } from "./flame";
import { margin, percent, points, whole } from "./format";
import { type Colour, coloursOf, css, GREY, isOwnImage } from "./palette";
import { calls, useRoom, useWidth, valueOf } from "./parts";

const LOW = 18, HIGH = 36; // pixels of a row
const FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace', CHARACTER = 7.25, LISTED = 10;

export type Colours = "image" | "difference";

function differenceOf(flame: Flame, frame: Frame): number {
  return (flame.all > 0 ? frame.value / flame.all : 0) - (flame.oldAll > 0 ? frame.old / flame.oldAll : 0);
}

/** Orange: a larger share than before, blue: a smaller one. */
function differenceColour(change: number, most: number): Colour {
  const size = most > 0 ? Math.min(Math.abs(change) / most, 1) : 0;
  return size < 0.02 ? GREY : [GREY[0], 0.02 + 0.13 * size, change > 0 ? 55 : 250];
}

/** Images with their colours, those with the most first. `rest`: what else is grey. */
export function Legend(props: { context: Context; strong?: boolean; rest?: string }) {
  const { model, functions } = props.context, seen = new Set(Array.from(functions.list, (fn) => model.imageNames[fn]));
  const list = [...coloursOf(model)].filter(([image]) => seen.has(image)), shift = props.strong ? "--strong" : "--frame";
  const own = model.imageNames.some(isOwnImage);
  const entry = (name: string, colour: Colour) =>
    <span key={name}><span class="swatch" style={`background:${css(colour, shift)}`} /> {name || "[unknown]"}</span>;
  return (
    <>
      <p class="legend">
        {list.slice(0, LISTED).map(([image, colour]) => entry(image, colour))}
        {(own || props.rest) && entry([own && "Tally itself", props.rest].filter(Boolean).join(", "), GREY)}
      </p>
      {list.length > LISTED && (
        <details class="legend-more">
          <summary>{list.length - LISTED} more {list.length - LISTED === 1 ? "image" : "images"}</summary>
          <p class="legend">{list.slice(LISTED).map(([image, colour]) => entry(image, colour))}</p>
        </details>
      )}
    </>
  );
}

interface Drawing {
  flame: Flame;
  frames: Frame[];
  found: Uint8Array | null;
  flip: boolean;
  levels: number;
  row: number; // pixels
  marked: Frame | null;
  zoomDepth: number;
  colour: (frame: Frame) => Colour;
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
  const ink = getComputedStyle(canvas).color, shift = Number(getComputedStyle(canvas).getPropertyValue("--frame")), { row } = it;
  for (const frame of it.frames) {
    const y = top(it, frame) - scrolled;
    if (y + row < 0 || y > height) continue;
    const x = frame.x0 * width, wide = (frame.x1 - frame.x0) * width;
    const dim = it.found && !it.found[frame.fn];
    pen.globalAlpha = dim ? 0.25 : frame.depth < it.zoomDepth ? 0.6 : 1;
    pen.fillStyle = css(it.colour(frame), shift);
    pen.fillRect(x, y, Math.max(wide - (wide > 3 ? 1 : 0), 0.5), row - 1);
    pen.globalAlpha = dim ? 0.6 : 1;
    if (frame === it.marked) {
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, Math.max(wide - 3, 1), row - 3);
    }
    const name = wide > 24 ? label(it.flame, frame, Math.floor((wide - 8) / CHARACTER)) : "";
    if (name) {
      pen.fillStyle = dim ? ink : "#0d0f13";
      pen.fillText(name, x + 4, y + row / 2);
    }
  }
  pen.globalAlpha = 1;
}

function top(it: Drawing, frame: Frame): number {
  return (it.flip ? it.levels - 1 - frame.depth : frame.depth) * it.row;
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
  height: number; // pixels at most; 0: what the window has left
  label: string;
}

export function Graph(props: GraphProps) {
  const { context, direction, start, colours, flip, found } = props;
  const box = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const [marked, setMarked] = useState<Frame | null>(null);
  const [hover, setHover] = useState<{ frame: Frame; x: number; y: number } | null>(null);
  const hues = coloursOf(context.model);
  const old = colours === "difference" ? context.old : null;
  const flame = useMemo(() => new Flame(context.model, context.sums, direction, start, old),
                        [context.model, context.sums, direction, start, old]);
  const frames = useMemo(() => (width ? flame.layout(props.zoom, width) : []), [flame, props.zoom.join(), width]);
  const levels = frames.reduce((most, frame) => Math.max(most, frame.depth + 1), 1);
  const left = useRoom(box), room = props.height || left;
  const row = props.height ? LOW + 2 : Math.min(Math.max(Math.floor(room / levels), LOW), HIGH), height = Math.min(levels * row, room);
  const most = useMemo(() => old ? frames.reduce((it, frame) =>
    frame.parent ? Math.max(it, Math.abs(differenceOf(flame, frame))) : it, 0) : 0, [frames, old]);
  const drawing: Drawing = {
    flame, frames, found, flip, levels, row, marked, zoomDepth: Math.min(props.zoom.length, levels - 1),
    colour: (frame) => old ? differenceColour(differenceOf(flame, frame), most)
      : (frame.fn > 0 && hues.get(context.model.imageNames[frame.fn])) || GREY,
  };
  const latest = useRef(drawing);
  latest.current = drawing;
  const redraw = () => {
    if (canvas.current && box.current) draw(canvas.current, latest.current, width, height, box.current.scrollTop);
  };

  useLayoutEffect(redraw);
  useLayoutEffect(() => setMarked(null), [frames]);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redraw);
    return () => scheme.removeEventListener("change", redraw);
  });
  useLayoutEffect(() => { if (box.current) box.current.scrollTop = flip ? box.current.scrollHeight : 0; }, [flip, levels, row]);

  const hit = (event: MouseEvent): Frame | null => {
    const area = canvas.current!.getBoundingClientRect();
    const x = (event.clientX - area.left) / width, y = event.clientY - area.top + box.current!.scrollTop;
    const level = Math.floor(y / row), depth = flip ? levels - 1 - level : level;
    return frames.find((it) => it.depth === depth && it.x0 <= x && x < it.x1) ?? null;
  };
  const show = (frame: Frame | null) => {
    setMarked(frame);
    if (!frame || !box.current) return;
    const y = top(drawing, frame), view = box.current;
    if (y < view.scrollTop) view.scrollTop = y;
    else if (y + row > view.scrollTop + height) view.scrollTop = y + row - height;
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
        <div style={`height:${levels * row}px`}>
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
      <p id="graph-keys" class="hidden">Arrow keys move, Enter zooms in, Backspace zooms out, Escape resets the zoom.</p>
      {hover && <Tip context={context} flame={flame} frame={hover.frame} old={!!old} x={hover.x} y={hover.y} />}
      <p class="detail" aria-live="polite">
        {shown ? <Sentence context={context} flame={flame} frame={shown} old={!!old} />
          : <span class="quiet">Hover over a frame or use the arrow keys for details; click or Enter zooms in, Esc resets the zoom.</span>}
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
  if (frame.self && frame.self !== frame.value) list.push(`self ${valueOf(context, frame.self)}`);
  const exact = frame.fn > 0 ? calls(context, frame.fn).text : "";
  if (exact) list.push(`${exact} ${exact === "1" ? "call" : "calls"} to the function`);
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
