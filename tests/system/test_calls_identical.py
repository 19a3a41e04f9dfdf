"""Real programs do the same with and without exact counts: output, files, status."""
import os
import re
import subprocess

import calls
import tally
import tap
import workloads


def outcome(context, command, files, prefix=(), clean=lambda text: text):
    result = tally.run(context, [*prefix, *command])
    contents = []
    for name in files:
        with open(context.path(name), "rb") as file:
            contents.append(file.read())
        os.unlink(context.path(name))
    errors = b"".join(line for line in result.errors.splitlines(True) if not line.startswith(b"tally: "))
    return (result.status, clean(result.output), clean(errors), contents), result


def same(context, command, files=(), options=("--calls",), clean=lambda text: text, least=1000):
    """Runs the command bare and with its calls counted, and compares everything; at least so many calls were counted."""
    path = context.path("profile")
    bare, _ = outcome(context, command, files, clean=clean)
    counted, result = outcome(context, command, files, [context.tally, "record", *options, "-o", path, "--"], clean)
    context.check(bare[1] != b"" or bare[3], "the command wrote nothing to compare")
    for number, what in enumerate(("status", "stdout", "stderr", "files")):
        context.check(counted[number] == bare[number], f"{what}: {tap.shorten(counted[number], 300)} is not {tap.shorten(bare[number], 300)}")
    if not os.path.exists(path):
        raise AssertionError("no profile was left: " + result.text())
    profile = tally.Profile(context, path)
    number = sum(row[4] for row in calls.edges(profile))
    context.check(number >= least, f"only {number} calls were counted ({result.errors[-600:]!r})")
    return profile


@tap.case
def bzip2(context):
    profile = same(context, workloads.bzip2(context, 4))
    context.check(profile.total() > 0, "no samples")


@tap.case
def xz(context):
    same(context, workloads.xz(context, 3))


@tap.case
def sqlite3(context):
    same(context, workloads.sqlite(context, 60000), options=("--calls", "--no-time"))


@tap.case
def lua(context):
    same(context, workloads.lua(context, 4), options=("--calls", "--no-time"))


@tap.case
def compiler(context):
    tap.need("gcc")
    source = workloads.c_file(context, 60)
    same(context, ["gcc", "-O2", "-c", "-fpreprocessed", "-frandom-seed=1", source, "-o", context.path("big.o")], ["big.o"])


@tap.case
def compiler_of_bad_source(context):
    tap.need("gcc")
    source = workloads.write(context, "bad.c", "#include <stdio.h>\nint main(void) { return nonsense; }\n")
    same(context, ["sh", "-c", "gcc -c \"$1\" -o /dev/null 2>&1", "sh", source], options=("--calls", "--no-time"))


def repository(context):
    directory = context.path("repository")
    environment = dict(os.environ, HOME=context.directory, GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_DATE="2026-01-01T00:00:00Z",
                       GIT_COMMITTER_DATE="2026-01-01T00:00:00Z")
    base = ["git", "-C", directory, "-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "init", "-q", directory], check=True, env=environment)
    for number in range(8):
        for name in range(12):
            with open(os.path.join(directory, f"file{name}"), "w", encoding="utf-8") as file:
                file.write("".join(f"line {i * number * (name + 1) % 977}\n" for i in range(4000)))
        subprocess.run(base + ["add", "-A"], check=True, env=environment)
        subprocess.run(base + ["commit", "-q", "-m", f"change {number}"], check=True, env=environment)
    os.environ["HOME"] = context.directory
    return directory


@tap.case
def git_fsck(context):
    tap.need("git")
    same(context, ["git", "-C", repository(context), "fsck", "--full", "--no-progress", "--unreachable", "--root", "--strict", "--verbose"],
         options=("--calls", "--no-time"))


def python_module(name):
    def run(context):
        """A module of python's own tests."""
        found = subprocess.run(["/usr/bin/python3", "-c", f"import test.{name}"], check=False, stderr=subprocess.DEVNULL).returncode
        if found != 0:
            raise tap.Skip("python's own tests are not installed (package libpython3.11-testsuite)")
        same(context, ["/usr/bin/python3", "-m", "test", "-v", name], options=("--calls", "--no-time"), clean=outcomes)
    run.__name__ = "python_" + name
    tap.case(run)


def outcomes(text):
    """Each test with what became of it; tests that print something in between are joined with it."""
    return b"\n".join(sorted(re.findall(rb"^test\w+ \(\S+\).*?\.\.\. (?:ok|FAIL|ERROR|skipped.*|expected failure)$", text, re.MULTILINE)))


for module in ("test_json", "test_thread", "test_generators", "test_contextlib"):
    python_module(module)


@tap.case
def pipeline(context):
    """Several programs, a status."""
    path = workloads.text_file(context, 1)
    same(context, ["sh", "-c", f"cat {path} | tr a-m A-M | sort | uniq -c | sort -rn | head -50 | cksum; exit 3"],
         options=("--calls", "--no-time"))


tap.run()
