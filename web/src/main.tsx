import { render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import "./style.css";
import { chosen, type Context, hottest } from "./context";
import { type AnnotatedList, type DescriptorsDocument, type DiffDocument, type FlatDocument, type LatencyDocument, type LossesDocument, part,
         type ProfileData } from "./data";
import { directionOf, focusOf, matchFunctions, type Old, search } from "./flame";
import { moment } from "./format";
import { type Focus, isWhole, Model, type Part, WHOLE } from "./model";
import { Missing } from "./parts";
import { change, link, type Place, usePlace, useWords, zoomOf } from "./state";
import { CandidatesView, isTime } from "./views/candidates";
import { DescriptorsView } from "./views/descriptors";
import { FlameView } from "./views/flame";
import { FunctionView } from "./views/function";
import { FunctionsView } from "./views/functions";
import { HeapView, measured } from "./views/heap";
import { LatencyView } from "./views/latency";
import { Overview } from "./views/overview";
import { SourceView } from "./views/source";
import { setOf, ThreadsView } from "./views/threads";
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
  has: (it: Loaded) => boolean; // is there anything to show? Else it is not in the menu, and says what records it
  samples?: boolean; // it needs some counter's
  timed?: boolean; // it can show a period
  all?: boolean; // it cannot show only some threads or stacks
  searched?: boolean; // it shows what is searched for
  fixed?: boolean; // its figures are of certain counters: there is none to choose
}

const sampled = ({ model }: Loaded) => model.counters.length > 0;

const VIEWS: View[] = [
  { name: "overview", title: "Overview", show: Overview, timed: true, has: () => true },
  { name: "flame", title: "Flame graph", show: FlameView, samples: true, timed: true, searched: true, has: sampled },
  { name: "functions", title: "Functions", show: FunctionsView, samples: true, timed: true, searched: true, has: sampled },
  { name: "function", title: "Callers/callees", show: FunctionView, timed: true, searched: true, has: (it) => sampled(it) || it.model.edges(null).length > 0 },
  { name: "source", title: "Source", show: SourceView, all: true, fixed: true, has: (it) => it.annotated.length > 0 },
  { name: "threads", title: "Threads", show: ThreadsView, samples: true, timed: true, has: sampled },
  { name: "timeline", title: "Timeline", show: TimelineView, timed: true, searched: true, has: (it) => !!it.model.data.timeline },
  { name: "candidates", title: "Accelerator gain", show: CandidatesView, samples: true, timed: true, searched: true,
    has: ({ model }) => model.counters.some((it) => isTime(model, it)) },
  { name: "heap", title: "Heap", show: HeapView, searched: true, fixed: true, has: ({ model }) => measured(model) },
  { name: "latency", title: "Latency", show: LatencyView, all: true, searched: true, fixed: true, has: (it) => !!it.latency?.rows.length },
  { name: "descriptors", title: "Descriptors", show: DescriptorsView, all: true, searched: true, fixed: true, has: (it) => !!it.fds },
];

/** The keys of the views, in the order of the menu. */
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

/** What the zoom of the flame graph leaves in view. The graph itself shows it as one. */
function useFocus(model: Model, place: Place, counter: number, inlines: boolean, { threads, period }: Part): Focus | null {
  const { z, mode, fn, image } = place.options, graph = place.view === "flame";
  return useMemo(() => {
    if (graph || !z) return null;
    const part = { threads, period, focus: null }, direction = directionOf(mode), named = chosen(model, place);
    const start = direction !== "function" ? -1 : named > 0 ? named : hottest(model, model.functions(counter, part, inlines), threads);
    return focusOf(model, model.sums(counter, part), direction, start, zoomOf(place));
  }, [model, graph, z, mode, fn, image, counter, inlines, threads, period]);
}

