"""What a process shows in /proc while it is recorded, held against the table of doc/footprint.md; afterwards nothing of it is left.

A row of the table is a mode; its columns are what may differ from the process as it was, at most: numbers are limits, `yes` says that it
is so in this mode, `-` that it never is. A mode without a row, or a row without a mode, fails.
"""
import os
import re
import subprocess
import time

import harm
import calls
import tally
import tap

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../doc/footprint.md")
COLUMNS = ("mappings", "address space", "text", "traced", "signals", "timers", "threads", "descriptors", "locked")


def table():
    """{mode: {column: cell}} of the document."""
    with open(DOCUMENT, encoding="utf-8") as file:
        rows = [[cell.strip().strip("`") for cell in line.strip().strip("|").split("|")] for line in file if line.startswith("|")]
    head = rows[0]
    return {row[0]: dict(zip(head[1:], row[1:])) for row in rows[2:]}


def status(pid):
    return dict(line.rstrip("\n").split(":\t", 1) for line in harm.Footprint.read(pid, "status").splitlines() if ":\t" in line)


def number(pid, name):
    return int(status(pid)[name].split()[0])


def measured(pid):
    """What the table has columns for; mappings, text and traced are as such, the rest is compared with what was before."""
    facts = status(pid)
    return {
        "mappings": len(harm.ours(pid)),
        "address space": int(facts["VmSize"].split()[0]),
        "text": len(calls.changed_text(pid)),
        "traced": len(calls.tracers(pid)),
        "signals": (facts["SigCgt"], facts["SigIgn"], harm.Footprint.always_blocked(pid, pid)),
        "timers": harm.Footprint.read(pid, "timers").count("ID: "),
        "threads": int(facts["Threads"]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "locked": int(facts["VmLck"].split()[0]),
    }


def most(text):
    """A cell's limit: `4`, `12 MiB` in kB, `-` for 0, `yes` for any number."""
    found = re.match(r"(\d+)( MiB)?$", text)
    if found:
        return int(found.group(1)) * (1024 if found.group(2) else 1)
    return {"-": 0, "yes": float("inf")}[text]


def difference(column, before, now):
    if column == "signals":
        return int(now[column] != before[column])
    return now[column] - before[column]


def mode(name, options):
    def run(context):
        process = tally.start(context, [program(context), "on"], stdin=subprocess.PIPE)
        process.stdout.readline()
        pid = process.pid
        before, alike = measured(pid), harm.Footprint(pid)
        recorder = tally.start(context, [context.tally, "record", *options, "-o", context.path("profile"), "-p", str(pid)])
        context.check(tally.wait_for(lambda: not options or harm.inside(pid) or recorder.poll() is not None, 20), "tally did not begin")
        row, largest = table().get(name, {}), {}
        context.equal(sorted(row), sorted(COLUMNS), "the table's columns of this mode")
        end = time.monotonic() + 1.5
        while time.monotonic() < end and recorder.poll() is None:
            now = measured(pid)
            for column in COLUMNS:
                largest[column] = max(largest.get(column, 0), difference(column, before, now))
            time.sleep(0.02)
        context.note(f"{largest}")
        for column in COLUMNS:
            context.check(largest[column] <= most(row[column]), f"{column}: {largest[column]}, the table says {row[column]}")
            context.check(row[column] != "yes" or largest[column] > 0, f"{column}: the table says yes, and it was not seen")
        recorder.send_signal(2)
        context.equal(tally.finish(recorder, 60).status, 0, "status of tally")
        alike.same(context, pid, f"after {name}")
        process.communicate(timeout=30)
        context.equal(process.returncode, 0, "status of the program")
    run.__name__ = name.replace("+", "_and_")
    tap.case(run)


def program(context):
    path = context.path("quiet")
    subprocess.run(["gcc", "-O1", "-g", "-o", path, os.path.join(harm.PROGRAMS, "quiet.c")], check=True)
    return path


for key, value in harm.MODES.items():
    mode(key, [*value, *([] if "--engine=agent" in value or not value else ["--no-time"])])


@tap.case
def every_row_is_a_mode(context):
    context.equal(sorted(table()), sorted(harm.MODES), "modes of the table")


tap.run()
