"""What a program of tests/programs says of itself (truth.h), and whether a profile agrees."""
import fnmatch
import re
import subprocess

FRAME = r"(?:[^;]+;)"
ABOVE = {
    "start": r"(?:_start;)" + FRAME + r"{0,4}",
    "thread": FRAME + r"{1,3}",
    "any": FRAME + "*",
}


class Claim:
    """One `contains` with its `stack` patterns and `origin`."""

    def __init__(self, function):
        self.function, self.patterns, self.origin = function, [], "start"

    def expression(self):
        bodies = "|".join(pattern_expression(pattern) for pattern in self.patterns)
        return re.compile("^" + ABOVE[self.origin] + "(?:" + bodies + ")$")


def frame_expression(frame):
    if frame == "**":
        return FRAME + "*"
    count = re.fullmatch(r"(.*)\{(\d+)\}", frame)
    name = count.group(1) if count else frame
    one = "(?:" + "".join("[^;]*" if letter == "*" else re.escape(letter) for letter in name) + ";)"
    if name == "*":
        one = FRAME
    return one + ("{" + count.group(2) + "}" if count else "")


def pattern_expression(pattern):
    return "".join(frame_expression(frame) for frame in pattern.split(";"))


def claims(program, arguments=()):
    """Asks the program; a list of Claim."""
    text = subprocess.run([program, "--truth", *arguments], stdout=subprocess.PIPE, check=True).stdout.decode()
    found = []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "contains":
            found.append(Claim(rest))
        elif word == "stack":
            found[-1].patterns.append(rest)
        elif word == "origin":
            for claim in found:
                if claim.patterns and not getattr(claim, "settled", False):
                    claim.origin, claim.settled = rest, True
    return found


def shares(output):
    """({function: seconds}, seconds of the whole process) from what a run printed."""
    seconds, whole = {}, 0.0
    for line in output.splitlines():
        if line.startswith("share "):
            name, _, number = line[6:].rpartition(" ")
            seconds[name] = float(number)
        elif line.startswith("process "):
            whole = float(line.split()[1])
    return seconds, whole


def check_stacks(context, profile, wanted, least=0.99, floor=50):
    """At least `least` of the value of the stacks that contain each claim's function match it; `floor` samples or more at all."""
    stacks = profile.stacks()
    for claim in wanted:
        expression = claim.expression()
        inside = [(frames, value) for frames, value in stacks if any(fnmatch.fnmatchcase(frame, claim.function) for frame in frames)]
        whole = sum(value for _, value in inside)
        right = sum(value for frames, value in inside if expression.match(";".join(frames) + ";"))
        if not context.check(whole >= floor * 1e6, f"{claim.function}: only {whole / 1e6:.0f} ms of samples; stacks are e.g. "
                             + "; ".join(";".join(frames[-8:]) for frames, _ in stacks[:3])):
            continue
        wrong = sorted((pair for pair in inside if not expression.match(";".join(pair[0]) + ";")), key=lambda pair: -pair[1])
        examples = "\n".join(f"  {value / 1e6:.0f} ms {fold(frames)}" for frames, value in wrong[:4])
        context.check(right >= least * whole,
                      f"{claim.function}: {100 * right / whole:.2f} % of the stacks are as they must be; wrong ones:\n{examples}\n"
                      f"  wanted ({claim.origin}) {claim.patterns[0]}")


def fold(frames):
    """A stack as text, with repeated frames counted."""
    parts = []
    for frame in frames:
        if parts and parts[-1][0] == frame:
            parts[-1][1] += 1
        else:
            parts.append([frame, 1])
    return ";".join(name if count == 1 else f"{name}{{{count}}}" for name, count in parts)