function useContext(loaded: Loaded): Context {
  const place = usePlace(), { model, oldModel } = loaded, options = place.options;
  const counter = model.counterNamed(options.counter ?? ""), inlines = options.inlines === "1";
  const threads = useMemo(() => setOf(model, options.threads), [model, options.threads]);
  const shown = useMemo((): Part => ({ threads, period: (options.time && model.timeline?.period(options.time)) || null, focus: null }), [model, threads, options.time]);
  const focus = useFocus(model, place, counter, inlines, shown), part = useMemo((): Part => ({ ...shown, focus }), [shown, focus]);
  const found = useMemo(() => (options.q?.trim() ? search(model, options.q) : null), [model, options.q]);
  const match = useMemo(() => (oldModel ? matchFunctions(model, oldModel) : null), [model, oldModel]);
  const sums = useMemo(() => model.sums(counter, part), [model, counter, part]);
  const functions = useMemo(() => model.functions(counter, part, inlines), [model, counter, part, inlines]);
  // The threads and times of the earlier profile are others: what some of these did is compared with nothing.
  const old = useMemo((): Old | null => {
    const same = oldModel && isWhole(part) ? oldModel.data.counters.findIndex((it) => it.name === model.counter(counter)?.name) + 1 : 0;
    return oldModel && match && same ? { model: oldModel, sums: oldModel.sums(same, WHOLE), fn: match } : null;
  }, [oldModel, match, counter, part]);
  const diff = loaded.diff?.counter === model.counter(counter)?.name && isWhole(part) && !inlines ? loaded.diff : null;
  return { model, place, counter, part, inlines, found, sums, functions, old, losses: loaded.losses, diff,
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
  const { model, place, part: { threads, period, focus } } = props.context, timeline = period && model.timeline;
  const only = (text: string, option: string, hint: string) => (
    <button type="button" class="filter" title={hint} onClick={() => change(place, { [option]: "" })}>✕ {text}</button>
  );
  const time = (step: number) => moment(timeline!.ns(step), timeline!.ns(timeline!.steps), timeline!.ns(period!.to - period!.from) / 100);
  return (
    <>
      {threads && only("only " + nameOf(model, threads), "threads", "Clear the thread filter")}
      {period && only(`only ${time(period.from)} – ${time(period.to)}`, "time", "Clear the time range")}
      {focus && only(`zoomed to ${model.names[focus.fn] || "[unknown]"}`, "z", "Only stacks inside the zoomed frame of the flame graph; clear the zoom")}
    </>
  );
}

function nameOf(model: Model, threads: Set<number>): string {
  if (threads.size === 1) return model.threadName([...threads][0]);
  const processes = new Set([...threads].map((it) => model.data.threads.process[it])), [process] = processes;
  return processes.size === 1 && threads.size === model.threadsOf(process).length ? "process " + model.processName(process) : `${threads.size} threads`;
}

/** What is chosen and does not hold here. */
function Unfiltered(props: { context: Context; view: View }) {
  const { context, view } = props, { threads, period, focus } = context.part;
  const ignored = [threads && view.all && "thread", period && !(view.timed && context.model.isTimed(context.counter)) && "time range",
                   focus && view.all && "zoom"].filter(Boolean);
  return ignored.length ? <p class="note">These figures are of the whole recording; the filter by {ignored.join(", by ")} does not apply.</p> : null;
}

/** One search for all views. Those that show nothing of it go on to the functions with it. */
function Search(props: { context: Context; view: View }) {
  const { place } = props.context, [words, type] = useWords(place);
  return (
    <input id="search" type="search" placeholder="Search (/)" aria-label="Search functions" value={words}
           title={props.view.searched ? undefined : "Enter shows the functions that match"}
           onInput={(event) => type(event.currentTarget.value)}
           onKeyDown={(event) => { if (event.key === "Enter" && !props.view.searched) location.assign(link(place, "functions", { q: words })); }} />
  );
}

function App(props: { loaded: Loaded }) {
  const context = useContext(props.loaded), { model, place } = context;
  const menu = useMemo(() => VIEWS.filter((it) => it.has(props.loaded)), [props.loaded]);
  const view = VIEWS.find((it) => it.name === place.view) ?? VIEWS[0], Show = view.show;
  useLayoutEffect(() => {
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  useEffect(() => {
    document.title = `${view.title} · ${model.data.meta.command || model.data.file} · Tally`;
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [view]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>To the content</a>
      <header>
        <span class="brand">Tally</span>
        <nav aria-label="Views">
          {menu.map(({ name, title }, i) => (
            <a key={name} href={link(place, name)} aria-current={name === view.name ? "page" : undefined} title={`key ${KEYS[i]}`}>{title}</a>
          ))}
        </nav>
        <div class="choose">
          <Filters context={context} />
          {model.counters.length > 1 && !view.fixed && (
            <label>Counter{" "}
              <select value={context.counter} onChange={(event) => change(place, { counter: model.counter(Number(event.currentTarget.value)).name })}>
                {model.counters.map((it) => <option key={it} value={it}>{model.counter(it).name}</option>)}
              </select>
            </label>
          )}
          <Search context={context} view={view} />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Unfiltered context={context} view={view} />
        {model.counters.length === 0 && view.samples ? <Missing title={view.title}><p>This recording has no samples: <code>tally record</code>
          without <code>--no-time</code> takes some.</p></Missing> : <Show context={context} key={place.view} />}
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
