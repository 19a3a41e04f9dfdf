"""Shares against perf's of the same work, and the spread of repeated runs against the interval that is stated."""
import collections
import os

import intervals
import tap
import tally
import truth
import workloads

RATE = 1999  # more samples, a sharper comparison


def perf_samples(context, command):
    """{(image, symbol): samples} as perf sees the same command, user time only; the second value is all samples."""
    tap.need("perf")
    data = context.path("perf.data")
    record = tally.run(context, ["perf", "record", "-q", "-e", "cpu-clock:u", "-F", str(RATE), "-o", data, "--", *command])
    if not os.path.exists(data):
        raise tap.Skip("perf record does not work here: " + record.errors.decode()[-200:])
    script = tally.run(context, ["perf", "script", "-i", data, "-F", "ip,sym,dso"])
    counts = collections.Counter()
    for line in script.output.decode(errors="replace").splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and words[1].endswith(")"):
            symbol, _, image = words[1][:-1].rpartition(" (")
            counts[(os.path.basename(image), symbol)] += 1
    os.unlink(data)
    if not counts:
        raise tap.Skip("perf script printed no samples")
    return counts, sum(counts.values())


def compare(context, what, ours, perfs):
    """ours and perfs: (hits, samples)."""
    context.note(f"{what}: tally {100 * ours[0] / ours[1]:.2f} % of {ours[1]}, perf {100 * perfs[0] / perfs[1]:.2f} % of {perfs[1]}")
    context.check(not intervals.two_shares_differ(*ours, *perfs),
                  f"{what}: tally {100 * ours[0] / ours[1]:.2f} % of {ours[1]} samples, perf {100 * perfs[0] / perfs[1]:.2f} % of {perfs[1]}")


def user_profile(context, command):
    return tally.recorded(context, command, ["-F", str(RATE), "--time=user"])


def samples_of(profile):
    """{(image, function): self samples}: `samples` of the view where self is the whole value, by value elsewhere."""
    rows = profile.rows("select image, function, self from flat where self > 0")
    whole = sum(row[2] for row in rows)
    samples = profile.total() * RATE / 1e9
    return {(image, function): value / whole * samples for image, function, value in rows}, samples


def compare_functions(context, command, least_share):
    ours, samples = samples_of(user_profile(context, command))
    perfs, perf_total = perf_samples(context, command)
    compared = 0
    for (image, symbol), hits in perfs.most_common(12):
        if (image, symbol) in ours and hits >= least_share * perf_total:
            compare(context, symbol, (ours[(image, symbol)], samples), (hits, perf_total))
            compared += 1
    return compared


def compare_images(context, command):
    ours, samples = samples_of(user_profile(context, command))
    perfs, perf_total = perf_samples(context, command)
    by_image = collections.Counter()
    for (image, _), hits in perfs.items():
        by_image[image] += hits
    for image, hits in by_image.most_common(2):
        own = sum(value for (name, _), value in ours.items() if name == image)
        compare(context, image, (own, samples), (hits, perf_total))


@tap.case
def own_program_against_perf(context):
    command = [context.program("shares"), "--seconds", "1.5"]
    compared = compare_functions(context, command, 0.02)
    context.equal(compared, 4, "functions compared")


@tap.long
def python_against_perf(context):
    compared = compare_functions(context, workloads.python(context, 60), 0.01)
    context.check(compared >= 2, f"only {compared} functions have the same name in both")


@tap.case
def sqlite_against_perf(context):
    compare_images(context, workloads.sqlite(context, 300000))


@tap.long
def bzip2_against_perf(context):
    compare_images(context, workloads.bzip2(context, 10))


@tap.case
def spread_of_five_runs(context):
    """The deviations of five runs from their truths, in units of the half width stated: a chi-square of five degrees for each function."""
    squares, runs = collections.defaultdict(float), 5
    for number in range(runs):
        profile = tally.recorded(context, [context.program("shares"), "--seconds", "1", str(number + 1)])
        seconds, whole = truth.shares(profile.output)
        flat, total = profile.flat(), profile.total()
        for function, spent in seconds.items():
            row = flat[function]
            half = (row["self_high"] - row["self_low"]) / 2
            if max(row["self_high"], 1) > 1:  # the view states percents
                half /= 100
            squares[function] += ((row["self"] / total - spent / whole) / (half / intervals.Z_95)) ** 2
    low, high = intervals.chi_square_bounds(runs)
    for function, value in squares.items():
        context.note(f"{function}: chi-square {value:.2f} of {runs} degrees, bounds {low:.3f} to {high:.1f}")
        context.check(low <= value <= high, f"{function}: the spread over five runs does not fit the stated interval: {value:.2f} is not in {low:.3f} .. {high:.1f}")


tap.run()
