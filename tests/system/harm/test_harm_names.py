"""A name is a guess: functions that share only their names with the C library's, which hooks must leave alone or pass on untouched;
and functions that know who called them, or by which one a block was given."""
import ctypes.util
import os
import re

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


def opened(origin):
    """Only the C library's functions give descriptors and take them: one was opened, and is open. musl's fopen has a system call of its
    own, which is not seen."""
    def check(context, profile, mode, result):
        if "--fds" not in harm.MODES[mode]:
            return
        found = profile.rows("select number, origin, stack like '%main;%' from descriptors where number > 2")
        context.equal(found, [(3, origin, 1 if origin == "opened" else None)], f"open in mode {mode} ({result.text()})")
        used = [(frames, value) for frames, value in profile.stacks("fd.used") if "main" in frames]
        context.equal(sum(value for _, value in used), int(origin == "opened"), f"opened in mode {mode}: {used}")
    return check


for own in ("static", ""):
    for name, build in (("dynamic", DYNAMIC), ("static", STATIC), ("static_pie", STATIC_PIE)):
        harm.row(f"descriptors_{'local' if own else 'global'}_{name}", source="names_descriptors.c", compile=f"{build} -DOWN={own}", status=0,
                 short=["fds", "all"], check=opened("opened"))


def none_mapped(context, profile, mode, result):
    if "--heap" in harm.MODES[mode]:
        mapped = [(frames, value) for frames, value in profile.stacks("map.total") if "main" in frames]
        context.equal(mapped, [], f"mapped in mode {mode} ({result.text()})")


for name, build in (("dynamic", DYNAMIC), ("static", STATIC + " -DLINKED"), ("static_pie", STATIC_PIE + " -DLINKED"),
                    ("musl", "musl-gcc -w -O1 -g -fno-builtin -static -DLINKED -o {program} {source}")):
    harm.row(f"calls_{name}", source="names_calls.c", compile=build, status=3, short=["calls", "heap", "fds", "agent", "all"],
             needs=["musl-gcc"] if name == "musl" else [], check=none_mapped)
MUSL = "musl-gcc -w -O1 -g -fno-builtin -static -DOWN= -o {program} {source}"
harm.row("descriptors_global_musl", source="names_descriptors.c", compile=MUSL, status=0, short=["fds"], needs=["musl-gcc"], check=opened("unseen"))

harm.row("wrapped", source="names_arena.c", compile="gcc -w -O1 -g -fno-builtin -Wl,--wrap=malloc -o {program} {source}", status=0, short=SHORT)


def library_row(name, library):
    """A row of a program that is linked with the library, if the machine has it."""
    found = ctypes.util.find_library(library)
    if found:
        harm.row(name, source="allocators.cpp", compile=f"g++ -std=c++17 -O1 -g -o {{program}} {{source}} -l:{found}", status=0,
                 short=["heap", "all"], ways=["launched", "attached", *(["killed", "again"] if name == "tcmalloc_debug" else [])])
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

# Who walks the stack inside of a hooked function comes to its callers: by the C library's own unwinder, by one that is linked into the
# program, and by libunwind.
WALKS = {**harm.CALLS, **harm.AGENT, "timed": ["--function", "timed"], "calls+heap": ["--calls", "--heap"],
         "heap+function": ["--heap", "--function", "malloc", "--function", "timed"], "sampled": ["--heap=sample:64"],
         "everything": ["--calls", "--heap", "--fds", "--throws", "--function", "timed"]}
READERS = "gcc -O2 -g -rdynamic -pthread {flags} -o {{program}} {{source}}"
for name, flags in (("shared", ""), ("linked", "-static-libgcc"), ("stripped", "-static-libgcc -s")):
    harm.row(f"readers_{name}", source="readers.c", compile=READERS.format(flags=flags), command=["{program}", "on"], status=0, modes=WALKS,
             short=["heap", "timed", "sampled", "everything"], ways=["launched", "attached"])
harm.row("readers_killed", source="readers.c", compile=READERS.format(flags=""), command=["{program}", "on"], status=0, modes=WALKS,
         short=["heap", "timed", "everything"], ways=["killed", "again"])

harm.row("readers_libunwind", source="readers.c", compile=READERS.format(flags="-DLIBUNWIND") + " -lunwind", command=["{program}", "on"],
         status=0, modes=WALKS, short=["heap", "everything"], ways=["launched", "attached"], needs=["/usr/include/x86_64-linux-gnu/libunwind.h"])

# What reads its return address sees the program's where its library is left out (tally-record(1)), and where memory is not counted.
LEFT_OUT = ["--skip-image", "libc_malloc_debug.so*"]
harm.row("traced", source="traced.c", compile="gcc -O1 -g -no-pie -o {program} {source}", status=0, files=["trace"],
         command=["env", "LD_PRELOAD=libc_malloc_debug.so.0", "MALLOC_TRACE={directory}/trace", "{program}"],
         modes={"heap": ["--heap", *LEFT_OUT], "calls+heap": ["--calls", "--heap", *LEFT_OUT], "calls": ["--calls"], "fds": ["--fds"],
                "function": ["--function", "main"]}, clean=lambda text: re.sub(rb"0x[0-9a-f]{6,}", b"", text))

THROWN = ["--heap", "--alloc-functions=" + os.path.join(harm.PROGRAMS, "throwing.names")]
harm.row("throwing", source="throwing.cpp", compile="g++ -O1 -g -o {program} {source}", command=["{program}", "on"], status=0,
         modes={"heap": THROWN, "sampled": ["--heap=sample:64", *THROWN[1:]], "all": ["--calls", "--fds", "--throws", "--function", "main", *THROWN]},
         ways=["launched", "attached", "killed", "again"])
harm.run()
