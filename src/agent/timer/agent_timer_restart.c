/* What the timers' signal does to a system call that another signal ends.
 *
 * By itself it ends none (agent_timer.c, 1). But when a tick has found a thread in the kernel before it began
 * to wait, the timer's signal is made as soon as something else ends the waiting, and as it is the thread's
 * own it is taken before those that were sent to the whole process (kernel/signal.c, get_signal and
 * dequeue_signal). Then the kernel asks our handler's flags what becomes of the call, and takes our frame for
 * what the call's own signal mask was for. Three things would differ from what the program knows:
 *
 *   1. A call that may begin anew (ERESTARTSYS) does, because of SA_RESTART, though the handler that follows
 *      wants EINTR: alarm() before a read would not end it. So what comes next is looked at, and if it has no
 *      SA_RESTART the call ends.
 *   2. sigsuspend, ppoll, pselect and epoll_pwait would end with EINTR before the handler ran that they
 *      waited for, with its signal blocked again. So their signals are let in at the end of our handler,
 *      where nothing is held any more. Not on an alternative stack that has no room for a second frame of the
 *      kernel's and for a handler that may have been written for the thread's own stack: there the call ends
 *      with EINTR, and the thread's timer with it.
 *   3. poll, nanosleep, and a futex with a time-out that a tracer's stop, or SIGSTOP and SIGCONT, interrupt are
 *      continued with the time that is left: the kernel steps the thread back to its syscall instruction, with
 *      the number of restart_syscall. A tick between there and the call comes before it, and rt_sigreturn makes
 *      the kernel forget how to go on: the call would end with EINTR, which has no reason that the program
 *      knows. So the handler goes back without rt_sigreturn (agent_timer_x86_64_continue.S). Not where a signal
 *      of the program's waits, whose handler ends the call in any case; nor where the way back is not all known:
 *      a shadow stack, closed memory, a stack for signals that is disarmed while it is used, a debugger's step.
 *      There the call ends with EINTR.
 *
 * All are seen by the registers: rcx is the address behind the call after every return from the kernel, r11
 * the flags, and the arguments are as they were. In the first case the same registers may stand before a call
 * that was not made yet, the next one of a loop; in the third nobody but the kernel has that number there. So
 * it is ended only if it would wait now, as the kernel says (poll, and fcntl of the descriptor), flags of the
 * call or the word of a futex: then a signal that came a moment later would have ended it the same way. A call
 * that would not wait is let begin, which is right in both cases. rax is the number again in the first case,
 * and -EINTR in the second, where the C library's code in front of the call gives the number, or that the
 * arguments do. What does not look like that is left alone; as it ends its thread's timer (agent_timer.c, 1)
 * that is once in a thread at most. It is never made again: a handler of the program's that blocked our signal,
 * and has returned, leaves the same registers behind, and meant what it did.
 *
 * Source: arch/x86/kernel/signal.c, handle_signal and arch_do_signal_or_restart; signal_64.c, rt_sigreturn;
 * kernel/signal.c; signal(7); restart_syscall(2); AMD64 Architecture Programmer's Manual 3, SYSCALL, and 4,
 * XRSTOR. */
#include "agent_timer_restart.h"

#include <sys/syscall.h>

#include "agent_may.h"
#include "agent_readable.h"

#define EINTR_ANSWER    (-4)
#define RESTART         UINT64_C(0x10000000) /* SA_RESTART */
#define SIGNALS         64
#define SET_BYTES       8
#define SET_MASK        2 /* SIG_SETMASK */
#define CALL_BYTES      2 /* 0f 05 */
#define NUMBER_BYTES    5 /* b8, and four of the number */
#define FUTEX_OPERATION 127
#define PWAIT2          441 /* SYS_epoll_pwait2, which old headers lack */
#define OPENAT2         437
#define STEP_FLAGS      UINT64_C(0x10100) /* RF, TF: a debugger's */
#define TRAP_FLAG       UINT64_C(0x100)
#define WAIT_FOR_ALL    0x100 /* MSG_WAITALL */
#define MESSAGE_AT_ONCE 0x40  /* MSG_DONTWAIT */
#define FILE_AT_ONCE    8     /* RWF_NOWAIT */
#define GET_FLAGS       3     /* F_GETFL */
#define NEVER_WAITS     04000 /* O_NONBLOCK */
#define READABLE        1     /* POLLIN */
#define RED_ZONE        128
#define HANDLER_ROOM    16384
#define STACK_DISARMED  UINT64_C(0x80000000) /* SS_AUTODISARM */
#define VECTOR_MAGIC_AT 464                  /* struct _fpx_sw_bytes */
#define VECTOR_MAGIC    0x46505853u          /* FP_XSTATE_MAGIC1 */

