// Where the reader is, in the address: #/flame?counter=time.cpu&mode=up. Every view can be linked to.
import { useLayoutEffect, useState } from "preact/hooks";

export interface Place {
  view: string;
  options: Record<string, string>;
}

export function read(): Place {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "overview", options: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

function write(view: string, options: Record<string, string | undefined>): string {
  const kept = Object.entries(options).filter((it): it is [string, string] => Boolean(it[1]));
  const query = new URLSearchParams(kept).toString();
  return "#/" + view + (query ? "?" + query : "");
}

/** What stays when another view is chosen: counter, threads, period, search, zoom, function, and how graphs are drawn. */
const COMMON = ["counter", "threads", "time", "range", "inlines", "q", "z", "mode", "flip", "colour", "fn", "image"];

export function link(place: Place, view: string, more: Record<string, string | undefined> = {}): string {
  const kept = Object.fromEntries(COMMON.map((key) => [key, place.options[key]]));
  return write(view, { ...kept, ...more });
}

/** The same view with other options; `quiet`: not a step that "back" undoes. */
export function change(place: Place, more: Record<string, string | undefined>, quiet = false): void {
  const hash = write(place.view, { ...read().options, ...more }); // `place` is old until the change before was discovered
  if (quiet) {
    history.replaceState(null, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = hash;
}

export function usePlace(): Place {
  const [place, set] = useState(read);
  useLayoutEffect(() => { // before anyone can go elsewhere: other effects come after the next picture
    const changed = () => set(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return place;
}

/** The words that are searched for: as typed, and as the address has them. */
export function useWords(place: Place): [string, (words: string) => void] {
  const { q = "" } = place.options, [words, set] = useState(q);
  useLayoutEffect(() => set(q), [q]);
  return [words, (next) => { set(next); change(place, { q: next }, true); }];
}

/** Has a text all the words? */
export function matches(text: string, words: string): boolean {
  const low = text.toLowerCase();
  return words.toLowerCase().split(/\s+/).filter(Boolean).every((it) => low.includes(it));
}

/** A zoom of a flame graph: functions from its root to the frame that fills the width. */
export function zoomOf(place: Place): number[] {
  const { z } = place.options;
  return z ? z.split(".").map(Number) : [];
}
