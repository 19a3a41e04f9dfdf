import { useMemo } from "preact/hooks";
import { type Context, quantity } from "../context";
import { amount, margin, points, whole } from "../format";
import { isWhole } from "../model";
import { calls, FunctionLink, Nameless, Share, valueOf } from "../parts";
import { change } from "../state";
import { type Column, Table } from "../table";

export function FunctionsView(props: { context: Context }) {
  const { context } = props, { model, sums, functions, place, counter, found } = context;
  const rows = useMemo(() => [...functions.list].filter((fn) => !found || found[fn]), [functions, found]);
  const columns = useMemo(() => list(context), [context]);
  const exact = model.counter(counter)?.exact;
  return (
    <div class="view">
      <h1>Functions</h1>
      <div class="bar-of-tools">
        <span class="number" role="status">{whole(rows.length)} of {whole(functions.list.length)} functions</span>
        <span class="space" />
        <label class="check">
          <input type="checkbox" checked={context.inlines} onChange={() => change(place, { inlines: context.inlines ? "" : "1" })} />
          show inlined functions
        </label>
      </div>
      {!exact && <p class="quiet">100 % is {valueOf(context, sums.all)}; whiskers and ± are the 95 % confidence interval.</p>}
      <Nameless context={context} functions={rows} />
      <Table name="Functions" columns={columns} rows={rows} by="self" empty="No function matches." />
    </div>
  );
}

function list(context: Context): Column<number>[] {
  const { model, sums, functions, counter } = context;
  const share = (value: number) => model.interval(counter, sums, value);
  const most = (of: Float64Array) => functions.list.reduce((it, fn) => Math.max(it, share(of[fn]).high), 0);
  const mostSelf = most(functions.self), mostTotal = most(functions.total);
  const columns: Column<number>[] = [
    { key: "self", title: "self", hint: "in the function itself, without its callees", order: (fn) => functions.self[fn],
      cell: (fn) => <Share it={share(functions.self[fn])} most={mostSelf} /> },
    { key: "total", title: "total", hint: "including its callees", minor: true, order: (fn) => functions.total[fn],
      cell: (fn) => <Share it={share(functions.total[fn])} most={mostTotal} /> },
    { key: "value", title: "self " + quantity(context), minor: true, order: (fn) => functions.self[fn],
      cell: (fn) => valueOf(context, functions.self[fn]) },
  ];
  if (!model.counter(counter)?.exact)
    columns.push({ key: "samples", title: "samples", hint: "self", minor: true,
                   order: (fn) => functions.selfSamples[fn], cell: (fn) => whole(functions.selfSamples[fn]) });
  if (model.callsCounter && isWhole(context.part))
    columns.push(
      { key: "calls", title: "calls", minor: true, hint: "exact: entering + recursive; ≥ where some may not have been counted",
        order: (fn) => calls(context, fn).order, cell: (fn) => calls(context, fn).text },
      { key: "each", title: "time/call", minor: true, hint: "total divided by entering calls", order: (fn) => model.row(fn)?.ns_per_call?.value ?? -1,
        cell: (fn) => {
          const each = model.row(fn)?.ns_per_call;
          return each ? `${amount(each.value, "ns")}` : "";
        } });
  if (context.diff) {
    const changes = new Map(context.diff.rows.map((row) => [row.function + "\0" + (row.image ?? ""), row]));
    const of = (fn: number) => changes.get(model.names[fn] + "\0" + model.imageNames[fn]);
    columns.push({ key: "change", title: "change", hint: `of the share, against ${context.oldFile}`, minor: true,
                   order: (fn) => of(fn)?.share_change.value ?? 0,
                   cell: (fn) => {
                     const it = of(fn);
                     return it ? <span class={it.significant ? "sure" : "quiet"} title={it.verdict}>
                       {points(it.share_change.value)} <small>{margin(it.share_change.low, it.share_change.high)}</small></span> : "";
                   } });
  }
  columns.push(
    { key: "name", title: "function", left: true, wide: true, order: (fn) => model.names[fn],
      cell: (fn) => <FunctionLink context={context} fn={fn} /> },
    { key: "image", title: "image", left: true, minor: true, order: (fn) => model.imageNames[fn],
      cell: (fn) => <span class="image" title={model.imageNames[fn]}>{model.imageNames[fn]}</span> });
  return columns;
}
