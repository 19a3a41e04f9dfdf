"""What programs forbid themselves, and programs that Tally must know before it touches them."""
import os
import re
import subprocess

import harm
import calls
import tally
import tap

harm.row("filter_by_prctl", source="filter.c", status=0, short=["calls", "heap", "calls+heap", "all"])
harm.row("filter_by_syscall", source="filter.c", command=["{program}", "x"], status=0,
         short=["heap", "calls+heap", "calls+function", "calls+fds", "all"])


def says_valgrind(context, profile, mode, result):
    """What is not recorded is reported, with the reason, and nothing is called exact or complete without a word of it."""
    if mode == "time":
        return
    context.check(b"it is run by Valgrind" in result.errors, f"mode {mode} does not say why: {result.errors!r}")
    text = profile.report(*{"calls": ["--edges"], "heap": ["--leaks"], "fds": ["--fds"]}.get(mode, []))
    lies = re.findall(r", exact(?! for what was counted)|lost: nothing|none was made|No leaks|Nothing was left|; complete for", text)
    context.equal(lies, [], f"said in mode {mode} of a program that was lost: {text}")


harm.row("valgrind", source="plain.c", command=["valgrind", "-q", "{program}"], needs=("valgrind",), status=3, check=says_valgrind,
         short=["calls", "heap", "function", "agent", "all"])


WITHOUT_CHILD = harm.COMPILE + " -DWITHOUT_CHILD"  # by itself QEMU deadlocks in one fork of thousands after there was a thread


def attached_to(name, command, compile=harm.COMPILE):
    def run(context):
        """A program that runs under a translator: attaching is refused, with the reason, and there is nothing for `tally detach`."""
        row = harm.Row("plain", source="plain.c", compile=compile, command=[*command, "{program}", "on"], needs=command[:1])
        arguments = row.prepare(context)
        process, line = harm.begin(row, context, arguments)
        alone = harm.end(row, context, process, line)
        process, line = harm.begin(row, context, arguments)
        for mode, options in row.chosen():
            result = tally.run(context, harm.record_command(row, context, options, mode, process.pid, "--duration", "0.2"))
            said = b"it is run by " + name in result.errors
            context.equal((result.status, said), (2, True) if options else (0, False), f"mode {mode} ({result.text()})")
            result = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
            context.equal(result.status, 0, f"status of detach after mode {mode} ({result.text()})")
            context.equal((harm.ours(process.pid), calls.tracers(process.pid)), ([], {}), f"what is in it after mode {mode}")
        row.compare(context, "(all)", harm.end(row, context, process, line), alone)
    run.__name__ = f"attached_to_{command[0].replace('-', '_')}"
    tap.case(run)


attached_to(b"Valgrind", ["valgrind", "-q"])
attached_to(b"QEMU", ["qemu-x86_64"], WITHOUT_CHILD)


def says_qemu(context, _profile, mode, result):
    context.check(mode == "time" or b"it is run by QEMU" in result.errors, f"mode {mode} does not say why: {result.errors!r}")


harm.row("qemu", source="plain.c", compile=WITHOUT_CHILD, command=["qemu-x86_64", "{program}"], needs=("qemu-x86_64",), status=3, check=says_qemu,
         short=["calls", "heap", "agent", "all"])


@tap.case
def only_process_lost(context):
    """A translator that is started without its launcher: nothing is counted at all, and no view takes its 0 for a figure."""
    tool = "/usr/libexec/valgrind/none-amd64-linux"
    if not os.path.exists(tool):
        raise tap.Skip(f"no {tool} (package valgrind)")
    command = [tool, *harm.Row("plain", source="plain.c").prepare(context)]
    for mode, view in (("--calls", "--edges"), ("--heap", "--leaks"), ("--fds", "--fds")):
        result = tally.record(context, command, [mode, "--no-time"], "profile" + mode, env={**os.environ, "VALGRIND_LAUNCHER": "/usr/bin/valgrind"})
        for views in ([], [view]):
            text = tally.Profile(context, result.profile).report(*views)
            context.check("not counted (1 program lost" in text, f"{mode} {views}: {text}")
            lies = re.findall(r"exact|nothing|Nothing|none was made|No leaks|complete|were counted|every call site", text)
            context.equal(lies, [], f"said with {mode} {views} of a program that was lost: {text}")


