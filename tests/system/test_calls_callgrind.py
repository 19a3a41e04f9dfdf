"""Exact calls beside callgrind's, call site by call site, of real programs and of ours; the reader of callgrind's files beside a
file written by hand; and gprof's counts of programs built for it."""
import os
import re
import subprocess

import callgrind_edges
import calls
import tally
import tap
import workloads

WRITTEN = """# callgrind format
version: 1
creator: hand
cmd: nothing
positions: instr
events: Ir

ob=(1) /bin/one
fl=(1) ???
fn=(1) main
0x1000 1
+4 1
cfn=(2) leaf
calls=7 0x1100
* 21
+0x5 1
jump=3 0x1004
*
jcnd=2/9 0x1000
+2
cob=(2) /lib/two.so
cfn=(3) far'2
calls=1 0x40
+5 9
0x1020 1
cfn=(2)
calls=5 0x1100
0x1020 15

fn=(2)
0x1100 12
cfn=(4)
cob=(2)
calls=2 0x80
0x1104 4
"""


@tap.case
def parser(context):
    trace = callgrind_edges.parse(WRITTEN.splitlines())
    one, two = "/bin/one", "/lib/two.so"
    wanted = {((one, 0x1004), (one, 0x1100)): 7, ((one, 0x1010), (two, 0x40)): 1, ((one, 0x1020), (one, 0x1100)): 5,
              ((one, 0x1104), (two, 0x80)): 2}
    context.equal(dict(trace.calls), wanted, "calls")
    context.equal(dict(trace.jumps), {((one, 0x1009), (one, 0x1004)): 3, ((one, 0x100b), (one, 0x1000)): 2}, "jumps")
    context.equal(trace.names[one, 0x1100], "leaf", "a name that is referred to")
    context.equal(trace.names[two, 0x40], "far", "a name with the depth of its recursion")
    context.equal(trace.instruction_at((one, 0x1008)), (one, 0x1004), "the instruction that an address is in")


@tap.case
def parser_folds_linkage_stubs(context):
    text = "ob=/bin/one\nfn=main\ncob=???\ncfn=0x1090c0\ncalls=4 0x1090c0\n0x1000 8\nob=???\nfn=0x1090c0\ncob=/lib/two.so\ncfn=far\ncalls=4 0x40\n0x1090c2 4\n"
    trace = callgrind_edges.parse(text.splitlines())
    context.equal(trace.unlinked()[("/bin/one", 0x1000), ("/lib/two.so", 0x40)], 4, "calls through a stub")


class Everything:
    """Frames of images that are not there: all is described, every place begins a function."""

    def holds(self, place):
        return bool(place)

    def start(self, place):
        return place[1]


@tap.case
def comparison_sees_differences(context):
    """One call more, one edge more, one caller not known: each is reported."""
    trace = callgrind_edges.parse(WRITTEN.splitlines())
    one, two = "/bin/one", "/lib/two.so"
    rows = [(8, "direct", (one, 0x1008), (one, 0x1100), "leaf"), (1, "indirect", (one, 0x1011), (two, 0x40), "far"),
            (5, "direct", (one, 0x1024), (one, 0x1100), "leaf"), (1, "tail", None, (two, 0x80), None),
            (3, "direct", (one, 0x1000), (two, 0x90), None)]
    comparison = callgrind_edges.Comparison(trace, rows, frames=Everything())
    reported = {(site, callee): (got, wanted) for site, callee, got, wanted in comparison.differences}
    context.equal(reported, {((one, 0x1004), (one, 0x1100)): (8, 7), ((one, 0x1104), (two, 0x80)): (0, 2),
                         ((one, 0x1000), (two, 0x90)): (3, 0)}, "differences")
    context.equal(comparison.equal, 2, "edges that agree")
    context.equal(dict(comparison.unknown), {(two, 0x80): 1}, "calls without a caller")


