#include "browse.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "browse_screen.h"

enum {
    ESCAPE_MS = 100,
    CONTROL_H = 8,
    CONTROL_L = 12,
    DELETE = 127,
    ESCAPE = 27,
    PAIR_TITLE = 1,
    PAIR_CURSOR
};

struct terminal {
    const struct browse_options *options;
    SCREEN *screen;
    FILE *out;
    int signals; /* descriptor */
    sigset_t old_mask;
    bool color;
    struct browse_model model;
    struct browse_screen drawn;
};

/* --- locale --- */

/* ncurses takes what it is given for the locale's characters. Without a locale of the user's, as in most
 * containers, terminals speak UTF-8. */
static bool speaks_utf8(bool ascii)
{
    setlocale(LC_CTYPE, "");
    if (ascii)
        return false;
    if (strcmp(nl_langinfo(CODESET), "UTF-8"))
        setlocale(LC_CTYPE, "C.UTF-8");
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

/* --- drawing --- */

static attr_t attributes_of(const struct terminal *terminal, enum browse_style style)
{
    switch (style) {
    case BROWSE_TITLE:
        return terminal->color ? (attr_t)COLOR_PAIR(PAIR_TITLE) : A_REVERSE;
    case BROWSE_CURSOR:
        return terminal->color ? (attr_t)COLOR_PAIR(PAIR_CURSOR) : A_REVERSE;
    case BROWSE_HEAD:
    case BROWSE_STRONG:
        return A_BOLD;
    case BROWSE_DIM:
        return A_DIM;
    case BROWSE_PLAIN:
        break;
    }
    return A_NORMAL;
}

static int draw_screen(struct terminal *terminal, struct base_error *error)
{
    if (!browse_screen_draw(&terminal->drawn, &terminal->model))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < terminal->drawn.count; i++) {
        attrset(attributes_of(terminal, terminal->drawn.lines[i].style));
        mvaddstr((int)i, 0, base_text_string(&terminal->drawn.lines[i].text));
    }
    curs_set(terminal->drawn.typing);
    if (terminal->drawn.typing)
        move((int)terminal->drawn.count - 1, (int)terminal->drawn.caret);
    refresh();
    return 0;
}

/* --- keys --- */

static uint32_t function_key(wint_t key)
{
    static const struct {
        int curses;
        enum browse_key key;
    } keys[] = {{KEY_UP, BROWSE_KEY_UP},         {KEY_DOWN, BROWSE_KEY_DOWN},
                {KEY_LEFT, BROWSE_KEY_LEFT},     {KEY_RIGHT, BROWSE_KEY_RIGHT},
                {KEY_PPAGE, BROWSE_KEY_PAGE_UP}, {KEY_NPAGE, BROWSE_KEY_PAGE_DOWN},
                {KEY_HOME, BROWSE_KEY_HOME},     {KEY_END, BROWSE_KEY_END},
                {KEY_ENTER, BROWSE_KEY_ENTER},   {KEY_BACKSPACE, BROWSE_KEY_BACKSPACE}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].curses == (int)key)
            return keys[i].key;
    return 0;
}

static uint32_t plain_key(wint_t key)
{
    switch (key) {
    case '\r':
    case '\n':
        return BROWSE_KEY_ENTER;
    case CONTROL_H:
    case DELETE:
        return BROWSE_KEY_BACKSPACE;
    case ESCAPE:
        return BROWSE_KEY_ESCAPE;
    default:
        return (uint32_t)key;
    }
}

static void resize_screen(struct terminal *terminal)
{
    int lines, columns;
    getmaxyx(stdscr, lines, columns);
    clear();
    browse_model_resize(&terminal->model, columns > 0 ? (unsigned)columns : 0,
                        lines > 0 ? (unsigned)lines : 0);
}

/* While another command prints, Ctrl-C is for that command. */
static void browse_run_annotate(struct terminal *terminal, const char *function)
{
    const struct browse_options *options = terminal->options;
    sigset_t blocked;
    def_prog_mode();
    endwin();
    sigprocmask(SIG_SETMASK, &terminal->old_mask, &blocked);
    options->annotate(options->context, function, browse_model_image(&terminal->model),
                      terminal->model.data.context.selection.name);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    reset_prog_mode();
    clear();
}

