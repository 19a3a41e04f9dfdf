"""Running a program below a profiler, and what it cost each of them.

The target always runs below bench_target, which writes down the target's own CPU; what the whole command used beyond
that is the profiler's. Configurations are interleaved: every round runs each of them once, so that a machine that
drifts drifts for all, and ratios are taken within a round. Rounds go to and fro: what is first in one is last in the next, so
that none always runs behind the same other, on a machine that one has warmed or left busy.
"""
import os
import sqlite3
import statistics
import subprocess
import sys
import time


class Run:
    """One run: CPU of the target and of the tool, wall-clock of the target, time until the prompt was back (seconds)."""

    def __init__(self, target_cpu, tool_cpu, wall, prompt, size):
        self.target_cpu, self.tool_cpu, self.wall, self.prompt, self.size = target_cpu, tool_cpu, wall, prompt, size
        self.samples = 0  # in the profile, if it is tally's


class Bench:
    """Where things are, how often each is run, and a directory for what runs leave (one for each table)."""

    def __init__(self, build, repeat, quick):
        self.build, self.repeat, self.quick = build, repeat, quick
        self.tally = os.path.join(build, "tally")
        self.launcher = os.path.join(build, "bench", "bench_target")
        self.work = os.path.join(build, "bench", "work")
        os.makedirs(self.work, exist_ok=True)

    def path(self, name):
        return os.path.join(self.work, name)

    def say(self, text):
        print(f"bench: {text}", file=sys.stderr, flush=True)


def wait_usage(process):
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def run(bench, target, prefix, output=None, stdin=None):
    """Runs `prefix` + launcher + target. `prefix` is the profiler's command line ([] for none), `output` its file."""
    report = bench.path("target.txt")
    for leftover in (report, output):
        if leftover and os.path.exists(leftover):
            os.unlink(leftover)
    command = prefix + [bench.launcher, report] + target
    with open(stdin or os.devnull, "rb") as source, open(bench.path("stderr.txt"), "wb") as errors:
        process = subprocess.Popen(command, stdin=source, stdout=subprocess.DEVNULL, stderr=errors)
        whole = wait_usage(process)
    back = time.monotonic()
    if process.returncode != 0 or not os.path.exists(report):
        with open(bench.path("stderr.txt"), encoding="utf-8", errors="replace") as errors:
            raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}\n{errors.read()[-2000:]}")
    with open(report, encoding="utf-8") as text:
        user, system, wall, end = (int(word) / 1e9 for word in text.read().split())
    size = os.path.getsize(output) if output else 0
    return Run(user + system, max(0.0, whole - user - system), wall, back - end, size)


def rounds(bench, target, configurations, stdin=None, repeat=None):
    """{name: [Run...]} for {name: (prefix, output)}, interleaved, to and fro, after one run to warm caches that is not counted."""
    results = {name: [] for name in configurations}
    run(bench, target, [], None, stdin)
    for number in range(repeat or bench.repeat):
        for name in reversed(configurations) if number % 2 else configurations:
            prefix, output = configurations[name]
            one = run(bench, target, prefix, output, stdin)
            one.samples = samples_in(output) if prefix and prefix[0] == bench.tally else 0
            results[name].append(one)
    return results


def reached(results, name, rate):
    """Median share of the samples that CPU time x rate is worth."""
    return median([one.samples / (one.target_cpu * rate) for one in results[name]])


def median(values):
    return statistics.median(values)


def ratio(results, name, base, what="target_cpu"):
    """Median over the rounds of a quotient within a round."""
    return median([getattr(one, what) / max(getattr(other, what), 1e-9)
                   for one, other in zip(results[name], results[base])])


def middle(results, name, what):
    return median([getattr(one, what) for one in results[name]])


def timed(command, repeat=3, limit=300):
    """Median wall-clock seconds of a command whose output is thrown away; None if it fails or takes over `limit`."""
    times = []
    for _ in range(repeat):
        start = time.monotonic()
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode != 0:
            return None
        times.append(time.monotonic() - start)
        if times[0] > 5:
            break
    return median(times)


def samples_in(path):
    """How many samples a profile of tally's holds."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as profile:
        return profile.execute("SELECT sum(samples) FROM flat WHERE self > 0").fetchone()[0] or 0


def tally_prefix(bench, rate, output, stacks="full"):
    return [bench.tally, "record", "-F", str(rate), f"--stacks={stacks}", "-o", output, "--"]


def perf_prefix(rate, output, graph):
    return ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(rate), "--call-graph", graph, "-o", output, "--"]


def table(header, rows):
    """Lines of a Markdown table; figures are set to the right."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join([" --- "] + [" ---: "] * (len(header) - 1)) + "|"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def megabytes(size):
    return f"{size / 1e6:.2f} MB" if size < 1e7 else f"{size / 1e6:.0f} MB"


def seconds(value):
    if value is None:
        return "failed"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def goal(text, figure, held):
    """One line of the issue's list, with the figure that was measured."""
    return {"goal": text, "figure": figure, "held": bool(held)}
