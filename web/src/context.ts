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
  losses: LossesDocument | null;
  old: Old | null; // of the same counter; null: there is none, or only a part is looked at
  oldFile: string;
  diff: DiffDocument | null; // likewise, and functions are those of ELF
  annotated: Annotated[];
  latency: LatencyDocument | null;
  fds: DescriptorsDocument | null;
}

export function linkFunction(context: Context, fn: number, view = "function"): string {
  return link(context.place, view, { fn: context.model.names[fn], image: context.model.imageNames[fn] });
}

export function linkNamed(context: Context, name: string, image: string, view = "function"): string {
  return link(context.place, view, { fn: name, image });
}

/** The function the address names. -1: none. */
export function chosen(context: Context): number {
  const { fn, image } = context.place.options;
  return fn === undefined ? -1 : context.model.find(fn, image ?? "");
}

/** The function with most of its own, or the first. */
export function hottest(context: Context): number {
  const { list, self, total } = context.functions;
  let best = -1;
  for (const fn of list) if (best < 0 || self[fn] > self[best] || (self[fn] === self[best] && total[fn] > total[best])) best = fn;
  return best >= 0 ? best : (context.model.edges(context.part.threads)[0]?.callee ?? -1);
}
