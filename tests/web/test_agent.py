#!/usr/bin/python3
"""What the page shows of figures that only the agent counts: how long calls took, and what was left open.

test_agent.py TALLY DIRECTORY PROGRAMS MAKE_EXPORT [CASE...]"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page import browse, export, looks, need_x86_64, record_once, report, step  # noqa: E402
import tally  # noqa: E402
from tap import Skip, case, need, run  # noqa: E402

PERCENTILES = {"min": "min_ns", "p50": "p50_ns", "p90": "p90_ns", "p99": "p99_ns", "p99.9": "p999_ns", "max": "max_ns", "sum": "sum_ns"}


def duration(ns):
    """As amount() of web/src/format.ts writes it."""
    size, unit = next((it for it in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if ns >= it[0]), (1, "ns"))
    if size == 1:
        return f"{ns} ns"
    value = ns / size
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"


def close(context, got, ns, what):
    """Both are rounded: the last of three digits may differ by one."""
    wanted = duration(ns)
    one, two = (float(re.match(r"[\d.]+", text or "")[0]) if re.match(r"[\d.]+", text or "") else None for text in (got, wanted))
    decimals = len(wanted.split(" ")[0].partition(".")[2])
    context.check(one is not None and got.split(" ")[1] == wanted.split(" ")[1] and abs(one - two) < 1.01 * 10 ** -decimals, f"{what}: {got!r}, {wanted!r}")


def timed(context):
    need("sort")
    need_x86_64()
    return record_once(context, ["sort", "/etc/services"], ["--function", "malloc@libc*", "--function", "free@libc*", "--timeline"])


@case
def latency_is_what_report_says(context):
    profile = timed(context)
    page, wanted = export(context, profile), report(context, "report", "--latency", "--limit", "0%", profile)["rows"]
    if not wanted:
        raise Skip("no calls were timed here")
    first = max(wanted, key=lambda row: row["sum_ns"])
    other = next((row for row in wanted if row is not first), first)
    found = browse(context, step("open"), step("go", file=page, hash="latency"), step("rows", of=".table"), step("text", of="h1"), step("texts", of=".figure dd"),
                   step("texts", of=".histogram rect title"), step("texts", of=".histogram .mark text"),
                   step("click", of=f"td a:text-is('{other['function']}')"), step("hash"), step("text", of="h1"), step("texts", of=".histogram rect title"),
                   step("click", of="[aria-label='Bars show'] >> text=time"), step("click", of="text=logarithmic scale"), step("hash"),
                   step("go", file=page, hash="latency?fn=absent&threads=1"), step("texts", of="main .warning, main .note"),
                   step("go", file=page, hash=f"function?fn={other['function']}"), step("click", of="main >> text=Latency"), step("hash"))
    rows = {(row["function"], row["image"]): row for row in found[2] or []}
    context.equal(len(rows), len(wanted), "functions")
    for row in wanted:
        got = rows.get((row["function"], row["image"] or ""), {})
        context.equal(got.get("calls"), f"{row['calls']:,}", f"calls of {row['function']}")
        for title, key in PERCENTILES.items():
            close(context, got.get(title), row[key], f"{title} of {row['function']}")
    context.check(found[3] and first["function"] in found[3], f"the one with most time comes first: {found[3]!r}")
    context.check(found[4] and found[4][0].startswith(f"{first['calls']:,}"), f"its calls: {found[4]}")
    for at, row in ((5, first), (10, other)):
        sums = [int(re.search(r": ([\d,]+) call", text)[1].replace(",", "")) for text in found[at] or []]
        context.equal(sum(sums), row["calls"], f"calls of the bars of {row['function']}")
    for text, key in zip(found[6] or [], ("p50_ns", "p90_ns", "p99_ns", "p999_ns"), strict=True):
        close(context, text.split(" ", 1)[1], first[key], text)
    context.check(f"fn={other['function']}" in (found[8] or "") and other["function"] in (found[9] or ""), f"another is chosen: {found[8:10]}")
    context.check("of=time" in (found[13] or "") and "y=log" in found[13], f"the choice is in the address: {found[13]}")
    context.check(any("not timed" in text for text in found[15] or []) and any("by thread" in text for text in found[15]), f"{found[15]}")
    context.check((found[18] or "").startswith("#/latency"), f"from a function to its histogram: {found[18]}")


@case
def latency_looks_well(context):
    looks(context, export(context, timed(context)), ("latency", "timeline"))


OPENER = """
import os, socket
kept = [open("/etc/services") for _ in range(7)]
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
pipe = os.pipe()
os._exit(0)
"""


def opened(context):
    need_x86_64()
    return record_once(context, ["/usr/bin/python3", "-S", "-c", OPENER], ["--fds", "--no-time"])


def openers(document, row):
    """As opener() of web/src/views/descriptors.tsx."""
    stack = document["stacks"][row["stack"]]
    outside = [it for it in stack if it.get("function") and not re.match(r"libc[.-]|ld-", it.get("image") or "")]
    found = (outside or stack or [{}])[0]
    return found.get("function") or "not known"


@case
def descriptors_are_what_report_says(context):
    profile = opened(context)
    document = report(context, "report", "--fds", "--limit", "0%", profile)
    every = document["descriptors"]
    mine = [row for row in every if row["origin"] == "opened"]
    if not mine:
        raise Skip("descriptors were not counted here")
    page, by_stack = export(context, profile), {}
    for row in mine:
        by_stack.setdefault(row["stack"], []).append(row)
    most = max(by_stack.values(), key=len)
    found = browse(context, step("open"), step("go", file=page, hash="descriptors"), step("texts", of=".figure dd"),
                   step("rows", of="[aria-label='Descriptors by stack']"), step("rows", of="[aria-label='Descriptors']"),
                   step("type", of="#search", text="services"), step("rows", of="[aria-label='Descriptors']"), step("text", of="[role=status]"),
                   step("go", file=page, hash=f"descriptors?stack={most[0]['stack']}"), step("rows", of="[aria-label='Descriptors']"), step("texts", of=".stack li"),
                   step("click", of="text=all call stacks"), step("hash"), step("go", file=page, hash="descriptors?others=1"),
                   step("rows", of="[aria-label='Descriptors']"), step("keys", keys=["1"]), step("hash"), step("keys", keys=["2"]), step("hash"))
    context.equal((found[2] or [""])[0].split("\n")[0], f"{len(mine):,}", "open at the end")
    context.equal(sorted((int(row["open"]), row["opened by"]) for row in found[3] or []),
                  sorted((len(rows), openers(document, rows[0])) for rows in by_stack.values()), "by stack")

    def shown(rows):
        return sorted((int(row["fd"]), row["kind"], row["target"], row["process"]) for row in rows or [])

    def wanted(rows):
        return sorted((row["number"], row["kind"] or "?", row["name"] or "", f"{row['process']} {row['pid']}") for row in rows)

    context.equal(shown(found[4]), wanted(row for row in every if row["origin"] in ("opened", "unseen")), "each")
    ages = {int(row["fd"]): row["age"] for row in found[4] or []}
    for row in mine:
        close(context, ages.get(row["number"]), row["age_ns"], f"age of {row['number']}")
    services = [row for row in mine if (row["name"] or "").endswith("/etc/services")]
    context.check(len(services) == 7, f"the files: {services}")
    context.equal(shown(found[6]), wanted(services), "a search")
    context.check((found[7] or "").startswith("7 of "), f"how many it found: {found[7]!r}")
    context.equal(shown(found[9]), wanted(most), "of one stack")
    context.equal([text.split(" ")[0] for text in found[10] or []], [(it.get("function") or "not known").split(" ")[0] for it in document["stacks"][most[0]["stack"]]], "its frames")
    context.check("stack=" not in (found[12] or "stack="), f"all stacks again: {found[12]}")
    context.equal(shown(found[14]), wanted(every), "with those that were open before")
    context.check((found[16] or "").startswith("#/overview") and (found[18] or "").startswith("#/flame"), f"keys: {found[16]}, {found[18]}")


@case
def descriptors_look_well(context):
    page = export(context, opened(context))
    looks(context, page, ("descriptors", "descriptors?stack=0"))


run()
