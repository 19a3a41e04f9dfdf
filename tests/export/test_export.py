#!/usr/bin/python3
"""Exports, opened by the tools that they are for, and compared with what tally report says of the same profile.

test_export.py TALLY DIRECTORY [CASE...]; DIRECTORY has make_export, and takes the npm package that readers.py installs."""
import collections
import gzip
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import readers  # noqa: E402
import tally  # noqa: E402
from tap import Skip, case, need, run  # noqa: E402

MARKS = {"<signal>", "[stack cut]"}
TEXTS = ("callgrind", "folded", "speedscope", "csv")  # massif needs memory: see its own cases


def profile(context, name="plain"):
    made = tally.run(context, [context.program("make_export"), context.directory])
    context.equal(made.status, 0, "make_export")
    return context.path(name + ".tally")


def export(context, form, source, *options, name=None, status=0):
    """Exports to a file; its path."""
    path = context.path(name or f"out.{form}")
    done = tally.run(context, [context.tally, "export", "--format", form, "-o", path, *options, source])
    context.equal(done.status, status, f"export --format {form} {options} ({done.text()})")
    return path


def text_of(context, form, source, *options):
    done = tally.run(context, [context.tally, "export", "--format", form, *options, source])
    context.equal((done.status, done.errors), (0, b""), f"export --format {form} {options} to a pipe")
    return done.output.decode("utf-8")


def report(context, source, *options):
    done = tally.run(context, [context.tally, "report", "--json", "--limit", "0%", *options, source])
    context.equal(done.status, 0, f"report {options} ({done.text()})")
    return json.loads(done.output)


def flat(context, source, *options, kind="value"):
    """{name: [self, total]} of tally report --flat; what shares a name is added up."""
    sums = {}
    for row in report(context, source, *options)["rows"]:
        if row["self"]["samples"] or row["total"]["samples"] or row["total"]["value"]:
            sum_ = sums.setdefault(row["function"], [0, 0])
            sum_[0] += row["self"][kind]
            sum_[1] += row["total"][kind]
    return sums


def calls(context, source, *options):
    """{(caller, callee): calls} of tally report --edges."""
    sums = collections.Counter()
    for row in report(context, source, "--edges", *options)["rows"]:
        sums[row["caller"] and row["caller"]["function"], row["callee"]["function"]] += row["calls"]
    return sums


def without(sums, *names):
    return {name: figures for name, figures in sums.items() if name not in MARKS and name not in names}


def compare(context, got, wanted, what):
    context.equal(sorted(set(got) ^ set(wanted)), [], f"{what}: names that only one has")
    for name in sorted(set(got) & set(wanted)):
        context.equal(list(got[name]), list(wanted[name]), f"{what}: {name!r}")


COUNTERS = ("time.cpu", "cache-misses", "heap.bytes")


# --- massif ---

PLACE = re.compile(r"^->([\d.]+)% \(([\d,]+)B\) (.*?)(?: \((?:in )?[^()]*\))?$")


def pictures(text):
    """Of each picture with a tree: what ms_print makes of it, as {function: bytes} of its outermost places."""
    trees = []
    for line in text.splitlines():
        if re.match(r"^[\d.]+% \([\d,]+B\) \(heap allocation functions\)", line):
            trees.append({})
        match = PLACE.match(line)
        if match and "in " not in match[3][:3] and " places, all below" not in line:
            trees[-1][match[3]] = trees[-1].get(match[3], 0) + int(match[2].replace(",", ""))
    return trees


@case
def massif_says_what_report_says(context):
    need("ms_print", "sort")
    if os.uname().machine != "x86_64":
        raise Skip("memory is counted on x86-64 only")
    made = tally.recorded(context, ["sort", "/etc/services"], ["--heap", "--no-time"])
    if b'"heap.peak"' not in tally.run(context, [context.tally, "report", "--json", made.path]).output:
        raise Skip("the heap was not counted here")
    path = export(context, "massif", made.path)
    shown = readers.tool(context, "ms_print", "--threshold=0", path)
    trees = pictures(shown)
    context.equal(len(trees), 2, "trees")
    for tree, counter in zip(trees, ("heap.peak", "heap.live")):
        wanted = {}
        for row in report(context, made.path, "--counter", counter, "--inlines")["rows"]:
            if row["self"]["value"] > 0:
                wanted[row["function"]] = wanted.get(row["function"], 0) + row["self"]["value"]
        all_ = sum(wanted.values())
        small = {name for name, value in wanted.items() if value < all_ / 1000}
        context.equal({name: value for name, value in tree.items() if name not in small},
                      {name: value for name, value in wanted.items() if name not in small}, counter)
    command = re.search(r"^Command:\s+(.*)$", shown, re.MULTILINE)
    context.equal(command and command[1], "sort /etc/services", "the command")


