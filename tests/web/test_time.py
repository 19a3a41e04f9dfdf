#!/usr/bin/python3
"""The timeline of the page: threads over time, and a period that all views show alone.

test_time.py TALLY DIRECTORY PROGRAMS MAKE_EXPORT [CASE...]"""
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page import MAKE_EXPORT, PROGRAMS, browse, compare_functions, export, made, record_once, report, shot, step  # noqa: E402
import tally  # noqa: E402
from tap import Skip, case, run  # noqa: E402


def shares(rows):
    return {row["function"]: row["self"].split(" ±")[0] for row in rows or []}


@case
def a_period_holds_for_all_views(context):
    """phases.tally: quick_sort until 1 s, then serve; compare in another thread from 0.5 s to 1.5 s; a sample a millisecond."""
    page = export(context, made(context, "phases"))
    half, late = "time=0-1000", "time=1500-2000"
    found = browse(context, step("open"), step("go", file=page, hash="functions?" + half), step("rows", of=".table"),
                   step("go", file=page, hash="functions?" + late), step("rows", of=".table"),
                   step("go", file=page, hash="threads?" + half), step("rows", of=".table"),
                   step("go", file=page, hash="flame?q=quick_sort&" + half), step("text", of="[role=status]"),
                   step("go", file=page, hash="function?fn=compare&" + half), step("rows", of="[aria-label=Callers]"),
                   step("go", file=page, hash="functions?threads=2&" + half), step("rows", of=".table"),
                   step("go", file=page, hash="overview?" + half), step("text", of=".figures"), step("text", of="header .filter"),
                   step("go", file=page, hash="source?" + half), step("text", of="main .note"),
                   step("go", file=page, hash="candidates?" + half), step("rows", of=".table"))
    context.equal(shares(found[2]), {"quick_sort": "66.7 %", "compare": "33.3 %", "main": "0.0 %", "is_even": "0.0 %"}, "the first second")
    context.equal({row["function"]: row["samples"] for row in found[2] or []}, {"quick_sort": "1,000", "compare": "500", "main": "0", "is_even": "0"}, "samples")
    context.equal(shares(found[4]), {"serve(Request const&)": "100.0 %", "main": "0.0 %"}, "the last half second")
    context.equal([(row["process, thread"], row["value"], row["samples"]) for row in found[6] or []],
                  [("▾ shop 100 2 threads", "1.50 s", "1,500"), ("shop 100", "1.00 s", "1,000"), ("helper 102", "500 ms", "500")], "threads")
    context.equal(found[8], "matched: 66.7 % · 1.00 s", "a search in the flame graph")
    context.equal([(row["function"], row["share"].split(" ±")[0]) for row in found[10] or []], [("is_even", "33.3 %")], "callers")
    context.equal(shares(found[12]), {"compare": "100.0 %", "main": "0.0 %", "is_even": "0.0 %"}, "of one thread")
    context.check("1.50 s" in (found[14] or "") and "1,500 samples" in found[14], f"overview: {found[14]!r}")
    context.equal(found[15], "✕ only 0.00 s – 1.00 s", "what is left out is said")
    context.check("whole recording" in (found[17] or ""), f"what has no times says so: {found[17]!r}")
    context.check(found[19] and {row["function"] for row in found[19]} >= {"quick_sort", "compare"}, f"candidates: {found[19]}")


