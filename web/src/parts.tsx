// Small pieces that several views are made of.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import type { Context } from "./context";
import { linkFunction, quantity } from "./context";
import { amount, margin, percent, whole } from "./format";
import { type Interval, isWhole } from "./model";

/** A share as a bar, its 95 % interval as a line across the bar's end. `most`: what fills the width. */
export function Bar(props: { it: Interval; most?: number; label?: string }) {
  const scale = 100 / (props.most || 1), { share, low, high } = props.it;
  const at = (value: number) => Math.min(Math.max(value * scale, 0), 100);
  return (
    <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-back" x="0" y="0" width="100" height="10" />
      <rect class="bar-fill" x="0" y="1.5" width={at(share)} height="7" />
      {high > low && <rect class="bar-line" x={at(low)} y="4.2" width={Math.max(at(high) - at(low), 0.2)} height="1.6" />}
    </svg>
  );
}

export function Share(props: { it: Interval; most?: number }) {
  const { share, low, high } = props.it;
  return (
    <span class="share" title={high > low ? `95 %: between ${percent(low)} and ${percent(high)}` : undefined}>
      <Bar {...props} />
      <span class="share-number">{percent(share)}</span>
      <span class="margin">{high > low ? margin(low, high) : ""}</span>
    </span>
  );
}

export function FunctionLink(props: { context: Context; fn: number; view?: string }) {
  const { model } = props.context, name = model.names[props.fn] || "[unknown]";
  return <a class="name" href={linkFunction(props.context, props.fn, props.view)} title={name}>{name}</a>;
}

export function Figure(props: { title: string; children: ComponentChildren; note?: ComponentChildren }) {
  return (
    <div class="figure">
      <dt>{props.title}</dt>
      <dd>
        {props.children}
        {props.note && <small>{props.note}</small>}
      </dd>
    </div>
  );
}

/** A view whose part of the recording is not there. */
export function Missing(props: { title: string; children: ComponentChildren }) {
  return (
    <section class="missing">
      <h1>{props.title}</h1>
      {props.children}
    </section>
  );
}

/** Beside sums that are not of all there was; `why` is undefined where they are. */
export function NotAll(props: { why: string | undefined }) {
  return props.why === undefined ? null : <p class="quiet">Incomplete{props.why && ": " + props.why}.</p>;
}

/** How functions without a name get one; once where they stand. */
export function Nameless(props: { context: Context; functions: Iterable<number> }) {
  const { data, imageNames } = props.context.model, images = new Map<number, number>();
  for (const fn of props.functions)
    if (props.context.model.isNameless(fn) && !imageNames[fn].startsWith("[")) images.set(data.functions.image[fn], (images.get(data.functions.image[fn]) ?? 0) + 1);
  if (!images.size) return null;
  const count = [...images.values()].reduce((sum, it) => sum + it, 0);
  const [first, ...others] = [...images].sort((a, b) => b[1] - a[1]).map((it) => data.images[it[0]]);
  return (
    <details class="nameless">
      <summary>{whole(count)} {count === 1 ? "function has" : "functions have"} no name: {first.name}{others.length > 0 && ` and ${others.length} more ${others.length === 1 ? "image" : "images"}`}{" "}
        {others.length ? "are" : "is"} stripped. How to get names</summary>
      <p>Names are in the debug symbols of the package that the image is from. Install them and write this page again, the profile need not be recorded
        again:</p>
      <ul>
        <li>Debian: <code>find-dbgsym-packages {first.path || first.name}</code> (package debian-goodies) prints the name; then <code>apt install NAME-dbgsym</code></li>
        <li>Fedora: <code>dnf debuginfo-install PACKAGE</code>; openSUSE: <code>zypper install PACKAGE-debuginfo</code></li>
        <li>or let Tally fetch them: <code>tally export --debuginfod</code> asks the servers in <code>$DEBUGINFOD_URLS</code></li>
        <li>images of your own: keep the file as it was before <code>strip</code>, or link without <code>-s</code></li>
      </ul>
    </details>
  );
}

/** What tally report says of a function; of a part it was not asked. */
export function rowOf(context: Context, fn: number) {
  return isWhole(context.part) ? context.model.row(fn) : undefined;
}

/** Exact calls as reports write them: what entered, and of these what a function of the same cycle called. */
export function calls(context: Context, fn: number): { text: string; order: number } {
  const row = rowOf(context, fn);
  if (row?.calls !== undefined) {
    const recursive = row.recursive_calls ?? 0, entering = row.calls - recursive;
    const least = row.calls_complete === false ? "≥" : "";
    return { text: least + (entering || !recursive ? whole(entering) : "") + (recursive ? "+" + whole(recursive) : ""), order: row.calls };
  }
  return { text: "", order: -1 };
}

export function valueOf(context: Context, value: number): string {
  return amount(value, context.unit);
}

/** The functions with the most, as bars. `where`: what of the recording they are of. */
export function Top(props: { context: Context; total: boolean; where?: string }) {
  const { context } = props, { functions, model, sums } = context;
  const of = props.total ? functions.total : functions.self;
  const sorted = [...functions.list].filter((fn) => of[fn] > 0).sort((a, b) => of[b] - of[a] || functions.self[b] - functions.self[a]);
  // Of functions that do nothing but call one another, the one that does most itself.
  const rows = sorted.filter((fn, i) => !props.total || i === 0 || of[fn] !== of[sorted[i - 1]]).slice(0, 8);
  const most = rows.length ? model.interval(context.counter, sums, of[rows[0]]).high : 1;
  return (
    <section>
      <h2>Top functions by {props.total ? "total" : "self"} {quantity(context)}{props.where}</h2>
      <ol class="top">
        {rows.map((fn) => {
          const it = model.interval(context.counter, sums, of[fn]);
          return (
            <li key={fn}>
              <FunctionLink context={context} fn={fn} />
              <Bar it={it} most={most} />
              <span class="number">{percent(it.share)}</span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

/** Pixels inside an element, whatever becomes of it; 0 at first. */
export function useWidth(box: { current: HTMLElement | null }): number {
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const measure = () => set(Math.floor(box.current?.clientWidth ?? 0)), observer = new ResizeObserver(measure);
    measure();
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** Pixels that the window has for an element beside all else that is in the page; at least 300. */
export function useRoom(box: { current: HTMLElement | null }): number {
  const [room, set] = useState(300);
  useLayoutEffect(() => {
    const measure = () => {
      const main = document.getElementById("main")?.getBoundingClientRect(), area = box.current?.getBoundingClientRect();
      if (main && area) set(Math.max(Math.floor(innerHeight - (area.top + scrollY) - (main.bottom - area.bottom)) - 2, 300));
    };
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  return room;
}