@case
def massif_needs_memory(context):
    done = tally.run(context, [context.tally, "export", "--format", "massif", "-o", context.path("never"), profile(context, "odd")])
    context.equal(done.status, 2, "status")
    context.check(b"tally record --heap" in done.errors, f"{done.errors}")
    context.check(not os.path.exists(context.path("never")), "no file is left")


# --- gprof ---


@case
def gprof_says_what_report_says(context):
    source = profile(context)
    for inlines in ([], ["--inlines"]):
        own, unit, graph = readers.gprof(text_of(context, "gprof", source, *inlines))
        wanted = flat(context, source, "--counter", "time.cpu", *inlines)
        counted = {row["function"]: row for row in report(context, source, "--flat", *inlines)["rows"] if row.get("calls")}
        context.equal({name: figures[0] for name, figures in own.items() if figures[0]},
                      {name: figures[0] / 1e9 for name, figures in wanted.items() if figures[0]}, f"self {inlines}")
        context.equal({name: round(entry["self"] + entry["children"], 4) for name, entry in graph.items() if name not in MARKS
                       and entry["self"] + entry["children"]},
                      {name: figures[1] / 1e9 for name, figures in wanted.items()}, f"totals {inlines}")
        context.equal({name: figures[1] for name, figures in own.items() if figures[1] is not None},
                      {name: row["calls"] for name, row in counted.items()}, f"calls {inlines}")
        each = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit.split("/")[0]]
        for name, (seconds, calls_, one, below) in own.items():
            if calls_:
                context.check(abs(one * each - seconds / calls_) <= each / 200 and
                              abs(below * each - wanted.get(name, (0, 0))[1] / 1e9 / calls_) <= each / 200,
                              f"per call of {name}: {one}, {below} {unit}")


@case
def gprof_divides_by_stacks_and_counts_by_edges(context):
    source = profile(context)
    graph = readers.gprof(text_of(context, "gprof", source))[2]
    arcs = {}
    for name, entry in graph.items():
        callers = [arc for arc in entry["callers"] if arc[1] is not None]
        if callers:
            context.equal((round(sum(arc[1] for arc in callers), 4), round(sum(arc[2] for arc in callers), 4)),
                          (entry["self"], entry["children"]), f"what the callers of {name} are given")
            context.equal(sum(arc[3] for arc in callers), entry["called"], f"calls of {name}")
            context.equal({arc[4] for arc in callers}, {entry["called"]}, f"of how many, {name}")
        for other, own, below, called, _ in entry["callees"]:
            context.check((name, own, below, called) in {(arc[0], *arc[1:4]) for arc in graph[other]["callers"]},
                          f"{name} -> {other} differs from the caller's side")
            arcs[name, other] = called
    counted = {edge: number for edge, number in calls(context, source).items() if edge[0]}
    context.equal({edge: arcs[edge] for edge in counted}, counted, "exact calls")
    context.equal(arcs["[unknown]", "is_odd"], 3, "calls whose caller is not known")
    context.equal((arcs["main", "is_odd"], arcs["main", "lambda:1"]), (0, 25), "not counted: 0 beside counts, else samples")
    context.equal((graph["quick_sort"]["again"], graph["quick_sort"]["called"]), (999999, 0), "recursion stands apart")
    uncounted = readers.gprof(text_of(context, "gprof", source, "--cpu", "0"))
    context.check(all(figures[1] is None for figures in uncounted[0].values()), "calls on one CPU are not known")
    if shutil.which("gprof2dot"):
        with open(context.path("text"), "w", encoding="utf-8") as file:
            file.write(text_of(context, "gprof", source))
        dot = readers.tool(context, "gprof2dot", "-n0", "-e0", context.path("text"))
        context.check("quick_sort" in dot and "999999" in dot, f"gprof2dot: {dot}")


