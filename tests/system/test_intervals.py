"""Whether the stated 95 % interval is one: 200 runs of a program with known shares, and 200 of one that alternates 30/70 at exactly
the sampling period; it must hold the truth in at least 93 %.

All functions of a program are counted together, and none may be below FLOOR. A perfect 95 % interval holds the truth in fewer than 93 %
of 200 runs with a probability of 7 % for one function, 1 % for four together. So that chance does not fail the test, runs are added, up to
MOST, while the share is below 93 %; a false interval (a fixed sampling period holds 0 to 60 %) never gets there.

`make check` has 40 runs of each, which tell a false interval from a true one and no more: at least 80 % of all, 70 % of one function. A
perfect interval of one function fails that once in 7,700 times; one that holds the truth in 60 % passes it once in 165.
"""
import concurrent.futures
import os

import tap
import tally
import truth

FIRST, STEP, MOST = (200, 200, 1600) if tap.LONG else (40, 40, 40)
LEAST, FLOOR = (0.93, 0.88) if tap.LONG else (0.8, 0.7)
AT_ONCE = max(1, min(2, (os.cpu_count() or 1)))


def bounds(row, whole, kind):
    """The stated interval as shares of 0 to 1, whatever the view's unit."""
    low, high = row[kind + "_low"], row[kind + "_high"]
    scale = 1.0
    if high > 1 + 1e-9:
        scale = whole if high > 100.5 else 100.0
    return low / scale, high / scale


def one_run(context, program, number, seconds, kind):
    """For each function whether its interval held the truth."""
    name = f"profile{number}"
    profile = tally.recorded(context, [context.program(program), "--seconds", seconds] + ([str(number)] if program == "shares" else []), name=name)
    spent, whole = truth.shares(profile.output)
    flat, total = profile.flat(), profile.total()
    held = {}
    for function, used in spent.items():
        low, high = bounds(flat[function], total, kind) if function in flat else (0.0, 0.0)
        held[function] = low <= used / whole <= high
    for suffix in ("", ".old"):
        if os.path.exists(profile.path + suffix):
            os.unlink(profile.path + suffix)
    return held


def coverage(context, program, seconds, kind):
    held, runs = {}, 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        while runs < FIRST or (together(held, runs) < LEAST and runs < MOST):
            count = FIRST if runs == 0 else STEP
            futures = [pool.submit(one_run, context, program, runs + i, seconds, kind) for i in range(count)]
            for future in futures:
                for function, ok in future.result().items():
                    held[function] = held.get(function, 0) + ok
            runs += count
            if runs == FIRST and together(held, runs) < 0.75:
                break  # no bad luck does this
    for function, count in sorted(held.items()):
        context.note(f"{function}: the interval held the truth in {100 * count / runs:.1f} % of {runs} runs")
        context.check(count >= FLOOR * runs, f"{function}: the interval held the truth in {count} of {runs} runs")
    context.check(together(held, runs) >= LEAST, f"the intervals held the truth in {100 * together(held, runs):.1f} % of all cases")


def together(held, runs):
    return sum(held.values()) / (runs * len(held)) if held else 0


@tap.case
def known_shares(context):
    coverage(context, "shares", "0.25", "self")


@tap.case
def alternating_at_the_sampling_period(context):
    coverage(context, "alternate", "0.25", "total")


tap.run()
