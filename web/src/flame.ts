// Flame graphs without their invisible part. A frame of the graph stands for a set of branches; its children are made by
// grouping what lies next to these (below, or above them in an inverted graph) by function. Only frames that are wide enough to
// be seen at the present zoom are opened, so that drawing and zooming cost what the screen shows, not what the profile holds.
import { matches } from "./state";
import { combine, type Focus, type Model, type Sums } from "./model";

export type Direction = "down" | "up" | "function";

export function directionOf(mode: string | undefined): Direction {
  return mode === "up" || mode === "function" ? mode : "down";
}

export interface Frame {
  fn: number;
  depth: number;
  x0: number; // 0 .. 1 of the width
  x1: number;
  value: number;
  samples: number;
  self: number;
  old: number; // of the profile that is compared with, matched by the path of functions
  parent: Frame | null;
}

/** The profile that differences are drawn to, with functions renumbered as in the new one. */
export interface Old {
  model: Model;
  sums: Sums;
  fn: Int32Array; // by branch
}

interface Group {
  fn: number;
  at: number[]; // branches whose function this is
  from: number[]; // inverted: the branch whose own figure is meant
  oldAt: number[];
  oldFrom: number[];
}

const NONE: number[] = [];

export function matchFunctions(model: Model, old: Model): Int32Array {
  const numbers = new Map<string, number>();
  for (let i = model.names.length - 1; i > 0; i--) numbers.set(model.names[i] + "\0" + model.imageNames[i], i);
  let fresh = model.names.length;
  const of = old.names.map((name, i) => numbers.get(name + "\0" + old.imageNames[i]) ?? fresh++);
  return old.fn.map((fn) => of[fn]);
}

class Side {
  private first: Int32Array;
  private next: Int32Array;

  constructor(readonly model: Model, readonly sums: Sums, readonly fn: Int32Array) {
    const n = model.count;
    this.first = new Int32Array(n).fill(-1);
    this.next = new Int32Array(n).fill(-1);
    for (let i = n - 1; i > 0; i--) {
      this.next[i] = this.first[model.parent[i]];
      this.first[model.parent[i]] = i;
    }
  }

  below(at: number[], into: Map<number, number[]>): void {
    for (const branch of at)
      for (let child = this.first[branch]; child >= 0; child = this.next[child])
        if (this.sums.totalSamples[child] || this.sums.total[child]) push(into, this.fn[child], child);
  }

  /** The same of a single branch, whose children are different functions. */
  alone(branch: number): Group[] {
    const groups: Group[] = [], { totalSamples, total } = this.sums;
    for (let child = this.first[branch]; child >= 0; child = this.next[child])
      if (totalSamples[child] || total[child])
        groups.push({ fn: this.fn[child], at: [child], from: NONE, oldAt: NONE, oldFrom: NONE });
    return groups;
  }

  above(at: number[], from: number[], into: Map<number, number[]>): void {
    for (let i = 0; i < at.length; i++) {
      const up = this.model.parent[at[i]];
      if (up > 0) push(into, this.fn[up], up, from[i]);
    }
  }

  /** Branches of a function that do not lie in one another. */
  outermost(fn: number): number[] {
    const found: number[] = [];
    for (let i = 1; i < this.model.count; i++)
      if (this.fn[i] === fn && (this.sums.totalSamples[i] || this.sums.total[i])) {
        found.push(i);
        i = this.model.end[i] - 1;
      }
    return found;
  }

  leaves(): Map<number, number[]> {
    const into = new Map<number, number[]>();
    for (let i = 1; i < this.model.count; i++)
      if (this.sums.self[i] || this.sums.selfSamples[i]) push(into, this.fn[i], i, i);
    return into;
  }

  sum(of: Float64Array, at: number[]): number {
    if (at.length === 1) return of[at[0]];
    let sum = 0;
    for (const branch of at) sum = combine(this.sums.peak, sum, of[branch]);
    return sum;
  }
}

