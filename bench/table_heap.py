"""Memory counted by tally, heaptrack, gperftools' heap profiler and valgrind's, side by side: what it costs the program."""

import glob
import json
import os
import shutil
import sqlite3
import subprocess
import threading
import time

import measure

NAME = "heap"
TITLE = "Counting memory, beside heaptrack, gperftools, massif and dhat"
SQL = ("create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<400000) "
       "insert into t select x, hex(x) from c; create index i on t(b); select count(*) from t;")
PYTHON = "import json\nfor _ in range(4): d = json.loads(json.dumps([{'k%d' % i: [i, str(i)]} for i in range(60000)]))"
C = """int printf(const char *, ...);
#define F(n) static int f##n(int a, int b) { int s = 0; for (int i = 0; i < a; i++) s += (i * b) ^ (s >> 3); switch (b & 7) { \
case 0: return s + n; case 1: return s - a; case 2: return s * b; case 3: return printf("%d", s); default: return s ^ b; } }
"""
# Name, target CPU of tally at most so many times the program's own.
GOALS = {"mix": 1.25, "churn": 4.5, "sqlite3": 1.5, "jq": 1.45, "python3": 1.3, "cc1": 1.3, "redis": 1.3}
ONCE = ("gperftools", "massif", "dhat", "unw_step")  # tens of times slower: one round is enough to know
ROUNDS_FOR_ALL = 5  # with fewer (--repeat) those are left out: they take most of an hour
PUBLISHED_UNWINDING = 0.13  # a profiler with cached unwinding, of the same with unw_step


def first(*patterns):
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            return path
    return None


def json_file(bench):
    path = bench.path("keys.json")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as out:
            json.dump({f"key{i}": {"a": i, "b": str(i)} for i in range(300000)}, out)
    return path


def c_file(bench):
    path = bench.path("heap.c")
    with open(path, "w", encoding="utf-8") as out:
        out.write(C + "\n".join(f"F({i})" for i in range(1500)) + "\nint main(void) { return "
                  + " + ".join(f"f{i}({i}, 3)" for i in range(1500)) + "; }\n")
    return path


def targets(bench):
    """{name: command}; programs that are not here are left out."""
    own = os.path.join(bench.build, "bench", "bench_heap")
    pairs = 1 if bench.quick else 4
    found = {"mix": [own, "mix", "1", str(pairs * 500000)], "churn": [own, "churn", "1", str(pairs * 2000000)],
             "mix, 2 threads": [own, "mix", "2", str(pairs * 300000)],
             "churn, 2 threads": [own, "churn", "2", str(pairs * 1000000)]}
    if shutil.which("sqlite3"):
        found["sqlite3"] = ["sqlite3", ":memory:", SQL]
    if shutil.which("redis-server") and shutil.which("redis-benchmark"):
        found["redis"] = ["redis-server", "--port", "0", "--unixsocket", bench.path("redis.sock"), "--save", "", "--appendonly", "no"]
    if shutil.which("jq"):
        found["jq"] = ["jq", "-c", ".", json_file(bench)]
    if os.path.exists("/usr/bin/python3"):
        found["python3"] = ["/usr/bin/python3", "-c", PYTHON]
    compiler = first("/usr/lib/gcc/x86_64-linux-gnu/*/cc1", "/usr/libexec/gcc/x86_64-linux-gnu/*/cc1")
    if compiler:
        found["cc1"] = [compiler, "-quiet", "-O1", "-o", "/dev/null", c_file(bench)]
    return found


