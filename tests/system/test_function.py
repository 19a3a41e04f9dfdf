"""Functions that are timed: programs behave as without Tally, calls are exact, and nothing stays in a program that is left."""
import os
import select
import signal
import subprocess

import calls as exact
import functions
import tally
import tap

# Two unwinders in one program: its threads cannot be cancelled, without Tally either.
PARTS_HIDDEN = ("results", "exceptions", "jumps", "coroutines", "forks", "signals")


def calls(profile):
    return {name: int(row["total"]) for name, row in profile.flat("function.calls").items() if name.startswith("timed_")}


@tap.case
def unchanged(context):
    """Results, exceptions, cancellation, jumps, coroutines, forks, signals at 10 kHz: all with return addresses replaced."""
    functions.same(context, "function_rollcall", functions.PARTS, "--function", "timed_*", "--function", "read", "--function", "accept",
                   "--function", "fork", "--function", "__cxa_throw", "--function", "backtrace")


@tap.case
def unchanged_with_all(context):
    """Every function of the program, its signal handlers and threads' first functions too, and its memory."""
    functions.same(context, "function_rollcall", functions.PARTS, "--function", "*@function_rollcall", "--heap")


@tap.case
def unchanged_with_throws(context):
    """Memory and exceptions counted in the same run."""
    functions.same(context, "function_rollcall", functions.PARTS, "--heap", "--throws", "--function", "timed_*", "--function", "read")


@tap.case
def unchanged_library(context):
    functions.same(context, "function_rollcall", ("results", "exceptions", "cancellation", "forks"), "--function", "*@libc.so.6")


@tap.case
def unchanged_static(context):
    functions.same(context, "function_rollcall_static", functions.PARTS, "--function", "timed_*")


@tap.case
def unchanged_static_with_all(context):
    """Every function that is linked in, the unwinder's own among them."""
    functions.same(context, "function_rollcall_static", ("exceptions", "cancellation", "coroutines", "forks"), "--function", "*@function_rollcall_static")


@tap.case
def unchanged_children_left_alone(context):
    """A child that is not counted has its parent's return addresses on its stack."""
    functions.same(context, "function_rollcall", ("forks",), "--no-follow", "--function", "timed_*", "--function", "fork")


@tap.case
def hidden_unwinder(context):
    """It has no name, and is known by what it asks."""
    functions.same(context, "function_rollcall_hidden", PARTS_HIDDEN, "--function", "timed_*")
    profile = functions.recorded(context, [context.program("function_rollcall_hidden"), "results"], ["--no-time", "--function", "timed_*"])
    context.equal(profile.meta().get("agent_notice"), None, "notice")
    context.check(sum(row["self"] for row in profile.flat("function.time").values()) > 0, "nothing is timed")
    context.equal(calls(profile)["timed_integer"], 2000, "calls")


@tap.case
def counts(context):
    profile = functions.recorded(context, [context.program("function_rollcall"), "results"], ["--no-time", "--function", "timed_*"])
    found = calls(profile)
    wanted = {"timed_integer": 2000, "timed_wide": 2000, "timed_real": 2000, "timed_pair": 4000, "timed_errno": 2000, "timed_large": 2000,
              "timed_deep": 31 + 20001, "timed_even": 501, "timed_odd": 501}
    context.equal({name: found.get(name) for name in wanted}, wanted, "calls")


@tap.case
def written_names(context):
    """As they are written in C++ and Rust, with parameters or without; each counted as often as the program says."""
    hidden = "shop::(anonymous namespace)::hide(int*)"
    prices = {"shop::price(long)", "shop::price(long, char)"}
    most = {"long shop::most<long>(long, long)", "char shop::most<char>(char, char)"}
    for name, wanted in (("shop::price", prices), ("shop::price(long)", {"shop::price(long)"}), ("shop::price(long,char)", {"shop::price(long, char)"}),
                         ("_ZN4shop5priceEl", {"shop::price(long)"}), ("shop::p*", prices), ("shop::price@names", prices),
                         ("shop::most", most), ("shop::most<char>", {"char shop::most<char>(char, char)"}),
                         ("shop::Till::total", {"shop::Till::total() const"}), ("shop::Till::operator<", {"shop::Till::operator<(shop::Till const&) const"}),
                         ("shop::hide", {hidden}), (hidden, {hidden}), ("crate::work", {"crate::work"}), ("store::k*", {"store::keep"})):
        profile = functions.recorded(context, [context.program("names"), "20"], ["--no-time", "--function", name])
        found = {function: row["total"] for function, row in profile.flat("function.calls").items() if row["self"]}
        truth = {row[2]: row[4] for row in exact.truths(profile.output) if row[2] in wanted}
        context.equal(found, truth, f"functions counted by {name}")


@tap.case
def names_of_nobody(context):
    """Said once, with the name that may be meant, and counted; glob or not."""
    for name, nearest in (("shop::Till::totl", "; did you mean shop::Till::total?"), ("price", "; did you mean shop::price?"),
                          ("work@names", "; did you mean crate::work?"), ("nothing_of_the_kind", ""), ("nobody*", "")):
        profile = functions.recorded(context, [context.program("names"), "20"], ["--no-time", "--function", name])
        word, _, image = name.partition("@")
        wanted = f"not timed: no function {word} was found in {image or 'any image of the program'}{nearest}\n"
        context.check(wanted in profile.errors, f"{name}: {profile.errors}")
        context.equal(profile.losses().get(51), 1, f"functions that were not found: {name}")


