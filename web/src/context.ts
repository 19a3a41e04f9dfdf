// What every view is given.
import type { Annotated } from "./main";
import type { DescriptorsDocument, DiffDocument, LatencyDocument, LossesDocument } from "./data";
import type { Old } from "./flame";
import { type FunctionSums, type Model, type Part, type Sums } from "./model";
import { link, type Place } from "./state";

export interface Context {
  model: Model;
  place: Place;
  counter: number;
  unit: string;
  part: Part;
  inlines: boolean;
  sums: Sums;
  functions: FunctionSums;
  found: Uint8Array | null; // functions that are searched for; null: no search
  losses: LossesDocument | null;
  old: Old | null; // of the same counter; null: there is none, or only a part is looked at
  oldFile: string;
  diff: DiffDocument | null; // likewise, and functions are those of ELF
  annotated: Annotated[];
  latency: LatencyDocument | null;
  fds: DescriptorsDocument | null;
}

/** A zoom into the calls of one function means nothing for another. */
function named(context: Context, fn: string, image: string): Record<string, string> {
  return context.place.options.mode === "function" ? { fn, image, z: "" } : { fn, image };
}

export function linkFunction(context: Context, fn: number, view = "function"): string {
  return linkNamed(context, context.model.names[fn], context.model.imageNames[fn], view);
}

export function linkNamed(context: Context, name: string, image: string, view = "function"): string {
  return link(context.place, view, named(context, name, image));
}

/** The function the address names. -1: none. */
export function chosen(model: Model, place: Place): number {
  const { fn, image } = place.options;
  return fn === undefined ? -1 : model.find(fn, image ?? "");
}

/** The function with the most self, or the first. */
export function hottest(model: Model, functions: FunctionSums, threads: Set<number> | null): number {
  const { list, self, total } = functions;
  let best = -1;
  for (const fn of list) if (best < 0 || self[fn] > self[best] || (self[fn] === self[best] && total[fn] > total[best])) best = fn;
  return best >= 0 ? best : (model.edges(threads)[0]?.callee ?? -1);
}

/** What figures of the counter are, in titles: "time", or its name. */
export function quantity(context: Context): string {
  return context.unit === "ns" ? "time" : context.model.counter(context.counter)?.name ?? "figures";
}
