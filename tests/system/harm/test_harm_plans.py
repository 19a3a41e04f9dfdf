"""What is planned for a process step by step: objects that come late, more code than there was room for, images left out."""
import os
import subprocess
import sys

import harm
import calls
import tally
import tap

LATE = "\n".join(("gcc -O2 -g -rdynamic -o {program} {source} -ldl", "gcc -O2 -g -shared -fPIC -o {directory}/taker.so {sources}/late_taker.c",
                  "gcc -O2 -g -shared -fPIC -o {directory}/other.so {sources}/late_other.c"))
TRUTH = {("main", "asked"): 1000, ("asked", "inner"): 6000, ("run_taker", "asked"): 5000, ("run_taker", "taker_own"): 5000,
         ("run_other", "other_own"): 3000}
WITH_CALLS = {name: mode for name, mode in harm.MODES.items() if "--calls" in mode}


def by_names(profile):
    """{(caller, callee): calls}, ways of calling together."""
    found = {}
    for _, caller, callee, _, count in calls.edges(profile):
        key = calls.plain(caller), calls.plain(callee)
        found[key] = found.get(key, 0) + count
    return found


def late_counts(context, profile, mode, _result):
    found = by_names(profile)
    for (caller, callee), count in TRUTH.items():
        context.equal(found.get((caller, callee), 0), count, f"calls of {callee} by {caller} in mode {mode}")
    context.equal(profile.losses().get(26), None, f"images that are not counted in mode {mode}")


harm.row("late_objects", source="late_main.c", compile=LATE, command=["{program}", "{directory}/taker.so", "{directory}/other.so"], modes=WITH_CALLS,
         short=["calls", "all"], check=late_counts, status=0)


@tap.case
def more_hooks_than_an_arena_holds(context):
    """Twice 160,000 functions with hooks: what one arena has room for does not hold all of their code."""
    tap.need("gcc")
    libraries = []
    for number in range(4):
        source, library = context.path(f"many{number}.S"), context.path(f"libmany{number}.so")
        with open(source, "w", encoding="utf-8") as file:
            subprocess.run([sys.executable, os.path.join(harm.PROGRAMS, "many_hooks.py"), str(number), "40000"], stdout=file, check=True)
        subprocess.run(["gcc", "-shared", "-o", library, source], check=True)
        libraries.append(library)
    program = context.path("many_hooks")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", program, os.path.join(harm.PROGRAMS, "many_hooks.c"), *libraries,
                    f"-Wl,-rpath,{context.directory}"], check=True)
    alone = tally.run(context, [program])
    result = tally.record(context, [program], ["--calls", "--no-time"])
    context.equal((result.status, result.output), (alone.status, alone.output), "outcome")
    profile = tally.Profile(context, context.path("profile"))
    total = sum(count for (caller, callee), count in by_names(profile).items() if caller == "call_all" and callee.startswith("f"))
    context.equal(total, 320000, f"calls by address ({result.text()})")


@tap.case
def two_hundred_libraries(context):
    """Each is counted."""
    tap.need("gcc")
    source = context.path("library.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("__attribute__((noipa)) static int NAME(own_)(int x) { return x + 1; }\n"
                   "int NAME(go_)(int n) { int s = 0; for (int i = 0; i < n; i++) s += NAME(own_)(i); return s; }\n")
    libraries = []
    for number in range(200):
        library = context.path(f"lib{number}.so")
        subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", f"-DNAME(x)=x##{number}", "-o", library, source], check=True)
        libraries.append(library)
    main = context.path("main.c")
    with open(main, "w", encoding="utf-8") as file:
        file.write("#include <stdio.h>\n" + "".join(f"int go_{number}(int);\n" for number in range(200)) + "int main(void)\n{\nlong sum = 0;\n"
                   + "".join(f"sum += go_{number}({number} + 1);\n" for number in range(200)) + 'printf("%ld\\n", sum);\nreturn 0;\n}\n')
    program = context.path("libraries")
    subprocess.run(["gcc", "-O1", "-g", "-o", program, main, *libraries, f"-Wl,-rpath,{context.directory}"], check=True)
    alone = tally.run(context, [program])
    result = tally.record(context, [program], ["--calls", "--no-time"])
    context.equal((result.status, result.output), (alone.status, alone.output), "outcome")
    found = by_names(tally.Profile(context, context.path("profile")))
    for number in range(200):
        context.equal(found.get((f"go_{number}", f"own_{number}"), 0), number + 1, f"calls in library {number}")


@tap.case
def images_left_out(context):
    """--calls-image '!GLOB': the program is counted, and the library's text is its own."""
    program = context.path("left_out")
    row = harm.Row("left_out", source="late_main.c", compile=LATE)
    command = [*row.prepare(context), context.path("taker.so"), context.path("other.so")]
    result = tally.record(context, command, ["--calls", "--calls-image", "!taker.so,!nothing*", "--no-time"])
    context.equal(result.status, 0, f"status of {program}")
    found = by_names(tally.Profile(context, context.path("profile")))
    context.equal(found.get(("asked", "inner"), 0), 6000, "calls in the program")
    context.equal(found.get(("run_other", "other_own"), 0), 3000, "calls in another library")
    context.equal(found.get(("run_taker", "taker_own"), 0), 0, "calls in what is left out")


tap.run()
