"""tally browse on terminals of several kinds and sizes, typed at, its screens compared to the letter.

The screens lie in screens/; with TALLY_BLESS set they are written instead: read what changed before committing it."""
import os
import signal
import time

import tally
import tap
from screen import Screen
from terminal import Terminal

HERE = os.path.dirname(os.path.abspath(__file__))
PROFILE = os.path.join(HERE, "..", "golden", "version-2.tally")
FOOT = "q quit"


def browse(context, *options, profile=PROFILE, **how):
    screen = Screen([context.tally, "browse", *options, profile], context.directory, **how)
    context.check(screen.shows(FOOT), f"nothing was drawn: {screen.lines()} {screen.raw!r}")
    return screen


def compare(context, screen, name):
    path = os.path.join(HERE, "screens", name + ".txt")
    shown = "\n".join(screen.lines()) + "\n"
    if os.environ.get("TALLY_BLESS"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(shown)
    with open(path, encoding="utf-8") as file:
        wanted = file.read()
    context.check(shown == wanted, f"{name} is\n{shown}and should be\n{wanted}")


def press(context, screen, keys, until):
    screen.type(keys)
    context.check(screen.shows(until), f"after {keys!r} no {until!r} on\n" + "\n".join(screen.lines()))


def leave(context, screen, status=0):
    screen.type("q")
    context.equal(screen.wait(), status, "status")
    context.equal(screen.local_modes(), (True, True), "echo and whole lines after leaving")
    screen.close()


@tap.case
def screens(context):
    screen = browse(context)
    compare(context, screen, "flat")
    press(context, screen, "1", "functions by total")
    compare(context, screen, "flat-total")
    press(context, screen, "2", "tree of calls")
    compare(context, screen, "tree")
    press(context, screen, "\x1b[B\x1b[B\r", "called by")
    compare(context, screen, "function")
    press(context, screen, "?", "leave")
    compare(context, screen, "help")
    press(context, screen, "?", "called by")
    press(context, screen, "\x7f", "tree of calls")
    press(context, screen, "/ma", "/ma")
    compare(context, screen, "typing")
    press(context, screen, "in\r", FOOT)
    press(context, screen, "/nowhere\r", "matches nowhere")
    leave(context, screen)


def on(term):
    def test(context):
        """The same screens on every kind of terminal."""
        screen = browse(context, term=term)
        compare(context, screen, "flat")
        press(context, screen, "2", "tree of calls")
        compare(context, screen, "tree")
        leave(context, screen)

    return test


tap.cases(["xterm", "xterm-256color", "screen", "linux", "vt100"], on)


@tap.case
def resizing(context):
    screen = browse(context)
    for columns, lines in ((60, 12), (120, 30), (40, 8)):
        screen.resize(columns, lines)
        context.check(screen.shows(lambda shown: FOOT in shown[-1]), f"not drawn again at {columns}x{lines}")
        compare(context, screen, f"size-{columns}x{lines}")
    screen.resize(30, 6)
    context.check(screen.shows("too small: 30x6"), f"does not say so: {screen.lines()}")
    screen.resize(80, 24)
    context.check(screen.shows(FOOT), "not drawn again")
    compare(context, screen, "flat")
    leave(context, screen)


def ended_by(number):
    def test(context):
        """The terminal is as it was."""
        screen = browse(context)
        context.equal(screen.local_modes(), (False, False), "echo and whole lines while browsing")
        if number == signal.SIGINT:
            screen.type("\x03")
        else:
            os.kill(screen.pid, number)
        context.equal(screen.wait(), 128 + number, "status")
        context.equal(screen.local_modes(), (True, True), "echo and whole lines afterwards")
        context.check(b"\x1b[?1049l" in screen.raw[-80:], f"the screen before was not put back: {screen.raw[-80:]!r}")
        screen.close()

    return test


tap.cases(["interrupt", "terminate", "hang_up"],
          lambda name: ended_by({"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "hang_up": signal.SIGHUP}[name]))


@tap.case
def stop_and_continue(context):
    """Ctrl-Z gives the terminal back to the shell; fg draws everything again."""
    tap.need("bash")
    screen = Screen(["bash", "--norc", "--noprofile", "-i"], context.directory, environment={"PS1": "ready> "})
    context.check(screen.shows("ready>"), "no shell")
    screen.type(f"{context.tally} browse {PROFILE}\n")
    context.check(screen.shows(FOOT), "nothing was drawn")
    screen.type("\x1a")
    context.check(screen.shows("Stopped"), "the shell does not say that it stopped")
    screen.type("fg\n")
    context.check(screen.shows(lambda lines: FOOT in lines[-1]), "not drawn again")
    compare(context, screen, "flat")
    screen.type("q")
    context.check(screen.shows("ready>"), "no shell afterwards")
    screen.type("exit\n")
    screen.wait()
    screen.close()


@tap.case
def colours(context):
    """None with NO_COLOR, --color never or a terminal that has none; bold and reverse stay."""
    plain = [dict(environment={"NO_COLOR": "1"}), dict(term="vt100"), dict()]
    for number, how in enumerate(plain):
        screen = browse(context, *(["--color", "never"] if number == 2 else []), **how)
        context.check(b"[37" not in screen.raw and b"[44" not in screen.raw, f"{how}: colours: {screen.raw[:300]!r}")
        context.check(0 in screen.reversed_lines() and 3 in screen.reversed_lines(), f"{how}: neither title nor cursor stands out")
        leave(context, screen)
    screen = browse(context, environment={"NO_COLOR": ""})
    context.check(b"[37" in screen.raw, "no colour where it is wanted")
    leave(context, screen)


@tap.case
def ascii_only(context):
    screen = browse(context, environment={"LC_ALL": "C"})
    context.check("±" not in "".join(screen.lines()), "beyond ASCII")
    context.check(any("+-" in line for line in screen.lines()), "no intervals")
    leave(context, screen)


@tap.case
def annotating(context):
    """What annotate says is read on an ordinary terminal; then everything is as before."""
    recorded = tally.recorded(context, [context.program("slower"), "3000"])
    screen = browse(context, profile=recorded.path, environment={"TALLY_PAGER": "cat"})
    press(context, screen, "/slower_25\r", FOOT)
    before = screen.lines()
    press(context, screen, "a", "Enter goes back")
    context.check(b"slower_25" in screen.raw[screen.raw.rindex(b"\x1b[?1049l"):], f"not annotated: {screen.raw[-500:]!r}")
    context.equal(screen.local_modes(), (True, True), "echo and whole lines while annotating")
    press(context, screen, "\n", FOOT)
    context.equal(screen.lines(), before, "the screen afterwards")
    context.equal(screen.local_modes(), (False, False), "echo and whole lines afterwards")
    leave(context, screen)


@tap.case
def no_terminal(context):
    for arguments in ([PROFILE], ["--counter", "nonsense", PROFILE]):
        result = tally.run(context, [context.tally, "browse", *arguments])
        context.equal((result.status, result.output), (2, b""), "status and output")
        context.check(b"needs a terminal" in result.errors, f"said {result.errors}")


@tap.case
def mistakes(context):
    """Said on an ordinary terminal, with nothing drawn."""
    for arguments, said in (([PROFILE, "--counter", "nonsense"], "no counter nonsense in this profile; it has"),
                            (["nowhere"], "nowhere: No such file")):
        terminal = Terminal([context.tally, "browse", *arguments], context.directory)
        context.check(terminal.expect(said), f"does not say {said}")
        context.equal(terminal.wait(), 2, "status")
        context.check(b"\x1b[?1049h" not in terminal.seen, "drew something")
        terminal.close()
    environment = dict(os.environ, LC_ALL="C.UTF-8")
    for term in ("undiscovered-of", "dumb"):
        terminal = Terminal(["env", "TERM=" + term, context.tally, "browse", PROFILE], context.directory, environment)
        context.check(terminal.expect("cannot draw on a terminal of the kind " + term), f"{term}: does not say why it cannot draw")
        context.equal(terminal.wait(), 2, f"{term}: status")
        terminal.close()


@tap.case
def fast_typing(context):
    """Keys that come all at once are all obeyed."""
    screen = browse(context)
    press(context, screen, "2" + "\x1b[B" * 40 + "?" + "?" + "1" + "g" + "/main\r", "functions by self")
    leave(context, screen)


tap.run()
