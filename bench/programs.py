"""The programs that are profiled: built here from Debian's sources, with frame pointers and debug information.

So perf's frame-pointer mode is seen at its best. (link-parser is Debian's own binary: there Tally is compared with the
bare program only, and stripped code with deep stacks is what is wanted.) Sources come through `apt-get source` by a list of its own, derived from
the mirrors this machine is configured with; the machine's own apt configuration is not touched. All of it lies in the
build directory. Where a source cannot be had, the installed Debian binary is used, and the results say so.
"""
import glob
import os
import shutil
import subprocess

FLAGS = ["-O2", "-g", "-fno-omit-frame-pointer"]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
HERE = os.path.dirname(os.path.abspath(__file__))


def call(command, **options):
    """Runs a command that must succeed; what it says is in the error if it does not."""
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: " + " ".join(done.stdout.split("\n")[-4:]).strip())


def source_lines():
    """deb-src lines for the Debian repositories this machine already uses."""
    wanted = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", wanted, "Created-By: Packages"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    by = f"[signed-by={KEYRING}] " if os.path.exists(KEYRING) else ""
    lines = set()
    for line in text.splitlines():
        origin, uri, release, component = line.split("|")
        if origin == "Debian" and component == "main":
            lines.add(f"deb-src {by}{uri} {release} {component}")
    if not lines:
        raise RuntimeError("no Debian repository is configured here")
    return sorted(lines)


def apt_options(directory):
    """Makes apt-get work in `directory` alone."""
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(directory, name), exist_ok=True)
    with open(os.path.join(directory, "sources.list"), "w", encoding="utf-8") as out:
        out.write("\n".join(source_lines()) + "\n")
    settings = {"Dir::Etc::sourcelist": os.path.join(directory, "sources.list"), "Dir::Etc::sourceparts": "-",
                "Dir::State::lists": os.path.join(directory, "lists"), "Dir::Cache": os.path.join(directory, "cache"),
                "APT::Sandbox::User": "root", "Acquire::Languages": "none"}
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def fetch(bench, package):
    """The unpacked source directory of a package, fetched once."""
    directory = os.path.join(bench.build, "bench", "sources", package)
    unpacked = [path for path in glob.glob(os.path.join(directory, "*", "")) if os.path.isdir(path + "debian")]
    if unpacked:
        return unpacked[0]
    apt = os.path.join(bench.build, "bench", "apt")
    options = apt_options(apt)
    if not os.path.exists(os.path.join(apt, "updated")):
        bench.say("fetching the list of Debian's sources")
        call(["apt-get", "-qq"] + options + ["update"])
        open(os.path.join(apt, "updated"), "w", encoding="utf-8").close()
    os.makedirs(directory, exist_ok=True)
    bench.say(f"fetching the source of {package}")
    call(["apt-get", "-qq"] + options + ["source", "--only-source", package], cwd=directory)
    return glob.glob(os.path.join(directory, "*", ""))[0]


def build_bzip2(source, out):
    names = "blocksort huffman crctable randtable compress decompress bzlib bzip2".split()
    call(["gcc"] + FLAGS + ["-w", "-D_FILE_OFFSET_BITS=64", "-o", out] + [source + name + ".c" for name in names])


def build_lua(source, out):
    with open(source + "src/lua5.4-deb-multiarch.h", "w", encoding="ascii") as header:
        header.write(f'#define DEB_HOST_MULTIARCH "{os.uname().machine}-linux-gnu"\n')  # Debian's build makes it
    files = [path for path in glob.glob(source + "src/*.c") if os.path.basename(path) != "luac.c"]
    call(["gcc"] + FLAGS + ["-w", "-DLUA_USE_POSIX", "-DLUA_USE_DLOPEN", "-Wl,-E", "-o", out] + sorted(files)
         + ["-lm", "-ldl"])


