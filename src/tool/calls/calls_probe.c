#include "calls_probe.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_wait.h"
#include "helper.h"
#include "helper_trace.h"
#include "proc_namespace.h"

#define SIZE 4096u

/* Ends with its parent, whatever becomes of that. */
static _Noreturn void wait_to_be_killed(pid_t tracer)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, (unsigned long)tracer, 0ul, 0ul, 0ul);
    for (;;)
        pause();
}

static int share_code(struct helper *helper, pid_t pid, struct base_error *error)
{
    uint64_t address, here = (uintptr_t)&calls_probe;
    int file;
    struct helper_room room = {
        .low = here, .high = here + SIZE, .size = SIZE, .protection = PROT_READ | PROT_EXEC};
    int result = helper_trace_share(helper, pid, &room, &address, &file, error);
    if (result == BASE_OK)
        close(file);
    return result;
}

static int try_child(struct helper *helper, pid_t pid, struct base_error *error)
{
    int result = helper_trace_follow(helper, pid, error);
    if (result < 0)
        return result;
    result = helper_trace_hold(helper, pid, NULL, error);
    if (result == BASE_OK)
        result = share_code(helper, pid, error);
    helper_trace_leave(helper, pid, NULL);
    return result;
}

int calls_probe(struct base_error *error)
{
    struct helper helper;
    /* If the two processes were created in another PID namespace, the helper would be its first one, whose
     * end waits for this one to reap the other. */
    int result = proc_namespace_check(error);
    if (result == BASE_OK)
        result = helper_begin(&helper, error);
    if (result < 0)
        return result;
    pid_t pid = fork();
    if (pid == 0)
        wait_to_be_killed(helper.pid);
    result = pid < 0 ? base_fail_errno(error, errno, "fork") : try_child(&helper, pid, error);
    helper_end(&helper);
    if (pid > 0) {
        kill(pid, SIGKILL);
        while (base_wait(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return result;
}
