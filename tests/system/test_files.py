"""The profile file: never destroys, never shared, never half-written; and what lies in the caches."""
import os
import stat
import subprocess
import time

import tap
import tally


def quick(context, options=(), name="profile", lines="10"):
    return tally.record(context, [context.program("steady"), lines, "10"], options, name)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@tap.case
def file_is_private(context):
    previous = os.umask(0)
    try:
        result = quick(context)
    finally:
        os.umask(previous)
    context.equal(oct(mode(result.profile)), oct(0o600), "mode of the profile")
    context.equal(os.listdir(context.directory), ["profile"], "files left")


@tap.case
def default_name(context):
    result = tally.run(context, [context.tally, "record", "--", context.program("steady"), "5", "5"])
    context.equal(result.status, 42, f"status ({result.errors.decode()})")
    context.equal(os.listdir(context.directory), ["tally.out"], "files left")
    report = tally.run(context, [context.tally, "report"])
    context.equal(report.status, 0, f"status of report ({report.errors.decode()})")
    context.check(b"steady_" in report.output, f"the report says {report.output!r}")


@tap.case
def existing_profile_is_kept(context):
    quick(context, lines="10")
    first = tally.Profile(context, context.path("profile")).total()
    quick(context, lines="30")
    context.equal(sorted(os.listdir(context.directory)), ["profile", "profile.old"], "files left")
    context.equal(tally.Profile(context, context.path("profile.old")).total(), first, "samples in the old one")
    quick(context, lines="5")
    context.check(tally.Profile(context, context.path("profile.old")).total() > first, "the older of the two was kept")


@tap.case
def failed_run_keeps_the_profile(context):
    """A command that cannot be run must not cost the profile of the last run."""
    quick(context)
    total = tally.Profile(context, context.path("profile")).total()
    result = tally.record(context, ["tally-has-no-such-command"])
    context.equal(result.status, 127, "status")
    context.equal(os.listdir(context.directory), ["profile"], "files left")
    context.equal(tally.Profile(context, context.path("profile")).total(), total, "samples in the profile")


@tap.case
def other_files_are_not_overwritten(context):
    for name, data in (("notes", b"dear diary\n"), ("data", os.urandom(70000))):
        path = context.path(name)
        with open(path, "wb") as file:
            file.write(data)
        mark = context.path("mark")
        result = tally.record(context, ["touch", mark], (), name)
        context.equal(result.status, 125, f"status ({result.errors.decode()})")
        context.check(path.encode() in result.errors, f"the file is not named: {result.errors}")
        context.check(not os.path.exists(mark), "the target ran")
        with open(path, "rb") as file:
            context.check(file.read() == data, f"{name} was changed")
    context.equal(sorted(os.listdir(context.directory)), ["data", "notes"], "files left")


@tap.case
def other_databases_are_not_overwritten(context):
    import sqlite3

    path = context.path("database")
    connection = sqlite3.connect(path)
    connection.execute("create table precious(x)")
    connection.commit()
    connection.close()
    result = tally.record(context, ["true"], (), "database")
    context.equal(result.status, 125, f"status ({result.errors.decode()})")
    connection = sqlite3.connect(path)
    context.equal(connection.execute("select name from sqlite_master").fetchall(), [("precious",)], "tables")
    connection.close()


@tap.case
def directory_or_missing_directory(context):
    for path in (context.directory, context.path("none/profile")):
        result = tally.run(context, [context.tally, "record", "-o", path, "--", "true"])
        context.equal(result.status, 125, f"status for {path} ({result.errors.decode()})")
        context.check(path.encode() in result.errors, f"the path is not named: {result.errors}")
    context.equal(os.listdir(context.directory), [], "files left")


@tap.case
def locked_while_recording(context):
    """Refused, naming the pid of who records; the recording is not disturbed; it can be read meanwhile."""
    path = context.path("profile")
    first = tally.start(context, [context.tally, "record", "-o", path, "--", context.program("steady"), "250", "10"])
    for _ in range(130):
        first.stdout.readline()
    second = tally.record(context, ["true"])
    context.equal(second.status, 125, f"status ({second.errors.decode()})")
    context.check(str(first.pid).encode() in second.errors, f"pid {first.pid} is not named: {second.errors}")
    report = tally.run(context, [context.tally, "report", path])
    context.equal(report.status, 0, f"status of a report meanwhile ({report.text()})")
    result = tally.finish(first)
    context.equal(result.status, 42, f"status of the first ({result.errors.decode()})")
    context.equal(os.listdir(context.directory), ["profile"], "files left")
    context.check(tally.Profile(context, path).total() > 2e9, "the first recording is not whole")


