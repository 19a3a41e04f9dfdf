"""What a program's limits, and tools in it, count or walk: memory of the agent is a few MiB, wherever it is counted.

Beside the tables: VmSize of a process before, during and after a recording in each mode, and of children of its forks.
"""

import harm
import tally
import tap

MIB = 1024  # kB
MOST = 5 * MIB  # that an agent takes at first: 2 to 3, and what it grows by in a small program
MODES = {**harm.AGENT, "together": ["--heap", "--fds", "--throws", "--function", "main"]}
SHELL = "ulimit -v 8000000; x=$(seq 100000); echo ${{#x}}; (ulimit -v 4000000; seq 10 | sort -r | head -1); echo still here"

harm.row("addresses", source="limits.c", command=["{program}", "addresses"], modes=MODES, status=0)
harm.row("addresses_later", source="limits.c", command=["{program}", "addresses", "later"], modes=MODES, ways=["attached"])
harm.row("locked", source="limits.c", command=["{program}", "locked"], modes=MODES, status=0, root=True)
harm.row("writable", source="limits.c", command=["{program}", "writable"], modes=MODES, status=0)
harm.row("no_record", source="no_record.c", modes=MODES, ways=["attached"], seconds="0.8", status=0)
# Where addresses are not randomised, a program without PIE has its heap, which is to grow, right behind it.
harm.row("grows", source="grows.c", compile="gcc -O1 -g -no-pie -o {program} {source}", command=["setarch", "-R", "{program}"], status=0, needs=["setarch"])
harm.row("shell_limit", command=["bash", "-c", SHELL], modes=MODES, status=0, needs=["bash"])


def size_of(pid):
    """VmSize in kB."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmSize"))


@tap.case
def growth(context):
    """What each mode adds to a process that is attached to, and that nothing of it stays."""
    row = harm.Row("growth", source="plain.c", command=["{program}", "on"], modes=MODES)
    command = row.prepare(context)
    process, line = harm.begin(row, context, command)
    tally.wait_for(lambda: False, 0.5)  # its thread is there
    before = size_of(process.pid)
    for name, mode in row.chosen():
        one = tally.start(context, harm.record_command(row, context, mode, name, process.pid))
        largest = 0
        for _ in range(20):
            tally.wait_for(lambda: False, 0.05)
            largest = max(largest, size_of(process.pid))
        one.send_signal(2)
        one.communicate(timeout=30)
        context.check(largest > before, f"nothing was put into it in mode {name}")
        context.check(largest - before <= MOST, f"{largest - before} kB more in mode {name}")
        context.check(tally.wait_for(lambda: size_of(process.pid) <= before + MIB, 5), f"{size_of(process.pid) - before} kB stay after mode {name}")
    harm.end(row, context, process, line)


def writable_of(pid):
    """(mapping, flags) of those of the agent that can be written."""
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        found, name = [], ""
        for text in file:
            if "/memfd:tally-agent" in text:
                name = text
            elif text.startswith("VmFlags") and name:
                found, name = found + [(name, text.split())], ""
    return [(name, flags) for name, flags in found if " rw-" in name]


@tap.case
def dumps(context):
    """A core dump has nothing of Tally's: it would be as large as all that is mapped."""
    row = harm.Row("dumps", source="plain.c", command=["{program}", "on"])
    process, line = harm.begin(row, context, row.prepare(context))
    one = tally.start(context, harm.record_command(row, context, ["--heap"], "dumped", process.pid))
    context.check(tally.wait_for(lambda: harm.inside(process.pid), 10), "tally did not begin")

    def dumped():
        found = writable_of(process.pid)
        return [name for name, flags in found if "dd" not in flags] if found else None

    tally.wait_for(lambda: dumped() == [], 5)  # it is mapped first, and reported then
    context.equal(dumped(), [], "what would be dumped")
    one.send_signal(2)
    one.communicate(timeout=30)
    harm.end(row, context, process, line)


harm.run()
