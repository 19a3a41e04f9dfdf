"""Counts single test cases in what `meson test` wrote down (meson-logs/NAME.json, one JSON object a line).

Meson counts programs; a program of ours holds many cases, each a TAP line:
    ok 3 - name            passed
    not ok 4 - name        failed
    ok 5 # SKIP reason     skipped; cmocka writes `not ok 5 # SKIP name` for skip(), with the reason printed before it
A program without any TAP is one case, judged by its exit status (0, or 77 for skipped, the last line being the reason).
A program that dies, times out, breaks its plan or runs nothing is one failed case more, so nothing is lost silently.
"""
import json
import re

POINT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*-?\s*(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\s*(?:#\s*SKIP\S*\s*(.*))?$", re.IGNORECASE)
DIRECTIVE = re.compile(r"(?:^|\s)#\s*(SKIP|TODO)\b\S*\s*(.*)$", re.IGNORECASE)
EXIT_SKIPPED = 77


class Case:
    """One test case: program, name, outcome ('passed', 'failed', 'skipped') and a reason or output."""

    def __init__(self, program, name, outcome, text=""):
        self.program, self.name, self.outcome, self.text = program, name, outcome, text


def reason_of(directive_text, before):
    """The reason of a skip: what was printed since the last case, else what stands behind the directive."""
    said = " ".join(line.lstrip("# ").strip() for line in before if line.strip())
    return said or directive_text.strip() or "no reason given"


def point_case(program, match, before):
    failed, number, rest = match.group(1), match.group(2), match.group(3)
    directive = DIRECTIVE.search(rest)
    name = rest[: directive.start()].strip() if directive else rest.strip()
    if directive and directive.group(1).upper() == "SKIP":
        # cmocka names the test behind SKIP and prints the reason before it; others write the reason there.
        own = directive.group(2)
        if not name:
            return Case(program, own or f"case {number}", "skipped", reason_of(own, before))
        return Case(program, name, "skipped", own.strip() or reason_of("", before))
    if directive:
        return Case(program, name, "skipped" if failed else "passed", "to do: " + directive.group(2))
    return Case(program, name or f"case {number}", "failed" if failed else "passed")


def tap_cases(program, output):
    """All cases of one TAP output, and how many its plan promised (None without a plan)."""
    cases, planned, before = [], None, []
    for line in output.splitlines():
        plan, point = PLAN.match(line), POINT.match(line)
        if plan:
            planned = int(plan.group(1))
            if plan.group(2) is not None:
                cases.append(Case(program, "(all)", "skipped", plan.group(2) or reason_of("", before)))
        elif point:
            cases.append(point_case(program, point, before))
            before = []
        else:
            before.append(line)
    return cases, planned


def exit_case(program, entry):
    output = (entry.get("stdout") or "") + (entry.get("stderr") or "")
    lines = [line for line in output.splitlines() if line.strip()]
    if entry["returncode"] == 0 and entry["result"] not in ("TIMEOUT", "INTERRUPT"):
        return Case(program, "(exit status)", "passed")
    if entry["returncode"] == EXIT_SKIPPED:
        return Case(program, "(exit status)", "skipped", lines[-1].strip() if lines else "no reason given")
    return Case(program, "(exit status)", "failed", f"exit status {entry['returncode']}, {entry['result']}")


def trouble(entry, cases, planned):
    """What is wrong with a TAP program beyond its single cases, or None."""
    if entry["result"] in ("TIMEOUT", "INTERRUPT"):
        return entry["result"].lower()
    ran = len(cases) if planned != 0 else 0
    if planned is not None and ran != planned:
        return f"planned {planned} cases, ran {ran}"
    if not cases:
        return "ran no case"
    if planned is None:
        return "has no plan line (1..N)"
    if entry["returncode"] != 0 and not any(case.outcome == "failed" for case in cases):
        return f"exit status {entry['returncode']}"
    return None


def entry_cases(entry):
    """The cases of one program as meson logged it."""
    program, output = entry["name"], entry.get("stdout") or ""
    lines = output.splitlines()
    if not any(PLAN.match(line) or POINT.match(line) for line in lines):
        return [exit_case(program, entry)]
    cases, planned = tap_cases(program, output)
    wrong = trouble(entry, cases, planned)
    if wrong:
        cases.append(Case(program, "(the program)", "failed", wrong))
    return cases


def log_entries(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        return [json.loads(line) for line in log if line.strip()]
