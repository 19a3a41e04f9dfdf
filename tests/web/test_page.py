#!/usr/bin/python3
"""The page of tally export --format html in a browser: every view, its figures beside those of tally report, keys and links.

test_page.py TALLY DIRECTORY PROGRAMS MAKE_EXPORT [CASE...]"""
import base64
import gzip
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page import FILLED, LOOKS, VIEWS, browse, compare_functions, export, looks, made, near, percent, recorded, report, step  # noqa: E402
from tap import case, run  # noqa: E402


@case
def every_view_stands(context):
    """Light, dark and narrow: no word on the console, no request, nothing for axe, no sideways scrolling."""
    page = export(context, recorded(context))
    looks(context, page, (*VIEWS, "flame?mode=up", "flame?mode=function", "source?as=asm"), LOOKS[:1])
    looks(context, page, (*FILLED, "heap", "flame?mode=up", "flame?mode=function", "source?as=asm"), LOOKS[1:])


@case
def the_menu_has_what_there_is(context):
    """Views without data are not in it. Their address says what records it."""
    shown = {"plain": ["Overview", "Flame graph", "Functions", "Callers/callees", "Threads", "Accelerator gain", "Heap"],
             "phases": ["Overview", "Flame graph", "Functions", "Callers/callees", "Threads", "Timeline", "Accelerator gain"], "empty": ["Overview"]}
    for name, titles in shown.items():
        page = export(context, made(context, name), "--annotate", "0")
        found = browse(context, step("open"), step("go", file=page), step("texts", of="nav a"), step("go", file=page, hash="latency"),
                       step("texts", of="nav [aria-current]"), step("text"), step("texts", of=".bar-of-tools"))
        context.equal(found[2], titles, f"{name}: the menu")
        context.equal(found[4], [], f"{name}: a view that is not in the menu is not marked in it")
        context.check("tally record --function" in (found[5] or ""), f"{name}: what records latency: {found[5]!r}")


@case
def links_keep_what_is_seen(context):
    """Search, zoom, threads and counter stay from view to view, and hold there."""
    page = export(context, made(context, "plain"))
    flame = "flame?counter=time.cpu&threads=1&q=sort&z="
    rows = {row["function"]: row for row in report(context, "report", "--limit", "0%", made(context, "plain"))["rows"]}
    found = browse(context, step("open"), step("go", file=page, hash="flame"), step("keys", of="canvas", keys=["ArrowDown", "ArrowDown", "ArrowDown", "Enter"]),
                   step("text", of=".detail"), step("hash"), step("type", of="#search", text="sort"), step("click", of="nav >> text=Functions"), step("hash"),
                   step("texts", of="header .filter"), step("rows", of=".table"), step("type", of="#search", text=""), step("rows", of=".table"),
                   step("click", of="nav >> text=Flame graph"), step("hash"), step("texts", of="button:disabled"),
                   step("click", of="nav >> text=Overview"), step("click", of="header .filter"), step("hash"))
    zoomed = re.search(r"[?&]z=([\d.]+)", found[4] or "")
    context.check(zoomed, f"the zoom is in the address: {found[4]}")
    for at in (7, 13):
        context.check(zoomed and f"z={zoomed[1]}" in (found[at] or ""), f"the zoom stays: {found[at]}")
    context.check("q=sort" in (found[7] or ""), f"the search stays: {found[7]}")
    context.check(found[8] and found[8][0].startswith("✕ zoomed to "), f"the zoom is shown: {found[8]}")
    context.check(found[9] and all("sort" in row["function"] + row["image"] for row in found[9]), f"the search holds: {found[9]}")
    name = (found[8] or ["✕ zoomed to ?"])[0].removeprefix("✕ zoomed to ")
    top = [row for row in found[11] or [] if row["function"] == name]
    context.check(top and top[0]["total"].startswith("100.0 %") and len(found[11]) < len(rows), f"only what lies in {name}: {found[11]}")
    context.check(found[14] is not None and "reset zoom" not in found[14], f"the graph is zoomed again: {found[14]}")
    context.check("z=" not in (found[17] or "z="), f"the zoom is taken back: {found[17]}")


