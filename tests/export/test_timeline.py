#!/usr/bin/python3
"""Timelines: what of them the page and the formats of other tools have, beside the samples that make_export gave them.

test_timeline.py TALLY DIRECTORY [CASE...]; DIRECTORY has make_export."""
import base64
import collections
import gzip
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import readers  # noqa: E402, F401
import tally  # noqa: E402
from tap import Skip, case, run  # noqa: E402

LOOP = ("_start", "main", "serve(Request const&)")
LEAF = ("compare", "swap", "load")  # load is inlined in swap, swap in compare
# of fill_timed in make_export.c: tid, first us, samples, stack
TRUTH = ((100, 0, 10, LOOP + ("quick_sort",) + LEAF), (100, 10000, 10, LOOP + ("quick_sort",)),
         (100, 30000, 10, ("_start", "main", "is_odd", "is_even", "is_odd", "is_even") + LEAF),
         (102, 5500, 20, ("_start", "main", "lambda:1")), (101, 12250, 3, LOOP + ("do_page_fault",)))


def made(context, name="timed"):
    done = tally.run(context, [context.program("make_export"), context.directory])
    context.equal(done.status, 0, "make_export")
    return context.path(name + ".tally")


def export(context, form, source, *options, name=None, status=0):
    path = context.path(name or f"out.{form}")
    done = tally.run(context, [context.tally, "export", "--format", form, "-o", path, *options, source])
    if b"built without npm" in done.errors:
        raise Skip("this tally was built without npm")
    context.equal(done.status, status, f"export --format {form} {options} ({done.text()})")
    return path


def truth():
    """{(us, tid): stack}"""
    return {(first + i * 1000, tid): stack for tid, first, count, stack in TRUTH for i in range(count)}


# --- the page ---


def parts_of_page(path):
    with open(path, encoding="utf-8") as file:
        found = re.findall(r'<script type="text/plain" id="tally-([\w-]+)">([^<]*)</script>', file.read())
    return {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in found}


def sums(differences):
    total, out = 0, []
    for value in differences:
        total += value
        out.append(total)
    return out


def slots_of_page(parts):
    """[(ns, counter, tid, stack, samples)]"""
    profile = parts["profile"]
    times, up, functions = profile["timeline"], profile["tree"]["up"], profile["tree"]["function"]

    def stack(branch):
        names = []
        while branch:
            names.append(profile["functions"]["name"][functions[branch]])
            branch -= up[branch]
        return tuple(reversed(names))
    return [(step * times["step_ns"], counter, profile["threads"]["tid"][thread], stack(branch), samples)
            for step, counter, thread, branch, samples
            in zip(sums(times["step"]), times["counter"], times["thread"], sums(times["branch"]), times["samples"], strict=True)]


@case
def the_page_has_it(context):
    parts = parts_of_page(export(context, "html", made(context), "--annotate", "0"))
    slots = slots_of_page(parts)
    context.equal(parts["profile"]["timeline"]["step_ns"], 125000, "as fine as can be")
    wanted = {(us * 1000 - us * 1000 % 125000, tid): stack for (us, tid), stack in truth().items()}
    context.equal({(when, tid): stack for when, counter, tid, stack, samples in slots}, wanted, "stacks by time and thread")
    context.equal({(slot[1], slot[4]) for slot in slots}, {(1, 1)}, "counters, samples")
    parts = parts_of_page(export(context, "html", made(context), "--annotate", "0", "--thread", "sorter"))
    context.equal({slot[2] for slot in slots_of_page(parts)}, {102}, "threads with a filter")
    parts = parts_of_page(export(context, "html", made(context, "plain"), "--annotate", "0"))
    context.equal(parts["profile"]["timeline"], None, "of a profile without one")


@case
def slots_of_a_long_recording_are_the_cells(context):
    """More samples than the page has slots for."""
    done = tally.run(context, [context.program("make_export"), context.directory, "3000", "400000"])
    context.equal(done.status, 0, "make_export")
    profile = parts_of_page(export(context, "html", context.path("large.tally"), "--annotate", "0"))["profile"]
    times = profile["timeline"]
    # Stacks are so many that hardly two samples meet: a thousand steps stay, and slots are half a million at most.
    steps = 400000 / 3 * 1e6 / times["step_ns"]
    context.check(times["step_ns"] > 125000 and 1000 <= steps < 2500 and 200000 < len(times["step"]) <= 500000,
                  f"{len(times['step'])} slots of {times['step_ns']} ns")
    got, wanted = collections.Counter(), collections.Counter()
    for table, sums_ in ((times, got), (profile["cells"], wanted)):
        for counter, thread, branch, samples in zip(table["counter"], table["thread"], sums(table["branch"]), table["samples"],
                                                    strict=True):
            sums_[counter, thread, branch] += samples
    context.check(got == wanted, "the sums of slots are not the cells")