@case
def a_period_is_chosen_by_mouse_and_keys(context):
    page = export(context, made(context, "phases"))
    found = browse(
        context, step("open"), step("go", file=page, hash="timeline"), step("painted", of="canvas"), step("text", of=".bar-of-tools"),
        step("drag", of="canvas", from_=0.0, to=0.5, left=168), step("hash"), step("text", of="[role=status]"), step("texts", of="h2"),
        shot("period"), step("axe"),
        step("click", of="text=zoom to selection"), step("hash"), step("click", of="header .filter"), step("hash"),
        step("keys", of="canvas", keys=["Home", "ArrowDown", "Shift+ArrowRight", "Shift+ArrowRight"]), step("hash"), step("text", of=".detail"),
        step("keys", of="canvas", keys=["Enter"]), step("hash"), step("keys", of="canvas", keys=["Escape", "+"]), step("hash"),
        step("keys", of="canvas", keys=["Escape"]), step("hash"), step("keys", keys=["2"]), step("hash"),
        step("go", file=page, hash="timeline?range=1999.5-2000"), step("texts", of="[aria-label=Zoom] button:disabled"),
        step("go", file=page, hash="timeline"), step("keys", of="canvas", keys=["Control+="]), step("hash"))
    context.check(found[2] and found[2] > 0.05, f"painted {found[2]}")
    context.check("3,000 samples" in (found[3] or ""), f"the whole: {found[3]!r}")
    drawn = re.search(r"time=([\d.]+)-([\d.]+)", found[5] or "")
    context.check(drawn and float(drawn[1]) < 10 and abs(float(drawn[2]) - 1000) < 10, f"half of it was drawn over: {found[5]}")
    samples = re.search(r"([\d,]+) samples, ([\d.]+) %", found[6] or "")
    context.check(samples and abs(int(samples[1].replace(",", "")) - 1500) < 20 and abs(float(samples[2]) - 50) < 1, f"what it holds: {found[6]}")
    context.check(found[7] and "in this time range" in found[7][0], f"the functions are of the period: {found[7]}")
    context.equal(found[9], [], "axe")
    context.check("range=" in (found[11] or "") and "time=" in found[11], f"the zoom is in the address: {found[11]}")
    context.check("time=" not in (found[13] or "time="), f"the header takes the period back: {found[13]}")
    keyed = re.search(r"time=0-([\d.]+)", found[15] or "")
    context.check(keyed and 0 < float(keyed[1]) < 100, f"Shift and arrows: {found[15]}")
    context.check((found[16] or "").startswith("shop 100 at") and "quick_sort" in found[16], f"what is there: {found[16]}")
    context.check((found[18] or "").endswith("threads=1"), f"Enter sees this thread alone: {found[18]}")
    context.check("time=" not in (found[20] or "time=") and "range=" in found[20], f"Escape takes the period, + zooms: {found[20]}")
    context.check("range=" not in (found[22] or "range="), f"Escape shows all: {found[22]}")
    context.check((found[24] or "").startswith("#/flame"), f"digits choose views: {found[24]}")
    context.equal(found[26], ["zoom to selection"], "what is behind the last sample can be looked at")
    context.equal(found[29], "#/timeline", "keys of the browser are its own")


@case
def lanes_are_grouped_by_process(context):
    """timed.tally: process 100 with two threads, process 101 with one; as the view of threads has them. phases.tally: one process, no row
    of it. many.tally: 70 threads of one process, which stand there when views are limited to it."""
    def rows_of(count):
        steps = [step("keys", of="canvas", keys=["Home"]), step("text", of=".detail")]
        for _ in range(count):
            steps += [step("keys", of="canvas", keys=["ArrowDown"]), step("text", of=".detail")]
        return steps

    page, phases, many = (export(context, made(context, name)) for name in ("timed", "phases", "many"))
    found = browse(context, step("open"), step("go", file=page, hash="threads"), step("rows", of=".table"), step("go", file=page, hash="timeline"), *rows_of(5),
                   step("keys", of="canvas", keys=["ArrowUp", "ArrowUp", "ArrowUp", "Enter"]), step("hash"), shot("timeline-processes"), step("axe"),
                   step("keys", of="canvas", keys=["Enter"]), step("hash"), step("go", file=phases, hash="timeline"), *rows_of(3),
                   step("go", file=many, hash="timeline"), *rows_of(2), step("text", of="main .note"), step("keys", of="canvas", keys=["ArrowUp", "Enter", "ArrowUp"]),
                   *rows_of(2))
    names = [(text or "").split(" at ")[0] for text in found[5:17:2]]
    context.equal(names, ["all threads", "shop 100 2 threads,", "shop 100", "sorter 102", "shop 101", "shop 101"], "rows, from the top")
    context.equal([row["process, thread"] for row in found[2] or []], ["▾ shop 100 2 threads", "shop 100", "sorter 102", "shop 101"], "threads")
    context.check((found[17] or "").endswith("threads=p1"), f"Enter limits to the process: {found[17]}")
    context.equal(found[19], [], "axe")
    context.check("threads=" not in (found[21] or "threads="), f"and takes that back: {found[21]}")
    names = [(text or "").split(" at ")[0] for text in found[24:31:2]]
    context.equal(names, ["all threads", "shop 100", "helper 102", "helper 102"], "one process")
    names = [(text or "").split(" at ")[0] for text in (*found[33:38:2], *found[41:46:2])]
    context.equal(names, ["all threads", "shop 100 70 threads,", "other 200", "all threads", "shop 100 70 threads,", "shop 100"], "many threads")
    context.check("click the name of a process" in (found[38] or ""), f"how to see them: {found[38]}")


