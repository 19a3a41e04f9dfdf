#!/usr/bin/python3
"""callgrind_edges.py - what callgrind and tally counted of the same program, call site by call site.

    callgrind_edges.py TALLY -- COMMAND...     runs the command below both and compares
    callgrind_edges.py --files CALLGRIND.OUT PROFILE            compares two runs made before

callgrind must have been run as CALLGRIND says: with the addresses of instructions, so that programs without symbols
compare as well, and with LD_BIND_NOW=1, so that no call goes through the loader's resolver. A call is identified by the
instruction that makes it and the first instruction of the callee, both as addresses of their images. What lies in
libc and the like (OUTSIDE, what tally leaves out) counts as one place: below valgrind another variant of memcpy is
chosen. callgrind takes a jump for a call where it knows that a function begins at its target, else it counts a
jump; both are taken as calls if the target is what tally holds for another function.

Code without call-frame information is set aside: the C library's start-up files, which tally leaves alone and says so.
Exit status: 0 equal, 1 differences (all are printed).
"""
import bisect
import collections
import os
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile

CALLGRIND = ["valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--compress-strings=no",
             "--compress-pos=no", "--collect-jumps=yes", "--vgdb=no"]
OUTSIDE = re.compile(r"(^|/)(libc|libm|libpthread|libstdc\+\+|libgcc_s|ld-linux[\w-]*|ld-musl[\w-]*|vgpreload[\w-]*|libc-[\d.]+|ld-[\d.]+)"
                     r"\.so[.\d]*$|^\?\?\?$|^\[|^$")
OUTSIDE_KEY = ("outside", 0)
NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


class Trace:
    """What a callgrind.out holds. A place is (object, address of its image)."""

    def __init__(self):
        self.calls = collections.Counter()  # (place of the instruction, place of the callee): times
        self.jumps = collections.Counter()  # the same of jumps within what callgrind takes for one function
        self.executed = collections.defaultdict(set)  # object: addresses of instructions
        self.names = {}  # place of a callee: its name

    def instruction_at(self, place):
        """The executed instruction that begins last at or before a place."""
        object_, address = place
        if not hasattr(self, "ordered"):
            self.ordered = {name: sorted(addresses) for name, addresses in self.executed.items()}
        addresses = self.ordered.get(object_, [])
        index = bisect.bisect_right(addresses, address)
        return (object_, addresses[index - 1]) if index else place


    def unlinked(self):
        """The calls without the linkage stubs that callgrind does not know for such (.plt.got: in no object, "???")."""
        out = collections.defaultdict(collections.Counter)  # of each nameless instruction
        for (site, callee), times in self.calls.items():
            if site[0] == "???":
                out[site[1]][callee] += times
        ends = sorted(out)
        found = collections.Counter()
        for (site, callee), times in self.calls.items():
            index = bisect.bisect_left(ends, callee[1]) if callee[0] == "???" else len(ends)
            if index < len(ends) and ends[index] < callee[1] + 16 and len(out[ends[index]]) == 1:
                callee = next(iter(out[ends[index]]))
            found[site, callee] += times
        return found


