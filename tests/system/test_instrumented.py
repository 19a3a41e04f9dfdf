"""Instrumented functions: what Tally counts is what they counted themselves, in every situation, by several compilers; programs behave as without."""
import os
import shutil
import subprocess

import tally
import tap

PARTS = ("plain", "recursion", "exceptions", "jumps", "threads", "forks", "signals", "coroutines")
ROUNDS = 12
UNDESCRIBED = (15, 39, 42, 43, 44)  # where the C library begins a coroutine; handlers that interrupt what Tally put there
DEEP = 61  # the loss of calls that are too deep for their path


def skip_if_impossible(result):
    for reason in ("time-stamp counter", "rdfsbase"):
        if reason in result.errors.decode(errors="replace"):
            raise tap.Skip(result.errors.decode().strip())


def recorded(context, command, *options):
    result = tally.record(context, command, ["--no-time", "--instrumented", *options])
    skip_if_impossible(result)
    context.equal(result.status, 0, f"status of recording ({result.text()})")
    profile = tally.Profile(context, result.profile)
    profile.output, profile.errors = result.output.decode(), result.errors.decode()
    return profile


def truth(text):
    return {words[0]: int(words[1]) for words in map(str.split, text.splitlines()) if len(words) == 2}


def counted(profile):
    """{function without its arguments: calls}"""
    found = {}
    for name, row in profile.flat("call.count").items():
        if row["self"]:
            name = name.split("(")[0]
            found[name] = found.get(name, 0) + int(row["self"])
    return found


def check_part(context, program, part, *options):
    profile = recorded(context, [program, part], *options)
    wanted, got = truth(profile.output), counted(profile)
    context.check(wanted, f"{part} counted nothing")
    context.equal({name: got.get(name) for name in wanted}, wanted, f"calls of {part}")
    known = {"recursion": (DEEP,), "coroutines": UNDESCRIBED, "signals": UNDESCRIBED}.get(part, ())
    losses = {number: count for number, count in profile.losses().items() if number not in known}
    context.equal(losses, {}, f"losses of {part}")
    time = sum(row["self"] for row in profile.flat("call.time").values())
    context.check(time > 0, f"call.time of {part} is {time}")
    return profile


def built(context, compiler, *options):
    """The program, by another compiler."""
    source = os.path.join(os.path.dirname(__file__), "..", "programs", "instrumented_rollcall.cpp")
    if not shutil.which(compiler):
        raise tap.Skip(f"no {compiler}")
    result = tally.run(context, [compiler, *options, "-g", "-w", source, "-o", context.path("built"), "-pthread", "-ldl"])
    if result.status:
        raise tap.Skip(f"{compiler} cannot build it: {result.text()}")
    return context.path("built")


@tap.case
def exact(context):
    for part in PARTS:
        check_part(context, context.program("instrumented_rollcall"), part)


@tap.case
def exact_unoptimised(context):
    for part in PARTS:
        check_part(context, context.program("instrumented_rollcall_plain"), part)


@tap.case
def exact_clang(context):
    program = built(context, "clang++", "-O2", "-finstrument-functions")
    for part in PARTS:
        check_part(context, program, part)


@tap.case
def exact_clang_after_inlining(context):
    program = built(context, "clang++", "-O1", "-finstrument-functions-after-inlining")
    for part in ("recursion", "exceptions", "jumps", "threads", "forks"):
        profile = recorded(context, [program, part])
        got, wanted = counted(profile), truth(profile.output)
        context.check(got.get("leaf", 0) in (0, wanted.get("leaf", 0)), f"leaf of {part}: {got}")
        for name in ("thrower", "rethrower", "jumper", "worker", "quitter", "forked", "deep"):
            if name in wanted:
                context.equal(got.get(name), wanted[name], f"{name} of {part}")


@tap.case
def own_hooks(context):
    """A program with hooks of its own: they are called as often as without, dynamic and static; nothing counts twice."""
    for name in ("instrumented_rollcall_own", "instrumented_rollcall_static"):
        for part in ("plain", "recursion", "exceptions", "jumps", "threads"):
            alone = tally.run(context, [context.program(name), part])
            profile = check_part(context, context.program(name), part)
            context.equal([line for line in profile.errors.splitlines() if line.startswith("own")],
                          alone.errors.decode().splitlines(), f"own hooks of {part}")


@tap.case
def hooks_that_are_one(context):
    """Static, with glibc's: enter cannot be distinguished from exit, which is said; the program is left alone."""
    profile = recorded(context, [context.program("instrumented_rollcall_shared"), "plain"])
    context.equal(counted(profile), {}, "calls")
    context.check("one function (static glibc)" in profile.errors, profile.errors)


@tap.case
def nothing_instrumented(context):
    profile = recorded(context, [context.program("tiny")])
    context.check("was built with -finstrument-functions" in profile.errors, profile.errors)
    context.equal(profile.losses().get(60), 1, "the loss")


@tap.case
def libraries(context):
    """An object that comes late: its constructor counts already. It is mapped elsewhere each time, or not: one name."""
    profile = recorded(context, [context.program("instrumented_rollcall"), "library", context.program("instrumented_plugin.so")])
    context.equal(counted(profile), {"plugged_first": 3, "plugged": 3, "plugged_inner": 303}, "calls")
    context.equal(profile.losses(), {}, "losses")


