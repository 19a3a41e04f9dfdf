"""The same figures as heaptrack's, to the block and to the byte, of real programs.

heaptrack comes into a program as a library, by LD_PRELOAD, and sees each call of malloc and its kin from there on; here its raw record is
added up: "+ SIZE TRACE ADDRESS" for each block (realloc is a release and a block, as it is for Tally), "- ADDRESS" for each release. It
sees one block more: its library needs libstdc++, which as soon as it is loaded takes a pool for exceptions thrown when memory is out
(72,704 bytes in Debian 12), and gives it back at the end. Neither sqlite3 nor python3 has libstdc++ by itself. Everything else is equal: what is
allocated before main too, since libc itself calls malloc by its name, and ld.so only before that."""
import glob
import os

import tally
import tap

PLACES = ("/usr/lib/heaptrack/libheaptrack_preload.so", "/usr/lib/*/heaptrack/libheaptrack_preload.so")
ROWS = "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c WHERE x < 20000)"
PROGRAMS = {
    "sqlite3": ["sqlite3", ":memory:", f"CREATE TABLE t(a, b); {ROWS} INSERT INTO t SELECT x, hex(x) || x FROM c; CREATE INDEX i ON t(b);"
                                       " SELECT count(*), sum(a), max(b) FROM t;"],
    # Not -I: that takes no PYTHONHASHSEED. The directory of the case, whose files differ, is searched by neither.
    "python3": ["/usr/bin/python3", "-B", "-s", "-S", "-c", "import sys\nsys.path.pop(0)\nimport json\nrows = [json.dumps({'a': [i] * 20, 'b': 'x' * i}) for i in range(3000)]\n"
                                                      "print(len(rows), sum(map(len, rows)))"],
}


def library():
    for place in PLACES:
        for path in glob.glob(place):
            return path
    raise tap.Skip("heaptrack is not installed")


class Seen:
    """What heaptrack's record says."""

    def __init__(self, path):
        self.count = self.total = self.live = self.peak = self.first = 0
        self.blocks = {}
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line[:2] == "+ ":
                    self.add(line.split())
                elif line[:2] == "- ":
                    self.live -= self.blocks.pop(line.split()[1], 0)

    def add(self, words):
        size = int(words[1], 16)
        self.first = self.first or size
        self.count, self.total, self.live = self.count + 1, self.total + size, self.live + size
        self.peak = max(self.peak, self.live)
        self.blocks[words[3]] = size


def whole(profile, counter):
    return profile.rows(f"SELECT coalesce(sum(value), 0) FROM stacks WHERE counter = '{counter}'")[0][0]


def environment(context, preload, heaptrack):
    """As many variables of the same lengths, whoever records: python3 has memory for them."""
    names = ("LD_PRELOAD", "DUMP_HEAPTRACK_OUTPUT") if heaptrack else ("LX_PRELOAD", "NONE_HEAPTRACK_OUTPUT")
    return dict(os.environ, PYTHONHASHSEED="0", **dict(zip(names, (preload, context.path("raw")))))


def compared(name):
    def case(context):
        tap.need(name)
        preload = library()
        plain = tally.run(context, PROGRAMS[name], env=environment(context, preload, True))
        context.equal(plain.status, 0, f"status under heaptrack ({plain.text()})")
        seen = Seen(context.path("raw"))
        profile = tally.recorded(context, PROGRAMS[name], ["--heap", "--no-time"], env=environment(context, preload, False))
        context.equal(profile.output, plain.output.decode(), "output")
        pool = seen.first
        context.note(f"heaptrack: {seen.count} blocks, {seen.total} bytes, peak {seen.peak}; the pool {pool}")
        context.check(seen.count > 9000 and 50000 < pool < 100000, "the record is not as it should be")
        got = tuple(whole(profile, counter) for counter in ("heap.count", "heap.total", "heap.live.count", "heap.live"))
        context.equal(got, (seen.count - 1, seen.total - pool, len(seen.blocks), seen.live), "blocks, bytes, live blocks, live bytes")
        peak = profile.rows("SELECT max(value) FROM peaks WHERE counter = 'heap.peak'")[0][0]
        context.equal(peak, seen.peak - pool, "the peak")
        context.equal(profile.losses(), {}, "losses")
    return case


tap.cases(PROGRAMS, compared)
tap.run()
