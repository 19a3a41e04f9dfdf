#!/usr/bin/python3
"""What other profilers wrote, imported, and compared with what is known of it; and what tally export writes, which must come
back as it was.

test_import.py TALLY DIRECTORY [CASE...]; DIRECTORY has make_export."""
import gzip
import json
import os
import shutil
import sqlite3
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tally  # noqa: E402
from tap import Skip, case, run  # noqa: E402

PROFILES = ("plain", "odd", "left", "right")


def profiles(context):
    made = tally.run(context, [context.program("make_export"), context.directory])
    context.equal(made.status, 0, "make_export")


def export(context, form, source, *options):
    path = context.path(f"{os.path.basename(source)}.{form}")
    done = tally.run(context, [context.tally, "export", "--format", form, "-o", path, *options, source])
    context.equal(done.status, 0, f"export --format {form} ({done.text()})")
    return path


def imported(context, source, *options, name="imported.tally", status=0):
    path = context.path(name)
    done = tally.run(context, [context.tally, "import", "-o", path, *options, source])
    context.equal(done.status, status, f"import {options} {source} ({done.text()})")
    return path if status == 0 else done.errors.decode()


def report(context, source, *options):
    done = tally.run(context, [context.tally, "report", "--json", "--limit", "0%", *options, source])
    context.equal(done.status, 0, f"report {options} ({done.text()})")
    return json.loads(done.output)


def plain(value):
    """Rows without what is numbered anew, and without what comes of coverage, which no other format has."""
    dropped = {"address", "id", "parent", "calls_complete", "ns_per_call"}
    if isinstance(value, dict):
        return {key: plain(item) or None for key, item in value.items() if key not in dropped}
    return [plain(item) for item in value] if isinstance(value, list) else value


def rows(context, source, *options):
    return sorted(json.dumps(plain(row), sort_keys=True) for row in report(context, source, *options)["rows"])


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(context, name, content):
    path = context.path(name)
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


def flat(context, source, *options):
    """{function: (self, total, samples of self)}"""
    return {row["function"]: (row["self"]["value"], row["total"]["value"], row["self"]["samples"])
            for row in report(context, source, *options)["rows"]}


def counters(context, source):
    done = tally.run(context, [context.tally, "query", "--json", source, "SELECT name, unit, exact FROM counters"])
    return [(row["name"], row["unit"], row["exact"]) for row in json.loads(done.output)]


# --- what Tally exports ---


@case
def folded_comes_back(context):
    profiles(context)
    for name in (*PROFILES, "hostile"):
        for options in ((), ("--marks",)):
            first = export(context, "folded", context.path(name + ".tally"), *options)
            text = read(first)
            if not text:
                continue
            back = imported(context, first, "--processes")
            context.equal(read(export(context, "folded", back, *options)), text, f"{name} {options}")


@case
def folded_comes_back_with_its_samples(context):
    profiles(context)
    source = context.path("plain.tally")
    path = export(context, "folded", source, "--counter", "time.cpu", "--samples", "--marks")
    back = imported(context, path, "--processes", "--rate", "1000")
    context.equal(counters(context, back), [("time.cpu", "ns", 0)], "counters")
    context.equal(read(export(context, "folded", back, "--samples", "--marks")), read(path), "samples")
    context.equal(report(context, back)["selected"]["samples"], report(context, source)["selected"]["samples"], "their sum")


@case
def pprof_comes_back(context):
    profiles(context)
    for name in PROFILES:
        source = context.path(name + ".tally")
        back = imported(context, export(context, "pprof", source))
        wanted = counters(context, source)
        context.equal(sorted(counters(context, back)), sorted(wanted), f"{name}: counters")
        for counter, _, exact in wanted:
            if counter == "calls":
                context.equal(rows(context, back, "--edges"), rows(context, source, "--edges"), f"{name}: edges")
                shown = report(context, back, "--flat")
                context.check(not any(row.get("calls_complete") for row in shown["rows"]), f"{name}: which are all is not known")
                text = tally.run(context, [context.tally, "report", "--losses", back]).output.decode()
                context.check("Every call is counted" not in text, text)
                continue
            if counter == "heap.peak":
                continue  # of these profiles it is a counter of its own making, which combines as no peak of the heap does
            for view in (["--flat"], ["--tree"], ["--inlines"], ["--by", "line"]):
                got, right = (report(context, path, *view, "--counter", counter)["rows"] for path in (back, source))
                if exact:  # how often an exact figure was added to is not exported
                    got, right = ([without_samples(row) for row in some] for some in (got, right))
                context.equal(canonical(got), canonical(right), f"{name}: {view} {counter}")
        for options in ((), ("--marks", "--threads")):
            got, right = (sorted(read(export(context, "folded", path, *options)).splitlines()) for path in (back, source))
            context.equal(got, right, f"{name}: folded {options}")


