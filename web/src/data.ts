// What tally put into this file: src/tool/export/export_html_data.c writes the profile, src/tool/report and src/tool/annotate the documents.
// Each part is base64 of gzip of JSON in an element of its own, and unpacked when it is needed.

export interface Counter {
  name: string;
  unit: string;
  exact: boolean; // not sampled
  counted: boolean; // false: nothing of it was counted
  said: string; // what may be said of its figures: "exact", "exact for what was counted", "sampled", "not counted"
  why?: string; // what stands against their being all that there was; may be ""
  taken: boolean; // did the export take it? (--counter)
  combine: "sum" | "peak" | "live" | "";
  own?: number; // samples in Tally itself that were left out
}

export interface Image {
  name: string;
  path: string;
  build_id: string;
  kind: number;
}

export interface Process {
  pid: number;
  name: string;
  command: string;
  origin: string;
  start_ns: number;
  end_ns: number;
}

export interface ProfileData {
  version: number;
  creator: string;
  file: string;
  meta: Record<string, string>;
  counters: Counter[];
  preferred: number;
  images: Image[];
  processes: Process[];
  threads: { process: number[]; tid: number[]; name: string[] };
  functions: { name: string[]; kind: number[]; image: number[]; file: string[] };
  tree: { up: number[]; function: number[] };
  cells: { counter: number[]; thread: number[]; branch: number[]; value: number[]; samples: number[] };
  edges: { caller: number[]; callee: number[]; thread: number[]; kind: number[]; calls: number[] };
  timeline: TimelineData | null;
}

/** How many samples of a thread were at a branch in one step of time; by counter, thread, step, branch. Step n is from n * step_ns
 *  to (n + 1) * step_ns after the recording began. Steps and branches are differences to the slot before. */
export interface TimelineData {
  step_ns: number;
  counter: number[];
  thread: number[];
  step: number[];
  branch: number[];
  samples: number[];
}

export interface Figure {
  value: number;
  samples: number;
  share: number;
  low: number;
  high: number;
}

export interface Loss {
  number: number;
  name: string;
  reason: string;
  count: number;
}

export interface Part {
  found: number;
  counted: number;
}

export interface CoverageOf {
  sites: Part;
  indirect: Part;
  functions: Part;
  taken: Part;
}

export interface LossesDocument {
  complete: boolean;
  counters: { name: string; unit: string; value: number; samples: number }[];
  losses: Loss[];
  lost: string | null; // where no number tells it: "nothing", "all of calls"
  calls_counted: boolean;
  calls?: number;
  indirect_calls?: number;
  coverage?: CoverageOf & {
    images: (CoverageOf & {
      image: string;
      path: string;
      left: { code: number; reason: string; count: number }[];
      uncovered: { function: string; address: number; reason: string }[];
    })[];
  };
}

export interface FlatRow {
  function: string;
  image: string | null;
  self: Figure;
  total: Figure;
  calls?: number;
  recursive_calls?: number;
  calls_complete?: boolean;
  ns_per_call?: { value: number; low: number; high: number };
}

export interface FlatDocument {
  complete: boolean;
  selected: { counter: string; value: number; samples: number; maximum_margin: number; thread: string | null;
              process: string | null; image: string | null; cpus: string | null;
              recorded_value: number; recorded_samples: number };
  rows: FlatRow[];
}

/** From, to below (null: no end), calls; nanoseconds. */
export type LatencyBucket = [number, number | null, number];

export interface LatencyRow {
  function: string;
  image: string | null;
  calls: number;
  min_ns: number;
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  p999_ns: number;
  max_ns: number;
  sum_ns: number;
  buckets: LatencyBucket[]; // those with calls
}

export interface LatencyDocument {
  rows: LatencyRow[];
}

export interface Descriptor {
  pid: number;
  process: string;
  number: number;
  origin: "opened" | "before" | "inherited" | "unseen";
  kind: string | null;
  name: string | null;
  opened_ns?: number;
  age_ns?: number;
  stack?: number; // of `stacks`
}

export interface DescriptorsDocument {
  counters: { name: string; value: number }[];
  descriptors: Descriptor[];
  stacks: { function?: string; image?: string | null }[][]; // innermost first
}

export interface DiffRow {
  function: string;
  image: string | null;
  old: { value: number; share: number } | null;
  new: { value: number; share: number } | null;
  share_change: { value: number; low: number; high: number };
  cost_change: { value: number; low: number; high: number };
  percent: number | null;
  significant: boolean;
  verdict: string;
}

export interface DiffDocument {
  counter: string;
  rows: DiffRow[];
}

export interface AnnotatedLine {
  id: number;
  parent: number;
  inlined?: string;
  file: string | null;
  line: number;
  text?: string;
  hot: boolean;
  self: Figure;
  total: Figure;
  calls?: number;
}

export interface AnnotatedLoop {
  id: number;
  parent: number;
  depth: number;
  header: number;
  start: number;
  end: number;
  file?: string | null;
  first_line?: number;
  last_line?: number;
  self: Figure;
  total: Figure;
  calls?: number;
}

export interface Instruction {
  address: number;
  text: string;
  loop: number;
  file?: string | null;
  line?: number;
  inlined?: string;
  self: Figure;
  total: Figure;
  calls?: number;
}

export interface AnnotateDocument {
  annotated: {
    function: { name: string; image: string; start: number; end: number; file: string | null; first_line: number;
                last_line: number; self: Figure; total: Figure; calls?: number };
    notes: string[];
    source?: string[];
    lines: AnnotatedLine[];
    loops: AnnotatedLoop[];
    instructions?: Instruction[];
  };
}

export interface AnnotatedList {
  functions: { name: string; image: string; part: string }[];
}

export function has(name: string): boolean {
  return document.getElementById("tally-" + name) !== null;
}

export async function part<T>(name: string): Promise<T | null> {
  const element = document.getElementById("tally-" + name);
  if (!element) return null;
  const text = atob(element.textContent ?? "");
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as T;
}
