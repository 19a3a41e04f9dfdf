import { useMemo } from "preact/hooks";
import { chosen, type Context, hottest } from "../context";
import { type Direction, directionOf, matching } from "../flame";
import { base, percent } from "../format";
import { Graph, Legend } from "../graph";
import { Missing, Nameless, valueOf } from "../parts";
import { change, zoomOf } from "../state";

const MODES: [Direction, string, string][] = [
  ["down", "top-down", "call tree: from the outermost caller to the callees"],
  ["up", "bottom-up", "inverted call tree: from the function with self time to its callers"],
  ["function", "by function", "all calls to one function merged, with its callees"],
];

export function FlameView(props: { context: Context }) {
  const { context } = props, { place, model, found } = context, options = place.options, direction = directionOf(options.mode);
  const named = chosen(model, place);
  const start = direction !== "function" ? -1 : named > 0 ? named : hottest(model, context.functions, context.part.threads);
  const zoom = useMemo(() => zoomOf(place), [options.z]);
  const match = useMemo(() => (found ? matching(model, context.sums, found) : null), [model, context.sums, found]);
  const difference = options.colour === "difference" && !!context.old;
  if (context.sums.all <= 0) return <Missing title="Flame graph"><p>This counter has no figures in what is selected.</p></Missing>;
  return (
    <div class="flame">
      <h1 class="hidden">Flame graph</h1>
      <div class="bar-of-tools">
        <div class="choice" role="group" aria-label="Direction">
          {MODES.map(([mode, text, hint]) => (
            <button key={mode} type="button" title={hint} aria-pressed={mode === direction}
                    onClick={() => change(place, { mode: mode === "down" ? "" : mode, z: "" })}>{text}</button>
          ))}
        </div>
        {match !== null && <span class="number" role="status">matched: {percent(match / (context.sums.all || 1))} · {valueOf(context, match)}</span>}
        <span class="space" />
        {context.old && (
          <div class="choice" role="group" aria-label="Colours">
            <button type="button" aria-pressed={!difference} onClick={() => change(place, { colour: "" })}>by image</button>
            <button type="button" aria-pressed={difference} onClick={() => change(place, { colour: "difference" })}>by difference</button>
          </div>
        )}
        <div class="choice" role="group" aria-label="Layout">
          <button type="button" title="the root at the top" aria-pressed={options.flip !== "1"} onClick={() => change(place, { flip: "" })}>icicle</button>
          <button type="button" title="the root at the bottom" aria-pressed={options.flip === "1"} onClick={() => change(place, { flip: "1" })}>flame</button>
        </div>
        <button type="button" disabled={!zoom.length} onClick={() => change(place, { z: "" })}>reset zoom</button>
      </div>
      {direction === "function" && <p class="quiet">All calls to <b>{model.names[start]}</b> merged, with their callees. Another function is
        chosen in the list of functions.</p>}
      <Graph context={context} direction={direction} start={start} zoom={zoom} found={found} flip={options.flip === "1"}
             colours={difference ? "difference" : "image"} height={0} key={direction}
             onZoom={(path) => change(place, { z: path.join(".") })} label={`Flame graph, ${direction}`} />
      {difference ? <p class="legend"><span><span class="swatch less" /> smaller share than in {base(context.oldFile)}</span>
        <span><span class="swatch more" /> larger share</span></p> : <Legend context={context} />}
      <Nameless context={context} functions={context.functions.list} />
    </div>
  );
}