def rewrite(context, page, change):
    """The page with another profile: change() gets what it has, as JSON."""
    with open(page, encoding="utf-8") as stream:
        text = stream.read()
    found = re.search('id="tally-profile">([^<]*)<', text)
    data = json.loads(gzip.decompress(base64.b64decode(found[1])))
    change(data)
    packed = base64.b64encode(gzip.compress(json.dumps(data).encode())).decode()
    path = context.path("other.html")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text[: found.start(1)] + packed + text[found.end(1) :])
    return path


@case
def colours_tell_images_apart(context):
    """No two images share one, few or many; they stay with another counter; the kernel has one; Tally's own is grey."""
    def rename(data):
        next(it for it in data["images"] if it["name"] == "libsort.so.1")["name"] = "[tally-agent]"

    plain, many = export(context, made(context, "plain")), export(context, made(context, "hostile"))
    own = rewrite(context, plain, rename)
    steps = [step("open")]
    for page, view in ((plain, "flame"), (plain, "flame?counter=cache-misses"), (many, "flame"), (own, "flame")):
        steps += [step("go", file=page, hash=view), step("legend")]
    found = browse(context, *steps)
    legends = [found[at] or [] for at in (2, 4, 6, 8)]
    for legend, least in zip(legends, (4, 2, 20, 4), strict=True):
        context.check(len(legend) >= least and len({colour for _, colour in legend}) == len(legend), f"colours: {legend}")
    context.check("[kernel]" in dict(legends[0]), f"the kernel's: {legends[0]}")
    context.check(all(entry in legends[0] for entry in legends[1]), f"of another counter: {legends[1]}, {legends[0]}")
    context.check("[tally-agent]" not in dict(legends[3]) and " 0.008 " in dict(legends[3]).get("Tally itself", ""), f"Tally's own: {legends[3]}")


@case
def tally_s_own_share_is_said(context):
    """What was left out of the figures, and what measuring cost with it: 600 ms of Tally, 500 of them in the target, which used 1 s."""
    def leave_out(data):
        data["meta"].update(overhead_tool_cpu_ns="100000000", target_cpu_ns="1000000000")
        counter = next(it for it in data["counters"] if it["name"] == "time.cpu")
        counter.update(own=622)  # of as many samples as are in the views

    plain = export(context, made(context, "plain"))
    page = rewrite(context, plain, leave_out)
    found = browse(context, step("open"), step("go", file=page), step("text"), step("texts", of=".figure"), step("go", file=page, hash="overview?counter=heap.bytes"),
                   step("text"), step("go", file=plain), step("text"))
    context.check("Tally itself: 50.0 % of all samples, left out." in (found[2] or ""), f"the share: {found[2]!r}")
    costs = [" ".join(text.split()) for text in found[3] or [] if "cost of measuring" in text]
    context.equal(costs, ["cost of measuring 120.0 % 600 ms of CPU for Tally, 500 ms of it in the target; 500 ms for the program"], "the cost")
    context.check("Tally itself" not in (found[5] or "Tally itself"), f"of an exact counter: {found[5]!r}")
    context.check("Tally itself" not in (found[7] or "Tally itself"), f"where nothing was left out: {found[7]!r}")


@case
def names_that_are_missing_are_explained_once(context):
    def take_name(data):
        """As a function is called of which only call-frame information tells where it begins."""
        functions = data["functions"]
        at = functions["name"].index("quick_sort")
        functions["name"][at] = data["images"][functions["image"][at]]["name"] + "+0x1000"

    profile = made(context, "plain", own=True)
    nameless = [row["function"] for row in report(context, "report", "--limit", "0%", profile)["rows"] if re.search(r"\+0x[0-9a-f]+$", row["function"] or "")]
    page = export(context, profile)
    fewer = rewrite(context, page, take_name)
    found = browse(context, step("open"), step("go", file=page, hash="functions"), step("texts", of=".nameless summary"), step("click", of=".nameless summary"),
                   step("text", of=".nameless"), step("axe"), step("go", file=page, hash="functions?q=quick_sort"), step("texts", of=".nameless summary"),
                   step("go", file=fewer, hash="functions"), step("texts", of=".nameless summary"))
    if not context.check(nameless, "a function without a name"):
        return
    context.equal(len(found[2] or []), 1, "said once")
    context.check((found[2] or [""])[0].startswith(f"{len(nameless)} function"), f"how many: {found[2]}, {nameless}")
    for word in ("find-dbgsym-packages", "debuginfo-install", "--debuginfod", "$DEBUGINFOD_URLS"):
        context.check(word in (found[4] or ""), f"{word}: {found[4]!r}")
    context.equal(found[5], [], "axe")
    context.equal(found[7], [], "not where none stands")
    context.check((found[9] or [""])[0].startswith(f"{len(nameless) + 1} functions have"), f"bounds without a name: {found[9]}")


