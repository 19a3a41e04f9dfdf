"""Bytes as blocks really take them: equal to what the program finds in its allocator's own words."""
import ctypes.util
import os

import tally
import tap

KINDS = {"none": lambda asked, taken: asked, "include": lambda asked, taken: taken, "delta": lambda asked, taken: taken - asked}


def own(profile, counter, pid):
    return profile.rows(
        "SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
        " JOIN data_strings s ON s.id = k.name JOIN data_frames f ON f.node = c.node"
        " JOIN data_threads t ON t.id = c.thread JOIN data_processes p ON p.id = t.process"
        f" WHERE s.text = '{counter}' AND f.function GLOB 'own_*' AND p.pid = {pid}")[0][0]


def header(context, profile):
    return tally.run(context, [context.tally, "report", "-v", profile.path]).output.decode()


def counted(context, program, way, kinds=tuple(KINDS), environment=(), options=()):
    for kind in kinds:
        profile = tally.recorded(context, [context.program(program), way], ["--heap", "--no-time", f"--heap-overhead={kind}", *options],
                                 env=dict(os.environ, **dict(environment)))
        truths = [[int(word) for word in line.split()] for line in profile.output.splitlines()]
        context.equal(len(truths), 2, "processes that reported")
        for pid, asked, taken, live_asked, live_taken, blocks in truths:
            got = tuple(own(profile, name, pid) for name in ("heap.total", "heap.live", "heap.count"))
            context.equal(got, (KINDS[kind](asked, taken), KINDS[kind](live_asked, live_taken), blocks), f"{kind}: bytes, live bytes, blocks")
        context.equal(profile.rows("SELECT value FROM meta WHERE key = 'heap_overhead'"), [(kind,)], "what was recorded")
        title = {"none": "heap: ", "include": "heap, with overhead: ", "delta": "heap, overhead alone: "}[kind]
        context.check(title in header(context, profile), f"the header does not say {title!r}: {header(context, profile)}")
        context.equal(profile.rows("SELECT value FROM meta WHERE key = 'agent_notice'"), [], "notices")


@tap.case
def of_libc(context):
    counted(context, "heap_overhead", "glibc")


@tap.case
def of_a_static_program(context):
    counted(context, "heap_overhead_static", "glibc", ("include",))


@tap.case
def with_calls(context):
    counted(context, "heap_overhead", "glibc", ("delta",), options=("--calls",))


@tap.case
def of_other_allocators(context):
    """The allocator is asked that the block is of: libc has one of the same names beside it."""
    found = [library for library in map(ctypes.util.find_library, ("jemalloc", "tcmalloc_minimal", "mimalloc")) if library]
    if not found:
        raise tap.Skip("none is here")
    for library in found:
        counted(context, "heap_overhead", "usable", ("include",), {"LD_PRELOAD": library})


@tap.case
def refused(context):
    result = tally.run(context, [context.tally, "record", "-o", context.path("none"), "--heap-overhead=include", "true"])
    context.check(result.status != 0 and "--heap-overhead goes with --heap" in result.errors.decode(), result.text())


tap.run()