def counts_readers(context, profile, mode, _result):
    """Each is counted, wherever it looks."""
    if "calls" not in mode and mode != "all":
        return
    found = {}
    for _, caller, callee, _, count in calls.edges(profile):
        found[calls.plain(caller), calls.plain(callee)] = found.get((calls.plain(caller), calls.plain(callee)), 0) + count
    for name in ("leaf", "framed", "hands_on", "late"):
        context.equal(found.get(("all", name)), 2000, f"calls of {name} in mode {mode}")


for level in ("-O0", "-O1", "-O2", "-O2 -fomit-frame-pointer -mavx2"):
    harm.row("reads_calls" + level.replace(" ", "").replace("-", "_"), source="reads_calls.c", compile=f"gcc {level} -g -o {{program}} {{source}}",
             status=0, check=counts_readers, short=["calls", "all"])
harm.row("reads_calls_attached", source="reads_calls.c", compile="gcc -O2 -g -o {program} {source}", command=["{program}", "waits"],
         status=0, ways=["attached", "killed", "again"], short=["calls"])


@tap.case
def mono(context):
    """Its runtime decodes the calls of code compiled ahead of time."""
    tap.need("mcs", "mono")
    source, program = context.path("hello.cs"), context.path("hello.exe")
    with open(source, "w", encoding="utf-8") as file:
        file.write('class Hello { static void Main() { System.Console.WriteLine("hello " + string.Join(",", new int[]{1, 2})); } }\n')
    subprocess.run(["mcs", "-out:" + program, source], check=True)
    alone = tally.run(context, ["mono", program])
    for mode in (["--calls", "--no-time"], ["--calls", "--heap", "--no-time"]):
        result = tally.record(context, ["mono", program], mode)
        context.equal((result.status, result.output), (alone.status, alone.output), f"outcome with {mode} ({result.text()})")
        lost = tally.Profile(context, context.path("profile")).losses().get(26, 0)
        context.check(lost >= 1, f"images left out are {lost} with {mode}")


def sees_what_is_opened(context, profile, mode, result):
    context.check(b"unwinder" not in result.errors, f"mode {mode} says: {result.errors!r}")
    if mode in ("fds", "calls+fds", "all"):
        context.equal(profile.rows("select count(*) from descriptors where stack like '%;leaked'")[0][0], 7, f"descriptors in mode {mode}")
    if mode == "function":
        context.equal(profile.losses(), {}, "losses where functions are timed")


harm.row("program_headers", source="headers.c", status=0, check=sees_what_is_opened, short=["fds", "function", "heap", "throws"])


def is_timed(context, profile, mode, result):
    """Only what an exception came by is not."""
    context.check(b"not timed" not in result.errors and b"is not seen" not in result.errors, f"mode {mode} says: {result.errors!r}")
    context.equal({number for number in profile.losses() if number not in (29, 49)}, set(), f"losses in mode {mode}")


def is_not_timed(context, _profile, mode, result):
    if "fds" not in mode:
        context.check(b"an unwinder of its own" in result.errors, f"mode {mode} does not say why nothing is timed: {result.errors!r}")


THROUGH = {"function": ["--function", "qsort"], "function+fds": ["--function", "qsort", "--fds"], "fds": ["--fds"],
           "calls+function": ["--calls", "--function", "qsort"],
           "all": ["--calls", "--heap", "--fds", "--throws", "--function", "qsort"]}
HIDDEN = "g++ -O2 -pthread -static-libgcc -static-libstdc++ -o {program} {source}\nstrip {program}"
harm.row("hidden_unwinder", source="hidden_unwinder.cpp", compile=HIDDEN, modes=THROUGH, short=["function", "all"], status=0, check=is_timed)
harm.row("hidden_unwinder_attached", source="hidden_unwinder.cpp", compile=HIDDEN, command=["{program}", "waits"], modes=THROUGH,
         short=["function"], status=0, ways=["attached", "killed", "again"])
harm.row("remembering", source="remembering.c", modes=THROUGH, short=["function"], status=0, check=is_not_timed,
         compile="gcc -O1 -no-pie -o {program} {source} -l:libunwind.a -llzma\nstrip {program}", needs=("/usr/include/x86_64-linux-gnu/libunwind.h",))


