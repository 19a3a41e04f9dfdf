"""What the options of record and report change: rate, CPUs, kernel frames, user time, bounds of the tree, views of the report."""
import json
import os
import signal

import tap
import tally
import truth
import workloads


@tap.case
def rates(context):
    """Samples are as many as CPU time times rate; what the machine cannot bear is said, never silent."""
    for rate in (100, 999, 4000, 10000):
        profile = tally.recorded(context, [context.program("shares"), "--seconds", "1.5"], ["-F", str(rate)], name=f"profile{rate}")
        _, whole = truth.shares(profile.output)
        samples = sum(row["samples"] for row in profile.flat().values() if row["self"])
        losses = profile.losses()
        lost, lowered = losses.get(1, 0), losses.get(20, 0) + losses.get(2, 0)
        seconds = profile.total() / 1e9
        context.note(f"{rate} Hz: {seconds:.3f} s of samples for {whole:.3f} s of CPU time, {samples} samples by self, {lost} lost, {lowered} lowered or throttled")
        tolerance = 0.06 + 4 / (rate * whole) ** 0.5
        context.check(abs(seconds / whole - 1) < tolerance or lost or lowered,
                      f"{rate} Hz: {seconds:.3f} s of samples for {whole:.3f} s of CPU time, and no loss says why")


def samples_and_worth(profile):
    """Samples, those that the kernel dropped, and what the target's CPU time is worth."""
    meta = profile.meta()
    samples = profile.rows("select sum(samples) from flat where self > 0")[0][0] or 0
    return samples + profile.losses().get(1, 0), int(meta["target_cpu_ns"]) / 1e9 * float(meta["rate_hz"])


SHORT = "i=0; while [ $i -lt 600 ]; do /bin/true; i=$((i+1)); done"


@tap.case
def short_lives(context):
    """Processes shorter than a sampling period: seen by events of whole CPUs, or else counted as a loss, never silent."""
    for attempt in range(2):
        other = tally.start_busy(context, "threads")
        profile = tally.recorded(context, ["/bin/sh", "-c", SHORT], ["-F", "500"], name=f"profile{attempt}")
        other.kill()
        samples, worth = samples_and_worth(profile)
        by_cpu = "a CPU, for the target" in profile.meta()["sampling"]
        context.note(f"{samples} samples of {worth:.0f}, {profile.meta()['sampling']}")
        if by_cpu:
            context.check(samples > 0.8 * worth - 3 * worth ** 0.5, f"{samples} samples of {worth:.0f}")
            context.check(samples < 1.1 * worth + 3 * worth ** 0.5, f"{samples} samples of {worth:.0f}: more than there were")
        else:
            context.check(profile.losses().get(25, 0) > 0, "what was missed is not counted")
            context.check("births_notice" in profile.meta(), "and not reported")
        context.check(os.geteuid() or by_cpu, "root must have events of whole CPUs: " + profile.meta().get("births_notice", ""))
        context.check("thread_work" not in profile.functions(), "samples of another process")
        pids = {row[0] for row in profile.rows("select pid from threads")}
        context.check(other.pid not in pids, "another process among the processes")


@tap.case
def target_that_nobody_waited_for(context):
    """The kernel's account of a program's CPU time lacks a child that nobody has waited for; the header's figure does not."""
    profile = tally.recorded(context, ["/bin/sh", "-c", f"({context.program('shares')} --seconds 2 > /dev/null 2>&1 &); sleep 1"])
    used = int(profile.meta()["target_cpu_ns"])
    context.check(abs(used / profile.total() - 1) < 0.3, f"{used / 1e9} s of CPU time, and {profile.total() / 1e9} s of samples")


# Each child has run a program of its own, and said so, before the command goes on.
LEAVES = "mkfifo begun; for i in $(seq {}); do /bin/sh -c 'echo $$ > begun; exec sleep 600' > /dev/null 2>&1 & read pid < begun; echo $pid; done; rm begun"


@tap.case
def what_goes_on(context):
    """Children that live when the command has ended are counted at the end; those that have ended are not."""
    for options in (), ("--heap", "--no-time"):
        for left, said in (1, "1 process of the command goes on, unrecorded"), (2, "2 processes of the command go on, unrecorded"):
            profile = tally.recorded(context, ["/bin/sh", "-c", LEAVES.format(left)], options, name=f"left{left}{len(options)}")
            for pid in profile.output.split():
                os.kill(int(pid), signal.SIGKILL)
            context.check(said in profile.errors, f"{options}: {left} left, and reported: {profile.errors}")
        waited = tally.recorded(context, ["/bin/sh", "-c", "sleep 0.1 & wait"], options, name=f"none{len(options)}")
        context.check("unrecorded" not in waited.errors, f"none left, and reported: {waited.errors}")


