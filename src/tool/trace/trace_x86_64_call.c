#include "trace_x86_64_call.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

/* linux/errno.h: -ERESTARTSYS, -ERESTARTNOHAND, -ERESTART_RESTARTBLOCK */
#define ANSWER_RESTART                (-512)
#define ANSWER_RESTART_UNLESS_HANDLED (-514)
#define ANSWER_GO_ON                  (-516)

bool trace_x86_64_call_restart(struct user_regs_struct *registers)
{
    static const long interrupted_by_any_stop[] = {
        SYS_epoll_wait,
        SYS_epoll_pwait,
        SYS_epoll_pwait2,
        SYS_semop,
        SYS_semtimedop,
        SYS_rt_sigtimedwait,
        SYS_io_getevents,
        SYS_io_pgetevents,
        SYS_io_uring_enter,
        /* On sockets with a time-out (SO_RCVTIMEO, SO_SNDTIMEO). connect is not in the list: made again, it
         * is another call. */
        SYS_read,
        SYS_write,
        SYS_readv,
        SYS_writev,
        SYS_recvfrom,
        SYS_recvmsg,
        SYS_sendto,
        SYS_sendmsg,
        SYS_accept,
        SYS_accept4,
    };
    if ((long)registers->rax != -EINTR)
        return false;
    for (size_t i = 0; i < sizeof interrupted_by_any_stop / sizeof *interrupted_by_any_stop; i++)
        if ((long)registers->orig_rax == interrupted_by_any_stop[i]) {
            registers->rax = (unsigned long long)ANSWER_RESTART_UNLESS_HANDLED;
            return true;
        }
    return false;
}

bool trace_x86_64_call_is_cut(const struct user_regs_struct *registers)
{
    long answer = (long)registers->rax;
    return (long)registers->orig_rax >= 0 &&
           ((answer <= ANSWER_RESTART && answer >= ANSWER_RESTART_UNLESS_HANDLED) || answer == ANSWER_GO_ON);
}

bool trace_x86_64_call_is_vfork(long number)
{
    return number == SYS_vfork || number == SYS_clone || number == SYS_clone3;
}

struct user_regs_struct trace_x86_64_call_make(const struct user_regs_struct *registers, uint64_t at,
                                               long number, const uint64_t arguments[6])
{
    struct user_regs_struct made = *registers;
    made.rip = at;
    made.rax = (unsigned long long)number;
    made.orig_rax = (unsigned long long)-1;
    made.rdi = arguments[0];
    made.rsi = arguments[1];
    made.rdx = arguments[2];
    made.r10 = arguments[3];
    made.r8 = arguments[4];
    made.r9 = arguments[5];
    return made;
}

size_t trace_x86_64_call_find(const uint8_t *bytes, size_t size)
{
    static const uint8_t instruction[] = {0x0f, 0x05};
    const uint8_t *found = memmem(bytes, size, instruction, sizeof instruction);
    return found ? (size_t)(found - bytes) : SIZE_MAX;
}

bool trace_x86_64_call_is_32_bit(const struct user_regs_struct *registers)
{
    return registers->cs == 0x23;
}
