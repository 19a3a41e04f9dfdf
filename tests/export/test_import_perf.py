#!/usr/bin/python3
"""perf.data, imported: files made by hand, whose truth is known, and what perf itself records, beside what it says of it.

test_import_perf.py TALLY PROGRAMS [CASE...]"""
import collections
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tally  # noqa: E402
from perf_data import BRANCH, MISC_USER, RAW, READ, SAMPLE, USER, Perf, copies, record, story  # noqa: E402
from tap import Skip, case, run  # noqa: E402

WANTED = {"app+0x10": (0, 4000000, 0), "app+0x40": (1000000, 3000000, 1), "old.so+0x1020": (1000000, 1000000, 1),
          "new.so+0x3020": (1000000, 1000000, 1), "[kernel]+0xffffffffffffe000": (0, 2000000, 0),
          "[kernel]+0xfffffffffffff000": (2000000, 2000000, 1), "(unknown)": (1000000, 1000000, 1)}


def write(context, name, content):
    path = context.path(name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def imported(context, source, *options, name="imported.tally", status=0):
    path = context.path(name)
    done = tally.run(context, [context.tally, "import", "-o", path, *options, source], env=dict(os.environ, HOME=context.directory))
    context.equal(done.status, status, f"import {options} {source} ({done.text()})")
    return path if status == 0 else done.errors.decode()


def report(context, source, *options):
    done = tally.run(context, [context.tally, "report", "--json", "--limit", "0%", *options, source])
    context.equal(done.status, 0, f"report {options} ({done.text()})")
    return json.loads(done.output)


def flat(context, source, *options):
    return {row["function"]: (row["self"]["value"], row["total"]["value"], row["self"]["samples"])
            for row in report(context, source, *options)["rows"]}


def ask(context, source, question):
    done = tally.run(context, [context.tally, "query", "--json", source, question])
    context.equal(done.status, 0, f"{question}: {done.text()}")
    return json.loads(done.output)


def check_story(context, path, what):
    context.equal(flat(context, path), WANTED, f"{what}: figures")
    context.equal(flat(context, path, "--counter", "page-faults:u"), {"app+0x10": (0, 7, 0), "new.so+0x3020": (7, 7, 1)},
                  f"{what}: the other event")
    context.equal(ask(context, path, "SELECT name, unit, exact FROM counters"),
                  [{"name": "time.cpu", "unit": "ns", "exact": 0}, {"name": "page-faults:u", "unit": "events", "exact": 0}], what)
    context.equal(ask(context, path, "SELECT pid, parent_pid, name FROM processes"),
                  [{"pid": 100, "parent_pid": 0, "name": "worker"}, {"pid": 101, "parent_pid": 100, "name": "worker"},
                   {"pid": 200, "parent_pid": 0, "name": None}], f"{what}: processes")
    losses = {row["number"]: row["count"] for row in ask(context, path, "SELECT number, count FROM losses")}
    context.equal((losses.get(1), losses.get(2), losses.get(13)), (40, 1, 3), f"{what}: losses")
    meta = report(context, path)["meta"]
    context.equal((meta["command"], meta["hostname"], meta["kernel"], meta["rate_hz"], meta["duration_ns"]),
                  ("perf 're cord'", "elsewhere", "1.2.3", 1000, 6000), f"{what}: the recording")
    context.check("functions of the kernel have no names" in meta["import_notice"], f"{what}: {meta}")


@case
def a_file(context):
    path = imported(context, write(context, "some.data", story().bytes()))
    check_story(context, path, "file")
    images = ask(context, path, "SELECT t.text AS path, b.text AS id FROM data_images i JOIN data_strings t ON t.id = i.path "
                                "LEFT JOIN data_strings b ON b.id = i.build_id WHERE t.text LIKE '/nowhere/%'")
    context.equal({row["path"]: row["id"] for row in images},
                  {"/nowhere/app": None, "/nowhere/old.so": None, "/nowhere/new.so": "ab" * 20}, "build-ids")


@case
def a_pipe(context):
    check_story(context, imported(context, write(context, "pipe.data", story().pipe())), "pipe")


@case
def a_file_without_an_end(context):
    """perf was killed: its header has no size."""
    path = imported(context, write(context, "killed.data", story().bytes(ended=False)))
    figures = flat(context, path)
    context.equal({name: row for name, row in figures.items() if name != "cpu-clock"}, WANTED, "figures")
    shown = report(context, path)
    context.check("truncated, or perf did not end it" in shown["meta"]["import_notice"], "that is said")
    context.equal(shown["complete"], False, "complete")
    text = tally.run(context, [context.tally, "report", "-v", path]).output.decode()
    context.check("unfinished: the file is not whole; this is what it has" in text, text)
    context.check("lost: nothing" not in text, text)
    whole = report(context, imported(context, write(context, "whole.data", story().bytes())))
    context.equal(whole["complete"], True, "the whole file")


@case
def cut_anywhere(context):
    """An error or a notice, never silence and never a crash."""
    whole = story().bytes()
    for size in (4, 16, 60, 103, 110, 200, 360, 395, 402, 700, len(whole) - 600, len(whole) - 1):
        path = write(context, "cut.data", whole[:size])
        done = tally.run(context, [context.tally, "import", "-o", context.path("cut.tally"), path])
        reported = b"truncated" in done.errors or b"corrupt" in done.errors or b"nothing that can be" in done.errors
        context.check(done.status in (0, 2) and reported, f"{size} of {len(whole)} bytes: {done.text()}")
        if done.status == 0:
            context.equal(tally.run(context, [context.tally, "report", context.path("cut.tally")]).status, 0, f"{size}: report")


@case
def packed_records(context):
    """zstd, cut where it suits nobody: in the old form, whose records have any size, and in the later one."""
    packer = shutil.which("zstd")
    if not packer:
        raise Skip("no zstd")
    made = story()
    stream = subprocess.run([packer, "-c", "-3"], input=b"".join(made.records), stdout=subprocess.PIPE, check=True).stdout
    for later in (False, True):
        made = Perf()
        for at in range(0, len(stream), 41):
            piece = stream[at:at + 41]
            if later:
                made.records.append(record(83, 0, struct.pack("<Q", len(piece)), piece))
            else:
                made.records.append(struct.pack("<IHH", 81, 0, 8 + len(piece)) + piece)
        check_story(context, imported(context, write(context, "packed.data", made.bytes())), f"later {later}")
    made.records[2] = made.records[2][:20] + b"\xff" * 8 + made.records[2][28:]
    said = tally.run(context, [context.tally, "import", "-o", context.path("bad.tally"), write(context, "bad.data", made.bytes())])
    context.check(said.status == 0 and b"corrupt" in said.errors, said.text())


@case
def fields_in_between(context):
    """Values of a group, raw bytes and branches are passed over."""
    for fields, format_, branches, before, behind in (
            (READ, 4 | 8 | 1 | 2, 0, struct.pack("<7Q", 2, 9, 9, 5, 11, 6, 12), b""), (READ, 4 | 16, 0, struct.pack("<3Q", 5, 11, 3), b""),
            (RAW, 0, 0, b"", struct.pack("<I", 12) + b"x" * 12), (BRANCH, 0, 1, b"", struct.pack("<7Q", 2, 1, 2, 3, 4, 5, 6)),
            (BRANCH, 0, 1 << 17, b"", struct.pack("<5Q", 1, 77, 1, 2, 3))):
        made = Perf(fields, format_, branches)
        made.mmap(7, 1, 0x1000, 0x1000, 0, "/nowhere/app")
        made.sample(11, 7, 5, [USER, 0x1010], 3000, before=before, behind=behind)
        path = imported(context, write(context, "fields.data", made.bytes()))
        context.equal(flat(context, path), {"app+0x10": (3000, 3000, 1)}, f"{fields:#x} {format_}")
        made.sample(11, 7, 6, [USER, 0x1010], 3000, before=before, behind=behind)
        short = made.records[-1]
        made.records[-1] = struct.pack("<IHH", SAMPLE, MISC_USER, len(short) - 8) + short[8:-8]
        path = imported(context, write(context, "fields.data", made.bytes()))
        context.check("1 samples do not fit" in str(report(context, path)["meta"].get("import_notice")) and
                      flat(context, path) == {"app+0x10": (3000, 3000, 1)}, f"{fields:#x}: one that is too short is left out, and reported")


@case
def another_machine(context):
    """Its registers mean something else: what was interrupted is all that is known."""
    path = imported(context, write(context, "far.data", copies("/nowhere/app", machine="sparc").bytes()))
    shown = report(context, path, "--tree")
    context.check("recorded on sparc" in shown["meta"]["import_notice"], shown["meta"])
    context.equal(max(row["depth"] for row in shown["rows"]), 1, "no stacks")


def shared_ids(count=1000, ids=8192):
    """Every event points at the same identifiers: more work than the file is long."""
    numbers = struct.pack(f"<{ids}Q", *range(1, ids + 1))
    form = struct.pack("<II", 1, 112).ljust(112, b"\0") + struct.pack("<QQ", 104, len(numbers))
    header = struct.pack("<8Q", 104, len(form), 104 + len(numbers), count * len(form), 104 + len(numbers) + count * len(form), 0, 0, 0)
    return b"PERFILE2" + header + bytes(32) + numbers + count * form


@case
def refused(context):
    for content, words in ((b"2ELIFREP" + b"\0" * 100, "other byte order"), (b"PERFILE2" + struct.pack("<Q", 16), "without events"),
                           (b"PERFILE2" + struct.pack("<Q", 104) + b"\xff" * 100, "corrupt perf.data"),
                           (shared_ids(), "corrupt perf.data"), (Perf().bytes()[:80], "truncated")):
        said = imported(context, write(context, "bad.data", content), status=2, name="never")
        context.check(words in said, f"{words}: {said}")
    said = imported(context, write(context, "some.data", story().bytes()), "--rate", "9", status=2, name="never")
    context.check("--rate is for folded stacks" in said, said)
    done = tally.run(context, [context.tally, "report", context.path("some.data")])
    context.check(b"tally import" in done.errors, done.text())


@case
def damaged_files(context):
    """In one process each, for what a signal or a hang would be; the fuzzer does many more."""
    chance, whole = random.Random(5), bytearray(story().bytes())
    for seed in range(40):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 12)):
            damaged[chance.randrange(16, len(damaged))] = chance.choice((0, 1, 255, chance.randrange(256)))
        done = tally.run(context, [context.tally, "import", "-o", context.path("x.tally"), write(context, "x.data", bytes(damaged))],
                         timeout=60)
        context.check(done.status in (0, 2) and done.errors.startswith(b"tally: "), f"seed {seed}: {done.text()}")