@tap.case
def many_threads(context):
    """128 threads that share two seconds: as many samples as their CPU time is worth."""
    tap.need_root()
    for rate in ("999", "10000"):
        profile = tally.recorded(context, [context.program("threads"), "--seconds", "2", "128", "--together"],
                                 ["-F", rate], name="profile" + rate)
        samples, worth = samples_and_worth(profile)
        lowered = profile.losses().get(2, 0) + profile.losses().get(20, 0)
        context.note(f"{rate} Hz: {samples} samples of {worth:.0f}")
        context.check(lowered or abs(samples / worth - 1) < 0.03 + 2 / worth ** 0.5, f"{rate} Hz: {samples} samples of {worth:.0f}")


@tap.case
def only_the_first_process(context):
    """--no-follow where CPUs are sampled: the threads of the one process, nothing of the children that it has many of."""
    brood = f"{context.program('threads')} --seconds 0.5 & " + SHORT + "; wait"
    profile = tally.recorded(context, ["/bin/sh", "-c", brood], ["--no-follow", "-F", "4000"])
    pids = profile.rows("select count(distinct pid) from threads")[0][0]
    context.equal(pids, 1, "processes in the profile")
    context.check("thread_work" not in profile.functions(), "samples of a child")


@tap.case
def only_some_cpus(context):
    tap.need("taskset")
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise tap.Skip("only one CPU")
    first, second = allowed[:2]
    command = ["taskset", "-c", str(first), context.program("steady"), "30", "10"]
    here = tally.recorded(context, command, ["--cpu", str(first)], name="here", status=42)
    there = tally.recorded(context, command, ["--cpu", str(second)], name="there", status=42)
    context.check(here.share_containing("steady_step") > 0.8, "no samples of the CPU it ran on")
    context.check("steady_step" not in there.functions(), "samples of a CPU it did not run on")
    context.check("steady_step" in here.report("--cpu", str(first)), "report --cpu hides what ran there")
    by_cpu = here.report("--by", "cpu")
    context.check(str(first) in by_cpu, f"report --by cpu does not name the CPU: {by_cpu}")


@tap.case
def cpu_that_is_not_there(context):
    """Samples that somebody waits for in vain: said before anything runs."""
    with open("/sys/devices/system/cpu/online", encoding="ascii") as file:
        online = file.read().strip()
    first = sorted(os.sched_getaffinity(0))[0]
    hole = next(cpu for cpu in range(70000) if not os.path.exists(f"/sys/bus/cpu/devices/cpu{cpu}"))
    for wanted, missing in ((f"{first},70000", 70000), (f"{first},{hole}-99999999999", hole), ("70000", 70000)):
        result = tally.run(context, [context.tally, "record", "--cpu", wanted, "-o", context.path("profile"), "--", "touch", context.path("ran")])
        context.equal(result.status, 125, f"status with --cpu {wanted}")
        context.equal(result.errors.decode(), f"tally: --cpu {wanted}: CPU {missing} is not online; online are {online}\n", f"message with --cpu {wanted}")
    context.check(not os.path.exists(context.path("ran")), "the command was run")


@tap.case
def kernel_frames(context):
    """Time in the kernel has the kernel's frames below the user's with --kernel, and is the caller's own without."""
    tap.need_root()
    command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=4M", "count=4000"]
    with_kernel = tally.recorded(context, command, ["--kernel"], name="with")
    images = dict(with_kernel.rows("select image, sum(self) from flat group by image"))
    whole = with_kernel.total()
    kernel = sum(value for image, value in images.items() if image.startswith("["))
    context.check(kernel > 0.5 * whole, f"{kernel / 1e9:.2f} of {whole / 1e9:.2f} s in kernel functions: {images}")
    without = tally.recorded(context, command, name="without")
    images = dict(without.rows("select image, sum(self) from flat group by image"))
    context.check(not any(image == "[kernel]" and value for image, value in images.items()), f"kernel functions without --kernel: {images}")
    context.check(without.total() > 0.5 * whole, "kernel time is missing without --kernel")


@tap.case
def user_time_alone(context):
    """dd spends its time in the kernel: next to nothing is left with --time=user."""
    command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=4M", "count=2000"]
    profile = tally.recorded(context, command, ["--time=user"])
    context.check(profile.total() < 0.1e9, f"{profile.total() / 1e9:.2f} s of user time")


