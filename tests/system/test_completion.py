"""Completions in the shells themselves: everything that --help names, values, files, commands."""
import os
import re
import shlex
import shutil

import tally
import tap
from screen import Screen

BASH = """
eval "$(tally completion bash)"
complete_line() {  # words as bash cuts them, the last one being completed
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _tally
    printf '%s\\n' "${COMPREPLY[@]}"
}
"""


def environment(context):
    os.makedirs(context.path("bin"), exist_ok=True)
    link = context.path("bin/tally")
    if not os.path.exists(link):
        os.symlink(context.tally, link)
    return dict(os.environ, PATH=context.path("bin") + ":" + os.environ["PATH"], HOME=context.directory, LC_ALL="C.UTF-8")


def bash(context, *words):
    script = BASH + "complete_line " + " ".join(shlex.quote(word) for word in words)
    result = tally.run(context, ["bash", "--norc", "--noprofile", "-c", script], env=environment(context))
    context.check(result.status == 0 and not result.errors, f"bash: {result.text()}")
    return sorted(set(result.output.decode().split()))


def fish(context, line):
    script = "tally completion fish | source; complete -C " + shlex.quote(line)
    result = tally.run(context, ["fish", "--no-config", "-c", script], env=environment(context))
    context.check(result.status == 0 and not result.errors, f"fish: {result.text()}")
    return sorted({each.split("\t")[0] for each in result.output.decode().splitlines()})


def commands(context):
    text = tally.run(context, [context.tally, "--help"]).output.decode()
    return re.findall(r"^  ([a-z]+) {2,}", text[:text.index("\nOptions")], re.MULTILINE)


def options(context, command):
    """Long options of --help, without their values."""
    text = tally.run(context, [context.tally, command, "--help"]).output.decode()
    return sorted(set(re.findall(r"^ {2,6}(?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)))


@tap.case
def everything_in_bash(context):
    tap.need("bash")
    context.equal(bash(context, "tally", ""), sorted(commands(context) + ["--help", "--version"]), "commands")
    for command in commands(context):
        if command != "help":
            context.equal(bash(context, "tally", command, "--"), options(context, command), f"options of {command}")


@tap.case
def everything_in_fish(context):
    tap.need("fish")
    context.equal(fish(context, "tally "), sorted(commands(context)), "commands")
    for command in commands(context):
        if command != "help":
            offered = sorted({name.rstrip("=") for name in fish(context, f"tally {command} --")})
            context.equal(offered, options(context, command), f"options of {command}")


@tap.case
def values_in_bash(context):
    tap.need("bash")
    open(context.path("some.tally"), "w", encoding="ascii").close()
    for words, wanted in ((("report", "--by", "f"), ["function"]), (("report", "--by", "=", "t"), ["thread"]),
                          (("report", "--color", "="), ["always", "auto", "never"]), (("report", "--no"), ["--no-pager"]),
                          (("report", "some"), ["some.tally"]), (("record", "-o", "some"), ["some.tally"]),
                          (("report", "--counter", "s"), []), (("completion", ""), ["bash", "fish", "zsh"]),
                          (("help", "cand"), ["candidates"]), (("record", "--time", "=", "c"), ["cpu"]),
                          (("record", "--", "some"), ["some.tally"]), (("rec",), ["record"]), (("list", "some"), [])):
        context.equal(bash(context, "tally", *words), wanted, " ".join(words))
    context.check("ls" in bash(context, "tally", "record", "--", "l"), "record -- completes no commands")
    context.check("--output" not in bash(context, "tally", "record", "--", "ls", "--o"), "options of the command are taken for tally's")


@tap.case
def values_in_fish(context):
    tap.need("fish")
    open(context.path("some.tally"), "w", encoding="ascii").close()
    for line, wanted in (("report --by f", ["function"]), ("report --by=t", ["--by=thread"]), ("report --no", ["--no-pager"]),
                         ("report some", ["some.tally"]), ("completion ", ["bash", "fish", "zsh"]), ("list some", []),
                         ("record -o some", ["some.tally"]), ("help cand", ["candidates"])):
        context.equal(fish(context, "tally " + line), wanted, line)


@tap.case
def in_zsh(context):
    """Typed at on a terminal: zsh's completion answers to nothing else."""
    tap.need("zsh")
    open(context.path("some.tally"), "w", encoding="ascii").close()
    setup = ["autoload -U compinit; compinit -u -D", 'eval "$(tally completion zsh)"', "PS1='ready> '; setopt no_beep", "clear"]
    screen = Screen(["zsh", "-f", "-i"], context.directory, term="screen", environment=environment(context), columns=120, lines=50)
    for line in setup:
        screen.type(line + "\n")
    context.check(screen.shows("ready>"), f"no shell: {screen.lines()}")
    for typed, wanted in (("tally reco", "tally record"), ("tally report --by fun", "tally report --by function"),
                          ("tally report --by=thr", "tally report --by=thread"), ("tally candidates --inv", "tally candidates --invoke-cost="),
                          ("tally report some", "tally report some.tally"), ("tally completion fi", "tally completion fish"),
                          ("tally diff some", "tally diff some.tally"), ("tally record --stacks add", "tally record --stacks address"),
                          ("tally record --out", "tally record --output=")):
        screen.type(typed + "\t")
        context.check(screen.shows("ready> " + wanted), f"{typed}: no {wanted} on {[line for line in screen.lines() if line]}")
        screen.type("\x15\x0c")
        screen.shows(lambda lines: lines[0] == "ready>")
    for command in commands(context):
        if command == "help":
            continue
        screen.type(f"tally {command} --\t\t")
        for name in options(context, command):
            context.check(screen.shows(name), f"{command}: no {name} on {[line for line in screen.lines() if line]}")
        screen.type("\x03\x15\x0c")
        screen.shows(lambda lines: lines[0] == "ready>")
    screen.type("exit\n")
    context.check(screen.wait() is not None, "zsh does not end")
    screen.close()


@tap.case
def scripts_are_sound(context):
    """Each shell reads its script without a word, and nothing else is understood."""
    for shell in ("bash", "zsh", "fish"):
        result = tally.run(context, [context.tally, "completion", shell])
        context.equal((result.status, result.errors), (0, b""), f"{shell}: status and errors")
        if shutil.which(shell):
            path = context.path("script." + shell)
            with open(path, "wb") as file:
                file.write(result.output)
            read = tally.run(context, [shell, "-n", path])
            context.equal((read.status, read.output, read.errors), (0, b"", b""), f"{shell} -n")
    result = tally.run(context, [context.tally, "completion", "csh"])
    context.equal((result.status, result.output), (2, b""), "for csh")


tap.run()
