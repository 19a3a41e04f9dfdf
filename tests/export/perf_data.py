#!/usr/bin/python3
"""A writer of perf.data files, and a story whose truth is known.

perf_data.py DIRECTORY PROGRAM - writes story.data, pipe.data and stacks.data, whose copies of stacks lie in PROGRAM."""
import os
import struct
import sys

IP, TID, TIME, READ, CALLCHAIN, CPU, PERIOD, RAW, BRANCH, REGISTERS, STACK, IDENTIFIER = (
    1 << bit for bit in (0, 1, 2, 4, 5, 7, 8, 10, 11, 12, 13, 16))
REGISTER_MASK = 0xff0fff  # as perf asks for on x86-64
KERNEL, USER = (1 << 64) - 128, (1 << 64) - 512
MMAP, LOST, COMM, EXIT, THROTTLE, FORK, SAMPLE, MMAP2 = 1, 2, 3, 4, 5, 7, 9, 10
MISC_KERNEL, MISC_USER, MISC_EXEC, MISC_BUILD_ID = 1, 2, 1 << 13, 1 << 14
FREQUENCY, ALL_IDS, EXCLUDE_KERNEL = 1 << 10, 1 << 18, 1 << 5


def attr(kind, config, period, fields, flags, read_format=0, branches=0):
    return struct.pack("<IIQQQQQIIQQQQIiQIHH", kind, 112, config, period, fields, read_format, flags, 0, 0, 0, 0, branches,
                       REGISTER_MASK if fields & REGISTERS else 0, 0, 0, 0, 0, 0, 0)


def record(kind, misc, *parts):
    content = b"".join(parts)
    content += b"\0" * (-len(content) % 8)
    return struct.pack("<IHH", kind, misc, 8 + len(content)) + content


def text(string):
    return string.encode() + b"\0" * (8 - len(string) % 8)


class Perf:
    """The fields of all samples: identifier, address, thread, time, CPU, period, chain."""

    fields = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | CALLCHAIN

    def __init__(self, more=0, read_format=0, branches=0, machine="x86_64"):
        self.more, self.machine, self.records = more, machine, []
        self.events = [(attr(1, 0, 1000, self.fields | more, ALL_IDS | FREQUENCY, read_format, branches), "cpu-clock", [11, 21]),
                       (attr(1, 2, 1, self.fields | more, ALL_IDS, read_format, branches), "page-faults:u", [12])]

    def tail(self, pid, time):
        return struct.pack("<IIQIIQ", pid, pid, time, 0, 0, 11)

    def add(self, kind, misc, pid, time, *parts):
        content = b"".join(parts)
        content += b"\0" * (-len(content) % 8)
        self.records.append(record(kind, misc, content, self.tail(pid, time)))

    def comm(self, pid, time, name, exec_=False):
        self.add(COMM, MISC_EXEC if exec_ else 0, pid, time, struct.pack("<II", pid, pid), text(name))

    def mmap(self, pid, time, start, length, offset, path, build_id=None):
        if build_id is not None:
            identity = struct.pack("<B3x20s", len(build_id), build_id)
            self.add(MMAP2, MISC_USER | MISC_BUILD_ID, pid, time, struct.pack("<IIQQQ", pid, pid, start, length, offset), identity,
                     struct.pack("<II", 5, 2), text(path))
        else:
            self.add(MMAP, MISC_USER, pid, time, struct.pack("<IIQQQ", pid, pid, start, length, offset), text(path))

    def task(self, kind, pid, parent, time, tid=None):
        self.add(kind, 0, pid, time, struct.pack("<IIIIQ", pid, parent, tid or pid, parent, time))

    def sample(self, ident, pid, time, chain, period, misc=MISC_USER, tid=None, cpu=1, before=b"", behind=b""):
        self.records.append(record(
            SAMPLE, misc, struct.pack("<QQIIQIIQ", ident, next((ip for ip in chain if ip < 1 << 63), 0) if misc == MISC_USER else chain[1],
                                      pid, tid or pid, time, cpu, 0, period),
            before, struct.pack(f"<Q{len(chain)}Q", len(chain), *chain), behind))

    def features(self):
        def string(word):
            return struct.pack("<I", 64) + word.encode().ljust(64, b"\0")
        events = struct.pack("<II", len(self.events), 112)
        for form, name, ids in self.events:
            events += form + struct.pack("<I", len(ids)) + string(name) + struct.pack(f"<{len(ids)}Q", *ids)
        return {3: string("elsewhere"), 4: string("1.2.3"), 6: string(self.machine), 11: struct.pack("<I", 2) + string("perf") + string("re cord"),
                12: events}

    def bytes(self, ended=True):
        ids = b"".join(struct.pack(f"<{len(ids)}Q", *ids) for _, _, ids in self.events)
        attrs, at = b"", 104
        for form, _, numbers in self.events:
            attrs += form + struct.pack("<QQ", at, 8 * len(numbers))
            at += 8 * len(numbers)
        data = b"".join(self.records)
        start = 104 + len(ids) + len(attrs)
        features, bits, table, contents = self.features(), 0, b"", b""
        behind = start + len(data) + 16 * len(features)
        for number, content in features.items():
            bits |= 1 << number
            table += struct.pack("<QQ", behind + len(contents), len(content))
            contents += content
        header = b"PERFILE2" + struct.pack("<8Q", 104, 128, 104 + len(ids), len(attrs), start, len(data) if ended else 0, 0, 0)
        return header + bits.to_bytes(32, "little") + ids + attrs + data + (table + contents if ended else b"")

    def pipe(self):
        out = b"PERFILE2" + struct.pack("<Q", 16)
        for form, name, ids in self.events:
            out += record(64, 0, form, struct.pack(f"<{len(ids)}Q", *ids))
            out += record(78, 0, struct.pack("<QQ", 2, ids[0]), text(name))
        for number, content in self.features().items():
            if number != 12:
                out += record(80, 0, struct.pack("<Q", number), content)
        return out + b"".join(self.records)


