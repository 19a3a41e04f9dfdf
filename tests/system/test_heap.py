"""Memory counted inside a program: equal, to the byte, to what the program knows of itself, however it lives and ends."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import time

import tally
import tap

COUNTERS = ("heap.total", "heap.count", "heap.live", "heap.live.count", "heap.peak", "heap.max", "heap.largest",
            "heap.temporary", "heap.live.age")

ALLOCATED = "SELECT sum(c.value) FROM data_cells c JOIN counters k ON k.id = c.counter WHERE k.name = 'heap.count'"


def one(profile, sql):
    rows = profile.rows(sql)
    return rows[0][0] if rows else None


def truth(context):
    """Where the program says what it did."""
    path = context.path("truth")
    with open(path, "w", encoding="utf-8"):
        pass
    return path, dict(os.environ, TRUTH=path)


def reported(path):
    """By pid: bytes, blocks, live bytes, live blocks, peak."""
    with open(path, encoding="utf-8") as file:
        rows = [[int(word) for word in line.split()] for line in file]
    return {row[0]: row[1:] for row in rows}


def own(profile, counter, pid=None):
    """What the functions own_* of one process, or of all, have of a counter themselves."""
    return one(profile,
        "SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
        " JOIN data_strings s ON s.id = k.name JOIN data_frames f ON f.node = c.node"
        " JOIN data_threads t ON t.id = c.thread JOIN data_processes p ON p.id = t.process"
        f" WHERE s.text = '{counter}' AND f.function GLOB 'own_*'" + (f" AND p.pid = {pid}" if pid else ""))


def counted(context, arguments, options=(), status=0, program="heap_truth"):
    path, environment = truth(context)
    profile = tally.recorded(context, [context.program(program), *arguments], ["--heap", "--no-time", *options], status=status,
                             env=environment)
    return profile, reported(path)


def same(context, profile, truths, what):
    for pid, (total, count, live, live_count, _) in truths.items():
        got = tuple(own(profile, name, pid) for name in COUNTERS[:4])
        context.equal(got, (total, count, live, live_count), f"{what}: bytes, blocks, live bytes and blocks of {pid}")
    lost = one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number IN (30, 31, 32, 33, 34, 36, 38)")
    context.equal(lost, 0, f"{what}: allocations that were lost")


def peak_of(profile):
    """Of the process, and what its stacks held then."""
    return (one(profile, "SELECT max(value) FROM peaks WHERE counter = 'heap.peak'"),
            one(profile, "SELECT sum(value) FROM stacks WHERE counter = 'heap.peak'"))


@tap.case
def one_thread(context):
    profile, truths = counted(context, ["single"])
    same(context, profile, truths, "one thread")
    process, stacks = peak_of(profile)
    context.equal(len(truths), 1, "processes that reported")
    context.equal(process, list(truths.values())[0][4], "the peak")
    context.equal(stacks, process, "what stacks held at the peak")


@tap.case
def ends(context):
    """However a program ends, nothing of it is lost."""
    for mode, status in (("quick", 0), ("killed", 128 + signal.SIGKILL)):
        profile, truths = counted(context, [mode], status=status)
        same(context, profile, truths, mode)


@tap.case
def static_program(context):
    profile, truths = counted(context, ["single"], program="heap_truth_static")
    same(context, profile, truths, "static")
    context.equal(own(profile, "heap.peak"), list(truths.values())[0][4], "own blocks at the peak")


@tap.case
def eight_threads(context):
    """Totals and what is live are exact; the peak within what the manual page says."""
    profile, truths = counted(context, ["threads"])
    same(context, profile, truths, "8 threads")
    process, stacks = peak_of(profile)
    live = one(profile, "SELECT sum(value) FROM stacks WHERE counter = 'heap.live'")
    context.check(process >= live - 9 * 65536, f"the peak, {process}, is far below what is live at the end, {live}")
    context.check(abs(process - stacks) <= 9 * 65536, f"stacks held {stacks} at a peak of {process}")


@tap.case
def children(context):
    """A child of a fork counts for itself, and only what it allocates."""
    profile, truths = counted(context, ["fork"])
    context.equal(len(truths), 2, "processes that reported")
    same(context, profile, truths, "fork")


def traced(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return "TracerPid:\t0\n" not in file.read()


@tap.case
def children_of_another_namespace(context):
    """As in a container: a program and its children know themselves by small numbers, which are others' outside."""
    tap.need_root()
    tap.need("unshare")
    path, environment = truth(context)
    probe = subprocess.run(["unshare", "-p", "-f", "true"], check=False, stderr=subprocess.PIPE)
    if probe.returncode != 0:
        raise tap.Skip("no namespaces can be made: " + probe.stderr.decode().strip())
    script = f"{context.program('heap_truth')} fork; {context.program('heap_truth')} fork; true"
    profile = tally.recorded(context, ["unshare", "-p", "-f", "--kill-child", "sh", "-c", script], ["--heap", "--no-time"], env=environment)
    context.equal(len(reported(path)), 4, "processes that reported")
    sums = tuple(sum(row[i] for row in reported(path).values()) for i in range(4))
    context.equal(tuple(own(profile, name) for name in COUNTERS[:4]), sums, "bytes, blocks, live bytes and blocks of all")
    shell = tally.start(context, ["unshare", "-p", "-f", "--kill-child", "sh", "-c", "echo $$; while :; do /bin/true; done"], stdout=subprocess.PIPE)
    context.equal(shell.stdout.readline(), b"1\n", "the shell's number inside")
    with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as file:
        inner = int(file.read().split()[0])
    recorder = tally.start(context, [context.tally, "record", "--heap", "--no-time", "-o", context.path("inner"), "--duration", "4", "-p", str(inner)])
    while recorder.poll() is None:
        context.check(not traced(1), "init was taken for a process of the namespace")
        time.sleep(0.01)
    result = tally.finish(recorder)
    if not context.equal(result.status, 0, f"status ({result.text()})"):
        return
    inside = tally.Profile(context, context.path("inner"))
    found = {name: count for name, count in inside.rows("SELECT s.text, count(*) FROM data_processes p JOIN data_strings s ON s.id = p.name GROUP BY 1")}
    context.check(found.get("true", 0) >= 3 and found.get("sh", 0) >= 1, f"processes by name: {found}")
    context.check(tally.wait_for(lambda: agent_in(inner) == [] and not traced(inner)), f"left in the shell: {agent_in(inner)}")
    context.equal(shell.poll(), None, "the shell ended")


