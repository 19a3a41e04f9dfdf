"""Real programs do the same with and without tally: output, files, status."""
import os
import subprocess

import tap
import tally
import workloads


def same(context, command, files=()):
    """Runs the command bare and under tally, and compares everything."""
    outcomes = []
    for wrapped in (False, True):
        arguments = [context.tally, "record", "-o", context.path("profile"), "--", *command] if wrapped else command
        result = tally.run(context, arguments)
        contents = []
        for name in files:
            with open(context.path(name), "rb") as file:
                contents.append(file.read())
            os.unlink(context.path(name))
        errors = b"".join(line for line in result.errors.splitlines(True) if not line.startswith(b"tally: "))
        outcomes.append((result.status, result.output, errors, contents))
    bare, wrapped = outcomes
    context.check(bare[1] != b"" or bare[3], "the command wrote nothing to compare")
    context.equal(wrapped[0], bare[0], "status")
    for number, what in ((1, "stdout"), (2, "stderr"), (3, "files")):
        context.check(wrapped[number] == bare[number], f"{what} differs: {tap.shorten(wrapped[number], 300)} is not {tap.shorten(bare[number], 300)}")
    profile = tally.Profile(context, context.path("profile"))
    context.check(profile.total() > 0, "the profile has no samples")


@tap.case
def bzip2(context):
    same(context, workloads.bzip2(context, 4))


@tap.case
def bzip2_of_bad_data(context):
    path = workloads.write(context, "bad.bz2", b"BZh91AY&SY" + bytes(range(256)) * 4000)
    tap.need("bzip2")
    outcomes = [tally.run(context, prefix + ["bzip2", "-dc", path]) for prefix in ([], [context.tally, "record", "-o", context.path("profile"), "--"])]
    context.check(outcomes[0].status != 0, "bzip2 took bad data")
    context.equal(outcomes[1].status, outcomes[0].status, "status")
    context.equal(outcomes[1].output, outcomes[0].output, "stdout")


@tap.case
def xz(context):
    same(context, workloads.xz(context, 3))


@tap.case
def sqlite3(context):
    same(context, workloads.sqlite(context, 120000))


@tap.case
def lua(context):
    same(context, workloads.lua(context, 6))


@tap.case
def python_unit_tests(context):
    """A module of the standard library's kind with its own tests: processes, threads, signals, exceptions."""
    module = workloads.write(context, "test_small.py", '''
import json, os, signal, subprocess, sys, threading, unittest

class Small(unittest.TestCase):
    def test_threads(self):
        found = []
        threads = [threading.Thread(target=lambda i=i: found.append(sum(range(i * 10000)))) for i in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        self.assertEqual(len(found), 8)

    def test_child(self):
        done = subprocess.run([sys.executable, "-I", "-c", "print(sum(i * i for i in range(300000)))"], stdout=subprocess.PIPE)
        self.assertEqual(done.stdout.strip(), b"8999955000050000")

    def test_signal(self):
        seen = []
        signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        while len(seen) < 50: sum(range(1000))
        signal.setitimer(signal.ITIMER_REAL, 0)

    def test_exceptions(self):
        for i in range(20000):
            try: json.loads("{")
            except ValueError as error: self.assertIn("column 2", str(error))

    def test_fork(self):
        pid = os.fork()
        if pid == 0: os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)

class Result(unittest.TextTestResult):
    pass

if __name__ == "__main__":
    outcome = unittest.TextTestRunner(stream=open(os.devnull, "w"), resultclass=Result).run(unittest.defaultTestLoader.loadTestsFromTestCase(Small))
    print(outcome.testsRun, len(outcome.failures), len(outcome.errors))
''')
    if not os.path.exists("/usr/bin/python3"):
        raise tap.Skip("no /usr/bin/python3")
    same(context, ["/usr/bin/python3", "-I", module])


@tap.case
def compiler(context):
    tap.need("gcc")
    source = workloads.c_file(context, 60)
    same(context, ["gcc", "-O2", "-c", "-fpreprocessed", "-frandom-seed=1", source, "-o", context.path("big.o")], ["big.o"])


@tap.case
def compiler_of_bad_source(context):
    tap.need("gcc")
    source = workloads.write(context, "bad.c", "int main(void) { return nonsense; }\n")
    same_status = [tally.run(context, prefix + ["gcc", "-c", source, "-o", "/dev/null"]) for prefix in
                   ([], [context.tally, "record", "-o", context.path("profile"), "--"])]
    context.equal(same_status[1].status, same_status[0].status, "status")
    context.check(b"nonsense" in same_status[1].errors, "the compiler's message is missing")


@tap.case
def git_fsck(context):
    tap.need("git")
    directory = context.path("repository")
    environment = dict(os.environ, HOME=context.directory, GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_DATE="2026-01-01T00:00:00Z",
                       GIT_COMMITTER_DATE="2026-01-01T00:00:00Z")
    base = ["git", "-C", directory, "-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "init", "-q", directory], check=True, env=environment)
    for number in range(12):
        for name in range(12):
            with open(os.path.join(directory, f"file{name}"), "w", encoding="utf-8") as file:
                file.write("".join(f"line {i * number * (name + 1) % 977}\n" for i in range(4000)))
        subprocess.run(base + ["add", "-A"], check=True, env=environment)
        subprocess.run(base + ["commit", "-q", "-m", f"change {number}"], check=True, env=environment)
    os.environ["HOME"] = context.directory
    same(context, ["git", "-C", directory, "fsck", "--full", "--no-progress", "--unreachable", "--root", "--tags", "--strict", "--verbose"])


@tap.case
def pipeline(context):
    """A shell pipeline of several programs under one tally."""
    path = workloads.text_file(context, 2)
    same(context, ["sh", "-c", f"cat {path} | tr a-m A-M | sort | uniq -c | sort -rn | head -50 | cksum; exit 3"])


@tap.case
def threads_and_children(context):
    for command in ([context.program("steady"), "50", "5"], [context.program("exceptions"), "--truth"]):
        result = tally.record(context, command)
        bare = tally.run(context, command)
        context.equal((result.status, result.output), (bare.status, bare.output), f"outcome of {os.path.basename(command[0])}")


tap.run()