def build_sqlite3(source, out):
    """The one file that its makefile puts together of all its files, so that sources lie where debug information says."""
    directory = os.path.join(os.path.dirname(out), "sqlite3-source")
    os.makedirs(directory, exist_ok=True)
    call([os.path.join(source, "configure"), "--disable-tcl", "--disable-shared"], cwd=directory)
    call(["make", "sqlite3.c", "shell.c"], cwd=directory)
    call(["gcc"] + FLAGS + ["-w", "-DSQLITE_THREADSAFE=1", "-o", out, "shell.c", "sqlite3.c", "-lm", "-ldl", "-lpthread"], cwd=directory)


def build_coremark(source, out):
    """Emscripten's tests carry it; a line of theirs that has it ignore its arguments is left out."""
    directory, made = os.path.join(source, "tests", "third_party", "coremark"), out + "-source"
    shutil.copytree(directory, made, dirs_exist_ok=True)
    with open(os.path.join(directory, "core_main.c"), encoding="ascii") as file:
        text = file.read()
    if "  argc = 0;\n" not in text:
        raise RuntimeError("coremark: main() is another one")
    with open(os.path.join(made, "core_main.c"), "w", encoding="ascii") as file:
        file.write(text.replace("  argc = 0;\n", ""))
    call(["gcc"] + FLAGS + ["-w", "-DPERFORMANCE_RUN=1", "-DSEED_METHOD=SEED_ARG", "-I", made, "-o", out] + sorted(glob.glob(made + "/*.c")))


BUILDERS = {"bzip2": (build_bzip2, "bzip2"), "lua": (build_lua, "lua5.4"), "coremark": (build_coremark, "emscripten"),
            "sqlite3": (build_sqlite3, "sqlite3")}  # how, and from which source package


def binary(bench, name):
    """(path, note): our build of a program, or Debian's with a note that says so."""
    out = os.path.join(bench.build, "bench", "programs", name)
    if os.path.exists(out):
        return out, None
    os.makedirs(os.path.dirname(out), exist_ok=True)
    builder, package = BUILDERS[name]
    try:
        source = fetch(bench, package)
        bench.say(f"building {name}")
        builder(source, out)
        return out, None
    except (OSError, IndexError, RuntimeError, subprocess.CalledProcessError) as error:
        installed = shutil.which("lua5.4" if name == "lua" else name)
        if not installed:
            raise
        bench.say(f"{name} could not be built ({error}): taking {installed}")
        return installed, f"{name} is Debian's own binary ({installed}), without frame pointers"


def text_input(bench, size):
    """Text-like bytes, the same on every machine: words drawn with a skew from a made-up vocabulary."""
    path = os.path.join(bench.build, "bench", f"text-{size}")
    if os.path.exists(path):
        return path
    state, words, lines = 20261121, [], []
    for _ in range(3000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append("".join(chr(97 + (state >> shift) % 26) for shift in range(8, 8 + 4 * (3 + state % 7), 4)))
    length = 0
    while length < size:
        line = []
        for _ in range(12):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            line.append(words[((state >> 33) % 3000) * ((state >> 45) % 3000) // 3000])
        lines.append(" ".join(line) + f" {state >> 50}.\n")
        length += len(lines[-1])
    with open(path + ".part", "w", encoding="ascii") as out:
        out.write("".join(lines))
    os.rename(path + ".part", path)
    return path


def sentences(bench, times):
    path = os.path.join(bench.build, "bench", f"sentences-{times}")
    with open(os.path.join(HERE, "workloads", "sentences.txt"), encoding="ascii") as source:
        lines = source.readlines()
    settings = [line for line in lines if line.startswith("!")]
    with open(path, "w", encoding="ascii") as out:
        out.writelines(settings + [line for line in lines if not line.startswith("!")] * times)
    return path


def target(bench, name):
    """(command, stdin or None, note or None) of a program with work for one to two seconds; --quick: a third."""
    path, note = binary(bench, name) if name in BUILDERS else (shutil.which(name), None)
    if not path:
        raise RuntimeError(f"{name} is not installed")
    if name == "bzip2":
        return [path, "-c", "-k", text_input(bench, 10_000_000 if bench.quick else 30_000_000)], None, note
    if name == "lua":
        return [path, os.path.join(HERE, "workloads", "work.lua"), "2" if bench.quick else "6"], None, note
    return [path, "en"], sentences(bench, 2 if bench.quick else 8), note
