"""Outputs that are links, devices and pipes; and other people's recordings beside ours."""
import os
import subprocess

import harm  # noqa: F401  (the path to tap and tally)
import tally
import tap


def directory(context):
    """A directory with a link to a profile that is not there yet, one to an empty file, and one to standard output."""
    os.symlink("absent", context.path("dangling"))
    with open(context.path("real"), "wb"):
        pass
    os.symlink("real", context.path("link"))
    os.symlink("/proc/self/fd/1", context.path("output"))
    os.symlink("cycle", context.path("cycle"))


def links(context):
    return {name: os.readlink(context.path(name)) for name in os.listdir(context.directory) if os.path.islink(context.path(name))}


def is_profile(context, name):
    with open(context.path(name), "rb") as file:
        context.equal(file.read(15), b"SQLite format 3", name)


@tap.case
def links_stay(context):
    """What they lead to is written; twice, so that an older profile is there."""
    directory(context)
    before = links(context)
    for _ in range(2):
        for name, leads_to in (("link", "real"), ("dangling", "absent")):
            result = tally.record(context, [context.program("recursion"), "--seconds", "0.2"], name=name)
            context.equal(result.status, 0, f"status of recording to {name} ({result.text()})")
            is_profile(context, leads_to)
    result = tally.record(context, ["true"], name="cycle")
    context.check(result.status != 0 and b"leads to no name" in result.errors, f"a cycle: {result.text()}")
    for command in (["import", "-o", "link3", "stacks"], ["merge", "-o", "link4", "real", "absent"], ["export", "-o", "link5", "--format", "folded", "real"]):
        os.symlink("to-" + command[2], context.path(command[2]))
        with open(context.path("stacks"), "w", encoding="ascii") as file:
            file.write("a;b 3\n")
        result = tally.run(context, [context.tally, *command])
        context.equal(result.status, 0, f"{' '.join(command)}: {result.text()}")
        context.check(os.path.islink(context.path(command[2])) and os.path.getsize(context.path("to-" + command[2])) > 0, f"{command[2]} is no link any more")
    context.equal({name: leads for name, leads in links(context).items() if name in before}, before, "links")


@tap.case
def standard_output(context):
    """By name: a file behind it is written through, a pipe is for text only."""
    directory(context)
    command = [context.tally, "record", "-o", "output", "--", context.program("recursion"), "--seconds", "0.2"]
    with open(context.path("plain"), "wb") as plain:
        done = subprocess.run(command, cwd=context.directory, stdout=plain, stderr=subprocess.PIPE, check=False)
    context.equal(done.returncode, 0, f"status with a file behind it ({done.stderr!r})")
    is_profile(context, "plain")
    result = tally.run(context, [context.tally, "record", "-o", "output", "--", "true"])
    context.check(result.status == 125 and b"no name" in result.errors or b"regular file" in result.errors, f"a pipe: {result.text()}")
    result = tally.run(context, [context.tally, "export", "--format", "folded", "-o", "output", "plain"])
    context.check(result.status == 0 and b"recursion_leaf" in result.output, f"text to a pipe: {result.text()}")
    context.equal(os.readlink(context.path("output")), "/proc/self/fd/1", "the link")


@tap.case
def another_recorder(context):
    """perf is not disturbed by a recording of the whole machine: its records are of the kind that it asked for."""
    tap.need_root()
    tap.need("perf")
    ours = tally.start(context, [context.tally, "record", "-a", "--duration", "3", "-o", "all"])
    tally.wait_for(lambda: os.path.exists(context.path("all")))
    tally.wait_for(lambda: False, 0.5)
    busy = ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; ls / >/dev/null"]
    result = tally.run(context, ["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-o", "perf.data", *busy])
    context.equal(result.status, 0, f"status of perf ({result.text()})")
    dump = tally.run(context, ["perf", "script", "-i", "perf.data", "--show-mmap-events"])
    records = [line for line in dump.output.decode(errors="replace").splitlines() if "PERF_RECORD_MMAP2" in line and "/" in line.rsplit(" ", 1)[-1]]
    context.check(records and not any("<" in line.split("[", 2)[-1].split(">")[0] and len(line.split("<")[-1].split(">")[0]) == 40 for line in records),
                  f"records with build-ids that perf did not ask for: {records[:3]}")
    context.equal(tally.finish(ours).status, 0, "status of tally")


tap.run()
