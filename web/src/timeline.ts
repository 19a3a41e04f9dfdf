// When samples were taken: the slots of the page's data as arrays, by counter and thread in order of their steps.
import type { TimelineData } from "./data";

/** Steps `from` to `to` - 1. */
export interface Period {
  from: number;
  to: number;
}

/** Slots of one thread and counter: those from `first` to `end` - 1. */
export interface Lane {
  thread: number;
  first: number;
  end: number;
}

export interface Cells {
  counter: ArrayLike<number>;
  thread: ArrayLike<number>;
  branch: ArrayLike<number>;
  value: ArrayLike<number>;
  samples: ArrayLike<number>;
}

export class Timeline implements Cells {
  readonly stepNs: number;
  readonly count: number;
  readonly counter: Uint16Array;
  readonly thread: Uint32Array;
  readonly step: Float64Array;
  readonly branch: Int32Array;
  readonly samples: Float64Array;
  value: Float64Array = new Float64Array(0); // what the samples of a slot amount to
  readonly steps: number; // after the last one
  readonly counters: Set<number>;

  /** `place`: the number of a branch by its number in the file. Cells say what a sample amounts to at each place. */
  constructor(data: TimelineData, place: Int32Array, cells: Cells) {
    const n = data.step.length;
    this.stepNs = data.step_ns;
    this.count = n;
    this.counter = Uint16Array.from(data.counter);
    this.thread = Uint32Array.from(data.thread);
    this.samples = Float64Array.from(data.samples);
    this.step = new Float64Array(n);
    this.branch = new Int32Array(n);
    for (let i = 0, step = 0, branch = 0; i < n; i++) {
      this.step[i] = step += data.step[i];
      this.branch[i] = place[branch += data.branch[i]];
    }
    this.steps = this.step.reduce((most, step) => Math.max(most, step), -1) + 1;
    this.counters = new Set(data.counter);
    this.value = this.weigh(cells);
  }

  private weigh(cells: Cells): Float64Array {
    const each = new Map<number, number>(), branches = this.branch.reduce((most, it) => Math.max(most, it), 0) + 1;
    const key = (it: Cells, i: number) => (it.thread[i] * 65536 + it.counter[i]) * branches + it.branch[i];
    for (let i = 0; i < cells.branch.length; i++)
      if (cells.samples[i] && cells.branch[i] < branches && this.counters.has(cells.counter[i]))
        each.set(key(cells, i), cells.value[i] / cells.samples[i]);
    return this.samples.map((samples, i) => samples * (each.get(key(this, i)) ?? 0));
  }

  has(counter: number): boolean {
    return this.counters.has(counter);
  }

  lanes(counter: number): Lane[] {
    const lanes: Lane[] = [];
    for (let i = 0; i < this.count; i++) {
      if (this.counter[i] !== counter) continue;
      const last = lanes[lanes.length - 1];
      if (last && last.thread === this.thread[i]) last.end = i + 1;
      else lanes.push({ thread: this.thread[i], first: i, end: i + 1 });
    }
    return lanes;
  }

  /** The first slot of a lane that is at `step` or later. */
  find(lane: Lane, step: number): number {
    let low = lane.first, high = lane.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.step[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  ns(step: number): number {
    return step * this.stepNs;
  }

  /** "FROM-TO" in milliseconds, as an address has it, up to the step `end`; null: no period, or none before that. */
  period(text: string | undefined, end = this.steps): Period | null {
    const found = /^([\d.]+)-([\d.]+)$/.exec(text ?? ""), ends = found?.slice(1).map((it) => Math.round((Number(it) * 1e6) / this.stepNs));
    if (!ends?.every(isFinite)) return null;
    const from = Math.max(ends[0], 0), to = Math.min(ends[1], end);
    return from < to ? { from, to } : null;
  }

  text(period: Period | null): string {
    return period ? `${this.ns(period.from) / 1e6}-${this.ns(period.to) / 1e6}` : "";
  }
}
