"""Programs whose functions are timed: recorded, compared with themselves, visited."""
import subprocess

import tally
import tap

PARTS = ("results", "exceptions", "cancellation", "jumps", "coroutines", "forks", "signals")
ROUNDS = 12


def skip_if_impossible(result):
    for reason in ("time-stamp counter", "rdfsbase", "shadow stacks"):
        if reason in result.errors.decode(errors="replace"):
            raise tap.Skip(result.errors.decode().strip())


def recorded(context, command, options):
    result = tally.record(context, command, options)
    skip_if_impossible(result)
    context.equal(result.status, 0, f"status of recording ({result.text()})")
    profile = tally.Profile(context, result.profile)
    profile.output, profile.errors = result.output.decode(), result.errors.decode()
    return profile


def same(context, name, parts, *options):
    for part in parts:
        command = [context.program(name), part]
        plain = tally.run(context, command)
        context.equal(plain.status, 0, f"status of {part} without Tally ({plain.text()})")
        profile = recorded(context, command, ["--no-time", *options])
        context.equal(profile.output, plain.output.decode(), f"output of {part}")


def visited(context, rounds, *options):
    """Recorded and left, again and again. Of calls' memory some may stay (test_calls_attach); the agent's comes back."""
    name = "tally-agent" if "--calls" in options else "tally"
    target = tally.start(context, [context.program("function_rollcall"), "forever"], stdin=subprocess.PIPE)
    context.equal(target.stdout.readline(), b"ready\n", "the first line")
    done = 0
    for number in range(rounds):
        result = tally.run(context, [context.tally, "record", "--no-time", "--function", "timed_*", *options, "-o", context.path("attached"),
                                     "--duration", "0.05", "-p", str(target.pid)])
        skip_if_impossible(result)
        with open(f"/proc/{target.pid}/maps", encoding="utf-8") as file:
            context.equal([line for line in file if name in line], [], f"memory left in round {number}")
        if b"did not stop within" in result.errors:
            continue  # a busy machine: tally left before it began; counted below
        context.equal(result.status, 0, f"status of round {number} ({result.text()})")
        context.check(b"changed by somebody else" not in result.errors, f"our own hooks are nobody else's ({result.text()})")
        done += 1
    output, _ = target.communicate(timeout=60)
    context.equal((target.returncode, output), (0, b"ended 1\n"), "the program's end")
    tally.check_rounds(context, done, rounds)
