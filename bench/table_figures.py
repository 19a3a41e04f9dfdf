"""Tables made of what a bench program prints: one figure a line, `name value unit`."""
import os
import subprocess

import measure


def read(bench, program, arguments=(), rounds=3):
    """{name: (value, unit)} of a program's figures; each round runs it once, the medians count."""
    path = os.path.join(bench.build, "bench", program)
    if not os.path.exists(path):
        raise RuntimeError(f"{program} is not built (a library it needs is missing)")
    values, units = {}, {}
    for _ in range(1 if bench.quick else min(bench.repeat, rounds)):
        done = subprocess.run([path, *arguments], check=False, capture_output=True, text=True, cwd=bench.work)
        if done.returncode:
            raise RuntimeError(f"{program}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
        for line in done.stdout.splitlines():
            words = line.split()
            if len(words) >= 2 and not line.startswith("#"):
                values.setdefault(words[0], []).append(float(words[1]))
                units[words[0]] = " ".join(words[2:])
    return {name: (measure.median(numbers), units[name]) for name, numbers in values.items()}


def lines(figures):
    rows = [[name.replace("_", " "), f"{value:,.3f}".rstrip("0").rstrip("."), unit]
            for name, (value, unit) in figures.items()]
    return measure.table(["figure", "value", "unit"], rows)
