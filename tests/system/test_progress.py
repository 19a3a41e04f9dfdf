"""What is drawn while a command takes longer than half a second: on a terminal, and nowhere else.

A profile is made large enough for its loading to be reported, and strace makes its loading slow, so that it takes as long as
this on any machine.
"""
import os
import re
import sqlite3

import tally
import tap
from terminal import Terminal

MORE = 40000  # rows; loading is reported every few thousand
SLOW = ["strace", "-qq", "-e", "trace=fcntl", "-e", "inject=fcntl:delay_enter=80000"]  # a database is locked some times


def large_profile(context, name):
    """A recording with many stacks more, none of them with samples."""
    profile = tally.recorded(context, [context.program("steady"), "5", "5"], name=name, status=42)
    with sqlite3.connect(profile.path) as database:
        numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {MORE})"
        first_address, first_node = (database.execute(f"select max(id) from {table}").fetchone()[0] for table in ("data_addresses", "data_nodes"))
        image = database.execute("select image from data_addresses where image > 0 limit 1").fetchone()[0]
        database.execute(f"{numbers} insert into data_addresses select ? + i, ? + i, ?, 0, 0, 0, 0, 2, 1 from n", (first_address, 1 << 40, image))
        database.execute(f"{numbers} insert into data_nodes select ? + i, 0, ? + i, 0 from n", (first_node, first_address))
    database.close()
    return profile.path


def slowed(context, arguments, slow=SLOW):
    tap.need("strace")
    probe = tally.run(context, slow + ["-o", context.path("trace"), "/bin/true"])
    if probe.status:
        raise tap.Skip("strace cannot trace here: " + probe.errors.decode(errors="replace")[-200:])
    return slow + ["-o", context.path("trace"), context.tally, *arguments]


def commands(context):
    """Every command that loads profiles."""
    one, other, out = large_profile(context, "one"), large_profile(context, "other"), context.path("out")
    return [["report", "--no-pager", one], ["report", "--json", one], ["candidates", "--no-pager", one],
            ["annotate", "--no-pager", "steady_step", one], ["export", "--format", "pprof", "-o", out, one],
            ["diff", "--no-pager", one, other], ["merge", "-o", out + ".tally", one, other]]


def drawn(text):
    """What was drawn, each time without the command's name."""
    found = re.findall(rb"\rtally: ([^\r\n]*?)\x1b\[K", text)
    return [words.decode(errors="replace") for words in found]


@tap.case
def on_a_terminal(context):
    """How far it is, in per cent that grow, and wiped away before the command says anything."""
    for arguments in commands(context):
        terminal = Terminal(slowed(context, arguments), context.directory, dict(os.environ, COLUMNS="80"))
        status = terminal.wait(60)
        seen, what = terminal.seen, "tally " + " ".join(arguments[:2])
        terminal.close()
        context.equal(status, 0, f"status of {what}")
        lines = drawn(seen)
        if not context.check(lines, f"{what}: nothing was drawn in {tap.shorten(seen)}"):
            continue
        percent = [int(match.group(1)) for match in (re.fullmatch(r"loading one: (\d+) %", line) for line in lines) if match]
        context.check(percent and percent == sorted(percent) and percent[-1] <= 100, f"{what}: {lines}")
        context.check(all(len("tally: " + line) < 80 for line in lines), f"{what}: a line is wider than the terminal: {lines}")
        rest = seen[seen.rindex(b"\x1b[K") + 3:]
        context.check(seen[:-len(rest) or None].endswith(b"\r\x1b[K"), f"{what}: what was drawn last is still there")
        context.check(b"loading" not in rest, f"{what}: {tap.shorten(rest)}")


@tap.case
def names_of_a_recording(context):
    """While names are looked up at its end; here each look for a debug file takes its time, and the shell has no names of its own."""
    slow = ["strace", "-qq", "-e", "trace=access", "-e", "inject=access:delay_enter=500000"]
    counting = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; exit 42"
    command = ["record", "-o", context.path("profile"), "--", "/bin/sh", "-c", counting]
    terminal = Terminal(slowed(context, command, slow), context.directory)
    context.equal(terminal.wait(60), 42, "status")
    bars = re.findall(rb"looking up names \[(#*) *\] (\d+) of (\d+)", terminal.seen)
    context.check(bars, f"nothing was drawn in {tap.shorten(terminal.seen)}")
    done = [int(part) for _, part, _ in bars]
    context.check(done == sorted(done) and all(len(bar) == 30 * int(part) // int(whole) for bar, part, whole in bars), f"{bars}")
    context.check(b"looking up" not in terminal.seen[terminal.seen.rindex(b"\r") + 1:], "it was not wiped away")
    terminal.close()


@tap.case
def not_elsewhere(context):
    """Nothing on a pipe; nothing on a terminal that cannot wipe it away."""
    for arguments in commands(context)[::3]:  # a view, a listing, a merge
        what = "tally " + " ".join(arguments[:2])
        result = tally.run(context, slowed(context, arguments))
        context.equal(result.status, 0, f"status of {what} ({result.text()})")
        context.check(b"loading" not in result.errors and b"\r" not in result.errors and b"\x1b" not in result.errors,
                      f"{what}: standard error has {tap.shorten(result.errors)}")
        context.check(b"loading" not in result.output and b"\r" not in result.output, f"{what}: standard output has it")
    arguments = ["report", "--no-pager", context.path("one")]
    terminal = Terminal(["env", "TERM=dumb", *slowed(context, arguments)], context.directory)
    context.equal(terminal.wait(60), 0, "status on a dumb terminal")
    context.check(b"loading" not in terminal.seen and b"\x1b" not in terminal.seen, f"a dumb terminal has {tap.shorten(terminal.seen)}")
    terminal.close()


tap.run()
