"""What Tally itself takes in the target is in no figure of the program: shares with collectors are those without, and what is left out is said."""
import json
import math
import os

import intervals
import tally
import tap
import workloads

ROUNDS = 3
LEAST = 0.03  # a function's share of the time, to be compared
COLLECTORS = (("--calls",), ("--heap",), ("--calls", "--heap", "--fds"))


def perl(context):
    script = workloads.write(context, "work.pl", """
        my %seen; my $sum = 0;
        sub word { my ($n) = @_; return join('', map { chr(97 + ($n * $_ * 7919) % 26) } 1 .. 8); }
        for my $round (1 .. 40) {
            for my $i (1 .. 4000) { my $w = word($i + $round); $seen{$w}++; $sum += length($w) if $w =~ /[aeiou]{2}/; }
            my @sorted = sort { $a cmp $b } keys %seen;
            $sum += @sorted;
        }
        print "$sum\\n";""")
    return ["perl", script]


def awk(context):
    return ["awk", "{ for (i = 1; i <= NF; i++) { count[$i]++; n += length($i) } } END { for (w in count) m += count[w] % 7; print n, m }",
            workloads.text_file(context, 12, "awk.txt")]


def sort(context):
    with open(workloads.text_file(context, 8, "words.txt"), encoding="utf-8") as text:
        lines = "\n".join(text.read().split(" "))
    return ["sort", "--parallel=1", "-o", "/dev/null", workloads.write(context, "lines.txt", lines)]


def gzip(context):
    return ["sh", "-c", f"exec gzip -9 -c {workloads.text_file(context, 20, 'gzip.txt')} > /dev/null"]


PROGRAMS = {"lua": lambda context: workloads.lua(context, 8), "sqlite": lambda context: workloads.sqlite(context, 350000),
            "compiler": lambda context: workloads.compiler(context, 500), "bzip2": lambda context: workloads.bzip2(context, 14),
            "xz": lambda context: workloads.xz(context, 5), "python": lambda context: workloads.python(context, 50), "perl": perl,
            "awk": awk, "sort": sort, "gzip": gzip}


def self_shares(context, profile):
    """{(function, image): (samples of its own, all)}, as a report has them, and its cost."""
    report = json.loads(profile.report("--json", "--limit", "0%"))
    samples = report["selected"]["samples"]
    return {(row["function"], row["image"]): (row["self"]["samples"], samples) for row in report["rows"]}, report


def pooled(runs, function):
    """(samples of its own, all) of several runs."""
    return sum(run.get(function, (0, 0))[0] for run in runs), sum(max(all_ for _, all_ in run.values()) for run in runs)


def spread(groups, functions):
    """How many times more than chance alone the shares of runs of one kind vary: a machine that shares its cores changes them."""
    squares, degrees = 0.0, 0
    for runs in groups:
        for function in functions:
            hits, samples = pooled(runs, function)
            share = min(max(hits / samples, 1 / samples), 1 - 1 / samples)
            for run in runs:
                own, all_ = pooled([run], function)
                squares += (own / all_ - share) ** 2 / (share * (1 - share) / all_)
            degrees += len(runs) - 1
    return max(1.0, squares / degrees)


def same_shares(context, what, plain, counted):
    functions = [function for function in plain[0] if pooled(plain, function)[0] >= LEAST * pooled(plain, function)[1]]
    context.check(functions, f"{what}: no function has {100 * LEAST:.0f} % of the time")
    wider = math.sqrt(spread([plain, counted], functions)) if functions else 1
    for function in functions:
        hits, samples, with_hits, with_samples = *pooled(plain, function), *pooled(counted, function)
        words = f"{what}: {function[0]} {100 * hits / samples:.1f} % of {samples}, {100 * with_hits / with_samples:.1f} % of {with_samples}"
        context.note(f"{words}, runs spread {wider:.1f} times as wide as samples")
        context.check(not intervals.two_shares_differ(hits, samples, with_hits, with_samples, 4.3 * wider), f"{words}: it is another share")


def time_per_call_is_of_the_program(context, what, report):
    """What a call takes, times the calls that enter, is the function's share of what the program alone took."""
    whole, seen = report["selected"]["value"], 0
    for row in report["rows"]:
        if "ns_per_call" not in row:
            continue
        entering = row["calls"] - row["recursive_calls"]
        context.check(not entering or abs(row["ns_per_call"]["value"] * entering - row["total"]["share"] * whole) <= 0.001 * whole + 1,
                      f"{what}: {row['function']} takes {row['ns_per_call']['value']} ns in each of {entering} calls, {row['total']}")
        context.check(row["total"]["value"] <= whole, f"{what}: {row['function']} has {row['total']} of {whole}")
        seen += 1
    context.check(seen, f"{what}: no function has a time per call")


def own_is_left_out(context, what, profile, report):
    cost = report["cost"]
    kept = json.loads(profile.report("--json", "--limit", "0%", "--with-overhead"))
    context.equal(cost["own_samples"] + report["selected"]["samples"], cost["samples"], f"{what}: samples left out and shown")
    context.equal(kept["selected"]["samples"], cost["samples"], f"{what}: samples with those of tally")
    context.equal((cost["left_out"], kept["cost"]["left_out"]), (True, False), f"{what}: left out")
    context.check(cost["own_samples"] > 0, f"{what}: no sample is Tally's own")
    context.equal(cost["stub_samples"] > 0, "--calls" in what, f"{what}: samples in stubs")
    context.equal([row for row in report["rows"] if (row["image"] or "").startswith("[tally-") and row["total"]["value"]], [],
                  f"{what}: rows of tally")
    own = sum(row["self"]["samples"] for row in kept["rows"] if (row["image"] or "").startswith("[tally-"))
    context.check(own <= cost["own_samples"], f"{what}: {own} samples of tally's functions, {cost['own_samples']} in all")
    text = profile.report()
    said = f"Tally itself: {100 * cost['own_samples'] / cost['samples']:.1f} % of all samples, left out"
    context.equal(said in text, cost["own_samples"] > 0, f"{what}: the head says {said!r}: {text[:400]!r}")
    context.note(f"{what}: tally took {cost['own_samples']} of {cost['samples']} samples, {cost['cpu_percent']:.1f} % more CPU time")
    return cost


def compare(context, program):
    """Runs of each kind in turn, so that what the machine does meets all of them."""
    if os.uname().machine != "x86_64":
        raise tap.Skip("calls and memory are counted on x86-64 only")
    command = PROGRAMS[program](context)
    kinds = COLLECTORS if tap.LONG else COLLECTORS[:2]
    plain, counted = [], {options: [] for options in kinds}
    for number in range(ROUNDS):
        plain.append(self_shares(context, tally.recorded(context, command, name=f"plain{number}"))[0])
        for options in kinds:
            what = f"{program} {' '.join(options)}"
            profile = tally.recorded(context, command, options, name="counted" + "".join(options) + str(number))
            shares, report = self_shares(context, profile)
            counted[options].append(shares)
            own_is_left_out(context, what, profile, report)
            if "--calls" in options:
                time_per_call_is_of_the_program(context, what, report)
    for options in kinds:
        same_shares(context, f"{program} {' '.join(options)}", plain, counted[options])


tap.ONLY_LONG.update(set(PROGRAMS) - {"lua", "perl"})
tap.cases(PROGRAMS, lambda program: lambda context: compare(context, program))
tap.run()
