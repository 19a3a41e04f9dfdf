"""A program that takes all memory which the kernel will commit to. Nothing runs beside it: whatever else needs memory then, may get none."""
import contextlib
import os

import harm
import tally
import tap

VM = "/proc/sys/vm"
SPARE = 1 << 20  # kB: kept for administrators, as who runs this test is
LEAST = 4 << 20  # kB that must be free for it


def setting(name, value=None):
    with open(f"{VM}/{name}", "r" if value is None else "w", encoding="utf-8") as file:
        return file.read().strip() if value is None else file.write(str(value))


def free_to_commit():
    with open("/proc/meminfo", encoding="utf-8") as file:
        facts = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return facts["CommitLimit"] - facts["Committed_AS"]


@contextlib.contextmanager
def no_more_than_there_is():
    """The kernel commits no more memory than there is. That is for the whole machine, so only where nobody else works on it."""
    if os.environ.get("CI") != "true":
        raise tap.Skip("changes vm.overcommit_memory: only in CI (CI=true)")
    if free_to_commit() < LEAST:
        raise tap.Skip(f"{free_to_commit()} kB may be committed, which is less than {LEAST}")
    before = [(name, setting(name)) for name in ("admin_reserve_kbytes", "overcommit_memory")]
    try:
        setting("admin_reserve_kbytes", SPARE)
        setting("overcommit_memory", 2)
    except OSError as failure:
        raise tap.Skip(f"vm.overcommit_memory cannot be set: {failure.strerror}") from failure
    try:
        yield
    finally:
        for name, value in reversed(before):
            setting(name, value)


@tap.case
def committed_while_attached(context):
    """All is taken while a recording is there, twice: the second time the agent's memory may have grown into what was free between."""
    row = harm.Row("committed_later", source="committed.c", command=["{program}", "on"], root=True)
    command = row.prepare(context)
    with no_more_than_there_is():
        process, line = harm.begin(row, context, command)
        before = harm.Footprint(process.pid)
        said = []
        for name, mode in row.chosen():
            one = tally.start(context, harm.record_command(row, context, mode, name, process.pid))
            context.check(tally.wait_for(lambda: harm.inside(process.pid) or not mode, 10), f"tally did not begin in mode {name}")
            for _ in range(2):
                process.stdin.write(b"once\n")
                process.stdin.flush()
                said.append(process.stdout.readline())
            one.send_signal(2)
            _, errors = one.communicate(timeout=30)
            context.equal(one.returncode, 0, f"status of tally in mode {name} ({errors.decode()})")
            before.same(context, process.pid, f"after mode {name}")
        context.equal(set(said), {said[0]}, "what it said")
        context.check(b"status 0" in said[0], f"what it said: {said[0]!r}")
        harm.end(row, context, process, line)


harm.row("committed", source="committed.c", modes=harm.MODES, status=0, root=True, around=lambda: no_more_than_there_is())
harm.run()
