"""What a killed tally left, and what comes next: every mode killed at a random moment or at a numbered step of its life, followed by
every mode or by `tally detach`, on programs that are never at rest. None is harmed, and afterwards all is as before.

A step is a call of tally or of its helper that changes something: each ptrace request, each message between the two, each write, each
mapping (programs/kill_at.c). A first recording in each mode tells how many there are; then each is as likely as another.

The pairs are drawn from a fixed seed: TALLY_KILLED_ROUNDS says how many for each program (8; with TALLY_LONG 400, and of more programs).
"""
import os
import random
import socket
import struct
import subprocess
import time

import harm
import calls
import tally
import tap

ROUNDS = int(os.environ.get("TALLY_KILLED_ROUNDS", "400" if harm.LONG else "8"))
MODES = {name: mode for name, mode in harm.MODES.items() if mode}
NEXT = [*MODES, "detach"]
# Hooks that take over a dead tally's jumps, and stubs of calls that lead to the agent.
FIRST = [("calls", "calls+heap", 0.3), ("all", "calls", 0.4), ("calls", "all", 0.3), ("calls+heap", "detach", 0.4)]
PATIENCE = 5  # seconds for what a killed tally left to go, on a machine with other work


def command(context, mode, pid, *more):
    return [context.tally, "record", *MODES[mode], "--no-time", *more, "-o", context.path("profile"), "-p", str(pid)] \
        if "--engine=agent" not in MODES[mode] else [context.tally, "record", *MODES[mode], *more, "-o", context.path("profile"), "-p", str(pid)]


class Steps:
    """Recordings whose steps are counted, and that are killed at one of them."""

    def __init__(self, context):
        tap.need("gcc")
        self.library, self.file, self.most = context.path("kill_at.so"), context.path("steps"), {}
        source = os.path.join(harm.PROGRAMS, "kill_at.c")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", self.library, source, "-ldl"], check=True)

    def record(self, context, mode, pid, step):
        """A recording that is killed at a step, or, at step 0, ends by itself. How many steps there were."""
        with open(self.file, "wb") as file:
            file.write(bytes(16))
        environment = dict(os.environ, LD_PRELOAD=self.library, KILL_AT_FILE=self.file, KILL_AT_STEP=str(step))
        tally.run(context, command(context, mode, pid, "--duration", "0.1"), env=environment)
        with open(self.file, "rb") as file:
            return struct.unpack("QQ", file.read())[0]

    def count(self, context, mode, pid):
        if mode not in self.most:
            self.most[mode] = self.record(context, mode, pid, 0)
            context.check(self.most[mode] > 20, f"{mode} has {self.most[mode]} steps")
        return self.most[mode]


def kill_one(context, mode, pid, delay):
    """A recording that is killed `delay` seconds after its start."""
    one = tally.start(context, command(context, mode, pid, "--duration", "0.3"))
    time.sleep(delay)
    one.kill()
    one.communicate()


def follow_up(context, what, pid):
    """The next one, which must succeed: (status, its text)."""
    arguments = [context.tally, "detach", "-p", str(pid)] if what == "detach" else command(context, what, pid, "--duration", "0.15")
    return tally.run(context, arguments)