# --- what perf records ---


def perf(context, program, *options, output="perf.data"):
    tool = shutil.which("perf")
    if not tool:
        raise Skip("no perf (linux-perf)")
    path = context.path(output)
    done = tally.run(context, [tool, "record", "-q", "-e", "cpu-clock", "-F", "999", *options, "-o", path, "--", program],
                     env=dict(os.environ, HOME=context.directory))
    if done.status or not os.path.exists(path):
        raise Skip(f"perf cannot record here: {done.errors.decode()[-200:].strip()}")
    return path


HEAD = re.compile(r"^\s*(\S.*?)\s+(\d+)/(\d+)\s+(\d+)\s")
FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \((.*)\)$")


def scripts(context, path):
    """What perf script prints: a list of (pid, tid, period, [(symbol, dso), the innermost first])."""
    done = tally.run(context, ["perf", "script", "--no-inline", "-i", path, "-F", "comm,pid,tid,period,ip,sym,dso"],
                     env=dict(os.environ, HOME=context.directory))
    context.equal(done.status, 0, done.text())
    samples = []
    for line in done.output.decode(errors="replace").splitlines():
        frame, head = FRAME.match(line), HEAD.match(line)
        if head:
            samples.append((int(head[2]), int(head[3]), int(head[4]), []))
            inline = FRAME.match(" " + line[head.end():].strip())
            frame = inline or None
        if frame and samples:
            samples[-1][3].append((frame[2].split("@")[0], os.path.basename(frame[3])))
    return samples


