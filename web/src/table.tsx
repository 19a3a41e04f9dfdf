// A sortable table of any length: only the rows that can be seen are in the document (TanStack Virtual says which).
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

export interface Column<Row> {
  key: string;
  title: string;
  hint?: string;
  left?: boolean; // text; numbers stand right
  wide?: boolean; // takes what is left over
  minor?: boolean; // not on narrow screens
  order?: (row: Row) => number | string;
  cell: (row: Row) => ComponentChildren;
}

const HEIGHT = 30, PRINTED = 60;

function useVirtual(count: number) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, again] = useReducer((n: number) => n + 1, 0);
  const [virtual] = useState(() => new Virtualizer<HTMLDivElement, HTMLTableRowElement>({
    count, getScrollElement: () => scroller.current, estimateSize: () => HEIGHT, overscan: 12,
    observeElementRect, observeElementOffset, scrollToFn: elementScroll, onChange: again,
    initialRect: { width: 1000, height: 700 } }));
  virtual.setOptions({ ...virtual.options, count });
  useLayoutEffect(() => virtual._didMount(), [virtual]); // before anyone can scroll
  useLayoutEffect(() => virtual._willUpdate());
  return { scroller, virtual };
}

function usePrinting(): boolean {
  const [printing, set] = useState(false);
  useLayoutEffect(() => {
    const query = matchMedia("print"), change = () => set(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return printing;
}

function sort<Row>(rows: Row[], of: Column<Row>["order"], up: boolean): Row[] {
  if (!of) return rows;
  const keyed = rows.map((row, i) => ({ row, key: of(row), i })), sign = up ? 1 : -1;
  keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : a.i - b.i));
  return keyed.map((it) => it.row);
}

export function Table<Row>(props: {
  name: string; // for those who cannot see it
  columns: Column<Row>[];
  rows: Row[];
  by: string;
  short?: boolean; // as high as its rows, up to a part of the screen
  empty?: string;
  marked?: (row: Row) => boolean;
  below?: (row: Row) => Row[]; // rows that follow it, in the same order among themselves
}) {
  const [order, setOrder] = useState({ by: props.by, up: false });
  const column = props.columns.find((it) => it.key === order.by);
  const rows = useMemo(() => {
    const sorted = (list: Row[]) => sort(list, column?.order, order.up);
    return props.below ? sorted(props.rows).flatMap((row) => [row, ...sorted(props.below!(row))]) : sorted(props.rows);
  }, [props.rows, order.by, order.up, props.columns]);
  const { scroller, virtual } = useVirtual(rows.length);
  const printing = usePrinting();
  const items = virtual.getVirtualItems();
  const first = printing ? 0 : items[0]?.index ?? 0;
  const last = printing ? Math.min(rows.length, PRINTED) : (items[items.length - 1]?.index ?? -1) + 1;
  const turn = (it: Column<Row>) =>
    setOrder({ by: it.key, up: order.by === it.key ? !order.up : typeof it.order?.(props.rows[0]) === "string" });
  if (!rows.length) return <p class="nothing">{props.empty ?? "Nothing here."}</p>;
  return (
    <div class={"table" + (props.short ? " short" : "")} ref={scroller} tabIndex={0} role="region"
         aria-label={props.name}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {props.columns.map((it) => (
              <th key={it.key} scope="col" title={it.hint} class={classes(it)}
                  aria-sort={order.by === it.key ? (order.up ? "ascending" : "descending") : undefined}>
                {it.order ? (
                  <button type="button" onClick={() => turn(it)}>
                    {it.title}
                    <span aria-hidden="true">{order.by === it.key ? (order.up ? " ▲" : " ▼") : ""}</span>
                  </button>
                ) : it.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr aria-hidden="true"><td colSpan={props.columns.length} style={`height:${first * HEIGHT}px`} /></tr>}
          {rows.slice(first, last).map((row, i) => (
            <tr key={first + i} aria-rowindex={first + i + 2} class={props.marked?.(row) ? "marked" : undefined}>
              {props.columns.map((it) => <td key={it.key} class={classes(it)}>{it.cell(row)}</td>)}
            </tr>
          ))}
          {last < rows.length && !printing && (
            <tr aria-hidden="true">
              <td colSpan={props.columns.length} style={`height:${(rows.length - last) * HEIGHT}px`} />
            </tr>
          )}
        </tbody>
      </table>
      {printing && last < rows.length && <p>and {rows.length - last} more</p>}
    </div>
  );
}

function classes<Row>(column: Column<Row>): string {
  return [column.left ? "left" : "right", column.wide ? "wide" : "", column.minor ? "minor" : ""].filter(Boolean).join(" ");
}