@tap.case
def without_children(context):
    profile, truths = counted(context, ["fork"], ["--no-follow"])
    totals = {pid: own(profile, "heap.total", pid) for pid in truths}
    child, parent = sorted(truths, key=lambda pid: truths[pid][1])
    if truths[child][0] == totals[child]:
        child, parent = parent, child
    context.equal(totals[parent], truths[parent][0], "bytes of the parent")
    context.equal(totals[child], 0, "bytes of the child")


@tap.case
def programs_started(context):
    for mode, programs in (("exec", 1), ("spawn", 2)):
        profile, truths = counted(context, [mode])
        context.equal(len(truths), programs, f"{mode}: programs that reported")
        if mode == "exec":  # one number, two programs: what the first allocated is there too
            pid, (total, *_) = list(truths.items())[0]
            context.check(own(profile, "heap.total", pid) >= total, "exec: bytes of both programs")
            context.equal(one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number = 38"), 0, "programs without the agent")
        else:
            same(context, profile, truths, mode)


@tap.case
def children_that_exec(context):
    """Each allocates and execs before it is discovered, and goes on: the program is not taken for the child that it was."""
    for options in ([], ["--calls"]):
        profile, truths = counted(context, ["children"], options)
        context.equal(len(truths), 5, "children that reported")
        same(context, profile, truths, f"children, {options}")
        gone = one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number = 19")
        context.equal(gone, 0, "processes that ended too soon")


@tap.case
def child_left_alone(context):
    """It is discovered only when all others of its group have gone."""
    for options in ([], ["--calls"], ["--no-follow"]):
        profile, truths = counted(context, ["orphan"], options)
        context.equal(len(truths), 2, "processes that reported")
        if "--no-follow" not in options:
            same(context, profile, truths, f"a child left alone, {options}")
        names = profile.rows("SELECT DISTINCT s.text FROM data_processes p JOIN data_strings s ON s.id = p.name")
        context.equal(names, [("heap_truth",)], "names of processes")


@tap.case
def many_children(context):
    """More than ever were at one time; a shell forks for each command."""
    profile, truths = counted(context, ["many"])
    context.equal(len(truths), 301, "processes that reported")
    sums = tuple(sum(row[i] for row in truths.values()) for i in range(4))
    context.equal(tuple(own(profile, name) for name in COUNTERS[:4]), sums, "bytes, blocks, live bytes and blocks of all")
    context.equal(one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number = 36"), 0, "children that found no room")


def agent_in(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return [line for line in file if "tally" in line]


@tap.case
def child_never_heard_of(context):
    """It is left as it was found too, though it never said that it is there."""
    for options in ([], ["--calls"], ["--no-follow"]):
        path, environment = truth(context)
        end, held = os.pipe()
        profile = tally.recorded(context, [context.program("heap_truth"), "idle"], ["--heap", "--no-time", *options], env=environment,
                                 stdin=end)
        os.close(end)
        lines = open(path, encoding="utf-8").read().split()[::6]
        child = int(lines[0])
        context.equal(agent_in(child), [], f"memory left in the child, {options}")
        os.close(held)
        context.check(tally.wait_for(lambda: not os.path.exists(f"/proc/{child}")), "the child has not ended")
        with open(path, encoding="utf-8") as file:
            said = [line for line in file if line.startswith(f"{child} ")]
        context.equal(len(said), 2, f"what the child said: {said}")
        context.equal(own(profile, "heap.total", child), 0, "bytes of the child")


@tap.case
def deep_stacks(context):
    """What is cut of an allocation's stack is no loss of samples."""
    path, environment = truth(context)
    output = context.path("deep")
    result = tally.run(context, [context.tally, "record", "--heap", "--no-time", "-o", output, context.program("heap_truth"), "deep"],
                       env=environment)
    profile, truths = tally.Profile(context, output), reported(path)
    same(context, profile, truths, "deep")
    blocks = list(truths.values())[0][1]
    context.equal(profile.losses(), {45: blocks}, "losses")
    errors = result.errors.decode()
    context.check(f"lost: stacks of {blocks:,} allocations or calls incomplete" in errors and "samples" not in errors, errors)


@tap.case
def loaded_library(context):
    """Its constructor's allocation has its whole stack."""
    profile, truths = counted(context, ["load", context.program("heap_plugin.so")])
    same(context, profile, truths, "dlopen")
    stack = one(profile, "SELECT stack FROM leaks WHERE stack GLOB '*call_init;own_plugin'") or ""
    context.check(stack.startswith("_start;") and ";main;" in stack, f"the stack of the constructor: {stack}")


def has(profile, sql, least):
    """Whether a profile that is being written has got so far."""
    try:
        return (one(profile, sql) or 0) > least
    except sqlite3.Error:
        return False


def visited(context, process, name, options=(), counts=ALLOCATED):
    """A program that runs, recorded until something was counted: on a busy machine that takes a while."""
    profile = tally.Profile(context, context.path(name))
    recorder = tally.start(context, [context.tally, "record", "--heap", "--no-time", *options, "-o", profile.path, "-p", str(process.pid)])
    tally.wait_for(lambda: recorder.poll() is not None or has(profile, counts, 1000), 60)
    recorder.send_signal(signal.SIGINT)
    result = tally.finish(recorder, 60)
    context.equal(result.status, 0, f"status of recording ({result.text()})")
    context.check(own(profile, "heap.count") > 1000, "next to nothing was counted")
    return profile


@tap.case
def attached(context):
    """A program that runs; it is left as it was, and goes on."""
    path, environment = truth(context)
    process = tally.start(context, [context.program("heap_truth"), "wait"], env=environment, stdin=subprocess.PIPE)
    time.sleep(0.3)
    for number in range(3):
        visited(context, process, f"attached-{number}")
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
            context.check("TracerPid:\t0\n" in file.read(), "it is traced still")
    context.equal(agent_in(process.pid), [], "memory left in the program")
    process.stdin.close()
    context.equal(process.wait(60), 0, "its status")
    context.equal(len(reported(path)), 1, "what it reported")


@tap.case
def attached_with_time(context):
    """The agent was mapped before events reported mappings: samples in it have its name, and their stacks do not end there.
    Who is named twice is one process."""
    process = tally.start(context, [context.program("heap_truth"), "wait"], env=truth(context)[1], stdin=subprocess.PIPE)
    time.sleep(0.3)
    output = context.path("attached")
    result = tally.run(context, [context.tally, "record", "--heap", "-o", output, "--duration", "1.5", "-p", f"{process.pid},{process.pid}"])
    context.equal(result.status, 0, f"status of recording ({result.text()})")
    profile = tally.Profile(context, output)
    cost = json.loads(profile.report("--json"))["cost"]
    whole, agent = cost["samples"], cost["own_samples"] - cost["stub_samples"]
    context.note(f"{agent} of {whole} samples in the agent")
    context.check(agent > whole / 20, f"{agent} of {whole} samples in the agent")
    outside = one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number = 7")
    context.check(outside <= 2, f"{outside} of {whole} stacks end outside of any mapping")
    process.stdin.close()
    context.equal(process.wait(60), 0, "its status")


@tap.case
def short_visit(context):
    """A duration begins when all is set, however long that took: here every image is looked at for the first time."""
    process = tally.start(context, ["/usr/bin/python3", "-I", "-c", "print('ready', flush=True)\nwhile True: bytes(5000)"])
    context.equal(process.stdout.readline(), b"ready\n", "the first line")
    for options in (["--no-time"], []):
        profile = tally.Profile(context, context.path("short"))
        cache = context.path("cache" + "".join(options))
        result = tally.run(context, [context.tally, "record", "--heap", *options, "-o", profile.path, "--duration", "0.05", "-p", str(process.pid)],
                           env=dict(os.environ, XDG_CACHE_HOME=cache))
        context.equal(result.status, 0, f"status of recording ({result.text()})")
        context.check((one(profile, ALLOCATED) or 0) > 0, f"nothing was counted, {options}")
        late = one(profile, "SELECT count(*) FROM peaks p WHERE p.time_ns > (SELECT value FROM meta WHERE key = 'duration_ns')")
        context.equal(late, 0, f"peaks after the end, {options}")
    context.equal(process.poll(), None, "its status")


@tap.case
def sampled(context):
    """Estimates lie within five of their standard deviations of the truth."""
    profile, truths = counted(context, ["single"], ["--heap=sample:4k"])
    total, count, *_ = list(truths.values())[0]
    got = own(profile, "heap.total")
    samples = one(profile, "SELECT sum(samples) FROM data_cells c JOIN counters k ON k.id = c.counter WHERE k.name = 'heap.total'")
    context.equal(one(profile, "SELECT exact FROM counters WHERE name = 'heap.total'"), 0, "heap.total is exact")
    context.check(abs(got / total - 1) < 5 / samples ** 0.5, f"{got} bytes of {total}, by {samples} samples")
    profile = tally.recorded(context, [context.program("heap_truth"), "single"], ["--heap=sample:4k"], name="with-time", env=truth(context)[1])
    header = profile.report("-v", "--counter", "heap.total", "--limit", "1")
    context.check(re.search(r" heap\.total: [0-9,]+ samples, ", header), f"the rate is that of time:\n{header}")


@tap.case
def past_the_ceiling(context):
    """Totals stay exact; what is live is an estimate, called one, within five of its standard deviations; the loss is counted."""
    profile, truths = counted(context, ["hoard"])
    same(context, profile, truths, "many blocks")
    profile, truths = counted(context, ["hoard"], ["--agent-memory", "1M"])
    total, count, live, *_ = list(truths.values())[0]
    context.equal((own(profile, "heap.total"), own(profile, "heap.count")), (total, count), "bytes and blocks")
    exact = dict(profile.rows("SELECT name, exact FROM counters WHERE name GLOB 'heap.*'"))
    context.equal({name for name in exact if not exact[name]}, {"heap.live", "heap.live.count", "heap.peak", "heap.max", "heap.temporary"},
                  "counters that are estimates")
    samples = one(profile, "SELECT sum(c.samples) FROM data_cells c JOIN data_counters k ON k.id = c.counter JOIN data_strings s ON s.id = k.name"
                           " JOIN data_frames f ON f.node = c.node WHERE s.text = 'heap.live' AND f.function = 'own_malloc'")
    got = own(profile, "heap.live")
    context.check(samples > 100 and abs(got / live - 1) < 5 / samples ** 0.5, f"{got} bytes of {live}, as sure as {samples} samples")
    context.check(one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number = 58") > 10000, f"losses: {profile.losses()}")


@tap.case
def with_time(context):
    """Time and memory in one run, in one tree."""
    path, environment = truth(context)
    profile = tally.recorded(context, [context.program("heap_truth"), "threads"], ["--heap"], env=environment)
    same(context, profile, reported(path), "with time")
    context.equal(one(profile, "SELECT count(*) FROM counters WHERE name IN ('time.cpu', 'time.user')"), 1, "counters of time")
    cut = one(profile, "SELECT coalesce(sum(count), 0) FROM losses WHERE number IN (4, 7, 17)")
    context.check(cut <= 2, f"{cut} samples' stacks end in code of ours")
    for mode, processes in (("fork", 3), ("orphan", 2)):
        path, environment = truth(context)
        profile = tally.recorded(context, [context.program("heap_truth"), mode], ["--heap"], env=environment)
        same(context, profile, reported(path), f"{mode}, with time")
        context.equal(one(profile, "SELECT count(*) FROM data_processes"), processes, f"{mode}: processes")


def calls_between(profile):
    """Of functions of the program's own: nobody else's number of calls is always the same."""
    return sorted(profile.rows("SELECT caller, callee, calls FROM edges WHERE caller_image = 'heap_truth' AND callee_image = 'heap_truth'"))


@tap.case
def creations(context):
    """Programs that threads start at the same time, by posix_spawn, vfork and fork: each is counted, with each collector beside it."""
    for options in ((), ("--function", "own_malloc"), ("--fds",), ("--calls",)):
        profile, truths = counted(context, [], options, program="heap_creations")
        context.equal(len(truths), 150, "programs that reported")
        same(context, profile, truths, f"started at once, {options}")


@tap.case
def crowds(context):
    """More threads than there used to be records, all at once and one after the other: counted whole, by memory for those that live."""
    long = bool(os.environ.get("TALLY_LONG"))
    for arguments in (["1000", "3", "stay"], ["3000", "1", "stay"], ["100", "100"]) + ((["10000", "1", "stay"], ["500", "2000"]) if long else ()):
        what = " ".join(arguments)
        if tally.run(context, [context.program("heap_crowd"), *arguments]).status == 77:
            raise tap.Skip(f"{arguments[0]} threads may not be")
        profile, truths = counted(context, arguments, program="heap_crowd")
        same(context, profile, truths, what)
        memory = int(one(profile, "SELECT value FROM meta WHERE key = 'agent_memory'"))
        most = (int(arguments[0]) * 160 + 100 * 1024) * 1024
        context.check(memory < most, f"{what}: {memory >> 20} MiB of tables, more than {most >> 20}")


@tap.case
def with_calls(context):
    """Calls, memory and time in one run: each is what it is alone."""
    alone = tally.recorded(context, [context.program("heap_truth"), "single"], ["--calls", "--no-time"], env=truth(context)[1])
    for mode in ("single", "threads", "fork", "spawn"):
        path, environment = truth(context)
        profile = tally.recorded(context, [context.program("heap_truth"), mode], ["--heap", "--calls"], env=environment)
        same(context, profile, reported(path), f"{mode}, with calls")
        if mode == "single":
            context.equal(calls_between(profile), calls_between(alone), "calls")
    path, environment = truth(context)
    process = tally.start(context, [context.program("heap_truth"), "wait"], env=environment, stdin=subprocess.PIPE)
    time.sleep(0.3)
    calls = "SELECT sum(calls) FROM edges"
    profile = visited(context, process, "attached", ["--calls"], f"SELECT min(({ALLOCATED}), ({calls}))")
    context.check(one(profile, calls) > 1000, "next to no calls were counted")
    context.equal(agent_in(process.pid), [], "memory left in the program")
    process.stdin.close()
    context.equal(process.wait(60), 0, "its status")


@tap.case
def no_allocator(context):
    """Said, and counted as a loss; the program ends as it would."""
    tap.need("gcc")
    source, program = context.path("bare.c"), context.path("bare")
    with open(source, "w", encoding="ascii") as file:
        file.write('void _start(void) { __asm__ volatile("syscall" : : "a"(231), "D"(7)); }\n')  # exit_group
    built = tally.run(context, ["gcc", "-nostdlib", "-static", "-fno-stack-protector", "-o", program, source])
    context.equal(built.status, 0, f"gcc ({built.text()})")
    profile = tally.recorded(context, [program], ["--heap", "--no-time"], status=7)
    context.check("memory is not counted: no function that allocates was hooked in bare (" in profile.errors, profile.errors)
    context.equal(profile.losses(), {38: 1}, "losses")
    for mode, view, lie in (("--heap", "--leaks", "No leaks"), ("--fds", "--fds", "Nothing was left open")):
        profile = tally.recorded(context, [program], [mode, "--no-time"], "profile" + mode, status=7)
        text = profile.report(view)
        context.check("not counted (" in text, f"{mode}: it is said that nothing was counted: {text}")
        for word in (lie, ", exact", "lost: nothing", "complete for", "every call site counted"):
            context.check(word not in text, f"{mode}: nothing was counted, but '{word}' is said: {text}")


@tap.case
def refused(context):
    for options, words in ((["--heap", "-a"], "--heap needs a COMMAND or -p PID"),
                           (["--heap=x", "true"], "--heap alone, or --heap=sample:BYTES"),
                           (["--heap=sample:1", "true"], "is no number of bytes"),
                           (["--agent-memory", "1G", "true"], "--agent-memory goes with --heap, --throws, --fds, --function or --instrumented")):
        result = tally.run(context, [context.tally, "record", "-o", context.path("none"), *options])
        context.check(result.status != 0 and words in result.errors.decode(), f"{options}: {result.text()}")



@tap.case
def left_out_of_core_dumps(context):
    """For a dump the kernel would make every page of our files, hundreds of GB of holes."""
    command = ["sh", "-c", "cat /proc/self/smaps; true"]
    result = tally.record(context, command, ["--heap", "--calls", "--no-time"])
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", result.output.decode(), flags=re.MULTILINE)
    ours = [part for part in parts if "/memfd:tally" in part]
    context.check(ours, "nothing of ours is there")
    context.equal([part.splitlines()[0] for part in ours if not re.search(r"^VmFlags:.* dd\b", part, re.MULTILINE)], [], "would be dumped")


tap.run()
