"""Targets whose calls cannot be counted, or only with care: handled, or refused with the reason, and left as they were."""
import os
import signal
import subprocess
import time

import calls
import tally
import tap


def refused(context, pid, words, prefix=(), **extra):
    """Attaching fails, the message has one of the words, and the target is as before."""
    before = calls.mappings(pid) if os.path.exists(f"/proc/{pid}/maps") else None
    result = tally.run(context, [*prefix, context.tally, "record", *calls.options(), "-o", context.path("profile"), "--duration", "0.2",
                                 "-p", str(pid)], **extra)
    context.check(result.status != 0, f"it was taken: {result.text()}")
    text = result.errors.decode(errors="replace")
    context.check(any(word in text for word in words), f"none of {words} is named: {text}")
    if before is not None:
        context.equal(calls.mappings(pid), before, "mappings")
        context.equal(calls.changed_text(pid), [], "text that differs from its file")
    return result


@tap.case
def traced_by_another(context):
    tap.need("strace")
    process = tally.start_busy(context, "threads", "2", "--together", "--forever")
    tracer = tally.start(context, ["strace", "-f", "-qq", "-o", os.devnull, "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: len(calls.tracers(process.pid)) == 3), "strace did not attach")
    refused(context, process.pid, [str(tracer.pid), "strace"])
    context.equal(set(calls.tracers(process.pid).values()), {tracer.pid}, "tracer afterwards")
    tracer.send_signal(signal.SIGINT)
    tracer.communicate()
    context.check(process.poll() is None, "the target died")


@tap.case
def of_32_bits(context):
    tap.need("gcc")
    source, program = context.path("small.c"), context.path("small")
    with open(source, "w", encoding="ascii") as file:
        file.write('void _start(void) { for (;;) __asm__ volatile("int $0x80" : : "a"(29)); }\n')  # pause
    built = tally.run(context, ["gcc", "-m32", "-nostdlib", "-static", "-fno-stack-protector", "-o", program, source])
    if built.status != 0:
        raise tap.Skip("gcc -m32 does not work here")
    try:
        process = tally.start(context, [program])
    except OSError as error:
        raise tap.Skip(f"the kernel runs no 32-bit programs ({error.strerror})") from error
    time.sleep(0.05)
    if process.poll() is not None:
        raise tap.Skip("the kernel runs no 32-bit programs")
    refused(context, process.pid, ["32-bit", "64-bit", "x86-64"])
    context.check(process.poll() is None, "the target died")


@tap.case
def of_somebody_else(context):
    tap.need_root()
    if not tally.reachable_by_nobody(context):
        raise tap.Skip("an unprivileged user cannot run this tally")
    process = tally.start_busy(context, "threads", "2", "--together", "--forever")
    os.chmod(context.directory, 0o777)
    refused(context, process.pid, ["ermi", "ptrace", "owner", "root"], **tally.as_nobody())
    context.check(process.poll() is None, "the target died")


@tap.case
def that_is_not_there(context):
    process = tally.start(context, ["true"])
    process.wait()
    refused(context, process.pid, ["no process", "No such process", "not exist", str(process.pid)])


@tap.case
def that_ends_meanwhile(context):
    """It ends while it is looked at: whatever tally says, it does not hang, and leaves no process."""
    for number in range(8):
        process = tally.start(context, [context.program("calls_threads"), "fixed", "2", str(20000 * number)])
        result = tally.run(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "-p", str(process.pid)], timeout=20)
        output = process.communicate(timeout=20)[0]
        context.equal(process.returncode, 0, "status of the target")
        context.check(calls.truths(output.decode()), "the target wrote nothing")
        context.check(result.status in (0, 1, 2), f"status {result.text()}")


@tap.case
def that_runs_another_image_meanwhile(context):
    for number in range(4):
        process = tally.start(context, [context.program("calls_process"), "exec", "30"])
        time.sleep(0.003 * number)
        result = tally.run(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "-p", str(process.pid)], timeout=20)
        output = process.communicate(timeout=20)[0].decode()
        context.equal(process.returncode, 0, f"status of the target ({result.text()})")
        context.equal(len({line for line in output.splitlines()}), 31, "images that ran")


FREED = 67


def freed(context, profile, name):
    """That children were detached is said, and counted."""
    context.check(f"({name}) are not counted: it may trace them" in profile.errors, f"it is not said: {profile.errors}")
    return dict(profile.rows("select number, count from losses")).get(FREED, 0)