DISK = """
mount -t tmpfs -o size=1m tally-test "$1" || exit 77
dd if=/dev/zero of="$1/ballast" bs=1024 count="$2" 2>/dev/null
"$3" record -F 4000 -o "$1/profile" -- "$4" 200 10 > "$5" 2> "$6"
echo $? > "$7"
"$3" report "$1/profile" > /dev/null 2> "$8"
echo $? >> "$7"
ls "$1" > "$9"
"""


@tap.case
def disk_full(context):
    """One line that says so; the target goes on to its end; what is in the file can be read, or there is no file."""
    tap.need_root()
    tap.need("unshare", "mount")
    for ballast in ("1024", "990", "920"):
        names = {name: context.path(name) for name in ("disk", "out", "err", "status", "report", "left")}
        os.makedirs(names["disk"], exist_ok=True)
        result = tally.run(context, ["unshare", "-m", "--propagation", "private", "sh", "-c", DISK, "sh", names["disk"], ballast, context.tally,
                                     context.program("steady"), names["out"], names["err"], names["status"], names["report"], names["left"]])
        if result.status == 77:
            raise tap.Skip("no tmpfs can be mounted: " + result.errors.decode().strip())
        texts = {}
        for name in ("out", "err", "status", "report", "left"):
            with open(names[name], encoding="utf-8", errors="replace") as file:
                texts[name] = file.read()
        check_full(context, ballast, texts)


def check_full(context, ballast, texts):
    status, report = texts["status"].split()
    what = f"with {ballast} of 1024 KB taken"
    if status == "42" and report == "0":
        context.note(f"{what} the profile fitted")
        return
    context.check(texts["err"].strip() != "" and ("space" in texts["err"] or "full" in texts["err"]), f"{what} nothing says why: {texts['err']!r}")
    if status == "125":
        context.equal(texts["out"], "", f"{what}: output of a target that should not have run")
        context.equal(texts["left"].split(), ["ballast"], f"{what}: files left")
    else:
        context.equal(texts["out"].count("\n"), 200, f"{what}: lines of the target")
        context.check(status in ("2", "42"), f"{what}: status {status}")
        context.check(report in ("0", "2"), f"{what}: status of report {report}: {texts['report']}")


@tap.case
def cache_is_private(context):
    cache = context.path("cache")
    os.mkdir(cache)
    environment = dict(os.environ, XDG_CACHE_HOME=cache)
    previous = os.umask(0)
    try:
        result = tally.record(context, [context.program("steady"), "30", "10"], env=environment)
    finally:
        os.umask(previous)
    context.equal(result.status, 42, f"status ({result.errors.decode()})")
    own = os.path.join(cache, "tally")
    if not context.check(os.path.isdir(own), f"no cache directory; there is {os.listdir(cache)}"):
        return
    context.equal(oct(mode(own)), oct(0o700), "mode of the cache directory")
    for directory, _, names in os.walk(own):
        for name in names:
            context.check(mode(os.path.join(directory, name)) & 0o077 == 0, f"others may read {name} in the cache")
    context.check(any(names for _, _, names in os.walk(own)), "nothing was cached")


