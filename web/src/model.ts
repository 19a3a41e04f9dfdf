// The profile as the views need it. Branches of the tree are renumbered depth first: the subtree of b is b .. end[b] - 1, so that
// whatever sums or searches is one loop over arrays.
import type { Counter, FlatDocument, ProfileData } from "./data";
import { type Period, Timeline } from "./timeline";

/** enum export_kind of src/tool/export/export_frames.h */
export const Kind = { NAMED: 1, GENERATED: 2, INLINED: 3, NAMELESS: 4, SPECIAL: 5, UNKNOWN: 6, SIGNAL: 7, CUT: 8 };
/** enum profile_image_kind and PROFILE_AGENT_IMAGE of src/tool/profile/profile.h */
const KERNEL_IMAGE = 3;
export const AGENT_IMAGE = "[tally-agent]", STUBS_IMAGE = "[tally-stubs]";

export interface Interval {
  share: number;
  low: number;
  high: number;
}

export interface Sums {
  self: Float64Array;
  selfSamples: Float64Array;
  total: Float64Array;
  totalSamples: Float64Array;
  all: number;
  samples: number;
  peak: boolean; // do figures combine as the largest?
  effective: number; // samples that carry the evidence when their weights differ (Kish)
}

export interface FunctionSums {
  self: Float64Array;
  selfSamples: Float64Array;
  total: Float64Array;
  totalSamples: Float64Array;
  list: Int32Array; // functions with any figure
}

/** What the zoom of a flame graph leaves in view (focusOf of flame.ts). */
export interface Focus {
  key: string;
  fn: number; // of the frame that fills the width
  inside: Uint8Array; // by branch: do its own figures count?
}

/** What of the recording is looked at. */
export interface Part {
  threads: Set<number> | null; // null: all
  period: Period | null; // null: from its start to its end
  focus: Focus | null; // null: all stacks
}

export const WHOLE: Part = { threads: null, period: null, focus: null };

export function isWhole(part: Part): boolean {
  return !part.threads && !part.period && !part.focus;
}

function keyOf({ threads, period, focus }: Part): string {
  return (threads ? [...threads].join() : "") + (period ? `@${period.from}-${period.to}` : "") + (focus ? "/" + focus.key : "");
}

const REMEMBERED = 24;

/** The latest results: a period may be any, and there are many. */
function remember<Result>(map: Map<string, Result>, key: string, result: Result): Result {
  for (const old of map.keys()) if (map.size >= REMEMBERED) map.delete(old);
  map.set(key, result);
  return result;
}

export interface Edge {
  caller: number;
  callee: number;
  calls: number;
  recursive: boolean;
}

/** As figures of a counter combine: a sum, or the largest. */
export function combine(peak: boolean, one: number, two: number): number {
  return peak ? Math.max(one, two) : one + two;
}

/** The 95 % Wilson interval, as profile_wilson in src/tool/profile/profile_statistics.c. */
export function wilson(hits: number, samples: number): { low: number; high: number } {
  if (!samples) return { low: 0, high: 1 };
  const z = 1.959963984540054, share = hits / samples, scale = 1 + (z * z) / samples;
  const centre = (share + (z * z) / (2 * samples)) / scale;
  const half = (z / scale) * Math.sqrt((share * (1 - share)) / samples + (z * z) / (4 * samples * samples));
  const low = hits ? centre - half : 0, high = hits < samples ? centre + half : 1;
  return { low: Math.max(low, 0), high: Math.min(high, 1) };
}

export class Model {
  readonly count: number;
  readonly parent: Int32Array;
  readonly end: Int32Array;
  readonly depth: Int32Array;
  readonly fn: Int32Array; // function of a branch
  readonly owner: Int32Array; // the same, inlined frames being what they are inlined into
  readonly names: string[];
  readonly imageNames: string[]; // by function
  readonly counters: number[]; // those that cells have
  readonly callsCounter: number; // index, 0: calls were not counted
  readonly callsSaid: string; // what may be said of them: "exact"
  private place: Int32Array; // of branches, by their number in the file
  private cellBranch: Int32Array;
  private timelineOf: Timeline | null = null;
  private sumsOf = new Map<string, Sums>();
  private functionsOf = new Map<string, FunctionSums>();
  private edgesOf = new Map<string, Edge[]>();
  private rowsOf: Map<string, FlatDocument["rows"][number]> | null = null;