@tap.case
def truth_sees_differences(context):
    """What the other tests rely on: each kind of disagreement is reported, and agreement is not."""
    truth = [(1, "a", "b", "direct", 5), (2, "a", "b", "direct", 1), (1, "*", "c", "", 2), (1, "d", "b", "", 4)]
    right = [(None, "a", "b", "direct", 6), (None, "x", "c.part.0", "entry", 2), (None, "d(int)", "b", "tail", 4), (None, "m", "n", "direct", 9)]
    context.equal(calls.Comparison(truth, right).wrong, [], "complaints about what is right")
    context.equal(calls.Comparison(truth, right).right, 3, "edges that agree")
    for wrong, word in ((right[1:], "counted 0"), ([*right, (None, None, "b", "tail", 1)], "no such call"), ([*right, (None, "a", "b", "direct", 1)], "counted 7"),
                        ([(None, "a", "b", "indirect", 6), *right[1:]], "(indirect)")):
        reported = calls.Comparison(truth, wrong).wrong
        context.check(reported and any(word in line for line in reported), f"{word} is not reported: {reported}")
    by_process = [(1, "a", "b", "direct", 5), (2, "a", "b", "direct", 1), (1, "x", "c", "", 2), (1, "d", "b", "", 4)]
    context.equal(calls.Comparison(truth, by_process, by_process=True).wrong, [], "complaints by process")
    by_process[0], by_process[1] = (1, "a", "b", "direct", 4), (2, "a", "b", "direct", 2)
    context.equal(len(calls.Comparison(truth, by_process, by_process=True).wrong), 2, "complaints about calls of another process")


EXTRA_RUNS = 6


def without_pid(output):
    return re.sub(rb'"pid":\d+', b"", output)


def counted(context, command, options, name):
    """Of tally, with what ld.so binds bound before anything runs."""
    return tally.record(context, command, calls.options(*options), name, env=dict(os.environ, LD_BIND_NOW="1"))


def still_wrong(context, command, options, results, wrong, output):
    """Hashes of addresses or with a random seed: an edge is wrong only if no other run of either tool explains it."""
    for extra in range(EXTRA_RUNS):
        if not wrong:
            break
        callgrind_edges.run_callgrind(command, output, cwd=context.directory, timeout=200)
        trace = callgrind_edges.read(output)
        results.append(counted(context, command, options, f"extra{extra}"))
        varying = callgrind_edges.varying(trace, [result.profile for result in results])
        again = {difference[:2] for difference in callgrind_edges.compare(trace, results[0].profile, varying=varying).differences}
        wrong = [difference for difference in wrong if difference[:2] in again]
    return wrong


def compared(context, command, least, options=(), runs=1, status=0, resolvers=()):
    """Runs the command below both; not one edge may differ, but those that differ between tally's own `runs`, and calls of
    `resolvers`, which ld.so makes before an object is ready."""
    tap.need("valgrind", "readelf")
    output = context.path("callgrind.out")
    made = callgrind_edges.run_callgrind(command, output, cwd=context.directory, timeout=200)
    context.equal(made.returncode, status, f"status of callgrind ({made.stderr[-500:]!r})")
    results = [counted(context, command, options, f"profile{run}") for run in range(runs)]
    for result in results:
        context.equal(result.status, status, f"status of tally ({result.errors[-500:]!r})")
        if b"CPU time" not in result.output:
            context.equal(without_pid(result.output), without_pid(made.stdout), "what the program wrote")
    trace = callgrind_edges.read(output)
    differing = callgrind_edges.varying(trace, [result.profile for result in results]) if runs > 1 else ()
    comparison = callgrind_edges.compare(trace, results[0].profile, varying=differing)
    wrong = [difference for difference in comparison.differences if comparison.names.get(difference[1]) not in resolvers]
    if runs > 1:
        wrong = still_wrong(context, command, options, results, wrong, output)
    context.note(comparison.summary() + (f", {len(differing)} vary by themselves" if differing else ""))
    context.check(not wrong, "\n".join(comparison.lines(40)))
    context.check(len(differing) <= 6, f"{len(differing)} edges vary from run to run")
    context.equal(sum(comparison.unknown.values()), 0, "calls without a caller")
    context.check(comparison.equal >= least, f"only {comparison.equal} edges to compare")
    return comparison


@tap.case
def gzip(context):
    tap.need("gzip")
    compared(context, ["gzip", "-9", "-n", "-c", workloads.text_file(context, 1)], 60)