def below(profile, counter="call.count"):
    """{(caller, function): calls} of functions that are in the program."""
    found = {}
    for frames, value in profile.stacks(counter):
        names = [frame.split("(")[0] for frame in frames]
        key = (names[-2] if len(names) > 1 else "", names[-1])
        found[key] = found.get(key, 0) + value
    return found


@tap.case
def paths(context):
    """Who is below whom: inlined functions, and what goes on after a longjmp, exceptions and in coroutines."""
    found = below(recorded(context, [context.program("instrumented_rollcall"), "plain"]))
    for key, wanted in {("outer", "inner"): 2000, ("outer", "leaf"): 1000, ("inner", "leaf"): 2000, ("pair", "leaf"): 1100,
                        ("varying", "pair"): 100, ("varying", "leaf"): 50, ("array", "leaf"): 20, ("array", "array"): 15}.items():
        context.equal(found.get(key), wanted, f"{key[1]} called by {key[0]}")
    found = below(recorded(context, [context.program("instrumented_rollcall"), "jumps"]))
    for key, wanted in {("jumped", "landed"): 200, ("landed", "leaf"): 200, ("jumped", "jumper"): 200}.items():
        context.equal(found.get(key), wanted, f"{key[1]} called by {key[0]}")
    found = below(recorded(context, [context.program("instrumented_rollcall"), "exceptions"]))
    for key, wanted in {("catcher", "rethrower"): 200, ("rethrower", "thrower"): 200, ("rethrower", "leaf"): 200, ("catcher", "leaf"): 200}.items():
        context.equal(found.get(key), wanted, f"{key[1]} called by {key[0]}")
    found = below(recorded(context, [context.program("instrumented_rollcall"), "coroutines"]))
    context.equal((found.get(("stepper", "leaf")), found.get(("yielding", "leaf"))), (600, 600 + 600 - 3), "leaf by coroutines and who resumes them")


@tap.case
def children_left_alone(context):
    profile = recorded(context, [context.program("instrumented_rollcall"), "forks"], "--no-follow")
    context.equal(counted(profile), {"forked": 4, "leaf": 400}, "calls")


@tap.case
def beside_others(context):
    """In one run with exact calls, memory and samples."""
    program = context.program("instrumented_rollcall")
    for options in (["--calls"], ["--heap", "--throws"]):
        check_part(context, program, "exceptions", *options)
        check_part(context, program, "threads", *options)


@tap.case
def refused(context):
    for options, text in ((["--instrumented", "-a"], "needs a COMMAND or -p PID"), (["--instrumented", "--no-time", "-F", "99", "--", "true"], "-F is about")):
        result = tally.run(context, [context.tally, "record", *options])
        context.equal(result.status, 2, f"status with {options} ({result.text()})")
        context.check(text in result.errors.decode(), result.text())


@tap.case
def attached(context):
    """In the middle of recursion, exceptions and longjmp: recorded and left, again and again."""
    target = tally.start(context, [context.program("instrumented_rollcall"), "forever"], stdin=subprocess.PIPE)
    context.equal(target.stdout.readline(), b"ready\n", "the first line")
    calls = done = 0
    for number in range(ROUNDS):
        result = tally.run(context, [context.tally, "record", "--no-time", "--instrumented", "-o", context.path("attached"),
                                     "--duration", "0.3", "-p", str(target.pid)])
        skip_if_impossible(result)
        if b"did not stop within" in result.errors:
            continue  # a busy machine: tally left before it began; counted below
        context.equal(result.status, 0, f"status of round {number} ({result.text()})")
        done += 1
        calls += sum(counted(tally.Profile(context, context.path("attached"))).values())
        with open(f"/proc/{target.pid}/maps", encoding="utf-8") as file:
            context.equal([line for line in file if "tally" in line], [], f"memory left in round {number}")
    output, _ = target.communicate(timeout=60)
    context.equal((target.returncode, output.splitlines()[0]), (0, b"ended"), "the program's end")
    tally.check_rounds(context, done, ROUNDS)
    context.check(calls > 1000, f"{calls} calls in all")


@tap.case
def killed(context):
    """What was counted by the moment of SIGKILL survives it."""
    target = tally.start(context, [context.tally, "record", "--no-time", "--instrumented", "-o", context.path("killed"), "--",
                                   context.program("instrumented_rollcall"), "forever"], stdin=subprocess.PIPE)
    context.equal(target.stdout.readline(), b"ready\n", "the first line")
    children = tally.run(context, ["/usr/bin/pgrep", "-P", str(target.pid), "-x", "instrumented_ro"])
    pids = [int(pid) for pid in children.output.split()]
    context.equal(len(pids), 1, "programs that run")
    tally.wait_for(lambda: False, 0.3)
    os.kill(pids[0], 9)
    target.communicate(timeout=60)
    context.check(counted(tally.Profile(context, context.path("killed"))).get("leaf", 0) > 0, "calls of one that was killed")


tap.run()