  constructor(readonly data: ProfileData, readonly flat: FlatDocument | null) {
    const n = data.tree.up.length;
    this.count = n;
    this.parent = new Int32Array(n);
    this.end = new Int32Array(n);
    this.depth = new Int32Array(n);
    this.fn = new Int32Array(n);
    this.owner = new Int32Array(n);
    const place = this.number();
    this.cellBranch = new Int32Array(data.cells.branch.length);
    for (let i = 0, at = 0; i < this.cellBranch.length; i++) {
      at += data.cells.branch[i];
      this.cellBranch[i] = place[at];
    }
    this.place = place;
    this.names = data.functions.name;
    this.imageNames = data.functions.image.map((image) => data.images[image]?.name ?? "");
    const used = new Set(data.cells.counter);
    this.counters = data.counters.map((_, i) => i + 1).filter((i) => used.has(i));
    this.callsCounter = data.counters.findIndex((counter) => counter.name === "calls" && counter.counted) + 1;
    this.callsSaid = this.callsCounter ? data.counters[this.callsCounter - 1].said : "";
  }

  /** Depth-first numbers of the branches, by their number in the file. */
  private number(): Int32Array {
    const { up, function: fn } = this.data.tree, n = up.length, kinds = this.data.functions.kind;
    const size = new Int32Array(n).fill(1), place = new Int32Array(n), free = new Int32Array(n);
    for (let i = n - 1; i > 0; i--) size[i - up[i]] += size[i];
    free[0] = 1;
    for (let i = 0; i < n; i++) {
      const above = i - up[i], at = i ? free[above] : 0;
      if (i) free[above] += size[i];
      place[i] = at;
      free[i] = at + 1;
      const up_ = i ? place[above] : -1;
      this.parent[at] = up_;
      this.end[at] = at + size[i];
      this.depth[at] = i ? this.depth[up_] + 1 : 0;
      this.fn[at] = fn[i];
      this.owner[at] = i && kinds[fn[i]] === Kind.INLINED ? this.owner[up_] : fn[i];
    }
    return place;
  }

  /** Made when it is first asked for: most readers never look at one. */
  get timeline(): Timeline | null {
    const { timeline, cells } = this.data;
    if (timeline) this.timelineOf ??= new Timeline(timeline, this.place, { ...cells, branch: this.cellBranch });
    return this.timelineOf;
  }

  counter(index: number): Counter {
    return this.data.counters[index - 1];
  }

  /** What is shown at first. */
  preferred(): number {
    const { preferred } = this.data;
    return this.counters.includes(preferred) ? preferred : this.counters[0] ?? 0;
  }

  counterNamed(name: string): number {
    const index = this.data.counters.findIndex((counter) => counter.name === name) + 1;
    return this.counters.includes(index) ? index : this.preferred();
  }

  isCode(fn: number): boolean {
    return this.data.functions.kind[fn] < Kind.SIGNAL;
  }

  /** Is it the program's, so that it could run elsewhere? As can_move of src/tool/report/report_candidates.c. */
  isMovable(fn: number): boolean {
    const { kind, image } = this.data.functions;
    return kind[fn] < Kind.SPECIAL && this.data.images[image[fn]].kind !== KERNEL_IMAGE && this.imageNames[fn] !== AGENT_IMAGE;
  }

  /** Is its name only its place, "libz.so.1+0x4290"? Bounds of it may be known (symbol.h, from_fde). */
  isNameless(fn: number): boolean {
    return this.data.functions.kind[fn] === Kind.NAMELESS || this.names[fn].startsWith(this.imageNames[fn] + "+0x");
  }