def kill_in_round(context, pid, source, number, steps):
    """One recording is killed. (its mode, how it was killed)"""
    first, delay = source.choice(list(MODES)), source.random() * 0.45
    if number % 2:
        step = source.randint(1, steps.count(context, first, pid))
        steps.record(context, first, pid, step)
        return f"{first} killed at step {step} of {steps.most[first]}"
    if number // 2 < len(FIRST):
        first, _, delay = FIRST[number // 2]
    kill_one(context, first, pid, delay)
    return f"{first} killed after {delay:.3f} s"


def rounds(context, pid, alive, seed, restless=False):
    """Each pair of a seeded list; the counts of what had to be left."""
    source, steps = random.Random(seed), Steps(context)
    before = harm.Footprint(pid, restless)
    left, slowest = 0, 0
    for number in range(ROUNDS):
        killed = kill_in_round(context, pid, source, number, steps)
        second = source.choice(NEXT)
        if number % 2 == 0 and number // 2 < len(FIRST):
            second = FIRST[number // 2][1]
        what = f"{killed}, then {second} (round {number})"
        context.check(tally.wait_for(lambda: not calls.tracers(pid), PATIENCE), f"{what}: it is traced still")
        if not context.check(alive(), f"{what}: it died of the kill"):
            return
        left += bool(harm.ours(pid))
        began = time.monotonic()
        result = follow_up(context, second, pid)
        if second == "detach":
            slowest = max(slowest, time.monotonic() - began)
        context.equal(result.status, 0, f"{what}: status ({result.text()})")
        if not context.check(alive(), f"{what}: it died of what came next"):
            return
        before.same(context, pid, f"after {what}")
        if context.failures:
            return
    context.note(f"{ROUNDS} rounds, {left} in which something was left; detach took {slowest:.2f} s at most; steps: {steps.most}")
    context.check(left > 0 or ROUNDS < 5, "no kill came while something was there")


@tap.case
def redis(context):
    """A server under load."""
    tap.need("redis-server", "redis-benchmark")
    path = context.path("socket")
    server = tally.start(context, ["redis-server", "--save", "", "--appendonly", "no", "--port", "0", "--unixsocket", path],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    context.check(tally.wait_for(lambda: os.path.exists(path)), "no server")
    load = tally.start(context, ["redis-benchmark", "-s", path, "-c", "20", "-n", "100000000", "-t", "set,get,lpush,hset", "-q"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.2)
    rounds(context, server.pid, lambda: server.poll() is None and load.poll() is None, 1)
    load.kill()
    load.wait()
    server.terminate()
    context.equal(server.wait(20), 0, "status of the server")


@tap.case
def crowd(context):
    """Sixteen threads that do all that is hooked."""
    tap.need("g++")
    program = context.path("crowd")
    subprocess.run(["g++", "-std=c++17", "-O1", "-g", "-pthread", "-o", program, os.path.join(harm.PROGRAMS, "crowd.cpp")], check=True)
    process = tally.start(context, [program], stdin=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(0.1)
    rounds(context, process.pid, lambda: process.poll() is None, 2, restless=True)
    output, errors = process.communicate(timeout=60)
    context.equal((process.returncode, output, errors), (3, b"done\n", b""), "outcome")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


NGINX = """
daemon off; master_process off; error_log {directory}/errors; pid {directory}/pid;
events {{ worker_connections 128; }}
http {{ access_log off; client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory}; uwsgi_temp_path {directory};
  scgi_temp_path {directory}; server {{ listen 127.0.0.1:{port}; root {directory}; }} }}
"""


@tap.long
def nginx(context):
    """A web server that answers all the time."""
    tap.need("nginx", "ab")
    port = free_port()
    with open(context.path("conf"), "w", encoding="ascii") as file:
        file.write(NGINX.format(directory=context.directory, port=port))
    with open(context.path("index.html"), "wb") as file:
        file.write(b"<p>a page</p>" * 100)
    os.chmod(context.directory, 0o755)
    server = tally.start(context, ["nginx", "-c", context.path("conf"), "-e", context.path("errors")])
    context.check(tally.wait_for(lambda: answers(port)), "no server")
    load = tally.start(context, ["sh", "-c", f"while ab -q -n 20000 -c 8 http://127.0.0.1:{port}/index.html; do :; done"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(0.2)
    rounds(context, server.pid, lambda: server.poll() is None and load.poll() is None, 4, restless=True)
    os.killpg(load.pid, 9)
    load.wait()
    server.terminate()
    context.equal(server.wait(20), 0, "status of the server")


def sql(path, *statements):
    return ["mariadb", "--no-defaults", "-u", "root", "-S", path, "-e", "; ".join(statements)]


@tap.long
def mariadb(context):
    """A data base that answers all the time, by threads that come and go."""
    tap.need("mariadbd", "mariadb", "mariadb-install-db")
    tap.need_root()
    path, data = context.path("socket"), context.path("data")
    subprocess.run(["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--auth-root-authentication-method=normal",
                    "--skip-test-db"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = tally.start(context, ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={path}", "--skip-networking",
                                   "--innodb-buffer-pool-size=32M", f"--pid-file={context.path('pid')}"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    context.check(tally.wait_for(lambda: os.path.exists(path) and tally.run(context, sql(path, "select 1")).status == 0, 60), "no server")
    context.equal(tally.run(context, sql(path, "create database d", "create table d.t (a int primary key auto_increment, b varchar(99))")).status, 0, "a table")
    query = " ".join(f"'{word}'" for word in sql(path, "insert into d.t (b) values (repeat(char(65), 50))", "select count(*) from d.t where b like char(66)",
                                                 "delete from d.t where a % 3 = 0"))
    load = tally.start(context, ["sh", "-c", f"while {query}; do :; done"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(0.2)
    rounds(context, server.pid, lambda: server.poll() is None and load.poll() is None, 5, restless=True)
    os.killpg(load.pid, 9)
    load.wait()
    server.terminate()
    context.equal(server.wait(60), 0, "status of the server")


PYTHON = """
import sys, threading
over = False
def work():
    while not over:
        assert sum(len(str(i)) for i in range(1000)) == 2890
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
print("begun", flush=True)
sys.stdin.read()
over = True
for thread in threads: thread.join()
print("done")
"""


@tap.long
def python(context):
    process = tally.start(context, ["/usr/bin/python3", "-c", PYTHON], stdin=subprocess.PIPE)
    process.stdout.readline()
    rounds(context, process.pid, lambda: process.poll() is None, 3)
    output, errors = process.communicate(timeout=60)
    context.equal((process.returncode, output, errors), (0, b"done\n", b""), "outcome")


tap.run()