# --- perfetto ---


def trace(context, source, *options):
    """{tid: (thread, process, pid, [(us, us, stack)])} of a trace, every rule of the Trace Event Format that its events fall under
    being checked: what begins ends, times of a thread do not go back, slices nest."""
    with open(export(context, "perfetto", source, *options), encoding="utf-8") as file:
        document = json.load(file)
    context.equal(sorted(document), ["displayTimeUnit", "otherData", "traceEvents"], "the document")
    threads, names = {}, {}
    for event in document["traceEvents"]:
        tid, phase = event["tid"], event["ph"]
        if phase == "M":
            context.equal(sorted(event), ["args", "name", "ph", "pid", "tid"], "metadata")
            names[event["name"], tid] = event["args"]["name"]
            continue
        context.check(phase in "BE" and isinstance(event["ts"], float), f"{event}")
        context.equal(sorted(event), ["cat", "name", "ph", "pid", "tid", "ts"], "slice")
        thread = threads.setdefault(tid, {"pid": event["pid"], "open": [], "at": 0.0, "spans": []})
        context.check(event["ts"] >= thread["at"], f"time goes back: {event}")
        if event["ts"] > thread["at"] and thread["open"]:
            thread["spans"].append((thread["at"], event["ts"], tuple(thread["open"])))
        thread["at"] = event["ts"]
        if phase == "B":
            thread["open"].append(event["name"])
        else:
            context.equal(thread["open"].pop() if thread["open"] else None, event["name"], "what ends")
    context.check(not [tid for tid, thread in threads.items() if thread["open"]], "slices that do not end")
    return {tid: (names["thread_name", tid], names["process_name", tid], thread["pid"], thread["spans"])
            for tid, thread in threads.items()}


@case
def perfetto_draws_each_sample_until_the_next(context):
    threads = trace(context, made(context))
    context.equal({tid: thread[:3] for tid, thread in threads.items()},
                  {100: ("shop", "shop", 100), 102: ("sorter", "shop", 100), 101: ("shop", "shop", 101)}, "tracks")
    wanted = collections.defaultdict(list)
    for tid, first, count, stack in TRUTH:
        wanted[tid].append((float(first), float(first + count * 1000), stack))
    for tid, spans in wanted.items():
        context.equal(threads[tid][3], spans, f"spans of {tid}: none while it waits from 20 to 30 ms")
    only = trace(context, made(context), "--thread", "sorter")
    context.equal({tid: thread[3] for tid, thread in only.items()}, {102: wanted[102]}, "one thread alone")


@case
def perfetto_distinguishes_recordings(context):
    done = tally.run(context, [context.tally, "merge", "-o", context.path("both.tally"), made(context, "left"), context.path("right.tally")])
    context.equal(done.status, 0, f"merge: {done.text()}")
    threads = trace(context, context.path("both.tally"))
    context.equal(sorted((thread[2], tid) for tid, thread in threads.items()), [(100, 100), (100 + 2 ** 22, 100 + 2 ** 22)], "numbers")


@case
def speedscope_opens_a_trace(context):
    """Its own importer of trace events, which is none of ours."""
    [profiles] = readers.speedscope(context, export(context, "perfetto", made(context), name="out.json"))
    wanted = {}
    for tid, _, count, stack in TRUTH:
        frames = wanted.setdefault({100: "shop (tid 100)", 102: "sorter (tid 102)", 101: "shop (tid 101)"}[tid], {})
        for name in set(stack):
            own, whole = frames.get(name, (0, 0))
            frames[name] = (own + 1000 * count * (name == stack[-1]), whole + 1000 * count)
    got = {part["name"].split(", ")[1]: {name: tuple(figures) for name, figures in part["frames"].items()} for part in profiles}
    context.equal(got, wanted, "own and whole microseconds of functions, by thread")


@case
def perfetto_needs_a_timeline_of_time(context):
    for source, options, words in ((made(context, "plain"), [], b"tally record --timeline"), (made(context), ["--counter", "heap.bytes"], b"is of time"),
                                   (made(context, "empty"), [], b"is of time")):
        done = tally.run(context, [context.tally, "export", "--format", "perfetto", *options, source])
        context.equal((done.status, done.output, words in done.errors), (2, b"", True), done.text())


# --- the Firefox Profiler ---

FIREFOX_COLUMNS = {
    "stackTable": "frame prefix", "frameTable": "address inlineDepth category subcategory func nativeSymbol innerWindowID line column sourceMapInfo",
    "funcTable": "name isJS relevantForJS resource source lineNumber columnNumber sourceMapInfo", "resourceTable": "lib name host type",
    "nativeSymbols": "libIndex address name functionSize", "sources": "id filename startLine startColumn sourceMapURL content",
    "sourceMapInfo": "originalSource originalLine originalColumn"}
