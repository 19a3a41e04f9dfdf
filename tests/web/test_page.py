#!/usr/bin/python3
"""The page of tally export --format html in a browser: every view, its figures beside those of tally report, keys and links.

test_page.py TALLY FOLDER PROGRAMS MAKE_EXPORT [CASE...]; FOLDER takes the npm packages and, in shots/, a picture of each view."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "system"))
import tally  # noqa: E402
from tap import Skip, case, need, run  # noqa: E402

FOLDER, PROGRAMS, MAKE_EXPORT = map(os.path.abspath, sys.argv[2:5])
VIEWS = ("overview", "flame", "functions", "function", "source", "threads", "candidates", "heap")
NO_PAGE = b"was built without npm"
SHOTS = os.path.join(FOLDER, "shots")


# --- the browser ---


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    raise Skip("no program chromium")


def node_modules():
    """Where the packages are; installed once a build folder."""
    need("node", "npm")
    folder = os.path.join(FOLDER, "node")
    modules = os.path.join(folder, "node_modules")
    if os.path.isdir(os.path.join(modules, "axe-core")) and os.path.isdir(os.path.join(modules, "playwright-core")):
        return modules
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), folder)
    try:
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise Skip("npm could not install playwright-core and axe-core in time") from error
    if done.returncode:
        raise Skip("npm could not install playwright-core and axe-core: " + done.stdout.decode(errors="replace").strip()[-200:])
    return modules


def browse(context, *steps):
    """What each step found; nothing bad may have happened."""
    program, modules, plan = chromium(), node_modules(), context.path("plan.json")
    os.makedirs(SHOTS, exist_ok=True)
    with open(plan, "w", encoding="utf-8") as stream:
        json.dump(steps, stream)
    environment = dict(os.environ, HOME=context.folder, XDG_CONFIG_HOME=context.folder)
    done = subprocess.run(["node", os.path.join(HERE, "browser.mjs"), modules, program, plan], env=environment, timeout=100,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if not context.equal(done.returncode, 0, "browser.mjs: " + done.stderr.decode(errors="replace")[-800:]):
        return [None] * len(steps)
    answer = json.loads(done.stdout)
    context.equal(answer["bad"], [], "what must not happen")
    if answer["bad"] and os.path.exists(plan + ".png"):
        shutil.copy(plan + ".png", os.path.join(SHOTS, "failed.png"))
    return answer["found"] + [None] * (len(steps) - len(answer["found"]))


def step(what, **options):
    return {"do": what, **options}


# --- what is shown ---


def export(context, profile, *options, name="page.html"):
    path = context.path(name)
    done = tally.run(context, [context.tally, "export", "--format", "html", "-o", path, *options, profile])
    if NO_PAGE in done.errors:
        raise Skip("this tally was built without npm")
    context.equal(done.status, 0, f"export ({done.text()})")
    return path


def made(context, name):
    """One of the profiles that the tests of exports are made with: always the same figures."""
    done = tally.run(context, [MAKE_EXPORT, context.folder])
    context.equal(done.status, 0, "make_export")
    return context.path(name + ".tally")


def need_x86_64():
    if os.uname().machine != "x86_64":
        raise Skip("calls and memory are counted on x86-64 only")


def recorded(context, name="profile"):
    need_x86_64()
    program = os.path.join(PROGRAMS, "loops")
    if not os.path.exists(program):
        raise Skip("no program loops")
    profile = tally.recorded(context, [program], ["--calls"], name=name)
    return profile.path if hasattr(profile, "path") else context.path(name)


def report(context, command, *options):
    done = tally.run(context, [context.tally, command, "--json", *options])
    context.equal(done.status, 0, f"{command} {options} ({done.text()})")
    return json.loads(done.output)


def percent(share):
    """As Number.toFixed(1) does it."""
    return f"{float(f'{share * 100:.9f}'):.1f} %"


def margin(figure):
    return f"±{(figure['high'] - figure['low']) / 2 * 100:.1f}" if figure.get("high", 0) > figure.get("low", 0) else ""


def calls_of(row):
    if "calls" not in row or row["calls"] is None:
        return ""
    recursive = row.get("recursive_calls") or 0
    entering = row["calls"] - recursive
    return ("≥" if row.get("calls_complete") is False else "") + (f"{entering:,}" if entering or not recursive else "") + (
        f"+{recursive:,}" if recursive else "")


def near(context, got, wanted, what):
    """Shares of the page and of a report: both are rounded, so the last digit may differ by one."""
    one, two = re.findall(r"[\d.]+", got), re.findall(r"[\d.]+", wanted)
    context.check(len(one) == len(two) and all(abs(float(a) - float(b)) < 0.1001 for a, b in zip(one, two)),
                  f"{what}: {got!r} on the page, {wanted!r} in the report")


def compare_functions(context, rows, wanted, what, calls=True):
    by_name = {}
    for row in rows:
        by_name.setdefault((row["function"], row["file"]), row)
    expected = [row for row in wanted if row["self"]["value"] or row["total"]["value"]]
    context.equal(len(rows), len(expected), f"{what}: functions")
    for row in expected:
        got = by_name.get((row["function"], row["image"] or ""))
        if not context.check(got, f"{what}: {row['function']} is not on the page"):
            continue
        near(context, got["self"], f"{percent(row['self']['share'])} {margin(row['self'])}".strip(), f"{what}: self of {row['function']}")
        near(context, got["total"], f"{percent(row['total']['share'])} {margin(row['total'])}".strip(), f"{what}: total of {row['function']}")
        if "samples" in got:
            context.equal(got["samples"], f"{row['self']['samples']:,}", f"{what}: samples of {row['function']}")
        if calls:
            context.equal(got.get("calls", ""), calls_of(row), f"{what}: calls of {row['function']}")


# --- the cases ---


@case
def every_view_stands(context):
    """Light, dark and narrow: no word on the console, no request, nothing for axe, no sideways scrolling; a picture of each."""
    page = export(context, recorded(context))
    steps, wants = [], []
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 320)):
        steps.append(step("open", scheme=scheme, width=width))
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
def peaks_are_not_added_up(context):
    """Of a counter whose figures combine as the largest: what a search finds, and what goes along a way to a function."""
    profile = made(context, "plain")
    with contextlib.closing(sqlite3.connect(profile)) as base, base:
        base.execute("UPDATE data_counters SET combine = 2, exact = 1 WHERE name = (SELECT id FROM data_strings WHERE text = 'time.cpu')")
    page = export(context, profile)
    rows = {row["function"]: row["total"]["value"] for row in report(context, "report", "--limit", "0%", profile)["rows"]}
    found = browse(context, step("open"), step("go", file=page, hash="flame?q=compare"), step("text", of="[role=status]"),
                   step("go", file=page, hash="function?fn=compare"), step("rows", of="[aria-label=Callers]"),
                   step("go", file=page, hash="threads"), step("texts", of="th"))
    context.equal((rows["compare"], rows["main"]), (300000000, 300000000), "the report's")
    context.equal(found[2], "100.0 % in or below · 300 ms", "the search")
    context.equal({row["function"]: row["share"] for row in found[4] or []},
                  {"quick_sort": "100.0 %", "is_even": "13.3 %", "is_odd": "1.7 %"}, "the ways")
    context.check(found[6] and not any("samples" in title for title in found[6]), f"exact figures have no samples: {found[6]}")


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
    rows = {row["function"]: row for row in report(context, "report", "--limit", "0%", profile)["rows"]}
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
    context.check("100" in (found[9] or "") or "9" in (found[9] or ""), f"the frame below all: {found[9]}")
    context.check(re.search(r"z=\d+\.\d+$", found[11] or ""), f"Enter zooms: {found[11]}")
    context.check(re.search(r"z=\d+$", found[13] or ""), f"Backspace goes out: {found[13]}")
    context.check("z=" not in (found[15] or "z="), f"Escape shows all: {found[15]}")
    context.check("flip=1" in (found[17] or ""), f"invert: {found[17]}")
    for at, kind in ((21, "self"), (24, "total")):
        context.check(any((found[at] or "").startswith(row["function"]) and percent(row[kind]["share"]) in found[at] for row in hottest),
                      f"the hottest function comes first, {kind}: {found[at]}")
    context.check((found[26] or "").startswith("#/functions"), f"a digit chooses a view: {found[26]}")


@case
def candidates_agree_with_tally_candidates(context):
    profile = recorded(context)
    page = export(context, profile)
    wanted = report(context, "candidates", "--limit", "0%", "--speedup", "10", "--invoke-cost", "2us", profile)["rows"]
    found = browse(context, step("open"), step("go", file=page, hash="candidates"), step("slide", of="input[type=range] >> nth=0", value=8),
                   step("slide", of="input[type=range] >> nth=1", value=8), step("rows", of=".table"), step("texts", of=".sliders b"))
    context.equal(found[5], ["10.0×", "2.00 µs"], "the sliders")
    got = {row["function"]: row for row in found[4] or []}
    compared = 0
    for row in wanted:
        if row.get("calls") is None or not row["bound"] or row["bound"]["value"] is None:
            continue
        near(context, got[row["function"]]["whole, at best"].split(" ")[0], f"{row['bound']['value']:.2f}×", f"bound of {row['function']}")
        compared += 1
    context.check(compared >= 3, f"only {compared} functions were compared")


@case
def candidates_are_the_program_s(context):
    """Neither the kernel's functions, of which the first profile has one, nor Tally's own, which a library becomes in the second."""
    for agent in (False, True):
        profile = made(context, "plain")
        if agent:
            with contextlib.closing(sqlite3.connect(profile)) as base, base:
                base.execute("UPDATE data_strings SET text = '[tally-agent]' WHERE text = 'libsort.so.1'")
        page = export(context, profile)
        found = browse(context, step("open"), step("go", file=page, hash="candidates"), step("rows", of=".table"))
        document = report(context, "candidates", "--limit", "0%", profile)
        wanted = {(row["function"], row["image"]) for part in ("rows", "calls_unknown") for row in document[part]}
        context.equal({(row["function"], row["file"]) for row in found[2] or []}, wanted, f"candidates, {agent}")
        context.equal(("quick_sort", "libsort.so.1") in wanted, not agent, f"the library's, {agent}")


@case
def memory_is_what_report_says(context):
    need("sort")
    need_x86_64()
    profile = tally.recorded(context, ["sh", "-c", "echo; exec sort /etc/services"], ["--heap"]).path
    page = export(context, profile)
    if b"heap.live" not in tally.run(context, [context.tally, "report", "--json", profile]).output:
        raise Skip("the heap was not counted here")
    found = browse(context, step("open"), step("go", file=page, hash="heap"), step("rows", of=".table"), step("axe"),
                   step("shot", path=os.path.join(SHOTS, "heap.png")), step("click", of="text=with all it calls"), step("rows", of=".table"))
    for at, kind in ((2, "self"), (6, "total")):
        got = {(row["function"], row["file"]): row for row in found[at] or []}
        compared = 0
        for counter, title in (("heap.count", "blocks"), ("heap.live.count", "live blocks"), ("heap.temporary", "temporary")):
            for row in report(context, "report", "--limit", "0%", "--counter", counter, profile)["rows"]:
                if row[kind]["value"]:
                    shown = got.get((row["function"], row["image"] or ""), {}).get(title)
                    context.equal(shown, f"{row[kind]['value']:,}", f"{title} of {row['function']}, {kind}")
                    compared += 1
        context.check(compared >= 3, f"only {compared} were compared")
    context.equal(found[3], [], "axe")


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


def compare_changes(context, shown, wanted):
    """The changes of functions on the page with those of tally diff."""
    rows = {(row["function"], row["image"]): row for row in wanted["rows"]}
    compared = 0
    for row in shown or []:
        it = rows.get((row["function"], row["file"]))
        if it and row["change"]:
            change = it["share_change"]["value"] * 100
            got = float(row["change"].split(" ")[0].replace("−", "-").replace("±", ""))
            context.check(abs(got - change) < 0.0501, f"change of {row['function']}: {row['change']}, {change}")
            compared += 1
    return compared


@case
def a_comparison_says_what_diff_says(context):
    old, new = made(context, "left"), context.path("right.tally")
    page = export(context, new, "--against", old)
    found = browse(context, step("open"), step("go", file=page, hash="functions"), step("rows", of=".table"),
                   step("go", file=page, hash="flame"), step("click", of="text=by difference"), step("hash"), step("painted", of="canvas"),
                   step("shot", path=os.path.join(SHOTS, "difference.png")), step("axe"))
    compared = compare_changes(context, found[2], report(context, "diff", "--limit", "0%", old, new))
    context.check(compared >= 2, f"only {compared} were compared: {found[2]}")
    context.check("colour=difference" in (found[5] or ""), f"the choice is in the address: {found[5]}")
    context.check(found[6] and found[6] > 0.2, f"painted {found[6]}")
    context.equal(found[8], [], "axe")


@case
def a_part_is_compared_with_that_part(context):
    """Filters hold for both profiles. What tally diff did not compare has no change: other counters, some of the threads."""
    old, new = made(context, "left"), context.path("right.tally")
    part, whole = export(context, new, "--against", old, "--image", "libsort*"), export(context, new, "--against", old, name="whole.html")
    steps = [step("go", file=part, hash="functions"), step("rows", of=".table"), step("go", file=part, hash="flame?colour=difference"),
             step("keys", of="canvas", keys=["ArrowDown"] * 4), step("text", of=".detail")]
    for hash_ in ("", "?counter=cycles", "?threads=1", "?inlines=1"):
        steps += [step("go", file=whole, hash="functions" + hash_), step("texts", of="th"), step("go", file=whole, hash="flame" + hash_),
                  step("texts", of=".bar-of-tools button")]
    found = browse(context, step("open"), *steps)
    context.check(compare_changes(context, found[2], report(context, "diff", "--limit", "0%", "--image", "libsort*", old, new)) >= 1, f"{found[2]}")
    context.check((found[5] or "").startswith("serve(") and "against 100.0 %" in found[5], f"the part of the old profile: {found[5]}")
    for i, (change, colours) in enumerate(((True, True), (False, False), (False, False), (False, True))):
        context.equal(any("change" in title for title in found[7 + 4 * i] or []), change, f"{i}: the column")
        context.equal("by difference" in (found[9 + 4 * i] or []), colours, f"{i}: the colours")


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


@case
def a_hundred_thousand_nodes(context):
    done = tally.run(context, [MAKE_EXPORT, context.folder, "100000"])
    context.equal(done.status, 0, "make_export")
    page = export(context, context.path("large.tally"))
    size = os.path.getsize(page)
    context.check(size < 5_000_000, f"the page has {size} bytes")
    found = browse(context, step("open"), step("speed", file=page, words="step_53"), step("painted", of="canvas"),
                   step("shot", path=os.path.join(SHOTS, "large.png")))
    context.note(f"{size:,} bytes; ms: {({key: round(value) for key, value in (found[1] or {}).items()})}")
    context.check(found[2] and found[2] > 0.05, f"painted {found[2]}")


# --- tally view ---


def view(context, *options, **environment):
    """The command running, and the address that it printed."""
    process = tally.start(context, [context.tally, "view", *options], env={**os.environ, **environment})
    address = process.stdout.readline().decode().strip()
    if not address:
        errors = process.stderr.read()
        if NO_PAGE in errors:
            raise Skip("this tally was built without npm")
        raise AssertionError(f"no address: {errors}")
    return process, address


def ask(address, head=None, path=None):
    """Status and body of what is answered to a request; to nothing but a `head` if that is given."""
    host, port = re.match(r"http://(127\.0\.0\.1):(\d+)/", address).groups()
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        target = path if path is not None else address[address.index("/", 8):]
        connection.sendall(head if head is not None else f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = b""
        while True:
            part = connection.recv(65536)
            if not part:
                break
            answer += part
    status, _, body = answer.partition(b"\r\n\r\n")
    return status.split(b"\r\n")[0].decode(), body


def end(context, process, number=signal.SIGINT):
    process.send_signal(number)
    context.equal(process.wait(20), 0, "status at its end")


@case
def view_serves_what_export_writes(context):
    profile = made(context, "plain")
    with open(export(context, profile), "rb") as stream:
        wanted = stream.read()
    process, address = view(context, "--no-browser", profile)
    context.check(re.fullmatch(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", address), f"the address: {address}")
    status, body = ask(address)
    context.equal(status, "HTTP/1.1 200 OK", "the page")
    context.check(body == wanted, f"the page has {len(body)} bytes, the file {len(wanted)}")
    path = address[address.index("/", 8):]
    for other in ("/", "/favicon.ico", path[:-1], path + "x", path[:-2] + "/", "/" + "0" * 32 + "/"):
        context.equal(ask(address, path=other), ("HTTP/1.1 404 Not Found", b""), other)
    context.equal(ask(address, f"HEAD {path} HTTP/1.1\r\n\r\n".encode()), ("HTTP/1.1 200 OK", b""), "HEAD")
    context.equal(ask(address, f"POST {path} HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".encode())[0],
                  "HTTP/1.1 405 Method Not Allowed", "POST")
    with contextlib.suppress(ConnectionResetError):
        context.equal(ask(address, b"x" * 20000)[1], b"", "no request at all")
    with socket.create_connection(("127.0.0.1", int(address.split(":")[2].split("/")[0]))) as silent:
        silent.sendall(b"GET ")  # and never goes on
        context.equal(ask(address)[0], "HTTP/1.1 200 OK", "after one that never asks")
    end(context, process)
    with context_of_refusal(context):
        socket.create_connection(("127.0.0.1", int(address.split(":")[2].split("/")[0])), timeout=5).close()


@contextlib.contextmanager
def context_of_refusal(context):
    try:
        yield
        context.check(False, "the port is still open")
    except OSError:
        pass


@case
def view_opens_the_browser_it_is_told(context):
    profile, told = made(context, "plain"), context.path("told")
    browser = context.path("browser")
    with open(browser, "w", encoding="ascii") as stream:
        stream.write(f'#!/bin/sh\nprintf %s "$1" >"{told}.new" && mv "{told}.new" "{told}"\n')
    os.chmod(browser, 0o755)
    process, address = view(context, profile, BROWSER=browser)
    for _ in range(200):
        if os.path.exists(told):
            break
        time.sleep(0.05)
    with open(told, encoding="ascii") as stream:
        context.equal(stream.read(), address, "what the browser was given")
    end(context, process, signal.SIGTERM)
    process, address = view(context, profile, BROWSER=context.path("absent"))
    end(context, process)
    errors = process.stderr.read().decode()
    context.check("cannot start" in errors and "open the address yourself" in errors, f"no browser: {errors}")
    process, address = view(context, "--against", context.path("left.tally"), "--annotate", "0", context.path("right.tally"), BROWSER="", DISPLAY="",
                            WAYLAND_DISPLAY="")
    found = browse(context, step("open"), step("visit", address=address, hash="functions"), step("rows", of=".table"))
    context.check(found[2] and "change" in found[2][0], f"a comparison: {found[2]}")
    end(context, process, signal.SIGHUP)


@case
def view_says_what_keeps_it_from(context):
    profile = made(context, "plain")
    process, address = view(context, "--no-browser", profile)
    port = address.split(":")[2].split("/")[0]
    for options, words in (([context.path("absent")], "absent"), (["--port", port, profile], f"cannot listen at port {port}"),
                           (["--counter", "nothing", profile], "nothing")):
        done = tally.run(context, [context.tally, "view", "--no-browser", *options])
        context.equal((done.status, done.output), (2, b""), f"{options}")
        context.check(words in done.errors.decode() and done.errors.count(b"\n") == 1, f"{options}: {done.errors.decode()!r}")
    end(context, process)


@case
def what_makes_no_sense_is_refused(context):
    profile = made(context, "plain")
    export(context, profile)
    for options, words in ((["--format", "csv", "--against", profile], "--against is for --format html"),
                           (["--format", "csv", "--annotate", "3"], "--annotate is for --format html"),
                           (["--format", "csv", "--source-map", "a=b"], "--source-map is for --format html"),
                           (["--format", "html", "--source-map", "a"], "not of the form FROM=TO"),
                           (["--format", "html", "--inlines"], "--inlines is for --format"),
                           (["--format", "html", "--against", context.path("absent")], "absent")):
        done = tally.run(context, [context.tally, "export", *options, "-o", context.path("never"), profile])
        context.equal(done.status, 2, f"{options}")
        context.check(words in done.errors.decode(), f"{options}: {done.errors.decode()!r}")
        context.check(not os.path.exists(context.path("never")), f"{options} left a file")


del sys.argv[3:5]
run()
