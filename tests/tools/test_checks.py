#!/usr/bin/python3
"""Can the checks in tools/ fail? Each is given a small good tree, then the same tree with one thing wrong.

Also the counting of cases in tools/tap.py, since the last line of `make check` rests on it. Output is TAP.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import platform
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import tap  # noqa: E402

GOOD = {
    "src/safe/wire/wire_loss.h": '#define L(X) \\\n    X(1, RING_FULL, "dropped") \\\n    X(2, CUT, "cut")\n',
    "src/safe/arch/x86_64/host.c": "#if defined(__x86_64__)\n#endif\n",
    "src/safe/arch/aarch64/host.c": "\n",
    "src/tool/base/base_text.h": "\n",
    "src/tool/base/base_more.h": '#include "base_text.h"\n',
    # What would be a cycle but for one file: it names a function, a tag and a member of another file in a comment.
    "src/tool/elf/elf_image.c": "int elf_image(void)\n{\n    return 0; /* elf_maps() */\n}\n",
    "src/tool/elf/elf_build.c": "struct elf_maps {\n    int elf_third;\n};\n",
    "src/tool/elf/elf_symbol.c": "int elf_symbol(void)\n{\n    return elf_build();\n}\n",
    "src/tool/elf/elf_third.c": "int elf_third(struct elf_maps *maps)\n{\n    return maps->elf_third + elf_symbol();\n}\n",
    "src/tool/elf/elf_maps.c": '#include "base_text.h"\nint elf_maps(void)\n{\n    return elf_image(); /* printf() */\n}\n',
    "src/tool/cli/cmd_record.c": '#include "base_text.h"\n#include <stdio.h>\n',
    "doc/tour.md": "```include-table\nsafe/wire: -\nsafe/arch: wire\nbase: -\nelf: base\ncli: any module of tool\n```\n",
    "doc/losses.md": "### 1 RING_FULL\n\n> dropped\n\n### 2 CUT\n\n> cut\n",
    "doc/man/tally-record.1": ".TH x\n",
    "README.md": "    make check\n\n| `tally record` | see `doc/tour.md` |\n",
    "CONTRIBUTING.md": "[tour](doc/tour.md)\n",
    "Makefile": "check:\n",
    ".clang-format": "BasedOnStyle: LLVM\nBreakBeforeBraces: Linux\nIndentWidth: 4\n"
                     "AllowShortFunctionsOnASingleLine: None\nAlignEscapedNewlines: DontAlign\n",
}
LONG = "int elf_long(void)\n{\n" + "    ;\n" * 120 + "}\n"

# (what is wrong, check, file, new contents, a word that the complaint must hold)
BAD = [
    ("a forbidden module", "includes", "src/tool/base/base_text.h", '#include "wire_loss.h"\n', "may not include"),
    ("an include that is nowhere", "includes", "src/tool/elf/elf_maps.c", '#include "no.h"\n', "not in src"),
    ("an include with a path", "includes", "src/tool/elf/elf_maps.c", '#include "../base/base_text.h"\n', "bare name"),
    ("a module without a row", "includes", "src/tool/new/new_x.c", "\n", "no module called new"),
    ("no table", "includes", "doc/tour.md", "nothing\n", "no ```include-table"),
    ("#if on the machine", "includes", "src/tool/elf/elf_maps.c", "#ifdef __aarch64__\n#endif\n", "architecture"),
    ("one machine without a file", "includes", "src/safe/arch/x86_64/frame.c", "\n", "aarch64 has no frame.c"),
    ("modules that need each other", "includes", "doc/tour.md",
     "```include-table\nsafe/wire: -\nsafe/arch: wire\nbase: elf\nelf: base\ncli: any module of tool\n```\n", "modules need each other: base elf"),
    ("a header that includes itself by another", "includes", "src/tool/base/base_text.h", '#include "base_more.h"\n',
     "include each other: base_more.h base_text.h"),
    ("files that call each other", "includes", "src/tool/elf/elf_image.c", "int elf_image(void)\n{\n    return elf_maps();\n}\n",
     "elf_image.c -> elf_maps.c, elf_maps.c -> elf_image.c"),
    ("files that call each other by a third", "includes", "src/tool/elf/elf_build.c",
     "const char *elf_build(int (*each)(void),\n                      int last)\n{\n    return each(elf_third);\n}\n",
     "elf_build.c -> elf_third.c, elf_symbol.c -> elf_build.c, elf_third.c -> elf_symbol.c"),
    ("a file called util", "style", "src/tool/elf/elf_util.c", "\n", "elf_util"),
    ("a file with another module's name", "style", "src/tool/elf/maps.c", "\n", "elf_*"),
    ("a file that is too long", "style", "src/tool/elf/elf_long.c", "\n" * 700, "700 lines"),
    ("a function that is too long", "style", "src/tool/elf/elf_long.c", LONG, "function of 122 lines"),
    ("a print", "style", "src/tool/elf/elf_maps.c", "int a = printf(1);\n", "printf"),
    ("an exit", "style", "src/tool/elf/elf_maps.c", "int a = (exit(1), 0);\n", "exit"),
    ("a write to stderr", "style", "src/tool/elf/elf_maps.c", "int a = fprintf(stderr, 0);\n", "stderr"),
    ("a banned function", "style", "src/tool/elf/elf_maps.c", "int a = strcpy(b, c);\n", "strcpy"),
    ("a loss that is not explained", "docs", "doc/losses.md", "### 1 RING_FULL\n\n> dropped\n", "loss 2"),
    ("a loss with another sentence", "docs", "doc/losses.md", "### 1 RING_FULL\n\n> x\n\n### 2 CUT\n\n> cut\n", "loss 1"),
    ("a loss that is not in the code", "docs", "doc/losses.md", GOOD["doc/losses.md"] + "\n### 3 X\n\n> y\n", "loss 3"),
    ("a command that is not in README", "docs", "src/tool/cli/cmd_new.c", "\n", "tally new"),
    ("a command that is not there", "docs", "README.md", "| `tally record`\n| `tally fly`\n", "tally fly"),
    ("a command without a manual page", "docs", "doc/man/tally-record.1", None, "tally-record.1"),
    ("a file that is not there", "docs", "CONTRIBUTING.md", "[x](doc/none.md)\n", "doc/none.md"),
    ("a make target that is not there", "docs", "README.md", "| `tally record`\n`make tea`\n", "make tea"),
    ("code in another format", "format", "src/tool/elf/elf_maps.c", "int  a ;\n", "elf_maps.c:1"),
]


def grow(directory, files):
    for path, text in files.items():
        place = os.path.join(directory, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as out:
            out.write(text)


def check(name, directory):
    command = [sys.executable, os.path.join(ROOT, "tools", "check-" + name), directory]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def good_case(name):
    with tempfile.TemporaryDirectory() as directory:
        grow(directory, GOOD)
        done = check(name, directory)
        if "1..0 # SKIP" in done.stdout:
            return "skip", done.stdout.split("SKIP ")[1].strip()
        return done.returncode == 0 and "not ok" not in done.stdout, done.stdout + done.stderr


def bad_case(name, path, text, word):
    with tempfile.TemporaryDirectory() as directory:
        grow(directory, GOOD)
        if text is None:
            os.unlink(os.path.join(directory, path))
        else:
            grow(directory, {path: text})
        done = check(name, directory)
        if "1..0 # SKIP" in done.stdout:
            return "skip", done.stdout.split("SKIP ")[1].strip()
        return done.returncode == 1 and "not ok" in done.stdout and word in done.stdout, done.stdout + done.stderr


# (what is wrong, source, flags, a word that the complaint must hold). An image with nothing wrong is the first.
IMAGES = [
    ("nothing", "int f(int a) { return a + 1; }", [], None),
    ("an undefined symbol", "int g(int); int f(int a) { return g(a); }", [], "# g"),
    ("another relocation", "extern int far_away; int *p = &far_away;", [], "R_X86_64_64"),
    ("thread-local storage", "static __thread int own; int f(int a) { return own += a; }", ["-ftls-model=initial-exec"], "TLS"),
    ("text that is writable", "int f(int a) { return a + 1; }", ["-Wl,-N,--no-warn-rwx-segments"], "RWE"),
    ("a constructor", "int n; __attribute__((constructor)) static void begin(void) { n = 1; }", [], "INIT_ARRAY"),
    ("a library", "int f(int a) { return a + 1; }", ["-Wl,--no-as-needed", "-lc"], "NEEDED"),
    ("a vector register", "void f(float *a) { *a = *a * 2; }", [], "%xmm0"),
    ("an x87 register", "void f(long double *a) { *a = *a * 2; }", [], "%st"),
]


def image_case(source, flags, word):
    """tools/check-agent-symbols on a small image."""
    with tempfile.TemporaryDirectory() as directory:
        grow(directory, {"image.c": source + "\n"})
        image = os.path.join(directory, "image.so")
        subprocess.run(["cc", "-shared", "-O1", "-fPIC", "-nostdlib", "-o", image, os.path.join(directory, "image.c"), *flags], check=True)
        done = check("agent-symbols", image)
        said = done.stdout + done.stderr
        if word is None:
            return done.returncode == 0 and "not ok" not in done.stdout, said
        complaints = "\n".join(line for line in done.stdout.splitlines() if line.startswith("#"))
        return done.returncode == 1 and "not ok" in done.stdout and word in complaints, said


def unready_case():
    """Where nothing can be built, tools/check-agent-symbols says so at once."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, os.path.join(ROOT, "tools", "check-agent-symbols")]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env={"PATH": empty})
    last = done.stdout.splitlines()[-1:]
    return done.returncode == 0 and last == ["1..0 # SKIP readelf cannot be run: No such file or directory (make setup)"], done.stdout + done.stderr


