#!/usr/bin/python3
"""What the page says beside what every function has: candidates, memory, comparisons, a large profile; and tally view, which serves it.

test_view.py TALLY DIRECTORY PROGRAMS MAKE_EXPORT [CASE...]"""
import contextlib
import os
import re
import signal
import socket
import sqlite3
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from page import MAKE_EXPORT, NO_PAGE, browse, export, made, near, need_x86_64, recorded, report, shot, step  # noqa: E402
import tally  # noqa: E402
from tap import Skip, case, need, run  # noqa: E402


@case
def peaks_are_not_added_up(context):
    """Of a counter whose figures combine as the largest: what a search finds, and what goes along a way to a function."""
    profile = made(context, "plain", own=True)
    with contextlib.closing(sqlite3.connect(profile)) as base, base:
        base.execute("UPDATE data_counters SET combine = 2, exact = 1 WHERE name = (SELECT id FROM data_strings WHERE text = 'time.cpu')")
    page = export(context, profile)
    rows = {row["function"]: row["total"]["value"] for row in report(context, "report", "--limit", "0%", profile)["rows"]}
    found = browse(context, step("open"), step("go", file=page, hash="flame?q=compare"), step("text", of="[role=status]"),
                   step("go", file=page, hash="function?fn=compare"), step("rows", of="[aria-label=Callers]"),
                   step("go", file=page, hash="threads"), step("texts", of="th"))
    context.equal((rows["compare"], rows["main"]), (300000000, 300000000), "the report's")
    context.equal(found[2], "matched: 100.0 % · 300 ms", "the search")
    context.equal({row["function"]: row["share"] for row in found[4] or []},
                  {"quick_sort": "100.0 %", "is_even": "13.3 %", "is_odd": "1.7 %"}, "the ways")
    context.check(found[6] and not any("samples" in title for title in found[6]), f"exact figures have no samples: {found[6]}")


@case
def candidates_agree_with_tally_candidates(context):
    profile = recorded(context)
    page = export(context, profile)
    wanted = report(context, "candidates", "--limit", "0%", "--speedup", "10", "--invoke-cost", "2us", profile)["rows"]
    found = browse(context, step("open"), step("go", file=page, hash="candidates"), step("slide", of="input[type=range] >> nth=0", value=8),
                   step("slide", of="input[type=range] >> nth=1", value=8), step("rows", of=".table"), step("texts", of=".sliders b"))
    context.equal(found[5], ["10.0×", "2.00 µs"], "the sliders")
    got = {row["function"]: row for row in found[4] or []}
    compared = 0
    for row in wanted:
        if row.get("calls") is None or not row["bound"] or row["bound"]["value"] is None:
            continue
        near(context, got[row["function"]]["max. speedup"].split(" ")[0], f"{row['bound']['value']:.2f}×", f"bound of {row['function']}")
        compared += 1
    context.check(compared >= 3, f"only {compared} functions were compared")


@case
def candidates_are_the_program_s(context):
    """Neither the kernel's functions, of which the first profile has one, nor Tally's own, which a library becomes in the second."""
    for agent in (False, True):
        profile = made(context, "plain", own=True)
        if agent:
            with contextlib.closing(sqlite3.connect(profile)) as base, base:
                base.execute("UPDATE data_strings SET text = '[tally-agent]' WHERE text = 'libsort.so.1'")
        page = export(context, profile)
        found = browse(context, step("open"), step("go", file=page, hash="candidates"), step("rows", of=".table"),
                       step("texts", of=".roots a"))
        document = report(context, "candidates", "--limit", "0%", profile)
        wanted = {(row["function"], row["image"]) for part in ("rows", "calls_unknown") for row in document[part]}
        context.check(document["roots"], f"no roots, {agent}")
        for row in document["roots"]:
            context.check(row["function"] in (found[3] or []), f"{row['function']} is no root on the page: {found[3]}")
        context.equal({(row["function"], row["image"]) for row in found[2] or []}, wanted, f"candidates, {agent}")
        context.equal(("quick_sort", "libsort.so.1") in wanted, not agent, f"the library's, {agent}")


@case
def memory_is_what_report_says(context):
    need("sort")
    need_x86_64()
    profile = tally.recorded(context, ["sh", "-c", "sort /etc/services; exec sort /etc/passwd"], ["--heap"]).path
    page = export(context, profile)
    if b"heap.live" not in tally.run(context, [context.tally, "report", "--json", profile]).output:
        raise Skip("the heap was not counted here")
    found = browse(context, step("open"), step("go", file=page, hash="heap"), step("rows", of=".table"), step("axe"),
                   shot("heap"), step("click", of="[aria-label='Self or total'] >> text=total"), step("rows", of=".table"),
                   step("texts", of=".figure"), step("texts", of="header select"))
    context.equal(found[8], [], "no counter to choose: the view's are its own")
    head = tally.run(context, [context.tally, "report", "--header", profile]).output.decode()
    peak = re.search(r"peak (\S+ \S+) at \S+ \S+ in sort", head)
    cards = [" ".join(text.split()) for text in found[7] or []]
    context.check(peak and any(re.match(rf"at peak {re.escape(peak[1])} the highest of \d processes; their sum is ", card) for card in cards),
                  f"the peak: {cards}, {head}")
    for at, kind in ((2, "self"), (6, "total")):
        got = {(row["function"], row["image"]): row for row in found[at] or []}
        compared = 0
        for counter, title in (("heap.count", "allocations"), ("heap.live.count", "live blocks"), ("heap.temporary", "temporary")):
            for row in report(context, "report", "--limit", "0%", "--counter", counter, profile)["rows"]:
                if row[kind]["value"]:
                    shown = got.get((row["function"], row["image"] or ""), {}).get(title)
                    context.equal(shown, f"{row[kind]['value']:,}", f"{title} of {row['function']}, {kind}")
                    compared += 1
        context.check(compared >= 3, f"only {compared} were compared")
    context.equal(found[3], [], "axe")


