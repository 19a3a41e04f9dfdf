"""What the tests of the page have in common: the browser, the page, and figures as it writes them.

The arguments of both are TALLY DIRECTORY PROGRAMS MAKE_EXPORT [CASE...]; DIRECTORY takes the npm packages and, in shots/, pictures of what
went wrong; of every view, too, with TALLY_SHOTS in the environment. The cases of a script share one browser, and what they record and export."""
import atexit
import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "system"))
import tally  # noqa: E402
from tap import Skip, need  # noqa: E402

DIRECTORY, PROGRAMS, MAKE_EXPORT = map(os.path.abspath, sys.argv[2:5])
del sys.argv[3:5]  # what is left is what tap.run takes
VIEWS = ("overview", "flame", "functions", "function", "source", "threads", "timeline", "candidates", "heap", "latency", "descriptors")
FILLED = tuple(view for view in VIEWS if view not in ("timeline", "heap", "latency", "descriptors"))  # those of any recording of calls
NO_PAGE = b"was built without npm"
SHOTS = os.path.join(DIRECTORY, "shots")


# --- the browser ---


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    raise Skip("no program chromium")


def node_modules():
    """Where the packages are; installed once a build directory."""
    need("node", "npm")
    directory = os.path.join(DIRECTORY, "node")
    modules = os.path.join(directory, "node_modules")
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "lock"), "w", encoding="ascii") as lock:  # tests of the page run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        install(directory, modules)
    return modules


def install(directory, modules):
    """The packages, unless they are there."""
    if os.path.isdir(os.path.join(modules, "axe-core")) and os.path.isdir(os.path.join(modules, "playwright-core")):
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), directory)
    try:
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=directory, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise Skip("npm could not install playwright-core and axe-core in time") from error
    if done.returncode:
        raise Skip("npm could not install playwright-core and axe-core: " + done.stdout.decode(errors="replace").strip()[-200:])