static void annotate_selected_function(struct terminal *terminal)
{
    struct base_text name = {0};
    if (browse_model_function(&terminal->model, &name) && terminal->options->annotate)
        browse_run_annotate(terminal, base_text_string(&name));
    else
        browse_model_say(&terminal->model, "Annotate what? There is no function here");
    base_text_free(&name);
}

/* All keys that wait. Positive: the reader leaves. */
static int read_keys(struct terminal *terminal, struct base_error *error)
{
    wint_t key;
    for (int kind; (kind = get_wch(&key)) != ERR;) {
        if (kind == KEY_CODE_YES && key == KEY_RESIZE) {
            resize_screen(terminal);
            continue;
        }
        if (kind != KEY_CODE_YES && key == CONTROL_L) {
            clear();
            continue;
        }
        uint32_t pressed = kind == KEY_CODE_YES ? function_key(key) : plain_key(key);
        int answer = pressed ? browse_model_key(&terminal->model, pressed, error) : BROWSE_STAYS;
        if (answer == BROWSE_ANNOTATES)
            annotate_selected_function(terminal);
        else if (answer)
            return answer;
    }
    return 0;
}

/* --- the loop --- */

/* Waits for keys or a signal; the number of the signal, else 0. A change of the window's size interrupts
 * it. */
static int wait_for_something(struct terminal *terminal, bool *hung_up)
{
    struct pollfd ready[] = {{.fd = fileno(terminal->options->in), .events = POLLIN},
                             {.fd = terminal->signals, .events = POLLIN}};
    struct signalfd_siginfo info;
    if (poll(ready, 2, -1) < 0)
        return 0;
    if (ready[1].revents && read(terminal->signals, &info, sizeof info) == (ssize_t)sizeof info)
        return (int)info.ssi_signo;
    *hung_up = ready[0].revents & (POLLHUP | POLLERR | POLLNVAL);
    return 0;
}

static int run_event_loop(struct terminal *terminal, struct base_error *error)
{
    for (bool hung_up = false;;) {
        int result = draw_screen(terminal, error);
        if (result)
            return result;
        int number = wait_for_something(terminal, &hung_up);
        if (number || hung_up)
            return number ? number : SIGHUP;
        result = read_keys(terminal, error);
        if (result)
            return result == BROWSE_QUITS ? 0 : result;
    }
}

/* --- taking the terminal and giving it back --- */

static int catch_signals(struct terminal *terminal, struct base_error *error)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    terminal->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (terminal->signals < 0)
        return base_fail_errno(error, errno, "signalfd");
    sigprocmask(SIG_BLOCK, &mask, &terminal->old_mask);
    return 0;
}

static void set_colors(struct terminal *terminal)
{
    terminal->color = terminal->options->color && has_colors() && start_color() == OK;
    if (!terminal->color)
        return;
    use_default_colors(); /* rows as everything else on this terminal */
    init_pair(PAIR_TITLE, COLOR_WHITE, COLOR_BLUE);
    init_pair(PAIR_CURSOR, COLOR_BLACK, COLOR_CYAN);
}

static int browse_take(struct terminal *terminal, struct base_error *error)
{
    const char *term = getenv("TERM");
    terminal->screen = newterm(NULL, terminal->options->out, terminal->options->in);
    const char *moves =
        terminal->screen ? tigetstr("cup") : NULL; /* the cursor; of dumb ones there is none */
    if (!moves || moves == (const char *)-1)
        return base_fail(error, BASE_EUNSUPPORTED, "cannot draw on a terminal of the kind %s (TERM)",
                         term && *term ? term : "unknown");
    set_term(terminal->screen);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    set_colors(terminal);
    resize_screen(terminal);
    return 0;
}

static void restore_terminal(struct terminal *terminal)
{
    if (terminal->screen) {
        endwin();
        delscreen(terminal->screen);
    }
    close(terminal->signals);
    sigprocmask(SIG_SETMASK, &terminal->old_mask, NULL);
}

int browse_run(const struct profile *profile, const struct browse_options *options, struct base_error *error)
{
    struct terminal terminal = {.options = options};
    bool utf8 = speaks_utf8(options->ascii);
    int result = browse_model_open(&terminal.model, profile, options->file, options->counter, !utf8, error);
    if (result)
        return result;
    result = catch_signals(&terminal, error);
    if (!result) {
        result = browse_take(&terminal, error);
        if (!result)
            result = run_event_loop(&terminal, error);
        restore_terminal(&terminal);
    }
    browse_screen_free(&terminal.drawn);
    browse_model_close(&terminal.model);
    return result;
}
