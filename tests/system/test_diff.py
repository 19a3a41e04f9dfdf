"""tally diff on recordings of real runs: nothing is found where nothing changed, and what changed is found."""
import collections
import json
import os
import shutil

import tap
import tally
import workloads

PAIRS = 20 if tap.LONG else 8
ATTEMPTS = 20  # recordings of a pair, until the machine keeps its pace
HARDLY = 1e-5  # a single comparison may be called different once in a hundred; this asks for more


def diff(context, old, new, *options, status=0):
    """The comparison, read from its JSON. `old` and `new` are paths or lists of them."""
    sides = [side if isinstance(side, str) else ",".join(side) for side in (old, new)]
    result = tally.run(context, [context.tally, "diff", *sides, "--json", "--limit", "0%", *options])
    context.equal(result.status, status, f"status of tally diff ({result.text()})")
    found = json.loads(result.output)
    found["errors"] = result.errors.decode()
    return found


def row_of(found, function):
    return next(row for row in found["rows"] if row.get("function") == function)


def slower_profile(context, name, turns, percent, rate="1999"):
    return tally.recorded(context, [context.program("slower"), str(turns), str(percent)], ["-F", rate], name=name)


def slower(context, name, turns, percent, rate="1999"):
    return slower_profile(context, name, turns, percent, rate).path


def changed(found, least=1.0):
    """The significant rows, in words; those at most as probable by chance as `least`."""
    return [f"{row['function']} {row['old']['samples']} -> {row['new']['samples']}, p {row['probability']:.2g}"
            for row in found["rows"] if row["significant"] and row["probability"] < least]


def cpu_time(profile):
    """In seconds, by the program's own clock."""
    return float(profile.output.split("process ")[1])


def parts_of(profile):
    """{function: part of all time}, by the program's own clock."""
    return {name: float(part) for line, name, part in (line.split() for line in profile.output.splitlines() if line.startswith("part "))}


def kept_pace(make, most=1.03):
    """Two recordings, made by make(), between which the machine kept its pace: where it did not, the cost did change."""
    for _ in range(ATTEMPTS):
        pair = make()
        times = [cpu_time(profile) for profile in pair]
        if max(times) < most * min(times):
            return pair
    raise tap.Skip(f"the machine changes its pace: {times[0]:.3f} and {times[1]:.3f} s of CPU for the same work, the last of {ATTEMPTS} pairs")


def really_changed(found, old, new):
    """The functions that did take another part of the time, by the program's own clock, by more than half of what sampling may show: a
    virtual machine whose cores are shared slows each loop down by its own factor, another one in each run."""
    samples = min(sum(row[side]["samples"] for row in found["rows"]) for side in ("old", "new"))
    old_parts, new_parts = parts_of(old), parts_of(new)
    return {name for name, part in old_parts.items() if abs(new_parts[name] - part) > 0.5 * (2 * part * (1 - part) / samples) ** 0.5}


def false_alarms(found, old, new, least=1.0):
    """What is called different and took the same part of the time, in words."""
    other = really_changed(found, old, new)
    kept = [row for row in found["rows"] if row["function"] not in other and (row["function"] in parts_of(old) or not other)]
    return changed({"rows": kept}, least)


def alarms_of(context, numbers, sides, parts):
    """The pairs of recordings of one program that are called different without being so. How many functions kept their part of the
    time, and how many there were, is added to parts["kept"] and parts["all"]."""
    alarms = []
    for number in numbers:
        old, new = (slower_profile(context, f"{side}{number}", 12000, 0) for side in "ab")
        for side, profile in zip(sides, (old, new)):
            side.append(profile.path)
        found = diff(context, old.path, new.path)
        context.check(found["compared"] >= 7, f"only {found['compared']} functions compared")
        parts["all"] += len(parts_of(old))
        parts["kept"] += len(parts_of(old)) - len(really_changed(found, old, new))
        words = false_alarms(found, old, new)
        if words:
            alarms.append((number, words))
    return alarms


