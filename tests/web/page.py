"""What the tests of the page have in common: the browser, the page, and figures as it writes them.

The arguments of both are TALLY DIRECTORY PROGRAMS MAKE_EXPORT [CASE...]; DIRECTORY takes the npm packages and, in shots/, pictures."""
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "system"))
import tally  # noqa: E402
from tap import Skip, need  # noqa: E402

DIRECTORY, PROGRAMS, MAKE_EXPORT = map(os.path.abspath, sys.argv[2:5])
del sys.argv[3:5]  # what is left is what tap.run takes
VIEWS = ("overview", "flame", "functions", "function", "source", "threads", "timeline", "candidates", "heap", "latency", "descriptors")
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


def browse(context, *steps):
    """What each step found; nothing bad may have happened."""
    program, modules, plan = chromium(), node_modules(), context.path("plan.json")
    os.makedirs(SHOTS, exist_ok=True)
    with open(plan, "w", encoding="utf-8") as stream:
        json.dump(steps, stream)
    environment = dict(os.environ, HOME=context.directory, XDG_CONFIG_HOME=context.directory)
    done = subprocess.run(["node", os.path.join(HERE, "browser.mjs"), modules, program, plan], env=environment, timeout=100,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if not context.equal(done.returncode, 0, "browser.mjs: " + done.stderr.decode(errors="replace")[-800:]):
        return [None] * len(steps)
    answer = json.loads(done.stdout)
    context.equal(answer["bad"], [], "what must not happen")
    if answer["bad"] and os.path.exists(plan + ".png"):
        shutil.copy(plan + ".png", os.path.join(SHOTS, "failed.png"))
    return answer["found"] + [None] * (len(steps) - len(answer["found"]))


def step(what, **options):
    return {"do": what, **options}


# --- what is shown ---


def export(context, profile, *options, name="page.html"):
    path = context.path(name)
    done = tally.run(context, [context.tally, "export", "--format", "html", "-o", path, *options, profile])
    if NO_PAGE in done.errors:
        raise Skip("this tally was built without npm")
    context.equal(done.status, 0, f"export ({done.text()})")
    return path


def made(context, name):
    """One of the profiles that the tests of exports are made with: always the same figures."""
    done = tally.run(context, [MAKE_EXPORT, context.directory])
    context.equal(done.status, 0, "make_export")
    return context.path(name + ".tally")


def need_x86_64():
    if os.uname().machine != "x86_64":
        raise Skip("calls and memory are counted on x86-64 only")


def recorded(context, name="profile"):
    need_x86_64()
    program = os.path.join(PROGRAMS, "loops")
    if not os.path.exists(program):
        raise Skip("no program loops")
    profile = tally.recorded(context, [program], ["--calls"], name=name)
    return profile.path if hasattr(profile, "path") else context.path(name)


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
        by_name.setdefault((row["function"], row["file"]), row)
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