def counted(stdout, returncode=0, result="OK"):
    entry = {"name": "p", "stdout": stdout, "result": result, "returncode": returncode}
    cases = tap.entry_cases(entry)
    return tuple(sum(case.outcome == outcome for case in cases) for outcome in ("passed", "failed", "skipped"))


COUNTS = [
    ("three cases", "1..3\nok 1 - a\nnot ok 2 - b\n# x\nok 3 # SKIP no perf\n", 1, "FAIL", (1, 1, 1)),
    ("cmocka's skip", "1..1\nneeds root\nnot ok 1 # SKIP a\n", 0, "FAIL", (0, 0, 1)),
    ("a plan that is not kept", "1..3\nok 1 - a\n", 0, "ERROR", (1, 1, 0)),
    ("no plan", "ok 1 - a\n", 0, "OK", (1, 1, 0)),
    ("a crash after the last case", "1..1\nok 1 - a\n", -11, "FAIL", (1, 1, 0)),
    ("a time-out", "1..2\nok 1 - a\n", -9, "TIMEOUT", (1, 1, 0)),
    ("all skipped", "1..0 # SKIP not root\n", 0, "SKIP", (0, 0, 1)),
    ("a plain program", "hello\n", 0, "OK", (1, 0, 0)),
    ("a plain program that fails", "hello\n", 1, "FAIL", (0, 1, 0)),
    ("a plain program that skips", "hello\n", 77, "SKIP", (0, 0, 1)),
    ("an empty plan that is no skip", "1..0\n", 0, "OK", (0, 1, 0)),
]


