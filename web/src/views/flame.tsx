import { useMemo } from "preact/hooks";
import { chosen, type Context, hottest } from "../context";
import { type Direction, matching, search } from "../flame";
import { base, percent } from "../format";
import { Graph, Legend } from "../graph";
import { Missing, valueOf } from "../parts";
import { change, useWords } from "../state";

const MODES: [Direction, string, string][] = [
  ["down", "top-down", "from the outermost function to what it calls"],
  ["up", "bottom-up", "from where the time went to who called that"],
  ["function", "by function", "all calls of one function put together"],
];

export function FlameView(props: { context: Context }) {
  const { context } = props, { place, model } = context, options = place.options;
  const direction = MODES.some((it) => it[0] === options.mode) ? (options.mode as Direction) : "down";
  const [words, type] = useWords(place);
  const found = useMemo(() => (words.trim() ? search(model, words) : null), [model, words]);
  const start = direction === "function" ? Math.max(chosen(context), -1) : -1;
  const top = direction === "function" && start < 0 ? hottest(context) : start;
  const zoom = useMemo(() => (options.z ? options.z.split(".").map(Number) : []), [options.z]);
  const match = useMemo(() => (found ? matching(model, context.sums, found) : null), [model, context.sums, found]);
  const difference = options.colour === "difference" && !!context.old;
  if (context.sums.all <= 0) return <Missing title="Flame graph"><p>There is nothing to draw of this counter in what was chosen.</p></Missing>;
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
        <input id="search" type="search" placeholder="Search (/)" aria-label="Search functions" value={words}
               onInput={(event) => type(event.currentTarget.value)} />
        {match !== null && <span class="number" role="status">{percent(match / (context.sums.all || 1))} in or below · {valueOf(context, match)}</span>}
        <span class="space" />
        {context.old && (
          <div class="choice" role="group" aria-label="Colours">
            <button type="button" aria-pressed={!difference} onClick={() => change(place, { colour: "" })}>by file</button>
            <button type="button" aria-pressed={difference} onClick={() => change(place, { colour: "difference" })}>by difference</button>
          </div>
        )}
        <button type="button" aria-pressed={options.flip === "1"} onClick={() => change(place, { flip: options.flip ? "" : "1" })}>invert</button>
        <button type="button" disabled={!zoom.length} onClick={() => change(place, { z: "" })}>show all</button>
      </div>
      {direction === "function" && <p class="quiet">All calls of <b>{model.names[top]}</b> put together, and what they call. Choose
        another function in the list of functions.</p>}
      <Graph context={context} direction={direction} start={top} zoom={zoom} found={found} flip={options.flip === "1"}
             colours={difference ? "difference" : "image"} height={Math.max(innerHeight - 260, 300)}
             onZoom={(path) => change(place, { z: path.join(".") })} label={`Flame graph, ${direction}`} />
      {difference ? <p class="legend"><span><span class="swatch less" /> smaller share than in {base(context.oldFile)}</span>
        <span><span class="swatch more" /> larger share</span></p> : <Legend context={context} />}
    </div>
  );
}