def check_sums(context, path, back):
    """Sums by thread and by the innermost file are perf's own, exactly; so are those of the program's functions."""
    samples = scripts(context, path)
    context.check(len(samples) > 100, f"perf script has {len(samples)} samples")
    threads, files, functions = collections.Counter(), collections.Counter(), collections.Counter()
    for pid, tid, period, frames in samples:
        threads[pid, tid] += period
        kernel = frames[0][1].startswith("[kernel") or frames[0][1] in ("[unknown]", "unknown")
        files["[kernel]" if kernel else frames[0][1]] += period
        if frames[0][1] == "shares":
            functions[frames[0][0]] += period
    mine = ask(context, back, "SELECT p.pid AS pid, t.tid AS tid, sum(c.value) AS value FROM data_cells c JOIN data_threads t ON "
                              "t.id = c.thread JOIN data_processes p ON p.id = t.process GROUP BY 1, 2")
    context.equal({(row["pid"], row["tid"]): row["value"] for row in mine}, dict(threads), "by thread")
    rows = report(context, back)["rows"]
    by_file, by_function = collections.Counter(), collections.Counter()
    for row in rows:
        image = row["image"] if row["image"] not in ("(unknown)", "(kernel)") else "[kernel]"
        by_file[image] += row["self"]["value"]
        if row["image"] == "shares":
            by_function[row["function"]] += row["self"]["value"]
    context.equal({key: value for key, value in by_file.items() if value}, dict(files), "by file")
    context.equal({key: value for key, value in by_function.items() if value}, dict(functions), "by function")
    return samples


