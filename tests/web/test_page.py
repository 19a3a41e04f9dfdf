#!/usr/bin/python3
"""The page of tally export --format html in a browser: every view, its figures beside those of tally report, keys and links.

test_page.py TALLY DIRECTORY PROGRAMS MAKE_EXPORT [CASE...]"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page import SHOTS, VIEWS, browse, compare_functions, export, made, near, percent, recorded, report, step  # noqa: E402
from tap import case, run  # noqa: E402


@case
def every_view_stands(context):
    """Light, dark and narrow: no word on the console, no request, nothing for axe, no sideways scrolling; a picture of each."""
    page = export(context, recorded(context))
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 320)):
        steps, wants = [step("open", scheme=scheme, width=width)], []
        for view in (*VIEWS, "flame?mode=up", "flame?mode=function", "source?as=asm"):
            name = f"{re.sub('[^a-z]+', '-', view)}-{scheme}-{width}"
            steps += [step("go", file=page, hash=view), step("shot", path=os.path.join(SHOTS, name + ".png")), step("overflow"),
                      step("axe") if width == 320 or "?" not in view else step("title")]
            wants.append((len(steps), name))
        found = browse(context, *steps)
        for end, name in wants:
            context.equal(found[end - 2], 0, f"{name}: wider than the window")
            if isinstance(found[end - 1], list):
                context.equal(found[end - 1], [], f"{name}: axe")
            else:
                context.check("Tally" in (found[end - 1] or ""), f"{name}: title {found[end - 1]!r}")


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
def threads_filter_all_views(context):
    profile = made(context, "plain")
    page = export(context, profile)
    threads = report(context, "report", "--limit", "0%", "--by", "thread", profile)["rows"]
    wanted = threads[1]
    box = f"[aria-label='Only {wanted['thread']} {wanted['tid']}']"
    found = browse(context, step("open"), step("go", file=page, hash="threads"), step("rows", of=".table"), step("click", of=box),
                   step("click", of="nav a:nth-child(3)"), step("rows", of=".table"), step("hash"), step("text", of="header .filter"))
    context.equal([row["share"].split(" ±")[0] for row in found[2] or []], [percent(row["self"]["share"]) for row in threads], "threads")
    flat = report(context, "report", "--limit", "0%", "--thread", str(wanted["tid"]), profile)["rows"]
    compare_functions(context, found[5] or [], flat, "of one thread", calls=False)
    context.check("threads=" in (found[6] or ""), f"the choice is in the address: {found[6]}")
    context.check(str(wanted["tid"]) in (found[7] or ""), f"the choice is shown: {found[7]}")


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
        step("click", of="text=invert"), step("hash"), step("painted", of="canvas"),
        step("click", of="text=bottom-up"), step("keys", of="canvas", keys=["ArrowUp", "ArrowUp"]), step("text", of=".detail"),
        step("click", of="text=by function"), step("keys", of="canvas", keys=["ArrowUp"]), step("text", of=".detail"), step("keys", keys=["3"]), step("hash"))
    most = max(row["self"]["value"] for row in rows.values())
    hottest = [row for row in rows.values() if row["self"]["value"] == most]  # several, now and then
    for at in (2, 18):
        context.check(found[at] and found[at] > 0.3, f"the graph is painted: {found[at]}")
    context.equal(found[4], "search", "/ goes to the search")
    near(context, (found[6] or "").split(" in")[0], percent(rows["nest"]["total"]["share"]), "what the search found")
    below, shown = [row for row in listed if (found[9] or "").startswith(f"{row['function']} {row['image'] or ''}")], re.findall(r"[\d.]+ %", found[9] or "")
    context.check(any(shown and abs(float(shown[0][:-2]) - row["total"]["share"] * 100) < 0.1001 for row in below),
                  f"the frame below that below all: {found[9]}, {[row['total']['share'] for row in below]}")
    context.check(re.search(r"z=\d+\.\d+$", found[11] or ""), f"Enter zooms: {found[11]}")
    context.check(re.search(r"z=\d+$", found[13] or ""), f"Backspace goes out: {found[13]}")
    context.check("z=" not in (found[15] or "z="), f"Escape shows all: {found[15]}")
    context.check("flip=1" in (found[17] or ""), f"invert: {found[17]}")
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
        steps += [step("go", file=page, hash=view), step("axe")]
    found = browse(context, *steps, step("go", file=page, hash="functions"), step("rows", of=".table"))
    with open(page, encoding="utf-8") as stream:
        text = stream.read()
    context.equal(len(re.findall(r"<script\b", text)), len(re.findall(r"</script>", text)), "scripts begin and end")
    for i, view in enumerate(VIEWS):
        context.equal([it for it in found[2 + 2 * i] or [] if it], [], f"{view}: axe")
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