  /** "name" of an ELF function before others of that name. -1: there is none. */
  find(name: string, image: string): number {
    let found = -1;
    for (let i = 1; i < this.names.length; i++)
      if (this.names[i] === name && (!image || this.imageNames[i] === image)) {
        if (this.data.functions.kind[i] !== Kind.INLINED) return i;
        if (found < 0) found = i;
      }
    return found;
  }

  // --- figures ---

  /** Has the counter a period, of which figures can be reported? Else these are of all the time. */
  isTimed(counter: number): boolean {
    return this.timeline?.has(counter) ?? false;
  }

  sums(counter: number, part: Part): Sums {
    const key = counter + "/" + keyOf(part);
    return this.sumsOf.get(key) ?? remember(this.sumsOf, key, this.sum(counter, part));
  }

  /** Every figure of a counter in a part: `act` gets its thread, branch, value and samples. */
  private each(counter: number, { threads, period, focus }: Part,
               act: (thread: number, branch: number, value: number, samples: number) => void): void {
    const timed = period && this.isTimed(counter) ? this.timeline : null, of = timed ?? this.data.cells;
    const branch = timed ? timed.branch : this.cellBranch, n = branch.length;
    for (let i = 0; i < n; i++) {
      if (of.counter[i] !== counter || (threads && !threads.has(of.thread[i]))) continue;
      if (focus && !focus.inside[branch[i]]) continue;
      if (timed && (timed.step[i] < period!.from || timed.step[i] >= period!.to)) continue;
      act(of.thread[i], branch[i], of.value[i], of.samples[i]);
    }
  }

  private sum(counter: number, part: Part): Sums {
    const n = this.count, peak = this.counter(counter)?.combine === "peak";
    const sums: Sums = { self: new Float64Array(n), selfSamples: new Float64Array(n), total: new Float64Array(n),
                         totalSamples: new Float64Array(n), all: 0, samples: 0, peak, effective: 0 };
    let squares = 0;
    this.each(counter, part, (_, at, value, samples) => {
      sums.self[at] = combine(peak, sums.self[at], value);
      sums.selfSamples[at] += samples;
      if (samples) squares += (value * value) / samples;
    });
    sums.total.set(sums.self);
    sums.totalSamples.set(sums.selfSamples);
    for (let i = n - 1; i > 0; i--) {
      const up = this.parent[i];
      sums.total[up] = combine(peak, sums.total[up], sums.total[i]);
      sums.totalSamples[up] += sums.totalSamples[i];
    }
    sums.all = n ? sums.total[0] : 0;
    sums.samples = n ? sums.totalSamples[0] : 0;
    sums.effective = squares > 0 ? Math.min((sums.all * sums.all) / squares, sums.samples) : sums.samples;
    return sums;
  }

  /** Of functions; a function that is on a stack several times has its total once. */
  functions(counter: number, part: Part, inlines: boolean): FunctionSums {
    const key = counter + "/" + inlines + "/" + keyOf(part);
    return this.functionsOf.get(key) ?? remember(this.functionsOf, key, this.sumFunctions(counter, part, inlines));
  }

  private sumFunctions(counter: number, part: Part, inlines: boolean): FunctionSums {
    const sums = this.sums(counter, part), n = this.names.length, of = inlines ? this.fn : this.owner;
    const peak = this.counter(counter)?.combine === "peak";
    const result = { self: new Float64Array(n), selfSamples: new Float64Array(n), total: new Float64Array(n),
               totalSamples: new Float64Array(n), list: new Int32Array(0) };
    const add = (to: Float64Array, at: number, more: number) => {
      to[at] = combine(peak, to[at], more);
    };
    const open = new Int32Array(n), seen = new Uint8Array(n), path: number[] = [];
    for (let i = 1; i < this.count; i++) {
      while (path.length && this.end[path[path.length - 1]] <= i) open[of[path.pop()!]]--;
      const fn = of[i];
      if (sums.totalSamples[i] || sums.total[i]) seen[fn] = 1;
      add(result.self, fn, sums.self[i]);
      result.selfSamples[fn] += sums.selfSamples[i];
      if (!open[fn]++) {
        add(result.total, fn, sums.total[i]);
        result.totalSamples[fn] += sums.totalSamples[i];
      }
      path.push(i);
    }
    result.list = Int32Array.from(seen.keys()).filter((fn) => seen[fn] && this.isCode(fn));
    return result;
  }

