"""Exact calls of programs that count their own (tests/programs/calls_truth.h): to the unit, whoever calls whom and how."""
import json
import os
import re
import signal
import subprocess
import time

import calls
import tally
import tap


@tap.case
def one_thread(context):
    calls.check(context, calls.counted(context, [context.program("calls_threads"), "fixed", "1", "100000"]), least=5)


@tap.case
def threads_at_once(context):
    """Eight threads in the same functions."""
    profile = calls.counted(context, [context.program("calls_threads"), "fixed", "8", "50000"])
    calls.check(context, profile, least=6)
    per_thread = profile.rows("select tid, sum(calls) from calls where callee = 'thread_leaf' group by tid")
    context.equal(sorted(number for _, number in per_thread), [50000] * 8, "calls of thread_leaf by thread")


@tap.case
def ten_thousand_threads(context):
    profile = calls.counted(context, [context.program("calls_threads"), "churn", "10000"])
    calls.check(context, profile, least=3)


@tap.case
def thread_that_outlives_many(context):
    """Its running totals were written before so many others had ended that threads are not distinguished any more."""
    calls.check(context, calls.counted(context, [context.program("calls_threads"), "outlive", "400"]), least=3)


@tap.case
def threads_that_make_threads(context):
    calls.check(context, calls.counted(context, [context.program("calls_threads"), "nested", "60"]), least=3)


@tap.case
def threads_with_time(context):
    """The same while time is sampled; both are in the profile."""
    profile = tally.recorded(context, [context.program("calls_threads"), "fixed", "4", "2000000"], ["--calls"])
    calls.check(context, profile, least=6)
    context.check(profile.total() > 0, "no samples")
    strange = {name for name in profile.functions() if "tally" in name or name == "stub"}
    context.equal(strange, set(), "functions of tally's own in the stacks")


def process(mode, count, by_process, least=2):
    def run(context):
        profile = calls.counted(context, [context.program("calls_process"), mode, count])
        calls.check(context, profile, by_process=by_process, least=least)
    run.__name__ = "process_" + mode
    tap.case(run)


process("leaf", "1000", True)
process("fork", "4", True, 20)
process("exec", "5", True)
process("vfork", "5", False)
process("spawn", "4", True)
process("memory", "5", False, 4)
process("untraced", "5", False, 4)
process("thread", "40", True)
process("children", "30", True, 120)
process("crowd", "60", True, 3)


@tap.case
def signals(context):
    calls.check(context, calls.counted(context, [context.program("calls_signals"), "300000", "100"]), least=8)


@tap.case
def jumps(context):
    """longjmp, coroutines; and backtrace() sees the same functions as without tally."""
    command = [context.program("calls_jumps"), "2000"]
    profile = calls.counted(context, command)
    calls.check(context, profile, least=16)
    bare = tally.run(context, command)
    context.equal(calls.other_lines(profile.output), calls.other_lines(bare.output.decode()), "backtraces")


@tap.case
def cpp(context):
    profile = calls.counted(context, [context.program("calls_cpp"), "1000"])
    calls.check(context, profile, least=16)
    bare = tally.run(context, [context.program("calls_cpp"), "1000"])
    context.equal(calls.other_lines(profile.output), calls.other_lines(bare.output.decode()), "what the program computes")


def linkage(variant, environment):
    def run(context):
        profile = calls.counted(context, [context.program("calls_linkage" + variant), "2000"], env=dict(os.environ, **environment))
        calls.check(context, profile, least=7)
    run.__name__ = "linkage" + variant + ("_bound" if environment else "")
    tap.case(run)


linkage("", {})
linkage("", {"LD_BIND_NOW": "1"})
linkage("_now", {})
linkage("_noplt", {})
linkage("_ibt", {})


@tap.case
def dlopen(context):
    """Constructors are counted, and two libraries at one address are distinguished."""
    plugins = [context.program(f"calls_plugin_{letter}.so") for letter in "ab"]
    profile = calls.counted(context, [context.program("calls_dlopen"), *plugins, "10"])
    calls.check(context, profile, least=16)
    context.equal(calls.other_lines(profile.output), ["reused 10 of 10"], "the libraries' addresses")


@tap.case
def asked_by_name(context):
    """dlsym on a library that is there from the start."""
    calls.check(context, calls.counted(context, [context.program("calls_dlsym"), "2000"]), least=5)


