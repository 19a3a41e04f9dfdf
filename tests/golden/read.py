#!/usr/bin/python3
"""read - a second reader of profiles, made from doc/format.md alone, and what it says of a file compared with the views.

    read.py FILE.tally...    TAP: each file of every version must stay readable, and its views must agree with its tables
"""
import collections
import math
import sqlite3
import sys


def frames_of(profile):
    """What each address is called, and its image."""
    text = dict(profile.execute("SELECT id, text FROM data_strings")) | {0: ""}
    images = {row[0]: (text[row[1]], row[4]) for row in profile.execute("SELECT * FROM data_images")}
    functions = {row[0]: text[row[1]] for row in profile.execute("SELECT * FROM data_functions")}
    frames = {}
    for number, address, image, function in profile.execute("SELECT id, address, image, function FROM data_addresses"):
        name, kind = images[image]
        plain = name if kind == 5 else f"{name}+0x{address % 2**64:x}"
        frames[number] = (functions.get(function) or plain, name)
    return frames


def read(path):
    """Everything a report needs, from the tables."""
    profile = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    profile.execute("PRAGMA trusted_schema = OFF")
    frames = frames_of(profile)
    nodes = {row[0]: (row[1], frames[row[2]]) for row in profile.execute("SELECT * FROM data_nodes")}
    cells = profile.execute("SELECT node, counter, value, samples FROM data_cells").fetchall()
    return profile, nodes, cells


def stack_of(nodes, node):
    stack = []
    while node:
        parent, frame = nodes[node]
        stack.append(frame)
        node = parent
    return stack[::-1]


def overhead_of(profile):
    """The nodes that are Tally's own."""
    text = dict(profile.execute("SELECT id, text FROM data_strings")) | {0: ""}
    images = {number: (text[name], kind) for number, name, kind in profile.execute("SELECT id, name, kind FROM data_images")}
    image_of = {number: images.get(image, ("", 0)) for number, image in profile.execute("SELECT id, image FROM data_addresses")}
    nodes = {number: (parent, address, flags) for number, parent, address, flags in profile.execute(
        "SELECT id, parent, address, flags FROM data_nodes")}

    def is_overhead(node):
        while node in nodes and node:
            parent, address, flags = nodes[node]
            name, kind = image_of[address]
            if name in ("[tally-agent]", "[tally-stubs]"):
                return True
            if not flags & 4 and kind not in (2, 3) and name != "(folded)":
                return False
            node = parent
        return False

    return {node for node in nodes if is_overhead(node)}


