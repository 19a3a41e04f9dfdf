// What was open at the end: the stacks that opened it, and each descriptor with what it is.
import { useMemo } from "preact/hooks";
import { type Context, linkNamed } from "../context";
import type { Descriptor, DescriptorsDocument } from "../data";
import { amount, whole } from "../format";
import { Bar, Figure, Missing, NotAll } from "../parts";
import { change, link, matches } from "../state";
import { type Column, Table } from "../table";

interface Group {
  stack: number;
  list: Descriptor[];
  opener: DescriptorsDocument["stacks"][number][number] | undefined;
}

const ORIGINS: Record<string, string> = { before: "open before", inherited: "inherited", unseen: "opening not seen" };

/** The innermost function that is not of the C library. */
function opener(stack: DescriptorsDocument["stacks"][number] | undefined) {
  return stack?.find((frame) => frame.function && !/^(libc[.-]|ld-)/.test(frame.image ?? "")) ?? stack?.[0];
}

function kinds(list: Descriptor[]): string {
  const counts = new Map<string, number>();
  for (const it of list) counts.set(it.kind ?? "?", (counts.get(it.kind ?? "?") ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([kind, count]) => (count > 1 ? `${count} ${kind}` : kind)).join(", ");
}

function names(list: Descriptor[]): string {
  return [...new Set(list.map((it) => it.name).filter(Boolean))].join(", ");
}

function groupsOf(fds: DescriptorsDocument): Group[] {
  const groups = new Map<number, Group>();
  for (const it of fds.descriptors) {
    if (it.stack === undefined) continue;
    const known = groups.get(it.stack);
    if (known) known.list.push(it);
    else groups.set(it.stack, { stack: it.stack, list: [it], opener: opener(fds.stacks[it.stack]) });
  }
  return [...groups.values()].sort((a, b) => b.list.length - a.list.length || a.stack - b.stack);
}

function useColumns(context: Context, fds: DescriptorsDocument, most: number) {
  const { place } = context, oldest = (group: Group) => Math.max(...group.list.map((it) => it.age_ns ?? 0));
  const groups = useMemo((): Column<Group>[] => [
    { key: "count", title: "open", order: (it) => it.list.length, cell: (it) => (
      <span class="held"><Bar it={{ share: it.list.length / (most || 1), low: 0, high: 0 }} /><span>{whole(it.list.length)}</span></span>) },
    { key: "age", title: "oldest", minor: true, order: oldest, cell: (it) => amount(oldest(it), "ns") },
    { key: "kind", title: "kind", left: true, order: (it) => kinds(it.list), cell: (it) => kinds(it.list) },
    { key: "opener", title: "opened by", left: true, wide: true, order: (it) => it.opener?.function ?? "",
      cell: (it) => <a class="name" href={link(place, "descriptors", { stack: String(it.stack) })} title={it.opener?.function}>{it.opener?.function ?? "not known"}</a> },
    { key: "names", title: "targets", left: true, minor: true, order: (it) => names(it.list), cell: (it) => <span class="image" title={names(it.list)}>{names(it.list)}</span> },
  ], [place, most]);
  const each = useMemo((): Column<Descriptor>[] => [
    { key: "number", title: "fd", order: (it) => it.number, cell: (it) => String(it.number) },
    { key: "kind", title: "kind", left: true, order: (it) => it.kind ?? "", cell: (it) => it.kind ?? "?" },
    { key: "age", title: "age", order: (it) => it.age_ns ?? -1, cell: (it) => (it.age_ns === undefined ? "" : amount(it.age_ns, "ns")) },
    { key: "name", title: "target", left: true, wide: true, order: (it) => it.name ?? "", cell: (it) => <span class="name" title={it.name ?? ""}>{it.name ?? ""}</span> },
    { key: "opener", title: "opened by", left: true, minor: true, order: (it) => openerName(fds, it), cell: (it) => <span class="image" title={openerName(fds, it)}>{openerName(fds, it)}</span> },
    { key: "process", title: "process", left: true, minor: true, order: (it) => it.pid, cell: (it) => `${it.process} ${it.pid}` },
  ], [fds]);
  return { groups, each };
}

function openerName(fds: DescriptorsDocument, it: Descriptor): string {
  return it.stack === undefined ? `(${ORIGINS[it.origin] ?? it.origin})` : opener(fds.stacks[it.stack])?.function ?? "not known";
}

function Stack(props: { context: Context; stack: DescriptorsDocument["stacks"][number] }) {
  const { context, stack } = props;
  return (
    <section>
      <h2>Call stack that opened them</h2>
      <ol class="stack">
        {stack.map((frame, i) => (
          <li key={i}>{frame.function && context.model.find(frame.function, frame.image ?? "") > 0
            ? <a class="name" href={linkNamed(context, frame.function, frame.image ?? "")}>{frame.function}</a>
            : <span class="name">{frame.function ?? "not known"}</span>} <small>{frame.image}</small></li>
        ))}
      </ol>
    </section>
  );
}

export function DescriptorsView(props: { context: Context }) {
  const { context } = props, { place, fds } = context, { q = "" } = place.options;
  const all = fds?.descriptors ?? [], groups = useMemo(() => (fds ? groupsOf(fds) : []), [fds]), most = groups[0]?.list.length ?? 0;
  const columns = useColumns(context, fds ?? { descriptors: [], stacks: [], counters: [] }, most);
  const chosen = groups.find((it) => String(it.stack) === place.options.stack), others = place.options.others === "1";
  const pool = useMemo(() => chosen?.list ?? all.filter((it) => others || it.origin === "opened" || it.origin === "unseen"), [all, chosen, others]);
  const shown = useMemo(() => pool.filter((it) => matches(`${it.kind} ${it.name} ${it.process} ${fds ? openerName(fds, it) : ""}`, q)), [pool, q]);
  if (!fds)
    return <Missing title="File descriptors"><p>File descriptors were not recorded. <code>tally record --fds -- COMMAND</code> shows which are left open at
      exit, what they refer to, their age, and the call stacks that opened them.</p></Missing>;
  const used = fds.counters.find((it) => it.name === "fd.used"), open = all.filter((it) => it.origin === "opened");
  const rest = all.filter((it) => it.origin !== "opened" && it.origin !== "unseen");
  return (
    <div class="view">
      <h1>File descriptors</h1>
      <dl class="figures">
        <Figure title="open at exit" note={kinds(open) || "none"}>{whole(open.length)}</Figure>
        {used && <Figure title="opened" note={<a href={link(place, "flame", { counter: "fd.used" })}>flame graph</a>}>{whole(used.value)}</Figure>}
        <Figure title="call stacks that left some open" note={<a href={link(place, "flame", { counter: "fd.live" })}>flame graph</a>}>{whole(groups.length)}</Figure>
        {rest.length > 0 && <Figure title="inherited" note="or open before the recording">{whole(rest.length)}</Figure>}
      </dl>
      <NotAll why={context.model.data.counters.find((it) => it.name === "fd.live")?.why} />
      {groups.length > 0 && <Table name="Descriptors by stack" columns={columns.groups} rows={groups} by="count" short marked={(it) => it === chosen} />}
      {chosen && <Stack context={context} stack={fds.stacks[chosen.stack] ?? []} />}
      <h2>{chosen ? "Left open by this call stack" : "All file descriptors"}</h2>
      <div class="bar-of-tools">
        <span class="number" role="status">{whole(shown.length)} of {whole(pool.length)}</span>
        <span class="space" />
        {chosen ? <button type="button" onClick={() => change(place, { stack: "" })}>all call stacks</button>
          : rest.length > 0 && <label class="check"><input type="checkbox" checked={others} onChange={() => change(place, { others: others ? "" : "1" })} /> include
            inherited</label>}
      </div>
      <Table name="Descriptors" columns={columns.each} rows={shown} by="age" empty="None." marked={(it) => it.origin === "unseen"} />
    </div>
  );
}
