"""Pages that nobody made use of: in each mode equal to what a program knows of its blocks, whatever it does with them and however it ends."""
import signal
import subprocess

import tally
import tap

MODES = ("zero", "init", "unused")
UNSEEN = "SELECT coalesce(sum(count), 0) FROM losses WHERE number = 52"


def own(profile, pid):
    return profile.rows(
        "SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
        " JOIN data_strings s ON s.id = k.name JOIN data_frames f ON f.node = c.node"
        " JOIN data_threads t ON t.id = c.thread JOIN data_processes p ON p.id = t.process"
        f" WHERE s.text = 'empty.bytes' AND f.function GLOB 'own_*' AND p.pid = {pid}")[0][0]


def same(context, profile, mode, output, processes=1, unseen=0):
    lines = [[int(word) for word in line.split()] for line in output.splitlines()]
    context.equal(len(lines), processes, "processes that reported")
    for pid, *truth in lines:
        context.equal(own(profile, pid), truth[MODES.index(mode)], f"{mode}: bytes of {pid}")
    context.equal(profile.rows(UNSEEN), [(unseen,)], f"{mode}: blocks that were not looked at")
    context.equal(profile.rows("SELECT value FROM meta WHERE key = 'empty_pages'"), [(mode,)], "what was recorded")


def counted(context, way, modes=MODES, program="empty_truth", status=0, options=(), **how):
    for mode in modes:
        profile = tally.recorded(context, [context.program(program), way], [f"--empty={mode}", "--no-time", *options], status=status)
        same(context, profile, mode, profile.output, **how)
    return profile


@tap.case
def ends(context):
    """Live blocks are looked at while the program ends."""
    counted(context, "return")
    counted(context, "exit", ("unused",))


@tap.case
def becomes_another(context):
    counted(context, "exec", ("zero", "unused"))


@tap.case
def killed(context):
    """What was released is there; what was live is counted as unseen, though a child of vfork ended, and an exec failed, in the same memory."""
    counted(context, "kill", ("init", "unused"), status=128 + signal.SIGKILL, unseen=3)


@tap.case
def children(context):
    counted(context, "children", ("zero", "init"), processes=2)


@tap.case
def static_program(context):
    counted(context, "return", ("init", "unused"), program="empty_truth_static")


@tap.case
def with_everything(context):
    counted(context, "children", ("unused",), options=("--calls", "--heap", "--throws"), processes=2)


@tap.case
def attached(context):
    """Live blocks are looked at when the agent leaves, and the program goes on."""
    for mode in MODES:
        process = tally.start(context, [context.program("empty_truth"), "hooked"], stdin=subprocess.PIPE)
        path = context.path(f"visit-{mode}")
        recorder = tally.start(context, [context.tally, "record", f"--empty={mode}", "--no-time", "-o", path, "-p", str(process.pid)])
        line = process.stdout.readline().decode()
        recorder.send_signal(signal.SIGINT)
        result = tally.finish(recorder)
        context.equal(result.status, 0, f"status ({result.text()})")
        same(context, tally.Profile(context, path), mode, line)
        process.stdin.close()
        context.equal(process.wait(60), 0, "its status")


@tap.case
def said(context):
    """After recording, and in the report, whose views take the counter like any other."""
    words = {"zero": "in pages of zeros alone", "init": "in pages of zeros alone that were written", "unused": "in pages that were never used"}
    for mode, text in words.items():
        profile = tally.recorded(context, [context.program("empty_truth"), "exit"], [f"--empty={mode}"])
        report = tally.run(context, [context.tally, "report", profile.path]).output.decode()
        for where in (profile.errors, report):
            context.check("empty: " in where and f" {text}" in where, f"no {text!r} in {where}")
    tree = tally.run(context, [context.tally, "report", "--counter", "empty.bytes", "--tree", profile.path])
    context.check(b"own_malloc" in tree.output, tree.text())


tap.run()
