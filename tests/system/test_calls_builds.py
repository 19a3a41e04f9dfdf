"""One program that counts its own calls, built in every way compilers and linkers offer; exact in all of them.

Names are compared, so a build without symbols is compared with callgrind instead, by addresses (test_calls_callgrind.py).
"""
import os
import shutil
import subprocess

import callgrind_edges
import calls
import tally
import tap

PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs")
STATIC = ["-static", "-no-pie", "-fno-pie"]

# name: (compiler, source, flags). calls_mix unless said.
BUILDS = {
    "O0": ("gcc", ["-O0"]), "O1": ("gcc", ["-O1"]), "O2": ("gcc", ["-O2"]), "O3": ("gcc", ["-O3"]), "Os": ("gcc", ["-Os"]),
    "O2_lto": ("gcc", ["-O2", "-flto"]), "O2_no_pie": ("gcc", ["-O2", "-no-pie", "-fno-pie"]),
    "O0_static": ("gcc", ["-O0", *STATIC]), "O2_static": ("gcc", ["-O2", *STATIC]),
    "O2_static_pie": ("gcc", ["-O2", "-static-pie", "-fpie"]), "O2_frame_pointers": ("gcc", ["-O2", "-fno-omit-frame-pointer"]),
    "O2_cet": ("gcc", ["-O2", "-fcf-protection"]), "O2_no_plt": ("gcc", ["-O2", "-fno-plt"]),
    "O2_sections": ("gcc", ["-O2", "-ffunction-sections", "-Wl,--gc-sections"]),
    "O2_native": ("gcc", ["-O2", "-march=x86-64-v3"]), "Os_cet_lto": ("gcc", ["-Os", "-fcf-protection", "-flto"]),
    "O2_unaligned": ("gcc", ["-O2", "-falign-functions=1", "-falign-jumps=1", "-falign-loops=1"]),
    "O2_lazy": ("gcc", ["-O2", "-Wl,-z,lazy"]),
    "O2_no_jump_tables": ("gcc", ["-O2", "-fno-jump-tables"]),
    "O2_pg": ("gcc", ["-O2", "-pg"]), "O2_fentry": ("gcc", ["-O2", "-pg", "-mfentry"]),
    "O2_stack_protector": ("gcc", ["-O2", "-fstack-protector-all", "-fstack-clash-protection"]),
    "O2_retpoline": ("gcc", ["-O2", "-mindirect-branch=thunk"]),
    "clang_O0": ("clang", ["-O0"]), "clang_O1": ("clang", ["-O1"]), "clang_O2": ("clang", ["-O2"]), "clang_O3": ("clang", ["-O3"]),
    "clang_Oz": ("clang", ["-Oz"]), "clang_O2_cet": ("clang", ["-O2", "-fcf-protection"]),
    "clang_O2_static": ("clang", ["-O2", *STATIC]), "musl": ("musl-gcc", ["-O2", "-static"]),
}
# Calls that tally leaves alone there, and says so; the rest must be right.
LEFT = {"O2_retpoline": {"mix_add", "mix_subtract", "mix_negate", "mix_leaf", "mix_compare"}}
# Functions without padding between them: there is no room for the islands of two-byte jumps to other functions, nor for hooks of the shortest
# ones. Which of the callers jumped is not known then (stub_block.h); how often each function was called is.
PACKED = {"Os", "Os_cet_lto", "O2_unaligned", "clang_Oz"}


def by_callee(rows):
    return [(pid, "*", calls.plain(callee), "", number) for pid, caller, callee, kind, number in rows]


def build(context, compiler, source, flags, name="program"):
    tap.need(compiler)
    program = context.path(name)
    result = tally.run(context, [compiler, "-g", "-D_GNU_SOURCE", "-w", *flags, "-o", program, os.path.join(PROGRAMS, source)])
    if result.status != 0:
        raise tap.Skip(f"{compiler} {' '.join(flags)}: {result.errors.decode(errors='replace').splitlines()[-1:]}")
    return program


def mix(name):
    compiler, flags = BUILDS[name]
    def run(context):
        program = build(context, compiler, "calls_mix.c", flags)
        profile = calls.counted(context, [program, "2500"])
        bare = tally.run(context, [program, "2500"])
        context.equal(calls.other_lines(profile.output), calls.other_lines(bare.output.decode()), "what the program computes")
        profile.output = "\n".join(calls.line(pid, [edge]) for pid, *edge in calls.truths(profile.output) if edge[1] not in LEFT.get(name, ()))
        if name in PACKED:
            uncovered = {calls.plain(function) for function, in profile.rows("select function from uncovered")}
            comparison = calls.Comparison(by_callee(calls.truths(profile.output)), by_callee(calls.edges(profile)), uncovered=uncovered)
            context.check(not comparison.wrong, "\n".join(comparison.wrong))
            context.check(comparison.right >= 9, f"only {comparison.right} functions to compare")
            context.note("not all counted, as tally says: " + ", ".join(comparison.reported))
        else:
            calls.check(context, profile, least=12, may_miss=True)
    return run


tap.cases(BUILDS, mix)


