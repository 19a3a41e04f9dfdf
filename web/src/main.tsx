import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import "./style.css";
import type { Context } from "./context";
import { type AnnotatedList, type DiffDocument, type FlatDocument, type LossesDocument, part, type ProfileData } from "./data";
import { matchFunctions, type Old } from "./flame";
import { Model } from "./model";
import { Missing } from "./parts";
import { change, link, usePlace } from "./state";
import { CandidatesView } from "./views/candidates";
import { FlameView } from "./views/flame";
import { FunctionView } from "./views/function";
import { FunctionsView } from "./views/functions";
import { HeapView } from "./views/heap";
import { Overview } from "./views/overview";
import { SourceView } from "./views/source";
import { ThreadsView } from "./views/threads";

export interface Annotated {
  name: string;
  image: string;
  part: string;
}

interface Loaded {
  model: Model;
  oldModel: Model | null;
  losses: LossesDocument | null;
  diff: DiffDocument | null;
  annotated: Annotated[];
}

const VIEWS: [string, string, (props: { context: Context }) => preact.JSX.Element | null][] = [
  ["overview", "Overview", Overview],
  ["flame", "Flame graph", FlameView],
  ["functions", "Functions", FunctionsView],
  ["function", "Callers", FunctionView],
  ["source", "Source", SourceView],
  ["threads", "Threads", ThreadsView],
  ["candidates", "Candidates", CandidatesView],
  ["heap", "Memory", HeapView],
];

async function load(): Promise<Loaded> {
  const data = await part<ProfileData>("profile");
  if (!data) throw new Error("There is no profile in this file. tally export --format html writes one that has it.");
  const [flat, old, losses, diff, list] = await Promise.all([
    part<FlatDocument>("flat"), part<ProfileData>("against"), part<LossesDocument>("losses"), part<DiffDocument>("diff"),
    part<AnnotatedList>("annotated")]);
  return { model: new Model(data, flat), oldModel: old && new Model(old, null), losses, diff, annotated: list?.functions ?? [] };
}

function useContext(loaded: Loaded): Context {
  const place = usePlace(), { model, oldModel } = loaded, options = place.options;
  const counter = model.counterNamed(options.counter ?? ""), inlines = options.inlines === "1";
  const threads = useMemo(() => {
    const numbers = (options.threads ?? "").split(".").filter(Boolean).map(Number);
    return numbers.length ? new Set(numbers) : null;
  }, [options.threads]);
  const match = useMemo(() => (oldModel ? matchFunctions(model, oldModel) : null), [model, oldModel]);
  const sums = useMemo(() => model.sums(counter, threads), [model, counter, threads]);
  const functions = useMemo(() => model.functions(counter, threads, inlines), [model, counter, threads, inlines]);
  // The threads of the earlier profile are others: what some of these did is compared with nothing.
  const old = useMemo((): Old | null => {
    const same = oldModel && !threads ? oldModel.data.counters.findIndex((it) => it.name === model.counter(counter)?.name) + 1 : 0;
    return oldModel && match && same ? { model: oldModel, sums: oldModel.sums(same, null), fn: match } : null;
  }, [oldModel, match, counter, threads]);
  const diff = loaded.diff?.counter === model.counter(counter)?.name && !threads && !inlines ? loaded.diff : null;
  return { model, place, counter, threads, inlines, sums, functions, old, losses: loaded.losses, diff,
           oldFile: oldModel?.data.file ?? "", annotated: loaded.annotated, unit: model.counter(counter)?.unit ?? "" };
}

function keys(event: KeyboardEvent): void {
  const at = event.target as HTMLElement, typing = /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing) at.blur();
  else if (typing) return;
  else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search")?.focus();
  } else if (/^[1-8]$/.test(event.key)) (document.querySelectorAll("nav a")[Number(event.key) - 1] as HTMLElement).click();
}

function App(props: { loaded: Loaded }) {
  const context = useContext(props.loaded), { model, place } = context;
  const index = Math.max(VIEWS.findIndex((it) => it[0] === place.view), 0), View = VIEWS[index][2];
  useEffect(() => {
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  useEffect(() => {
    document.title = `${VIEWS[index][1]} · ${model.data.meta.command || model.data.file} · Tally`;
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [index]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
      <header>
        <span class="brand">Tally</span>
        <nav aria-label="Views">
          {VIEWS.map(([key, title], i) => (
            <a key={key} href={link(place, key)} aria-current={i === index ? "page" : undefined} title={`key ${i + 1}`}>{title}</a>
          ))}
        </nav>
        <div class="choose">
          {model.counters.length > 1 && (
            <label>Counter{" "}
              <select value={context.counter} onChange={(event) => change(place, { counter: model.counter(Number(event.currentTarget.value)).name, z: "" })}>
                {model.counters.map((it) => <option key={it} value={it}>{model.counter(it).name}</option>)}
              </select>
            </label>
          )}
          {context.threads && (
            <button type="button" class="filter" onClick={() => change(place, { threads: "" })}>
              {context.threads.size === 1 ? "only " + model.threadName([...context.threads][0]) : `only ${context.threads.size} threads`} ✕
            </button>
          )}
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {model.counters.length === 0 && index > 0 && index !== 3 ? <Missing title={VIEWS[index][1]}><p>This recording has no samples. Record some with <code>tally record</code>
          without <code>--no-time</code>; exact calls are under “Callers”.</p></Missing> : <View context={context} key={place.view} />}
      </main>
    </>
  );
}

function Start() {
  const [loaded, set] = useState<Loaded | null>(null), [error, setError] = useState("");
  useEffect(() => { load().then(set, (why) => setError(String(why.message ?? why))); }, []);
  useEffect(() => { if (loaded) performance.mark("tally-shown"); }, [loaded]);
  if (error) return <main><p class="warning">{error}</p></main>;
  return loaded ? <App loaded={loaded} /> : <main><p class="quiet">Unpacking …</p></main>;
}

render(<Start />, document.getElementById("page")!);