# what a column points into; null, and -1 for resources, point nowhere
FIREFOX_POINTERS = (("stackTable", "frame", "frameTable"), ("stackTable", "prefix", "stackTable"), ("frameTable", "func", "funcTable"),
                    ("funcTable", "resource", "resourceTable"), ("funcTable", "source", "sources"))
FIREFOX_TEXTS = (("funcTable", "name"), ("resourceTable", "name"), ("sources", "filename"))


def firefox(context, source, *options):
    """The document, checked against the profiler's type definitions of version 63: no package on npm has its code."""
    with open(export(context, "firefox", source, *options), encoding="utf-8") as file:
        document = json.load(file)
    shared, meta = document["shared"], document["meta"]
    context.equal(sorted(document), ["libs", "meta", "shared", "threads"], "the document")
    context.equal((meta["preprocessedProfileVersion"], sorted(shared)), (63, sorted([*FIREFOX_COLUMNS, "stringArray"])), "tables")
    context.equal(len(set(shared["stringArray"])), len(shared["stringArray"]), "each string once")
    for name, columns in FIREFOX_COLUMNS.items():
        table = shared[name]
        context.equal(sorted(table), sorted([*columns.split(), "length"]), name)
        context.equal({len(table[column]) for column in columns.split()}, {table["length"]}, f"lengths of {name}")
    for name, column, into in FIREFOX_POINTERS:
        for index, value in enumerate(shared[name][column]):
            context.check(value in (None, -1) or 0 <= value < shared[into]["length"], f"{name}.{column}[{index}] is {value}")
            context.check(column != "prefix" or value is None or value < index, f"prefix of {index} is {value}")
    for name, column in FIREFOX_TEXTS:
        context.check(all(0 <= value < len(shared["stringArray"]) for value in shared[name][column]), f"{name}.{column}")
    context.check(all(0 <= value < len(meta["categories"]) for value in shared["frameTable"]["category"]), "categories")
    context.check(all(0 <= value < len(document["libs"]) for value in shared["resourceTable"]["lib"]), "libraries")
    for thread in document["threads"]:
        samples = thread["samples"]
        columns = [value for value in samples.values() if isinstance(value, list)]
        context.equal({len(column) for column in columns}, {samples["length"]}, "lengths of samples")
        context.equal(samples["time"], sorted(samples["time"]), "samples in order of time")
        context.check(all(0 <= value < shared["stackTable"]["length"] for value in samples["stack"]), "stacks")
        context.check(isinstance(thread["pid"], str) and thread["markers"]["length"] == 0, "thread")
    return document


def firefox_stack(shared, stack):
    """Functions and lines from the outermost inwards."""
    places = []
    while stack is not None:
        frame = shared["stackTable"]["frame"][stack]
        name = shared["stringArray"][shared["funcTable"]["name"][shared["frameTable"]["func"][frame]]]
        places.append((name, shared["frameTable"]["line"][frame]))
        stack = shared["stackTable"]["prefix"][stack]
    return places[::-1]


@case
def firefox_has_every_sample(context):
    document = firefox(context, made(context))
    shared, got, lines = document["shared"], {}, set()
    for thread in document["threads"]:
        samples = thread["samples"]
        context.equal((samples["weight"], samples["weightType"], set(samples["threadCPUDelta"])), (None, "samples", {1000000}), "figures")
        for when, stack in zip(samples["time"], samples["stack"], strict=True):
            places = firefox_stack(shared, stack)
            lines.update(places)
            got[round(when * 1000), thread["tid"]] = tuple(name for name, _ in places)
    context.equal(got, truth(), "stacks by time and thread")
    context.check({("main", 20), ("main", 31), ("swap", 7), ("load", 2)} <= lines, f"lines: {lines}")
    context.equal(document["meta"]["interval"], 1.0, "the interval")
    context.equal([(thread["name"], thread["processName"], thread["pid"], thread["tid"], thread["isMainThread"])
                   for thread in document["threads"]],
                  [("shop", "shop", "100", 100, True), ("sorter", "shop", "100", 102, False), ("shop", "shop", "101", 101, True)], "threads")
    source = shared["funcTable"]["source"][[shared["stringArray"][i] for i in shared["funcTable"]["name"]].index("main")]
    context.equal(shared["stringArray"][shared["sources"]["filename"][source]], "src/shop.c", "the source of main")
    context.equal([library["codeId"] for library in document["libs"]][0], "0011223344556677", "build-id")


def reported(context, source, *options):
    """{function: total} of tally report."""
    done = tally.run(context, [context.tally, "report", "--json", "--limit", "0%", "--inlines", *options, source])
    sums = collections.Counter()
    for row in json.loads(done.output)["rows"]:
        sums[row["function"]] += row["total"]["value"]
    return +sums


