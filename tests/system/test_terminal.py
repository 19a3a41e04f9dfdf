"""Ctrl-C, Ctrl-Z and fg on a terminal; SIGTERM; SIGKILL of tally at any moment."""
import ctypes
import os
import random
import re
import signal
import sqlite3
import time

import tap
import tally
from terminal import Terminal

PR_SET_CHILD_SUBREAPER = 36


def record_on_terminal(context, command, options=()):
    path = context.path("profile")
    return Terminal([context.tally, "record", "-o", path, *options, "--", *command], context.directory), tally.Profile(context, path)


def readable(context, profile, function):
    context.check(function in profile.functions(), f"{function} is not in the profile")
    profile.report()


@tap.case
def interrupt_kills_the_target(context):
    """As the shell would have it: the target dies by it, tally writes the profile and ends with 130."""
    terminal, profile = record_on_terminal(context, [context.program("steady"), "1000", "10"])
    context.check(terminal.expect("line 60"), "the target did not begin")
    terminal.type("\x03")
    context.equal(terminal.wait(), 130, "status")
    terminal.close()
    readable(context, profile, "steady_step")


@tap.case
def messages_break_between_words(context):
    """On a terminal of 40 columns; as one line where they go into a file."""
    command = [context.tally, "report", "--counter", "nothing", context.path("there-is-no-such-profile-here")]
    environment = dict(os.environ, COLUMNS="40")
    whole = tally.run(context, command, env=environment).errors.decode()
    context.equal(whole.count("\n"), 1, "lines in a file")
    terminal = Terminal(command, context.directory, environment)
    terminal.wait()
    lines = terminal.seen.decode().replace("\r", "").splitlines()
    terminal.close()
    context.check(len(lines) > 1, f"one line: {lines}")
    context.equal(" ".join(line.strip() for line in lines) + "\n", whole, "the message")
    context.equal([line for line in lines if len(line) > 40 and " " in line.strip().removeprefix("tally: ")], [], "lines that are too long")


@tap.case
def interrupt_that_the_target_handles(context):
    terminal, profile = record_on_terminal(context, [context.program("ending"), "handles-int"])
    context.check(terminal.expect("waiting"), "the target did not begin")
    time.sleep(0.5)
    terminal.type("\x03")
    context.check(terminal.expect("interrupted"), "the target did not get the signal")
    context.equal(terminal.wait(), 5, "status")
    terminal.close()
    readable(context, profile, "ending_busy")


@tap.case
def interrupt_that_the_target_ignores(context):
    """Tally goes on as long as its target does."""
    terminal, profile = record_on_terminal(context, [context.program("ending"), "--seconds", "1.5", "ignores-int"])
    context.check(terminal.expect("waiting"), "the target did not begin")
    time.sleep(0.3)
    terminal.type("\x03")
    context.check(terminal.expect("finished"), "the target did not finish")
    context.equal(terminal.wait(), 6, "status")
    terminal.close()
    readable(context, profile, "ending_busy")
    total = profile.total()
    context.check(total > 1.2e9, f"recording went on for {total / 1e9:.2f} s of 1.5 s only")


def of_proc(name):
    with open("/proc/" + name, encoding="ascii") as file:
        return file.read()


@tap.case
def second_interrupt_leaves_the_command(context):
    """A command that goes on after Ctrl-C: what a second one does is said, and done. The command is not ended by it."""
    path = context.path("profile")
    terminal = Terminal([context.tally, "record", "-o", path, "--", context.program("ending"), "--seconds", "20", "ignores-int"],
                        context.directory)
    context.check(terminal.expect("waiting"), "the target did not begin")
    time.sleep(0.5)
    terminal.type("\x03")
    context.check(terminal.expect("tally: the command goes on; Ctrl-C again ends the recording, keeps the profile", 10), "the first is answered")
    children = [int(pid) for pid in of_proc(f"{terminal.pid}/task/{terminal.pid}/children").split()]
    running = [pid for pid in children if of_proc(f"{pid}/comm").strip() == "ending"]
    context.equal(len(running), 1, "commands that run")
    terminal.type("\x03")
    context.equal(terminal.wait(15), 0, "status")
    for pid in running:
        context.equal(os.path.exists(f"/proc/{pid}"), True, "the command goes on")
        os.kill(pid, signal.SIGKILL)
    terminal.close()
    readable(context, tally.Profile(context, path), "ending_busy")


