"""A command on a terminal of its own, typed at like a person would."""
import os
import pty
import re
import select
import signal
import time


class Terminal:
    """Runs a command as the session leader of a new terminal, in its foreground process group."""

    def __init__(self, arguments, cwd, environment=None):
        self.seen, self.status = b"", None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.execvpe(arguments[0], arguments, dict(environment or os.environ, TERM="xterm"))
            finally:
                os._exit(127)

    def type(self, data):
        os.write(self.master, data if isinstance(data, bytes) else data.encode())

    def read(self, seconds):
        """What comes within a moment; False at the end."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:  # Linux says EIO when the last process has closed it
            return False
        self.seen += data
        return bool(data)

    def expect(self, pattern, seconds=20):
        """Waits until what was seen since the last expect matches; returns the match or None."""
        end, expression = time.monotonic() + seconds, re.compile(pattern.encode())
        while True:
            match = expression.search(self.seen)
            if match:
                self.seen = self.seen[match.end() :]
                return match
            if time.monotonic() > end or not self.read(0.1):
                return expression.search(self.seen)

    def wait(self, seconds=30):
        """The exit status as a shell would say it, None if it did not end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                while self.read(0):
                    if not select.select([self.master], [], [], 0)[0]:
                        break
                self.status = os.waitstatus_to_exitcode(status)
                return 128 - self.status if self.status < 0 else self.status
        return None

    def close(self):
        if self.status is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        os.close(self.master)