  interval(counter: number, sums: Sums, value: number): Interval {
    const share = sums.all > 0 ? value / sums.all : 0, it = this.counter(counter);
    if (!it || it.exact || it.combine === "peak") return { share, low: share, high: share };
    const inside = Math.min(Math.max(share, 0), 1);
    const { low, high } = wilson(Math.round(inside * sums.effective), Math.round(sums.effective));
    return { share, low: Math.min(low, inside), high: Math.max(high, inside) };
  }

  /** Threads with anything of this counter, the most first. */
  threads(counter: number, part: Part): { thread: number; value: number; samples: number }[] {
    const { threads, edges } = this.data;
    const value = new Float64Array(threads.tid.length), samples = new Float64Array(threads.tid.length);
    const calls = new Float64Array(threads.tid.length);
    const peak = this.counter(counter)?.combine === "peak";
    this.each(counter, { ...part, threads: null }, (at, _, amount, count) => {
      value[at] = combine(peak, value[at], amount);
      samples[at] += count;
    });
    for (let i = 0; !part.period && !part.focus && i < edges.thread.length; i++) calls[edges.thread[i]] += edges.calls[i];
    return Array.from(value, (it, thread) => ({ thread, value: it, samples: samples[thread] }))
      .filter((it) => it.value || it.samples || calls[it.thread])
      .sort((a, b) => b.value - a.value || a.thread - b.thread);
  }

  threadName(thread: number): string {
    const { process, name, tid } = this.data.threads, it = this.data.processes[process[thread]];
    return thread ? `${name[thread] || it?.name || "thread"} ${tid[thread]}` : "not known which";
  }

  processName(process: number): string {
    const it = this.data.processes[process];
    return process && it ? `${it.name || "process"} ${it.pid}${it.origin ? " @" + it.origin : ""}` : "not known which";
  }

  /** All threads of a process, with or without figures. */
  threadsOf(process: number): number[] {
    return this.data.threads.process.flatMap((it, thread) => (thread && it === process ? [thread] : []));
  }

  // --- exact calls ---

  /** By caller and callee, the most first. */
  edges(threads: Set<number> | null): Edge[] {
    const key = threads ? [...threads].join() : "";
    let result = this.edgesOf.get(key);
    if (result) return result;
    const { edges } = this.data, sums = new Map<number, Edge>();
    for (let i = 0; i < edges.calls.length; i++) {
      if (threads && !threads.has(edges.thread[i])) continue;
      const caller = edges.caller[i], callee = edges.callee[i], at = caller * this.names.length + callee;
      const known = sums.get(at);
      if (known) known.calls += edges.calls[i];
      else sums.set(at, { caller, callee, calls: edges.calls[i], recursive: caller === callee });
    }
    result = [...sums.values()].sort((a, b) => b.calls - a.calls || a.caller - b.caller || a.callee - b.callee);
    return remember(this.edgesOf, key, result);
  }

  /** The row that tally report has of a function; only it knows which calls recur and which went uncounted. */
  row(fn: number): FlatDocument["rows"][number] | undefined {
    if (!this.rowsOf) {
      this.rowsOf = new Map();
      for (const row of this.flat?.rows ?? []) this.rowsOf.set(row.function + "\0" + (row.image ?? ""), row);
    }
    return this.rowsOf.get(this.names[fn] + "\0" + this.imageNames[fn]);
  }
}