class Parser:
    """Reads the format line by line; names may be compressed, positions relative."""

    def __init__(self):
        self.trace, self.known, self.last = Trace(), {}, 0
        self.object = self.function = ""
        self.callee_object = self.callee_name = None
        self.pending = None  # a calls=, jump= or jcnd= line whose own position follows

    def name(self, kind, text):
        """Undoes compression: (3) NAME defines, (3) refers."""
        found = NAME.match(text)
        if not found:
            return text
        key = (kind, found.group(1))
        if found.group(2) is not None:
            self.known[key] = found.group(2)
        return self.known.get(key, "")

    def position(self, word):
        if word == "*":
            value = self.last
        elif word[0] in "+-":
            value = self.last + int(word, 0)
        else:
            value = int(word, 0)
        return value

    def line(self, line):
        if not line or line[0] == "#":
            return
        if line[0] in "0123456789+-*":
            self.cost(line)
            return
        word, equals, rest = line.partition("=")
        if not equals:
            return
        if word in ("ob", "fn", "cob", "cfn"):
            self.place(word, rest)
        elif word in ("calls", "jump", "jcnd"):
            words = rest.split()
            self.pending = (word, int(words[0].split("/")[0]), self.position(words[1]))

    def place(self, word, rest):
        if word == "ob":
            self.object = self.name("ob", rest)
        elif word == "fn":
            self.function = self.name("fn", rest)
        elif word == "cob":
            self.callee_object = self.name("ob", rest)
        else:
            self.callee_name = self.name("fn", rest)

    def cost(self, line):
        address = self.last = self.position(line.split(None, 1)[0])
        place = (self.object, address)
        self.trace.executed[self.object].add(address)
        if self.pending:
            word, times, target = self.pending
            callee = (self.callee_object if self.callee_object is not None else self.object, target)
            if word == "calls":
                self.trace.calls[place, callee] += times
                self.trace.names.setdefault(callee, re.sub(r"'\d+$", "", self.callee_name or ""))
                self.callee_object = self.callee_name = None
            else:
                self.trace.jumps[place, (self.object, target)] += times
            self.pending = None


def parse(lines):
    parser = Parser()
    for line in lines:
        parser.line(line.rstrip("\n"))
    return parser.trace


def read(path):
    with open(path, encoding="utf-8", errors="replace") as source:
        return parse(source)