def compare_changes(context, shown, wanted):
    """The changes of functions on the page with those of tally diff."""
    rows = {(row["function"], row["image"]): row for row in wanted["rows"]}
    compared = 0
    for row in shown or []:
        it = rows.get((row["function"], row["image"]))
        if it and row["change"]:
            change = it["share_change"]["value"] * 100
            got = float(row["change"].split(" ")[0].replace("−", "-").replace("±", ""))
            context.check(abs(got - change) < 0.0501, f"change of {row['function']}: {row['change']}, {change}")
            compared += 1
    return compared


@case
def a_comparison_says_what_diff_says(context):
    old, new = made(context, "left"), made(context, "right")
    page = export(context, new, "--against", old)
    found = browse(context, step("open"), step("go", file=page, hash="functions"), step("rows", of=".table"),
                   step("go", file=page, hash="flame"), step("click", of="text=by difference"), step("hash"), step("painted", of="canvas"),
                   shot("difference"), step("axe"))
    compared = compare_changes(context, found[2], report(context, "diff", "--limit", "0%", old, new))
    context.check(compared >= 2, f"only {compared} were compared: {found[2]}")
    context.check("colour=difference" in (found[5] or ""), f"the choice is in the address: {found[5]}")
    context.check(found[6] and found[6] > 0.2, f"painted {found[6]}")
    context.equal(found[8], [], "axe")


@case
def a_part_is_compared_with_that_part(context):
    """Filters hold for both profiles. What tally diff did not compare has no change: other counters, some of the threads."""
    old, new = made(context, "left"), made(context, "right")
    part, whole = export(context, new, "--against", old, "--image", "libsort*"), export(context, new, "--against", old, name="whole.html")
    steps = [step("go", file=part, hash="functions"), step("rows", of=".table"), step("go", file=part, hash="flame?colour=difference"),
             step("keys", of="canvas", keys=["ArrowDown"] * 4), step("text", of=".detail")]
    for hash_ in ("", "?counter=cycles", "?threads=1", "?inlines=1"):
        steps += [step("go", file=whole, hash="functions" + hash_), step("texts", of="th"), step("go", file=whole, hash="flame" + hash_),
                  step("texts", of=".bar-of-tools button")]
    found = browse(context, step("open"), *steps)
    context.check(compare_changes(context, found[2], report(context, "diff", "--limit", "0%", "--image", "libsort*", old, new)) >= 1, f"{found[2]}")
    context.check((found[5] or "").startswith("serve(") and "against 100.0 %" in found[5], f"the part of the old profile: {found[5]}")
    for i, (change, colours) in enumerate(((True, True), (False, False), (False, False), (False, True))):
        context.equal(any("change" in title for title in found[7 + 4 * i] or []), change, f"{i}: the column")
        context.equal("by difference" in (found[9 + 4 * i] or []), colours, f"{i}: the colours")


@case
def a_hundred_thousand_nodes(context):
    done = tally.run(context, [MAKE_EXPORT, context.directory, "100000"])
    context.equal(done.status, 0, "make_export")
    page = export(context, context.path("large.tally"))
    size = os.path.getsize(page)
    context.check(size < 5_000_000, f"the page has {size} bytes")
    found = browse(context, step("open"), step("speed", file=page, words="step_53"), step("painted", of="canvas"),
                   shot("large"))
    context.note(f"{size:,} bytes; ms: {({key: round(value) for key, value in (found[1] or {}).items()})}")
    context.check(found[2] and found[2] > 0.05, f"painted {found[2]}")


# --- tally view ---


def view(context, *options, **environment):
    """The command running, and the address that it printed."""
    process = tally.start(context, [context.tally, "view", *options], env={**os.environ, **environment})
    address = process.stdout.readline().decode().strip()
    if not address:
        errors = process.stderr.read()
        if NO_PAGE in errors:
            raise Skip("this tally was built without npm")
        raise AssertionError(f"no address: {errors}")
    return process, address