def reason_case():
    cases = tap.entry_cases({"name": "p", "stdout": "1..1\nneeds root\nnot ok 1 # SKIP a\n", "result": "FAIL",
                             "returncode": 0})
    return cases[0].text == "needs root", cases[0].text


def load_check():
    """tools/check as a module (it has no ending)."""
    loader = importlib.machinery.SourceFileLoader("check", os.path.join(ROOT, "tools", "check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
    loader.exec_module(module)
    return module


def report_case(cases, status, last):
    """The exit status and last line of `make check` for these cases."""
    module, said = load_check(), io.StringIO()
    results = module.Results()
    for case in cases:
        results.add(case)
    with contextlib.redirect_stdout(said):
        got = module.report(results)
    return got == status and said.getvalue().endswith("\n" + last + "\n"), said.getvalue()


ONCE_OF_TWO = """#!/bin/sh
cd "$(dirname "$0")" && echo 1..1
if mkdir $1.once 2>/dev/null || [ $2 = always ]; then echo "not ok 1 - $1"; exit 1; fi
echo "ok 1 - $1"
"""


def second_run_case(tests, status, word, listed=()):
    """The exit status of `make check`, and a word it says, for programs that fail once or always: (name, how). `listed`: what may be
    unsteady."""
    module, said = load_check(), io.StringIO()
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, "once.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(ONCE_OF_TWO)
        os.chmod(script, 0o755)
        with open(os.path.join(directory, "meson.build"), "w", encoding="utf-8") as file:
            file.write("project('p')\nsh = find_program('sh')\n" + "".join(
                f"test('a/{name}', sh, args: [files('once.sh'), '{name}', '{how}'], protocol: 'tap')\n" for name, how in tests))
        build = os.path.join(directory, "build")
        subprocess.run(["meson", "setup", build, directory], check=True, capture_output=True)
        module.run = lambda command, **options: subprocess.run(command, check=False, capture_output=True, **options).returncode
        results = module.Results(listed)
        module.run_tests(results, "plain", build, ["--no-rebuild"])
        results.add(tap.Case("p", "n", "passed"))
        with contextlib.redirect_stdout(said):
            got = module.report(results)
    return got == status and word in said.getvalue(), said.getvalue()


SECOND_RUNS = [
    ("failed once", [("one", "once")], 1, "one: unsteady: passed when it ran again"),
    ("failed once, and is listed", [("one", "once")], 0, "1 unsteady", {("a/one", "one"): "a reason"}),
    ("failed once, and another is listed", [("one", "once")], 1, "1 passed, 1 failed, 0 skipped", {("a/one", "two"): "a reason"}),
    ("failed twice", [("one", "always"), ("two", "once")], 1, "1 passed, 2 failed, 0 skipped"),
    ("failed twice, and is listed", [("one", "always")], 1, "1 passed, 1 failed, 0 skipped", {("a/one", "one"): "a reason"}),
    ("five failed", [(name, "once") for name in ("one", "two", "three", "four", "five")], 1, "1 passed, 5 failed, 0 skipped"),
]


def list_case():
    """Lines of the list of unsteady cases, and one without a reason."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write("# a comment\n\nsystem/a: b: the reason: as given\nsystem/c: d\n")
        file.flush()
        read = load_check().read_unsteady(file.name)
    return read == ({("system/a", "b"): "the reason: as given"}, ["system/c: d"]), str(read)


LONG_SCRIPT = """
import sys
sys.path.insert(0, {directory!r})
import tap

@tap.case
def short(context):
    pass

@tap.long
def minutes(context):
    context.check(False, "it ran")

tap.run()
"""


def long_case(environment, names, plan, status):
    """The plan and status of a script of tests/system with a case of its own for make check-long."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".py") as script:
        script.write(LONG_SCRIPT.format(directory=os.path.join(ROOT, "tests", "system")))
        script.flush()
        surroundings = {name: value for name, value in os.environ.items() if name != "TALLY_LONG"}
        done = subprocess.run([sys.executable, script.name, "tally", "programs", *names], env={**surroundings, **environment},
                              capture_output=True, text=True, check=False)
    return done.stdout.startswith(plan + "\n") and done.returncode == status, done.stdout + done.stderr


LONG = [
    ("is left out", {}, [], "1..1", 0),
    ("runs with TALLY_LONG", {"TALLY_LONG": "1"}, [], "1..2", 1),
    ("runs where it is named", {}, ["minutes"], "1..1", 1),
]
PASSED, FAILED, SKIPPED = (tap.Case("p", "n", outcome, "why") for outcome in ("passed", "failed", "skipped"))
REPORTS = [
    ("all passed", [PASSED, PASSED], 0, "2 passed, 0 failed, 0 skipped"),
    ("one failed", [PASSED, FAILED, SKIPPED], 1, "1 passed, 1 failed, 1 skipped"),
    ("nothing ran", [], 1, "0 passed, 1 failed, 0 skipped"),
    ("only skips", [SKIPPED], 1, "0 passed, 1 failed, 1 skipped"),
]


def main():
    tests = [(f"{name}: a good tree passes", lambda name=name: good_case(name))
             for name in ("includes", "style", "docs", "format")]
    tests += [(f"{name}: {what} is found", lambda name=name, path=path, text=text, word=word:
               bad_case(name, path, text, word)) for what, name, path, text, word in BAD]
    if platform.machine() == "x86_64":
        tests += [(f"agent-symbols: {what} is found" if word else "agent-symbols: a good image passes",
                   lambda source=source, flags=flags, word=word: image_case(source, flags, word))
                  for what, source, flags, word in IMAGES]
    tests.append(("agent-symbols: a machine without its programs is a skip", unready_case))
    tests += [(f"counting: {what}", lambda out=out, code=code, result=result, expected=expected:
               (counted(out, code, result) == expected, str(counted(out, code, result))))
              for what, out, code, result, expected in COUNTS]
    tests += [(f"make check: {what}", lambda cases=cases, status=status, last=last: report_case(cases, status, last))
              for what, cases, status, last in REPORTS]
    tests += [(f"make check, second runs: {what}", lambda expected=expected: second_run_case(*expected)) for what, *expected in SECOND_RUNS]
    tests += [(f"a long case {what}", lambda expected=expected: long_case(*expected)) for what, *expected in LONG]
    tests.append(("make check: a list of unsteady cases, and a line without a reason", list_case))
    tests.append(("counting: the reason of a skip", reason_case))
    print(f"1..{len(tests)}")
    failed = 0
    for number, (name, test) in enumerate(tests, 1):
        outcome, text = test()
        if outcome == "skip":
            print(f"ok {number} - {name} # SKIP {text}")
            continue
        print(f"{'ok' if outcome else 'not ok'} {number} - {name}")
        if not outcome:
            failed += 1
            print("# " + text.strip().replace("\n", "\n# "))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
