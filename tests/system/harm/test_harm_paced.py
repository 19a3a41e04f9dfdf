"""What a program that makes threads, children, images or loaded objects keeps of its pace beside a tally that is
stopped, a terminal that is stopped, or a tally that is well; and a number of a process that is used again. They
run alone: a pace is compared with the one before, and numbers of processes go to whoever comes first."""
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import time

import harm
import tally
import tap

MODES = {"calls": ["--calls"], "heap": ["--heap"], "all": ["--calls", "--heap", "--fds"]}
KINDS = ("thread", "fork", "exec", "object")
MISSED, UNANSWERED = 27, 35  # doc/losses.md
LEAST = 0.25  # of the pace alone; where each waited as long as for a tally that is gone, it would be 0.02


class Creations:
    """A program that makes a thread, a child, an image or a loaded object some hundred times a second, and says how often it has."""

    def __init__(self, context, kind):
        tap.need("gcc")
        program, self.file = context.path("creations"), context.path("creations.count")
        if not os.path.exists(program):
            subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", program, os.path.join(harm.PROGRAMS, "creations.c"), "-ldl"], check=True)
        self.process = tally.start(context, [program, self.file, kind], stdin=subprocess.PIPE)
        self.process.stdout.readline()
        self.pid = self.process.pid
        self.alone = self.pace()

    def count(self):
        with open(self.file, "rb") as file:
            return struct.unpack("q", file.read(8))[0]

    def pace(self, seconds=0.5):
        """Creations in a second."""
        before = self.count()
        time.sleep(seconds)
        return (self.count() - before) / seconds

    def record(self, context, mode):
        """tally, which has begun to record it."""
        command = [context.tally, "record", *mode, "--no-time", "-o", context.path("profile"), "-p", str(self.pid)]
        one = tally.start(context, command)
        context.check(tally.wait_for(lambda: harm.ours(self.pid) or one.poll() is not None), "tally did not begin")
        return one

    def end(self, context):
        self.process.stdin.close()
        context.equal(self.process.wait(20), 0, "status of the program")


def stopped(kind, mode, how):
    def run(context):
        """Creations go on while tally is stopped, whatever it was doing, and it takes them up again. By ^Z it says so
        before it stops. An agent waits the first time only."""
        program = Creations(context, kind)
        one = program.record(context, MODES[mode])
        time.sleep(0.3)
        paces = []
        waits_once = how == signal.SIGSTOP and mode != "calls"
        while len(paces) < 4 and (len(paces) < 1 + waits_once or max(paces) < LEAST * program.alone):
            one.send_signal(how)
            before = program.count()
            paces.append(program.pace(1.0))
            context.check(tally.wait_for(lambda: program.count() > before), "no creation while tally is stopped")
            one.send_signal(signal.SIGCONT)
            time.sleep(0.2)
        context.note(f"creations in a second: {program.alone:.0f} alone, {paces} while tally was stopped")
        context.check(max(paces) >= LEAST * program.alone, f"{max(paces):.0f} creations in a second while tally was stopped, {program.alone:.0f} alone")
        one.send_signal(signal.SIGINT)
        context.equal(tally.finish(one).status, 0, "status of tally")
        context.check(not harm.ours(program.pid), "something stays in the program")
        program.end(context)
    run.__name__ = f"{'stopped' if how == signal.SIGSTOP else 'suspended'}_{mode}_{kind}"
    return run


for turn, creations in enumerate(KINDS):
    for name in MODES:
        for signal_number in (signal.SIGSTOP, signal.SIGTSTP):  # each kind, each mode and each signal has its turn
            short = name != "all" and turn % 2 == (name == "heap") ^ (signal_number == signal.SIGTSTP)
            (tap.case if short else tap.long)(stopped(creations, name, signal_number))


def recorded(creations, mode):
    def run(context):
        """Nothing is wrong with Tally, and no creation waits until it gives up, as it would for an answer that another
        was given: then a loss tells of it."""
        program = Creations(context, creations)
        one = program.record(context, harm.MODES[mode])
        before = program.count()
        context.check(tally.wait_for(lambda: program.count() >= before + 100), f"{program.count() - before} creations of 100")
        one.send_signal(signal.SIGINT)
        ended = tally.finish(one)
        context.equal(ended.status, 0, f"status of tally ({ended.text()})")
        program.end(context)
        profile = tally.Profile(context, context.path("profile"))
        losses = profile.losses()
        context.equal((losses.get(UNANSWERED, 0), losses.get(MISSED, 0)), (0, 0), f"creations that were not answered, processes that were missed ({ended.text()}; {profile.meta().get('calls_notice')})")
    run.__name__ = f"creations_recorded_{creations}_{mode.replace('+', '_')}"
    return run