def story(made=None):
    """A program that maps another library where the first was, forks, and ends; out of order, as rings are."""
    made = made or Perf()
    app, library = 0x400000, 0x7f0000000000
    # the rings of one CPU, then of another: what comes first in the file happened later
    made.sample(21, 100, 5000, [USER, library + 0x20, app + 0x11], 1000000)
    made.sample(12, 100, 5100, [USER, library + 0x20, app + 0x11], 7)
    made.task(FORK, 101, 100, 6000)
    made.sample(11, 101, 6500, [USER, app + 0x40], 1000000, cpu=2)
    made.sample(11, 101, 6600, [KERNEL, (1 << 64) - 4096, (1 << 64) - 8191, USER, app + 0x40, app + 0x11], 2000000, misc=MISC_KERNEL)
    made.task(EXIT, 101, 100, 7000)
    made.mmap(100, 4000, library, 0x1000, 0x3000, "/nowhere/new.so", b"\xab" * 20)
    made.sample(11, 100, 3000, [USER, library + 0x20, app + 0x11], 1000000, tid=109)
    made.mmap(100, 2000, app, 0x1000, 0, "/nowhere/app")
    made.mmap(100, 2100, library, 0x1000, 0x1000, "/nowhere/old.so")
    made.comm(100, 1000, "worker", exec_=True)
    made.add(LOST, 0, 100, 8000, struct.pack("<QQ", 11, 40))
    made.add(THROTTLE, 0, 100, 8100, struct.pack("<QQQ", 8100, 11, 11))
    made.records.append(record(68, 0))
    made.sample(11, 200, 9000, [USER, 0x99, 0x98], 1000000)
    return made


def copies(program, machine="x86_64"):
    """Registers and a copy of the stack, full of addresses of the program."""
    made = Perf(REGISTERS | STACK, machine=machine)
    base, stack = 0x555500000000, 0x7ffc00001000
    made.comm(5, 1, "copies")
    made.mmap(5, 2, base, 0x100000, 0, program)
    for step in range(24):
        words = [base + 0x1000 + 24 * (step + i) if i % 3 else stack + 8 * i for i in range(64)]
        registers = [stack + 64, 0, 0, 0, 0, 0, stack + 32, stack, base + 0x1000 + 16 * step] + [0] * 11
        behind = struct.pack("<Q20Q", 2, *registers) + struct.pack("<Q64QQ", 512, *words, 512)
        made.sample(11, 5, 10 + step, [KERNEL, (1 << 64) - 4096], 1000000, misc=MISC_KERNEL if step % 4 == 0 else MISC_USER, behind=behind)
    return made


def main(directory, program):
    for name, content in (("story.data", story().bytes()), ("pipe.data", story().pipe()), ("stacks.data", copies(os.path.abspath(program)).bytes())):
        with open(os.path.join(directory, name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
