#!/usr/bin/python3
"""make_fixtures.py - the programs that the tests of the symbol module look at.

    make_fixtures.py SOURCES STAMP CC...

Compiles SOURCES/fixture.* with CC (and with g++, clang, rustc and the AArch64 compiler where they are) in several ways,
and splits off debug information in all the ways there are, into the directory `fixtures` beside STAMP. What cannot be made here is
not there afterwards, and its tests are skipped.
"""
import lzma
import os
import shutil
import subprocess
import sys

SOURCES, STAMP = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
CC = sys.argv[3:]
DIRECTORY = os.path.join(os.path.dirname(STAMP), "fixtures")


def run(*command, optional=False):
    done = subprocess.run(command, cwd=DIRECTORY, stdin=subprocess.DEVNULL, check=False, capture_output=optional)
    if done.returncode != 0 and not optional:
        sys.exit(f"make_fixtures: {' '.join(command)}: exit status {done.returncode}")
    return done.returncode == 0


def compile_c(name, *flags, compiler=None, source="fixture.c", optional=False):
    os.makedirs(os.path.join(DIRECTORY, os.path.dirname(name)), exist_ok=True)
    return run(*(compiler or CC), "-O2", "-w", "-o", name, os.path.join(SOURCES, source), *flags, optional=optional)


def build_id(name):
    notes = subprocess.run(["readelf", "-n", name], cwd=DIRECTORY, capture_output=True, text=True, check=True).stdout
    return notes.split("Build ID:")[1].split()[0]


def copy(source, target):
    target = os.path.join(DIRECTORY, target)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(os.path.join(DIRECTORY, source), target)


def split(program, stripped, debug):
    """The two halves of a program, and the name of one in the other."""
    for path in (stripped, debug):
        os.makedirs(os.path.join(DIRECTORY, os.path.dirname(path)), exist_ok=True)
    run("objcopy", "--only-keep-debug", program, debug)
    run("strip", "-o", stripped, program)
    run("objcopy", f"--add-gnu-debuglink={debug}", stripped)


def plain_programs():
    compile_c("dwarf5", "-g", "-gdwarf-5")
    compile_c("dwarf4", "-g", "-gdwarf-4", "-no-pie", "-fno-pie")
    compile_c("dwo", "-g", "-gsplit-dwarf", optional=True)
    compile_c("no_id", "-g", "-Wl,--build-id=none")
    compile_c("lazy", "-Wl,-z,lazy", "-no-pie", "-fno-pie")
    compile_c("now", "-Wl,-z,now")
    compile_c("tracked", "-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy", optional=True)
    run("objcopy", "--compress-debug-sections=zlib", "dwarf5", "compressed")
    run("strip", "-o", "stripped", "dwarf5")


def programs_of_others():
    if shutil.which("clang"):
        compile_c("clang", "-g", compiler=["clang"], optional=True)
    if shutil.which("g++"):
        compile_c("cpp", "-g", compiler=["g++"], source="fixture.cpp", optional=True)
    if shutil.which("aarch64-linux-gnu-gcc"):
        arm = ["aarch64-linux-gnu-gcc"]
        compile_c("aarch64", "-g", compiler=arm, optional=True)
        compile_c("aarch64_guarded", "-mbranch-protection=standard", "-Wl,-z,force-bti", "-Wl,-z,pac-plt", compiler=arm,
                  optional=True)
    if shutil.which("rustc"):
        source = os.path.join(SOURCES, "fixture.rs")
        run("rustc", "-g", "-O", "-o", "rust", source, optional=True)
        run("rustc", "-g", "-O", "-C", "symbol-mangling-version=v0", "-o", "rust_v0", source, optional=True)


def split_programs():
    split("no_id", "beside/program", "beside/program.debug")
    copy("beside/program", "hidden/program")
    copy("beside/program.debug", "hidden/.debug/program.debug")
    copy("beside/program", "far/program")
    copy("beside/program.debug", "debug" + os.path.join(DIRECTORY, "far/program.debug"))
    copy("beside/program", "rooted/program")
    copy("beside/program.debug", "root" + os.path.join(DIRECTORY, "rooted/program.debug"))
    copy("beside/program", "wrong/program")
    copy("beside/program.debug", "wrong/program.debug")
    with open(os.path.join(DIRECTORY, "wrong/program.debug"), "ab") as wrong:
        wrong.write(b"\0")
    split("dwarf5", "by_id/program", "by_id/split")
    name = build_id("dwarf5")
    copy("by_id/split", f"debug/.build-id/{name[:2]}/{name[2:]}.debug")
    copy("by_id/split", f"root/usr/lib/debug/.build-id/{name[:2]}/{name[2:]}.debug")
    copy("by_id/split", f"served/buildid/{name}/debuginfo")  # as a debuginfod server has it
    split("dwarf4", "other_id/program", "other_id/split")
    name = build_id("dwarf4")
    copy("by_id/split", f"debug/.build-id/{name[:2]}/{name[2:]}.debug")  # of another program
    copy("by_id/split", "other_id/split")


def shared_programs():
    """Two whose debug information has its common parts in a third file."""
    if not shutil.which("dwz"):
        return
    copy("dwarf5", "shared/first")
    copy("no_id", "shared/second")
    if not run("dwz", "-L", "none", "-l", "none", "-m", "shared/both", "-M", "both", "shared/first", "shared/second", optional=True):
        shutil.rmtree(os.path.join(DIRECTORY, "shared"))


def mini_program():
    """As Fedora makes them: only the symbols that .dynsym does not have, compressed, inside the stripped program."""
    names = subprocess.run(["nm", "dwarf5", "--format=posix", "--defined-only"], cwd=DIRECTORY, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    keep = [line.split()[0] for line in names if line.split()[1] in "tTwWi"]
    with open(os.path.join(DIRECTORY, "keep"), "w", encoding="ascii") as file:
        file.write("\n".join(keep) + "\n")
    run("objcopy", "--only-keep-debug", "dwarf5", "mini.debug")
    run("objcopy", "-S", "--remove-section", ".comment", "--keep-symbols=keep", "mini.debug", "mini.small")
    with open(os.path.join(DIRECTORY, "mini.small"), "rb") as small, open(os.path.join(DIRECTORY, "mini.xz"), "wb") as packed:
        packed.write(lzma.compress(small.read()))
    run("objcopy", "--add-section", ".gnu_debugdata=mini.xz", "stripped", "mini")


shutil.rmtree(DIRECTORY, ignore_errors=True)
os.makedirs(DIRECTORY)
plain_programs()
programs_of_others()
split_programs()
shared_programs()
mini_program()
with open(STAMP, "w", encoding="ascii"):
    pass