@case
def pprof_of_an_unfinished_recording(context):
    profiles(context)
    source = context.path("plain.tally")
    with sqlite3.connect(source) as database:
        database.execute("DELETE FROM data_meta WHERE key = 'complete'")
    database.close()
    back = imported(context, export(context, "pprof", source))
    for path, words in ((source, "this is what was saved"), (back, "unfinished: the recording did not come to its end")):
        context.equal(report(context, path)["complete"], False, path)
        text = tally.run(context, [context.tally, "report", "-v", path]).output.decode()
        context.check(words in text and "lost: nothing" not in text, text)
    again = imported(context, export(context, "pprof", back), name="again.tally")
    context.equal(report(context, again)["complete"], False, "twice")


def canonical(some):
    return sorted(json.dumps(plain(row), sort_keys=True) for row in some)


def without_samples(row):
    if isinstance(row, dict):
        return {key: without_samples(item) for key, item in row.items() if key != "samples"}
    return [without_samples(item) for item in row] if isinstance(row, list) else row


@case
def pprof_with_hostile_names_comes_back(context):
    profiles(context)
    source = context.path("hostile.tally")
    path = export(context, "pprof", source)
    back = imported(context, path)
    context.equal(read(export(context, "folded", back)), read(export(context, "folded", source)), "folded")
    again = imported(context, export(context, "pprof", back), name="again.tally")
    context.equal(rows(context, again), rows(context, back), "a second time")


# --- folded stacks of others ---

FOLDED = """java;start_thread;run it now (int, long);work 12
java;start_thread;run it now (int, long) 3
# a comment

java;start_thread;sys_read_[k];copy_[k] 5
ruby;#<Class:0x01>#new;inner_[i] 0
ruby;#<Class:0x01>#new;inner_[i];deepest_[i] 7
a;a;a 1
"""


@case
def folded_of_others(context):
    path = imported(context, write(context, "some.folded", FOLDED))
    context.equal(counters(context, path), [("weight", None, 1)], "without a rate weights are no samples")
    wanted = {"java": (0, 20, 0), "start_thread": (0, 20, 0), "run it now (int, long)": (3, 15, 0), "work": (12, 12, 0),
              "sys_read": (0, 5, 0), "copy": (5, 5, 0), "ruby": (0, 7, 0), "#<Class:0x01>#new": (0, 7, 0),
              "inner": (0, 7, 0), "deepest": (7, 7, 0), "a": (1, 1, 0)}
    context.equal(flat(context, path, "--inlines"), wanted, "figures")
    shown = tally.run(context, [context.tally, "report", "-v", path]).output.decode()
    context.check("28, as imported" in shown and "no intervals" in shown and "±" not in shown, shown)
    path = imported(context, context.path("some.folded"), "--rate", "100", "--processes")
    context.equal(counters(context, path), [("time.cpu", "ns", 0)], "with a rate they are")
    context.equal(flat(context, path)["work"], (120000000, 120000000, 12), "figures with a rate")
    named = json.loads(tally.run(context, [context.tally, "query", "--json", path, "SELECT name FROM processes"]).output)
    context.equal(sorted(row["name"] for row in named), ["a", "java", "ruby"], "processes")


@case
def folded_from_a_pipe_and_packed(context):
    packed = write(context, "some.folded.gz", gzip.compress(FOLDED[:200].encode()) + gzip.compress(FOLDED[200:].encode()))
    path = imported(context, packed)
    with open(packed, "rb") as file:
        done = tally.run(context, [context.tally, "import", "-o", context.path("piped.tally"), "-"], stdin=file)
    context.equal(done.status, 0, done.text())
    context.equal(rows(context, context.path("piped.tally")), rows(context, path), "from a pipe")
    cut = write(context, "cut.gz", read(packed)[:-20])
    context.check("corrupt or truncated" in imported(context, cut, status=2, name="never"), "a packed file that is cut")


@case
def rates_come_back_through_pprof(context):
    """A rate that is no whole number, as a kernel that lowers it leaves one, is written as the period it stands for."""
    for rate in ("0.5", "2.5", "999.5"):
        path = imported(context, write(context, "some.folded", "x;f;g 10\n"), "--rate", rate)
        back = imported(context, export(context, "pprof", path), name="back.tally")
        was = float(tally.Profile(context, back).meta()["rate_hz"])
        context.check(abs(was / float(rate) - 1) < 1e-4, f"{rate} Hz came back as {was}")


