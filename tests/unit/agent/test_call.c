/* What becomes of a system call where a sample was taken: contexts as the kernel makes them, with signals
 * that really wait. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"

#define ENDED (-4) /* -EINTR */

static struct agent_rig rig;
static void (*settle)(void *context), (*let_in)(const void *context);
static bool (*was_ended)(const void *context);
static volatile sig_atomic_t caught;
static sigset_t kept;
static int empty[2]; /* a pipe */
static uint32_t word;

static void on_signal(int signal)
{
    caught = signal;
}

static void take(int signal, int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    assert_int_equal(sigaction(signal, &action, NULL), 0);
}

/* Two signals wait for the whole test. */
static int set_up(void **state)
{
    (void)state;
    sigset_t set;
    agent_rig_begin(&rig, &(struct agent_rig_options){.memory = 0});
    settle = (void (*)(void *))agent_rig_symbol(&rig, "agent_timer_restart_settle");
    let_in = (void (*)(const void *))agent_rig_symbol(&rig, "agent_timer_restart_let_in");
    was_ended = (bool (*)(const void *))agent_rig_symbol(&rig, "agent_timer_restart_was_ended");
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    take(SIGUSR1, 0);
    take(SIGUSR2, SA_RESTART);
    sigprocmask(SIG_BLOCK, &set, &kept);
    assert_int_equal(pipe(empty), 0);
    caught = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sigprocmask(SIG_SETMASK, &kept, NULL);
    close(empty[0]);
    close(empty[1]);
    agent_rig_end(&rig);
    return 0;
}

/* The code of a call as C libraries have it; the context behind it, or in front. */
static uint8_t code[64];

static uint64_t write_call(uint32_t number)
{
    memset(code, 0x90, sizeof code);
    code[16] = 0xb8;
    memcpy(code + 17, &number, sizeof number);
    code[21] = 0x0f;
    code[22] = 0x05;
    return (uint64_t)&code[21];
}

static ucontext_t context_of(uint32_t number, bool behind)
{
    ucontext_t context;
    uint64_t at = write_call(number);
    memset(&context, 0, sizeof context);
    context.uc_mcontext.gregs[REG_RIP] = (greg_t)(at + (behind ? 2 : 0));
    context.uc_mcontext.gregs[REG_RCX] = (greg_t)(at + 2);
    context.uc_mcontext.gregs[REG_RAX] = behind ? ENDED : (greg_t)number;
    context.uc_mcontext.gregs[REG_EFL] = context.uc_mcontext.gregs[REG_R11] = 0x246;
    context.uc_mcontext.gregs[REG_RDI] = number == SYS_futex ? (greg_t)&word : empty[0];
    return context;
}

static void check_settled(ucontext_t *context, bool ends)
{
    greg_t rip = context->uc_mcontext.gregs[REG_RIP], rax = context->uc_mcontext.gregs[REG_RAX];
    settle(context);
    assert_int_equal(context->uc_mcontext.gregs[REG_RIP], rip + (ends ? 2 : 0));
    assert_int_equal(context->uc_mcontext.gregs[REG_RAX], ends ? ENDED : rax);
}

static void check_call(uint32_t number, bool ends)
{
    ucontext_t context = context_of(number, false);
    check_settled(&context, ends);
}

static void test_nobody_waits(void **state)
{
    (void)state;
    check_call(SYS_read, false);
}

static void test_ends(void **state)
{
    (void)state;
    raise(SIGUSR1);
    check_call(SYS_read, true);
    check_call(SYS_openat, true);
    check_call(SYS_wait4, true);
    check_call(SYS_getpid, false); /* these never end so */
    check_call(SYS_clone, false);
    check_call(SYS_lseek, false);
}

static void test_goes_on(void **state)
{
    (void)state;
    raise(SIGUSR2);
    check_call(SYS_read, false);
    raise(SIGUSR1); /* it is the first of the two */
    check_call(SYS_read, true);
}

static void test_futex(void **state)
{
    (void)state;
    raise(SIGUSR1);
    const struct {
        greg_t operation;
        bool ends;
    } cases[] = {{0, true}, {128, true}, {9 | 256, true}, {6, false}, {128 | 6, false}, {1, false}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        ucontext_t context = context_of(SYS_futex, false);
        context.uc_mcontext.gregs[REG_RSI] = cases[i].operation;
        check_settled(&context, cases[i].ends);
    }
}