class Browser:
    """browser.mjs, started when it is first needed; it ends with this script."""

    process = home = None

    def start(self):
        program, modules = chromium(), node_modules()
        os.makedirs(SHOTS, exist_ok=True)
        self.home = tempfile.mkdtemp(prefix="tally-browser-")
        environment = dict(os.environ, HOME=self.home, XDG_CONFIG_HOME=self.home)
        with open(os.path.join(self.home, "errors"), "wb") as errors:
            self.process = subprocess.Popen(["node", os.path.join(HERE, "browser.mjs"), modules, program], env=environment, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors, cwd=self.home)

    def ask(self, plan, seconds=100):
        """The answer, or None and why there is none."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(plan).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None, self.end()
        answer = b""
        while not answer.endswith(b"\n"):
            ready = select.select([self.process.stdout], [], [], seconds)[0]
            part = os.read(self.process.stdout.fileno(), 1 << 20) if ready else b""
            if not part:
                return None, self.end() if ready else "no answer in time" + self.end()
            answer += part
        return json.loads(answer), ""

    def end(self):
        """The last words of its errors. The next plan starts another."""
        if self.process is None:
            return ""
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process = None
        with open(os.path.join(self.home, "errors"), encoding="utf-8", errors="replace") as stream:
            errors = stream.read()[-800:]
        shutil.rmtree(self.home, ignore_errors=True)
        return errors


BROWSER = Browser()
atexit.register(BROWSER.end)


def browse(context, *steps):
    """What each step found; nothing bad may have happened."""
    answer, why = BROWSER.ask({"steps": steps, "picture": os.path.join(SHOTS, "failed.png")})
    if not context.check(answer is not None, "browser.mjs: " + why):
        return [None] * len(steps)
    context.equal(answer["bad"], [], "what must not happen")
    return answer["found"] + [None] * (len(steps) - len(answer["found"]))


def step(what, **options):
    return {"do": what, **options}


def shot(name):
    """A picture, where pictures are wanted: no check looks at them."""
    return step("shot", path=os.path.join(SHOTS, name + ".png")) if os.environ.get("TALLY_SHOTS") else step("hash")


LOOKS = (("light", 1280, "all"), ("dark", 1280, "colours"), ("light", 320, "structure"))


def looks(context, page, views, looks_=LOOKS):
    """Light, dark and narrow: nothing for axe, no sideways scrolling."""
    for scheme, width, of in looks_:
        steps = [step("open", scheme=scheme, width=width)]
        for view in views:
            steps += [step("go", file=page, hash=view), shot(f"{re.sub('[^a-z]+', '-', view)}-{scheme}-{width}"), step("overflow"), step("axe", of=of)]
        found = browse(context, *steps)
        for i, view in enumerate(views):
            context.equal(found[4 * i + 3 : 4 * i + 5], [0, []], f"{view} {scheme} {width}: wider than the window, axe")


# --- what is shown ---


KEPT = tempfile.mkdtemp(prefix="tally-page-")
atexit.register(shutil.rmtree, KEPT, ignore_errors=True)
MADE = {}


def once(key, make):
    """What make() returned when it was first called for this."""
    if key not in MADE:
        MADE[key] = make()
    return MADE[key]


def export(context, profile, *options, name=None):
    """The page of a profile; of one that cases share, the page is shared too."""
    def write(path):
        done = tally.run(context, [context.tally, "export", "--format", "html", "-o", path, *options, profile])
        if NO_PAGE in done.errors:
            raise Skip("this tally was built without npm")
        context.equal(done.status, 0, f"export ({done.text()})")
        return path

    if name is None and os.path.dirname(profile) == KEPT:
        return once((profile, options), lambda: write(os.path.join(KEPT, f"page-{len(MADE)}.html")))
    return write(context.path(name or "page.html"))


def made(context, name, own=False):
    """One of the profiles that the tests of exports are made with: always the same figures. `own`: a copy, to be changed."""
    def make():
        done = tally.run(context, [MAKE_EXPORT, KEPT])
        context.equal(done.status, 0, "make_export")

    once("make_export", make)
    path = os.path.join(KEPT, name + ".tally")
    return shutil.copy(path, context.directory) if own else path


def need_x86_64():
    if os.uname().machine != "x86_64":
        raise Skip("calls and memory are counted on x86-64 only")


def record_once(context, command, options):
    """A profile that all cases share."""
    def record():
        name = f"recorded-{len(MADE)}.tally"
        return shutil.move(tally.recorded(context, command, options).path, os.path.join(KEPT, name))

    return once((*command, *options), record)


def recorded(context):
    need_x86_64()
    program = os.path.join(PROGRAMS, "loops")
    if not os.path.exists(program):
        raise Skip("no program loops")
    return record_once(context, [program], ["--calls"])


def report(context, command, *options):
    done = tally.run(context, [context.tally, command, "--json", *options])
    context.equal(done.status, 0, f"{command} {options} ({done.text()})")
    return json.loads(done.output)


def percent(share):
    """As Number.toFixed(1) does it."""
    return f"{float(f'{share * 100:.9f}'):.1f} %"


def margin(figure):
    return f"±{(figure['high'] - figure['low']) / 2 * 100:.1f}" if figure.get("high", 0) > figure.get("low", 0) else ""


def calls_of(row):
    if "calls" not in row or row["calls"] is None:
        return ""
    recursive = row.get("recursive_calls") or 0
    entering = row["calls"] - recursive
    return ("≥" if row.get("calls_complete") is False else "") + (f"{entering:,}" if entering or not recursive else "") + (
        f"+{recursive:,}" if recursive else "")


def near(context, got, wanted, what):
    """Shares of the page and of a report: both are rounded, so the last digit may differ by one."""
    one, two = re.findall(r"[\d.]+", got), re.findall(r"[\d.]+", wanted)
    context.check(len(one) == len(two) and all(abs(float(a) - float(b)) < 0.1001 for a, b in zip(one, two)),
                  f"{what}: {got!r} on the page, {wanted!r} in the report")


def compare_functions(context, rows, wanted, what, calls=True):
    by_name = {}
    for row in rows:
        by_name.setdefault((row["function"], row["image"]), row)
    expected = [row for row in wanted if row["self"]["value"] or row["total"]["value"]]
    context.equal(len(rows), len(expected), f"{what}: functions")
    for row in expected:
        got = by_name.get((row["function"], row["image"] or ""))
        if not context.check(got, f"{what}: {row['function']} is not on the page"):
            continue
        near(context, got["self"], f"{percent(row['self']['share'])} {margin(row['self'])}".strip(), f"{what}: self of {row['function']}")
        near(context, got["total"], f"{percent(row['total']['share'])} {margin(row['total'])}".strip(), f"{what}: total of {row['function']}")
        if "samples" in got:
            context.equal(got["samples"], f"{row['self']['samples']:,}", f"{what}: samples of {row['function']}")
        if calls:
            context.equal(got.get("calls", ""), calls_of(row), f"{what}: calls of {row['function']}")