@tap.case
def bounded_tree(context):
    """Past --max-nodes the coldest subtrees are folded; the sum stays, and what was folded is counted."""
    command = workloads.compiler(context)
    free = tally.recorded(context, command, name="free")
    bounded = tally.recorded(context, command, ["--max-nodes", "1000"], name="bounded")
    if len(free.stacks()) < 1000:
        raise tap.Skip(f"only {len(free.stacks())} distinct stacks")
    context.check("(folded)" in bounded.functions(), "nothing is called (folded)")
    context.check(bounded.losses().get(11, 0) > 0, f"folding is not counted: {bounded.losses()}")
    context.check(len(bounded.stacks()) <= 1000, f"{len(bounded.stacks())} stacks")
    for profile in (free, bounded):  # each beside its own CPU time: two runs differ by what else the machine does
        seen, used = profile.total() / 1e9 + profile.losses().get(25, 0) / 1e3, int(profile.meta()["target_cpu_ns"]) / 1e9
        context.note(f"{seen:.2f} s of {used:.2f}")
        context.check(abs(seen / used - 1) < 0.1, f"{seen:.2f} s of samples and losses for {used:.2f} s of CPU time")


@tap.case
def timeline(context):
    """Every sample is in it, of children and of folded stacks too; it is only ever as large as it may be, and what is left out of it
    is counted."""
    for options, seconds, full in ((["--timeline"], 0.5, False), (["--timeline=4k", "-F", "2000"], 2, True)):
        command = ["/bin/sh", "-c", f"{context.program('shares')} --seconds {seconds}; :"]
        profile = tally.recorded(context, command, options)
        context.check("share_60" in profile.functions(), "share_60 is not in the profile")
        profile.report()
        (all_,), = profile.rows("select sum(samples) from data_cells")
        (entries, size), = profile.rows("select sum(entries), sum(length(bytes)) from data_timeline where fold = 0")
        left = profile.losses().get(47, 0)
        context.equal(entries + left, all_, f"samples with {options}")
        context.equal(left > 0, full, f"{left} samples left out with {options}, {size} bytes")
        context.check(f"timeline: {entries:,} samples" in profile.errors, profile.errors)


@tap.case
def views_of_the_report(context):
    """Every view names what is hot; --json is JSON; the header says what was measured."""
    profile = tally.recorded(context, [context.program("recursion"), "--seconds", "0.6", "30"])
    for view in ([], ["--flat"], ["--graph"], ["--tree"], ["--paths"], ["--by", "function"], ["--tree", "--limit", "0"]):
        text = profile.report(*view)
        context.check("recursion_leaf" in text, f"report {view} does not name recursion_leaf:\n{text}")
        json.loads(profile.report(*view, "--json"))
    for by in ("line", "address", "image", "thread", "cpu"):
        context.check(profile.report("--by", by).strip(), f"report --by {by} is empty")
        json.loads(profile.report("--by", by, "--json"))
    header = profile.report("-v")
    for word in ("recursion", profile.counter(), "999 Hz", "sample"):
        context.check(word in header, f"the header does not say {word!r}:\n{header[:500]}")
    context.check("recursion.c:" in profile.report("--by", "line"), "lines are not named")


@tap.case
def recursion_counts_once_in_totals(context):
    profile = tally.recorded(context, [context.program("recursion"), "--seconds", "0.6", "200"])
    row, whole = profile.flat()["recursion_step"], profile.total()
    context.check(0.9 * whole <= row["total"] <= whole, f"total of a recursive function: {row['total']} of {whole}")
    context.check(row["self"] < 0.05 * whole, f"self of a recursive function: {row['self']} of {whole}")


@tap.case
def filters_of_the_report(context):
    profile = tally.recorded(context, [context.program("threads"), "--seconds", "1", "4", "--together"])
    tid = profile.rows("select tid from threads where tid != pid order by tid limit 1")[0][0]
    for options in (["--thread", str(tid)], ["--process", "threads"], ["--image", "threads"]):
        context.check("thread_busy" in profile.report(*options), f"report {options} hides thread_busy")
    for options in (["--thread", "999999999"], ["--counter", "no.such"], ["--limit", "x"], ["--by", "nonsense"]):
        result = tally.run(context, [context.tally, "report", profile.path, *options])
        context.equal(result.status, 2, f"status of report {options} ({result.text()})")
        context.equal(len(result.errors.splitlines()), 1, f"lines on stderr of report {options}: {result.errors}")


tap.run()
