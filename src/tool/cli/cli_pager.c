#include "cli_pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_terminal.h"
#include "base_write.h"
#include "cli_output.h"

enum { NOT_FOUND = 127 };

static bool is_in_path(const char *program)
{
    const char *path = getenv("PATH");
    struct base_text file = {0};
    bool found = false;
    while (path && *path && !found) {
        size_t length = strcspn(path, ":");
        base_text_clear(&file);
        base_text_add_bytes(&file, path, length);
        base_text_addf(&file, "/%s", program);
        found = access(base_text_string(&file), X_OK) == 0;
        path += length + (path[length] == ':');
    }
    base_text_free(&file);
    return found;
}

/* NULL: none. */
static const char *pager_command(void)
{
    const char *command = getenv("TALLY_PAGER");
    if (!command)
        command = getenv("PAGER");
    if (!command)
        command = is_in_path("less") ? "less" : "";
    return *command && strcmp(command, "cat") ? command : NULL;
}

/* In the child: never returns. */
static void become_pager(const char *command, int input, const sigset_t *mask)
{
    setenv("LESS", "FRX", 0);
    setenv("LV", "-c", 0);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (dup2(input, STDIN_FILENO) == STDIN_FILENO)
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(NOT_FOUND);
}

/* A reader that leaves early takes the pipe with him: without a signal, that is only an error of write.
 * Ctrl-C belongs to the pager; Tally waits for it, or the shell's prompt would come between. */
static void ignore_signals(sigset_t *before)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPIPE);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGQUIT);
    sigprocmask(SIG_BLOCK, &blocked, before);
}

/* What is pending is forgotten before the mask is put back. */
static void restore_signals(const sigset_t *before)
{
    static const int numbers[] = {SIGPIPE, SIGINT, SIGQUIT};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (sigaction(numbers[i], &ignore, &old) == 0)
            sigaction(numbers[i], &old, NULL);
    }
    sigprocmask(SIG_SETMASK, before, NULL);
}

static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return status;
}

/* False: there was no pager to start, nothing has been shown. */
static bool show_paged(const struct base_text *text, const char *command, const sigset_t *mask)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    pid_t child = fork();
    if (child == 0)
        become_pager(command, ends[0], mask);
    close(ends[0]);
    if (child > 0)
        base_write(ends[1], text->data, text->length);
    close(ends[1]);
    int status = child > 0 ? wait_for(child) : -1;
    return status != -1 && !(WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND);
}

int cli_pager_show(const struct base_text *text, bool wanted)
{
    const char *command = wanted && base_terminal_is(STDOUT_FILENO) ? pager_command() : NULL;
    sigset_t before;
    if (!command || text->failed)
        return cli_output_text(text);
    ignore_signals(&before);
    bool shown = show_paged(text, command, &before);
    restore_signals(&before);
    return shown ? 0 : cli_output_text(text);
}
