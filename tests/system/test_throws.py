"""C++ exceptions: as many as the program threw, by the functions that threw them; and they arrive as they do without Tally."""
import signal

import tally
import tap

OWN = ("own_throw", "own_again", "own_pass")


def one(profile, sql):
    rows = profile.rows(sql)
    return rows[0][0] if rows else None


def own(profile, function, pid):
    """What was thrown by a function itself, or by the part of it that gcc put aside."""
    return one(profile,
        "SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
        " JOIN data_strings s ON s.id = k.name JOIN data_frames f ON f.node = c.node"
        " JOIN data_threads t ON t.id = c.thread JOIN data_processes p ON p.id = t.process"
        f" WHERE s.text = 'throw.count' AND f.function IN ('{function}', '{function}.cold') AND p.pid = {pid}")


def same(context, profile, what):
    truths = [[int(word) for word in line.split()] for line in profile.output.splitlines()]
    context.equal(len(truths), 2, f"{what}: processes that reported")
    for pid, *counts in truths:
        context.equal([own(profile, function, pid) for function in OWN], counts, f"{what}: thrown, thrown again, passed on by {pid}")
    cut = one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number BETWEEN 30 AND 45 AND number <> 43")
    context.equal(cut, 0, f"{what}: losses")
    stack = one(profile, "SELECT stack FROM stacks WHERE counter = 'throw.count' AND stack GLOB '*;own_throw;own_throw*' LIMIT 1")
    context.check(stack is not None and ";work(" in stack, f"{what}: a stack: {stack}")


@tap.case
def counted(context):
    for program in ("throws", "throws_static", "throws_runtime"):
        profile = tally.recorded(context, [context.program(program), "run"], ["--throws", "--no-time"])
        same(context, profile, program)
        context.equal(profile.rows("SELECT name, unit, exact FROM counters"), [("throw.count", "exceptions", 1)], "counters")


@tap.case
def with_everything(context):
    """Two collectors, calls and time at once."""
    profile = tally.recorded(context, [context.program("throws"), "run"], ["--throws", "--heap", "--calls"])
    same(context, profile, "with heap, calls and time")
    context.check(one(profile, "SELECT sum(value) FROM stacks WHERE counter = 'heap.count'") > 1000, "hardly any block was counted")
    text = tally.run(context, [context.tally, "report", profile.path, "--counter", "throw.count"]).output.decode()
    context.check("own_throw" in text and "own_again" in text, text)


@tap.case
def without_children(context):
    profile = tally.recorded(context, [context.program("throws"), "run"], ["--throws", "--no-time", "--no-follow"])
    child, parent = ([int(word) for word in line.split()] for line in profile.output.splitlines())
    context.equal([own(profile, function, parent[0]) for function in OWN], parent[1:], "of the parent")
    context.equal([own(profile, function, child[0]) for function in OWN], [0, 0, 0], "of the child")


@tap.case
def nobody_catches(context):
    """It ends as without Tally."""
    plain = tally.run(context, [context.program("throws"), "uncaught"])
    result = tally.record(context, [context.program("throws"), "uncaught"], ["--throws", "--no-time"])
    context.equal((plain.status, result.status), (-signal.SIGABRT, 128 + signal.SIGABRT), "status")
    context.check(plain.errors in result.errors, f"it says something else: {result.text()}")
    thrown = one(tally.Profile(context, result.profile), "SELECT sum(value) FROM stacks WHERE counter = 'throw.count' AND NOT stack GLOB '*terminate*'")
    context.equal(thrown, 1, "thrown, but for what the runtime throws again to say its name")


@tap.case
def attached_again_and_again(context):
    """Hooks come and go while two threads throw: each exception arrives."""
    thrown = sum(own(profile, "own_throw", pid) for profile, pid in tally.visits(context, "throws", ["--throws", "--no-time"]))
    context.check(thrown > 10, f"next to nothing was counted: {thrown}")


@tap.case
def nothing_to_throw(context):
    """A program without the runtime: said."""
    profile = tally.recorded(context, ["/bin/true"], ["--throws", "--no-time"])
    notice = one(profile, "SELECT value FROM meta WHERE key = 'agent_notice'") or ""
    context.check("no __cxa_throw was found" in notice, f"notice: {notice!r}")


@tap.case
def refused(context):
    result = tally.run(context, [context.tally, "record", "-o", context.path("none"), "--throws", "-a"])
    context.check(result.status != 0 and "--throws needs a COMMAND or -p PID" in result.errors.decode(), result.text())


tap.run()