/* Registers look the same before the next call of a loop, which has not been made: one that would not wait is
 * let begin. */
static void test_would_not_wait(void **state)
{
    static const uint32_t calls[] = {SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_accept};
    (void)state;
    raise(SIGUSR1);
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        check_call(calls[i], true);
    assert_int_equal(write(empty[1], "x", 1), 1);
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
        check_call(calls[i], false);
    ucontext_t context = context_of(SYS_recvfrom, false);
    context.uc_mcontext.gregs[REG_R10] = MSG_WAITALL; /* may wait for more */
    check_settled(&context, true);
    context = context_of(SYS_read, false);
    context.uc_mcontext.gregs[REG_RDI] = open("/proc/self/exe", O_RDONLY); /* a file never waits */
    check_settled(&context, false);
    close((int)context.uc_mcontext.gregs[REG_RDI]);
    context = context_of(SYS_futex, false);
    context.uc_mcontext.gregs[REG_RDX] = 1; /* the word is another */
    check_settled(&context, false);
    context.uc_mcontext.gregs[REG_RDI] = 1; /* nothing is there */
    check_settled(&context, false);
}

/* What the call or its descriptor says is not to wait is let begin, whatever is to be had. */
static void test_is_not_to_wait(void **state)
{
    static const struct {
        uint32_t number;
        int flags_register;
        greg_t flags;
    } flagged[] = {{SYS_recvfrom, REG_R10, MSG_DONTWAIT}, {SYS_recvmmsg, REG_R10, MSG_DONTWAIT},
                   {SYS_sendto, REG_R10, MSG_DONTWAIT},   {SYS_sendmmsg, REG_R10, MSG_DONTWAIT},
                   {SYS_recvmsg, REG_RDX, MSG_DONTWAIT},  {SYS_sendmsg, REG_RDX, MSG_DONTWAIT},
                   {SYS_preadv2, REG_R9, RWF_NOWAIT},     {SYS_pwritev2, REG_R9, RWF_NOWAIT}};
    static const uint32_t by_descriptor[] = {SYS_read, SYS_write, SYS_connect, SYS_accept4, SYS_sendmsg};
    static const uint32_t others[] = {SYS_fcntl, SYS_flock, SYS_ioctl};
    (void)state;
    raise(SIGUSR1);
    for (unsigned i = 0; i < sizeof flagged / sizeof *flagged; i++) {
        check_call(flagged[i].number, true);
        ucontext_t context = context_of(flagged[i].number, false);
        context.uc_mcontext.gregs[flagged[i].flags_register] = flagged[i].flags;
        check_settled(&context, false);
    }
    ucontext_t context = context_of(SYS_read, false);
    context.uc_mcontext.gregs[REG_RDI] = -1;
    check_settled(&context, false);
    context = context_of(SYS_openat, false);
    context.uc_mcontext.gregs[REG_RDI] = AT_FDCWD;
    check_settled(&context, true);
    context = context_of(SYS_wait4, false);
    context.uc_mcontext.gregs[REG_RDI] = -1;
    check_settled(&context, true);
    for (unsigned i = 0; i < sizeof by_descriptor / sizeof *by_descriptor; i++)
        check_call(by_descriptor[i], true);
    assert_int_equal(fcntl(empty[0], F_SETFL, O_NONBLOCK), 0);
    for (unsigned i = 0; i < sizeof by_descriptor / sizeof *by_descriptor; i++)
        check_call(by_descriptor[i], false);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        check_call(others[i], true);
}

/* What does not look like a call that begins anew is left alone. */
static void test_no_call(void **state)
{
    (void)state;
    raise(SIGUSR1);
    ucontext_t context = context_of(SYS_read, false);
    sigaddset(&context.uc_sigmask, SIGUSR1);
    check_settled(&context, false);
    context = context_of(SYS_read, false);
    context.uc_mcontext.gregs[REG_RCX]++;
    check_settled(&context, false);
    context = context_of(SYS_read, false);
    context.uc_mcontext.gregs[REG_R11] ^= 0x40; /* the kernel was entered with other flags */
    check_settled(&context, false);
    context = context_of(SYS_read, false);
    code[22] = 0x0b;
    check_settled(&context, false);
    context = context_of(SYS_read, false);
    context.uc_mcontext.gregs[REG_RIP] = -4096; /* where nothing is */
    context.uc_mcontext.gregs[REG_RCX] = -4094;
    check_settled(&context, false);
    take(SIGUSR1, 0);
    signal(SIGUSR1, SIG_DFL);
    context = context_of(SYS_read, false);
    check_settled(&context, false);
    signal(SIGUSR1, SIG_IGN); /* drops it */
}