def drawn(context, columns, options, script):
    """What a command's terminal of so many columns was sent while it was recorded."""
    terminal = Terminal(["sh", "-c", f"stty cols {columns}; exec {context.tally} record {options} -o {context.path('drawn')} -- "
                         f"{context.program('ending')} --seconds 1.6 exit 0 {script}"], context.directory, dict(os.environ, COLUMNS=""))
    context.equal(terminal.wait(), 0, "status")
    seen = terminal.seen.decode()
    terminal.close()
    return seen


@tap.case
def status_line_fits_the_terminal(context):
    """No line of it is wider than the terminal, and --quiet has none."""
    for columns in (20, 50, 120):
        lines = re.findall(r"\r(tally: \d+ s,[^\r\n\x1b]*)", drawn(context, columns, "", ""))
        context.check(lines, f"no status line in {columns} columns")
        context.check(all(len(line) < columns for line in lines), f"{columns} columns: {lines}")
    context.equal(re.findall(r"\rtally: [0-9]+ s,", drawn(context, 80, "-q", "")), [], "--quiet")


@tap.case
def status_line_leaves_an_editors_screen_alone(context):
    """While the terminal is not in line mode a program draws its screen: nothing of ours is written there."""
    script = context.path("raw.py")
    with open(script, "w", encoding="ascii") as file:
        file.write("import sys, time, tty\ntty.setraw(0)\nsys.stdout.write('raw\\r\\n')\nsys.stdout.flush()\nend = time.time() + 2\n"
                   "while time.time() < end: pass\nsys.stdout.write('over\\r\\n')\nsys.stdout.flush()\n")
    terminal = Terminal([context.tally, "record", "-o", context.path("profile"), "--", "/usr/bin/python3", "-I", script], context.directory)
    context.equal(terminal.wait(), 0, "status")
    terminal.close()
    _, _, after = terminal.seen.partition(b"raw\r\n")
    screen, _, end = after.partition(b"over\r\n")
    context.equal(screen, b"", "what is drawn into the screen")
    context.check(b"samples" in end and b"-> " in end, f"the end is said: {terminal.seen!r}")
    profile = tally.Profile(context, context.path("profile"))
    context.check(profile.total() > 1e9, f"recorded {profile.total() / 1e9} s")


@tap.case
def stop_and_continue(context):
    """Ctrl-Z stops tally and its target as one job of a real shell, fg goes on, and the time in between is not sampled."""
    tap.need("bash")
    path = context.path("profile")
    shell = Terminal(["bash", "--norc", "--noprofile", "-i"], context.directory, dict(os.environ, PS1="ready> "))
    context.check(shell.expect("ready> "), "no shell")
    shell.type(f"{context.tally} record -o {path} -- {context.program('steady')} 150 10\n")
    context.check(shell.expect("line 40\\b"), "the target did not begin")
    shell.type("\x1a")
    context.check(shell.expect("(?i)stopped"), "the shell does not say that the job stopped")
    shell.type("jobs -l; echo status=$?\n")
    context.check(shell.expect("status=0"), "no prompt while stopped")
    seen = shell.seen
    time.sleep(0.7)
    shell.read(0.05)
    context.check(b"line 1" not in shell.seen[len(seen):], "the target went on while it was stopped")
    shell.type("fg\n")
    context.check(shell.expect("line 149\\b", 30), "the target did not go on to its end")
    context.check(shell.expect("ready> "), "no prompt after the end")
    shell.type("echo status=$?\n")
    match = shell.expect("status=(\\d+)")
    context.equal(match and match.group(1), b"42", "status")
    shell.type("exit\n")
    shell.wait(5)
    shell.close()
    profile = tally.Profile(context, path)
    readable(context, profile, "steady_step")
    context.check(1.2e9 < profile.total() < 1.9e9, f"{profile.total() / 1e9:.2f} s of samples for 1.5 s of work")