@case
def folded_too_deep(context):
    line = ";".join(f"f{i}" for i in range(5000)) + " 1\n"
    path = imported(context, write(context, "deep.folded", line))
    figures = flat(context, path)
    context.equal((len(figures), figures["f4999"][0]), (1024, 1), "the inner 1024 are kept, below a mark")
    lost = tally.run(context, [context.tally, "report", "--losses", path]).output.decode()
    context.check("more frames than Tally keeps" in lost, lost)


# --- pprof of others ---


def varint(value):
    out = b""
    value &= (1 << 64) - 1
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


class Pprof:
    """A writer of profile.proto, for what Tally's own exports do not have."""

    def __init__(self):
        self.strings, self.out = [""], b""

    def text(self, text):
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def add(self, field, *parts):
        self.out += message(field, b"".join(parts))

    def type(self, name, unit, field=1):
        self.add(field, number(1, self.text(name)), number(2, self.text(unit)))

    def function(self, ident, name, file=""):
        self.add(5, number(1, ident), number(2, self.text(name)), number(4, self.text(file)))

    def location(self, ident, lines, mapping=0, address=0):
        self.add(4, number(1, ident), number(2, mapping), number(3, address),
                 *[message(4, number(1, function) + number(2, line)) for function, line in lines])

    def sample(self, locations, values, labels=(), packed=True):
        parts = [message(1, b"".join(map(varint, locations)))] if packed else [number(1, item) for item in locations]
        parts += [message(2, b"".join(map(varint, values)))] if packed else [number(2, item) for item in values]
        for key, text, value in labels:
            parts.append(message(3, number(1, self.text(key)) + number(2, self.text(text)) + number(3, value)))
        self.add(2, *parts)

    def bytes(self):
        return self.out + b"".join(message(6, text.encode()) for text in self.strings)


@case
def pprof_of_go(context):
    made = Pprof()
    made.type("samples", "count")
    made.type("cpu", "nanoseconds")
    made.type("cpu", "nanoseconds", field=11)
    made.out += number(12, 10000000) + number(10, 5000000000) + number(9, 1700000000 * 10**9)
    made.add(3, number(1, 1), number(2, 0x400000), number(3, 0x500000), number(5, made.text("/nowhere/app")), number(7, 1))
    made.function(1, "main.main", "main.go")
    made.function(2, "main.work", "work.go")
    made.function(3, "main.inlined", "work.go")
    made.location(1, [(1, 10)], 1, 0x401000)
    made.location(2, [(3, 7), (2, 20)], 1, 0x402000)
    made.sample([2, 1], [30, 300000000], [("request", "GET", 0), ("bytes", "", 512)])
    made.sample([1], [5, 50000000], packed=False)
    path = imported(context, write(context, "go.pb", made.bytes()))
    context.equal(counters(context, path), [("time.cpu", "ns", 0)], "cpu is time.cpu")
    context.equal(flat(context, path, "--inlines"), {"main.main": (50000000, 350000000, 5), "main.work": (0, 300000000, 0),
                                                     "main.inlined": (300000000, 300000000, 30)}, "figures")
    shown = tally.run(context, [context.tally, "report", "-v", path]).output.decode()
    context.check("/nowhere/app" in shown and "at 100 Hz" in shown and "5.00 s" in shown and "14 Nov 2023" in shown
                  and "labels that were left out: request, bytes" in shown, shown)
    lines = report(context, path, "--by", "line")["rows"]
    context.equal(sorted((row["file"], row["line"]) for row in lines),
                  [("main.go", 10), ("work.go", 7), ("work.go", 20)], "lines")


@case
def pprof_of_memory(context):
    made = Pprof()
    for name, unit in (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
                       ("inuse_space", "bytes")):
        made.type(name, unit)
    made.out += number(14, made.text("inuse_space"))
    made.function(1, "allocate")
    made.location(1, [(1, 0)])
    made.sample([1], [4, 4096, 1, 1024], [("pid", "", 77), ("comm", "app", 0), ("thread", "one", 0), ("tid", "", 78)])
    made.sample([1], [0, 0, -1, -24])
    path = imported(context, write(context, "heap.pb", made.bytes()))
    context.equal(counters(context, path), [("inuse_space", "bytes", 1), ("alloc_objects", "count", 1),
                                            ("alloc_space", "bytes", 1), ("inuse_objects", "count", 1)], "counters")
    context.equal(flat(context, path), {"allocate": (1000, 1000, 0)}, "the default type comes first; figures may be negative")
    shown = tally.run(context, [context.tally, "report", "-v", path]).output.decode()
    context.check("as imported" in shown and "does not say how many samples" in shown, shown)
    threads = json.loads(tally.run(context, [context.tally, "query", "--json", path, "SELECT pid, tid, name FROM threads"]).output)
    context.equal(threads, [{"pid": 77, "tid": 78, "name": "one"}], "labels that name a thread")