@case
def periods_add_up_to_the_report(context):
    """A real recording: the period that is everything has what tally report says, and halves have it together."""
    program = os.path.join(PROGRAMS, "alternate")
    if not os.path.exists(program):
        raise Skip("no program alternate")
    profile = record_once(context, [program], ["--timeline"])
    page = export(context, profile)
    flat = report(context, "report", "--limit", "0%", profile)
    asked = tally.run(context, [context.tally, "query", "--json", profile, "SELECT min(first_ns) + max(last_ns) AS ends FROM data_timeline WHERE fold = 0"])
    samples, middle = flat["selected"]["samples"], json.loads(asked.output)[0]["ends"] // 2000000  # a busy machine begins late
    found = browse(context, step("open"), step("go", file=page, hash="functions?time=0-10000000"), step("rows", of=".table"),
                   step("go", file=page, hash=f"functions?time=0-{middle}"), step("rows", of=".table"),
                   step("go", file=page, hash=f"functions?time={middle}-10000000"), step("rows", of=".table"),
                   step("go", file=page, hash="timeline"), step("text", of=".bar-of-tools"), shot("timeline-real"))
    compare_functions(context, found[2] or [], flat["rows"], "all of it", calls=False)
    for at, period in ((4, ("--to", f"{middle}ms")), (6, ("--from", f"{middle}ms"))):
        compare_functions(context, found[at] or [], report(context, "report", "--limit", "0%", *period, profile)["rows"], f"{period}", calls=False)
    parts = [sum(int(row["samples"].replace(",", "")) for row in found[at] or []) for at in (4, 6)]
    context.equal(sum(parts), samples, f"samples of both parts {parts}")
    context.check(min(parts) > 0, f"{parts}")
    context.check(f"{samples:,} samples" in (found[8] or ""), f"samples of all: {found[8]!r}")


@case
def a_large_profile_with_times(context):
    """Every function of the busiest period is there, and the page stays small."""
    done = tally.run(context, [MAKE_EXPORT, context.directory, "100000", "400000"])
    context.equal(done.status, 0, "make_export")
    page = export(context, context.path("large.tally"))
    size = os.path.getsize(page)
    context.check(size < 5_000_000, f"the page has {size} bytes")
    found = browse(context, step("open"), step("go", file=page, hash="timeline"), step("painted", of="canvas"), step("text", of=".bar-of-tools"),
                   step("drag", of="canvas", from_=0.25, to=0.5, left=168), step("text", of="[role=status]"),
                   shot("timeline-large"))
    context.note(f"{size:,} bytes; {found[5]}")
    context.check(found[2] and found[2] > 0.1, f"painted {found[2]}")
    context.check("400,000 samples" in (found[3] or ""), f"all of it: {found[3]!r}")
    share = re.search(r"([\d.]+) % of all", found[5] or "")
    context.check(share and abs(float(share[1]) - 25) < 1, f"a quarter of it: {found[5]!r}")


@case
def without_a_timeline_it_is_said_how_to_get_one(context):
    page = export(context, made(context, "plain"))
    found = browse(context, step("open"), step("go", file=page, hash="timeline?time=0-100"), step("text"), step("go", file=page, hash="functions?time=0-100"),
                   step("rows", of=".table"))
    context.check("tally record --timeline" in (found[2] or ""), f"{found[2]!r}")
    context.check(found[4] and any(row["function"] == "compare" for row in found[4]), "a period of nothing leaves all")


@case
def odd_periods_are_none(context):
    page = export(context, made(context, "phases"))
    steps = [step("open")]
    for text in ("5-5", "9-3", "x-y", "-", "3000-4000", "-5", "0-1-2", "NaN-1", "Infinity-2"):
        steps += [step("go", file=page, hash="functions?time=" + text), step("rows", of=".table")]
    found = browse(context, *steps)
    for at in range(2, len(steps), 2):
        context.equal(shares(found[at]).get("compare"), "33.3 %", f"{steps[at - 1]['hash']}")


run()
