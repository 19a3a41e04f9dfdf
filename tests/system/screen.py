"""What a person would see: a command on a terminal of its own, its output kept by a terminal emulator (python3-pyte)."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import tap

try:
    import pyte
except ImportError:
    pyte = None


if pyte is not None:

    class Kept(pyte.Screen):
        """One that also knows how to repeat a character (REP) and to scroll (SU, SD), as xterms do."""

        last = " "

        def draw(self, data):
            super().draw(data)
            self.last = data[-1:] or self.last

        def repeat(self, count=1):
            self.draw(self.last * (count or 1))

        def scroll(self, change, count):
            line, column = self.cursor.y, self.cursor.x
            self.cursor.y = self.margins.top if self.margins else 0
            change(count or 1)
            self.cursor.y, self.cursor.x = line, column

        def scroll_up(self, count=1):
            self.scroll(self.delete_lines, count)

        def scroll_down(self, count=1):
            self.scroll(self.insert_lines, count)

    class Keeper(pyte.ByteStream):
        csi = dict(pyte.ByteStream.csi, b="repeat", S="scroll_up", T="scroll_down")
        events = pyte.ByteStream.events | {"repeat", "scroll_up", "scroll_down"}


class Screen:
    """A terminal of so many columns and lines with a command on it."""

    def __init__(self, arguments, cwd, columns=80, lines=24, term="xterm", environment=None):
        if pyte is None:
            raise tap.Skip("no python3-pyte")
        self.screen = Kept(columns, lines)
        self.stream = Keeper(self.screen)
        self.raw, self.status = b"", None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                self.set_size(0, columns, lines)
                variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
                variables.update({"TERM": term, "LC_ALL": "C.UTF-8", **(environment or {})})
                os.execvpe(arguments[0], arguments, variables)
            finally:
                os._exit(127)

    @staticmethod
    def set_size(descriptor, columns, lines):
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)
        self.set_size(self.master, columns, lines)

    def read(self, seconds):
        """What comes within a moment; False at the end."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        self.stream.feed(data)
        return bool(data)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def shows(self, condition, seconds=15):
        """Reads until `condition`, a text or a function of the lines, holds, and nothing more comes for a moment."""
        end = time.monotonic() + seconds
        holds = condition if callable(condition) else lambda lines: any(condition in line for line in lines)
        while time.monotonic() < end:
            if not self.read(0.05):
                break
            if holds(self.lines()):
                while select.select([self.master], [], [], 0.1)[0] and self.read(0):
                    pass
                if holds(self.lines()):
                    return True
        return holds(self.lines())

    def type(self, data):
        os.write(self.master, data if isinstance(data, bytes) else data.encode())

    def reversed_lines(self):
        """The lines whose first column is shown with the colours exchanged."""
        return [number for number in range(self.screen.lines) if self.screen.buffer[number][0].reverse]

    def local_modes(self):
        """Of the terminal: whether it echoes and whether it gives whole lines."""
        flags = termios.tcgetattr(self.master)[3]
        return bool(flags & termios.ECHO), bool(flags & termios.ICANON)

    def wait(self, seconds=15):
        """The exit status as a shell would say it, None if it did not end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                while select.select([self.master], [], [], 0)[0] and self.read(0):
                    pass
                self.status = os.waitstatus_to_exitcode(status)
                return 128 - self.status if self.status < 0 else self.status
        return None

    def close(self):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        os.close(self.master)
