#include "cli_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_write.h"
#include "cli.h"

void cli_output_secure(void)
{
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* open() returns the lowest free descriptor, which is `descriptor`. */
        if (open("/dev/null", (descriptor ? O_RDONLY : O_WRONLY) | O_CLOEXEC) != descriptor)
            return;
    }
}

static int fail_writing(int number)
{
    if (number == EPIPE)
        return CLI_PIPE_CLOSED;
    cli_say("cannot write to standard output: %s", strerror(number));
    return CLI_FAILED;
}

int cli_output_text(const struct base_text *text)
{
    if (text->failed)
        return fail_writing(ENOMEM);
    return base_write(STDOUT_FILENO, text->data, text->length) ? CLI_OK : fail_writing(errno);
}

/* close itself can fail too: NFS and quotas tell only then. */
int cli_output_close(int status)
{
    errno = 0;
    bool failed = ferror(stdout);
    if (fclose(stdout) != 0)
        failed = true;
    int number = errno ? errno : EIO;
    return failed && status == CLI_OK ? fail_writing(number) : status;
}
