"""Memory that a program maps by itself: equal, to the page, to its own account, which it has compared with the kernel's."""
import signal

import tally
import tap

OWN = ("own_map", "own_remap", "own_data", "own_last")


def one(profile, sql):
    rows = profile.rows(sql)
    return rows[0][0] if rows else None


def own(profile, counter, function, pid):
    return one(profile,
        "SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
        " JOIN data_strings s ON s.id = k.name JOIN data_frames f ON f.node = c.node"
        " JOIN data_threads t ON t.id = c.thread JOIN data_processes p ON p.id = t.process"
        f" WHERE s.text = '{counter}' AND f.function = '{function}' AND p.pid = {pid}")


def reported(output):
    return [[int(word) for word in line.split()] for line in output.splitlines()]


def same(context, profile, truths, what):
    for pid, *figures in truths:
        got = [own(profile, counter, function, pid) for function in OWN for counter in ("map.total", "map.live")]
        context.equal(got, figures, f"{what}: total and live of {OWN} in {pid}")
    lost = one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number IN (31, 32, 33, 35, 36, 37, 38, 46)")
    context.equal(lost, 0, f"{what}: losses")


def counted(context, mode, processes=1, status=0, program="map_truth", options=()):
    profile = tally.recorded(context, [context.program(program), mode], ["--heap", "--no-time", *options], status=status)
    truths = reported(profile.output)
    context.equal(len(truths), processes, f"{mode}: processes that reported")
    same(context, profile, truths, f"{program} {mode} {options}")
    return profile


@tap.case
def every_call(context):
    profile = counted(context, "run")
    total, live = (one(profile, f"SELECT sum(value) FROM stacks WHERE counter = '{name}'") for name in ("map.total", "map.live"))
    context.check(0 < live < total, f"{live} of {total}")
    context.equal(profile.rows("SELECT unit, exact FROM counters WHERE name IN ('map.total', 'map.live')"), [("bytes", 1)] * 2, "counters")
    context.check("mapped: " in tally.run(context, [context.tally, "report", profile.path]).output.decode(), "the header says nothing")


@tap.case
def static_program(context):
    counted(context, "run", program="map_truth_static")
    counted(context, "fork", 2, program="map_truth_static")


@tap.case
def threads_and_children(context):
    counted(context, "threads")
    counted(context, "fork", 2)
    counted(context, "killed", status=128 + signal.SIGKILL)


@tap.case
def with_everything(context):
    counted(context, "run", options=("--calls", "--throws"))
    counted(context, "threads", options=("--heap=sample:4k",))


@tap.case
def handlers(context):
    """Whatever a handler interrupts, and wherever it leaves to: what comes after is counted as ever."""
    counted(context, "signals")
    counted(context, "jumps")


@tap.case
def not_inside_an_allocator(context):
    profile = counted(context, "malloc")
    context.equal(one(profile, "SELECT coalesce(sum(value), 0) FROM stacks WHERE counter GLOB 'map.*' AND stack GLOB '*own_malloc*'"), 0,
                  "bytes mapped by malloc")
    context.check(one(profile, "SELECT sum(value) FROM stacks WHERE counter = 'heap.total' AND stack GLOB '*own_malloc*'") > 75000000, "blocks")


@tap.case
def attached_again_and_again(context):
    mapped = sum(own(profile, "map.total", "own_map", pid) for profile, pid in tally.visits(context, "map_truth", ["--heap", "--no-time"]))
    context.check(mapped > 0, "nothing was counted")


tap.run()
