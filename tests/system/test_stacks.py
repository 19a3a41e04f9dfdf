"""Whole stacks against the truth each program prints of itself: at least 99 % of the samples in the function that is
busy have exactly the chain that the program says, up to the start of the program or of the thread."""
import os

import tap
import tally
import truth

RUNS = {
    "recursion_30": ("recursion", "30"),
    "recursion_200": ("recursion", "200"),
    "recursion_mutual": ("recursion", "40", "--mutual"),
    "recursion_without_cfi": ("recursion_fp", "30"),
    "recursion_static": ("recursion_static", "30"),
    "recursion_static_pie": ("recursion_static_pie", "30"),
    "recursion_stripped": ("recursion_stripped", "30"),
    "recursion_musl": ("recursion_musl", "30"),
    "signal_handler": ("handler",),
    "signal_handler_nested": ("handler", "--nested"),
    "alternate_signal_stack": ("handler", "--alternate-stack"),
    "alternate_signal_stack_nested": ("handler", "--alternate-stack", "--nested"),
    "chain_without_frame_pointers": ("chain",),
    "plt": ("plt",),
    "plt_with_indirect_branch_tracking": ("plt_ibt",),
    "vdso": ("vdso",),
    "realigned_stack": ("realign",),
    "prologues_and_epilogues": ("tiny",),
    "coroutine": ("coroutine",),
    "exceptions": ("exceptions",),
    "stack_of_8_kb": ("deep", "8"),
    "threads_8": ("threads", "8", "--together"),
    "exec_from_another_thread": ("exec_thread",),
    "children_by_vfork_and_spawn": ("spawn",),
    "process_tree": ("tree", "2", "3"),
    "shares": ("shares",),
}


RUNS_OF_FAMILIES = 4 if tap.LONG else 2


def seconds_of(name):
    return {"process_tree": "0.15", "exec_from_another_thread": "0.5", "children_by_vfork_and_spawn": "1.2", "shares": "2.5", "prologues_and_epilogues": "2.0",
            "alternate_signal_stack": "2.5", "alternate_signal_stack_nested": "2.5"}.get(name, "0.8")


def make(name):
    def function(context):
        program, *arguments = RUNS[name]
        path = context.program(program)
        profile = tally.recorded(context, [path, "--seconds", seconds_of(name), *arguments])
        truth.check_stacks(context, profile, truth.claims(path, arguments))

    return function


tap.cases(RUNS, make)


def make_growing(kilobytes):
    """Stacks that a copy of 16 KB cannot hold: the copy grows after a second, so the later part of the run is right."""

    def function(context):
        path = context.program("deep")
        profile = tally.recorded(context, [path, "--seconds", "6", str(kilobytes)])
        truth.check_stacks(context, profile, truth.claims(path, [str(kilobytes)]), least=0.55)
        losses = profile.losses()
        context.check(losses.get(3, 0) + losses.get(24, 0) > 0, "copies were too small at first, but neither loss 3 nor 24 is counted")

    return function


for size in (24, 48):
    growing = make_growing(size)
    growing.__name__ = f"stack_of_{size}_kb"
    tap.case(growing)


@tap.case
def growing_copies_lose_no_process(context):
    """A child that was created before its events were replaced goes on being sampled: every sample that its CPU time is worth. A run that
    the kernel throttled, or whose rate was lowered, proves nothing."""
    proved = 0
    for run in range(RUNS_OF_FAMILIES):
        command = ["/bin/sh", "-c", f"{context.program('deep')} --seconds 1 24 & wait"]
        profile = tally.recorded(context, command, ["-F", "20000"], name=f"profile{run}")
        meta, losses = profile.meta(), profile.losses()
        context.check(int(meta["stack_copy_bytes"]) > 16384, "the copy did not grow")
        samples = profile.rows("select sum(samples) from flat where self > 0")[0][0] + losses.get(1, 0)
        worth = int(meta["target_cpu_ns"]) / 1e9 * float(meta["rate_hz"])
        if losses.get(20) or losses.get(2):
            context.note(f"run {run} was throttled: {losses}")
            continue
        proved += 1
        context.check(samples > 0.85 * worth, f"{samples} samples, worth {worth:.0f}")
    if not proved:
        raise tap.Skip("each of the runs was throttled: losses 2 and 20")