@tap.case
def tail_calls(context):
    calls.check(context, calls.counted(context, [context.program("calls_tail"), "5000"]), least=16)


@tap.case
def a_hundred_thousand_callers(context):
    """Of one function, by its address: exact for each of them."""
    profile = calls.counted(context, [context.program("calls_sites"), "3"])
    calls.check(context, profile, least=201)
    rows = profile.rows("""select e.site, sum(e.calls) from data_edges e join data_addresses a on a.id = e.callee
        join data_functions f on f.id = a.function join data_strings s on s.id = f.name where s.text = 'site_leaf' group by e.site""")
    context.equal(len(rows), 100000, "callers of site_leaf")
    context.equal({number for _, number in rows}, {3}, "calls of each")


@tap.case
def gs_is_the_programs_own(context):
    profile = calls.counted(context, [context.program("calls_gs"), "50000"])
    calls.check(context, profile, least=4)
    context.equal(calls.other_lines(profile.output), ["wrong 0 0"], "what the program found at gs")


@tap.case
def functions_without_room_for_a_hook(context):
    """Alone and with a second thread: hooks over islands, and a function behind one that stays whole."""
    profile = calls.counted(context, [context.program("calls_loops"), "30000"])
    calls.check(context, profile, least=4)
    names = {name for name, in profile.rows("select function from uncovered where function like 'loops_%'")}
    context.equal(names, set(), "functions with calls that are not counted")


# --- choosing ---

@tap.case
def names(context):
    """--calls=GLOB: callers or callees of these names."""
    profile = tally.recorded(context, [context.program("calls_threads"), "fixed", "2", "1000"], ["--calls=thread_leaf", "--no-time"])
    found = {(calls.plain(caller), calls.plain(callee)) for _, caller, callee, _, number in calls.edges(profile) if number}
    context.equal(found, {("thread_round", "thread_leaf")}, "edges")
    truth = [row for row in calls.truths(profile.output) if row[2] == "thread_leaf"]
    context.equal(calls.Comparison(truth, calls.edges(profile)).wrong, [], "edges that are not as they were")


@tap.case
def written_names(context):
    """Functions named as they are written: with parameters or without, of a class, with commas inside."""
    sizes = {"shop::price(long, char)", "shop::Till::total() const"}
    for option, wanted in (("shop::price", {"shop::price(long)", "shop::price(long, char)"}), ("shop::price(long, char),shop::Till::total", sizes),
                           ("shop::most<char>", {"char shop::most<char>(char, char)"}), ("shop::Till::operator<,store::keep", {"shop::Till::operator<(shop::Till const&) const", "store::keep"}),
                           ("shop::hide", {"shop::(anonymous namespace)::hide(int*)"}), ("crate::work", {"crate::work"}), ("_ZN4shop5priceEl", {"shop::price(long)"}),
                           ("names_round", None)):
        profile = tally.recorded(context, [context.program("names"), "20"], ["--calls=" + option, "--no-time"])
        found = {callee: number for _, caller, callee, _, number in calls.edges(profile) if number and caller == "names_round(long)"}
        truth = {row[2]: row[4] for row in calls.truths(profile.output) if row[1] == "names_round" and (wanted is None or row[2] in wanted)}
        context.equal(found, truth, f"edges with {option}")


@tap.case
def names_of_nobody(context):
    """Said, with the name that may be meant. A name that some slot has is of somebody."""
    for option, wanted in (("price", "no function price was found in what is counted of the program; did you mean shop::price?"),
                           ("names_round,shop::Till::totl", "no function shop::Till::totl was found in what is counted of the program; did you mean shop::Till::total?"),
                           ("nobody*", "no function nobody* was found in what is counted of the program"), ("fflush,names_round", None), ("shop::*,_ZN4shop5priceEl", None)):
        profile = tally.recorded(context, [context.program("names"), "20"], ["--calls=" + option, "--no-time"])
        said = [line for line in profile.errors.splitlines(keepends=True) if "not counted" in line]
        context.equal([line[line.index("not counted"):] for line in said], [f"not counted: {wanted}\n"] if wanted else [], f"what is said of {option}")