@tap.case
def background_job(context):
    """tally record ... & in an interactive shell does not stop by itself."""
    tap.need("bash")
    path = context.path("profile")
    shell = Terminal(["bash", "--norc", "--noprofile", "-i"], context.directory, dict(os.environ, PS1="ready> "))
    context.check(shell.expect("ready> "), "no shell")
    shell.type(f"{context.tally} record -o {path} -- {context.program('steady')} 30 10 >/dev/null & wait $!; echo status=$?\n")
    match = shell.expect("status=(\\d+)")
    context.equal(match and match.group(1), b"42", "status")
    shell.type("exit\n")
    shell.wait(5)
    shell.close()
    readable(context, tally.Profile(context, path), "steady_step")


@tap.case
def status_line_on_a_terminal(context):
    """Seconds, samples and the like while it runs; gone at the end."""
    terminal, profile = record_on_terminal(context, [context.program("ending"), "--seconds", "2.5", "exit", "0"])
    match = terminal.expect("tally: [^\r\n]*\\d[^\r\n]*sampl", 10)
    context.check(match, f"no status line in {terminal.seen!r}")
    context.equal(terminal.wait(), 0, "status")
    terminal.close()
    readable(context, profile, "ending_busy")


def end_by(context, number):
    """Sends tally alone a signal in launch mode; (status, Profile)."""
    path = context.path("profile")
    process = tally.start(context, [context.tally, "record", "-o", path, "--", context.program("steady"), "300", "10"])
    for _ in range(60):
        process.stdout.readline()
    process.send_signal(number)
    result = tally.finish(process)
    return result, tally.Profile(context, path)


@tap.case
def terminate_tally(context):
    """SIGTERM and SIGHUP to tally: the profile is whole, nobody is left behind."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        result, profile = end_by(context, number)
        readable(context, profile, "steady_step")
        context.check(result.status != 0, f"status {result.status} after {number.name}")
        context.check(profile.total() > 0.4e9, f"{profile.total() / 1e9:.2f} s of samples for at least 0.6 s of work")


def integrity(path):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute("pragma integrity_check").fetchall()
    finally:
        connection.close()


def kill_once(context, delay, lines):
    """Kills tally after `delay` seconds; (what the target wrote, its status, lines it had written at that moment, profile's path)."""
    path, output = context.path("profile"), context.path("output")
    with open(output, "wb") as file:
        process = tally.start(context, [context.tally, "record", "-o", path, "--", context.program("steady"), str(lines), "10"], stdout=file)
    time.sleep(delay)
    process.kill()
    with open(output, "rb") as file:
        written = file.read().count(b"\n")
    process.wait()
    status = None
    try:
        while status is None:  # the orphan is ours now
            _, status = os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    with open(output, "rb") as file:
        return file.read(), status, written, path


@tap.case
def kill_tally_at_random_moments(context):
    """The target goes on, its output and status unchanged; the file opens; at most the last second is lost."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    source, lines = random.Random(int.from_bytes(os.urandom(4), "big")), 280
    wanted = b"".join(b"line %d\n" % i for i in range(lines))
    for turn in range(8 if tap.LONG else 3):
        delay = source.uniform(0.02, 0.25) if turn < 2 else source.uniform(0.25, 2.7)
        output, status, written, path = kill_once(context, delay, lines)
        label = f"killed after {delay:.3f} s"
        if written == 0 and output == b"":
            continue  # before the target began; then it never runs
        context.check(output == wanted, f"{label}: the target's output changed: {tap.shorten(output)}")
        context.equal(status, 42 << 8, f"{label}: status of the target")
        if not os.path.exists(path):
            context.check(written * 0.01 < 1.1, f"{label}: no file")
            continue
        context.equal(integrity(path), [("ok",)], f"{label}: integrity")
        total = tally.Profile(context, path).total() / 1e9
        context.check(total >= written * 0.01 - 1.35, f"{label}: {total:.2f} s of samples, the target had worked {written * 0.01:.2f} s")
        report = tally.run(context, [context.tally, "report", path])
        context.equal(report.status, 0, f"{label}: status of report ({report.text()})")
    again = tally.record(context, [context.program("steady"), "5", "5"])
    context.equal(again.status, 42, f"recording into the same file afterwards ({again.errors.decode()})")


tap.run()