@tap.case
def gunzip(context):
    tap.need("gzip")
    path = workloads.text_file(context, 1)
    subprocess.run(["gzip", "-n", path], check=True)
    compared(context, ["gzip", "-d", "-c", path + ".gz"], 30)


@tap.case
def bzip2(context):
    compared(context, workloads.bzip2(context, 1), 40)


LUA = """
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local words = {}
for i = 1, 3000 do words[i] = string.format("%07d", (i * 7919) % 1000003) end
table.sort(words)
local text = table.concat(words, " ")
local count = select(2, text:gsub("%d(%d)", "%1x"))
local ok, message = pcall(error, "thrown")
local thread = coroutine.wrap(function() for i = 1, 500 do coroutine.yield(i) end end)
local sum = 0
for i = 1, 500 do sum = sum + thread() end
print(fib(15), count, ok, message, sum)
"""


@tap.case
def lua(context):
    tap.need("lua5.4")
    compared(context, ["/usr/bin/lua5.4", workloads.write(context, "work.lua", LUA)], 1000, runs=4)


def formula(context, variables=110, clauses=430):
    """A random satisfiability problem near where they are hard; always the same."""
    state, lines = 20261121, [f"p cnf {variables} {clauses}"]
    for _ in range(clauses):
        words = []
        for _ in range(3):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            words.append(str((state >> 33) % variables + 1 if state >> 20 & 1 else -((state >> 33) % variables + 1)))
        lines.append(" ".join(words) + " 0")
    return workloads.write(context, "formula.cnf", "\n".join(lines) + "\n")


@tap.case
def minisat(context):
    """C++, two libraries. Its status says that the formula can be satisfied."""
    tap.need("minisat")
    compared(context, ["minisat", "-verb=0", formula(context), context.path("model")], 250, status=10)


@tap.case
def cpp(context):
    """Virtual calls, members by pointer, exceptions."""
    compared(context, [context.program("calls_cpp"), "300"], 40)


@tap.case
def mix(context):
    compared(context, [context.program("calls_mix"), "300"], 30)


@tap.case
def tail(context):
    compared(context, [context.program("calls_tail"), "300"], 15)


@tap.case
def linkage(context):
    compared(context, [context.program("calls_linkage"), "300"], 20, resolvers=("choose",))


# --- gprof ---

def gprof_calls(context, program, directory):
    """{function: calls} of the call graph."""
    text = subprocess.run(["gprof", "-b", "-q", program, os.path.join(directory, "gmon.out")], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout.decode()
    found = {}
    for line in text.splitlines():  # a function's own line: calls from others + calls of itself
        words = re.match(r"\[\d+\]\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+(\d+)(?:\+(\d+))?\s+(\S.*?)( <cycle \d+>)? \[\d+\]$", line)
        if words:
            name = calls.plain(words.group(3))
            found[name] = found.get(name, 0) + int(words.group(1)) + int(words.group(2) or 0)
    return found


def beside_gprof(context, compiler, source, arguments, least):
    tap.need(compiler, "gprof")
    program = context.path("profiled")
    built = tally.run(context, [compiler, "-O2", "-pg", "-no-pie", "-fno-pie", "-o", program, source])
    context.equal(built.status, 0, f"status of the compiler ({built.text()})")
    profile = calls.counted(context, [program, *arguments])
    wanted = gprof_calls(context, program, context.directory)
    got = {}
    for _, caller, callee, kind, number in calls.edges(profile):
        got[calls.plain(callee)] = got.get(calls.plain(callee), 0) + number
    compared_names = [name for name in wanted if name not in ("mix_compare",)]  # called from libc: gprof does not see that
    for name in compared_names:
        context.equal(got.get(name, 0), wanted[name], f"calls of {name} beside gprof's")
    context.check(len(compared_names) >= least, f"only {len(compared_names)} functions in gprof's table: {wanted}")
    calls.check(context, profile)


def sources(context, name):
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs", name)
    return path


@tap.case
def gprof_c(context):
    beside_gprof(context, "gcc", sources(context, "calls_mix.c"), ["1000"], 14)


@tap.case
def gprof_cpp(context):
    beside_gprof(context, "g++", sources(context, "calls_cpp.cpp"), ["500"], 9)


tap.run()
