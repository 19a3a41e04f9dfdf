"""Descriptors: programs behave as without Tally, and what is reported is what /proc says, with every process accounted for."""
import os
import re
import subprocess

import tally
import tap

UNSEEN, CLOSED, NO_OUTCOME = 55, 56, 57
PARTS = ("results", "stdio", "rights", "ranges", "threads", "forks", "vforks", "execs", "cancellation", "handlers")
FUNCTION_PARTS = ("results", "exceptions", "cancellation", "jumps", "coroutines", "forks", "signals")
ROUNDS = 12


def skip_if_impossible(result):
    for reason in ("rdfsbase", "shadow stacks"):
        if reason in result.errors.decode(errors="replace"):
            raise tap.Skip(result.errors.decode().strip())


class Truth:
    """What the program wrote: by pid, the links of open numbers, those opened raw, how many were opened."""

    def __init__(self, context, name):
        self.path = context.path(name)
        with open(self.path, "w", encoding="utf-8"):
            pass
        self.environment = dict(os.environ, TRUTH=self.path)

    def read(self):
        opened, raw, used = {}, {}, {}
        with open(self.path, encoding="utf-8") as file:
            for line in file:
                pid, what, rest = line.rstrip("\n").split(" ", 2)
                if what == "open":
                    number, link = rest.split(" ", 1)
                    opened.setdefault(int(pid), {})[int(number)] = link
                elif what == "raw":
                    raw.setdefault(int(pid), []).append(int(rest))
                else:
                    used[int(pid)] = int(rest)
        return opened, raw, used


def recorded(context, command, options=(), status=0, truth=None):
    result = tally.record(context, command, ["--no-time", "--fds", *options], env=truth.environment if truth else None)
    skip_if_impossible(result)
    context.equal(result.status, status, f"status of recording ({result.text()})")
    profile = tally.Profile(context, result.profile)
    profile.output, profile.errors = result.output.decode(), result.errors.decode()
    return profile


def descriptors(profile):
    """By pid and number."""
    rows = profile.rows("SELECT pid, number, origin, kind, name, stack FROM descriptors")
    found = {}
    for pid, number, origin, kind, name, stack in rows:
        found.setdefault(pid, {})[number] = (origin, kind, name, stack)
    return found


def used_by(profile, pid):
    return profile.rows("SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN counters k ON k.id = c.counter JOIN data_threads t"
                        f" ON t.id = c.thread JOIN data_processes p ON p.id = t.process WHERE k.name = 'fd.used' AND p.pid = {pid}")[0][0]


def live(profile):
    return profile.rows("SELECT coalesce(sum(value), 0) FROM stacks WHERE counter = 'fd.live'")[0][0]


def check_name(context, link, row, what):
    """The kind and name of a row are of the link."""
    origin, kind, name, _ = row
    if link.startswith("pipe:"):
        context.equal((kind, name), ("pipe", None), what)
    elif link.startswith("socket:"):
        context.check(kind in ("socket", "tcp", "unix"), f"{what}: {kind} for {link}")
    elif link.startswith("anon_inode:"):
        inside = re.sub(r"[\[\]]", "", link.split(":", 1)[1])
        context.equal(kind, {"eventpoll": "epoll"}.get(inside, inside), what)
    elif link.startswith("/memfd:"):
        context.equal((kind, name), ("memfd", link[len("/memfd:"):]), what)
    else:
        context.equal(name, link, f"{what}, {origin}")


def same_as_truth(context, profile, truth, what, exact=True):
    opened, raw, used = truth.read()
    found = descriptors(profile)
    context.check(opened, f"{what}: the program reported nothing")
    for pid, links in opened.items():
        rows = found.get(pid, {})
        context.equal(sorted(rows), sorted(links), f"{what}: numbers open in {pid}")
        for number, link in links.items():
            check_name(context, link, rows[number], f"{what}: {number} of {pid}")
        context.equal(sorted(n for n, row in rows.items() if row[0] == "unseen"), sorted(raw.get(pid, [])), f"{what}: unseen in {pid}")
        if exact and used[pid] >= 0:
            context.equal(used_by(profile, pid), used[pid], f"{what}: opened by {pid}")
    ours = [row for pid in found for row in found[pid].values() if row[0] == "opened"]
    context.equal(live(profile), len(ours), f"{what}: the counter and the rows")
    context.check(all(row[3] for row in ours), f"{what}: each has a stack")
    losses = profile.losses()
    context.equal(losses.get(UNSEEN, 0), sum(len(numbers) for numbers in raw.values()), f"{what}: the loss")
    context.equal(losses.get(NO_OUTCOME, 0), 0, f"{what}: calls without an outcome")
    return found


def rollcall(context, name, parts, options=()):
    for part in parts:
        plain = tally.run(context, [context.program(name), part], env=dict(os.environ, TRUTH=os.devnull))
        context.equal(plain.status, 0, f"status of {part} without Tally ({plain.text()})")
        truth = Truth(context, "truth_" + part)
        profile = recorded(context, [context.program(name), part], options, truth=truth)
        context.equal(re.sub(r"rollcall\.\d+", "", profile.output), re.sub(r"rollcall\.\d+", "", plain.output.decode()), f"output of {part}")
        closed = 1 if part == "ranges" else 0
        same_as_truth(context, profile, truth, part, exact=part not in ("execs", "stdio"))
        context.equal(profile.losses().get(CLOSED, 0), closed, f"closed unseen in {part}")


@tap.case
def every_function(context):
    """Results, errno, and what is open: of all functions, in threads, forks, vforks, execs, cancelled calls, handlers."""
    rollcall(context, "fd_rollcall", PARTS)