/* The kernel's ucontext, as a handler gets it (arch/x86/include/uapi/asm/sigcontext.h). */
struct context {
    uint64_t flags, link, stack[3];
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
    uint64_t rflags, segments, error, trap, blocked_before, address, vectors, reserved[8];
    uint64_t blocked;
};
_Static_assert(__builtin_offsetof(struct context, rip) == 40 + 128, "struct sigcontext");
_Static_assert(__builtin_offsetof(struct context, blocked) == 40 + 256, "struct ucontext");

static bool is_syscall(uint64_t address)
{
    const uint8_t *code = (const uint8_t *)address;
    return agent_readable(address) && agent_readable(address + 1) && code[0] == 0x0f && code[1] == 0x05;
}

static bool is_ended(const struct context *found)
{
    return (int64_t)found->rax == EINTR_ANSWER && is_syscall(found->rip - CALL_BYTES);
}

/* --- 1. calls that begin anew --- */

/* Those that wait, and may then end with EINTR. */
static bool may_end_call(const struct context *found)
{
    static const uint16_t calls[] = {
        SYS_read,      SYS_write,        SYS_readv,          SYS_writev,   SYS_preadv,   SYS_pwritev,
        SYS_preadv2,   SYS_pwritev2,     SYS_ioctl,          SYS_connect,  SYS_accept,   SYS_accept4,
        SYS_sendto,    SYS_sendmsg,      SYS_sendmmsg,       SYS_recvfrom, SYS_recvmsg,  SYS_recvmmsg,
        SYS_wait4,     SYS_waitid,       SYS_fcntl,          SYS_flock,    SYS_open,     SYS_openat,
        OPENAT2,       SYS_creat,        SYS_splice,         SYS_tee,      SYS_vmsplice, SYS_sendfile,
        SYS_getrandom, SYS_mq_timedsend, SYS_mq_timedreceive};
    uint64_t operation = found->rsi & FUTEX_OPERATION;
    if (found->rax == SYS_futex)
        return operation == 0 ||
               operation == 9; /* FUTEX_WAIT, FUTEX_WAIT_BITSET; those with priorities never end so */
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        if (found->rax == calls[i])
            return true;
    return false;
}

/* Those that are over at once when poll says that there is something to read. */
static bool is_read_call(const struct context *found)
{
    switch (found->rax) {
    case SYS_read:
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_accept:
    case SYS_accept4:
        return true;
    case SYS_recvfrom:
        return !(found->r10 & WAIT_FOR_ALL);
    case SYS_recvmsg:
        return !(found->rdx & WAIT_FOR_ALL);
    default:
        return false;
    }
}

static bool holds_word(uint64_t address, uint32_t word)
{
    return address >= sizeof(uint64_t) && agent_readable(address) &&
           agent_readable(address + sizeof word - 1) &&
           __atomic_load_n((const uint32_t *)address, __ATOMIC_RELAXED) == word;
}

/* How calls say that they do not wait: by flags of their own, or by the descriptor that is their first
 * argument. Others may wait on a descriptor that never waits, as fcntl does for a lock; or their first
 * argument is none. */
enum first { NO_DESCRIPTOR, DESCRIPTOR, DESCRIPTOR_DECIDES };

static enum first first_argument(const struct context *found)
{
    switch (found->rax) {
    case SYS_wait4:
    case SYS_waitid:
    case SYS_open:
    case SYS_openat:
    case OPENAT2:
    case SYS_creat:
    case SYS_getrandom:
        return NO_DESCRIPTOR;
    case SYS_ioctl:
    case SYS_fcntl:
    case SYS_flock:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_sendfile:
        return DESCRIPTOR;
    default:
        return DESCRIPTOR_DECIDES;
    }
}

