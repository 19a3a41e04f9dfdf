import { type Context } from "../context";
import { amount, percent, whole } from "../format";
import { Figure, NotAll, Top, valueOf } from "../parts";
import { link } from "../state";

function cost(context: Context): { text: string; note: string } | null {
  const { overhead_tool_cpu_ns: own, target_cpu_ns: target } = context.model.data.meta;
  if (!own || !target || !Number(target)) return null;
  return { text: percent(Number(own) / Number(target)),
           note: `${amount(Number(own), "ns")} of CPU for Tally beside ${amount(Number(target), "ns")} of the program` };
}

/** What was lost, in a word. */
function lost(context: Context): string {
  const { losses } = context, kinds = losses?.losses.length ?? 0;
  if (losses && !losses.complete) return "the end";
  return kinds ? `${kinds} ${kinds === 1 ? "kind" : "kinds"}` : losses?.lost ?? "not known";
}

function Losses(props: { context: Context }) {
  const { losses, model } = props.context, complete = !losses || losses.complete;
  const cut = losses?.losses ?? [];
  return (
    <section>
      <h2>What was lost</h2>
      {!complete && <p class="warning">The recording did not come to its end: what came later is missing.</p>}
      {cut.length === 0 && (losses?.lost === "nothing" ? <p>Nothing: no sample was dropped and every stack is whole.</p>
        : <p>Lost: {losses?.lost ?? "not known"}.</p>)}
      {cut.length > 0 && (
        <table class="plain">
          <thead><tr><th scope="col" class="right">how many</th><th scope="col" class="left">what</th></tr></thead>
          <tbody>
            {cut.map((it) => (
              <tr key={it.name}><td class="right">{whole(it.count)}</td><td class="left">{it.reason}</td></tr>
            ))}
          </tbody>
        </table>
      )}
      {model.data.meta.engine && <p class="quiet">How the figures were got: {model.data.meta.engine};
        {" "}{model.data.meta.sampling ?? ""}.</p>}
    </section>
  );
}

function Coverage(props: { context: Context }) {
  const { losses, model } = props.context, it = losses?.coverage;
  const why = model.callsCounter ? model.counter(model.callsCounter).why : undefined;
  if (!losses?.calls_counted || !it)
    return (
      <section>
        <h2>Exact calls</h2>
        <p>Calls were not counted. <code>tally record --calls -- COMMAND</code> counts every call between functions,
          exactly.</p>
      </section>
    );
  const share = (part: { found: number; counted: number }) => (part.found ? percent(part.counted / part.found) : "–");
  const rows: [string, { found: number; counted: number }][] = [
    ["calls and jumps to other functions", it.sites], ["of these through a register or memory", it.indirect],
    ["functions whose every call is counted" + (why === undefined ? "" : ", in what was counted"), it.functions], ["functions called by address", it.taken]];
  const left = it.images.flatMap((image) => image.left.map((why) => ({ ...why, image: image.image })))
    .sort((a, b) => b.count - a.count);
  return (
    <section>
      <h2>Exact calls</h2>
      <p>{whole(losses.calls ?? 0)} calls were counted, {whole(losses.indirect_calls ?? 0)} of them indirect.</p>
      <NotAll why={why} />
      <table class="plain">
        <thead><tr><th scope="col" class="left">in the program's code</th><th scope="col" class="right">found</th>
          <th scope="col" class="right">counted</th><th scope="col" class="right">share</th></tr></thead>
        <tbody>
          {rows.map(([what, part]) => (
            <tr key={what}><td class="left">{what}</td><td class="right">{whole(part.found)}</td>
              <td class="right">{whole(part.counted)}</td><td class="right">{share(part)}</td></tr>
          ))}
        </tbody>
      </table>
      {left.length > 0 && (
        <details>
          <summary>What was left alone, and why</summary>
          <ul class="why">
            {left.map((why) => <li key={why.image + why.code}><b>{whole(why.count)}</b> {why.reason} <span class="quiet">{why.image}</span></li>)}
          </ul>
        </details>
      )}
    </section>
  );
}

export function Overview(props: { context: Context }) {
  const { context } = props, { model, sums } = context, { meta } = model.data, counter = model.counter(context.counter);
  const price = cost(context), processes = model.data.processes.length - 1, threads = model.data.threads.tid.length - 1;
  const worst = sums.effective ? Math.min(0.98 / Math.sqrt(sums.effective), 1) : 1;
  const when = meta.start_time ? new Date(Number(meta.start_time) * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC" : "";
  return (
    <div class="overview">
      <h1>{meta.command || model.data.file}</h1>
      <dl class="figures">
        {counter && <Figure title={counter.name} note={counter.exact || !counter.counted ? counter.said : `${whole(sums.samples)} samples${meta.rate_hz ? ` at ${meta.rate_hz} Hz` : ""}`}>
          {valueOf(context, sums.all)}</Figure>}
        {meta.duration_ns && <Figure title="duration" note={when}>{amount(Number(meta.duration_ns), "ns")}</Figure>}
        {counter && !counter.exact && <Figure title="how sure" note="no share is further off, in 95 of 100 cases">
          ±{(worst * 100).toFixed(1)} points</Figure>}
        <Figure title="lost" note={meta.engine ?? "how the figures were got is not known"}>{lost(context)}</Figure>
        {price && <Figure title="what measuring cost" note={price.note}>{price.text}</Figure>}
        <Figure title="recorded" note={[meta.hostname, meta.machine].filter(Boolean).join(", ")}>
          {whole(processes)} {processes === 1 ? "process" : "processes"}, {whole(threads)} {threads === 1 ? "thread" : "threads"}</Figure>
        {context.losses?.calls_counted && <Figure title="calls" note={`on ${whole(model.edges(null).length)} edges, ${model.callsSaid}`}>
          {whole(context.losses.calls ?? 0)}</Figure>}
      </dl>
      {sums.all > 0 ? (
        <div class="pair">
          <Top context={context} title="Most of their own" total={false} />
          <Top context={context} title="Most with all they call" total={true} />
        </div>
      ) : <p class="warning">There is no figure of this counter in what was chosen.</p>}
      <p><a class="button" href={link(context.place, "flame")}>Flame graph</a>{" "}
        <a class="button" href={link(context.place, "functions")}>All functions</a></p>
      <div class="pair">
        <Losses context={context} />
        <Coverage context={context} />
      </div>
      <p class="quiet">{model.data.file}, written by {model.data.creator}
        {meta.kernel ? `; Linux ${meta.kernel}` : ""}{context.old ? `; compared with ${context.oldFile}` : ""}</p>
    </div>
  );
}