def peers(bench):
    """{name: (prefix of the command, words before the target)}; those that are here."""
    profile, sampled = bench.path("heap.tally"), bench.path("heap-sampled.tally")
    found = {"alone": ([], [], None),
             "tally": ([bench.tally, "record", "--heap", "--no-time", "-o", profile, "--"], [], profile),
             "tally, sampled": ([bench.tally, "record", "--heap=sample", "--no-time", "-o", sampled, "--"], [], sampled)}
    preload = first("/usr/lib/heaptrack/libheaptrack_preload.so", "/usr/lib/*/heaptrack/libheaptrack_preload.so")
    if preload:
        # As its script does, but for the compression, which is another process's time.
        found["heaptrack"] = ([], ["env", f"LD_PRELOAD={preload}", "DUMP_HEAPTRACK_OUTPUT=" + bench.path("heaptrack.raw")], None)
    tcmalloc = first("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4")
    if tcmalloc:
        found["gperftools"] = ([], ["env", f"LD_PRELOAD={tcmalloc}", "HEAPPROFILE=" + bench.path("gperftools"),
                                    "HEAP_PROFILE_ALLOCATION_INTERVAL=1099511627776", "HEAP_PROFILE_INUSE_INTERVAL=1099511627776"], None)
        found["tcmalloc alone"] = ([], ["env", f"LD_PRELOAD={tcmalloc}"], None)
    unwind = os.path.join(bench.build, "bench", "bench_heap_unwind.so")
    if os.path.exists(unwind):
        found["unw_step"] = ([], ["env", f"LD_PRELOAD={unwind}"], None)
    if shutil.which("valgrind"):
        for tool in ("massif", "dhat"):
            found[tool] = ([], ["valgrind", "-q", f"--tool={tool}", f"--{tool}-out-file=" + bench.path(tool + ".out")], None)
    return found


