"""Exact calls: what a program counted by itself (tests/programs/calls_truth.h) beside what tally counted."""
import collections
import contextlib
import json
import os
import re

import tally

# Names a compiler makes of one function's name: clones, halves, copies of a static one.
SUFFIX = re.compile(r"(\.(constprop|isra|part|cold|lto_priv|llvm)(\.\d+)*|\.\d+)+$")
HASH = re.compile(r"::h[0-9a-f]{16}$")  # rustc's, where the demangler keeps it


def plain(name):
    """A function's name without parameters and without what compilers add."""
    if name is None:
        return None
    name = SUFFIX.sub("", name)
    name = re.sub(r"\[clone [^]]*\]", "", name).strip()
    if "(" in name and not name.startswith("("):
        name = name[: name.index("(")]
    name = HASH.sub("", name)
    return name


def truths(output):
    """[(pid, caller, callee, kind, calls)] of all lines of JSON that programs printed."""
    found = []
    for line in output.splitlines():
        if line.startswith('{"pid":'):
            truth = json.loads(line)
            found += [(truth["pid"], *edge) for edge in truth["edges"]]
    return found


def other_lines(output):
    """What a program printed besides."""
    return [line for line in output.splitlines() if not line.startswith('{"pid":')]


def options(*more):
    return ["--calls", "--no-time", *more]


def counted(context, command, more=(), name="profile", status=0, **extra):
    """A recording of calls only; the Profile."""
    return tally.recorded(context, command, options(*more), name, status, **extra)


def edges(profile):
    """[(None, caller, callee, kind, calls)] over all processes."""
    return [(None, *row) for row in profile.rows("select caller, callee, kind, calls from edges")]


def edges_by_process(profile):
    return profile.rows("select pid, caller, callee, kind, calls from calls")


class Comparison:
    """Truth beside a profile: `wrong` lines of text, `right` edges that agree, `reported` those that do not, but to functions that
    tally itself says it does not see all calls of, and then fewer than were made."""

    def __init__(self, truth, got, by_process=False, kinds=True, uncovered=()):
        self.by_process, self.kinds = by_process, kinds
        self.wanted, self.found = collections.Counter(), collections.Counter()
        self.strange = collections.Counter()  # edges to functions of the truth that the truth does not have
        self.wrong, self.right, self.reported, self.uncovered = [], 0, [], set(uncovered)
        self.read_truth(truth)
        for row in got:
            self.take(row)
        self.judge()

    def read_truth(self, truth):
        self.callees, self.kind_of = set(), {}
        for pid, caller, callee, kind, calls in truth:
            self.callees.add(callee)
            pair = (caller, callee)
            # kinds are compared where every edge of the pair has one
            self.kind_of[pair] = bool(kind) and self.kind_of.get(pair, True)
        for pid, caller, callee, kind, calls in truth:
            self.wanted[self.key(pid, caller, callee, kind)] += calls

    def key(self, pid, caller, callee, kind):
        with_kind = self.kinds and self.kind_of.get((caller, callee), False)
        return (pid if self.by_process else None, caller, callee, kind if with_kind else "")

    def take(self, row):
        pid, caller, callee, kind, calls = row
        caller, callee = plain(caller), plain(callee)
        if callee not in self.callees:
            return
        if (caller, callee) in self.kind_of:
            self.found[self.key(pid, caller, callee, kind)] += calls
        elif ("*", callee) in self.kind_of:
            self.found[self.key(pid, "*", callee, kind)] += calls
        else:
            self.strange[(pid if self.by_process else None, caller, callee, kind)] += calls

    def judge(self):
        for key in sorted(set(self.wanted) | set(self.found), key=str):
            if self.wanted[key] == self.found[key]:
                self.right += self.wanted[key] > 0
            elif key[2] in self.uncovered and self.found[key] < self.wanted[key]:
                self.reported.append(show(key))
            else:
                self.wrong.append(f"{show(key)}: counted {self.found[key]}, made {self.wanted[key]}")
        for key, calls in sorted(self.strange.items(), key=str):
            if calls and not (key[1] is None and key[2] in self.uncovered):
                self.wrong.append(f"{show(key)}: counted {calls}, there is no such call")


