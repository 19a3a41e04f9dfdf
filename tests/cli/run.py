#!/usr/bin/python3
"""run.py - runs commands and compares what they say, to the letter.

    run.py TALLY MAKE_PROFILE GOLDEN [--bless] [CASE...]

A case is an executable script below tests/cli/cases, GROUP/NAME without an ending. Beside it lies what must come out:

    NAME.stdout.exact   standard output, to the letter     NAME.stdout.glob   ... as a pattern, see below
    NAME.stderr.exact   standard error                     NAME.stderr.glob
    NAME.exit           the exit status

A stream without a file must be empty, a status without a file be 0. In a pattern, each line is compared with one line
of output, `*` stands for any text in it, and a line `...` for any number of lines.

--bless writes what came out into the .exact and .exit files instead (never into a .glob, which is compared as ever):
look at `git diff` before committing.

Comment lines of a script that begin with `# test:` are for this runner:

    # test: user               runs a second time as an unprivileged user, if the runner is root
    # test: root               is skipped unless the runner is root
    # test: needs PROGRAM      is skipped without it
    # test: numbers            every number in the output becomes N before it is compared
    # test: set NAME=VALUE     an environment variable

A script that exits with 77 is skipped, its last line being the reason.

Scripts run in an empty directory of their own, in a bare environment: PATH (in which `tally` is the command under test, and
the programs of tests/cli/helpers), HOME and TMPDIR in that directory, LC_ALL=C.UTF-8, TERM=dumb, PROFILES (a directory with what
make_profile.c makes), GOLDEN (the directory of the golden profiles), and nothing else. Before output is compared, these become placeholders:

    the case's directory -> @DIRECTORY@      $PROFILES -> @PROFILES@      tally's version -> @VERSION@

Output is TAP, one test a case.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "cases")
ENDINGS = (".stdout.exact", ".stderr.exact", ".stdout.glob", ".stderr.glob", ".exit")
NOBODY = 65534
SKIPPED = 77
SECONDS = 60
PLAIN_USER = " (as a plain user)"


class Case:
    """One script and its directives."""

    def __init__(self, path):
        self.path, self.name = path, os.path.relpath(path, CASES)
        with open(path, encoding="utf-8") as file:
            words = [line.split()[2:] for line in file if line.startswith("# test: ")]
        self.user, self.root = ["user"] in words, ["root"] in words
        self.numbers = ["numbers"] in words
        self.needs = [rest[0] for word, *rest in words if word == "needs"]
        self.environment = dict(rest[0].split("=", 1) for word, *rest in words if word == "set")
        for word, *_ in words:
            if word not in ("user", "root", "numbers", "needs", "set"):
                raise SystemExit(f"run.py: {path}: no directive called {word}")

    def expected(self, ending):
        try:
            with open(self.path + ending, encoding="utf-8", errors="surrogateescape", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return None


class Place:
    """Where the command under test is, the profiles, and a directory for all."""

    def __init__(self, tally, make_profile, golden, directory):
        self.directory = directory
        self.programs = os.path.join(directory, "bin")
        os.mkdir(self.programs)
        # Copies: an unprivileged user may not be able to reach the originals.
        shutil.copy(tally, os.path.join(self.programs, "tally"))
        for name in os.listdir(os.path.join(HERE, "helpers")):
            if not name.startswith("__"):
                shutil.copy(os.path.join(HERE, "helpers", name), self.programs)
        self.golden, self.profiles = os.path.join(directory, "golden"), os.path.join(directory, "profiles")
        if os.path.isdir(golden):
            shutil.copytree(golden, self.golden)
        os.mkdir(self.profiles)
        subprocess.run([make_profile, self.profiles], check=True)
        for directory, _, names in os.walk(directory):
            os.chmod(directory, 0o755)
            for name in names:
                path = os.path.join(directory, name)
                os.chmod(path, os.stat(path).st_mode | 0o444)
        shown = subprocess.run([os.path.join(self.programs, "tally"), "--version"], stdout=subprocess.PIPE, check=True)
        self.version = shown.stdout.decode().split()[1]


def find_cases(names):
    found = []
    for directory, _, files in os.walk(CASES):
        for name in files:
            path = os.path.join(directory, name)
            if not name.endswith(ENDINGS) and os.access(path, os.X_OK):
                found.append(Case(path))
    found.sort(key=lambda case: case.name)
    chosen = [case for case in found if not names or case.name in names or case.name.split(os.sep)[0] in names]
    orphans = [os.path.relpath(os.path.join(directory, name), CASES) for directory, _, files in os.walk(CASES) for name in files
              if name.endswith(ENDINGS) and not os.path.exists(os.path.join(directory, re.sub(
                  r"\.(stdout|stderr)\.(exact|glob)$|\.exit$", "", name)))]
    if orphans:
        raise SystemExit(f"run.py: {orphans[0]} belongs to no case")
    return chosen


def environment_of(case, place, directory):
    environment = {"PATH": place.programs + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": directory,
                   "TMPDIR": directory, "LC_ALL": "C.UTF-8", "TERM": "dumb", "GOLDEN": place.golden,
                   "PROFILES": place.profiles}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            environment[name] = os.environ[name]
    environment.update(case.environment)
    return environment


def run_case(case, place, plain_user):
    """(status, stdout, stderr), normalised."""
    directory = tempfile.mkdtemp(prefix="case-", dir=place.directory)
    script = os.path.join(place.directory, "script")
    shutil.copy(case.path, script)
    os.chmod(script, 0o755)
    command = [script]
    if plain_user:
        os.chown(directory, NOBODY, NOBODY)
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--", script]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              cwd=directory, env=environment_of(case, place, directory), timeout=SECONDS, check=False,
                              start_new_session=True)
        streams = [done.stdout, done.stderr]
        status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    except subprocess.TimeoutExpired as expired:
        streams, status = [expired.stdout or b"", expired.stderr or b""], 124
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return [status] + [normalise(case, place, directory, stream) for stream in streams]


def normalise(case, place, directory, stream):
    text = stream.decode("utf-8", errors="surrogateescape")
    text = text.replace(directory, "@DIRECTORY@").replace(place.profiles, "@PROFILES@").replace(place.version, "@VERSION@")
    return re.sub(r"\d+(?:\.\d+)?", "N", text) if case.numbers else text


# --- comparing ---


def line_matches(pattern, line):
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), line) is not None


def glob_matches(patterns, lines):
    """Positions of `lines` that the patterns so far can have reached, one pattern after the other."""
    reached = {0}
    for pattern in patterns:
        if pattern == "...":
            reached = set(range(min(reached), len(lines) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(lines) and line_matches(pattern, lines[at])}
    return len(lines) in reached


def compare(case, what, output):
    """A complaint, or None."""
    glob, exact = case.expected(f".{what}.glob"), case.expected(f".{what}.exact")
    if glob is not None:
        good, wanted = glob_matches(glob.splitlines(), output.splitlines()), glob
    else:
        good, wanted = output == (exact or ""), exact or ""
    if good:
        return None
    return f"{what} should be{' like' if glob is not None else ''}:\n{indent(wanted)}\nbut is:\n{indent(output)}"


def indent(text):
    shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").splitlines()
    return "\n".join("    " + line for line in shown[:60]) or "    (empty)"


def complaints_of(case, result):
    status, output, errors = result
    wanted = int((case.expected(".exit") or "0").strip())
    complaints = [] if status == wanted else [f"exit status should be {wanted}, but is {status}"]
    return complaints + [text for text in (compare(case, "stdout", output), compare(case, "stderr", errors)) if text]


def write_or_remove(path, text, wanted):
    if wanted:
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
    elif os.path.exists(path):
        os.unlink(path)


def bless(case, result):
    status, output, errors = result
    for what, text in (("stdout", output), ("stderr", errors)):
        if case.expected(f".{what}.glob") is None:
            write_or_remove(f"{case.path}.{what}.exact", text, text != "")
    write_or_remove(case.path + ".exit", f"{status}\n", status != 0)


# --- all of them ---


def reason_to_skip(case, plain_user):
    missing = [name for name in case.needs if not shutil.which(name)]
    if missing:
        return f"no program {missing[0]}"
    if case.root and os.geteuid() != 0:
        return "needs root"
    if plain_user and not shutil.which("setpriv"):
        return "no setpriv (package util-linux)"
    return None


def report(number, name, complaints, skipped):
    if skipped is not None:
        print(f"ok {number} - {name} # SKIP {skipped}")
    else:
        for line in "\n".join(complaints).splitlines():
            print("#   " + line)
        print(f"{'not ok' if complaints else 'ok'} {number} - {name}")
    sys.stdout.flush()


def run_one(case, place, plain_user, blessed):
    """(complaints, why it was skipped). `blessed`: the cases whose output was written already; None: write none."""
    skipped = reason_to_skip(case, plain_user)
    if skipped:
        return [], skipped
    result = run_case(case, place, plain_user)
    if result[0] == SKIPPED:
        lines = (result[1] + result[2]).strip().splitlines()
        return [], lines[-1] if lines else "no reason given"
    if blessed is not None and case.name not in blessed:
        blessed.add(case.name)
        bless(case, result)
    return complaints_of(case, result), None


def main(arguments):
    blessing = "--bless" in arguments
    tally, make_profile, golden, *names = [word for word in arguments if word != "--bless"]
    cases = find_cases(names)
    sys.stdout.reconfigure(errors="backslashreplace")
    runs = [(case, False) for case in cases] + [(case, True) for case in cases if case.user and os.geteuid() == 0]
    print(f"1..{len(runs)}")
    failed, blessed = 0, set() if blessing else None
    with tempfile.TemporaryDirectory(prefix="tally-cli-") as directory:
        place = Place(tally, make_profile, golden, os.path.realpath(directory))
        for number, (case, plain_user) in enumerate(runs, 1):
            complaints, skipped = run_one(case, place, plain_user, blessed)
            report(number, case.name + (PLAIN_USER if plain_user else ""), complaints, skipped)
            failed += bool(complaints)
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
