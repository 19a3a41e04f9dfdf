"""An ordinary program in every way and every mode: what the other tables look at in odd ones."""
import resource

import harm


def small_stack(kilobytes):
    """Of tally and of the program: tally does not crash, and the program has what it was given."""
    return lambda: resource.setrlimit(resource.RLIMIT_STACK, (kilobytes << 10, kilobytes << 10))


harm.row("plain", source="plain.c", status=3)
harm.row("busy", source="plain.c", command=["{program}", "on"], ways=["attached", "killed", "again"], restless=True,
         short=["time", "calls", "heap", "fds", "function", "all"])
harm.row("polls", source="polls.c", ways=["attached", "killed", "again"], restless=True, short=["time", "calls", "heap", "function", "agent", "all"], status=0)
harm.row("shell", command=["sh", "-c", "for i in 1 2 3; do ls / | sort | head -3; done; exit 5"], status=5, short=["calls", "heap", "fds", "all"])
for size in (160, 64):
    harm.row(f"stack_{size}", command=["sh", "-c", "ulimit -s; ulimit -Hs; ls /; exit 5"], status=5, before=small_stack(size),
             short=["time", "calls", "heap", "agent", "all"])
harm.run()