@tap.case
def strace(context):
    """A target that traces: it works as alone, and is counted itself."""
    tap.need("strace")
    command = ["strace", "-f", "-o", context.path("log"), context.program("calls_threads"), "fixed", "2", "100"]
    profile = calls.counted(context, command)
    with open(context.path("log"), encoding="utf-8", errors="replace") as log:
        text = log.read()
    context.check("exited with 0" in text and "clone" in text, f"strace saw nothing: {text[-500:]}")
    context.check(len(calls.truths(profile.output)) > 1, "its program wrote nothing")
    context.check(freed(context, profile, "strace") > 0, "no loss")
    context.check(profile.rows("select sum(calls) from edges where caller_image like '%strace'")[0][0], "strace itself is not counted")


@tap.case
def gdb(context):
    tap.need("gdb")
    program = context.program("calls_tracer_dynamic")
    command = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "break main", "-ex", "run", "-ex", "next", "-ex", "continue",
               "--args", program, "fork", "0"]
    profile = calls.counted(context, command, timeout=300)
    context.check("Breakpoint 1, " in profile.output and "exited normally" in profile.output, f"it did not debug: {profile.output}{profile.errors}")
    context.equal(len(calls.truths(profile.output)), 2, "edges that its program wrote")
    context.check(freed(context, profile, "gdb") > 0, "no loss")


def tracer(build, mode):
    def run(context):
        profile = calls.counted(context, [context.program("calls_tracer_" + build), mode, "5"])
        calls.check(context, profile, by_process=True)
        context.equal(freed(context, profile, ("calls_tracer_" + build)[:15]), 5, "children that were detached")
        context.equal(profile.rows("select sum(calls) from edges where callee = 'child_step'"), [(None,)], "calls of children")
    run.__name__ = f"tracer_{build}_{mode}"
    tap.case(run)


for tracer_build in ("dynamic", "static", "pie"):
    for tracer_mode in ("fork", "vfork"):
        tracer(tracer_build, tracer_mode)


@tap.case
def leak_sanitizer(context):
    """A leak checker stops its own threads by ptrace at the end: it must work, or the reason be said."""
    tap.need("gcc")
    source, program = context.path("leak.c"), context.path("leak")
    with open(source, "w", encoding="ascii") as file:
        file.write("#include <stdlib.h>\n__attribute__((noipa)) void *lose(int n) { return malloc(n); }\n"
                   "int main(void) { for (int i = 1; i < 9; i++) lose(i * 100); return 0; }\n")
    built = tally.run(context, ["gcc", "-O1", "-g", "-fsanitize=leak", "-o", program, source])
    if built.status != 0:
        raise tap.Skip("gcc has no leak sanitizer here")
    bare = tally.run(context, [program])
    if b"detected memory leaks" not in bare.errors:
        raise tap.Skip("the leak sanitizer does not work here")
    result = tally.record(context, [program], calls.options())
    same = result.status == bare.status and b"detected memory leaks" in result.errors
    said = any(b"sanit" in line.lower() for line in result.errors.splitlines() if line.startswith(b"tally:"))
    context.check(same or said, f"neither done nor said: {result.text()}")


@tap.case
def a_vfork_parent(context):
    """Asleep in the kernel until its child runs an image: attached to, or refused with the reason; unharmed."""
    script = "import ctypes, os\nlibc = ctypes.CDLL(None)\nos.write(1, b'ready\\n')\nprint(libc.system(b'sleep 1; exit 3') >> 8)\n"
    process = tally.start(context, ["/usr/bin/python3", "-I", "-c", script])
    process.stdout.readline()
    result = tally.run(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "--duration", "0.3", "-p", str(process.pid)], timeout=20)
    output = process.communicate(timeout=20)[0]
    context.check(result.status == 0 or result.status == 2 and result.errors.startswith(b"tally: "), f"neither attached nor refused: {result.text()}")
    context.equal((process.returncode, output), (0, b"3\n"), "outcome")


@tap.case
def options_that_make_no_sense(context):
    for words in (["--no-time"],):
        result = tally.run(context, [context.tally, "record", *words, "-o", context.path("profile"), "--", "true"])
        context.equal(result.status, 2, f"status of {' '.join(words)} ({result.text()})")
        context.check(b"--calls" in result.errors, f"--calls is not named: {result.errors!r}")


tap.run()