static bool is_nonblocking_call(const struct context *found)
{
    switch (found->rax) {
    case SYS_recvfrom:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmmsg:
        return (found->r10 & MESSAGE_AT_ONCE) != 0;
    case SYS_recvmsg:
    case SYS_sendmsg:
        return (found->rdx & MESSAGE_AT_ONCE) != 0;
    case SYS_preadv2:
    case SYS_pwritev2:
        return (found->r9 & FILE_AT_ONCE) != 0;
    default:
        return false;
    }
}

static bool never_waits(const struct context *found)
{
    enum first first = first_argument(found);
    if (first == NO_DESCRIPTOR)
        return false;
    if ((int32_t)found->rdi < 0 || is_nonblocking_call(found)) /* poll ignores what is no descriptor */
        return true;
    int64_t flags = first == DESCRIPTOR_DECIDES
                        ? arch_host_syscall(SYS_fcntl, (uint32_t)found->rdi, GET_FLAGS, 0, 0, 0, 0)
                        : 0;
    return flags < 0 || (flags & NEVER_WAITS) != 0;
}

/* Would the call wait, if it began now? True also where that cannot be asked without an effect. */
static bool would_wait(const struct context *found)
{
    struct {
        int32_t file;
        int16_t events, found;
    } asked = {(int32_t)found->rdi, READABLE, 0};
    if (found->rax == SYS_futex)
        return holds_word(found->rdi, (uint32_t)found->rdx);
    if (never_waits(found))
        return false;
    return !is_read_call(found) || arch_host_syscall(SYS_poll, (uint64_t)&asked, 1, 0, 0, 0, 0) <= 0;
}

/* The next handler that runs: does it let calls begin anew? */
static bool ends_calls(uint64_t signals)
{
    for (uint64_t signal = 1; signal <= SIGNALS; signal++) {
        struct wire_agent_action action = {0, 0, 0, 0};
        if (!(signals >> (signal - 1) & 1))
            continue;
        arch_host_syscall(SYS_rt_sigaction, signal, 0, (uint64_t)&action, SET_BYTES, 0, 0);
        if (action.handler > 1) /* neither default nor ignored */
            return !(action.flags & RESTART);
    }
    return false;
}

void agent_timer_restart_settle(void *context)
{
    struct context *found = context;
    if (found->rcx != found->rip + CALL_BYTES || ((found->r11 ^ found->rflags) & ~STEP_FLAGS) ||
        !may_end_call(found) || !is_syscall(found->rip))
        return;
    if (!ends_calls(agent_may_pending() & ~found->blocked) || !would_wait(found))
        return;
    found->rax = (uint64_t)EINTR_ANSWER;
    found->rip += CALL_BYTES;
}

/* --- 2. calls with a signal mask of their own --- */

static uint64_t mask_of_pair(uint64_t pair)
{
    bool whole = pair != 0 && agent_readable(pair) && agent_readable(pair + 15);
    const uint64_t *words = (const uint64_t *)pair; /* of pselect6: the address and the size of the mask */
    return whole && words[1] == SET_BYTES ? words[0] : 0;
}

static uint64_t mask_by_number(const struct context *found, uint64_t number)
{
    switch (number) {
    case SYS_rt_sigsuspend:
        return found->rdi;
    case SYS_ppoll:
        return found->r10;
    case SYS_epoll_pwait:
    case PWAIT2:
        return found->r8;
    case SYS_pselect6:
        return mask_of_pair(found->r9);
    default:
        return 0;
    }
}

/* Where arguments that are not used are zeros: by where the size of a mask is. */
static uint64_t mask_by_size(const struct context *found)
{
    if (found->r9 == SET_BYTES)
        return found->r8;
    if (found->r9 != 0)
        return mask_of_pair(found->r9);
    if (found->r8 == SET_BYTES)
        return found->r10;
    return found->r8 == 0 && found->r10 == 0 && found->rdx == 0 && found->rsi == SET_BYTES ? found->rdi : 0;
}

