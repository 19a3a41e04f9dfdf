"""A roll-call of all that allocates: results, errno and contents as without Tally, whatever is recorded, alone and all at once."""
import ctypes.util
import os

import tally
import tap

ALONE = (["--heap"], ["--heap=sample:64"], ["--heap", "--heap-overhead=include"], ["--heap", "--heap-overhead=delta"],
         ["--empty=zero"], ["--empty=init"], ["--empty=unused"], ["--heap", "--agent-memory=1M"])
TOGETHER = (["--heap", "--calls", "--throws"], ["--empty=unused", "--calls"], ["--heap", "--fds", "--throws"],
            ["--empty=init", "--throws", "--fds", "--function", "holds", "--function", "call_all", "--function", "malloc"])


def roll_call(context, program, ways, environment=(), arguments=()):
    environment = dict(os.environ, **dict(environment))
    plain = tally.run(context, [context.program(program), *arguments], env=environment)
    context.equal((plain.status, plain.errors), (0, b""), f"without Tally ({plain.text()})")
    context.check(plain.output.count(b"\n") > 80, f"it said little: {plain.text()}")
    for way in ways:
        profile = tally.recorded(context, [context.program(program), *arguments], ["--no-time", *way], env=environment)
        lines = list(zip(plain.output.decode().splitlines(), profile.output.splitlines(), strict=True))
        context.equal([pair for pair in lines if pair[0] != pair[1]], [], f"lines that are others with {' '.join(way)}")
        counted = profile.rows("SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN counters k ON k.id = c.counter WHERE k.name = 'heap.count'")
        context.check(counted[0][0] >= 20, f"{' '.join(way)}: {counted[0][0]} blocks")


@tap.case
def alone(context):
    roll_call(context, "heap_rollcall", ALONE)


@tap.case
def together(context):
    """Two collectors on one entry, and three on one call."""
    roll_call(context, "heap_rollcall", TOGETHER)


@tap.case
def static_program(context):
    roll_call(context, "heap_rollcall_static", (ALONE[0], ALONE[6], TOGETHER[0]))


@tap.case
def other_allocators(context):
    found = [library for library in map(ctypes.util.find_library, ("jemalloc", "tcmalloc_minimal", "mimalloc")) if library]
    if not found:
        raise tap.Skip("none is here")
    for library in found:
        roll_call(context, "heap_rollcall", (ALONE[0], ALONE[2], ALONE[3], ALONE[6], TOGETHER[0]), {"LD_PRELOAD": library}, ["others"])


tap.run()
