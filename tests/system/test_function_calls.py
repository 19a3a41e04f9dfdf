"""Functions that are timed while calls are counted, and memory and descriptors as well: two collectors in one process, one of which goes first."""
import random
import subprocess

import functions
import tally
import tap


@tap.case
def unchanged_with_calls(context):
    """All collectors at once: calls, memory, exceptions and descriptors."""
    for name in ("function_rollcall", "function_rollcall_static"):
        functions.same(context, name, functions.PARTS, "--calls", "--heap", "--fds", "--throws", "--function", "timed_*", "--function", "backtrace")


@tap.case
def attached_with_calls(context):
    functions.visited(context, functions.ROUNDS // 2, "--calls", "--heap", "--fds")


@tap.case
def left_at_its_start(context):
    """With calls, at whatever is loaded then: the program goes on, with exceptions and all."""
    source = random.Random(20261122)
    for number in range(functions.ROUNDS):
        recorder = tally.start(context, [context.tally, "record", "--no-time", "--calls", "--function", "timed_*", "-o", context.path("start"),
                                         "--duration", f"{source.random() * 0.15:.3f}", "--", context.program("function_rollcall"), "forever"],
                               stdin=subprocess.PIPE)
        recorder.wait(timeout=60)
        output, errors = recorder.communicate(timeout=60)  # until the program ends, too
        functions.skip_if_impossible(tally.Result(recorder.returncode, output, errors))
        context.equal((recorder.returncode, output), (0, b"ready\nended 1\n"), f"round {number} ({errors.decode(errors='replace')})")


tap.run()