@tap.case
def the_same_program_twice(context):
    """Nothing significant in at least 19 of 20 pairs. One in a hundred is expected, so two of 20 may be chance, once in sixty
    times: then 20 more pairs have to be better. Where none of 8 differs, `make check` is content with them."""
    sides, pairs, parts = ([], []), PAIRS, collections.Counter()
    alarms = alarms_of(context, range(pairs), sides, parts)
    for more in (20, 40):
        if len(alarms) > pairs // 20 and pairs < more:
            alarms += alarms_of(context, range(pairs, more), sides, parts)
            pairs = more
    context.note(f"{len(alarms)} of {pairs} pairs with a change: {alarms}; {parts['kept']} of {parts['all']} functions kept their part of the time")
    context.check(len(alarms) <= pairs // 20, f"{len(alarms)} of {pairs} pairs differ: {alarms}")
    found = diff(context, sides[0][:5], sides[1][:5])
    context.equal(changed(found, HARDLY), [], "changes between five runs and five")
    if parts["kept"] < parts["all"] / 2:
        raise tap.Skip(f"the machine changes its pace: only {parts['kept']} of {parts['all']} functions took the same part of the time")


def pair_that_grew(context, least):
    """Recordings without and with 10 % more work in slower_work, which really took at least `least` more of the time."""
    for _ in range(3):
        old, new = (slower_profile(context, f"p{percent}", 280000, percent, "4999") for percent in (0, 10))
        grown = parts_of(new)["slower_work"] - parts_of(old)["slower_work"]
        if grown >= least:
            return old, new, grown
    raise tap.Skip(f"the machine changes its pace: with 10 % more work slower_work took {grown:+.3f} of the time")


@tap.case
def ten_percent_in_one_function(context):
    """Found in its share, by as much as it really took; and nothing else is said to have grown that did not."""
    old, new, grown = pair_that_grew(context, 0.015)
    found = diff(context, old.path, new.path)
    row = row_of(found, "slower_work")
    context.note(f"share {row['share_change']}, really {grown:+.4f}, cost {row['percent']:.1f} %, p {row['probability']:.2g}")
    context.check(row["significant"] and row["share_change"]["low"] > 0, f"not found: {row}")
    context.check(abs(row["share_change"]["value"] - grown) < row["share_change"]["high"] - row["share_change"]["low"],
                  f"grown by {grown}, not by {row['share_change']}")
    other_parts = {name for name, part in parts_of(new).items() if part > parts_of(old)[name]}
    for other in found["rows"]:
        alarm = other["probability"] < HARDLY and other["share_change"]["value"] > 0
        context.check(other is row or not alarm or other["function"] in other_parts, f"{other['function']} is said to have grown: {other}")


@tap.case
def gate(context):
    """Five runs a side, in turn, so that a machine that changes its pace changes it for both."""
    runs = {percent: [] for percent in (0, 60)}
    for number in range(5):
        for percent, paths in runs.items():
            paths.append(slower(context, f"gate{percent}.{number}", 30000, percent))
    found = diff(context, runs[0], runs[60], "--fail-above", "5", status=1)
    context.check("slower_work" in found["errors"], f"the gate does not say which: {found['errors']}")
    context.check(row_of(found, "slower_work")["fails"], "slower_work does not fail")
    others = [row["function"] for row in found["rows"] if row["fails"] and row["probability"] < HARDLY and row["function"] != "slower_work"]
    context.equal(others, [], "what else fails")
    diff(context, runs[0], runs[60], "--fail-above", "400")
    diff(context, runs[0], runs[0], "--fail-above", "0")


@tap.case
def other_rate_other_name(context):
    """The same work at another rate, by a copy of another name: the same shares, and a cost that is no other."""
    copy = context.path("renamed")
    shutil.copy(context.program("slower"), copy)
    old, new = kept_pace(lambda: [slower_profile(context, "slow", 40000, 0, "999"),
                                  tally.recorded(context, [copy, "40000"], ["-F", "3999"], name="fast")], 1.3)  # four times the interrupts, of 13 us and more
    found = diff(context, old.path, new.path)
    context.equal(false_alarms(found, old, new, HARDLY), [], "changes")
    context.check(row_of(found, "slower_work")["new"]["samples"] > 2.5 * row_of(found, "slower_work")["old"]["samples"],
                  "the faster rate did not take more samples")
    context.check(abs(found["whole"]["percent"]) < 50, f"the whole differs by {found['whole']['percent']} %")
    context.check(any("renamed is taken for what slower was" in note for note in found["notes"]), f"notes: {found['notes']}")


def counted(context, name, turns):
    result = tally.record(context, [context.program("slower"), str(turns)], ["--calls"], name)
    if result.status:
        raise tap.Skip("calls cannot be counted here: " + result.errors.decode()[-200:])
    return result.profile


@tap.case
def exact_calls(context):
    """The same number of turns makes the same calls; a tenth more of them a tenth more calls of each function."""
    same = [counted(context, f"same{number}", 300) for number in range(3)]
    found = diff(context, same[0], same[1], "--counter", "calls", "--fail-above", "0")
    context.equal((found["changed"], found["exact"]), (0, True), f"changes between the same calls: {found['rows'][:3]}")
    more = counted(context, "more", 330)
    found = diff(context, same, more, "--edges", "--fail-above", "5", status=1)
    rows = {row["callee"]["function"]: row for row in found["rows"] if row["caller"]["function"] == "slower_turn"}
    context.equal(len(rows), 7, "functions that slower_turn calls")
    for function, row in rows.items():
        context.equal((row["old"]["value"], row["new"]["value"], row["verdict"], row["fails"]), (300, 330, "more", True), function)


@tap.long
def bzip2_1_and_9(context):
    tap.need("bzip2")
    text = workloads.text_file(context, 20)  # of a third of it there are too few samples to tell
    profiles = [tally.recorded(context, ["bzip2", "-k", "-c", level, text], name="bzip2" + level).path for level in ("-1", "-9")]
    found = diff(context, *profiles)
    context.note(f"{found['changed']} of {found['compared']} changed, the whole {found['whole']['percent']:+.0f} %")
    context.check(found["changed"] >= 1, "the block size changes nothing")
    images = {row["image"] for row in found["rows"] if row["significant"]}
    context.check(any(image and ("bzip2" in image or "libbz2" in image) for image in images), f"what changed lies in {images}")
    shares = [sum(row[side]["share"] for row in found["rows"]) for side in ("old", "new")]
    context.check(all(abs(share - 1) < 1e-6 for share in shares), f"shares add up to {shares}")


@tap.case
def different_programs(context):
    """Refused, or compared in what they share with a note."""
    tap.need("bzip2")
    old = slower(context, "old", 20000, 0)
    new = tally.recorded(context, ["bzip2", "-k", "-c", workloads.text_file(context, 1)], name="bzip2").path
    result = tally.run(context, [context.tally, "diff", old, new])
    said = (result.output + result.errors).decode()
    context.check("different programs" in said, f"not said: {result.text()}")
    context.check(result.status in (0, 2), f"status {result.status}")
    context.check(os.path.exists(old), "the profile is gone")


tap.run()