def wilson(hits, samples):
    z, share = 1.959963984540054, hits / samples
    scale = 1 + z * z / samples
    centre = (share + z * z / (2 * samples)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    return max(0, centre - half), min(1, centre + half)


KINDS = {1: "direct", 2: "indirect", 3: "tail", 4: "entry"}


def check_calls(profile):
    """The views of calls; files of version 1 have none."""
    if profile.execute("PRAGMA user_version").fetchone()[0] < 2:
        return []
    threads = {number: (pid, tid) for number, pid, tid in profile.execute(
        "SELECT t.id, p.pid, t.tid FROM data_threads t JOIN data_processes p ON p.id = t.process")} | {0: (None, None)}
    frames = frames_of(profile) | {0: (None, None)}
    edges, calls = collections.Counter(), collections.Counter()
    for site, callee, thread, kind, count in profile.execute("SELECT site, callee, thread, kind, calls FROM data_edges"):
        key = frames[site] + frames[callee] + (KINDS[kind],)
        edges[key] += count
        calls[threads[thread] + key] += count
    found = profile.execute("SELECT caller, caller_image, callee, callee_image, kind, calls FROM edges").fetchall()
    wrong = [] if {row[:-1]: row[-1] for row in found} == edges and len(found) == len(edges) else ["edges differ"]
    if [row[-1] for row in found] != sorted(edges.values(), reverse=True):
        wrong.append("edges are out of order")
    found = profile.execute("SELECT pid, tid, caller, caller_image, callee, callee_image, kind, calls FROM calls").fetchall()
    seen = collections.Counter()  # of merged recordings several may have a thread of one number
    for row in found:
        seen[row[:-1]] += row[-1]
    if seen != calls:
        wrong.append("calls differ")
    return wrong


COVERAGE_KINDS = {1: "sites", 2: "indirect", 3: "functions", 4: "taken", 5: "listed"}


def check_coverage(profile):
    """The views of what was counted; files of versions 1 and 2 have none."""
    if profile.execute("PRAGMA user_version").fetchone()[0] < 3:
        return []
    text = dict(profile.execute("SELECT id, text FROM data_strings")) | {0: None}
    images = {row[0]: (text[row[1]], text[row[2]]) for row in profile.execute("SELECT id, name, path FROM data_images")}
    coverage = [images[image] + (COVERAGE_KINDS[kind], found, counted) for image, kind, found, counted in profile.execute(
        "SELECT image, kind, found, counted FROM data_coverage ORDER BY image, kind")]
    left = [images[image] + (code, text[reason], count) for image, code, reason, count in profile.execute(
        "SELECT image, code, reason, count FROM data_left WHERE count > 0 ORDER BY image, count DESC, code")]
    uncovered = [images[image] + (text[name] or f"{images[image][0]}+0x{address % 2**64:x}", address, text[reason])
                 for image, address, name, reason in profile.execute(
                     "SELECT image, address, name, reason FROM data_uncovered ORDER BY id")]
    wrong = []
    for view, expected in (("coverage", coverage), ("coverage_left", left), ("uncovered", uncovered)):
        if profile.execute(f"SELECT * FROM {view}").fetchall() != expected or not expected:
            wrong.append(f"{view} differs")
    listed = collections.Counter(row[0] for row in profile.execute("SELECT path FROM uncovered"))
    if {path: counted for _, path, kind, _, counted in coverage if kind == "listed"} != listed:
        wrong.append("the functions that are listed are not as many as that says")
    return wrong + [f"{row} is more than everything" for row in coverage if row[4] > row[3]]


def check_origins(profile):
    """The views of merged recordings; the column is not in files from before there was merging."""
    columns = {row[1] for row in profile.execute("PRAGMA table_info(data_processes)")}
    if "origin" not in columns:
        return []
    text = dict(profile.execute("SELECT id, text FROM data_strings")) | {0: None}
    meta = dict(profile.execute("SELECT key, value FROM data_meta"))
    keys = ("name", "file", "hostname", "command", "start_time", "duration_ns", "rate_hz", "complete")
    origins = [(n, *(meta.get(f"origin.{n}.{key}") for key in keys)) for n in range(1, int(meta.get("origins", 0)) + 1)]
    processes = [(pid, parent, text[name], text[command], start, end, origin or None) for pid, parent, name, command, start,
                 end, origin in profile.execute("SELECT pid, parent_pid, name, command, start_ns, end_ns, origin "
                                                "FROM data_processes")]
    if "cgroup" in columns:
        groups = [text[group] for group, in profile.execute("SELECT cgroup FROM data_processes")]
        processes = [row + (group,) for row, group in zip(processes, groups)]
    wrong = []
    for view, expected in (("origins", origins), ("processes", processes)):
        if profile.execute(f"SELECT * FROM {view}").fetchall() != expected:
            wrong.append(f"{view} differs")
    if len({row[1] for row in origins}) != len(origins):
        wrong.append("two origins have one name")
    return wrong + [f"process {row[0]} is of no recording" for row in processes if not 0 <= (row[6] or 0) <= len(origins)]


def check_memory(profile):
    """The views of peaks and leaks, since version 4. heap.live is of one stack what its cells add up to."""
    if profile.execute("PRAGMA user_version").fetchone()[0] < 4:
        return []
    text = dict(profile.execute("SELECT id, text FROM data_strings")) | {0: None}
    names = {number: text[name] for number, name in profile.execute("SELECT id, name FROM data_counters")}
    processes = {number: (pid, text[name], origin or None) for number, pid, name, origin in profile.execute(
        "SELECT id, pid, name, origin FROM data_processes")}
    rows = sorted(profile.execute("SELECT counter, -value, id, process, time_ns FROM data_peaks").fetchall())
    peaks = [processes[process][:2] + (names[counter], -less, time, processes[process][2])
             for counter, less, _, process, time in rows]
    wrong = [] if profile.execute("SELECT pid, process, counter, value, time_ns, origin FROM peaks").fetchall() == peaks else [
        "peaks differ"]
    leaks = collections.defaultdict(lambda: [0, 0])
    for counter, stack, value in profile.execute("SELECT counter, stack, value FROM stacks"):
        if counter in ("heap.live", "heap.live.count"):
            leaks[stack][counter == "heap.live.count"] += value
    expected = sorted(((-size, -count, stack) for stack, (size, count) in leaks.items() if size or count))
    if profile.execute("SELECT stack, bytes, blocks FROM leaks").fetchall() != [(s, -b, -n) for b, n, s in expected]:
        wrong.append("leaks differ")
    return wrong


def end_of(bucket):
    """Where a bucket of a histogram ends; the last does not."""
    def low(number):
        return number if number < 64 else (32 + number % 32) << (number // 32 - 1)
    return low(bucket), low(bucket + 1) if bucket < 1375 else None


def percentile(buckets, permille, most):
    """Of {bucket: calls}: the last time of the one that the call of that rank is in."""
    rank, seen = -(-sum(buckets.values()) * permille // 1000), 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= rank:
            high = end_of(bucket)[1]
            return most if high is None else min(high - 1, most)
    return None


def check_latency(profile):
    """The views of how long calls took, since version 5."""
    if profile.execute("PRAGMA user_version").fetchone()[0] < 5:
        return []
    frames = frames_of(profile)
    rows = profile.execute("SELECT id, address, sum_ns, min_ns, max_ns FROM data_latency").fetchall()
    address_of = {row[0]: row[1] for row in rows}
    buckets = collections.defaultdict(collections.Counter)
    for latency, bucket, calls in profile.execute("SELECT latency, bucket, calls FROM data_latency_calls"):
        buckets[address_of[latency]][bucket] += calls
    expected = []
    for address, counts in buckets.items():
        mine = [row for row in rows if row[1] == address]
        most = max(row[4] for row in mine)
        expected.append(frames[address] + (sum(counts.values()), min(row[3] for row in mine)) + tuple(
            percentile(counts, permille, most) for permille in (500, 900, 990, 999)) + (most, sum(row[2] for row in mine)))
    found = profile.execute("SELECT function, image, calls, min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, sum_ns "
                            "FROM latency").fetchall()
    wrong = [] if collections.Counter(found) == collections.Counter(expected) and found else ["latency differs"]
    if [row[-1] for row in found] != sorted((row[-1] for row in expected), reverse=True):
        wrong.append("latency is out of order")
    expected = collections.Counter(frames[address] + end_of(bucket) + (calls,) for address, counts in buckets.items()
                                   for bucket, calls in counts.items())
    found = profile.execute("SELECT function, image, low_ns, high_ns, calls FROM latency_buckets").fetchall()
    return wrong + ([] if collections.Counter(found) == expected else ["latency_buckets differs"])


def check(path):
    """What differs between the views and the tables: nothing, one hopes."""
    profile, nodes, cells = read(path)
    counters = {row[0]: row for row in profile.execute("SELECT id, name, unit, exact FROM counters")}
    own, total, hits, stacks = (collections.Counter() for _ in range(4))
    largest = {row[0] for row in profile.execute("SELECT id FROM data_counters WHERE combine = 2")}

    def combine(counter, figures, key, value):
        figures[key] = max(figures[key], value) if counter in largest else figures[key] + value

    newest = profile.execute("SELECT count(*) FROM sqlite_master WHERE name = 'data_overhead'").fetchone()[0]
    overhead = overhead_of(profile) if newest else set()
    for node, counter, value, samples in cells:
        if node in overhead and not counters[counter][3]:
            continue
        stack = stack_of(nodes, node)
        if newest:
            stack = [frame for frame in stack if frame[1] not in ("[tally-agent]", "[tally-stubs]")]
        combine(counter, stacks, (counters[counter][1], ";".join(name for name, _ in stack)), value)
        hits[counter] += samples
        for frame in set(stack):
            combine(counter, total, (counter, frame), value)
        if stack:
            combine(counter, own, (counter, stack[-1]), value)
            hits[counter, stack[-1]] += samples
    wrong = []
    if collections.Counter({(c, s): v for c, s, v in profile.execute("SELECT counter, stack, value FROM stacks")}) != stacks:
        wrong.append("stacks differ")
    ids = {row[1]: number for number, row in counters.items()}
    rows = profile.execute("SELECT function, image, counter, self, total, self_low, self_high, samples FROM flat").fetchall()
    if len(rows) != len(total):
        wrong.append(f"flat has {len(rows)} rows, not {len(total)}")
    for function, image, counter, self_value, total_value, low, high, samples in rows:
        number = ids[counter]
        key = number, (function, image)
        if (own[key], total[key], hits[key]) != (self_value, total_value, samples):
            wrong.append(f"{function}: {self_value}, {total_value}, {samples} in flat")
        if not counters[number][3] and hits[number]:
            expected = wilson(samples, hits[number])
            if max(abs(low - expected[0]), abs(high - expected[1])) > 1e-6:
                wrong.append(f"{function}: interval {low} to {high}")
    if newest and {node for node, in profile.execute("SELECT node FROM data_overhead")} != overhead:
        wrong.append("data_overhead differs")
    wrong += check_calls(profile) + check_coverage(profile) + check_origins(profile)
    wrong += check_memory(profile) + check_latency(profile)
    if not rows or not nodes:
        wrong.append("the file is empty")
    return wrong


def main(paths):
    print(f"1..{len(paths)}")
    failed = False
    for number, path in enumerate(paths, 1):
        wrong = check(path)
        failed |= bool(wrong)
        for line in wrong[:10]:
            print(f"# {line}")
        print(f"{'not ok' if wrong else 'ok'} {number} - {path.rsplit('/', 1)[-1]}")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