def show(key):
    pid, caller, callee, kind = key
    return (f"[{pid}] " if pid else "") + f"{caller} -> {callee}" + (f" ({kind})" if kind else "")


def check(context, profile, by_process=False, kinds=True, least=1, may_miss=False):
    """Every edge that the recorded program's output states is in the profile, to the unit, and no other one to its functions."""
    truth = truths(profile.output)
    context.check(truth, f"the program stated no truth: {profile.output[:300]!r} {profile.errors[:1000]!r}")
    got = edges_by_process(profile) if by_process else edges(profile)
    uncovered = {plain(name) for name, in profile.rows("select function from uncovered")}
    comparison = Comparison(truth, got, by_process, kinds, uncovered if may_miss else ())
    if comparison.reported:
        context.note("not counted, as tally says: " + ", ".join(comparison.reported))
    if not context.check(not comparison.wrong, "\n".join(comparison.wrong[:40])):
        context.note(profile.errors[:1500])
    context.check(comparison.right >= least, f"only {comparison.right} edges to compare")
    return comparison


def line(pid, pairs):
    """What calls_print would print."""
    return json.dumps({"pid": pid, "edges": pairs}, separators=(",", ":"))


# --- what tally leaves in a process ---

def mappings(pid):
    """[(start, end, protection, offset, path)]"""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for text in maps:
            words = text.split(None, 5)
            start, end = (int(word, 16) for word in words[0].split("-"))
            found.append((start, end, words[1], int(words[2], 16), words[5].strip() if len(words) > 5 else ""))
    return found


def text_of(pid, memory, start, end, least):
    """The bytes of a mapping; None when the program has unmapped it meanwhile. It may map the same there again at once."""
    for _ in range(5):
        here = b""
        with contextlib.suppress(OSError):
            memory.seek(start)
            here = memory.read(end - start)
        if len(here) >= least:
            return here
        now = mappings(pid)
        if now and (start, end) not in [mapping[:2] for mapping in now]:
            return None
    raise ProcessLookupError(f"{pid} ends")


def changed_text(pid):
    """[(path, first address)] of the executable mappings of files that are not as the file is. A process that ends meanwhile has
    no memory any more: ProcessLookupError, as when it is gone."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end, protection, offset, path in mappings(pid):
            if "x" not in protection or not path.startswith("/") or path.startswith("/memfd:") or not os.path.exists(path):
                continue
            with open(path, "rb") as file:
                file.seek(offset)
                there = file.read(end - start)
            here = text_of(pid, memory, start, end, len(there))
            if here is None:
                continue
            there += bytes(len(here) - len(there))
            if here != there:
                first = next(index for index in range(len(here)) if here[index] != there[index])
                found.append((path, hex(start + first)))
    return found


def tracers(pid):
    """{tid: tracer} of the threads that have one."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8") as status:
                tracer = int(re.search(r"^TracerPid:\s*(\d+)", status.read(), re.MULTILINE).group(1))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        if tracer:
            found[int(tid)] = tracer
    return found


def state(pid):
    """The letter in /proc/PID/stat."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def counting(pid):
    """Whether tally has changed the process's text and let it go on; not one that has ended. The loader's doorbell comes first, and the
    process runs on before all else is changed at once."""
    try:
        changed = [path for path, _ in changed_text(pid) if not os.path.basename(path).startswith("ld-")]
        return bool(changed) and state(pid) not in "tZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_untouched(context, pid, what=""):
    """After detaching: the text is the file's, and nobody traces it."""
    context.equal(changed_text(pid), [], f"text that differs from its file {what}")
    context.equal(tracers(pid), {}, f"threads that are traced {what}")
    context.check(state(pid) not in "tT", f"the process is stopped {what}")