@tap.case
def spoilt_cache_does_no_harm(context):
    """Files of the cache cut, emptied and overwritten: the stacks are right all the same."""
    cache = context.path("cache")
    os.mkdir(cache)
    environment = dict(os.environ, XDG_CACHE_HOME=cache)
    tally.record(context, [context.program("recursion"), "--seconds", "0.3"], env=environment)
    for number, damage in enumerate((b"", b"\xff" * 5000, None)):
        for directory, _, names in os.walk(cache):
            for name in names:
                path = os.path.join(directory, name)
                with open(path, "r+b") as file:
                    file.truncate(os.path.getsize(path) // 2 if damage is None else 0)
                    file.write(damage or b"")
        profile = tally.recorded(context, [context.program("recursion"), "--seconds", "0.3"], name=f"profile{number}", env=environment)
        deep = max((value, frames) for frames, value in profile.stacks())[1]
        context.equal(deep.count("recursion_step"), 30, f"frames of recursion_step with damage {number}")


@tap.case
def cache_that_cannot_be_written(context):
    for cache in ("/proc/nowhere", "/dev/null"):
        result = tally.record(context, [context.program("steady"), "10", "10"], env=dict(os.environ, XDG_CACHE_HOME=cache, HOME=cache))
        context.equal(result.status, 42, f"status with cache {cache} ({result.errors.decode()})")
        context.check("steady_step" in tally.Profile(context, result.profile).functions(), "no profile")


@tap.case
def query_in_all_forms(context):
    import json

    profile = tally.recorded(context, [context.program("shares"), "--seconds", "0.5"])
    rows = profile.query("select name, unit, exact from counters")
    context.equal(rows, [["name", "unit", "exact"], [profile.counter(), "ns", "0"]], "counters")
    objects = json.loads(profile.query("select function, self, samples from flat where function like 'share!_%' escape '!' order by self desc", "--json"))
    context.equal([row["function"] for row in objects], ["share_60", "share_25", "share_10", "share_05"], "functions by share")
    context.check(all(isinstance(row["self"], (int, float)) for row in objects), "numbers are numbers")
    result = tally.run(context, [context.tally, "query", profile.path, "delete from counters"])
    context.equal(result.status, 2, f"status of a statement that writes ({result.text()})")
    result = tally.run(context, [context.tally, "query", profile.path, "select nonsense from nowhere"])
    context.equal(result.status, 2, f"status of nonsense ({result.text()})")


@tap.case
def views_hold_together(context):
    """flat, stacks, threads and meta say the same of one run. Time that a hypervisor takes from a running thread is in the samples
    and not in the thread's own clock."""
    begun = time.monotonic()
    profile = tally.recorded(context, [context.program("shares"), "--seconds", "1"])
    elapsed = (time.monotonic() - begun) * 1e9
    flat, whole = profile.flat(), profile.total()
    sums = "select function, sum(self), sum(total) from flat where counter = ? group by function"  # ld.so has a _start, too
    by_leaf, by_any = {}, {}
    for frames, value in profile.stacks():
        by_leaf[frames[-1]] = by_leaf.get(frames[-1], 0) + value
        for frame in set(frames):
            by_any[frame] = by_any.get(frame, 0) + value
    for function, own, total in profile.rows(sums, (profile.counter(),)):
        context.equal((own, total), (by_leaf.get(function, 0), by_any.get(function, 0)), f"self and total of {function}")
    context.check(0.9e9 < whole < elapsed, f"{whole / 1e9:.3f} s of samples for a second of work in {elapsed / 1e9:.3f} s")
    context.check(flat["main"]["total"] > 0.9 * whole, "total of main")


@tap.case
def report_leaves_the_profile_alone(context):
    profile = tally.recorded(context, [context.program("shares"), "--seconds", "0.3"])
    before = os.stat(profile.path)
    time.sleep(0.02)
    for options in ([], ["--graph"], ["--tree"], ["--paths"], ["--losses"], ["--json"], ["--by", "line"]):
        context.check(profile.report(*options).strip() != "", f"report {options} is empty")
    after = os.stat(profile.path)
    context.equal((after.st_size, after.st_mtime_ns), (before.st_size, before.st_mtime_ns), "size and time of the profile")
    context.equal(os.listdir(context.directory), ["profile"], "files left")


@tap.case
def profile_is_readable_elsewhere(context):
    """Names come with the profile: it is read the same without the program."""
    copy = context.path("copy")
    subprocess.run(["cp", context.program("recursion"), copy], check=True)
    profile = tally.recorded(context, [copy, "--seconds", "0.3"])
    before = profile.report()
    os.unlink(copy)
    context.equal(profile.report(), before, "the report without the program")
    context.check("recursion_leaf" in before, "recursion_leaf is not in the report")


tap.run()
