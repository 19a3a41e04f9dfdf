"""Tally killed while it counts memory: the program goes on, and what stayed in it goes with the next tally, or with tally detach."""
import random
import time

import tally
import tap

KILLS = 100 if tap.LONG else 8


def ours(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return [line for line in file if "tally" in line]


def traced(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return "TracerPid:\t0\n" not in file.read()


def recorder(context, pid, *options):
    return tally.start(context, [context.tally, "record", "--heap", "--no-time", "-o", context.path("killed"), *options, "-p", str(pid)])


def kill(context, process, pid):
    process.kill()
    process.communicate()
    context.check(tally.wait_for(lambda: not traced(pid)), "it is traced still")


@tap.case
def killed_anywhere(context):
    """At random moments of attaching, counting and leaving; then another one records, and leaves nothing."""
    source = random.Random(20261121)
    target = tally.start_busy(context, "threads", "4", "--together", "--forever")
    left = 0
    for _ in range(KILLS):
        one = recorder(context, target.pid, "--duration", "0.05")
        context.check(tally.wait_for(lambda: ours(target.pid) or one.poll() is not None), "tally did not begin")
        time.sleep(source.random() * 0.08)
        kill(context, one, target.pid)
        left += bool(ours(target.pid))
        result = tally.run(context, [context.tally, "detach", "-p", str(target.pid)])
        context.equal(ours(target.pid), [], f"memory left after detach ({result.text()})")
    result = tally.run(context, [context.tally, "record", "--heap", "--no-time", "-o", context.path("after"), "--duration", "0.2", "-p", str(target.pid)])
    context.equal(result.status, 0, f"status of a later tally ({result.text()})")
    context.equal(ours(target.pid), [], "memory left in the program")
    context.check(target.poll() is None, "the program ended")
    context.note(f"{left} of {KILLS} left something")
    context.check(left > 0, "no kill came while something was there")


@tap.case
def detach_cleans(context):
    target = tally.start_busy(context, "threads", "2", "--together", "--forever")
    one = recorder(context, target.pid)
    context.check(tally.wait_for(lambda: one.poll() is not None or (len(ours(target.pid)) >= 3 and not traced(target.pid))), "tally did not begin")
    time.sleep(0.3)
    refused = tally.run(context, [context.tally, "detach", "-p", str(target.pid)])
    context.equal(refused.status, 2, f"detach of what is recorded: {refused.text()}")
    context.check(f"is being recorded by tally {one.pid}" in refused.errors.decode(), refused.text())
    kill(context, one, target.pid)
    context.check(ours(target.pid), "nothing was left to clean")
    result = tally.run(context, [context.tally, "detach", "-p", str(target.pid)])
    context.equal(result.status, 0, f"status of detach ({result.text()})")
    context.equal(ours(target.pid), [], "memory left in the program")
    again = tally.run(context, [context.tally, "detach", "-p", str(target.pid)])
    context.equal((again.status, again.output.decode()), (0, f"process {target.pid}: nothing of tally's is in it\n"), "detach of what is clean")
    context.check(target.poll() is None, "the program ended")


tap.run()
