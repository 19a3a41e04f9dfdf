"""Memory of an allocator that takes operator new's place: counted to the byte, and an exception passes the hooks."""
import ctypes.util
import os

import tally
import tap

COUNTERS = ("heap.total", "heap.count", "heap.live", "heap.live.count")


def own(profile, counter):
    """Below own_new, by an operator of libstdc++ or at once; but for the exceptions that are thrown there."""
    return profile.rows(f"SELECT coalesce(sum(value), 0) FROM stacks WHERE counter = '{counter}' AND stack GLOB '*own_new*'"
                        " AND NOT stack GLOB '*__cxa_allocate_exception'")[0][0]


def counted(context, environment):
    profile = tally.recorded(context, [context.program("heap_new"), "5000"], ["--heap", "--no-time"],
                             env=dict(os.environ, **environment))
    truth = tuple(int(word) for word in profile.output.split())
    context.equal(tuple(own(profile, counter) for counter in COUNTERS), truth, "bytes, blocks, live bytes and blocks")


@tap.case
def by_malloc(context):
    """libstdc++'s operators call malloc: the functions that are hooked are libc's."""
    counted(context, {})


@tap.case
def by_an_allocator_of_its_own(context):
    library = ctypes.util.find_library("tcmalloc_minimal")
    if library is None:
        raise tap.Skip("no libtcmalloc_minimal")
    counted(context, {"LD_PRELOAD": library})


tap.run()
