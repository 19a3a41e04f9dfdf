"""Annotated lines and loops of programs that know them, recorded live, against what they say of themselves."""
import json
import math
import os
import re
import shutil
import subprocess

import tally
import tap
import truth

SECONDS = "1.5"
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "loops.c")


def marked_lines():
    """{mark: line}: the comments at the end of the lines of loops.c."""
    with open(SOURCE, encoding="utf-8") as file:
        found = [(re.search(r"/\* (\w+) \*/$", line.rstrip()), number) for number, line in enumerate(file, 1)]
    return {match.group(1): number for match, number in found if match}


def loops_profile(context):
    return tally.recorded(context, [context.program("loops"), "--seconds", SECONDS])


def as_json(context, profile, *arguments):
    result = tally.run(context, [context.tally, *arguments, "--json", profile.path])
    context.equal(result.status, 0, f"status of tally {' '.join(arguments)} ({result.text()})")
    return json.loads(result.output)


def annotate(context, profile, function, *options):
    return as_json(context, profile, "annotate", function, *options)["annotated"]


def close(context, what, figure, spent, whole, samples, z=4.3):
    """A sampled share against the share that was measured; z as in intervals.py, and the clock's own reading on top."""
    share = spent / whole
    margin = z * math.sqrt(share * (1 - share) / samples) + 0.005
    context.note(f"{what}: {100 * figure['share']:.2f} % sampled, {100 * share:.2f} % measured")
    context.check(abs(figure["share"] - share) <= margin,
                  f"{what}: {100 * figure['share']:.2f} % sampled, {100 * share:.2f} % measured, margin {100 * margin:.2f}")


def own_line(listing, line):
    rows = [row for row in listing["lines"] if row["parent"] == 0 and row["line"] == line]
    return rows[0] if rows else {"self": {"share": 0, "samples": 0}, "total": {"share": 0}, "hot": False, "id": -1}


def all_samples(profile):
    return profile.rows("select sum(samples) from flat where self > 0")[0][0]


@tap.case
def hot_lines(context):
    profile, lines = loops_profile(context), marked_lines()
    seconds, whole = truth.shares(profile.output)
    samples = all_samples(profile)
    listing = annotate(context, profile, "lines")
    for name in ("line_a", "line_b", "line_c"):
        close(context, name, own_line(listing, lines[name])["self"], seconds[name], whole, samples)
    context.equal(own_line(listing, lines["line_c"])["hot"], True, "the hottest line is marked")
    context.equal(listing["notes"], [], "notes")
    text = own_line(listing, lines["line_c"]).get("text", "")
    context.check("/* line_c */" in text, f"the line's source: {text}")
    whole_self = sum(row["self"]["samples"] for row in listing["lines"] if row["parent"] == 0)
    context.equal(whole_self, listing["function"]["self"]["samples"], "samples of all lines")
    nest = annotate(context, profile, "nest")
    for name in ("nest_inner", "nest_beside"):
        close(context, name, own_line(nest, lines[name])["self"], seconds[name], whole, samples)
    caller = annotate(context, profile, "caller")
    close(context, "caller_call", own_line(caller, lines["caller_call"])["total"], seconds["leaf"], whole, samples)
    host = annotate(context, profile, "host")
    call = own_line(host, lines["host_call"])
    inside = [row for row in host["lines"] if row["parent"] == call["id"] and row["line"] == lines["inlined"]]
    context.equal([row["inlined"] for row in inside], ["inlined"], "what was inlined at the call")
    close(context, "inlined", inside[0]["self"], seconds["inlined"], whole, samples)