@case
def gprof_is_of_time(context):
    source = profile(context)
    for options, words in ((["--counter", "heap.bytes"], b"heap.bytes of"), (["--counter", "calls"], b"calls are counted by edge")):
        done = tally.run(context, [context.tally, "export", "--format", "gprof", *options, source])
        context.equal((done.status, done.output, words in done.errors), (2, b"", True), f"{options}: {done.text()}")
    done = tally.run(context, [context.tally, "export", "--format", "gprof", profile(context, "empty")])
    context.equal((done.status, done.output), (2, b""), f"empty: {done.text()}")
    made = tally.run(context, [context.program("make_export"), context.directory])
    context.equal(made.status, 0, "make_export")
    text = text_of(context, "gprof", context.path("left.tally"))
    context.check("1000000" not in text and len(readers.gprof(text)[2]) > 4, "another profile")


# --- folded ---


@case
def folded_says_what_report_says(context):
    source = profile(context)
    for counter in COUNTERS:
        stacks = readers.folded(text_of(context, "folded", source, "--counter", counter))
        context.equal(len({frames for frames, _ in stacks}), len(stacks), f"{counter}: stacks that stand there once")
        compare(context, without(readers.sums_of_stacks([(frames[1:], figure) for frames, figure in stacks])),
                flat(context, source, "--inlines", "--counter", counter), "folded " + counter)
        context.equal({frames[0] for frames, _ in stacks}, {"shop"}, "the process's name comes first")


@case
def folded_of_samples_threads_marks(context):
    source = profile(context)
    stacks = readers.folded(text_of(context, "folded", source, "--samples"))
    compare(context, without(readers.sums_of_stacks([(frames[1:], figure) for frames, figure in stacks])),
            flat(context, source, "--inlines", kind="samples"), "folded samples")
    stacks = readers.folded(text_of(context, "folded", source, "--threads"))
    sums = collections.Counter()
    for frames, figure in stacks:
        sums[frames[0]] += figure
    context.equal(dict(sums), {"shop 100": 425000000, "sorter 102": 107000000, "shop 101": 90000000}, "threads")
    names = {name for frames, _ in readers.folded(text_of(context, "folded", source, "--marks")) for name in frames}
    context.check({"do_page_fault_[k]", "swap_[i]", "load_[i]", "lambda:1_[j]", "quick_sort"} <= names, f"marks: {names}")


# --- csv ---


@case
def csv_flat_says_what_report_says(context):
    source = profile(context)
    for inlines in ([], ["--inlines"]):
        rows, lines = readers.table(text_of(context, "csv", source, *inlines))
        context.equal({len(line) for line in lines}, {16}, "fields a line")
        for counter in COUNTERS:
            wanted = {(row["function"], row["image"] or ""): row
                      for row in report(context, source, "--counter", counter, *inlines)["rows"]}
            got = {(row["function"], row["image"]): row for row in rows if row["counter"] == counter}
            context.equal(sorted(got), sorted(wanted), f"{counter}: functions {inlines}")
            for key in set(got) & set(wanted):
                compare_row(context, got[key], wanted[key], f"{counter} {key}", counter == "heap.bytes")


def compare_row(context, got, wanted, what, exact):
    for kind in ("self", "total"):
        context.equal((int(got[kind]), int(got[kind + "_samples"])), (wanted[kind]["value"], wanted[kind]["samples"]),
                      f"{what}: {kind}")
        for column, key in (("share", "share"), ("low", "low"), ("high", "high")):
            text = got[f"{kind}_{column}"]
            if exact and column != "share":
                context.equal(text, "", f"{what}: {kind} has no interval")
            else:
                context.equal(float(text), wanted[kind][key], f"{what}: {kind} {column}")
    context.equal(int(got["calls"]), wanted.get("calls", 0), f"{what}: calls")