@case
def firefox_weighs_stacks_without_a_timeline(context):
    for source, counter, kind, unit in ((made(context, "plain"), "time.cpu", "tracing-ms", 1e6), (made(context, "plain"), "heap.bytes", "bytes", 1),
                                        (made(context, "plain"), "cache-misses", "samples", 1), (made(context), "heap.bytes", "bytes", 1)):
        document, sums = firefox(context, source, "--counter", counter), collections.Counter()
        for thread in document["threads"]:
            samples = thread["samples"]
            context.equal((samples["weightType"], "threadCPUDelta" in samples), (kind, False), counter)
            for stack, weight in zip(samples["stack"], samples["weight"], strict=True):
                for name in {name for name, _ in firefox_stack(document["shared"], stack)}:
                    sums[name] += round(weight * unit)
        wanted = reported(context, source, "--counter", counter)
        context.equal({name: value for name, value in sums.items() if name in wanted}, dict(wanted), f"totals of {counter}")
        context.check(set(sums) - set(wanted) <= {"[stack cut]", "[unknown]", "<signal>"}, f"more: {set(sums) - set(wanted)}")


@case
def firefox_takes_any_name(context):
    for name in ("hostile", "empty", "odd"):
        document = firefox(context, made(context, name))
        context.equal(bool(document["threads"]), name == "hostile", f"threads of {name}")
    text = firefox(context, made(context, "hostile"))["shared"]["stringArray"]
    context.check("new\nline 99" in text and "</script><b>&amp;" in text, "names as they are")


# --- a part of the time ---


@case
def report_and_export_of_a_period(context):
    source = made(context)
    for options, first, end in ((["--from", "5ms", "--to", "15ms"], 5000, 15000), (["--from", "12.25ms"], 12250, 10 ** 9),
                                (["--to", "10ms"], 0, 10000), (["--from", "0.02", "--to", "40ms", "--thread", "shop"], 20000, 40000)):
        totals, stacks, spans = collections.Counter(), collections.Counter(), 0
        for (us, tid), stack in truth().items():
            if first <= us < end and ("--thread" not in options or tid != 102):
                stacks[";".join(("shop", *stack))] += 1000000
                totals.update({name: 1000000 for name in set(stack)})
                spans += 1
        context.equal(dict(reported(context, source, *options)), dict(totals), f"report {options}")
        done = tally.run(context, [context.tally, "export", "--format", "folded", *options, source])
        got = dict(line.rsplit(" ", 1) for line in done.output.decode().splitlines())
        context.equal({stack: int(value) for stack, value in got.items()}, dict(stacks), f"folded {options}")
        document = firefox(context, source, *options)
        context.equal(sum(thread["samples"]["length"] for thread in document["threads"]), spans, f"firefox {options}")
        shown = tally.run(context, [context.tally, "report", *options, source]).output.decode()
        context.check("note: only samples from " in shown and "of 53; calls are of the whole recording" in shown, shown)
    text = tally.run(context, [context.tally, "export", "--format", "callgrind", "--from", "1ms", source]).output.decode()
    context.equal(readers.calls_of_callgrind(text)["main", "serve(Request const&)"], 22, "samples, not the calls of the whole recording")
    row = [row for row in json.loads(tally.run(context, [context.tally, "report", "--json", "--from", "1ms", source]).output)["rows"]
           if row["function"] == "serve(Request const&)"][0]
    context.equal((row["calls"], row.get("ns_per_call")), (12, None), "calls without their time")


@case
def a_period_that_makes_no_sense(context):
    source = made(context)
    for command, options, words in (("report", ["--from", "50"], "no sample is from 50 s to the end; the last one is at 0.039 s"),
                                    ("report", ["--from", "2", "--to", "1"], "--to is not after --from"),
                                    ("report", ["--from", "1", "--edges"], "--edges is not"), ("report", ["--to", "1", "--losses"], "--losses is not"),
                                    ("report", ["--to", "1", "--counter", "heap.bytes"], "heap.bytes has no times"),
                                    ("export", ["--to", "1", "--format", "html"], "html has no --from"),
                                    ("export", ["--to", "1", "--format", "csv", "--table", "edges"], "--table edges has none"),
                                    ("export", ["--to", "1", "--format", "massif"], "massif has none")):
        done = tally.run(context, [context.tally, command, *options, source])
        context.equal((done.status, done.output, words in done.errors.decode()), (2, b"", True), f"{command} {options}: {done.text()}")
    done = tally.run(context, [context.tally, "report", "--from", "1", made(context, "plain")])
    context.equal((done.status, b"tally record --timeline" in done.errors), (2, True), done.text())


if __name__ == "__main__":
    run()