def run_callgrind(command, output, **options):
    environment = dict(os.environ, LD_BIND_NOW="1")
    return subprocess.run(CALLGRIND + [f"--callgrind-out-file={output}", *command], check=False, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


# --- tally's side ---

ROWS = """select e.calls, e.kind, site.address, site_path.text, callee.address, callee_path.text, callee_name.text
    from data_edges e
    join data_addresses callee on callee.id = e.callee join data_images callee_image on callee_image.id = callee.image
    join data_strings callee_path on callee_path.id = callee_image.path
    left join data_functions function on function.id = callee.function
    left join data_strings callee_name on callee_name.id = function.name
    left join data_addresses site on site.id = e.site left join data_images site_image on site_image.id = site.image
    left join data_strings site_path on site_path.id = site_image.path"""
KINDS = {1: "direct", 2: "indirect", 3: "tail", 4: "entry"}


def read_profile(path):
    """[(calls, kind, site place or None, callee place, callee's name)]; a site is the last byte of its instruction."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as profile:
        return [(calls, KINDS[kind], (site_path, site % 2**64) if site_path is not None else None,
                 (callee_path, callee % 2**64), name)
                for calls, kind, site, site_path, callee, callee_path, name in profile.execute(ROWS)]


def described(path):
    """[(start, end)] of the functions that have call-frame information, sorted."""
    text = subprocess.run(["readelf", "--wide", "--debug-dump=frames", path], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode(errors="replace")
    return sorted((int(low, 16), int(high, 16)) for low, high in re.findall(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", text))


def entry(path):
    """Where an image begins to run, or None."""
    text = subprocess.run(["readelf", "--wide", "--file-header", path], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode(errors="replace")
    found = re.search(r"Entry point address:\s+(0x[0-9a-f]+)", text)
    return int(found.group(1), 16) if found else None


def byte_at(path, address):
    """The byte of an image at an address; None: it is in no segment of the file."""
    with open(path, "rb") as image:
        header = image.read(64)
        offset, = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        for number in range(count):
            image.seek(offset + number * size)
            kind, _, start, low, _, length = struct.unpack_from("<IIQQQQ", image.read(size))
            if kind == 1 and low <= address < low + length:
                image.seek(start + address - low)
                return image.read(1)[0]
    return None


def is_short_jump(place):
    """jmp or jcc of two bytes."""
    byte = byte_at(*place) if place != OUTSIDE_KEY and os.path.exists(place[0]) else None
    return byte is not None and (byte == 0xeb or byte & 0xf0 == 0x70)


class Frames:
    """Which addresses of which image are described; read once an image. Entries of linkage tables are no functions."""

    def __init__(self):
        self.ranges = {}

    def holds(self, place):
        if place == OUTSIDE_KEY:
            return True
        return self.start(place) is not None

    def start(self, place):
        """Where the described function begins that holds a place, or None."""
        path, address = place
        if path not in self.ranges:
            self.ranges[path] = [pair for pair in described(path) if not self.linkage(path, pair)]
        ranges = self.ranges[path]
        index = bisect.bisect_right(ranges, (address, 2**64)) - 1
        return ranges[index][0] if index >= 0 and address < ranges[index][1] else None

    def linkage(self, path, pair):
        if not hasattr(self, "tables"):
            self.tables = {}
        if path not in self.tables:
            text = subprocess.run(["readelf", "--wide", "--sections", path], check=False, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL).stdout.decode(errors="replace")
            found = re.findall(r"\] (\.plt\S*)\s+\S+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)", text)
            self.tables[path] = [(int(start, 16), int(start, 16) + int(size, 16)) for _, start, size in found]
        return any(low <= pair[0] < high for low, high in self.tables[path])


class Comparison:
    """differences: [(site, callee, tally's, callgrind's)]; aside: calls without call-frame information; unknown: calls that
    tally counted without their caller; equal: edges that agree; calls: of those; reported: edges that tally says it cannot
    count, and did not - two-byte jumps, callees it lists as uncovered - but every arrival of which it counted."""

    def __init__(self, trace, rows, outside=OUTSIDE, frames=None, uncovered=(), varying=()):
        self.trace, self.outside, self.frames = trace, outside, frames or Frames()
        self.names = dict(trace.names)
        self.differences, self.equal, self.calls = [], 0, 0
        self.aside, self.unknown = collections.Counter(), collections.Counter()
        self.kinds, self.pads = collections.Counter(), 0
        self.entries = {(path, entry(path)) for path in trace.executed}
        counted = self.counted(rows)
        made = self.made({callee for _, callee in counted} | set(self.unknown))
        self.uncovered, self.varying, self.reported = set(uncovered), set(varying), []
        self.judge(counted, made)

    def place(self, place):
        return OUTSIDE_KEY if self.outside.search(place[0] or "") else place

    def counted(self, rows):
        counts = collections.Counter()
        for calls, kind, site, callee, name in rows:
            callee = self.place(callee)
            if name and callee != OUTSIDE_KEY:
                self.names.setdefault(callee, name)
            if site is None:
                self.unknown[callee] += calls
                continue
            site = self.place(site)
            if site != OUTSIDE_KEY:
                site = self.trace.instruction_at(site)
            if site != OUTSIDE_KEY or callee != OUTSIDE_KEY:
                counts[site, callee] += calls
                self.kinds[kind] += calls
        return counts

    def made(self, callees):
        """callgrind's, in the same terms. A jump is a call if another function is entered at its start."""
        counts = collections.Counter()
        for (site, callee), times in self.trace.unlinked().items():
            if site[0] == "???" or callee[0] == "???":  # _init and the like, which lie in no object for callgrind
                continue
            if callee in self.entries or re.search(r"\.cold\b", self.trace.names.get(callee, "")):
                continue  # begun by the kernel, not called; half a function
            site, callee = self.place(site), self.place(callee)
            if callee not in callees and self.inside(callee):
                self.pads += times
            elif site != OUTSIDE_KEY or callee != OUTSIDE_KEY:
                counts[site, callee] += times
        for (site, target), times in self.trace.jumps.items():
            site, target = self.place(site), self.place(target)
            if target in callees and target != OUTSIDE_KEY and self.frames.start(site) != self.frames.start(target):
                counts[site, target] += times
        return counts

    def inside(self, place):
        """Is it in a described function, but not its start? So are landing pads, which callgrind sees the unwinder call."""
        start = None if place == OUTSIDE_KEY else self.frames.start(place)
        return start is not None and start != place[1]

    def judge(self, counted, made):
        missing, differences = collections.Counter(), []
        for edge in sorted(set(counted) | set(made)):
            got, wanted = counted[edge], made[edge]
            if got == wanted:
                self.equal += 1
                self.calls += got
            elif not all(self.frames.holds(place) for place in edge):
                self.aside[edge] += wanted - got
            elif edge not in self.varying:
                differences.append((edge[0], edge[1], got, wanted))
                missing[edge[1]] += wanted - got
        for difference in differences:
            callee = difference[1]
            named = callee in self.uncovered or is_short_jump(difference[0])
            reported = named and difference[2] < difference[3] and missing[callee] == self.unknown[callee]
            (self.reported if reported else self.differences).append(difference)
        for _, callee, _, _ in self.reported:
            self.unknown.pop(callee, None)

    def text(self, place):
        if place == OUTSIDE_KEY:
            return "outside"
        name = self.names.get(place) or self.names.get((place[0], self.frames.start(place)), "")
        return f"{os.path.basename(place[0])}+{place[1]:#x}" + (f" ({name})" if name else "")

    def lines(self, limit=60):
        found = [f"{self.text(site)} -> {self.text(callee)}: tally {got}, callgrind {wanted}"
                 for site, callee, got, wanted in self.differences[:limit]]
        if len(self.differences) > limit:
            found.append(f"... and {len(self.differences) - limit} more")
        found += [f"? -> {self.text(callee)}: tally {calls}, caller unknown" for callee, calls in list(self.unknown.items())[:20]]
        return found

    def summary(self):
        kinds = ", ".join(f"{calls:,} {kind}" for kind, calls in sorted(self.kinds.items()))
        return (f"{self.equal} edges equal ({self.calls:,} calls: {kinds}), {len(self.differences)} differ, "
                f"{sum(self.unknown.values()):,} calls without a caller, {len(self.reported)} that tally says it leaves, {self.pads} jumps to landing pads, {len(self.aside)} edges of code without call-frame information")


def read_uncovered(path):
    """Places of the functions of which tally says that not every call is counted."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as profile:
        return [(file, address % 2**64) for file, address in profile.execute("select path, address from uncovered")]


def compare(trace, profile, outside=OUTSIDE, varying=()):
    return Comparison(trace, read_profile(profile), outside, None, read_uncovered(profile), varying)


def varying(trace, profiles):
    """Edges that differ from run to run by themselves: hashes with a random seed."""
    seen = [Comparison(trace, read_profile(profile)).counted(read_profile(profile)) for profile in profiles]
    return {edge for counts in seen for edge in counts if any(other[edge] != counts[edge] for other in seen)}


def main(arguments):
    if arguments[:1] == ["--files"] and len(arguments) == 3:
        comparison = compare(read(arguments[1]), arguments[2])
    elif len(arguments) >= 3 and "--" in arguments:
        split = arguments.index("--")
        command = arguments[split + 1:]
        with tempfile.TemporaryDirectory() as directory:
            trace, profile = os.path.join(directory, "callgrind.out"), os.path.join(directory, "profile")
            run_callgrind(command, trace)
            subprocess.run([arguments[0], "record", "--calls", "--no-time", "-o", profile, "--", *command],
                           check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=dict(os.environ, LD_BIND_NOW="1"))
            comparison = compare(read(trace), profile)
            print("\n".join(comparison.lines(10**6) + [comparison.summary()]))
            return 1 if comparison.differences else 0
    else:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(comparison.lines(10**6) + [comparison.summary()]))
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