/* The code ends with its page. */
static void test_edge(void **state)
{
    (void)state;
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(munmap(pages + 4096, 4096), 0);
    raise(SIGUSR1);
    ucontext_t context = context_of(SYS_read, false);
    pages[4095] = 0x0f;
    context.uc_mcontext.gregs[REG_RIP] = (greg_t)(pages + 4095);
    context.uc_mcontext.gregs[REG_RCX] = (greg_t)(pages + 4097);
    check_settled(&context, false);
    pages[4094] = 0x0f;
    pages[4095] = 0x05;
    context.uc_mcontext.gregs[REG_RIP] = (greg_t)(pages + 4094);
    context.uc_mcontext.gregs[REG_RCX] = (greg_t)(pages + 4096);
    check_settled(&context, true);
    assert_false(was_ended(&context)); /* by the signal that waits */
    munmap(pages, 4096);
}

static void test_was_ended(void **state)
{
    (void)state;
    ucontext_t context = context_of(SYS_nanosleep, true);
    assert_true(was_ended(&context));
    context.uc_mcontext.gregs[REG_RAX] = -5;
    assert_false(was_ended(&context));
    context = context_of(SYS_nanosleep, true);
    code[21] = 0x90;
    assert_false(was_ended(&context));
    raise(SIGUSR2);
    context = context_of(SYS_nanosleep, true);
    assert_false(was_ended(&context));
    sigaddset(&context.uc_sigmask, SIGUSR2);
    assert_true(was_ended(&context));
}

/* Nobody's signal is to be seen: of a handler that has returned none is, and its call must not begin anew. */
static void test_stays_ended(void **state)
{
    (void)state;
    const uint32_t calls[] = {SYS_pause, SYS_poll, SYS_read, SYS_accept, SYS_futex, SYS_nanosleep};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        ucontext_t context = context_of(calls[i], true);
        check_settled(&context, false);
        assert_true(was_ended(&context));
    }
}

/* --- calls with a mask of their own --- */

static void check_let_in(uint32_t number, int mask_at, uint64_t mask, int expected)
{
    ucontext_t context = context_of(number, true);
    context.uc_sigmask = kept;
    sigaddset(&context.uc_sigmask, SIGUSR1);
    context.uc_mcontext.gregs[mask_at] = (greg_t)mask;
    caught = 0;
    raise(SIGUSR1);
    assert_int_equal(was_ended(&context), expected == 0);
    let_in(&context);
    assert_int_equal(caught, expected);
    sigset_t now;
    sigprocmask(SIG_SETMASK, &context.uc_sigmask, &now);         /* as the end of a handler does */
    assert_int_equal(sigismember(&now, SIGTERM), expected != 0); /* all are blocked again */
}

static void test_let_in(void **state)
{
    (void)state;
    const uint64_t none = 0, other = UINT64_C(1) << (SIGUSR1 - 1);
    const uint64_t pair[2] = {(uint64_t)&none, 8};
    check_let_in(SYS_rt_sigsuspend, REG_RDI, (uint64_t)&none, SIGUSR1);
    check_let_in(SYS_ppoll, REG_R10, (uint64_t)&none, SIGUSR1);
    check_let_in(SYS_pselect6, REG_R9, (uint64_t)pair, SIGUSR1);
    check_let_in(SYS_epoll_pwait, REG_R8, (uint64_t)&none, SIGUSR1);
    check_let_in(441, REG_R8, (uint64_t)&none, SIGUSR1);
    check_let_in(SYS_ppoll, REG_R10, (uint64_t)&other, 0); /* it does not wait for that */
    check_let_in(SYS_ppoll, REG_R10, 0, 0);
    check_let_in(SYS_ppoll, REG_R10, 8, 0);
    check_let_in(SYS_pselect6, REG_R9, 8, 0);
    check_let_in(SYS_pselect6, REG_R9, 0, 0);
    check_let_in(SYS_poll, REG_R10, (uint64_t)&none, 0);
}