@tap.case
def instructions(context):
    profile, lines = loops_profile(context), marked_lines()
    listing = annotate(context, profile, "nest", "--asm")
    every = listing["instructions"]
    context.equal(sum(row["self"]["samples"] for row in every), listing["function"]["self"]["samples"],
                  "samples of all instructions")
    wanted = disassembled(context, context.program("loops"), listing["function"]["start"], listing["function"]["end"])
    if wanted:
        context.equal([row["address"] for row in every], wanted, "addresses of instructions, against objdump's")
    inner = max(every, key=lambda row: row["self"]["samples"])
    context.equal(inner["line"], lines["nest_inner"], "the line of the hottest instruction")
    depth = {loop["id"]: loop["depth"] for loop in listing["loops"]}
    context.equal(depth.get(inner["loop"]), 3, "depth of the loop of the hottest instruction")
    calls = [row["text"] for row in annotate(context, profile, "caller", "--asm")["instructions"] if "call" in row["text"]]
    context.equal(calls, ["call leaf"], "calls of caller")
    intel = annotate(context, profile, "nest", "--asm", "--syntax", "intel")["instructions"]
    context.check(not any("%" in row["text"] for row in intel), "the syntax of Intel has no % before registers")


def disassembled(context, path, start, end):
    """Addresses by objdump; None without it."""
    if not shutil.which("objdump"):
        return None
    done = tally.run(context, ["objdump", "-d", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={end}", path])
    return [int(match.group(1), 16) for match in re.finditer(r"^\s+([0-9a-f]+):\t", done.output.decode(), re.MULTILINE)]


def parent_chain(rows, row):
    by_id, chain = {other["id"]: other for other in rows}, []
    while row["parent"]:
        row = by_id[row["parent"]]
        chain.append(row["id"])
    return chain


@tap.case
def nests(context):
    """outer holds middle and beside; middle holds inner; their shares are those of the work in them."""
    profile, lines = loops_profile(context), marked_lines()
    seconds, whole = truth.shares(profile.output)
    samples = all_samples(profile)
    document = as_json(context, profile, "report", "--loops", "--limit", "0%")
    rows = [row for row in document["rows"] if row["function"] == "nest" and row["total"]["samples"] > 0]
    by_line = {row["first_line"]: row for row in rows}
    inner, beside = by_line.get(lines["nest_inner"]), by_line.get(lines["nest_beside"])
    if not context.check(inner and beside, f"loops of nest begin at {sorted(by_line)}"):
        return
    context.equal((inner["depth"], beside["depth"]), (3, 2), "depths of inner and beside")
    chain = parent_chain(document["rows"], inner)
    context.equal(len(chain), 2, "loops around inner")
    context.equal(beside["parent"], chain[1], "what is around beside is what is around middle")
    middle, outer = (next(row for row in rows if row["id"] == number) for number in chain)
    context.equal((outer["first_line"], outer["depth"]), (lines["nest_outer"], 1), "outer")
    context.equal((middle["first_line"], middle["depth"]), (lines["nest_middle"], 2), "middle")
    close(context, "inner", inner["self"], seconds["nest_inner"], whole, samples)
    close(context, "beside", beside["self"], seconds["nest_beside"], whole, samples)
    close(context, "outer", outer["total"], seconds["nest_inner"] + seconds["nest_beside"], whole, samples)
    caller = next(row for row in document["rows"] if row["function"] == "caller")
    close(context, "caller's loop with what it calls", caller["total"], seconds["leaf"], whole, samples)
    context.check(caller["self"]["share"] < caller["total"]["share"] / 5, "caller's loop itself costs next to nothing")
    host = next(row for row in document["rows"] if row["function"] == "host")
    context.equal((host["inlined"], host["first_line"]), ("inlined", lines["inlined"]), "a loop that was inlined")
    context.equal([row for row in document["rows"] if row["irreducible"] and row["image"] == "loops"], [], "irreducible ones")
    context.check(all(row["total"]["value"] >= 0 and row["parent"] < row["id"] for row in document["rows"]), "parents come first")


@tap.case
def text_is_as_wide_as_asked(context):
    profile = loops_profile(context)
    for arguments in (("annotate", "nest"), ("annotate", "--asm", "nest"), ("annotate", "--asm", "main"), ("report", "--loops")):
        result = tally.run(context, [context.tally, *arguments, profile.path], env=dict(os.environ, COLUMNS="80", LC_ALL="C.UTF-8"))
        context.equal(result.status, 0, f"status of {arguments}")
        lines = result.output.decode().splitlines()
        context.check(len(lines) > 10, f"{arguments}: only {len(lines)} lines")
        context.equal([line for line in lines if len(line) > 80], [], f"lines of {arguments} wider than 80 columns")
        if "--loops" in arguments:
            inner = marked_lines()["nest_inner"]
            context.check(any(re.search(rf" loops\.c:{inner}(-\d+)?$", line) for line in lines), f"no row ends in the lines of the inner loop: {lines}")


@tap.case
def calls_on_their_lines(context):
    """caller calls leaf eight times whenever it is called: exactly, on the line of the call and in its loop."""
    recording = tally.record(context, [context.program("loops"), "--seconds", "0.3"], ["--calls"])
    if recording.status != 0 or not os.path.exists(recording.profile):
        raise tap.Skip("calls cannot be counted here: " + recording.errors.decode(errors="replace")[-200:])
    profile, lines = tally.Profile(context, recording.profile), marked_lines()
    listing = annotate(context, profile, "caller", "--asm")
    called = listing["function"]["calls"]
    context.check(called > 0, f"caller was called {called} times")
    context.equal(own_line(listing, lines["caller_call"])["calls"], 8 * called, "calls on the line")
    context.equal([row["calls"] for row in listing["instructions"] if row["calls"]], [8 * called], "calls by instruction")
    context.equal([loop["calls"] for loop in listing["loops"]], [8 * called], "calls in the loop")
    context.equal(annotate(context, profile, "leaf")["function"]["calls"], 8 * called, "calls of leaf")
    rows = as_json(context, profile, "report", "--loops", "--limit", "0%")["rows"]
    context.equal([row["calls"] for row in rows if row["function"] == "caller"], [8 * called], "calls in the loop, among all loops")


@tap.case
def calls_without_time(context):
    recording = tally.record(context, [context.program("loops"), "--seconds", "0.2"], ["-v", "--calls", "--no-time"])
    if recording.status != 0 or not os.path.exists(recording.profile):
        raise tap.Skip("calls cannot be counted here: " + recording.errors.decode(errors="replace")[-200:])
    result = tally.run(context, [context.tally, "annotate", "--asm", "caller", recording.profile])
    text = result.output.decode()
    context.equal(result.status, 0, f"status ({result.text()})")
    context.check(re.search(r"^\s+[0-9,]+ +\d+ \S+ +[0-9a-f]+  call leaf$", text, re.MULTILINE), f"the call with its count:\n{text}")
    said = tally.run(context, [context.tally, "report", recording.profile]).output.decode()
    context.check("No samples: time was not recorded" in said and "time.cpu" not in said, f"the reason for no samples:\n{said}")
    context.check(b"null" not in recording.errors, f"what record says: {recording.errors}")


def moved_program(context):
    path = context.path("program")
    shutil.copy(context.program("loops"), path)
    return path


@tap.case
def program_that_has_changed(context):
    """Another program in its place: a note says so, and the lines of the profile remain."""
    path = moved_program(context)
    profile = tally.recorded(context, [path, "--seconds", "0.3"])
    lines = marked_lines()
    shutil.copy(context.program("shares"), path)
    listing = annotate(context, profile, "lines")
    context.check(len(listing["notes"]) == 1 and "has changed since: its build-id is " in listing["notes"][0], str(listing["notes"]))
    context.check(own_line(listing, lines["line_c"])["self"]["samples"] > 0, "the lines of the profile")
    document = as_json(context, profile, "report", "--loops")
    reasons = [row["reason"] for row in document["not_looked_into"] if row["image"] == "program"]
    context.check(len(reasons) == 1 and "has changed since" in reasons[0], f"not looked into: {reasons}")
    os.unlink(path)
    listing = annotate(context, profile, "lines", "--asm")
    context.check(listing["notes"] and listing["notes"][0].startswith(path + ": No such file"), str(listing["notes"]))
    context.equal(listing["instructions"], [], "instructions of a file that is gone")


@tap.case
def source_elsewhere(context):
    profile = loops_profile(context)
    compiled = annotate(context, profile, "nest")["function"]["file"]
    built = os.path.dirname(compiled)
    missing = annotate(context, profile, "nest", "--source-map", built + "=/nonexistent")
    context.equal(missing["notes"], ["no source: /nonexistent/loops.c: No such file or directory; "
                                     "--source-map FROM=TO says where sources lie now"], "notes")
    os.mkdir(context.path("moved"))
    shutil.copy2(SOURCE, context.path("moved"))
    found = annotate(context, profile, "nest", "--source-map", built + "=" + context.path("moved"))
    context.equal(found["notes"], [], "notes with the right map")
    lines = marked_lines()
    context.check("/* nest_inner */" in own_line(found, lines["nest_inner"]).get("text", ""), "the text of the line")


FAR = """#include <stdlib.h>
volatile long sum;
static void spin(long turns)
{
    for (long i = 0; i < turns; i++) sum += i;
    for (long i = 0; i < turns; i++) sum -= i;
#line 5000
    for (long i = 0; i < turns; i++) sum += i;
    for (long i = 0; i < turns; i++) sum -= i;
}
#line 11
int main(int count, char **words)
{
    spin(count > 1 ? atol(words[1]) : 100000000);
}
"""


@tap.case
def lines_far_from_the_function(context):
    """Debug information that says lines of elsewhere are the function's own: they stand below, and not thousands of lines away."""
    if not shutil.which("gcc"):
        raise tap.Skip("no gcc")
    path = context.path("far.c")
    with open(path, "w", encoding="ascii") as out:
        out.write(FAR)
    subprocess.run(["gcc", "-O0", "-g", "-o", context.path("far"), path], check=True)
    profile = tally.recorded(context, [context.path("far")])
    function = annotate(context, profile, "spin")["function"]
    context.equal((function["first_line"], function["last_line"]), (4, 6), "the function's lines")
    lines = tally.run(context, [context.tally, "annotate", "spin", profile.path]).output.decode().splitlines()
    found = [re.match(r"> +\S+ \S+ % .* (\d+)(  .*)?$", line) for line in lines]
    numbers = [int(match.group(1)) for match in found if match]
    context.equal((numbers[:2], sorted(numbers[2:])), ([5, 6], [5000, 5001]), f"hot lines of {lines}")
    context.check(len(lines) < 40, f"{len(lines)} lines for a function of seven")


@tap.case
def stripped_program(context):
    """Without line information, instructions instead of lines; and debug information that lies apart is found."""
    if not shutil.which("objcopy"):
        raise tap.Skip("no objcopy")
    path, debug = moved_program(context), context.path("program.debug")
    subprocess.run(["objcopy", "--only-keep-debug", path, debug], check=True)
    subprocess.run(["objcopy", "--strip-debug", path], check=True)
    profile = tally.recorded(context, [path, "--seconds", "0.3"])
    listing = annotate(context, profile, "nest")
    context.check(any("has no line information" in note for note in listing["notes"]), str(listing["notes"]))
    context.check(listing["loops"] and listing["loops"][0]["total"]["samples"] > 0, "loops need no lines")
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", path], check=True)
    profile = tally.recorded(context, [path, "--seconds", "0.3"])
    lines = marked_lines()
    context.check(own_line(annotate(context, profile, "nest"), lines["nest_inner"])["self"]["samples"] > 0,
                  "lines by .gnu_debuglink")


tap.run()
