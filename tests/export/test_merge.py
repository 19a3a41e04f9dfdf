#!/usr/bin/python3
"""Merging, seen through the stable views: the figures of the whole are the sums of its parts'.

test_merge.py TALLY DIRECTORY [CASE...]; DIRECTORY has make_export."""
import collections
import json
import os
import resource
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system"))
import tally  # noqa: E402
from tap import case, run  # noqa: E402

# What of a view is added up, and what tells its rows apart. Peaks are none of it: of two the larger counts. So it does for each stack of MAXIMA.
MAXIMA = {"heap.max", "heap.largest", "heap.live.age"}
FLAT = "SELECT function, image, counter, sum(self), sum(total), sum(samples) FROM flat WHERE counter <> 'heap.peak' GROUP BY 1, 2, 3"
STACKS = "SELECT counter, stack, sum(value) FROM stacks WHERE counter <> 'heap.peak' GROUP BY 1, 2"
EDGES = "SELECT caller, caller_image, callee, callee_image, kind, sum(calls) FROM edges GROUP BY 1, 2, 3, 4, 5"
CALLS = "SELECT tid, caller, callee, kind, sum(calls) FROM calls GROUP BY 1, 2, 3, 4"
LOSSES = "SELECT number, sum(count) FROM losses WHERE number <> 15 GROUP BY 1"  # 15: found out when names are looked for


def parts(context, *names):
    made = tally.run(context, [context.program("make_export"), context.directory])
    context.equal(made.status, 0, "make_export")
    return [context.path(name + ".tally") for name in names]


def merge(context, sources, *options, name="all", status=0):
    done = tally.run(context, [context.tally, "merge", "-o", context.path(name), *options, *sources])
    context.equal(done.status, status, f"merge {options} ({done.text()})")
    return tally.Profile(context, context.path(name)), done


def summed(profiles, sql, figures):
    sums = collections.defaultdict(lambda: [0] * figures)
    for profile in profiles:
        for row in profile.rows(sql):
            key, values = row[:len(row) - figures], row[len(row) - figures:]
            largest = min(figures, 2) if MAXIMA.intersection(key) else 0  # samples are added up
            sums[key] = [max(a, b) if i < largest else a + b for i, (a, b) in enumerate(zip(sums[key], values))]
    return dict(sums)


@case
def figures_are_sums(context):
    sources = parts(context, "left", "right", "plain")
    whole, done = merge(context, sources)
    context.check(done.errors.decode().startswith("tally: 3 recordings, 1,297 samples -> "), done.text())
    profiles = [tally.Profile(context, path) for path in sources]
    for sql, figures in ((FLAT, 3), (STACKS, 1), (EDGES, 1), (CALLS, 1), (LOSSES, 1)):
        context.equal(summed([whole], sql, figures), summed(profiles, sql, figures), sql)
    rows = whole.query("SELECT function, self FROM flat WHERE counter = 'time.cpu' AND function = 'compare'")
    context.equal(rows[1:], [["compare", str(900000000 + 435000000)]], "through tally query")


@case
def each_is_kept_apart(context):
    sources = parts(context, "left", "right")
    whole, _ = merge(context, sources)
    context.equal(whole.rows("SELECT id, name, file, hostname, start_time, rate_hz FROM origins"),
                  [(1, "west", sources[0], "west", "1763700000", "999"), (2, "east", sources[1], "east", "1763700900", "499")],
                  "origins")
    context.equal(whole.rows("SELECT pid, name, origin FROM processes"), [(100, "shop", 1), (100, "shop", 2)], "processes")
    for origin, source in (("west", sources[0]), ("east", sources[1])):
        shown = json.loads(tally.run(context, [context.tally, "report", "--json", "--limit", "0%", "--process", "@" + origin,
                                               whole.path]).output)
        alone = json.loads(tally.run(context, [context.tally, "report", "--json", "--limit", "0%", source]).output)
        context.equal(shown["selected"]["value"], alone["selected"]["value"], f"time on {origin}")
        keys = ("function", "image", "self", "total", "calls")
        pick = [sorted(([row.get(key) for key in keys] for row in report["rows"]), key=str) for report in (shown, alone)]
        context.equal(pick[0], pick[1], f"rows of {origin}")
    done = tally.run(context, [context.tally, "report", "--process", "@north", whole.path])
    context.equal((done.status, done.errors), (2, b"tally: no process @north in this profile; it has 100 shop@west, "
                                                  b"100 shop@east\n"), "an origin that is not there")
    done = tally.run(context, [context.tally, "report", "-v", whole.path])
    context.check(b"2 recordings, 8.00 s" in done.output and b"Hz" not in done.output.splitlines()[0], "the header")