@case
def perf_without_stacks(context):
    path = perf(context, context.program("shares"))
    check_sums(context, path, imported(context, path))


@case
def perf_with_frame_pointers(context):
    path = perf(context, context.program("shares"), "-g")
    back = imported(context, path)
    samples = check_sums(context, path, back)
    stacks = collections.Counter()
    for _, _, period, frames in samples:
        names = [name for name, file in frames if file == "shares"]
        stacks[tuple(reversed(names))] += period
    totals = collections.Counter()
    for names, period in stacks.items():
        for name in set(names):
            totals[name] += period
    mine = {row["function"]: row["total"]["value"] for row in report(context, back)["rows"] if row["image"] == "shares"}
    context.equal({name: mine.get(name) for name in totals if name.startswith("share_") or name == "main"},
                  {name: value for name, value in totals.items() if name.startswith("share_") or name == "main"}, "totals")


@case
def perf_with_copies_of_stacks(context):
    """Unwound by our own rows: the program's main is on (nearly) every stack of its functions."""
    path = perf(context, context.program("shares"), "--call-graph", "dwarf,4096")
    back = imported(context, path)
    check_sums(context, path, back)
    rows = {row["function"]: row for row in report(context, back)["rows"]}
    inside = sum(row["self"]["samples"] for name, row in rows.items() if name.startswith("share_"))
    below = rows["main"]["total"]["samples"]
    cut = sum(row["count"] for row in ask(context, back, "SELECT number, count FROM losses") if row["number"] in tally.LOST_ROOTS)
    context.check(below >= inside - cut, f"main is on {below} stacks, its functions on {inside}, {cut} are cut")
    context.check(cut * 20 <= inside, f"{cut} of {inside} stacks are cut")


@case
def perf_packed_and_piped(context):
    program = context.program("shares")
    packed = perf(context, program, "-z", "-g")
    check_sums(context, packed, imported(context, packed))
    ids = perf(context, program, "--buildid-mmap", output="ids.data")
    check_sums(context, ids, imported(context, ids))
    with open(context.path("piped.data"), "wb") as file:  # what the program prints goes elsewhere
        done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-o", "-", "--", "sh", "-c",
                               program + " > /dev/null"], stdout=file, stderr=subprocess.PIPE, check=False, cwd=context.directory,
                              env=dict(os.environ, HOME=context.directory))
    context.equal(done.returncode, 0, done.stderr)
    with open(context.path("piped.data"), "rb") as file:
        done = tally.run(context, [context.tally, "import", "-o", context.path("piped.tally"), "-"], stdin=file,
                         env=dict(os.environ, HOME=context.directory))
    context.equal(done.status, 0, done.text())
    check_sums(context, context.path("piped.data"), context.path("piped.tally"))


@case
def perf_and_all_reports(context):
    back = imported(context, perf(context, context.program("shares"), "-g"))
    for command in (["report", "--tree"], ["report", "--graph"], ["report", "--paths"], ["annotate", "share_60"],
                    ["annotate", "--asm", "share_60"], ["export", "--format", "folded"], ["candidates"]):
        done = tally.run(context, [context.tally, *command, back])
        context.check(done.status == 0 and b"share_60" in done.output, f"{command}: {done.text()}")
    done = tally.run(context, [context.tally, "diff", "--json", back, back])
    context.equal(done.status, 0, done.text())


if __name__ == "__main__":
    run()
