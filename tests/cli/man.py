#!/usr/bin/python3
"""man.py - do the manual pages say what --help says?

    man.py TALLY MAN_DIRECTORY

Every command of `tally --help` has a page tally-NAME.1; the synopses are the same; every option of one is in the other,
spelled alike with its value; tally.1 has every command with the same summary. mandoc finds nothing wrong with the
pages, where it is installed. Output is TAP.
"""
import os
import re
import shutil
import subprocess
import sys

COMMAND = re.compile(r"^  ([a-z]+) {2,}(\S.*)$")
OPTION = re.compile(r"^ {2,6}(-\S.*?)(?: {2,}.*)?$")


def plain(line):
    """A line of roff as it is printed."""
    line = re.sub(r"\\f(?:[BIRP]|\[\w*\])", "", line)
    return line.replace("\\-", "-").replace("\\(aq", "'").strip()


def section(lines, title):
    """The lines under one .SH."""
    inside, found = False, []
    for line in lines:
        if line.startswith(".SH"):
            inside = line == f".SH {title}"
        elif inside:
            found.append(line)
    return found


def page_options(lines):
    found = []
    for before, line in zip(lines, lines[1:]):
        if before == ".TP" and plain(line).startswith("-"):
            found.append(plain(line))
    return found


def page_synopsis(lines):
    return [plain(line) for line in section(lines, "SYNOPSIS") if not line.startswith(".")]


def help_synopsis(text):
    found = []
    for line in text.splitlines():
        if line.startswith("Usage: ") or (found and line.startswith("       ")):
            found.append(line[7:].strip())
        elif found:
            break
    return found


def help_options(text):
    """The left column: everything before two blanks. Choices that end a line with their bar go on in the next one."""
    found = []
    for line in re.sub(r"\|\n +", "|", text).splitlines():
        match = OPTION.match(line)
        if match:
            found.append(match.group(1).strip())
    return found


def help_of(tally, *words):
    done = subprocess.run([tally, *words, "--help"], stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def commands_of(text):
    found = {}
    for line in text.splitlines():
        match = COMMAND.match(line)
        if line == "Options":
            break
        if match:
            found[match.group(1)] = match.group(2)
    return found


def read(directory, name):
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def differences(what, here, there):
    missing = [f"{what} {item!r} is in --help, not in the page" for item in here if item not in there]
    return missing + [f"{what} {item!r} is in the page, not in --help" for item in there if item not in here]


def page_complaints(tally, directory, name):
    lines, text = read(directory, f"tally-{name}.1"), help_of(tally, name)
    if lines is None:
        return ["there is no page"]
    complaints = differences("synopsis", help_synopsis(text), page_synopsis(lines))
    return complaints + differences("option", help_options(text), page_options(section(lines, "OPTIONS")))


def summary_complaints(directory, commands):
    lines = read(directory, "tally.1")
    body = section(lines, "COMMANDS")
    summaries = {}
    for at, line in enumerate(body[:-2]):
        if line == ".TP":
            summaries[plain(body[at + 1])] = plain(body[at + 2])
    return [f"{name}: --help says {summary!r}, the page {summaries.get(name)!r}" for name, summary in commands.items()
            if not (summaries.get(name) or "").rstrip(":").startswith(summary.split(":")[0])]


def lint_complaints(directory):
    pages = sorted(name for name in os.listdir(directory) if name.endswith(".1"))
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "style", *pages], cwd=directory, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, text=True)
    return done.stdout.splitlines()


def main():
    tally, directory = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    text = help_of(tally)
    commands = commands_of(text)
    results = [("tally.1 has every command", summary_complaints(directory, commands) if commands else ["no commands found"]),
               ("tally.1 has every option",
                differences("option", help_options(text),
                            page_options(section(read(directory, "tally.1"), "OPTIONS"))))]
    for name in commands:
        if name != "help":
            results.append((f"tally-{name}.1 agrees with tally {name} --help", page_complaints(tally, directory, name)))
    results.append(("mandoc finds nothing wrong", lint_complaints(directory) if shutil.which("mandoc") else None))
    print(f"1..{len(results)}")
    for number, (name, complaints) in enumerate(results, 1):
        if complaints is None:
            print(f"ok {number} - {name} # SKIP no mandoc")
            continue
        for complaint in complaints:
            print(f"#   {complaint}")
        print(f"{'not ok' if complaints else 'ok'} {number} - {name}")
    sys.exit(1 if any(complaints for _, complaints in results) else 0)


if __name__ == "__main__":
    main()
