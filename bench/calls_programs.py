"""The programs whose calls are counted, and their inputs, which are made here and are the same on every machine.

Debian's own binaries as they are: optimised, stripped, unchanged. gprof and uftrace cannot take those (one needs a
build of its own, the other symbols), so their columns are of builds of the same sources where there are some here. CoreMark
is no package of Debian's; its source is in that of emscripten, and is built at -O2.
"""
import os
import shutil
import subprocess

import programs

HERE = os.path.dirname(os.path.abspath(__file__))


class Program:
    """command: a second or so of work; small: the same, for tools that are many times slower; source: the name of a build of
    our own (plain, and for gprof) that takes the same arguments; goal: the list it belongs to."""

    def __init__(self, name, command, small, group, source=None, stdin=None):
        self.name, self.command, self.small, self.group = name, command, small, group
        self.source, self.stdin = source, stdin


def installed(name):
    path = shutil.which(name)
    if not path:
        raise RuntimeError(f"{name} is not installed")
    return path


def made(bench, name, make):
    """A file below the build directory, made once."""
    path = os.path.join(bench.build, "bench", name)
    if not os.path.exists(path):
        make(path + ".part")
        os.rename(path + ".part", path)
    return path


def compiled(bench, name, flags, suffix=""):
    """One of bench/calls."""
    out = os.path.join(bench.build, "bench", "programs", name + suffix)
    os.makedirs(os.path.dirname(out), exist_ok=True)
    source = os.path.join(HERE, "calls", name + ".c")
    if not os.path.exists(out) or os.path.getmtime(out) < os.path.getmtime(source):
        programs.call(["gcc", *flags, "-pthread", "-o", out, source])
    return out


def builds(bench, name):
    """(plain, for gprof) of one source at -O2, or None."""
    if name in ("multiply", "hammer"):
        level = "-O0" if name == "multiply" else "-O2"
        return compiled(bench, name, [level, "-g"]), compiled(bench, name, [level, "-g", "-pg"], "-pg")
    return built(bench, name, "-plain", ["-O2", "-g"]), built(bench, name, "-pg", ["-O2", "-g", "-pg"])


def built(bench, name, suffix, flags):
    """A build of our own from Debian's source, with these flags."""
    out = os.path.join(bench.build, "bench", "programs", name + suffix)
    if not os.path.exists(out):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        builder, package = programs.BUILDERS[name]
        kept, programs.FLAGS[:] = list(programs.FLAGS), flags
        try:
            builder(programs.fetch(bench, package), out)
        finally:
            programs.FLAGS[:] = kept
    return out


def number_stream(seed):
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


def formula(bench, variables, clauses):
    """A random satisfiability problem."""
    def make(path):
        numbers = number_stream(20261121)
        with open(path, "w", encoding="ascii") as out:
            out.write(f"p cnf {variables} {clauses}\n")
            for _ in range(clauses):
                signs = next(numbers)
                words = [(next(numbers) % variables + 1) * (1 if signs >> bit & 1 else -1) for bit in range(3, 6)]
                out.write(" ".join(map(str, words)) + " 0\n")
    return made(bench, f"formula-{variables}-{clauses}", make)


