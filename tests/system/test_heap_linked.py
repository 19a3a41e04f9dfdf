"""Allocators that are linked into a program: counted as the program knows it, and as the allocator says itself."""
import os

import tally
import tap

ALLOCATORS = ("jemalloc", "tcmalloc")
LAG = 64 << 10  # jemalloc looks at its peaks after so many bytes (PEAK_EVENT_WAIT)
LOST = "SELECT coalesce(sum(count), 0) FROM losses WHERE number IN (30, 31, 32, 33, 34, 36, 38)"


def own(profile, counter, pid=None):
    """What the functions own_* have of a counter themselves, of one process or of all."""
    return profile.rows(
        "SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
        " JOIN data_strings s ON s.id = k.name JOIN data_frames f ON f.node = c.node"
        " JOIN data_threads t ON t.id = c.thread JOIN data_processes p ON p.id = t.process"
        f" WHERE s.text = '{counter}' AND f.function GLOB 'own_*'" + (f" AND p.pid = {pid}" if pid else ""))[0][0]


def figures(profile):
    return tuple(own(profile, name) for name in ("heap.total", "heap.count", "heap.live", "heap.live.count"))


def named(text):
    words = text.split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def check_program(context, profile, said, what):
    """Requested bytes, or those that blocks take, against what the program added up."""
    bytes_in_all = said["asked"] if what == "none" else said["taken"]
    got = figures(profile)
    context.equal((got[0], got[1], got[3]), (bytes_in_all, said["blocks"], said["live-blocks"]), f"{what}: bytes, blocks, live blocks")
    if what == "include":
        context.equal(got[2], said["live"], "live bytes")
    context.equal(profile.rows(LOST), [(0,)], f"{what}: allocations that were lost")


def check_allocator(context, allocator, mode, profile, said):
    """What the allocator says of itself is what the program knows, and what Tally counted."""
    total, _, live, _ = figures(profile)
    context.equal(live, said["said-live"], f"{mode}: live bytes, and what the allocator says")
    if allocator == "jemalloc":
        context.equal(total, said["said-total"], f"{mode}: bytes, and what the allocator's threads say")


def check_peak(context, allocator, profile, said):
    """Of one thread: exact; jemalloc's own word lags behind."""
    peak = own(profile, "heap.peak")
    context.equal(peak, said["peak"], "bytes at the peak")
    if allocator == "jemalloc":
        context.check(peak - LAG < said["said-peak"] <= peak, f"the allocator's peak is {said['said-peak']}, ours {peak}")


def with_statistics(allocator):
    def case(context):
        program = context.program(f"allocator_truth_{allocator}")
        for mode in ("single", "threads"):
            for what in ("include", "none"):
                profile = tally.recorded(context, [program, mode], ["--heap", "--no-time", f"--heap-overhead={what}"])
                said = named(profile.output)
                check_program(context, profile, said, what)
                if what == "include":
                    check_allocator(context, allocator, mode, profile, said)
                if what == "include" and mode == "single":
                    check_peak(context, allocator, profile, said)
    return case


def reported(path):
    with open(path, encoding="utf-8") as file:
        return [[int(word) for word in line.split()] for line in file]


def with_truth(allocator):
    """Threads that release each other's blocks, forks, an end by SIGKILL: as with libc's allocator."""
    def case(context):
        program = context.program(f"heap_truth_{allocator}")
        for mode, status in (("single", 0), ("threads", 0), ("fork", 0), ("killed", 137)):
            path = context.path("truth_" + mode)
            open(path, "w", encoding="utf-8").close()
            profile = tally.recorded(context, [program, mode], ["--heap", "--no-time"], status=status, env=dict(os.environ, TRUTH=path))
            rows = reported(path)
            context.equal(len(rows), 2 if mode == "fork" else 1, f"{mode}: processes that reported")
            for pid, *truth, peak in rows:
                got = [own(profile, name, pid) for name in ("heap.total", "heap.count", "heap.live", "heap.live.count")]
                context.equal(got, truth, f"{mode}: bytes, blocks, live bytes and blocks")
                if mode == "single":
                    context.equal(own(profile, "heap.peak"), peak, "own blocks at the peak")
            context.equal(profile.rows(LOST), [(0,)], f"{mode}: allocations that were lost")
    return case


def with_new(allocator):
    """Its operators new and delete, which call no malloc; and they throw through what is hooked."""
    def case(context):
        profile = tally.recorded(context, [context.program(f"heap_new_{allocator}"), "5000"], ["--heap", "--no-time"])
        truth = tuple(int(word) for word in profile.output.split())
        got = tuple(profile.rows(f"SELECT coalesce(sum(value), 0) FROM stacks WHERE counter = '{counter}' AND stack GLOB '*own_new*'"
                                 " AND NOT stack GLOB '*__cxa_allocate_exception'")[0][0]
                    for counter in ("heap.total", "heap.count", "heap.live", "heap.live.count"))
        context.equal(got, truth, "bytes, blocks, live bytes and blocks")
    return case


tap.cases([f"statistics_{name}" for name in ALLOCATORS], lambda name: with_statistics(name.split("_")[1]))
tap.cases([f"truth_{name}" for name in ALLOCATORS], lambda name: with_truth(name.split("_")[1]))
tap.cases([f"new_{name}" for name in ALLOCATORS], lambda name: with_new(name.split("_")[1]))
tap.run()
