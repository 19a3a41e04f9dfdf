"""A server under load, recorded and left again and again: no request fails, and memory comes back.

TALLY_REDIS_ROUNDS and TALLY_REDIS_SECONDS say how often and how long at least: 8 times 0.3 seconds, with TALLY_LONG 200 times 2."""
import os
import random
import re
import signal
import socket
import threading
import time

import tally
import tap

ROUNDS = int(os.environ.get("TALLY_REDIS_ROUNDS", "200" if tap.LONG else "8"))
SECONDS = float(os.environ.get("TALLY_REDIS_SECONDS", "2" if tap.LONG else "0.3"))
VISITS = 30  # of the clients, in each recording: on a busy machine they take longer than SECONDS
CLIENTS = 3
KEYS = 2000
FUNCTIONS = ["--function", "read", "--function", "write", "--function", "epoll_wait"]
WAYS = (["--heap"], ["--fds"], [*FUNCTIONS, "--function", "accept4"], ["--heap", "--fds", *FUNCTIONS], ["--heap=sample:4k", "--fds"])


def encoded(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client(threading.Thread):
    """Asks for what it has stored, and compares; a connection lasts for some forty requests."""

    def __init__(self, path, number):
        super().__init__(daemon=True)
        self.path, self.number, self.source = path, number, random.Random(number)
        self.over, self.asked, self.visits, self.failures, self.values = False, 0, 0, [], {}

    def answer(self, stream):
        line = stream.readline()
        if line[:1] in b"+:":
            return line[1:-2]
        if line[:1] == b"$":
            size = int(line[1:])
            return None if size < 0 else stream.read(size + 2)[:-2]
        raise ValueError(f"an answer of {line!r}")

    def requests(self):
        """(words, what the answer must be)"""
        for _ in range(40):
            key = b"key:%d:%d" % (self.number, self.source.randrange(KEYS))
            kind = self.source.randrange(4)
            if kind == 0:
                self.values.pop(key, None)
                yield (b"DEL", key), None
            elif kind == 1:
                value = self.source.randbytes(self.source.choice((3, 60, 900, 20000)))
                self.values[key] = value
                yield (b"SET", key, value), b"OK"
            else:
                yield (b"GET", key), self.values.get(key, b"")

    def visit(self):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(self.path)
            stream = connection.makefile("rb")
            wanted = list(self.requests())
            connection.sendall(b"".join(encoded(*words) for words, _ in wanted))
            for words, right in wanted:
                got = self.answer(stream)
                self.asked += 1
                if words[0] != b"DEL" and (got or b"") != right:
                    self.failures.append(f"{words[:2]}: {tap.shorten(got, 80)}, not {tap.shorten(right, 80)}")

    def run(self):
        while not self.over and len(self.failures) < 5:
            try:
                self.visit()
                self.visits += 1
            except (OSError, ValueError) as error:
                self.failures.append(f"{error!r}")


def started(context):
    """A server on a socket in the case's directory, that keeps nothing on disk."""
    path = context.path("socket")
    server = tally.start(context, ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
                                   "--dir", context.directory, "--daemonize", "no"])
    context.check(tally.wait_for(lambda: os.path.exists(path) or server.poll() is not None), "the server has no socket")
    if server.poll() is not None:
        raise AssertionError(f"the server ended: {server.communicate()}")
    with socket.socket(socket.AF_UNIX) as connection:  # it answers when it has opened and closed all that it needs to begin
        connection.connect(path)
        connection.sendall(encoded("PING"))
        context.equal(connection.makefile("rb").readline(), b"+PONG\r\n", "the server's first answer")
    context.check(tally.wait_for(lambda: opened(server.pid).count("socket") == 1), "the first connection stayed open")
    return server, path


def status_of(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":"))


def opened(pid):
    """What its descriptors lead to, without the numbers of connections."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(re.sub(r"socket:.*", "socket", os.readlink(f"/proc/{pid}/fd/{name}")))
        except FileNotFoundError:  # closed meanwhile
            pass
    return sorted(found)


def mapped(pid):
    """Lines of what is mapped from files, ours among them."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return [line for line in file if "/" in line]


def visit(context, server, clients, options, number):
    """A recording in which the clients come and go: SECONDS and VISITS, from when Tally is there."""
    path = context.path("profile")
    one = tally.start(context, [context.tally, "record", "--no-time", *options, "-o", path, "-p", str(server.pid)])
    tally.wait_for(lambda: any("tally" in line for line in mapped(server.pid)) or one.poll() is not None)
    begun = sum(client.visits for client in clients)
    time.sleep(SECONDS)
    tally.wait_for(lambda: sum(client.visits for client in clients) >= begun + VISITS or one.poll() is not None)
    if one.poll() is None:
        one.send_signal(signal.SIGINT)
    result = tally.finish(one)
    if b"did not stop within" in result.errors:
        return None  # a busy machine: tally left before it began
    context.equal(result.status, 0, f"status of round {number}, {options} ({result.text()})")
    context.equal([line for line in mapped(server.pid) if "tally" in line], [], f"memory left in round {number}, {options}")
    return tally.Profile(context, path)


def sum_of(profile, counter):
    return profile.rows(f"SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN counters k ON k.id = c.counter WHERE k.name = '{counter}'")[0][0]


def uncounted(profile, options):
    """What was asked for and has no figure."""
    wanted = {"--heap": "heap.count", "--heap=sample:4k": "heap.count", "--fds": "fd.used", "--function": "function.calls"}
    return {counter for option, counter in wanted.items() if option in options and not sum_of(profile, counter) > 0}


def check_counted(context, profile, options, number):
    what = f"round {number}, {' '.join(options)}"
    context.equal(uncounted(profile, options), set(), f"{what}: not counted")
    if "--fds" in options:
        listening = profile.rows("SELECT count(*) FROM descriptors WHERE origin = 'before' AND kind = 'unix' AND name LIKE '%listening'")
        context.equal(listening, [(1,)], f"{what}: the listening socket")


@tap.case
def come_and_go(context):
    tap.need("redis-server")
    server, path = started(context)
    files, shared, open_files = mapped(server.pid), status_of(server.pid, "RssShmem"), opened(server.pid)
    clients = [Client(path, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    visit(context, server, clients, WAYS[3], "before the first")  # whose images are looked at once
    sizes, done = [], 0
    for number in range(ROUNDS):
        options = WAYS[number % len(WAYS)]
        profile = visit(context, server, clients, options, number)
        if profile is not None:
            check_counted(context, profile, options, number)
            done += 1
        sizes.append(status_of(server.pid, "VmSize"))
        if context.failures or server.poll() is not None:
            break
    for client in clients:
        client.over = True
    for client in clients:
        client.join(60)
    asked = sum(client.asked for client in clients)
    context.note(f"{done} rounds, {asked} requests, VmSize of the server after each {sizes[:3]} ... {sizes[-3:]} kB")
    context.equal([failure for client in clients for failure in client.failures], [], "requests that failed")
    context.check(asked > 100 * ROUNDS and done > ROUNDS / 2, f"only {asked} requests in {done} rounds")
    context.equal(server.poll(), None, "the server's status")
    context.equal(mapped(server.pid), files, "what is mapped from files")
    context.equal(status_of(server.pid, "RssShmem"), shared, "shared memory, kB")
    tally.wait_for(lambda: opened(server.pid) == open_files)  # it closes the last connections by itself
    context.equal(opened(server.pid), open_files, "what is open")
    server.terminate()
    context.equal(server.wait(60), 0, "the server's status at the end")


tap.run()
