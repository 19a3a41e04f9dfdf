/* The line of progress: nothing within half a second or where it could not be wiped away, then what is done
 * in per cent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli_progress.h"

static char shown[512];

/* What has come out of the pipe since the last time. */
static const char *out(int end)
{
    memset(shown, 0, sizeof shown);
    ssize_t length = read(end, shown, sizeof shown - 1);
    return length > 0 ? shown : "";
}

static struct cli_progress since(int descriptor, int seconds)
{
    struct cli_progress progress = {.descriptor = descriptor};
    clock_gettime(CLOCK_MONOTONIC, &progress.begin);
    progress.begin.tv_sec -= seconds;
    return progress;
}

static void lines(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct cli_progress progress = since(ends[1], 60);
    cli_progress_show(&progress, "loading x\n\033[2J", 1, 3);
    assert_string_equal(out(ends[0]), "\rtally: loading x??[2J: 33 %\033[K");
    cli_progress_show(&progress, "again", 2, 3); /* at once: too soon */
    cli_progress_show(&progress, "adding up", 0, 0);
    assert_string_equal(out(ends[0]), "\rtally: adding up\033[K");
    progress.last.tv_sec--;
    cli_progress_show(&progress, "more than there was", 9, 3);
    assert_string_equal(out(ends[0]), "\rtally: more than there was: 100 %\033[K");
    cli_progress_end(&progress);
    assert_string_equal(out(ends[0]), "\r\033[K");
    cli_progress_end(&progress); /* once */
    close(ends[1]);
    assert_string_equal(out(ends[0]), "");
    close(ends[0]);
}

static void quiet(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct cli_progress early = since(ends[1], 0), nowhere = since(-1, 60);
    cli_progress_show(&early, "early", 1, 2);
    cli_progress_end(&early);
    cli_progress_show(&nowhere, "nowhere", 1, 2);
    cli_progress_end(&nowhere);
    close(ends[1]);
    assert_string_equal(out(ends[0]), "");
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(quiet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