@tap.case
def times(context):
    """A known time, below a known stack, in samples and in calls: 0.4 s in the innermost of 21."""
    profile = functions.recorded(context, [context.program("function_rollcall"), "busy"], ["--function", "timed_busy"])
    context.equal(calls(profile), {"timed_busy": 21}, "calls")
    time = sum(row["self"] for row in profile.flat("function.time").values())
    context.check(time >= 0.39e9, f"function.time is {time}")
    deepest = max(profile.stacks("function.time"), key=lambda item: item[1])
    context.equal(deepest[0].count("timed_busy"), 21, "frames of the stack with most of the time")
    context.check(deepest[1] >= 0.39e9, f"its own time is {deepest[1]}")
    inside = [frames for frames, _ in profile.stacks(profile.counter()) if "timed_busy" in frames]
    context.check(inside, "no samples")
    for frames in inside:
        # The agent at work: a call is about to begin, or has come back.
        at_work = any(name == "back" or name.startswith("agent_") for name in frames)
        context.check("main" in frames and (at_work or frames.count("timed_busy") == 21), f"a sample's stack: {frames}")


def latencies(profile):
    keys = ("calls", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "sum_ns")
    return {row[0]: dict(zip(keys, row[1:])) for row in profile.rows(f"SELECT function, {', '.join(keys)} FROM latency")}


@tap.case
def histograms(context):
    """Each of 21 calls inside each other takes the 0.4 s of the innermost; and every call that is counted is in its histogram."""
    busy = latencies(functions.recorded(context, [context.program("function_rollcall"), "busy"], ["--no-time", "--function", "timed_busy"]))["timed_busy"]
    context.equal(busy["calls"], 21, "calls")
    order = [busy[key] for key in ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")]
    context.check(order == sorted(order) and order[0] >= 0.39e9, f"percentiles {order}")
    context.check(21 * busy["min_ns"] <= busy["sum_ns"] <= 21 * busy["max_ns"], f"the sum of {busy}")
    profile = functions.recorded(context, [context.program("function_rollcall"), "results"], ["--no-time", "--function", "timed_*"])
    counted, timed = calls(profile), latencies(profile)
    context.equal(sum(row["calls"] for row in timed.values()) + profile.losses().get(48, 0), sum(counted.values()), "calls in histograms")
    shallow = [name for name in timed if name not in ("timed_deep", "timed_even", "timed_odd")]
    context.equal({name: timed[name]["calls"] for name in shallow}, {name: counted[name] for name in shallow}, "calls of those not deep")
    context.equal((timed["timed_integer"]["calls"], timed["timed_wide"]["calls"]), (2000, 2000), "calls of two")
    context.equal(dict(profile.rows("SELECT function, sum(calls) FROM latency_buckets GROUP BY function")),
                  {name: row["calls"] for name, row in timed.items()}, "calls in buckets")


@tap.case
def unknown_and_refused(context):
    profile = functions.recorded(context, [context.program("function_rollcall"), "jumps"], ["--no-time", "--function", "nobody_has_this"])
    context.equal(profile.losses().get(51), 1, "the loss")
    context.check("no function nobody_has_this was found" in profile.errors, profile.errors)
    profile = functions.recorded(context, [context.program("function_rollcall"), "exceptions"], ["--no-time", "--function", "_Unwind_RaiseException"])
    context.check("not timed: _Unwind_RaiseException of" in profile.errors and not profile.losses().get(51), profile.errors)
    context.equal((profile.losses().get(70), profile.losses().get(37)), (1, None), "named functions that are hooked for something else, functions of other figures")
    for options, text in ((["--function", "setjmp"], "setjmp cannot be timed"), (["--function", "a", "-a"], "needs a COMMAND or -p PID")):
        result = tally.run(context, [context.tally, "record", *options, *([] if "-a" in options else ["--", "true"])])
        context.equal(result.status, 2, f"status with {options} ({result.text()})")
        context.check(text in result.errors.decode(), result.text())


@tap.case
def attached(context):
    """Deep in recursion, in exceptions, longjmp and coroutines: recorded and left, again and again."""
    functions.visited(context, functions.ROUNDS)


def family(context, *options):
    """A child of fork with calls on stacks that nobody is on when it is left: they end after that."""
    target = tally.start(context, [context.program("function_rollcall"), "family"], stdin=subprocess.PIPE)
    context.equal(target.stdout.readline(), b"ready\n", "the first line")
    recorder = tally.start(context, [context.tally, "record", "--no-time", "--function", "timed_*", *options, "-o", context.path("family"),
                                     "-p", str(target.pid)])
    output = b""
    while output.count(b"\n") < 2 and recorder.poll() is None:
        if select.select([target.stdout], [], [], 0.1)[0]:
            output += os.read(target.stdout.fileno(), 4096)
    if recorder.poll() is not None:
        functions.skip_if_impossible(tally.Result(recorder.returncode, b"", recorder.stderr.read()))
    child = next(int(line.split()[1]) for line in output.splitlines() if line.startswith(b"child "))
    recorder.send_signal(signal.SIGINT)
    _, errors = recorder.communicate(timeout=60)
    context.equal(recorder.returncode, 0, f"status of recording ({errors.decode()})")
    for pid in (target.pid, child):
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            context.equal([line for line in file if "tally" in line], [], f"memory left in {pid}, child {child}")
    lines = (output + target.communicate(b"x", timeout=60)[0]).decode().splitlines()
    sums = {line.split()[0]: int(line.split()[1]) for line in lines}
    context.equal((target.returncode, sums["status"]), (0, 0), f"the program's end, and its child's ({lines})")
    context.equal(sums["sum"], sums["parent"], "what the child's coroutine came to")


@tap.case
def left_child(context):
    family(context)


@tap.case
def left_child_uncounted(context):
    family(context, "--no-follow")


tap.run()