@case
def csv_tree_holds_together(context):
    source = profile(context)
    rows, _ = readers.table(text_of(context, "csv", source, "--table", "tree"))
    for counter in COUNTERS + ("heap.peak",):
        branches = {row["branch"]: row for row in rows if row["counter"] == counter}
        below = collections.Counter()
        stacks = collections.Counter()
        for row in branches.values():
            if row["parent"]:
                below[row["parent"]] += int(row["total"])
                context.equal(int(row["depth"]), int(branches[row["parent"]]["depth"]) + 1, "depth")
            if int(row["self"]):
                stacks[frames_of(branches, row)] += int(row["self"])
        for number, row in branches.items():
            if counter != "heap.peak":
                context.equal(int(row["total"]), int(row["self"]) + below[number], f"total of {row['function']}")
        wanted = collections.Counter()
        for frames, figure in readers.folded(text_of(context, "folded", source, "--counter", counter)):
            wanted[frames] += figure
        if counter != "heap.peak":
            context.equal(stacks, wanted, f"{counter}: stacks")


def frames_of(branches, row):
    frames = []
    process = row["process"]
    while row:
        frames.append(row["function"])
        row = branches.get(row["parent"])
    return (process, *reversed(frames))


@case
def csv_edges_and_counters(context):
    source = profile(context)
    rows, _ = readers.table(text_of(context, "csv", source, "--table", "edges"))
    sums = collections.Counter()
    for row in rows:
        sums[row["caller"] or None, row["callee"]] += int(row["calls"])
    context.equal(sums, calls(context, source), "calls")
    by_thread = collections.Counter()
    for row in rows:
        by_thread[int(row["tid"])] += int(row["calls"])
    database = tally.Profile(context, source)
    asked = database.rows("SELECT tid, sum(calls) FROM calls GROUP BY tid")
    context.equal(sorted(by_thread.items()), sorted(asked), "calls by thread")
    rows, _ = readers.table(text_of(context, "csv", source, "--table", "counters"))
    got = sorted((row["counter"], int(row["tid"]), int(row["value"])) for row in rows if row["combine"] == "sum"
                 and row["counter"] != "calls")
    asked = database.rows("SELECT s.text, t.tid, sum(c.value) FROM data_cells c JOIN data_counters k ON k.id = c.counter "
                          "JOIN data_strings s ON s.id = k.name JOIN data_threads t ON t.id = c.thread "
                          "WHERE k.combine = 1 GROUP BY 1, 2")
    context.equal(got, sorted(asked), "counters by thread")
    context.equal({(row["counter"], row["tid"]): row["value"] for row in rows if row["counter"] == "heap.peak"},
                  {("heap.peak", "100"): "4096", ("heap.peak", "102"): "1024"}, "peaks")


# --- pprof ---


@case
def pprof_says_what_report_says(context):
    source = profile(context)
    path = export(context, "pprof", source)
    for counter in COUNTERS:
        compare(context, without(readers.pprof_top(context, path, counter)),
                flat(context, source, "--inlines", "--counter", counter), "pprof " + counter)
    compare(context, without(readers.pprof_top(context, path, "time.cpu.samples")),
            flat(context, source, "--inlines", kind="samples"), "pprof samples")


@case
def pprof_has_calls_threads_mappings(context):
    source = profile(context)
    path = export(context, "pprof", source)
    types, samples, locations, mappings = readers.pprof_raw(context, path)
    context.equal(types, ["time.cpu.samples/count", "cache-misses.samples/count", "time.cpu/nanoseconds[dflt]",
                          "cache-misses/events", "heap.bytes/bytes", "heap.peak/bytes", "calls/count"], "types")
    edges, threads = collections.Counter(), collections.Counter()
    for values, stack, labels in samples:
        threads[labels["tid"]] += values[2]
        if values[-1]:
            callee, site = (locations[number] for number in stack)
            context.equal(len(callee), 1, "a call reaches a function, not what is inlined in it")
            caller = site[0][0]
            edges[None if caller == "[unknown]" else caller, callee[0][0]] += values[-1]
    context.equal(edges, calls(context, source, "--inlines"), "calls")
    context.equal(dict(threads), {"100": 425000000, "102": 107000000, "101": 90000000}, "threads")
    context.check("/opt/shop/bin/shop 0011223344556677 [FN][FL][LN][IN]" in mappings.splitlines()[0],
                  f"the program is the first mapping: {mappings.splitlines()[0]}")
    context.check(any(line == [("load", "sort/load.h", 2), ("swap", "sort/swap.h", 7), ("compare", "sort/compare.c", 3)]
                      for line in locations.values()), "inlined frames with their lines")
    called = readers.pprof_top(context, path, "calls")
    context.equal(called["compare"][0], 123456789012, "calls into compare")
    comments = readers.pprof(context, path, "-comments")
    context.check("command: shop --port 80" in comments and "lost: 5 stacks cut" in comments, f"comments: {comments}")