LATE_GS = """gcc -O1 -g -shared -fPIC -o {directory}/object.so {sources}/late_gs_object.c
gcc -O1 -g -pthread -o {program} {source} -ldl"""
harm.row("late_gs", source="late_gs.c", compile=LATE_GS, command=["{program}", "{directory}/object.so"], modes=harm.MODES, status=4,
         short=["calls", "heap", "all"])
harm.row("late_gs_left_out", source="late_gs.c", compile=LATE_GS, command=["{program}", "{directory}/object.so"], status=4,
         modes={"calls": ["--calls", "--calls-image", "late_gs_left_out"]})
# Not "killed" nor "again": where Tally is killed before gs is set, nobody gives gs back, and what it leaves counts wherever the program's gs
# leads. What is cleaned afterwards: unit/remains/clean.
harm.row("late_gs_on", source="late_gs.c", compile=LATE_GS, command=["{program}", "{directory}/object.so", "on"], ways=["attached"],
         modes={**harm.CALLS, **harm.BOTH}, short=["calls"], seconds="1.5", restless=True)
harm.row("late_gs_early", source="late_gs.c", compile=LATE_GS, command=["{program}", "{directory}/object.so", "early"], ways=["attached"],
         modes=harm.CALLS, seconds="1.5", restless=True)


@tap.case
def late_gs_at_once(context):
    """An object that is loaded while Tally comes in sets gs at once, and stubs are there in a moment."""
    row = harm.Row("late_gs_at_once", source="late_gs.c", compile=LATE_GS, command=["{program}", "{directory}/object.so", "at_once"])
    command = row.prepare(context)
    for number in range(100 if harm.LONG else 20):
        process = tally.start(context, command, stdin=subprocess.PIPE)
        process.stdout.readline()
        result = tally.run(context, [context.tally, "record", "--calls", "--no-time", "--duration", "0.2", "-o", context.path("profile"), "-p", str(process.pid)])
        output, errors = process.communicate()
        context.equal((process.returncode, output, errors), (4, b"wrong 0\nwrong in the end 0\n", b""), f"outcome {number} ({result.text()})")
        context.equal(result.status, 0, f"status of tally ({result.text()})")


@tap.case
def late_gs_big_image(context):
    """A large image that is not counted is searched for code that sets gs before the process is stopped, not while it is: then most of
    the time that it takes to begin is no stop. Where the machine is busy a stop takes long by itself; not each time."""
    with open(context.path("big.S"), "w", encoding="utf-8") as file:
        file.write('.text\n.globl big\n.type big, @function\nbig: ret\n.skip 100 << 20\n.size big, . - big\n.section .note.GNU-stack,"",@progbits\n')
    build = LATE_GS + " -Wl,--no-as-needed -L{directory} -lbig -Wl,-rpath,{directory}"
    row = harm.Row("late_gs_big", source="late_gs.c", compile="gcc -shared -o {directory}/libbig.so {directory}/big.S\n" + build,
                   command=["{program}", "{directory}/object.so", "on"])
    program = row.prepare(context)
    command = [context.tally, "record", "--calls", "--no-time", "--calls-image", row.name, "-o", context.path("profile"), "--duration", "0.1"]
    shares = []
    while len(shares) < 8 and min(shares, default=1) >= 0.5:
        process, _ = harm.begin(row, context, program)
        cache = {**os.environ, "XDG_CACHE_HOME": context.path(f"cache{len(shares)}")}  # what is known of the image is not taken from there
        result = tally.run(context, [*command, "-p", str(process.pid)], env=cache)
        context.equal(result.status, 0, f"status of tally ({result.text()})")
        process.communicate(timeout=60)
        context.equal(process.returncode, 4, "status of the program")
        found = tally.Profile(context, context.path("profile")).meta()
        shares.append(int(found["calls_attach_stopped_ns"]) / int(found["calls_setup_ns"]))
    context.note(f"stopped for these shares of the time that it took to begin: {shares}")
    context.check(min(shares) < 0.5, f"it was stopped for {min(shares):.2f} of the time that it took to begin")


harm.run()