def build_with_own_profile(context, source, amount):
    """Trained with as much to do as that."""
    flags = ["-O2", "-fprofile-update=atomic", "-fprofile-dir=" + context.directory]
    first = build(context, "gcc", source, flags + ["-fprofile-generate"], "program")
    tally.run(context, [first, amount])
    program = build(context, "gcc", source, ["-O2", "-fprofile-use", "-fprofile-dir=" + context.directory, "-Wno-missing-profile"], "program")
    symbols = subprocess.run(["nm", program], stdout=subprocess.PIPE, check=True).stdout.decode()
    context.note("halves: " + ", ".join(line.split()[-1] for line in symbols.splitlines() if ".cold" in line or ".part" in line))
    return program


@tap.case
def profile_guided(context):
    """Built with its own profile: cold halves with call-frame information of their own."""
    program = build_with_own_profile(context, "calls_mix.c", "100")
    calls.check(context, calls.counted(context, [program, "3000"]), least=20)


def without_cold(context, profile):
    """No half of a function is called one, and the program computes what it does alone."""
    cold = profile.rows("select caller, callee from edges where callee like '%.cold%'")
    context.check(not cold, f"calls of halves: {cold}")


def cut(name, compiler, flags):
    """A function of which the compiler leaves a part to itself: jumps to that are tail calls, as many as the program says."""
    def run(context):
        program = build(context, compiler, "calls_part.c", flags)
        symbols = subprocess.run(["nm", program], stdout=subprocess.PIPE, check=True).stdout.decode()
        profile = calls.counted(context, [program, "3000"])
        bare = tally.run(context, [program, "3000"])
        context.equal(calls.other_lines(profile.output), calls.other_lines(bare.output.decode()), "what the program computes")
        without_cold(context, profile)
        if "part_work.part" not in symbols:
            raise tap.Skip("the compiler cut nothing")
        calls.check(context, profile, least=6)
        context.check(profile.rows("select sum(calls) from edges where callee like 'part_work.part%' and kind = 'tail'")[0][0] > 2000, "no tail calls")
    run.__name__ = "cut_" + name
    tap.case(run)


cut("O2", "gcc", ["-O2"])
cut("O2_plain", "gcc", ["-O2", "-g0"])
cut("O3", "gcc", ["-O3"])
cut("O2_static", "gcc", ["-O2", *STATIC])


@tap.case
def cut_and_profile_guided(context):
    """The leaf's seldom half is entered by a conditional jump, with a red zone in use; the part may be anything."""
    program = build_with_own_profile(context, "calls_part.c", "500")
    bare = tally.run(context, [program, "5000"])
    for path in (program, context.path("stripped")):
        if path != program:
            subprocess.run(["strip", "-o", path, program], check=True)
        profile = calls.counted(context, [path, "5000"])
        context.equal(calls.other_lines(profile.output), calls.other_lines(bare.output.decode()), "what the program computes")
        without_cold(context, profile)


@tap.case
def stripped(context):
    """No names: the same number of edges with the same calls as with them."""
    program = build(context, "gcc", "calls_mix.c", ["-O2"])
    bare = context.path("stripped")
    shutil.copy(program, bare)
    subprocess.run(["strip", bare], check=True)
    counts = []
    for path in (program, bare):
        profile = calls.counted(context, [path, "1000"])
        rows = callgrind_edges.read_profile(profile.path)
        counts.append(sorted((number, kind, site and site[1], callee[1]) for number, kind, site, callee, _ in rows
                             if callee[0] == os.path.realpath(path)))
    context.equal(counts[1], counts[0], "edges without symbols")
    context.check(len(counts[0]) > 30, f"only {len(counts[0])} edges")


def cpp(name, compiler, flags):
    def run(context):
        program = build(context, compiler, "calls_cpp.cpp", flags)
        calls.check(context, calls.counted(context, [program, "300"]), least=14)
    run.__name__ = "cpp_" + name
    tap.case(run)


cpp("O0", "g++", ["-O0"])
cpp("O3", "g++", ["-O3"])
cpp("static", "g++", ["-O2", *STATIC])
cpp("clang", "clang++", ["-O2"])


@tap.case
def rust(context):
    program = context.path("program")
    tap.need("rustc")
    result = tally.run(context, ["rustc", "-O", "-g", "-o", program, os.path.join(PROGRAMS, "calls_rust.rs")])
    if result.status != 0:
        raise tap.Skip("rustc does not work here: " + result.errors.decode(errors="replace")[-200:])
    calls.check(context, calls.counted(context, [program, "1000"]), least=4)


@tap.case
def go(context):
    """Its direct calls."""
    tap.need("go")
    program = context.path("program")
    environment = dict(os.environ, HOME=context.directory, GOCACHE=context.path("cache"), GO111MODULE="off", CGO_ENABLED="0")
    result = tally.run(context, ["go", "build", "-o", program, os.path.join(PROGRAMS, "calls_go.go")], env=environment)
    if result.status != 0:
        raise tap.Skip("go does not work here: " + result.errors.decode(errors="replace")[-200:])
    calls.check(context, calls.counted(context, [program, "1000"]), least=3)


tap.run()
