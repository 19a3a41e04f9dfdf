"""A name is a guess: functions that share only their names with the C library's, which hooks must leave alone or pass on untouched;
and functions that know who called them, or by which one a block was given."""
import ctypes.util

import harm
import tap

DYNAMIC = "gcc -w -O1 -g -fno-builtin -o {program} {source}"
STATIC = "gcc -w -O1 -g -fno-builtin -static -o {program} {source}"
STATIC_PIE = "gcc -w -O1 -g -fno-builtin -static-pie -o {program} {source}"
SHORT = ["heap", "fds", "agent", "all"]


def none_counted(context, profile, mode, result):
    """None of its own blocks is one of the C library's; that makes a few for itself."""
    if "heap" in mode:
        made = sum(value for _, value in profile.stacks("heap.count"))
        context.check(made < 50, f"{made} blocks were counted in mode {mode}")


for name, build in (("dynamic", DYNAMIC), ("static", STATIC), ("static_pie", STATIC_PIE)):
    harm.row(f"arena_{name}", source="names_arena.c", compile=build, status=0, short=SHORT, check=none_counted)
    harm.row(f"one_by_one_{name}", source="names_one_by_one.c", compile=build, status=0, short=SHORT)
harm.row("wrapped", source="names_arena.c", compile="gcc -w -O1 -g -fno-builtin -Wl,--wrap=malloc -o {program} {source}", status=0, short=SHORT)


def library_row(name, library):
    """A row of a program that is linked with the library, if the machine has it."""
    found = ctypes.util.find_library(library)
    if found:
        harm.row(name, source="allocators.cpp", compile=f"g++ -std=c++17 -O1 -g -o {{program}} {{source}} -l:{found}", status=0,
                 short=["heap", "all"], ways=["launched", "attached"])
        return

    def missing(context):
        raise tap.Skip(f"no lib{library}")
    missing.__name__ = name
    tap.case(missing)


for allocator in ("tcmalloc_debug", "tcmalloc", "jemalloc", "mimalloc"):
    library_row(allocator, allocator)

# Under ptrace, which exact calls need, LeakSanitizer itself ends the program.
for name, build in (("leak", "gcc -O1 -g -fsanitize=leak -o {program} {source}"),
                    ("address", "gcc -O1 -g -fsanitize=address -o {program} {source}")):
    harm.row(f"suppressed_{name}", source="suppressed.c", compile=build, status=0, modes=harm.AGENT, short=["heap", "fds", "function"])
harm.run()