def ask(address, head=None, path=None):
    """Status and body of what is answered to a request; to nothing but a `head` if that is given."""
    host, port = re.match(r"http://(127\.0\.0\.1):(\d+)/", address).groups()
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        target = path if path is not None else address[address.index("/", 8):]
        connection.sendall(head if head is not None else f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = b""
        while True:
            part = connection.recv(65536)
            if not part:
                break
            answer += part
    status, _, body = answer.partition(b"\r\n\r\n")
    return status.split(b"\r\n")[0].decode(), body


def end(context, process, number=signal.SIGINT):
    process.send_signal(number)
    context.equal(process.wait(20), 0, "status at its end")


@case
def view_serves_what_export_writes(context):
    profile = made(context, "plain")
    with open(export(context, profile), "rb") as stream:
        wanted = stream.read()
    process, address = view(context, "--no-browser", profile)
    context.check(re.fullmatch(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", address), f"the address: {address}")
    status, body = ask(address)
    context.equal(status, "HTTP/1.1 200 OK", "the page")
    context.check(body == wanted, f"the page has {len(body)} bytes, the file {len(wanted)}")
    path = address[address.index("/", 8):]
    for other in ("/", "/favicon.ico", path[:-1], path + "x", path[:-2] + "/", "/" + "0" * 32 + "/"):
        context.equal(ask(address, path=other), ("HTTP/1.1 404 Not Found", b""), other)
    context.equal(ask(address, f"HEAD {path} HTTP/1.1\r\n\r\n".encode()), ("HTTP/1.1 200 OK", b""), "HEAD")
    context.equal(ask(address, f"POST {path} HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".encode())[0],
                  "HTTP/1.1 405 Method Not Allowed", "POST")
    with contextlib.suppress(ConnectionResetError):
        context.equal(ask(address, b"x" * 20000)[1], b"", "no request at all")
    with socket.create_connection(("127.0.0.1", int(address.split(":")[2].split("/")[0]))) as silent:
        silent.sendall(b"GET ")  # and never goes on
        context.equal(ask(address)[0], "HTTP/1.1 200 OK", "after one that never asks")
    end(context, process)
    with context_of_refusal(context):
        socket.create_connection(("127.0.0.1", int(address.split(":")[2].split("/")[0])), timeout=5).close()


@contextlib.contextmanager
def context_of_refusal(context):
    try:
        yield
        context.check(False, "the port is still open")
    except OSError:
        pass


@case
def view_opens_the_browser_it_is_given(context):
    profile, opened = made(context, "plain"), context.path("opened")
    browser = context.path("browser")
    with open(browser, "w", encoding="ascii") as stream:
        stream.write(f'#!/bin/sh\nprintf %s "$1" >"{opened}.new" && mv "{opened}.new" "{opened}"\n')
    os.chmod(browser, 0o755)
    process, address = view(context, profile, BROWSER=browser)
    for _ in range(200):
        if os.path.exists(opened):
            break
        time.sleep(0.05)
    with open(opened, encoding="ascii") as stream:
        context.equal(stream.read(), address, "what the browser was given")
    end(context, process, signal.SIGTERM)
    process, address = view(context, profile, BROWSER=context.path("absent"))
    end(context, process)
    errors = process.stderr.read().decode()
    context.check("cannot start" in errors and "open the address yourself" in errors, f"no browser: {errors}")
    process, address = view(context, "--against", made(context, "left"), "--annotate", "0", made(context, "right"), BROWSER="", DISPLAY="",
                            WAYLAND_DISPLAY="")
    found = browse(context, step("open"), step("visit", address=address, hash="functions"), step("rows", of=".table"))
    context.check(found[2] and "change" in found[2][0], f"a comparison: {found[2]}")
    end(context, process, signal.SIGHUP)


@case
def view_says_what_keeps_it_from(context):
    profile = made(context, "plain")
    process, address = view(context, "--no-browser", profile)
    port = address.split(":")[2].split("/")[0]
    for options, words in (([context.path("absent")], "absent"), (["--port", port, profile], f"cannot listen at port {port}"),
                           (["--counter", "nothing", profile], "nothing")):
        done = tally.run(context, [context.tally, "view", "--no-browser", *options])
        context.equal((done.status, done.output), (2, b""), f"{options}")
        context.check(words in done.errors.decode() and done.errors.count(b"\n") == 1, f"{options}: {done.errors.decode()!r}")
    end(context, process)


@case
def what_makes_no_sense_is_refused(context):
    profile = made(context, "plain")
    export(context, profile)
    for options, words in ((["--format", "csv", "--against", profile], "--against is for --format html"),
                           (["--format", "csv", "--annotate", "3"], "--annotate is for --format html"),
                           (["--format", "csv", "--source-map", "a=b"], "--source-map is for --format html"),
                           (["--format", "html", "--source-map", "a"], "not of the form FROM=TO"),
                           (["--format", "html", "--inlines"], "--inlines is for --format"),
                           (["--format", "html", "--against", context.path("absent")], "absent")):
        done = tally.run(context, [context.tally, "export", *options, "-o", context.path("never"), profile])
        context.equal(done.status, 2, f"{options}")
        context.check(words in done.errors.decode(), f"{options}: {done.errors.decode()!r}")
        context.check(not os.path.exists(context.path("never")), f"{options} left a file")


run()