static bool ends_with(const uint8_t *code, const uint8_t *expected, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        if (code[i] != expected[i])
            return false;
    return true;
}

/* Calls that end threads have one syscall in common, in musl and in newer versions of glibc: behind mov %r11,
 * 8(%rsp); and in musl without pthread_cancel as all of a function: mov %rcx, %rdx; syscall; ret. */
static bool is_common(uint64_t behind)
{
    static const uint8_t ending[] = {0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05};
    static const uint8_t alone[] = {0x48, 0x89, 0xca, 0x0f, 0x05, 0xc3};
    const uint8_t *code = (const uint8_t *)behind;
    return ends_with(code - sizeof ending, ending, sizeof ending) ||
           (agent_readable(behind) && ends_with(code + 1 - sizeof alone, alone, sizeof alone));
}

/* The address of that mask; 0: none, or it is not known which call it was. */
static uint64_t mask_of(const struct context *found)
{
    const uint8_t *code = (const uint8_t *)(found->rip - CALL_BYTES - NUMBER_BYTES);
    uint64_t number = 0;
    if (!agent_readable((uint64_t)code))
        return 0;
    for (unsigned i = 4; i > 0; i--)
        number = number << 8 | code[i];
    return is_common(found->rip) ? mask_by_size(found) : code[0] == 0xb8 ? mask_by_number(found, number) : 0;
}

/* Signals that wait, and that this mask lets through, not the one of now. */
static uint64_t signals_kept_out(const struct context *found, uint64_t mask)
{
    if (mask == 0 || !agent_readable(mask) || !agent_readable(mask + SET_BYTES - 1))
        return 0;
    return agent_may_pending() & found->blocked & ~*(const uint64_t *)mask;
}

/* The kernel's next frame is as large as the one that our handler got: from the stack's end, or from what was
 * interrupted on it. */
static bool has_handler_room(const struct context *found)
{
    uint64_t here = (uint64_t)__builtin_frame_address(0), start = found->stack[0], size = found->stack[2];
    if (here - start >= size)
        return true; /* the thread's own */
    uint64_t top = found->rsp - start < size ? found->rsp - RED_ZONE : start + size;
    return here - start >= top - (uint64_t)found + HANDLER_ROOM;
}

void agent_timer_restart_let_in(const void *context)
{
    const struct context *found = context;
    const uint64_t all = UINT64_MAX;
    if (!is_ended(found) || found->rcx != found->rip)
        return;
    uint64_t mask = mask_of(found);
    if (signals_kept_out(found, mask) == 0 || !has_handler_room(found))
        return;
    arch_host_syscall(SYS_rt_sigprocmask, SET_MASK, mask, 0, SET_BYTES, 0, 0); /* they come here */
    if (agent_may(WIRE_AGENT_CALL_MASK)) /* else one of them has forbidden it */
        arch_host_syscall(SYS_rt_sigprocmask, SET_MASK, (uint64_t)&all, 0, SET_BYTES, 0, 0);
}

bool agent_timer_restart_was_ended(const void *context)
{
    const struct context *found = context;
    return is_ended(found) &&
           (signals_kept_out(found, mask_of(found)) != 0 ? !has_handler_room(found)
                                                         : !(agent_may_pending() & ~found->blocked));
}

/* --- 3. calls that are continued --- */

/* What the kernel saved of vector registers is as XRSTOR wants it. */
static bool has_vectors(const struct context *found)
{
    const uint32_t *magic = (const uint32_t *)(found->vectors + VECTOR_MAGIC_AT);
    return found->vectors != 0 && *magic == VECTOR_MAGIC;
}

bool agent_timer_restart_is_continued(const void *context)
{
    const struct context *found = context;
    return found->rax == SYS_restart_syscall && found->rcx == found->rip + CALL_BYTES &&
           is_syscall(found->rip) && !(found->rflags & TRAP_FLAG) && !(found->stack[1] & STACK_DISARMED) &&
           has_vectors(found) && agent_may(WIRE_AGENT_CALL_TIMERS | WIRE_AGENT_CALL_MASK) &&
           !(agent_may_pending() & ~found->blocked);
}
