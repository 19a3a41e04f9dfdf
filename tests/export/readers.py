"""What other tools make of exported files: each function gives figures by name of function, as plain dictionaries.

Nothing here knows how Tally writes; the tools are Debian's pprof (in golang-go), callgrind_annotate (in valgrind), and the
importer of the npm package speedscope, which package-lock.json pins and npm installs into the build directory."""
import collections
import csv
import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "system"))
import tap  # noqa: E402

FOLDED = re.compile(r"^(.*)\s+?(\d+(?:\.\d*)?)$")  # what flamegraph.pl takes for a line


def tool(context, *command, timeout=120):
    """The output of a command that must succeed."""
    environment = dict(os.environ, HOME=context.directory, PPROF_TMPDIR=context.directory, GOFLAGS="-mod=mod", GOPROXY="off")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=context.directory, env=environment, timeout=timeout, check=False)
    context.check(done.returncode == 0, f"{command[:4]} ends with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode("utf-8")


# --- folded ---


def folded(text):
    """[(frames, figure)]"""
    stacks = []
    for line in text.split("\n")[:-1]:
        stack, figure = FOLDED.match(line).groups()
        stacks.append((tuple(stack.split(";")), int(figure)))
    return stacks


def sums_of_stacks(stacks):
    """{name: [self, total]}; a name counts once a stack."""
    sums = collections.defaultdict(lambda: [0, 0])
    for frames, figure in stacks:
        sums[frames[-1]][0] += figure
        for name in set(frames):
            sums[name][1] += figure
    return dict(sums)


# --- csv ---


def table(text):
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    return [dict(zip(rows[0], row)) for row in rows[1:] if len(row) == len(rows[0])], rows


# --- pprof ---


def pprof(context, path, *options):
    tap.need("go")
    return tool(context, "go", "tool", "pprof", "-symbolize=none", *options, path)


PPROF_ROW = re.compile(r"^ *(-?[\d.]+)(\w*) +[\d.]+% +[\d.]+% +(-?[\d.]+)(\w*) +[\d.]+% +(.*)$")


def pprof_top(context, path, sample_type):
    """{name: [flat, cum]} in whole numbers."""
    text = pprof(context, path, f"-sample_index={sample_type}", "-top", "-nodecount=100000", "-nodefraction=0",
                 "-edgefraction=0", "-unit=ns")
    sums = {}
    for line in text.splitlines():
        match = PPROF_ROW.match(line)
        if match:
            flat, _, cum, _, name = match.groups()
            name = re.sub(r" \((partial-)?inline\)$", "", name)
            sum_ = sums.setdefault(name, [0, 0])
            sum_[0] += int(flat)
            sum_[1] += int(cum)
    return sums


def pprof_raw(context, path):
    """(sample types, [(values, [location], labels)], {location: [(name, file, line)]}, mappings as text)"""
    text = pprof(context, path, "-raw")
    body = text[text.index("Samples:\n") + 9:]
    samples_text, rest = body.split("Locations\n", 1)
    locations_text, mappings = rest.split("Mappings\n", 1)
    lines = samples_text.splitlines()
    samples = []
    for line in lines[1:]:
        match = re.match(r"^ *((?:-?\d+ +)*-?\d+): ([\d ]*)$", line)
        if match:
            samples.append(([int(word) for word in match[1].split()], [int(word) for word in match[2].split()], {}))
        else:
            samples[-1][2].update(re.findall(r"(\w+):\[(.*?)\](?= \w+:\[|$)", line.strip()))
    locations, last = {}, None
    for line in locations_text.splitlines():
        match = re.match(r"^ *(\d+): 0x[0-9a-f]+ (?:M=\d+ )?(.*)$", line)
        if match:
            last = locations.setdefault(int(match[1]), [])
        found = re.match(r"^(.*) (\S*|/odd/.*):(\d+) s=0(?:\(\S*\))?$", match[2] if match else line.strip())
        last.append((found[1], found[2], int(found[3])))
    return lines[0].split(), samples, locations, mappings


# --- callgrind ---

CALLGRIND_ROW = re.compile(r"^ *((?:[\d,.]+ +(?:\( *[\d.]+%\) +)?)+)(.*)$")


def callgrind(context, path, inclusive=False):
    """(events, {function: [figure of each event]}, totals); what is in several files is added up."""
    tap.need("callgrind_annotate")
    text = tool(context, "callgrind_annotate", "--auto=no", "--threshold=100", "--show-percs=no",
                f"--inclusive={'yes' if inclusive else 'no'}", path)
    context.check("WARNING" not in text, "callgrind_annotate warns")
    events = re.search(r"^Events recorded: +(.*)$", text, re.MULTILINE)[1].split()
    sums, totals = {}, None
    number = r" *((?:(?:[\d,]+|\.)  ?[ ]*){%d})" % len(events)
    for line in text.splitlines():
        found = re.match(number + r"(.*)$", line)
        if not found or not found[1].strip():
            continue
        figures = [0 if word == "." else int(word.replace(",", "")) for word in found[1].split()]
        if found[2] == "PROGRAM TOTALS":
            totals = figures
            continue
        name = found[2].rsplit(" [", 1)[0]
        sums.setdefault(name, [0] * len(events))
        sums[name] = [a + b for a, b in zip(sums[name], figures)]
    return events, sums, totals


def calls_of_callgrind(text):
    """{(caller, callee): calls}, read by the format's specification alone."""
    names, calls, caller, callee = {}, collections.Counter(), None, None
    for line in text.splitlines():
        found = re.match(r"^(c?fn)=\((\d+)\)(?: (.*))?$", line)
        if found:
            if found[3] is not None:
                assert found[2] not in names, f"number {found[2]} is given twice"
                names[found[2]] = found[3]
            if found[1] == "fn":
                caller = names[found[2]]
            else:
                callee = names[found[2]]
        elif line.startswith("calls="):
            calls[caller, callee] += int(line[6:].split()[0])
    return calls


# --- gprof ---

GPROF_FLAT = re.compile(r"^ *([\d.]+) +([\d.]+) +([\d.]+)(?: +(\d+) +([\d.]+) +([\d.]+)  ([^ ].*)| {29}([^ ].*))$")
GPROF_MAIN = re.compile(r"^\[(\d+)\] +([\d.]+) +([\d.]+) +([\d.]+) +(?:(\d+)(?:\+(\d+))? +)?(\S.*?) \[(\d+)\]$")
GPROF_ARC = re.compile(r"^ +(?:([\d.]+) +([\d.]+) +(\d+)/(\d+)|(\d+)) +(\S.*?) \[(\d+)\]$")


def gprof(text):
    """What the chapter "Interpreting gprof's Output" of its manual says the text is: the flat profile
    {name: (seconds, calls or None, per call, total per call)}, the unit of times per call, and the graph {name: entry}. A line that is none fails."""
    flat_text, graph_text, index_text = text.split("\f\n")
    head, rows = flat_text.split("Flat profile:\n\n")[1].split("name    \n")
    unit = head.split()[-1]
    flat = {}
    for line in rows.splitlines():
        _, _, own, calls, each, below, name, other = GPROF_FLAT.match(line).groups()
        flat[name or other] = (float(own), calls and int(calls), each and float(each), below and float(below))
    graph, arcs, entry = {}, [], None
    for line in graph_text.split("called     name\n")[1].splitlines():
        main, arc = GPROF_MAIN.match(line), GPROF_ARC.match(line)
        if main:
            index, percent, own, below, called, again, name, behind = main.groups()
            assert index == behind and int(index) == len(graph) + 1, line
            entry = {"percent": float(percent), "self": float(own), "children": float(below), "called": called and int(called),
                     "again": again and int(again), "callers": arcs, "callees": []}
            graph[name], arcs = entry, entry["callees"]
        elif arc:
            own, below, called, all_, again, name, _ = arc.groups()
            arcs.append((name, own and float(own), below and float(below), int(called or again), all_ and int(all_)))
        elif line == "-" * 47:
            arcs = []
        else:
            assert line.strip() in ("", "<spontaneous>"), line
            if line.strip():
                assert not [found for found in arcs if found[1] is not None], "spontaneous and called"
    names = dict(re.findall(r"^ +\[(\d+)\] (.*)$", index_text, re.MULTILINE))
    assert [names[str(i + 1)] for i in range(len(graph))] == list(graph), "the index by name"
    return flat, unit, graph


# --- speedscope ---


def install_speedscope(directory):
    """As package-lock.json has it; whole or not at all, since other tests look."""
    made = directory + ".new"
    try:
        shutil.rmtree(made, ignore_errors=True)
        os.makedirs(made)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(HERE, name), made)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=made, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise tap.Skip(f"npm could not install speedscope: {error}") from error
    if done.returncode != 0:
        raise tap.Skip("npm could not install speedscope: " + done.stdout.decode(errors="replace").strip()[-200:])
    shutil.rmtree(directory, ignore_errors=True)
    os.rename(made, directory)


def node_modules(context):
    """Where the package is; installed once a build directory, by one of the tests that run side by side."""
    tap.need("node", "npm")
    directory = os.path.join(context.programs, "node")
    modules = os.path.join(directory, "node_modules")
    with open(directory + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(os.path.join(modules, "speedscope", "dist", "release")):
            install_speedscope(directory)
    return modules


def speedscope(context, *paths):
    """For each file the list of its profiles: name, unit, weight, frames {name: [self, total]}."""
    modules = node_modules(context)
    return json.loads(tool(context, "node", os.path.join(HERE, "import.js"), modules, *paths))


def check_schema(context, path):
    modules = node_modules(context)
    try:
        import jsonschema
    except ImportError as error:
        raise tap.Skip("no Python module jsonschema (package python3-jsonschema)") from error
    with open(os.path.join(modules, "speedscope", "dist", "release", "file-format-schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    jsonschema.validate(document, schema)
    return document