for creations in KINDS:
    for name in ("heap", "calls", "calls+heap"):
        (tap.case if name == "calls+heap" else tap.long)(recorded(creations, name))


class Terminal:
    """A terminal of its own for a program, which its other end can stop."""

    def __init__(self, command):
        self.end, inside = pty.openpty()

        def begin():
            os.setsid()
            fcntl.ioctl(inside, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, preexec_fn=begin)
        os.close(inside)

    def write(self, keys):
        os.write(self.end, keys)

    def read_all(self):
        output = b""
        try:
            while chunk := os.read(self.end, 4096):
                output += chunk
        except OSError:
            pass  # the program has ended
        return output


@tap.case
def terminal_that_is_stopped(context):
    """Ctrl-S, or a connection that stands: the status line waits, and the program's creations do not."""
    for mode in ("heap", "calls"):
        program = Creations(context, "exec")
        command = [context.tally, "record", *MODES[mode], "-o", context.path("profile"), "-p", str(program.pid)]
        terminal = Terminal(command)
        context.check(tally.wait_for(lambda: harm.ours(program.pid)), "tally did not begin")
        time.sleep(1)
        terminal.write(b"\x13")
        pace = program.pace(3)  # longer than what a terminal takes without being read
        terminal.write(b"\x11\x03")
        output = terminal.read_all()
        context.equal(terminal.process.wait(20), 0, f"status of tally, {mode} ({output!r})")
        context.check(b" samples" in output, f"no status line was drawn: {output!r}")
        losses = tally.Profile(context, context.path("profile")).losses()
        context.note(f"creations in a second: {program.alone:.0f} alone, {pace:.0f} while the terminal was stopped, {mode}")
        context.equal((losses.get(UNANSWERED, 0), losses.get(MISSED, 0)), (0, 0), f"creations that were not answered, processes that were missed, {mode}")
        context.check(pace > 0, f"no creation while the terminal was stopped, {mode}")
        program.end(context)


# --- numbers of processes ---


def pidfds(pid):
    """How many processes a process holds by descriptors."""
    try:
        return [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")].count("anon_inode:[pidfd]")
    except OSError:
        return 0


def created_as(context, number):
    """A process of that number, or None: others are created, too."""
    for _ in range(20):
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
            last.write(str(number - 1))
        other = tally.start(context, ["sleep", "60"])
        if other.pid == number:
            return other
        other.kill()
        other.communicate()
    return None


def replaced_while_attaching(context, mode):
    """Whether the second of two processes could be replaced between their being named and the attachment."""
    first, second = (tally.start(context, ["sleep", "60"]) for _ in range(2))
    one = tally.start(context, [context.tally, "record", *mode, "--no-time", "-o", context.path("profile"), "-p", f"{first.pid},{second.pid}"])
    while pidfds(one.pid) < 2 and one.poll() is None:
        pass
    one.send_signal(signal.SIGSTOP)
    early = not harm.inside(second.pid)
    second.kill()
    second.communicate()
    other = created_as(context, second.pid) if early else None
    one.send_signal(signal.SIGCONT)
    if other:
        one.communicate(timeout=60)
        context.check(one.returncode != 0, f"it was recorded with {mode}")
        context.check(other.poll() is None and not harm.inside(other.pid), f"another process is written into with {mode}")
    for process in (one, first, other):
        if process:
            process.kill()
            process.communicate()
    return other is not None


@tap.case
def number_used_again(context):
    """What ends, and whose number is another's by the time it is attached to, is not attached to."""
    tap.need_root()
    if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
        raise tap.Skip("numbers of processes cannot be chosen here")
    for mode in (["--calls"], ["--heap"]):
        if not any(replaced_while_attaching(context, mode) for _ in range(20)):
            raise tap.Skip("no number could be used again in time")


harm.run()
