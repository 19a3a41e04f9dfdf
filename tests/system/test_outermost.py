"""At least 99.5 % of the samples of real programs end at an outermost frame: by what the losses say, and, without trusting
them, by what the outermost frames of the stacks are."""
import os
import struct

import tap
import tally
import workloads


def entry_of(path):
    """The names that the outermost frame of a program's first thread may have: by symbol, or file+0xoffset."""
    with open(path, "rb") as file:
        header = file.read(64)
    entry = struct.unpack_from("<Q", header, 24)[0]
    return {"_start", f"{os.path.basename(path)}+{entry:#x}"}


def right_root(name, entries):
    """The program's entry, the loader's, or the C library's start of a thread."""
    return name in entries or name.startswith(("ld-linux", "libc.so.6+0x")) or name == "_start" or "clone" in name


def check_outermost(context, profile, path):
    samples = profile.rows("select sum(samples) from flat")[0][0]
    lost = sum(count for number, count in profile.losses().items() if number in tally.LOST_ROOTS)
    roots = {}
    for frames, value in profile.stacks():
        roots[frames[0]] = roots.get(frames[0], 0) + value
    entries, whole = entry_of(path), sum(roots.values())
    right = sum(value for name, value in roots.items() if right_root(name, entries))
    odd = sorted(((value, name) for name, value in roots.items() if not right_root(name, entries)), reverse=True)
    context.note(f"{samples} samples, {lost} without an outermost frame, {100 * right / whole:.3f} % begin where a thread begins")
    context.check(samples >= 800, f"only {samples} samples")
    context.check(lost <= 0.005 * samples, f"{lost} of {samples} stacks lost their root: {profile.losses()}")
    context.check(right >= 0.995 * whole, f"only {100 * right / whole:.2f} % of the time begins at an outermost frame; others: {odd[:5]}")


def make(name):
    def function(context):
        command = workloads.REAL[name](context)
        profile = tally.recorded(context, command)
        check_outermost(context, profile, os.path.realpath(command[0]))

    return function


tap.cases([name for name in workloads.REAL], make)

tap.run()