@tap.case
def every_function_static(context):
    rollcall(context, "fd_rollcall_static", [part for part in PARTS if part not in ("stdio", "cancellation")])


@tap.case
def every_function_with_calls(context):
    """Exact calls follow the same processes, and are notified of execs and objects first."""
    rollcall(context, "fd_rollcall", PARTS, ["--calls"])
    rollcall(context, "fd_rollcall_static", ("results", "threads", "forks", "execs"), ["--calls"])


@tap.case
def every_function_musl(context):
    if not os.path.exists(context.program("fd_rollcall_musl")):
        raise tap.Skip("no musl-gcc")
    rollcall(context, "fd_rollcall_musl", ("results", "rights", "threads", "handlers"))


@tap.case
def with_all_collectors(context):
    truth = Truth(context, "truth")
    profile = recorded(context, [context.program("fd_rollcall"), "threads"], ["--heap", "--throws", "--function", "churn"], truth=truth)
    same_as_truth(context, profile, truth, "with all")
    context.equal(sum(row["total"] for name, row in profile.flat("function.calls").items() if name == "churn"), 8, "calls")


@tap.case
def unwound(context):
    """Exceptions, cancellation with destructors, jumps, coroutines, signals at 10 kHz through what waits in the kernel."""
    for part in FUNCTION_PARTS:
        command = [context.program("function_rollcall"), part]
        plain = tally.run(context, command)
        profile = recorded(context, command)
        context.equal(profile.output, plain.output.decode(), f"output of {part}")


@tap.case
def over_an_exec(context):
    """What a program left open keeps its stack; what the next one closed, or the exec, is not open."""
    truth = Truth(context, "truth")
    profile = recorded(context, [context.program("fd_rollcall"), "execs"], truth=truth)
    found = descriptors(profile)
    ours = {row[2]: row[3] for rows in found.values() for row in rows.values() if row[0] == "opened"}
    context.equal(sorted(ours), ["/etc/hosts", "/etc/passwd"], "names of what is open")
    context.check("execs" in ours["/etc/passwd"].split(";"), ours["/etc/passwd"])
    context.check("after_exec" in ours["/etc/hosts"].split(";"), ours["/etc/hosts"])


@tap.case
def forked(context):
    truth = Truth(context, "truth")
    profile = recorded(context, [context.program("fd_rollcall"), "forks"], truth=truth)
    found = same_as_truth(context, profile, truth, "forks")
    origins = sorted(row[0] for rows in found.values() for row in rows.values())
    context.check(origins.count("inherited") >= 2, f"origins are {origins}")


@tap.case
def killed(context):
    """What was open is reported, with the names as far as they were seen."""
    truth = Truth(context, "truth")
    profile = recorded(context, [context.program("fd_rollcall"), "killed"], status=137, truth=truth)
    opened, _, _ = truth.read()
    ours = {row[1:3] for rows in descriptors(profile).values() for row in rows.values() if row[0] == "opened"}
    context.equal(live(profile), 3, "descriptors open")
    context.equal(len(opened), 1, "processes")
    context.check(("file", "/etc/passwd") in ours, f"the file among {ours}")
    context.check(any(kind == "tcp" and name.endswith(" listening") for kind, name in ours if name), f"the socket among {ours}")
    context.check(("file", None) in ours or ("file", "/etc/hostname") in ours, f"the last one among {ours}")


def visited(context, rounds, options):
    target = tally.start(context, [context.program("fd_rollcall"), "forever"], stdin=subprocess.PIPE)
    while target.stdout.readline() != b"ready\n":
        pass
    done = 0
    for number in range(rounds):
        result = tally.run(context, [context.tally, "record", "--no-time", "--fds", *options, "-o", context.path("attached"), "--duration", "0.1",
                                     "-p", str(target.pid)])
        skip_if_impossible(result)
        with open(f"/proc/{target.pid}/maps", encoding="utf-8") as file:
            context.equal([line for line in file if "tally" in line], [], f"memory left in round {number}")
        if b"did not stop within" in result.errors:
            continue  # a busy machine: tally left before it began; counted below
        context.equal(result.status, 0, f"status of round {number} ({result.text()})")
        done += 1
        profile = tally.Profile(context, context.path("attached"))
        rows = descriptors(profile).get(target.pid, {})
        context.check([row for row in rows.values() if row[:2] == ("before", "tcp")], f"the listening socket in round {number}: {rows}")
    output, _ = target.communicate(timeout=60)
    context.equal((target.returncode, output), (0, b"served 1, failures 0\n"), "the program's end")
    tally.check_rounds(context, done, rounds)


@tap.case
def attached(context):
    """A server under load: no request fails, what was open before is no leak, and nothing stays behind."""
    visited(context, ROUNDS, ())


@tap.case
def attached_with_calls(context):
    visited(context, ROUNDS // 3, ("--calls",))


@tap.case
def left_alone(context):
    """Children that are not followed: their descriptors are nobody's."""
    truth = Truth(context, "truth")
    profile = recorded(context, [context.program("fd_rollcall"), "forks"], ["--no-follow"], truth=truth)
    context.equal(len({pid for pid in descriptors(profile)}), 1, "processes with descriptors")


@tap.case
def refused(context):
    result = tally.run(context, [context.tally, "record", "--fds", "-a"])
    context.equal(result.status, 2, f"status ({result.text()})")
    context.check("needs a COMMAND or -p PID" in result.errors.decode(), result.text())


tap.run()