@case
def pprof_of_one_counter(context):
    source = profile(context)
    path = export(context, "pprof", source, "--counter", "heap.bytes")
    types = readers.pprof_raw(context, path)[0]
    context.equal(types, ["heap.bytes/bytes[dflt]", "calls/count"], "types")
    path = export(context, "pprof", source, "--cpu", "0")
    types, samples, _, _ = readers.pprof_raw(context, path)
    context.equal(types[-1], "heap.peak/bytes", "no calls where CPUs are chosen: they are not known")
    context.equal(sum(values[2] for values, _, _ in samples), report(context, source, "--cpu", "0")["selected"]["value"],
                  "time on CPU 0")


@case
def pprof_is_the_same_each_time(context):
    source = profile(context)
    one, two = (export(context, "pprof", source, name=name) for name in ("one.pb.gz", "two.pb.gz"))
    with open(one, "rb") as first, open(two, "rb") as second:
        data = first.read()
        context.equal(second.read(), data, "bytes")
    context.check(len(gzip.decompress(data)) > len(data), "it is compressed")


# --- callgrind ---


@case
def callgrind_says_what_report_says(context):
    source = profile(context)
    for inlines in ([], ["--inlines"]):
        path = export(context, "callgrind", source, *inlines)
        events, own, totals = readers.callgrind(context, path)
        events_again, inclusive, _ = readers.callgrind(context, path, inclusive=True)
        context.equal((events, events_again), ([*[name.replace(".", "_").replace("-", "_") for name in COUNTERS],
                                                "heap_peak", "time_cpu_samples", "cache_misses_samples"],) * 2, "events")
        for column, counter in enumerate(COUNTERS):
            wanted = flat(context, source, "--counter", counter, *inlines)
            compare(context, {name: figures[column] and [figures[column]] for name, figures in by_name(own).items()
                              if figures[column]},
                    {name: [figures[0]] for name, figures in wanted.items() if figures[0]}, f"callgrind {counter} self")
            compare(context, {name: [figures[column]] for name, figures in by_name(inclusive, True).items()
                              if figures[column] and not name.startswith("shop 1") and name not in MARKS},
                    {name: [figures[1]] for name, figures in wanted.items() if figures[1]},
                    f"callgrind {counter} inclusive {inlines}")
            context.equal(totals[column], report(context, source, "--counter", counter)["selected"]["value"], "totals")


def by_name(sums, own_file=False):
    """Figures by function: callgrind_annotate has one line for each of the files that a function has code from. With
    `own_file` only that of its own file, into which calls flow."""
    result = {}
    for name, figures in sums.items():
        file, function = name.split(":", 1)
        if own_file and (function, file) in (("compare", "sort/load.h"),):
            continue
        result[function] = [a + b for a, b in zip(result.get(function, [0] * len(figures)), figures)]
    return result


@case
def callgrind_has_calls(context):
    source = profile(context)
    with open(export(context, "callgrind", source), encoding="utf-8") as file:
        got = readers.calls_of_callgrind(file.read())
    for (caller, callee), count in calls(context, source).items():
        context.equal(got[caller or "[unknown]", callee], count, f"calls of {caller} into {callee}")
    context.equal(got["main", "lambda:1"], 25, "not counted: samples")
    context.equal(got["is_even", "is_odd"], 1, "not counted, back into a recursion, where nothing is spent that was not before")
    plain = text_of(context, "callgrind", source)
    context.check("desc: Calls: exact where they were counted" in plain, "says what calls are")


# --- speedscope ---