def picture(path, width, height):
    """A PPM of soft shapes with noise, of 64 different rows."""
    numbers, pool = number_stream(7), []
    for y in range(64):
        row = bytearray()
        for x in range(width):
            noise = next(numbers)
            row += bytes(((x * x // (y + 900) + (noise & 63)) & 255, (x + y + (noise >> 8 & 63)) & 255, (x // 3 + (noise >> 16 & 31)) & 255))
        pool.append(bytes(row))
    with open(path, "wb") as out:
        out.write(b"P6\n%d %d\n255\n" % (width, height))
        for y in range(height):
            out.write(pool[(y + y // 64 * 5) % 64])


def jpeg(bench, side):
    def make(path):
        picture(path + ".ppm", side, side)
        with open(path, "wb") as out:
            subprocess.run(["cjpeg", "-quality", "90", path + ".ppm"], stdout=out, check=True)
        os.unlink(path + ".ppm")
    installed("cjpeg")
    return made(bench, f"picture-{side}.jpg", make)


def video(bench, width, height, frames):
    def make(path):
        numbers = number_stream(9)
        with open(path, "wb") as out:
            for frame in range(frames):
                noise = next(numbers)
                for y in range(height):
                    out.write(bytes((x * 3 + y * 2 + frame * 5 + (noise >> (x * y % 24) & 7)) & 255 for x in range(width)))
                out.write(bytes((128 + frame) & 255 for _ in range(width * height // 2)))
    return made(bench, f"video-{width}x{height}-{frames}.i420", make)


def vpxenc(bench, frames):
    return [installed("vpxenc"), "--codec=vp8", "--good", "--cpu-used=0", "-t", "1", "--i420", "--width=176", "--height=144", f"--limit={frames}", "--quiet",
            "-o", "/dev/null", video(bench, 176, 144, 150)]


def djpeg(bench, side):
    return [installed("djpeg"), "-outfile", "/dev/null", jpeg(bench, side)]


def sqlite(bench, share):
    """The demonstration's database, a part of it."""
    def make(path):
        with open(os.path.join(HERE, "workloads", "demo.sql"), encoding="ascii") as source:
            text = source.read()
        sizes = "insert into sizes values (20000, 600000, 200000);"
        if sizes not in text:
            raise RuntimeError("bench/workloads/demo.sql has other sizes")
        with open(path, "w", encoding="ascii") as out:
            out.write(text.replace(sizes, f"insert into sizes values ({20000 // share}, {600000 // share}, {200000 // share});"))
    return [installed("sqlite3"), ":memory:", ".read " + made(bench, f"shop-{share}.sql", make)]


def coremark_arguments(rounds):
    """The seeds of a performance run."""
    return ["0", "0", "0x66", str(rounds), "0"]


def coremark(bench, rounds):
    return [builds(bench, "coremark")[0], *coremark_arguments(rounds)]


def both(make, big, small):
    return make(big), make(small)


MAIN, SINGLE, MULTIPLY, HAMMER = "main", "single", "multiply", "hammer"


def every(bench):
    """All of them, in the table's order."""
    text, short = programs.text_input(bench, 30_000_000), programs.text_input(bench, 1_000_000)
    lua = os.path.join(HERE, "workloads", "work.lua")
    hard, easy = formula(bench, 235, 1010), formula(bench, 160, 704)
    multiply, hammer = compiled(bench, "multiply", ["-O0", "-g"]), compiled(bench, "hammer", ["-O2", "-g"])
    minisat = installed("minisat")
    return [
        Program("bzip2", *both(lambda path: [installed("bzip2"), "-c", "-k", path], text, short), MAIN, "bzip2"),
        Program("gzip", *both(lambda path: [installed("gzip"), "-c", path], text, short), MAIN),
        Program("xz -T2", *both(lambda path: [installed("xz"), "-c", "-k", "-2", "-T2", "--block-size=1MiB", path],
                                programs.text_input(bench, 8_000_000), programs.text_input(bench, 500_000)), MAIN),
        Program("lua5.4", *both(lambda scale: [installed("lua5.4"), lua, scale], "4", "0.1"), MAIN, "lua"),
        Program("sqlite3", *both(lambda share: sqlite(bench, share), 4, 60), MAIN),
        Program("minisat", *both(lambda path: [minisat, "-verb=0", path], hard, easy), MAIN),
        Program("coremark", *both(lambda rounds: coremark(bench, rounds), 40_000, 1500), MAIN, "coremark"),
        Program("coremark, again", *both(lambda rounds: coremark(bench, rounds), 40_000, 1500), SINGLE),
        Program("minisat -rnd-freq=0", *both(lambda path: [minisat, "-verb=0", "-rnd-freq=0", path], hard, easy), SINGLE),
        Program("djpeg", *both(lambda side: djpeg(bench, side), 9000, 400), SINGLE),
        Program("vpxenc", *both(lambda frames: vpxenc(bench, frames), 150, 5), SINGLE),
        Program("multiply -O0", *both(lambda calls: [multiply, calls], "700000000", "5000000"), MULTIPLY, "multiply"),
        Program("two threads, one function", *both(lambda calls: [hammer, calls], "500000000", "5000000"), HAMMER, "hammer"),
    ]