@case
def functions_say_what_report_says(context):
    for name, counters in (("plain", ("time.cpu", "cache-misses", "heap.bytes")), ("profile", ("time.cpu",))):
        profile = made(context, name) if name == "plain" else recorded(context)
        page = export(context, profile)
        steps = [step("open")]
        for counter in counters:
            steps += [step("go", file=page, hash=f"functions?counter={counter}"), step("rows", of=".table"),
                      step("go", file=page, hash=f"functions?counter={counter}&inlines=1"), step("rows", of=".table")]
        found = browse(context, *steps)
        for i, counter in enumerate(counters):
            first = i == 0
            flat = report(context, "report", "--limit", "0%", "--counter", counter, profile)["rows"]
            compare_functions(context, found[4 * i + 2] or [], flat, f"{name} {counter}", calls=first)
            inlined = report(context, "report", "--limit", "0%", "--counter", counter, "--inlines", profile)["rows"]
            compare_functions(context, found[4 * i + 4] or [], inlined, f"{name} {counter} --inlines", calls=False)


@case
def nothing_early_is_missed(context):
    """A link that is followed, and a table that is scrolled, before the page's timers have come."""
    profile = made(context, "hostile")
    page = export(context, profile)
    found = browse(context, step("open", late=400), step("go", file=page), step("go", file=page, hash="functions"), step("rows", of=".table"),
                   step("type", of="#search", text="sort"), step("type", of="#search", text=""), step("hash"))
    flat = report(context, "report", "--limit", "0%", profile)["rows"]
    context.equal(len(found[3] or []), len([row for row in flat if row["self"]["value"] or row["total"]["value"]]), "functions")
    context.equal(found[6], "#/functions", "the search is taken back")


@case
def threads_filter_all_views(context):
    """Processes with their sums, their threads below them, which close and open; a thread or a whole process is chosen."""
    profile = made(context, "plain")
    page = export(context, profile)
    threads = report(context, "report", "--limit", "0%", "--by", "thread", profile)["rows"]
    wanted = threads[1]
    processes = {}
    for row in threads:
        processes.setdefault(row["pid"], []).append(row)
    large, members = max(processes.items(), key=lambda it: len(it[1]))
    name = f"{members[0]['process']} {large}"
    found = browse(context, step("open"), step("go", file=page, hash="threads"), step("rows", of=".table"),
                   step("click", of=f"[aria-label='Only {wanted['thread']} {wanted['tid']}']"), step("click", of="nav >> text=Functions"),
                   step("rows", of=".table"), step("hash"), step("text", of="header .filter"), step("click", of="header .filter"),
                   step("click", of="nav >> text=Threads"), step("click", of=f"[aria-label='Only process {name}']"), step("hash"), step("text", of="header .filter"),
                   step("click", of="nav >> text=Functions"), step("rows", of=".table"), step("click", of="nav >> text=Threads"),
                   step("click", of=f".disclose:has-text('{name}')"), step("rows", of=".table"), step("hash"))
    rows = {row["process, thread"]: row for row in found[2] or []}
    for row in threads:
        near(context, rows.get(f"{row['thread']} {row['tid']}", {}).get("share", "").split(" ±")[0], percent(row["self"]["share"]), f"thread {row['tid']}")
    context.check(len(members) > 1, f"a process with several threads: {processes.keys()}")
    sums = next((row for text, row in rows.items() if text.endswith(f"{name} {len(members)} threads")), {})
    context.equal(sums.get("samples"), f"{sum(row['self']['samples'] for row in members):,}", f"samples of the process: {rows.keys()}")
    near(context, sums.get("share", "").split(" ±")[0], percent(sum(row["self"]["share"] for row in members)), "share of the process")
    flat = report(context, "report", "--limit", "0%", "--thread", str(wanted["tid"]), profile)["rows"]
    compare_functions(context, found[5] or [], flat, "of one thread", calls=False)
    context.check("threads=" in (found[6] or ""), f"the choice is in the address: {found[6]}")
    context.check(str(wanted["tid"]) in (found[7] or ""), f"the choice is shown: {found[7]}")
    context.check(re.search(r"threads=p\d+", found[11] or ""), f"the process is in the address: {found[11]}")
    context.check(f"only process {name}" in (found[12] or ""), f"and shown: {found[12]}")
    flat = report(context, "report", "--limit", "0%", "--process", str(large), profile)["rows"]
    compare_functions(context, found[14] or [], flat, "of one process", calls=False)
    context.equal(len(found[17] or []), len(rows) - len(members), f"the process is closed: {found[17]}")
    context.check("turned=" in (found[18] or ""), f"that it is, is in the address: {found[18]}")


