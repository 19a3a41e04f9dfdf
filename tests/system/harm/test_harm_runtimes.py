"""What programs forbid themselves, and programs that Tally must know before it touches them."""
import harm

harm.row("filter_by_prctl", source="filter.c", status=0, short=["calls", "heap", "calls+heap", "all"])
harm.row("filter_by_syscall", source="filter.c", command=["{program}", "x"], status=0,
         short=["heap", "calls+heap", "calls+function", "calls+fds", "all"])


def says_valgrind(context, profile, mode, result):
    """What is not recorded is told, with the reason."""
    if mode != "time":
        context.check(b"it is run by Valgrind" in result.errors, f"mode {mode} does not say why: {result.errors!r}")


harm.row("valgrind", source="plain.c", command=["valgrind", "-q", "{program}"], needs=("valgrind",), status=3, check=says_valgrind,
         short=["calls", "heap", "function", "agent", "all"])
harm.run()