function push(map: Map<number, number[]>, key: number, ...values: number[]): void {
  const list = map.get(key);
  if (list) list.push(...values);
  else map.set(key, values);
}

/** Every second number of a list. */
function half(list: number[] | undefined, start: number): number[] {
  return list ? list.filter((_, i) => (i & 1) === start) : NONE;
}

export class Flame {
  private side: Side;
  private oldSide: Side | null;
  readonly all: number;
  readonly oldAll: number;

  /** `fn`: what is on top of a graph of one function; then also the way callers of it are asked for. */
  constructor(readonly model: Model, readonly sums: Sums, readonly direction: Direction, readonly start: number,
              old: Old | null) {
    this.side = new Side(model, sums, model.fn);
    this.oldSide = old && new Side(old.model, old.sums, old.fn);
    this.all = sums.all;
    this.oldAll = old ? old.sums.all : 0;
  }

  private get inverted(): boolean {
    return this.direction === "up";
  }

  private roots(): Group[] {
    const old = this.oldSide;
    if (this.direction === "down")
      return [{ fn: 0, at: [0], from: NONE, oldAt: old ? [0] : NONE, oldFrom: NONE }];
    if (this.direction === "function" || this.start >= 0) {
      const at = this.side.outermost(this.start), oldAt = old ? old.outermost(this.start) : NONE;
      return [{ fn: this.start, at, from: at, oldAt, oldFrom: oldAt }];
    }
    return [{ fn: 0, at: NONE, from: NONE, oldAt: NONE, oldFrom: NONE }];
  }

  private children(group: Group): Group[] {
    const fresh = new Map<number, number[]>(), before = new Map<number, number[]>(), old = this.oldSide;
    if (!this.inverted) {
      if (!old && group.at.length === 1) return this.side.alone(group.at[0]);
      this.side.below(group.at, fresh);
      if (old) old.below(group.oldAt, before);
      return [...fresh].map(([fn, list]) => ({
        fn, at: list, from: NONE, oldAt: before.get(fn) ?? NONE, oldFrom: NONE }));
    }
    let now = fresh, was = before;
    if (group.fn === 0) {
      now = this.side.leaves();
      was = old ? old.leaves() : before;
    } else {
      this.side.above(group.at, group.from, fresh);
      if (old) old.above(group.oldAt, group.oldFrom, before);
    }
    return [...now].map(([fn, list]) => ({
      fn, at: half(list, 0), from: half(list, 1), oldAt: half(was.get(fn), 0), oldFrom: half(was.get(fn), 1) }));
  }

  /** What is added up in an inverted graph: own figures of leaves, or totals of the function it starts at. */
  private value(side: Side, samples: boolean, at: number[], from: number[]): number {
    const sums = side.sums, total = !this.inverted || this.start >= 0;
    const of = samples ? (total ? sums.totalSamples : sums.selfSamples) : total ? sums.total : sums.self;
    return side.sum(of, this.inverted ? from : at);
  }

  private frame(group: Group, depth: number, parent: Frame | null): Frame {
    const everything = this.inverted && group.fn === 0;
    return {
      fn: group.fn, depth, x0: 0, x1: 1, parent,
      value: everything ? this.all : this.value(this.side, false, group.at, group.from),
      samples: everything ? this.sums.samples : this.value(this.side, true, group.at, group.from),
      self: this.inverted ? 0 : this.side.sum(this.sums.self, group.at),
      old: !this.oldSide ? 0 : everything ? this.oldAll : this.value(this.oldSide, false, group.oldAt, group.oldFrom),
    };
  }

