#include "base_terminal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base_options.h"

enum { WIDTH_OTHERWISE = 80, WIDTH_MOST = 100000 };

bool base_terminal_is(int descriptor)
{
    return isatty(descriptor) == 1;
}

/* 0: not set, or nonsense. */
static unsigned columns_of_environment(void)
{
    const char *text = getenv("COLUMNS");
    uint64_t columns;
    if (!text || base_options_read_number(text, &columns, NULL) < 0 || columns > WIDTH_MOST)
        return 0;
    return (unsigned)columns;
}

unsigned base_terminal_width(int descriptor)
{
    unsigned columns = columns_of_environment();
    struct winsize size;
    if (columns)
        return columns;
    if (!base_terminal_is(descriptor))
        return 0;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : WIDTH_OTHERWISE;
}

static bool is_dumb(void)
{
    const char *term = getenv("TERM");
    return !term || !*term || !strcmp(term, "dumb");
}

bool base_terminal_redraws(int descriptor)
{
    return base_terminal_is(descriptor) && !is_dumb();
}

bool base_terminal_color(int descriptor, enum base_terminal_color choice)
{
    const char *none = getenv("NO_COLOR");
    if (choice != BASE_COLOR_AUTO)
        return choice == BASE_COLOR_ALWAYS;
    return !(none && *none) && base_terminal_redraws(descriptor);
}

bool base_terminal_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *locale = getenv(names[i]);
        if (locale && *locale)
            return strcasestr(locale, "UTF-8") || strcasestr(locale, "utf8");
    }
    return true;
}

int base_terminal_open(int descriptor)
{
    char path[64];
    if (!base_terminal_is(descriptor))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

bool base_terminal_foreground(int descriptor)
{
    return !base_terminal_is(descriptor) || tcgetpgrp(descriptor) == getpgrp();
}

bool base_terminal_line_mode(int descriptor)
{
    struct termios modes;
    return tcgetattr(descriptor, &modes) != 0 || modes.c_lflag & ICANON;
}