@tap.case
def image(context):
    """--calls-image: only the library's calls, and calls into it."""
    options = ["--calls", "--no-time", "--calls-image", "libcalls_linkage_callee*"]
    profile = tally.recorded(context, [context.program("calls_linkage"), "1000"], options)
    truth = [row for row in calls.truths(profile.output) if row[1] == "linkage_caller"]
    context.equal(len(truth), 2, "edges of the library")
    context.equal(calls.Comparison(truth, [row for row in calls.edges(profile) if row[1] == "linkage_caller"]).wrong, [], "edges")
    inside = {row[2] for row in calls.edges(profile) if row[1] == "main"}
    context.check("linkage_round" not in inside, f"calls within the program: {inside}")


@tap.case
def every_image(context):
    """--calls-image all: the C library's own calls as well; the program's stay what they are."""
    options = ["--calls", "--no-time", "--calls-image", "all"]
    profile = tally.recorded(context, [context.program("calls_threads"), "fixed", "2", "1000"], options)
    calls.check(context, profile, least=6)
    images = {row[0] for row in profile.rows("select distinct caller_image from edges")}
    context.check(any("libc" in (name or "") for name in images), f"callers' images: {images}")


# --- attaching ---

def attached(context, command, more=(), **extra):
    """Attaches while the program waits, lets it go on, and waits for both: the Profile, with the program's output."""
    process = tally.start(context, command, stdin=subprocess.PIPE, env=dict(os.environ, CALLS_WAIT="1"), **extra)
    context.equal(process.stdout.readline(), b"ready\n", "the program's first line")
    path = context.path("profile")
    recorder = tally.start(context, [context.tally, "record", *calls.options(*more), "-o", path, "-p", str(process.pid)])
    began = wait_until_counted(context, process.pid, recorder)
    process.stdin.write(b"g")
    process.stdin.flush()
    output = process.stdout.read().decode()
    process.wait(timeout=60)
    result = tally.finish(recorder, 60)
    context.check(began, f"tally did not begin: {result.text()}")
    context.equal((process.returncode, result.status), (0, 0), f"status of the program and of tally ({result.text()})")
    profile = tally.Profile(context, path)
    profile.output, profile.errors = output, result.errors.decode(errors="replace")
    return profile


def wait_until_counted(context, pid, recorder):
    tally.wait_for(lambda: recorder.poll() is not None or calls.counting(pid), 20)
    return recorder.poll() is None


def callees_of(context, program, arguments):
    profile = calls.counted(context, [context.program(program), *arguments])
    return sorted(row[2:] for row in calls.edges(profile) if row[1] == "lazy_compare")


@tap.case
def bound_until_the_end(context):
    """What was bound lazily has its own name also in a program that ends before anybody looks: that of one that lasts."""
    long, short = callees_of(context, "calls_lazy", ["900"]), callees_of(context, "calls_lazy", [])
    context.note(f"lazy_compare calls {long}")
    context.equal(sum(calls for _, _, calls in long), 2000, "calls")
    context.equal(short, long, "callees of the short one")


@tap.case
def attach_threads(context):
    profile = attached(context, [context.program("calls_threads"), "fixed", "4", "30000"])
    calls.check(context, without_what_was_before(profile, {"thread_body"}), least=5)


@tap.case
def attach_churn(context):
    calls.check(context, attached(context, [context.program("calls_threads"), "churn", "500"]), least=3)


@tap.case
def attach_fork(context):
    calls.check(context, attached(context, [context.program("calls_process"), "fork", "3"]), by_process=True, least=15)


@tap.case
def attach_exec(context):
    calls.check(context, attached(context, [context.program("calls_process"), "exec", "3"]), by_process=True, least=2)


@tap.case
def attach_tracer(context):
    """One that runs already may trace what it starts, too."""
    for mode in ("fork", "vfork"):
        profile = attached(context, [context.program("calls_tracer_dynamic"), mode, "5"])
        calls.check(context, profile, by_process=True)
        context.check("it may trace them" in profile.errors, f"it is not said: {profile.errors}")


@tap.case
def attach_signals(context):
    calls.check(context, attached(context, [context.program("calls_signals"), "100000"]), least=8)


@tap.case
def attach_dlopen(context):
    plugins = [context.program(f"calls_plugin_{letter}.so") for letter in "ab"]
    calls.check(context, attached(context, [context.program("calls_dlopen"), *plugins, "5"]), least=16)