@case
def exports_keep_them_apart(context):
    whole, _ = merge(context, parts(context, "left", "right"))
    done = tally.run(context, [context.tally, "export", "--format", "folded", whole.path])
    sums = collections.Counter()
    for line in done.output.decode().splitlines():
        sums[line.split(";")[0]] += int(line.rsplit(" ", 1)[1])
    context.equal(dict(sums), {"shop@west": 317000000, "shop@east": 622000000}, "folded")


@case
def said_for_machines(context):
    sources = parts(context, "left", "right")
    whole, done = merge(context, sources, "--json")
    said = json.loads(done.output)
    context.equal(done.errors, b"", "nothing else is said")
    context.equal((said["file"], said["samples"], said["processes"], said["bytes"]),
                  (whole.path, 633, 2, os.path.getsize(whole.path)), "sums")
    context.equal([(origin["name"], origin["file"], origin["rate_hz"]) for origin in said["origins"]],
                  [("west", sources[0], "999"), ("east", sources[1], "499")], "origins")


@case
def older_formats_too(context):
    golden = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden")
    sources = [os.path.join(golden, name) for name in sorted(os.listdir(golden)) if name.endswith(".tally")]
    whole, _ = merge(context, sources)
    profiles = [tally.Profile(context, path) for path in sources]
    for sql, figures in ((FLAT, 3), (STACKS, 1)):
        context.equal(summed([whole], sql, figures), summed(profiles, sql, figures), sql)
    done = tally.run(context, ["/usr/bin/python3", os.path.join(golden, "read.py"), whole.path])
    context.check(done.status == 0 and b"\nok 1" in done.output, f"a second reader reads it: {done.text()}")
    context.equal(len(whole.rows("SELECT * FROM coverage")), len(profiles[2].rows("SELECT * FROM coverage")), "coverage")


@case
def what_does_not_go_together(context):
    sources = parts(context, "left", "odd")
    whole, done = merge(context, sources, status=2)
    context.equal(done.errors.decode(), f"tally: {sources[1]}: its counter time.cpu was counted, that of the others sampled\n",
                  "exact and sampled")
    context.check(not os.path.exists(whole.path), "nothing was made")


@case
def files_that_must_stay(context):
    sources = parts(context, "left", "right")
    before = {path: open(path, "rb").read() for path in sources}
    for target, words in ((sources[1], "is to be merged, and cannot be the result"), (context.directory, "is no regular file"),
                          (context.path("no/where"), "No such file or directory")):
        done = tally.run(context, [context.tally, "merge", "-o", target, *sources])
        context.check(done.status == 2 and words in done.errors.decode(), f"{target}: {done.text()}")
    with open(context.path("text"), "w", encoding="utf-8") as file:
        file.write("not a profile")
    done = tally.run(context, [context.tally, "merge", "-o", context.path("text"), *sources])
    context.check(done.status == 2 and "is left alone" in done.errors.decode(), done.text())
    done = tally.run(context, [context.tally, "merge", "-o", context.path("new"), sources[0], sources[0]])
    context.check(done.status == 2 and "are the same profile" in done.errors.decode(), done.text())
    done = tally.run(context, [context.tally, "merge", "-o", context.path("new"), sources[0], context.path("text")])
    context.check(done.status == 2 and "is no Tally profile" in done.errors.decode(), done.text())
    context.equal({path: open(path, "rb").read() for path in sources}, before, "the parts")
    context.check(not os.path.exists(context.path("new")), "no result")


@case
def a_full_disk_takes_nothing_away(context):
    sources = parts(context, "left", "right")
    merge(context, sources)
    with open(context.path("all"), "rb") as file:
        before = file.read()

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))

    done = tally.run(context, [context.tally, "merge", "-o", context.path("all"), *sources], preexec_fn=small)
    context.check(done.status == 2 and done.errors.startswith(b"tally: "), done.text())
    with open(context.path("all"), "rb") as file:
        context.equal(file.read(), before, "what was there")
    context.check(not os.path.exists(context.path("all.old")), "under its own name")
    merge(context, sources)
    context.check(os.path.exists(context.path("all.old")), "an older one becomes .old")


if __name__ == "__main__":
    run()
