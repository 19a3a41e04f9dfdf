"""The target's exit status is tally's, its streams are untouched, and tally's own messages say who speaks."""
import os
import random
import subprocess

import tap
import tally


def foreign_lines(errors):
    """Lines on stderr that do not say that they are tally's."""
    return [line for line in errors.decode(errors="replace").splitlines() if not line.startswith("tally: ")]


ENDINGS = {"exit 0": 0, "exit 1": 1, "exit 42": 42, "exit 255": 255, "_exit 3": 3, "abort": 134, "signal 15": 143,
           "signal 10": 138, "kill": 137, "segv": 139}


@tap.case
def status_of_the_target(context):
    for way, wanted in ENDINGS.items():
        result = tally.record(context, [context.program("ending"), "--seconds", "0.05", *way.split()])
        context.equal(result.status, wanted, f"status after {way} ({result.errors.decode()})")
        context.check(os.path.exists(result.profile), f"no profile after {way}")
        context.equal(foreign_lines(result.errors), [], f"lines on stderr without a prefix after {way}")


@tap.case
def no_such_command(context):
    for command in ("tally-has-no-such-command", "/nowhere/at/all", "./nothing"):
        result = tally.record(context, [command])
        context.equal(result.status, 127, f"status of {command} ({result.errors.decode()})")
        context.equal(len(result.errors.splitlines()), 1, f"lines on stderr for {command}: {result.errors}")
        context.check(command.encode() in result.errors, "the message does not name the command")
        context.equal(os.listdir(context.directory), [], "left behind")


@tap.case
def no_such_command_beside_a_closed_directory(context):
    """A directory of PATH that may not be looked into makes nothing out of nothing."""
    options = tally.as_nobody() if os.geteuid() == 0 else {"env": dict(os.environ)}
    if os.geteuid() == 0 and not tally.reachable_by_nobody(context):
        raise tap.Skip("an unprivileged user cannot reach the command under test")
    os.chmod(context.directory, 0o777)
    closed = context.path("closed")
    os.mkdir(closed)
    os.chmod(closed, 0)
    options["env"]["PATH"] = f"{closed}:/bin"
    missing = tally.record(context, ["tally-has-no-such-command"], **options)
    context.equal(missing.status, 127, f"status of what is nowhere ({missing.errors.decode()})")
    options["env"]["PATH"] = f"{closed}:{context.directory}"
    with open(context.path("plain"), "w", encoding="utf-8"):
        pass
    refused = tally.record(context, ["plain"], **options)
    context.equal(refused.status, 126, f"status of what may not be run ({refused.errors.decode()})")


@tap.case
def not_executable(context):
    path = context.path("plain")
    with open(path, "w", encoding="utf-8") as file:
        file.write("no program\n")
    for command in (path, context.directory):
        result = tally.record(context, [command])
        context.equal(result.status, 126, f"status of {command} ({result.errors.decode()})")
        context.equal(len(result.errors.splitlines()), 1, f"lines on stderr: {result.errors}")
        context.equal(os.listdir(context.directory), ["plain"], "left behind")


@tap.case
def script_without_interpreter_line(context):
    """execvp runs such a file by the shell; so does tally."""
    path = context.path("script")
    with open(path, "w", encoding="utf-8") as file:
        file.write("exit 9\n")
    os.chmod(path, 0o755)
    context.equal(tally.record(context, [path]).status, 9, "status")


@tap.case
def own_failure_before_the_target(context):
    """125, and the target never ran."""
    mark = context.path("mark")
    arguments = [context.tally, "record", "-o", "/nowhere/at/all/profile", "--", "touch", mark]
    result = tally.run(context, arguments)
    context.equal(result.status, 125, f"status ({result.errors.decode()})")
    context.check(not os.path.exists(mark), "the target ran")
    context.check(b"/nowhere/at/all/profile" in result.errors, f"the file is not named: {result.errors}")


@tap.case
def bad_options(context):
    """Exit 2, one line on stderr, nothing written, the target not run."""
    mark = context.path("mark")
    tries = (["--no-such-option"], ["-F", "0"], ["-F", "abc"], ["-F", "-5"], ["--time=wall"], ["--max-nodes", "x"],
             ["-p", "notapid"], ["-p", "1", "-a"], ["--duration", "-1", "-a"])
    for options in tries:
        command = [] if options[0] in ("-p", "--duration") else ["--", "touch", mark]
        result = tally.run(context, [context.tally, "record", "-o", context.path("profile"), *options, *command])
        context.equal(result.status, 2, f"status of {options} ({result.errors.decode()})")
        context.check(1 <= len(result.errors.splitlines()) <= 2, f"{options}: {result.errors}")
        context.equal(foreign_lines(result.errors), [], f"lines without a prefix for {options}")
        context.equal(os.listdir(context.directory), [], f"left behind by {options}")


