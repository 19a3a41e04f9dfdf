"""What programs forbid themselves, and programs that Tally must know before it touches them."""
import harm

harm.row("filter_by_prctl", source="filter.c", status=0, short=["calls", "heap", "calls+heap", "all"])
harm.row("filter_by_syscall", source="filter.c", command=["{program}", "x"], status=0)
harm.run()
