/* cli_say, cli_fail, cli_output, cli_pager: what arrives on the descriptors, to the letter. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "cli_output.h"
#include "cli_pager.h"

enum { SEEN_MOST = 1 << 16 };

static char seen[SEEN_MOST];

static void read_all(int descriptor)
{
    size_t length = 0;
    ssize_t count;
    while ((count = read(descriptor, seen + length, sizeof seen - 1 - length)) > 0)
        length += (size_t)count;
    seen[length] = '\0';
}

/* Runs `act` in a child whose `descriptor` is a pipe; what it wrote is in `seen`. Returns its exit status. */
static int run(int descriptor, int (*act)(void))
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], descriptor);
        close(ends[0]);
        close(ends[1]);
        _exit(act());
    }
    close(ends[1]);
    read_all(ends[0]);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int say_control_characters(void)
{
    cli_say("file '%s' is %d", "a\033[31mb\nc\177\303\244", 5);
    return 0;
}

static int say_long(void)
{
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cli_say("%s", text);
    return 0;
}

static void one_clean_line(void **state)
{
    (void)state;
    run(STDERR_FILENO, say_control_characters);
    assert_string_equal(seen, "tally: file 'a?[31mb?c?\303\244' is 5\n");
    run(STDERR_FILENO, say_long);
    assert_int_equal(strlen(seen), 2047);
    assert_string_equal(seen + 2044, "xx\n");
}

static int fail_command(void)
{
    struct base_error error = {.text = "unknown option --x"};
    return cli_fail_command("tally report", &error);
}

static int fail_plainly(void)
{
    struct base_error error = {.text = "tally.out: not a profile"};
    return cli_fail(&error);
}

static void failures(void **state)
{
    (void)state;
    assert_int_equal(run(STDERR_FILENO, fail_command), CLI_FAILED);
    assert_string_equal(seen, "tally: report: unknown option --x\n");
    assert_int_equal(run(STDERR_FILENO, fail_plainly), CLI_FAILED);
    assert_string_equal(seen, "tally: tally.out: not a profile\n");
}

/* --- standard output --- */

static int write_much(void)
{
    struct base_text text = {0};
    for (int i = 0; i < 6000; i++)
        base_text_addf(&text, "line %04d\n", i);
    return cli_output_text(&text);
}

static int write_to_full(void)
{
    int full = open("/dev/full", O_WRONLY);
    dup2(full, STDOUT_FILENO);
    return write_much();
}

static int write_to_nobody(void)
{
    int ends[2];
    if (pipe(ends) < 0)
        return 99;
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    signal(SIGPIPE, SIG_IGN);
    return write_much();
}

static int write_without_memory(void)
{
    struct base_text text = {.failed = true};
    return cli_output_text(&text);
}

static void everything_or_a_reason(void **state)
{
    (void)state;
    assert_int_equal(run(STDOUT_FILENO, write_much), CLI_OK);
    assert_int_equal(strlen(seen), 60000);
    assert_int_equal(run(STDERR_FILENO, write_to_full), CLI_FAILED);
    assert_string_equal(seen, "tally: cannot write to standard output: No space left on device\n");
    assert_int_equal(run(STDERR_FILENO, write_to_nobody), CLI_PIPE_CLOSED);
    assert_string_equal(seen, "");
    assert_int_equal(run(STDERR_FILENO, write_without_memory), CLI_FAILED);
    assert_string_equal(seen, "tally: cannot write to standard output: Cannot allocate memory\n");
}

static int stdio_to_full(void)
{
    int full = open("/dev/full", O_WRONLY);
    dup2(full, STDOUT_FILENO);
    printf("kept in a buffer until the end");
    return cli_output_close(CLI_OK);
}

static int stdio_after_failure(void)
{
    int full = open("/dev/full", O_WRONLY);
    dup2(full, STDOUT_FILENO);
    printf("x");
    return cli_output_close(7);
}

static void stdio_is_checked_too(void **state)
{
    (void)state;
    assert_int_equal(run(STDERR_FILENO, stdio_to_full), CLI_FAILED);
    assert_string_equal(seen, "tally: cannot write to standard output: No space left on device\n");
    assert_int_equal(run(STDERR_FILENO, stdio_after_failure), 7); /* the first reason was reported already */
    assert_string_equal(seen, "");
}

static int take_closed_descriptors(void)
{
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    cli_output_secure();
    int next = open("/dev/null", O_RDONLY);
    bool unusable = write(STDOUT_FILENO, "x", 1) < 0 && errno == EBADF;
    bool left_at_exec = fcntl(STDOUT_FILENO, F_GETFD) & FD_CLOEXEC;
    return next > 2 && unusable && left_at_exec ? 0 : 1;
}

static void closed_descriptors_are_taken(void **state)
{
    (void)state;
    assert_int_equal(run(STDERR_FILENO, take_closed_descriptors), 0);
}

/* --- the pager --- */

static int show(void)
{
    struct base_text text = {0};
    base_text_add(&text, "shown\n");
    return cli_pager_show(&text, true);
}

/* On a new terminal with `pager`: what comes out of it. */
static int show_on_terminal(const char *pager)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY), status;
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
        dup2(terminal, STDOUT_FILENO);
        dup2(terminal, STDERR_FILENO);
        close(master);
        close(terminal);
        setenv("TALLY_PAGER", pager, 1);
        setenv("PAGER", "echo not this one", 1);
        unsetenv("LESS");
        _exit(show());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    fcntl(master, F_SETFL, O_NONBLOCK);
    read_all(master);
    close(master);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void pager_on_a_terminal_only(void **state)
{
    (void)state;
    setenv("TALLY_PAGER", "sed s/^/paged:/", 1);
    assert_int_equal(run(STDOUT_FILENO, show), CLI_OK);
    assert_string_equal(seen, "shown\n");
    assert_int_equal(show_on_terminal("sed s/^/paged:/"), CLI_OK);
    assert_string_equal(seen, "paged:shown\r\n");
    assert_int_equal(show_on_terminal(""), CLI_OK);
    assert_string_equal(seen, "shown\r\n");
    assert_int_equal(show_on_terminal("cat"), CLI_OK);
    assert_string_equal(seen, "shown\r\n");
    assert_int_equal(show_on_terminal("echo $LESS $LV"), CLI_OK);
    assert_string_equal(seen, "FRX -c\r\n");
}

static void pager_that_is_not_there(void **state)
{
    (void)state;
    assert_int_equal(show_on_terminal("no-such-pager 2> /dev/null"), CLI_OK);
    assert_string_equal(seen, "shown\r\n");
}

static void reader_who_leaves_early(void **state)
{
    (void)state;
    assert_int_equal(show_on_terminal("exit 3"), CLI_OK);
    assert_string_equal(seen, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_clean_line),
        cmocka_unit_test(failures),
        cmocka_unit_test(everything_or_a_reason),
        cmocka_unit_test(stdio_is_checked_too),
        cmocka_unit_test(closed_descriptors_are_taken),
        cmocka_unit_test(pager_on_a_terminal_only),
        cmocka_unit_test(pager_that_is_not_there),
        cmocka_unit_test(reader_who_leaves_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