@case
def edges_have_their_exact_calls(context):
    profile = recorded(context)
    page = export(context, profile)
    edges = report(context, "report", "--edges", "--limit", "0%", profile)["rows"]
    names = sorted({row["callee"]["function"] for row in edges} & {"lines", "nest", "leaf", "caller", "main"})
    steps = [step("open")]
    for name in names:
        steps += [step("go", file=page, hash=f"function?fn={name}"), step("rows", of="[aria-label=Callers]"), step("texts", of=".drawing .box")]
    found = browse(context, *steps)
    for i, name in enumerate(names):
        wanted = {}
        for row in edges:
            if row["callee"]["function"] == name:
                caller = row["caller"]["function"] if row["caller"] else "outside"
                wanted[caller] = wanted.get(caller, 0) + row["calls"]
        got = {row["function"]: int(row["calls"].replace(",", "")) for row in found[3 * i + 2] or [] if row["calls"]}
        context.equal(got, wanted, f"calls of {name} by caller")
        drawn = " ".join(found[3 * i + 3] or [])
        for caller, calls in wanted.items():
            context.check(f"{calls:,} call" in drawn, f"{name}: the drawing has no {calls:,} calls from {caller}: {drawn!r}")
    context.check(len(names) >= 3, f"only {names} were called")


@case
def flame_graph_searches_zooms_and_turns(context):
    profile = recorded(context)
    page = export(context, profile)
    listed = report(context, "report", "--limit", "0%", profile)["rows"]
    rows = {row["function"]: row for row in listed}
    found = browse(
        context, step("open"), step("go", file=page, hash="flame"), step("painted", of="canvas"),
        step("keys", keys=["/"]), step("focused"), step("type", of="#search", text="nest"), step("text", of="[role=status]"),
        step("type", of="#search", text=""), step("keys", of="canvas", keys=["ArrowDown", "ArrowDown", "ArrowDown"]),
        step("text", of=".detail"), step("keys", of="canvas", keys=["Enter"]), step("hash"), step("keys", of="canvas", keys=["Backspace"]),
        step("hash"), step("keys", of="canvas", keys=["Escape"]), step("hash"),
        step("click", of="[aria-label=Layout] >> text=flame"), step("hash"), step("painted", of="canvas"),
        step("click", of="text=bottom-up"), step("keys", of="canvas", keys=["ArrowUp", "ArrowUp"]), step("text", of=".detail"),
        step("click", of="text=by function"), step("keys", of="canvas", keys=["ArrowUp"]), step("text", of=".detail"), step("keys", keys=["3"]), step("hash"))
    most = max(row["self"]["value"] for row in rows.values())
    hottest = [row for row in rows.values() if row["self"]["value"] == most]  # several, now and then
    for at in (2, 18):
        context.check(found[at] and found[at] > 0.3, f"the graph is painted: {found[at]}")
    context.equal(found[4], "search", "/ goes to the search")
    near(context, (found[6] or "").split(" · ")[0], percent(rows["nest"]["total"]["share"]), "what the search found")
    below, shown = [row for row in listed if (found[9] or "").startswith(f"{row['function']} {row['image'] or ''}")], re.findall(r"[\d.]+ %", found[9] or "")
    context.check(any(shown and abs(float(shown[0][:-2]) - row["total"]["share"] * 100) < 0.1001 for row in below),
                  f"the frame below that below all: {found[9]}, {[row['total']['share'] for row in below]}")
    context.check(re.search(r"z=\d+\.\d+$", found[11] or ""), f"Enter zooms: {found[11]}")
    context.check(re.search(r"z=\d+$", found[13] or ""), f"Backspace goes out: {found[13]}")
    context.check("z=" not in (found[15] or "z="), f"Escape shows all: {found[15]}")
    context.check("flip=1" in (found[17] or ""), f"the root at the bottom: {found[17]}")
    for at, kind in ((21, "self"), (24, "total")):
        context.check(any((found[at] or "").startswith(row["function"]) and percent(row[kind]["share"]) in found[at] for row in hottest),
                      f"the hottest function comes first, {kind}: {found[at]}")
    context.check((found[26] or "").startswith("#/functions"), f"a digit chooses a view: {found[26]}")


