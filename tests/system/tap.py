"""A small TAP runner: a test script names its cases with @case and ends with run().

A case is a function of one argument, its Context. It calls context.check for what must hold (all failed checks of a
case are reported) and raises Skip(why) when something is missing. Every case gets an empty directory of its own, removed
afterwards. Usage of every script: test_NAME.py TALLY PROGRAMS [CASE...]

A case below @long takes minutes, or repeats with more of the same what a short one shows: it runs in `make check-long` only
(TALLY_LONG), or where it is named. How long each case took is a line of the output.
"""
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True


LONG = bool(os.environ.get("TALLY_LONG"))


class Skip(Exception):
    """Raised by a case that cannot run here; the text says what is missing."""


class Context:
    """What a case may use: the command, the directory of programs, a directory of its own."""

    def __init__(self, tally, programs, directory, cache):
        self.tally, self.programs, self.directory, self.cache = tally, programs, directory, cache
        self.failures, self.started = [], []

    def check(self, condition, text):
        if not condition:
            self.failures.append(text)
        return bool(condition)

    def equal(self, got, wanted, what):
        return self.check(got == wanted, f"{what}: got {shorten(got)}, wanted {shorten(wanted)}")

    def note(self, text):
        for line in str(text).splitlines():
            print("# " + line, flush=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def program(self, name):
        path = os.path.join(self.programs, name)
        if not os.path.exists(path):
            raise Skip(f"no program {name} (its compiler is missing)")
        return path

    def reap(self):
        """Ends what the case started and left running."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()


def shorten(value, limit=600):
    text = repr(value)
    return text if len(text) <= limit else text[: limit // 2] + " ... " + text[-limit // 2 :]


CASES = []
ONLY_LONG = set()  # names of the cases that only `make check-long` runs


def case(function):
    CASES.append(function)
    return function


def long(function):
    """A case for `make check-long`."""
    ONLY_LONG.add(function.__name__)
    return case(function)


def cases(names, make):
    """One case for each name: make(name) returns its function."""
    for name in names:
        function = make(name)
        function.__name__ = name
        case(function)


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def need(*names):
    """Programs, and files by their path."""
    for name in names:
        if "/" in name and not os.path.exists(name):
            raise Skip(f"no file {name}")
        if "/" not in name and not shutil.which(name):
            raise Skip(f"no program {name}")


def run_case(function, tally, programs, cache):
    """(failures, why it was skipped)"""
    directory = tempfile.mkdtemp(prefix="tally-system-")
    context = Context(tally, programs, directory, cache)
    try:
        function(context)
        return context.failures, None
    except Skip as skip:
        return context.failures, str(skip)
    except Exception:  # a broken case is a failed one; the others still run
        return context.failures + [traceback.format_exc()], None
    finally:
        context.reap()
        shutil.rmtree(directory, ignore_errors=True)


def report(number, name, failures, skipped):
    for failure in failures:
        for line in failure.splitlines():
            print("#   " + line)
    if failures:
        print(f"not ok {number} - {name}")
    elif skipped is not None:
        print(f"ok {number} - {name} # SKIP {skipped}")
    else:
        print(f"ok {number} - {name}")
    sys.stdout.flush()


def run():
    tally, programs, only = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    chosen = [function for function in CASES if (function.__name__ in only if only else LONG or function.__name__ not in ONLY_LONG)]
    cache = tempfile.mkdtemp(prefix="tally-cache-")
    os.environ["XDG_CACHE_HOME"] = cache
    os.environ["LC_ALL"] = "C.UTF-8"
    for name in ("MALLOC_PERTURB_", "LD_LIBRARY_PATH"):  # meson sets them; programs are to run as they always do
        os.environ.pop(name, None)
    directories = os.environ.get("PATH", "").split(":")  # one that we may not look into makes "not found" a "not permitted"
    os.environ["PATH"] = ":".join(directory for directory in directories if os.access(directory, os.X_OK))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    print(f"1..{len(chosen)}", flush=True)
    if len(chosen) < len(CASES) and not only:
        print(f"# {len(CASES) - len(chosen)} more cases in make check-long", flush=True)
    failed = 0
    try:
        for number, function in enumerate(chosen, 1):
            began = time.monotonic()
            failures, skipped = run_case(function, tally, programs, cache)
            print(f"# {function.__name__}: {time.monotonic() - began:.1f} s", flush=True)
            report(number, function.__name__, failures, skipped)
            failed += bool(failures)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    sys.exit(1 if failed else 0)