  /** The frames that can be seen: `zoom` is the way from the top to what fills the width, `pixels` how wide that is. */
  layout(zoom: number[], pixels: number): Frame[] {
    const frames: Frame[] = [];
    let group = this.roots()[0], frame = this.frame(group, 0, null);
    frames.push(frame);
    for (const fn of zoom) {
      const child = this.children(group).find((it) => it.fn === fn);
      if (!child) break;
      group = child;
      frame = this.frame(group, frame.depth + 1, frame);
      frames.push(frame);
    }
    this.open(group, frame, 0.4 / Math.max(pixels, 1), frames);
    return frames;
  }

  private open(group: Group, frame: Frame, least: number, frames: Frame[]): void {
    const pending: [Group, Frame][] = [[group, frame]];
    while (pending.length) {
      const [above, of] = pending.pop()!;
      const part = of.value > 0 ? (of.x1 - of.x0) / of.value : 0;
      const children: [Group, Frame][] = [];
      for (const it of this.children(above)) {
        const child = this.frame(it, of.depth + 1, of);
        if (child.value * part >= least) children.push([it, child]);
      }
      children.sort((a, b) => b[1].value - a[1].value || a[1].fn - b[1].fn);
      let x = of.x0;
      for (const [child, it] of children) {
        it.x0 = x;
        it.x1 = x += it.value * part;
        frames.push(it);
        pending.push([child, it]);
      }
    }
  }

  /** The way from the top to a frame. */
  static path(frame: Frame): number[] {
    const path: number[] = [];
    for (let it: Frame | null = frame; it && it.parent; it = it.parent) path.unshift(it.fn);
    return path;
  }
}

function childrenOf(model: Model, at: number[], fn: number): number[] {
  const found: number[] = [];
  for (const branch of at)
    for (let i = branch + 1; i < model.end[branch]; i = model.end[i]) if (model.fn[i] === fn) found.push(i);
  return found;
}

/** Branches with figures of their own whose innermost functions are those of the path. */
function endingWith(model: Model, sums: Sums, path: number[]): number[] {
  const found: number[] = [];
  for (let i = 1; i < model.count; i++) {
    if (!sums.selfSamples[i] && !sums.self[i]) continue;
    let at = i, depth = 0;
    while (depth < path.length && at > 0 && model.fn[at] === path[depth]) {
      at = model.parent[at];
      depth++;
    }
    if (depth === path.length) found.push(i);
  }
  return found;
}

/** What a zoom leaves in view, followed as far as there is anything: other views show only that. null: everything. */
export function focusOf(model: Model, sums: Sums, direction: Direction, start: number, path: number[]): Focus | null {
  const inside = new Uint8Array(model.count), filled = (branch: number) => sums.totalSamples[branch] > 0 || sums.total[branch] !== 0;
  let depth = 0;
  if (direction === "up")
    for (let found: number[]; depth < path.length && (found = endingWith(model, sums, path.slice(0, depth + 1))).length; depth++) {
      inside.fill(0);
      for (const branch of found) inside[branch] = 1;
    }
  else {
    let at = direction === "function" ? new Side(model, sums, model.fn).outermost(start) : [0];
    for (let next: number[]; depth < path.length && (next = childrenOf(model, at, path[depth]).filter(filled)).length; depth++) at = next;
    if (depth) for (const branch of at) inside.fill(1, branch, model.end[branch]);
  }
  return depth ? { key: `${direction}${direction === "function" ? start : ""}:${path.slice(0, depth).join(".")}`, fn: path[depth - 1], inside } : null;
}

/** What of everything lies in or below functions that match. */
export function matching(model: Model, sums: Sums, found: Uint8Array): number {
  let value = 0;
  for (let i = 1; i < model.count; i++)
    if (found[model.fn[i]]) {
      value = combine(sums.peak, value, sums.total[i]);
      i = model.end[i] - 1;
    }
  return value;
}

/** Functions whose name or image has the words. */
export function search(model: Model, words: string): Uint8Array {
  return Uint8Array.from(model.names, (name, fn) => (fn > 0 && matches(name + " " + model.imageNames[fn], words) ? 1 : 0));
}