@tap.case
def attach_cpp(context):
    calls.check(context, attached(context, [context.program("calls_cpp"), "500"]), least=16)


@tap.case
def attach_to_a_stopped_process(context):
    """Stays stopped, and is counted when it goes on."""
    command = [context.program("calls_threads"), "fixed", "2", "5000"]
    process = tally.start(context, command, stdin=subprocess.PIPE, env=dict(os.environ, CALLS_WAIT="1"))
    process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    tally.wait_for(lambda: calls.state(process.pid) == "T")
    path = context.path("profile")
    recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", path, "-p", str(process.pid)])
    context.check(wait_until_counted(context, process.pid, recorder), "tally did not begin")
    time.sleep(0.3)
    context.check(calls.state(process.pid) in "tT", f"the process was stopped and is {calls.state(process.pid)}")
    process.stdin.write(b"g")
    process.stdin.flush()
    process.send_signal(signal.SIGCONT)
    output = process.stdout.read().decode()
    process.wait(timeout=30)
    result = tally.finish(recorder, 30)
    context.equal(result.status, 0, f"status ({result.text()})")
    profile = tally.Profile(context, path)
    profile.output, profile.errors = output, result.errors.decode()
    calls.check(context, without_what_was_before(profile, {"thread_body"}), least=5)


def without_what_was_before(profile, callees):
    """Calls that were under way when tally came are not counted: the truth without them."""
    lines = []
    for pid, caller, callee, kind, number in calls.truths(profile.output):
        if callee not in callees:
            lines.append(calls.line(pid, [[caller, callee, kind, number]]))
    profile.output = "\n".join(lines)
    return profile


@tap.case
def stubs_of_an_earlier_recording(context):
    """They are used, count the same, and are made anew where a file of them is damaged."""
    tap.need("gzip")
    cache, text = context.path("cache"), context.path("text")
    os.mkdir(cache)
    with open(text, "w", encoding="ascii") as file:
        file.write("".join(f"line {number * number % 1009}\n" for number in range(20000)))
    environment = dict(os.environ, XDG_CACHE_HOME=cache)

    def counted(name):
        profile = calls.counted(context, ["gzip", "-n", "-c", text], name=name, env=environment)
        found = sorted(profile.rows("select caller, callee, kind, sum(calls) from edges group by 1, 2, 3"), key=str)
        files = [os.path.join(directory, file) for directory, _, names in os.walk(cache) for file in names if file.endswith(".slab")]
        return found, {file: os.stat(file) for file in files}

    first, kept = counted("first")
    context.check(len(first) > 30 and kept, f"{len(first)} edges, {len(kept)} files of stubs")
    again, used = counted("again")
    context.equal(again, first, "edges with stubs of an earlier recording")
    context.equal({file: status.st_ino for file, status in used.items()}, {file: status.st_ino for file, status in kept.items()}, "files")
    context.check(any(used[file].st_mtime_ns > kept[file].st_mtime_ns for file in kept), "no file of stubs was used")
    for file, status in used.items():
        with open(file, "r+b") as damaged:
            damaged.seek(status.st_size * 3 // 4)
            byte = damaged.read(1)
            damaged.seek(status.st_size * 3 // 4)
            damaged.write(bytes([byte[0] ^ 0x55]))
    mended, files = counted("mended")
    context.equal(mended, first, "edges with damaged files of stubs")
    context.check(all(files[file].st_ino != used[file].st_ino for file in used), "a damaged file of stubs was left as it was")


@tap.case
def summary_counts_edges(context):
    """What is said at the end, in a report's header and listed as edges is one number: pairs of functions, not sites."""
    profile = calls.counted(context, [context.program("calls_mix")])
    listed = len(json.loads(profile.report("--edges", "--json", "--limit", "0%"))["rows"])
    sites = profile.rows("select count(*) from (select distinct site, callee, kind from data_edges where calls > 0)")[0][0]
    context.check(0 < listed < sites, f"{listed} edges of {sites} sites: nothing to tell apart")
    for text in (profile.errors, profile.report("-v", "--edges")):
        said = re.search(r"calls: [0-9,]+ on ([0-9,]+) edges|calls on ([0-9,]+) edges", text)
        context.check(said, f"nothing is said of edges: {text[:400]}")
        context.equal(int((said[1] or said[2]).replace(",", "")), listed, "edges")


tap.run()