@tap.case
def nothing_to_record(context):
    result = tally.run(context, [context.tally, "record"])
    context.equal(result.status, 2, f"status ({result.errors.decode()})")
    context.check(result.errors.strip() != b"", "no message")


@tap.case
def streams_are_untouched(context):
    data = random.Random(7).randbytes(3_000_000)
    result = tally.record(context, ["cat"], input=data)
    context.check(result.output == data, f"{len(result.output)} bytes came back of {len(data)}, or others")
    context.equal(result.status, 0, "status")
    context.equal(foreign_lines(result.errors), [], "lines without a prefix")


@tap.case
def error_stream_of_the_target(context):
    result = tally.record(context, ["sh", "-c", "printf 'one\\ntwo\\n' >&2; exit 4"])
    context.equal(result.status, 4, "status")
    context.equal(foreign_lines(result.errors), ["one", "two"], "the target's lines on stderr")
    context.equal(result.output, b"", "stdout")


@tap.case
def environment_and_directory_are_untouched(context):
    command = ["sh", "-c", "env | grep -v '^_=' | sort; pwd; umask; ulimit -a; ls -l /proc/self/fd | wc -l; cat /proc/$$/status | grep -E 'Sig[PBIC]|Shd|Cap|NoNew|Seccomp:|TracerPid'"]
    wanted = tally.run(context, command).output.decode().splitlines()
    got = tally.record(context, command).output.decode().splitlines()
    context.check(got == wanted, f"surroundings of the target: new {[line for line in got if line not in wanted]}, gone {[line for line in wanted if line not in got]}")


@tap.case
def closed_streams(context):
    """With stderr closed, a file must not become descriptor 2 and get the messages; the same for the others."""
    program = context.program("steady")
    wanted = b"".join(b"line %d\n" % i for i in range(10))
    for closed in ("2>&-", "<&-", "<&- 2>&-"):
        path = context.path("profile")
        line = f"exec '{context.tally}' record -o '{path}' -- '{program}' 10 10 {closed}"
        result = tally.run(context, ["sh", "-c", line])
        context.equal(result.status, 42, f"status with {closed}")
        context.equal(result.output, wanted, f"stdout with {closed}")
        profile = tally.Profile(context, path)
        context.check("steady_step" in profile.functions(), f"no profile with {closed}")
    line = f"exec '{context.tally}' record -o '{context.path('profile')}' -- '{program}' 10 10 >&-"
    result = tally.run(context, ["sh", "-c", line])
    context.equal(result.status, 42, f"status with stdout closed ({result.errors.decode()})")
    context.check("steady_step" in tally.Profile(context, context.path("profile")).functions(), "no profile with stdout closed")


@tap.case
def nobody_reads_the_messages(context):
    """stderr is a pipe that nobody reads any more: the target goes on."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([context.tally, "record", "-o", context.path("profile"), "--", context.program("steady"), "20", "10"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=write, cwd=context.directory)
    os.close(write)
    output, _ = process.communicate(timeout=30)
    context.equal(process.returncode, 42, "status")
    context.equal(output.count(b"\n"), 20, "lines of the target")
    context.check("steady_step" in tally.Profile(context, context.path("profile")).functions(), "no profile")


@tap.case
def no_samples_says_why(context):
    for command in (["true"], ["sleep", "0.3"]):
        result = tally.record(context, command, ["-F", "100"])
        context.equal(result.status, 0, f"status of {command}")
        text = result.errors.decode()
        samples = tally.Profile(context, result.profile).total() if os.path.exists(result.profile) else 0
        if samples == 0:
            context.check("no samples" in text and len(text) > 40, f"{command} had no samples, and nothing says why: {text}")


@tap.case
def report_of_what_is_no_profile(context):
    """One clear line, exit 2."""
    tries = {"missing": None, "empty": b"", "text": b"hello\n" * 50, "cut": None}
    profile = tally.recorded(context, [context.program("steady"), "10", "10"], status=42)
    with open(profile.path, "rb") as file:
        tries["cut"] = file.read()[:5000]
    for name, data in tries.items():
        path = context.path(name)
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        for command in (["report", path], ["query", path, "select * from flat"]):
            result = tally.run(context, [context.tally, *command])
            context.equal(result.status, 2, f"status of {command[0]} {name} ({result.text()})")
            context.equal(len(result.errors.splitlines()), 1, f"{command[0]} {name} says {result.errors}")
            context.check(path.encode() in result.errors, f"the file is not named: {result.errors}")


tap.run()
