import { type Context } from "../context";
import { amount, percent, whole } from "../format";
import { type Model, WHOLE } from "../model";
import { isOwnImage } from "../palette";
import { Figure, Nameless, NotAll, Top, valueOf } from "../parts";
import { link } from "../state";

/** What part of the program's CPU time its samples say is Tally's, of its agent and stubs: what was left out, and what was not. */
function insideShare(model: Model): number {
  const counter = model.data.counters.findIndex((it) => it.name === "time.cpu") + 1;
  if (!counter) return 0;
  const { selfSamples } = model.functions(counter, WHOLE, false), out = model.counter(counter).own ?? 0, all = out + model.sums(counter, WHOLE).samples;
  return all ? model.imageNames.reduce((sum, image, fn) => sum + (isOwnImage(image) ? selfSamples[fn] : 0), out) / all : 0;
}

/** As report_cost.c has it. */
function cost(context: Context): { text: string; note: string } | null {
  const { overhead_tool_cpu_ns: tool, target_cpu_ns: target } = context.model.data.meta, inside = Number(target) * insideShare(context.model);
  const own = Number(tool) + inside, program = Number(target) - inside;
  if (!tool || !target || program <= 0) return null;
  const part = inside ? `, ${amount(inside, "ns")} of it in the target` : "";
  return { text: percent(own / program), note: `${amount(own, "ns")} of CPU for Tally${part}; ${amount(program, "ns")} for the program` };
}

/** Samples of the counter in Tally itself, which no view has. */
function OwnShare(props: { context: Context }) {
  const { model, counter } = props.context, { own = 0, exact = true } = model.counter(counter) ?? {};
  if (!own || exact) return null;
  return <p class="quiet">Tally itself: {percent(own / (own + model.sums(counter, WHOLE).samples))} of all samples, left out.</p>;
}

/** What was lost, in a word. */
function lost(context: Context): string {
  const { losses } = context, kinds = losses?.losses.length ?? 0;
  if (losses && !losses.complete) return "the end of the recording";
  return kinds ? `${kinds} ${kinds === 1 ? "kind" : "kinds"}` : losses?.lost ?? "not known";
}

function Losses(props: { context: Context }) {
  const { losses, model } = props.context, complete = !losses || losses.complete;
  const cut = losses?.losses ?? [];
  return (
    <section>
      <h2>Losses</h2>
      {!complete && <p class="warning">The recording did not finish: what came later is missing.</p>}
      {cut.length === 0 && (losses?.lost === "nothing" ? <p>None: no sample was lost and every stack is complete.</p>
        : <p>Lost: {losses?.lost ?? "not known"}.</p>)}
      {cut.length > 0 && (
        <table class="plain">
          <thead><tr><th scope="col" class="right">count</th><th scope="col" class="left">loss</th></tr></thead>
          <tbody>
            {cut.map((it) => (
              <tr key={it.name}><td class="right">{whole(it.count)}</td><td class="left">{it.reason}</td></tr>
            ))}
          </tbody>
        </table>
      )}
      {model.data.meta.engine && <p class="quiet">Method: {model.data.meta.engine};
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
  const share = (part: { found: number; counted: number }) => (part.found ? percent(Math.floor((1000 * part.counted) / part.found) / 1000) : "–");
  const rows: [string, { found: number; counted: number }][] = [
    ["calls and jumps to other functions", it.sites], ["of these indirect", it.indirect],
    ["functions with all calls counted" + (why === undefined ? "" : ", in what was counted"), it.functions], ["functions whose address is taken", it.taken]];
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
          <summary>Not instrumented, and why</summary>
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
        {counter && !counter.exact && <Figure title="margin of error" note="of any share, at most, at 95 % confidence">
          ±{(worst * 100).toFixed(1)} points</Figure>}
        <Figure title="losses">{lost(context)}</Figure>
        {price && <Figure title="cost of measuring" note={price.note}>{price.text}</Figure>}
        <Figure title="target" note={[meta.hostname, meta.machine].filter(Boolean).join(", ")}>
          {whole(processes)} {processes === 1 ? "process" : "processes"}, {whole(threads)} {threads === 1 ? "thread" : "threads"}</Figure>
        {context.losses?.calls_counted && <Figure title="calls" note={`on ${whole(model.edges(null).length)} edges, ${model.callsSaid}`}>
          {whole(context.losses.calls ?? 0)}</Figure>}
      </dl>
      <OwnShare context={context} />
      {sums.all > 0 ? (
        <div class="pair">
          <Top context={context} total={false} />
          <Top context={context} total={true} />
        </div>
      ) : <p class="warning">This counter has no figures in what is selected.</p>}
      {model.counters.length > 0 && <p><a class="button" href={link(context.place, "flame")}>Flame graph</a>{" "}
        <a class="button" href={link(context.place, "functions")}>All functions</a></p>}
      <Nameless context={context} functions={context.functions.list} />
      <div class="pair">
        <Losses context={context} />
        <Coverage context={context} />
      </div>
      <p class="quiet">{model.data.file}, written by {model.data.creator}
        {meta.kernel ? `; Linux ${meta.kernel}` : ""}{context.old ? `; compared with ${context.oldFile}` : ""}</p>
    </div>
  );
}