@case
def speedscope_keeps_its_schema(context):
    for name in ("plain", "hostile"):
        document = readers.check_schema(context, export(context, "speedscope", profile(context, name)))
        context.equal(document["exporter"].split()[0], "tally", "exporter")
        for part in document["profiles"]:
            context.equal(len(part["samples"]), len(part["weights"]), "as many weights as stacks")
            context.equal(sum(part["weights"]), part["endValue"], "weights end where it ends")


@case
def speedscope_says_what_report_says(context):
    source = profile(context)
    [profiles] = readers.speedscope(context, export(context, "speedscope", source))
    context.equal([(part["name"], part["unit"]) for part in profiles[:2]],
                  [("shop 100: time.cpu", "nanoseconds"), ("shop 101: time.cpu", "nanoseconds")], "the heaviest first")
    for counter in COUNTERS:
        for pid in ("100", "101"):
            got = [part for part in profiles if part["name"] == f"shop {pid}: {counter}"]
            wanted = flat(context, source, "--inlines", "--counter", counter, "--process", pid)
            if wanted:
                compare(context, without(got[0]["frames"], "shop 100", "shop 101"), wanted, f"speedscope {counter} {pid}")
            else:
                context.equal(got, [], f"no profile without {counter}")
    [profiles] = readers.speedscope(context, export(context, "speedscope", source, "--threads", "--counter", "time.cpu"))
    context.equal([(part["name"], part["weight"]) for part in profiles],
                  [("shop 100: time.cpu", 425000000), ("sorter 102: time.cpu", 107000000), ("shop 101: time.cpu", 90000000)],
                  "threads")


@case
def speedscope_opens_the_others(context):
    """Its importer of pprof shows no inlined frames, that of callgrind gives up in recursion."""
    source = profile(context)
    paths = [export(context, form, source, name=name) for form, name in (("folded", "x.folded"), ("pprof", "x.pb.gz"))]
    [[stacks], [samples]] = readers.speedscope(context, *paths)
    compare(context, without(stacks["frames"], "shop"), flat(context, source, "--inlines"), "folded")
    compare(context, without(samples["frames"]), flat(context, source), "pprof")


# --- what somebody really recorded ---


@case
def a_real_recording(context):
    """Kernel, libraries, lines where there is debug information, inlined code: whatever this machine gives."""
    need("bzip2")
    with open(context.path("data"), "wb") as file:
        file.write(random.Random(5).randbytes(4000000))
    source = context.path("real.tally")
    done = tally.run(context, [context.tally, "record", "-o", source, "--", "bzip2", "-k", "-c", context.path("data")])
    if done.status != 0:
        raise Skip("nothing can be recorded here: " + done.errors.decode(errors="replace").strip()[-200:])
    counter = tally.Profile(context, source).counter()
    wanted = flat(context, source, "--inlines")
    stacks = readers.folded(text_of(context, "folded", source))
    compare(context, without(readers.sums_of_stacks([(frames[1:], figure) for frames, figure in stacks])), wanted, "folded")
    compare(context, without(readers.pprof_top(context, export(context, "pprof", source), counter)), wanted, "pprof")
    _, own, totals = readers.callgrind(context, export(context, "callgrind", source))
    compare(context, {name: figures[:1] for name, figures in by_name(own).items() if figures[0]},
            {name: figures[:1] for name, figures in flat(context, source).items() if figures[0]}, "callgrind")
    context.equal(totals[0], sum(figures[0] for figures in wanted.values()), "callgrind totals")


# --- names that hold anything ---


def hostile_names(context, source):
    return sorted(raw for (raw,) in tally.Profile(context, source).rows(
        "SELECT CAST(s.text AS BLOB) FROM data_functions f JOIN data_strings s ON s.id = f.name"))


