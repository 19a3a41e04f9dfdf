"""Captured samples fed to the collector's own code at full speed: memory and file after hours that nobody waits for."""
import measure
import table_figures

NAME = "replay"
TITLE = "An hour in a minute"

# figure -> (what is asked, the most it may be)
LIMITS = {
    "hour_memory": ("an hour at 999 Hz on 16 busy threads: under 200 MB of memory", 200),
    "hour_file": ("and under 50 MB of file", 50),
    "million_memory": ("a million distinct nodes: under 400 MB of memory", 400),
}


def measure_table(bench):
    figures = table_figures.read(bench, "bench_replay")
    goals = [measure.goal(text, f"{figures[name][0]:.0f} MB", figures[name][0] < most) if name in figures
             else measure.goal(text, "not measured", False) for name, (text, most) in LIMITS.items()]
    return {"lines": table_figures.lines(figures), "goals": goals}
