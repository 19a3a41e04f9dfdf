import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import "./style.css";
import type { Context } from "./context";
import { type AnnotatedList, type DescriptorsDocument, type DiffDocument, type FlatDocument, type LatencyDocument, type LossesDocument, part,
         type ProfileData } from "./data";
import { matchFunctions, type Old } from "./flame";
import { moment } from "./format";
import { isWhole, Model, type Part, WHOLE } from "./model";
import { Missing } from "./parts";
import { change, link, usePlace } from "./state";
import { CandidatesView } from "./views/candidates";
import { DescriptorsView } from "./views/descriptors";
import { FlameView } from "./views/flame";
import { FunctionView } from "./views/function";
import { FunctionsView } from "./views/functions";
import { HeapView } from "./views/heap";
import { LatencyView } from "./views/latency";
import { Overview } from "./views/overview";
import { SourceView } from "./views/source";
import { ThreadsView } from "./views/threads";
import { TimelineView } from "./views/timeline";

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
  latency: LatencyDocument | null;
  fds: DescriptorsDocument | null;
}

interface View {
  name: string; // in the address
  title: string;
  show: (props: { context: Context }) => preact.JSX.Element | null;
  samples?: boolean; // it needs some counter's
  timed?: boolean; // it can show a period
  all?: boolean; // it cannot show only some threads
}

const VIEWS: View[] = [
  { name: "overview", title: "Overview", show: Overview, timed: true },
  { name: "flame", title: "Flame graph", show: FlameView, samples: true, timed: true },
  { name: "functions", title: "Functions", show: FunctionsView, samples: true, timed: true },
  { name: "function", title: "Callers", show: FunctionView, timed: true },
  { name: "source", title: "Source", show: SourceView, all: true },
  { name: "threads", title: "Threads", show: ThreadsView, samples: true, timed: true },
  { name: "timeline", title: "Timeline", show: TimelineView, timed: true },
  { name: "candidates", title: "Candidates", show: CandidatesView, samples: true, timed: true },
  { name: "heap", title: "Memory", show: HeapView },
  { name: "latency", title: "Latency", show: LatencyView, all: true },
  { name: "descriptors", title: "Descriptors", show: DescriptorsView, all: true },
];

/** The keys of the views, in their order. */
const KEYS = "1234567890-";

async function load(): Promise<Loaded> {
  const data = await part<ProfileData>("profile");
  if (!data) throw new Error("There is no profile in this file. tally export --format html writes one that has it.");
  const [flat, old, losses, diff, list, latency, fds] = await Promise.all([
    part<FlatDocument>("flat"), part<ProfileData>("against"), part<LossesDocument>("losses"), part<DiffDocument>("diff"),
    part<AnnotatedList>("annotated"), part<LatencyDocument>("latency"), part<DescriptorsDocument>("fds")]);
  return { model: new Model(data, flat), oldModel: old && new Model(old, null), losses, diff, annotated: list?.functions ?? [],
           latency, fds };
}

function useContext(loaded: Loaded): Context {
  const place = usePlace(), { model, oldModel } = loaded, options = place.options;
  const counter = model.counterNamed(options.counter ?? ""), inlines = options.inlines === "1";
  const threads = useMemo(() => {
    const numbers = (options.threads ?? "").split(".").filter(Boolean).map(Number);
    return numbers.length ? new Set(numbers) : null;
  }, [options.threads]);
  const part = useMemo((): Part => ({ threads, period: (options.time && model.timeline?.period(options.time)) || null }), [model, threads, options.time]);
  const match = useMemo(() => (oldModel ? matchFunctions(model, oldModel) : null), [model, oldModel]);
  const sums = useMemo(() => model.sums(counter, part), [model, counter, part]);
  const functions = useMemo(() => model.functions(counter, part, inlines), [model, counter, part, inlines]);
  // The threads and times of the earlier profile are others: what some of these did is compared with nothing.
  const old = useMemo((): Old | null => {
    const same = oldModel && isWhole(part) ? oldModel.data.counters.findIndex((it) => it.name === model.counter(counter)?.name) + 1 : 0;
    return oldModel && match && same ? { model: oldModel, sums: oldModel.sums(same, WHOLE), fn: match } : null;
  }, [oldModel, match, counter, part]);
  const diff = loaded.diff?.counter === model.counter(counter)?.name && isWhole(part) && !inlines ? loaded.diff : null;
  return { model, place, counter, part, inlines, sums, functions, old, losses: loaded.losses, diff,
           oldFile: oldModel?.data.file ?? "", annotated: loaded.annotated, latency: loaded.latency, fds: loaded.fds, unit: model.counter(counter)?.unit ?? "" };
}

function keys(event: KeyboardEvent): void {
  const at = event.target as HTMLElement, typing = /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing) at.blur();
  else if (typing) return;
  else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search")?.focus();
  } else if (event.key.length === 1 && KEYS.includes(event.key))
    (document.querySelectorAll("nav a")[KEYS.indexOf(event.key)] as HTMLElement | undefined)?.click();
}

/** What is left out, and a way to have it again. */
function Filters(props: { context: Context }) {
  const { model, place, part: { threads, period } } = props.context, timeline = period && model.timeline;
  const only = (text: string, option: string) => (
    <button type="button" class="filter" title="all again" onClick={() => change(place, { [option]: "" })}>only {text} ✕</button>
  );
  const time = (step: number) => moment(timeline!.ns(step), timeline!.ns(timeline!.steps), timeline!.ns(period!.to - period!.from) / 100);
  return (
    <>
      {threads && only(threads.size === 1 ? model.threadName([...threads][0]) : `${threads.size} threads`, "threads")}
      {period && only(`${time(period.from)} – ${time(period.to)}`, "time")}
    </>
  );
}

/** What is chosen and does not hold here. */
function Unfiltered(props: { context: Context; view: View }) {
  const { context, view } = props, { threads, period } = context.part;
  if (period && !(view.timed && context.model.isTimed(context.counter)))
    return <p class="note">Of the whole recording{view.all && threads ? " and all threads" : ""}: {view.timed ? "this counter has" : "these figures have"} no times.</p>;
  return threads && view.all ? <p class="note">Of all threads: these figures have none.</p> : null;
}

function App(props: { loaded: Loaded }) {
  const context = useContext(props.loaded), { model, place } = context;
  const index = Math.max(VIEWS.findIndex((it) => it.name === place.view), 0), view = VIEWS[index], Show = view.show;
  useEffect(() => {
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  useEffect(() => {
    document.title = `${view.title} · ${model.data.meta.command || model.data.file} · Tally`;
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [index]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
      <header>
        <span class="brand">Tally</span>
        <nav aria-label="Views">
          {VIEWS.map(({ name, title }, i) => (
            <a key={name} href={link(place, name)} aria-current={i === index ? "page" : undefined} title={`key ${KEYS[i]}`}>{title}</a>
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
          <Filters context={context} />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Unfiltered context={context} view={view} />
        {model.counters.length === 0 && view.samples ? <Missing title={view.title}><p>This recording has no samples. Record some with <code>tally record</code>
          without <code>--no-time</code>; exact calls are under “Callers”.</p></Missing> : <Show context={context} key={place.view} />}
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
