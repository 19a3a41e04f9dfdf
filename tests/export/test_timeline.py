#!/usr/bin/python3
"""Timelines: what of them the page and the formats of other tools have, beside the samples that make_export gave them.

test_timeline.py TALLY FOLDER [CASE...]; FOLDER has make_export."""
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
    done = tally.run(context, [context.program("make_export"), context.folder])
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
    done = tally.run(context, [context.program("make_export"), context.folder, "3000", "400000"])
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


if __name__ == "__main__":
    run()
