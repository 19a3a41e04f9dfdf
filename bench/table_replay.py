"""Captured samples fed to the collector's own code at full speed: memory and file after hours that nobody waits for."""
import measure
import table_figures

NAME = "replay"
TITLE = "An hour in a minute"

# figure -> (what is asked, the most it may be)
LIMITS = {
    "hour_memory": ("an hour at 999 Hz on 16 busy threads: under 200 MB of memory", 200),
    "hour_file": ("and under 50 MB of file", 50),
    "nodes_memory": ("a million distinct nodes: under 400 MB of memory", 400),
}


def c_file(bench):
    """Something for a compiler to chew on for some seconds."""
    path = bench.work + "/replay.c"
    with open(path, "w", encoding="ascii") as out:
        for i in range(1500):
            out.write(f"int f{i}(int *p, int n) {{ int s = {i}; for (int i = 0; i < n; i++) {{ if (p[i] % {i % 7 + 2}) "
                      f"s += p[i] * {i}; else s ^= p[n - i - 1]; switch (s & 3) {{ case 0: s++; case 1: p[i] = s; }} }} return s; }}\n")
    return path


def measure_table(bench):
    busy = bench.work + "/replay-input"
    with open(busy, "wb") as out:
        out.write(b"".join(b"%d the quick brown fox %d jumps\n" % (i * i % 9973, i) for i in range(300000)))
    lua = "for i = 1, 40 do local t = {} for k = 1, 20000 do t[k] = (k * 7919) % 10007 end table.sort(t) end"
    figures = table_figures.read(bench, "bench_replay", ["hour", bench.work + "/replay.tally",
                                 f"bzip2 -c {busy} >/dev/null; lua5.4 -e '{lua}'"], rounds=1)
    figures |= table_figures.read(bench, "bench_replay", ["nodes", bench.work + "/replay.tally",
                                  "python3 -c 'import json, ast, inspect; "
                                  "[ast.parse(inspect.getsource(json.decoder)) for i in range(60)]'; "
                                  f"gcc -O2 -S -o /dev/null {c_file(bench)}"], rounds=1)
    goals = [measure.goal(text, f"{figures[name][0]:.0f} MB", figures[name][0] < most) if name in figures
             else measure.goal(text, "not measured", False) for name, (text, most) in LIMITS.items()]
    return {"lines": table_figures.lines(figures), "goals": goals}