def ask_redis(bench, socket):
    """The load of the server, the same in every run, and its end."""
    client = ["redis-cli", "-s", socket]
    until = time.monotonic() + 60
    while time.monotonic() < until and subprocess.run(client + ["ping"], capture_output=True, check=False).stdout != b"PONG\n":
        time.sleep(0.05)
    subprocess.run(["redis-benchmark", "-s", socket, "-q", "-c", "20", "-n", "5000" if bench.quick else "100000", "-r", "100000",
                    "-t", "set,get,lpush,hset,zadd"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    subprocess.run(client + ["shutdown", "nosave"], capture_output=True, check=False)


def run(bench, target, prefix=(), before=(), output=None):
    """Runs the target once; a server is asked meanwhile."""
    asking = None
    if target[0] == "redis-server":
        asking = threading.Thread(target=ask_redis, args=(bench, bench.path("redis.sock")))
        asking.start()
    try:
        return measure.run(bench, list(before) + target, list(prefix), output)
    finally:
        if asking:
            asking.join()


def figures_of(profile):
    with sqlite3.connect(f"file:{profile}?mode=ro", uri=True) as db:
        sums = dict(db.execute("SELECT counter, sum(value) FROM stacks GROUP BY counter"))
        memory = db.execute("SELECT value FROM meta WHERE key = 'agent_memory'").fetchone()
    return {"blocks": sums.get("heap.count", 0), "bytes": sums.get("heap.total", 0), "memory": int(memory[0]) if memory else 0,
            "size": os.path.getsize(profile)}


def one(bench, name, target):
    slow = bench.quick or bench.repeat >= ROUNDS_FOR_ALL
    chosen = {peer: found for peer, found in peers(bench).items() if slow or peer not in ONCE}
    results = {peer: [] for peer in chosen}
    run(bench, target)
    for number in range(bench.repeat):
        for peer, (prefix, before, output) in chosen.items():
            if number == 0 or peer not in ONCE:
                results[peer].append(run(bench, target, prefix, before, output))
    found = figures_of(chosen["tally"][2])
    alone = measure.middle(results, "alone", "target_cpu")
    ratios = {peer: measure.ratio(results, peer, "alone") for peer in chosen if peer not in ("alone", "gperftools")}
    if "gperftools" in results:  # it brings another allocator: the profiler's cost is what it takes beyond that one
        ratios["gperftools"] = measure.ratio(results, "gperftools", "tcmalloc alone")
        del ratios["tcmalloc alone"]
    pairs = max(found["blocks"], 1)
    bench.say(f"{name}: " + ", ".join(f"{peer} {value:.2f}" for peer, value in ratios.items()))
    return {"name": name, "alone": alone, "rate": found["blocks"] / alone, "ratios": ratios,
            "ns": (ratios["tally"] - 1) * alone * 1e9 / pairs, **found}


def row(found):
    cell = lambda name: f"{found['ratios'][name]:.2f}" if name in found["ratios"] else "-"
    return [found["name"], f"{found['alone']:.2f} s", f"{found['rate'] / 1e6:.2f} M/s", cell("tally"), f"{found['ns']:.0f} ns",
            cell("tally, sampled"), cell("heaptrack"), cell("gperftools"), cell("massif"), cell("dhat"), cell("unw_step"), measure.megabytes(found["memory"]), measure.megabytes(found["size"])]


def goals(found):
    by = {entry["name"]: entry for entry in found}
    listed = []
    for name, most in GOALS.items():
        if name in by:
            ratio = by[name]["ratios"]["tally"]
            rival = by[name]["ratios"].get("heaptrack")
            listed.append(measure.goal(f"--heap on {name}: at most {most} times the program's CPU",
                                       f"{ratio:.2f}" + (f" (heaptrack {rival:.2f})" if rival else ""), ratio <= most))
    for kind in ("mix", "churn"):
        two, single = by[kind + ", 2 threads"]["ratios"]["tally"], by[kind]["ratios"]["tally"]
        listed.append(measure.goal(f"two threads, {kind}: at most 1.15 times the ratio of one", f"{two / single:.2f}", two <= 1.15 * single))
    sampled = by["mix"]["ratios"]["tally, sampled"]
    listed.append(measure.goal("--heap=sample on the mix: at most 1.02", f"{sampled:.3f}", sampled <= 1.02))
    if "unw_step" in by["mix"]["ratios"]:
        share = {name: (by[name]["ratios"]["tally"] - 1) / (by[name]["ratios"]["unw_step"] - 1) for name in ("mix", "churn", "sqlite3") if name in by}
        listed.append(measure.goal("all that tally adds, of what walking by libunwind's unw_step adds (published: 13 %)",
                                   ", ".join(f"{name} {value:.0%}" for name, value in share.items()),
                                   max(share.values()) <= PUBLISHED_UNWINDING))
    largest = max(entry["size"] for entry in found)
    listed.append(measure.goal("profiles of memory at most 5 MB", measure.megabytes(largest), largest <= 5e6))
    return listed


def memory_goal(bench):
    """Blocks that stay, at the stacks of mix: what the agent's tables take."""
    blocks, profile = 200000 if bench.quick else 2000000, bench.path("hold.tally")
    run(bench, [os.path.join(bench.build, "bench", "bench_heap"), "hold", "1", str(blocks)],
        [bench.tally, "record", "--heap", "--no-time", "-o", profile, "--"], (), profile)
    with sqlite3.connect(f"file:{profile}?mode=ro", uri=True) as db:
        frames = db.execute("SELECT count(*) FROM data_nodes").fetchone()[0]
    memory = figures_of(profile)["memory"]
    return measure.goal(f"tables of the agent, {blocks:,} live blocks of {frames:,} frames: at most 64 bytes a block and 100 a frame",
                        f"{memory / 1e6:.1f} MB, {memory / blocks:.1f} a block", memory <= 64 * blocks + 100 * frames)


def measure_table(bench):
    found = [one(bench, name, target) for name, target in targets(bench).items()]
    header = ["program", "CPU alone", "allocations", "tally", "an allocation", "sampled", "heaptrack", "gperftools", "massif", "dhat",
              "unw_step", "tables", "profile"]
    lines = measure.table(header, [row(entry) for entry in found])
    text = ["Ratios of the target's CPU (user and system) to the program alone in the same round; of gperftools, to the program with",
            "its allocator. *An allocation*: what tally adds to each, with its release. *Tables*: memory that the agent took.",
            "sqlite3: 400,000 rows and an index in memory; jq: -c . on 300,000 keys; python3: json of 60,000 objects, four times; cc1:",
            "1,500 small functions at -O1; redis: the server's CPU under redis-benchmark (100,000 each of set, get, lpush, hset, zadd from",
            "20 clients). massif, dhat, gperftools and unw_step: one round. unw_step: libunwind walks the stack at each allocation and does",
            "nothing else.", ""]
    return {"lines": text + lines, "goals": goals(found) + [memory_goal(bench)]}
