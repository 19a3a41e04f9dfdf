/* base_terminal on a pseudo-terminal, a pipe and nothing, in every environment that matters. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_terminal.h"

struct ends {
    int master, terminal, pipe[2];
};

static int open_ends(void **state)
{
    static struct ends ends;
    ends.master = posix_openpt(O_RDWR | O_NOCTTY);
    if (ends.master < 0 || grantpt(ends.master) || unlockpt(ends.master) || pipe(ends.pipe))
        return -1;
    ends.terminal = open(ptsname(ends.master), O_RDWR | O_NOCTTY);
    *state = &ends;
    return ends.terminal < 0 ? -1 : 0;
}

static int close_ends(void **state)
{
    struct ends *ends = *state;
    close(ends->master);
    close(ends->terminal);
    close(ends->pipe[0]);
    return close(ends->pipe[1]);
}

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void widths(void **state)
{
    struct ends *ends = *state;
    struct winsize size = {.ws_row = 20, .ws_col = 132};
    set("COLUMNS", NULL);
    assert_int_equal(base_terminal_width(ends->terminal), 80); /* a new one says 0 */
    assert_int_equal(ioctl(ends->master, TIOCSWINSZ, &size), 0);
    assert_int_equal(base_terminal_width(ends->terminal), 132);
    assert_int_equal(base_terminal_width(ends->pipe[1]), 0);
    assert_int_equal(base_terminal_width(-1), 0);
    set("COLUMNS", "100");
    assert_int_equal(base_terminal_width(ends->terminal), 100);
    assert_int_equal(base_terminal_width(ends->pipe[1]), 100);
    static const char *const nonsense[] = {"", "0", "-5", "many", "80 ", "99999999999999999999", "100001"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        set("COLUMNS", nonsense[i]);
        assert_int_equal(base_terminal_width(ends->terminal), 132);
        assert_int_equal(base_terminal_width(ends->pipe[1]), 0);
    }
    set("COLUMNS", NULL);
}

static void colors(void **state)
{
    struct ends *ends = *state;
    set("TERM", "xterm");
    set("NO_COLOR", NULL);
    assert_true(base_terminal_color(ends->terminal, BASE_COLOR_AUTO));
    assert_false(base_terminal_color(ends->pipe[1], BASE_COLOR_AUTO));
    assert_true(base_terminal_color(ends->pipe[1], BASE_COLOR_ALWAYS));
    assert_false(base_terminal_color(ends->terminal, BASE_COLOR_NEVER));
    set("NO_COLOR", "1");
    assert_false(base_terminal_color(ends->terminal, BASE_COLOR_AUTO));
    assert_true(base_terminal_color(ends->terminal, BASE_COLOR_ALWAYS));
    set("NO_COLOR", ""); /* as if it were not set */
    assert_true(base_terminal_color(ends->terminal, BASE_COLOR_AUTO));
    set("NO_COLOR", NULL);
    set("TERM", "dumb");
    assert_false(base_terminal_color(ends->terminal, BASE_COLOR_AUTO));
    set("TERM", NULL);
    assert_false(base_terminal_color(ends->terminal, BASE_COLOR_AUTO));
}

static void redrawing(void **state)
{
    struct ends *ends = *state;
    set("TERM", "xterm");
    assert_true(base_terminal_redraws(ends->terminal));
    assert_false(base_terminal_redraws(ends->pipe[1]));
    set("TERM", "dumb");
    assert_false(base_terminal_redraws(ends->terminal));
    assert_true(base_terminal_foreground(ends->pipe[1]));
    assert_false(base_terminal_foreground(ends->terminal)); /* not our controlling terminal */
}

/* A stopped terminal keeps nobody who writes by a file of his own, and others' files are as they were. */
static void stopped(void **state)
{
    struct ends *ends = *state;
    char text[8];
    int own = base_terminal_open(ends->terminal);
    assert_true(own >= 0);
    assert_int_equal(write(own, "a", 1), 1);
    assert_int_equal(read(ends->master, text, sizeof text), 1);
    assert_int_equal(tcflow(ends->terminal, TCOOFF), 0);
    assert_int_equal(write(own, "b", 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(tcflow(ends->terminal, TCOON), 0);
    assert_int_equal(write(own, "c", 1), 1);
    assert_int_equal(read(ends->master, text, sizeof text), 1);
    assert_int_equal(text[0], 'c');
    assert_int_equal(fcntl(ends->terminal, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(own, F_GETFD), FD_CLOEXEC);
    close(own);
    assert_int_equal(base_terminal_open(ends->pipe[1]), -1);
    assert_int_equal(base_terminal_open(-1), -1);
}

static void locales(void **state)
{
    (void)state;
    static const struct {
        const char *all, *ctype, *language;
        bool utf8;
    } cases[] = {
        {NULL, NULL, NULL, true},          {"C", NULL, "en_US.UTF-8", false},
        {NULL, NULL, "en_US.UTF-8", true}, {"", "de_DE.utf8", "C", true},
        {NULL, "POSIX", "C.UTF-8", false}, {"C.UTF-8", "C", "C", true},
        {NULL, NULL, "de_DE@euro", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set("LC_ALL", cases[i].all);
        set("LC_CTYPE", cases[i].ctype);
        set("LANG", cases[i].language);
        assert_int_equal(base_terminal_utf8(), cases[i].utf8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths),  cmocka_unit_test(colors),  cmocka_unit_test(redrawing),
        cmocka_unit_test(stopped), cmocka_unit_test(locales),
    };
    return cmocka_run_group_tests(tests, open_ends, close_ends);
}