def cleaned(raw, extra=None):
    """What a name becomes where it must stay on its line."""
    out = []
    for character in raw.decode("utf-8", "replace"):
        code = ord(character)
        odd = code < 0x20 or 0x7F <= code < 0xA0 or 0x200E <= code <= 0x200F or 0x2028 <= code <= 0x202E
        if odd:
            out.append(f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
        else:
            out.append((extra or {}).get(character, character))
    return "".join(out)


@case
def hostile_names_in_text(context):
    source = profile(context, "hostile")
    raw = hostile_names(context, source)
    stacks = readers.folded(text_of(context, "folded", source))
    context.equal(sorted({frames[-1] for frames, _ in stacks}), sorted(cleaned(name, {";": ":"}) for name in raw), "folded")
    context.equal(max(len(frames) for frames, _ in stacks), len(raw) + 1, "no frame is split, none is lost")
    for options in ([], ["--table", "tree"], ["--table", "edges"], ["--table", "counters"]):
        rows, lines = readers.table(text_of(context, "csv", source, *options))
        context.equal(len({len(line) for line in lines}), 1, f"csv {options}: fields a line")
        if options != ["--table", "counters"]:
            column = "callee" if "edges" in options else "function"
            names = {row[column] for row in rows}
            context.check(names <= {name.decode("utf-8", "replace") for name in raw}, f"csv {options}: names as they are")
    context.equal(len(rows), 2, "csv counters")


@case
def hostile_names_in_tools(context):
    source = profile(context, "hostile")
    raw = hostile_names(context, source)
    wanted = sorted(cleaned(name) for name in raw)
    [profiles] = readers.speedscope(context, export(context, "speedscope", source))
    context.equal(sorted(name for name in profiles[0]["frames"] if not name.startswith("pro;")),
                  sorted(name.decode("utf-8", "replace") for name in raw), "speedscope")
    path = export(context, "callgrind", source)
    _, own, totals = readers.callgrind(context, path)
    context.equal(sum(figures[0] for figures in own.values()), totals[0], "callgrind: nothing is lost")
    context.equal(sorted(name for name in own if name.startswith("/odd/")),
                  sorted(f"/odd/{name}:{name.lstrip()}" for name in wanted), "callgrind")
    path = export(context, "pprof", source)
    text = readers.pprof(context, path, "-raw")
    for name in wanted:
        context.check(f" {name} /odd/{name}:" in text, f"pprof: {name!r}")
    samples = readers.pprof_raw(context, path)[1]
    context.equal(sum(values[0] for values, _, _ in samples), totals[0], "pprof: nothing is lost")


# --- filters ---


@case
def filters_are_those_of_report(context):
    source = profile(context)
    for options in (["--process", "101"], ["--thread", "sort*"], ["--image", "libsort*"], ["--cpu", "0,2"],
                    ["--thread", "100", "--image", "shop", "--counter", "heap.bytes"]):
        wanted = flat(context, source, "--inlines", *options)
        stacks = readers.folded(text_of(context, "folded", source, *options))
        compare(context, without(readers.sums_of_stacks([(frames[1:], figure) for frames, figure in stacks])), wanted,
                f"folded {options}")
        rows, _ = readers.table(text_of(context, "csv", source, "--inlines", *options))
        sums = {}
        for row in rows:
            if row["counter"] == ("heap.bytes" if "heap.bytes" in options else "time.cpu") and int(row["total"]):
                sum_ = sums.setdefault(row["function"], [0, 0])
                sum_[0] += int(row["self"])
                sum_[1] += int(row["total"])
        compare(context, sums, wanted, f"csv {options}")
    for options in (["--process", "101"], ["--image", "libsort*"]):
        rows, _ = readers.table(text_of(context, "csv", source, "--table", "edges", *options))
        sums = collections.Counter()
        for row in rows:
            sums[row["caller"] or None, row["callee"]] += int(row["calls"])
        context.equal(sums, calls(context, source, *options), f"edges {options}")


# --- nothing to show ---


@case
def empty_profiles_are_documents(context):
    source = profile(context)
    source = context.path("empty.tally")
    document = readers.check_schema(context, export(context, "speedscope", source))
    context.equal([part["name"] for part in document["profiles"]], ["no samples"], "speedscope has a profile")
    context.equal(readers.speedscope(context, context.path("out.speedscope"))[0][0]["weight"], 0, "its importer takes it")
    path = export(context, "pprof", source)
    with gzip.open(path) as file:
        context.check(b"exported by: tally" in file.read(), "pprof says what it is")
    done = tally.run(context, ["go", "tool", "pprof", "-top", path]) if shutil.which("go") else None
    context.check(not done or b"profile has no samples" in done.errors, "go tool pprof finds nothing but no samples")
    context.equal(text_of(context, "folded", source), "", "folded")
    for name in ("flat", "tree", "edges", "counters"):
        context.equal(len(readers.table(text_of(context, "csv", source, "--table", name))[1]), 1, f"csv {name}")
    context.check("events: none" in text_of(context, "callgrind", source), "callgrind")


# --- files ---


@case
def a_file_appears_whole_or_not_at_all(context):
    source = profile(context)
    target = context.path("there")
    with open(target, "w", encoding="utf-8") as file:
        file.write("before")

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    before = sorted(os.listdir(context.directory))
    for form in ("pprof",) + TEXTS:
        done = tally.run(context, [context.tally, "export", "--format", form, "-o", target, source], preexec_fn=small)
        context.equal(done.status, 2, f"{form}: status on a full disk")
        context.equal(done.errors.decode(), f"tally: cannot write {target}: File too large\n", form)
        with open(target, encoding="utf-8") as file:
            context.equal(file.read(), "before", f"{form}: what was there")
    context.equal(sorted(os.listdir(context.directory)), before, "nothing else is left")
    link = context.path("link")
    os.symlink(target, link)
    export(context, "folded", source, name="link")
    context.check(os.path.islink(link) and os.path.getsize(target) > 100, "a link stays, what it names is replaced")


@case
def what_must_stay_stays(context):
    source = profile(context)
    with open(source, "rb") as file:
        before = file.read()
    os.symlink(source, context.path("alias"))
    os.link(source, context.path("other-name"))
    for target, words in ((source, "is the profile itself"), (context.path("alias"), "is the profile itself"),
                          (context.path("other-name"), "is the profile itself"),
                          (context.path("left.tally"), "is a Tally profile; it is left alone"),
                          (context.directory, "is a directory"), (context.path("no/where"), "No such file or directory")):
        done = tally.run(context, [context.tally, "export", "--format", "csv", "-o", target, source])
        context.equal((done.status, done.errors.decode().endswith(words + "\n")), (2, True), f"{target}: {done.text()}")
    with open(source, "rb") as file:
        context.equal(file.read(), before, "the profile")


@case
def pipes_and_devices(context):
    source = profile(context)
    for form in TEXTS:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([context.tally, "export", "--format", form, source], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        context.equal((done.returncode, done.stderr),
                      (2, b"tally: cannot write to standard output: No space left on device\n"), form)
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([context.tally, "export", "--format", form, source], stdout=write, stderr=subprocess.PIPE,
                              check=False, preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
        os.close(write)
        context.equal((done.returncode, done.stderr), (141, b""), f"{form}: nobody reads")
        done = tally.run(context, [context.tally, "export", "--format", form, "-o", "/dev/null", source])
        context.equal(done.status, 0, f"{form} to a device: {done.text()}")
    done = tally.run(context, [context.tally, "export", "--format", "pprof", "-o", "-", source])
    context.equal((done.status, done.output[:2]), (0, b"\x1f\x8b"), "pprof to a pipe")


@case
def default_names(context):
    source = profile(context)
    done = tally.run(context, [context.tally, "export", "--format", "pprof", source])
    context.equal((done.status, done.output, os.path.exists(context.path("tally.pb.gz"))), (0, b"", True), done.text())
    import pty
    for form, name in (("callgrind", "callgrind.out.tally"), ("folded", "tally.folded"),
                       ("speedscope", "tally.speedscope.json"), ("csv", "tally.csv")):
        leader, follower = pty.openpty()
        done = subprocess.run([context.tally, "export", "--format", form, source], stdout=follower, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, cwd=context.directory, check=False)
        os.close(follower)
        os.close(leader)
        context.check(done.returncode == 0 and os.path.getsize(context.path(name)) > 100, f"{form}: {done.stderr}")
    leader, follower = pty.openpty()
    done = subprocess.run([context.tally, "export", "--format", "pprof", "-o", "-", source], stdout=follower,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    os.close(follower)
    os.close(leader)
    context.equal((done.returncode, b"not for a terminal" in done.stderr), (2, True), "pprof on a terminal")


if __name__ == "__main__":
    run()