@case
def pprof_with_many_comments(context):
    """Each would make the notice longer, of which the profile keeps every state."""
    made = Pprof()
    made.type("samples", "count")
    made.sample([], [1])
    made.out += message(13, varint(made.text("for people")) * 20000)
    path = imported(context, write(context, "talk.pb", made.bytes()))
    notice = report(context, path)["meta"]["import_notice"]
    context.equal((notice.count("comment: for people"), notice.count("further comments are left out")), (100, 1), "a hundred")


@case
def pprof_finds_names(context):
    """Locations without lines are named from the image, which is mapped anywhere."""
    program = context.program("make_export")
    address = symbols_of(context, program)["main"]
    offset, start = segment_of(read(program), address)
    made = Pprof()
    made.type("samples", "count")
    base = 0x7f0000000000
    made.add(3, number(1, 1), number(2, base), number(3, base + 0x100000), number(4, offset & ~4095), number(5, made.text(program)))
    made.location(1, [], 1, base + (offset & 4095) + address - start + 4)
    made.sample([1], [9])
    made.out += number(14, made.text("samples"))
    path = imported(context, write(context, "bare.pb", made.bytes()))
    context.equal(counters(context, path), [("samples", "count", 0)], "samples count themselves")
    context.equal(flat(context, path), {"main": (9, 9, 9)}, "named")
    done = tally.run(context, [context.tally, "annotate", "--asm", "main", path])
    context.check(done.status == 0 and b"9" in done.output, done.text())


# --- gperftools ---


def gperftools(form, samples, maps, period=10000, header=(0,)):
    """A profile as libprofiler writes it; form: of a word, as struct has it."""
    words = [0, 2 + len(header), 0, period, *header]
    for count, stack in samples:
        words += [count, len(stack), *stack]
    return b"".join(struct.pack(form, word) for word in [*words, 0, 1, 0]) + maps.encode()