@tap.case
def creations_while_events_are_replaced(context):
    """Children created one by one while events of whole CPUs take over: the end of each of them is discovered."""
    children = "i=0; while [ $i -lt 60 ]; do sleep 0.1 & i=$((i+1)); done; wait"
    for run in range(RUNS_OF_FAMILIES):
        profile = tally.recorded(context, ["/bin/sh", "-c", children], name=f"profile{run}")
        created, undiscovered = profile.rows("select count(*), sum(end_ns = 0) from data_processes")[0]
        context.equal((created, undiscovered), (61, 0), "processes, and those whose end was not discovered")


@tap.case
def stack_that_no_copy_holds(context):
    """80 KB: what no copy holds is read from the process, and counted; what cannot be read is marked and counted as cut."""
    path = context.program("deep")
    profile = tally.recorded(context, [path, "--seconds", "1.5", "80"])
    samples, losses = profile.flat()["deep_busy"]["samples"], profile.losses()
    context.check(samples > 1000, f"only {samples} samples in deep_busy")
    context.check(losses.get(3, 0) + losses.get(24, 0) >= 0.95 * samples, f"{losses} of {samples} stacks")
    truth.check_stacks(context, profile, truth.claims(path, ["80"]), least=0.9)


@tap.case
def address_reused_by_another_library(context):
    """Two libraries that land at one address in turn: names, chains and shares follow each mapping."""
    path, first, second = (context.program(name) for name in ("reuse", "plugin_a.so", "plugin_b.so"))
    profile = tally.recorded(context, [path, "--seconds", "2", first, second])
    if "reused 0 " in profile.output:
        raise tap.Skip("the two libraries landed at different addresses")
    truth.check_stacks(context, profile, truth.claims(path))
    seconds, whole = truth.shares(profile.output)
    for function, spent in seconds.items():
        share = profile.share_containing(function)
        context.check(abs(share - spent / whole) < 0.09, f"{function}: share {share:.3f}, truth {spent / whole:.3f}")


@tap.case
def threads_1000(context):
    """A thousand threads: nearly all were seen, and their stacks are right."""
    path = context.program("threads")
    profile = tally.recorded(context, [path, "--seconds", "4", "1000"])
    truth.check_stacks(context, profile, truth.claims(path))
    threads = profile.rows("select count(distinct tid) from threads")[0][0]
    context.check(threads >= 990, f"{threads} of 1,001 threads are in the profile")


def generated_code(context, *arguments):
    path = context.program("jit")
    profile = tally.recorded(context, [path, "--seconds", "1", *arguments])
    for line in profile.output.splitlines():
        if line.startswith("file /"):
            os.unlink(line[5:])
    truth.check_stacks(context, profile, truth.claims(path))
    seconds, whole = truth.shares(profile.output)
    for function, spent in seconds.items():
        share = profile.share_containing(function)
        context.check(abs(share - spent / whole) < 0.1, f"{function}: share {share:.3f}, truth {spent / whole:.3f}")


@tap.case
def generated_code_with_perf_map(context):
    generated_code(context, "--perf-map")


@tap.case
def generated_code_with_jitdump(context):
    generated_code(context, "--jitdump", context.directory)


@tap.case
def generated_code_without_names(context):
    """The caller is still right (by frame pointer, marked), and the frames without a name are counted."""
    path = context.program("jit")
    profile = tally.recorded(context, [path, "--seconds", "0.6", "--none"])
    wanted = [claim for claim in truth.claims(path) if claim.function == "jit_drive"]
    truth.check_stacks(context, profile, wanted)
    losses = profile.losses()
    context.check(losses.get(17, 0) > 0 or losses.get(15, 0) > 0, f"nameless generated code is not counted: {losses}")


tap.run()