/* On an alternative stack of that size, of which so much is left below. */
static void check_room(uint64_t below, uint64_t size, int expected)
{
    const uint64_t none = 0;
    ucontext_t context = context_of(SYS_rt_sigsuspend, true);
    context.uc_mcontext.gregs[REG_RDI] = (greg_t)&none;
    context.uc_stack.ss_sp = (void *)((uint64_t)&context - below);
    context.uc_stack.ss_size = size;
    context.uc_sigmask = kept;
    sigaddset(&context.uc_sigmask, SIGUSR1);
    caught = 0;
    raise(SIGUSR1);
    assert_int_equal(was_ended(&context), expected == 0);
    let_in(&context);
    assert_int_equal(caught, expected);
    sigprocmask(SIG_SETMASK, &context.uc_sigmask, NULL);
}

/* A second frame and a handler need room; on the thread's own stack there is. */
static void test_room(void **state)
{
    (void)state;
    check_room(UINT64_C(1) << 20, (UINT64_C(1) << 20) + 4096, SIGUSR1);
    check_room(8192, 12288, 0);
    check_room(24576, 24576 + 16384, 0); /* its own frame took 16 KiB */
    check_room(8192, 1024, SIGUSR1);     /* it is elsewhere */
}

/* One syscall for all calls: what is not used is 0. */
static void check_form(ucontext_t context, bool ending, int expected)
{
    static const uint8_t forms[2][9] = {{0x90, 0x90, 0x48, 0x89, 0xca, 0x0f, 0x05, 0xc3},
                                        {0x4c, 0x89, 0x5c, 0x24, 0x08, 0x0f, 0x05, 0x90}};
    ucontext_t now = context_of(0, true);
    memcpy(code + 16, forms[ending], 8);
    for (int i = REG_R8; i < REG_RIP; i++)
        if (i != REG_RAX && i != REG_RCX)
            now.uc_mcontext.gregs[i] = context.uc_mcontext.gregs[i];
    now.uc_sigmask = kept;
    sigaddset(&now.uc_sigmask, SIGUSR1);
    caught = 0;
    raise(SIGUSR1);
    assert_int_equal(was_ended(&now), expected == 0);
    let_in(&now);
    assert_int_equal(caught, expected);
    sigprocmask(SIG_SETMASK, &now.uc_sigmask, NULL);
}

static void check_common(ucontext_t context, int expected)
{
    check_form(context, false, expected);
    check_form(context, true, expected);
}

static void test_common(void **state)
{
    (void)state;
    const uint64_t none = 0, pair[2] = {(uint64_t)&none, 8}, odd[2] = {(uint64_t)&none, 16};
    const greg_t mask = (greg_t)&none;
#define CONTEXT(...)                                                                                         \
    (ucontext_t)                                                                                             \
    {                                                                                                        \
        .uc_mcontext.gregs = { __VA_ARGS__ }                                                                 \
    }
    check_common(CONTEXT([REG_RDI] = mask, [REG_RSI] = 8), SIGUSR1);               /* sigsuspend */
    check_common(CONTEXT([REG_RSI] = 3, [REG_R10] = mask, [REG_R8] = 8), SIGUSR1); /* ppoll */
    check_common(CONTEXT([REG_RDI] = 3, [REG_R8] = mask, [REG_R9] = 8), SIGUSR1);  /* epoll_pwait */
    check_common(CONTEXT([REG_RDI] = 3, [REG_R9] = (greg_t)pair), SIGUSR1);        /* pselect */
    check_common(CONTEXT([REG_RDI] = 3, [REG_R9] = (greg_t)odd), 0);
    check_common(CONTEXT([REG_RDI] = mask, [REG_RSI] = mask), 0);                             /* nanosleep */
    check_common(CONTEXT([REG_RDI] = mask, [REG_RSI] = 8, [REG_RDX] = -1), 0);                /* poll */
    check_common(CONTEXT([REG_RDI] = 1, [REG_RSI] = mask, [REG_RDX] = 8, [REG_R10] = -1), 0); /* epoll_wait */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_nobody_waits), TEST(test_ends),           TEST(test_goes_on),        TEST(test_futex),
        TEST(test_no_call),      TEST(test_would_not_wait), TEST(test_is_not_to_wait), TEST(test_edge),
        TEST(test_was_ended),    TEST(test_stays_ended),    TEST(test_let_in),         TEST(test_room),
        TEST(test_common)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