@case
def source_is_what_annotate_says(context):
    profile = recorded(context)
    page = export(context, profile)
    wanted = report(context, "annotate", "--asm", "nest", profile)["annotated"]
    first = browse(context, step("open"), step("go", file=page, hash="function?fn=nest"), step("click", of="text=Source and instructions"),
                   step("text", of="h1"), step("texts", of=".code tr.hot code"), step("texts", of=".code tbody code"),
                   step("click", of="button:text('instructions')"), step("texts", of=".code tbody td.left code"))
    context.check((first[3] or "").startswith("nest"), f"the function that was chosen: {first[3]}")
    hot = [line["text"].strip() for line in wanted["lines"] if line["hot"] and line["parent"] == 0]
    for text in hot:
        context.check(text in [it.strip() for it in first[4] or []], f"the hot line {text!r}: {first[4]}")
    context.check(hot and len(wanted["source"]) >= wanted["function"]["last_line"] - wanted["function"]["first_line"], "the source is there")
    for text in wanted["source"]:
        context.check(text.strip() in [it.strip() for it in first[5] or []], f"the line {text!r}")
    context.equal(first[7], [it["text"] for it in wanted["instructions"]], "instructions")


@case
def hostile_names_are_only_names(context):
    page = export(context, made(context, "hostile"))
    steps = [step("open")]
    for view in VIEWS:
        steps += [step("go", file=page, hash=view), step("axe", of="structure") if view in FILLED else step("hash")]
    found = browse(context, *steps, step("go", file=page, hash="functions"), step("rows", of=".table"))
    with open(page, encoding="utf-8") as stream:
        text = stream.read()
    context.equal(len(re.findall(r"<script\b", text)), len(re.findall(r"</script>", text)), "scripts begin and end")
    for i, view in enumerate(VIEWS):
        context.check(found[2 + 2 * i] in ([], "#/" + view), f"{view}: axe: {found[2 + 2 * i]}")
    context.check(found[-1] and any("<" in row["function"] or '"' in row["function"] for row in found[-1]), "odd names are shown")


@case
def nothing_recorded_is_said(context):
    page = export(context, made(context, "empty"))
    steps = [step("open")]
    for view in VIEWS:
        steps += [step("go", file=page, hash=view), step("text")]
    found = browse(context, *steps)
    for i, view in enumerate(VIEWS[1:], 1):
        context.check(re.search("no samples|not counted|No function|tally (record|export)", found[2 + 2 * i] or ""), f"{view}: {found[2 + 2 * i]!r}")
    context.check("Calls were not counted" in (found[2] or ""), f"overview: {found[2]!r}")


@case
def the_page_prints(context):
    page = export(context, recorded(context))
    path = context.path("page.pdf")
    steps = [step("open")]
    for view in ("overview", "functions", "function"):
        steps += [step("go", file=page, hash=view), step("print", path=path)]
    browse(context, *steps)
    with open(path, "rb") as stream:
        context.check(stream.read(5) == b"%PDF-", "a PDF")


run()