def segment_of(elf, address):
    """(offset, address) of the segment with it, of a 64-bit file."""
    start, entry, count = struct.unpack_from("<Q", elf, 32)[0], *struct.unpack_from("<HH", elf, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", elf, start + i * entry) for i in range(count)]
    return next((item[2], item[3]) for item in segments if item[0] == 1 and item[3] <= address < item[3] + item[5])


def symbols_of(context, program):
    if not shutil.which("nm"):
        raise Skip("no nm")
    lines = tally.run(context, ["nm", "--defined-only", program]).output.decode().splitlines()
    return {line.split()[2]: int(line.split()[0], 16) for line in lines if len(line.split()) == 3}


def stacks_for(context, program, base):
    """What is sampled: twice in profile_free, called by main; once in main."""
    symbols = symbols_of(context, program)
    offset, address = segment_of(read(program), symbols["main"])
    at = lambda name, more: base + symbols[name] - address + (offset & 4095) + more  # noqa: E731
    samples = [(2, [at("profile_free", 4), at("main", 9)]), (1, [at("main", 4)])]
    return samples, f"{base:x}-{base + 0x100000:x} r-xp {offset & ~4095:08x} 08:01 77  {program}\n"


@case
def gperftools_of_every_width(context):
    program = context.program("make_export")
    for form, base in (("<Q", 0x7f0000000000), (">Q", 0x7f0000000000), ("<I", 0x40000000), (">I", 0x40000000)):
        samples, maps = stacks_for(context, program, base)
        path = imported(context, write(context, "some.prof", gperftools(form, samples, maps)))
        context.equal(flat(context, path), {"profile_free": (20000000, 20000000, 2), "main": (10000000, 30000000, 1)}, form)
        shown = tally.run(context, [context.tally, "report", "-v", path]).output.decode()
        context.check("3 samples at 100 Hz" in shown and program in shown and "found by path" in shown, shown)
    done = tally.run(context, [context.tally, "annotate", "--asm", "main", path])
    context.equal(done.status, 0, done.text())


@case
def gperftools_cut_or_damaged(context):
    samples, maps = stacks_for(context, context.program("make_export"), 0x7f0000000000)
    whole = gperftools("<Q", samples, maps, header=(0, 7, 8))
    context.equal(sum(row[2] for row in flat(context, imported(context, write(context, "long.prof", whole))).values()), 3,
                  "a longer header")
    path = imported(context, write(context, "cut.prof", whole[:-len(maps) - 30]))
    context.equal(flat(context, path), {"[unknown]": (20000000, 20000000, 2)}, "without mappings")
    text = tally.run(context, [context.tally, "report", "-v", path]).output.decode()
    context.check("is truncated" in text and "unfinished: the file is not whole" in text and "lost: nothing" not in text, text)
    context.equal(report(context, path)["complete"], False, "complete")
    far = gperftools("<Q", [(1, [0x1234]), (0, [5, 6])], maps)
    context.check("corrupt profile of gperftools" in imported(context, write(context, "odd.prof", far), status=2, name="never"), "odd")
    none = imported(context, write(context, "none.prof", gperftools("<Q", [], maps)))
    context.check("No samples" in tally.run(context, [context.tally, "report", none]).output.decode(), "no sample")


@case
def gperftools_itself(context):
    library = next((path for path in ("/usr/lib/x86_64-linux-gnu/libprofiler.so.0", "/usr/lib/aarch64-linux-gnu/libprofiler.so.0")
                    if os.path.exists(path)), None)
    if not library:
        raise Skip("no libprofiler (libgoogle-perftools4)")
    path = context.path("real.prof")
    done = tally.run(context, [sys.executable, "-c", "sum(i * i for i in range(20000000))"],
                     env=dict(os.environ, LD_PRELOAD=library, CPUPROFILE=path))
    if done.status or not os.path.exists(path):
        raise Skip(f"libprofiler does not run here: {done.text()}")
    words = struct.unpack_from("<9Q", read(path))
    back = imported(context, path)
    said = done.errors.decode()  # PROFILE: interrupts/evictions/bytes = 103/1/3016
    samples = int(said.split("bytes = ")[1].split("/")[0]) if "bytes = " in said else None
    taken = report(context, back)["selected"]["samples"]
    context.check(taken == samples if samples is not None else taken > 0, f"{taken} samples, it says {said}")
    context.equal(words[:3], (0, 3, 0), "its header")
    shown = tally.run(context, [context.tally, "report", "-v", back]).output.decode()
    context.check("python" in shown or "_PyEval" in shown, shown)


# --- foreign, damaged ---


@case
def what_is_refused(context):
    profiles(context)
    for name, content, words in (("text", "dear diary\n", "nothing that can be imported"), ("empty", "", "nothing that can be"),
                                 ("late", FOLDED + "no weight here\n" * 1, "nothing that can be imported"),
                                 ("far", "a;b 1\n" * 100 + "no weight\n", "line 101 is no folded stack"),
                                 ("zeros", b"\0" * 4096, "nothing that can be"),
                                 ("hexadecimal", "a;b 0x12\n", "nothing that can be imported")):
        said = imported(context, write(context, name, content), status=2, name="never")
        context.check(words in said and said.count("\n") == 1, f"{name}: {said}")
        context.check("folded stacks" in said or "line 101" in said, f"{name}: which formats there are: {said}")
    said = imported(context, context.path("plain.tally"), status=2, name="never")
    context.check("Tally profile" in said, said)
    said = imported(context, export(context, "pprof", context.path("plain.tally")), "--rate", "9", status=2, name="never")
    context.check("--rate is for folded stacks" in said, said)
    said = imported(context, context.path("late"), "--format", "pprof", status=2, name="never")
    context.check("pprof" in said, said)
    context.check(not os.path.exists(context.path("never")), "nothing is left")


@case
def every_reader_says_import(context):
    path = write(context, "some.folded", FOLDED)
    for command in (["report", path], ["annotate", "main", path], ["export", "--format", "folded", path], ["query", path, "SELECT 1"],
                    ["diff", path, path], ["merge", "-o", context.path("never"), path], ["candidates", path]):
        done = tally.run(context, [context.tally, *command])
        context.check(done.status == 2 and b"tally import" in done.errors, f"{command[0]}: {done.text()}")


@case
def imports_are_merged_and_compared_by_name(context):
    one = imported(context, write(context, "one.folded", "x;f;g 10\nx;f 5\n"), "--rate", "100", name="one.tally")
    two = imported(context, write(context, "two.folded", "y;g 8\nx;f;h 1\n"), "--rate", "100", name="two.tally")
    merged = context.path("merged.tally")
    done = tally.run(context, [context.tally, "merge", "-o", merged, one, two])
    context.equal(done.status, 0, done.text())
    context.equal({name: figures[2] for name, figures in flat(context, merged).items()},
                  {"x": 0, "f": 5, "g": 18, "h": 1, "y": 0}, "merged")
    done = tally.run(context, [context.tally, "diff", "--json", one, two])
    context.equal(done.status, 0, done.text())


if __name__ == "__main__":
    run()
