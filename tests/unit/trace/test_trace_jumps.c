/* Threads that are on a jump in padding, or return to it from a handler, when the padding is restored. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace_child.h"
#include "trace_jumps.h"
#include "trace_stop.h"

enum { AT = 3, DESTINATION = 64, TRAP = 128, SPIN = 192, PAGE = 4096, RIGHT = 42, RAN_THROUGH = 9 };

/* All breakpoints, but for the jump, where it leads, and a place to spin. The child has a copy. */
static uint8_t *page;
static struct trace_child_shared *own;

static void must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_int_equal(result, BASE_OK);
}

static struct trace_memory_change island(size_t length)
{
    const int32_t distance = DESTINATION - AT - 5;
    struct trace_memory_change change = {.address = (uint64_t)(uintptr_t)page, .length = length};
    memset(change.before, TRACE_MEMORY_BREAKPOINT, AT + 5);
    memset(change.after, TRACE_MEMORY_BREAKPOINT, AT + 5);
    change.after[AT] = 0xe9;
    memcpy(change.after + AT + 1, &distance, sizeof distance);
    return change;
}

static void make_page(void)
{
    static const uint8_t returns[] = {0xb8, RIGHT, 0, 0, 0, 0xc3}; /* mov $RIGHT, %eax; ret */
    static const uint8_t spins[] = {0xeb, 0xfe};
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    memset(page, TRACE_MEMORY_BREAKPOINT, PAGE);
    memcpy(page + DESTINATION, returns, sizeof returns);
    memcpy(page + SPIN, spins, sizeof spins);
    memcpy(page, island(AT + 5).after, AT + 5);
}

/* --- in the child --- */

static void wait_for_stop(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    trace_child_ready(own);
    while (!atomic_load(&own->stop))
        nanosleep(&moment, NULL);
}

/* The frame becomes one of a signal that came while the thread was on the jump. A word that only has the
 * same value is the program's. */
static void interrupt(int signal, siginfo_t *info, void *context)
{
    static bool before;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    volatile uint64_t innocent[4] = {(uint64_t)(uintptr_t)page + AT, 0, 0x33, 0};
    (void)signal;
    (void)info;
    if (before)
        _exit(RAN_THROUGH);
    before = true;
    registers[REG_RIP] = (greg_t)innocent[0];
    wait_for_stop();
    if (innocent[0] != (uint64_t)(uintptr_t)page + AT)
        trace_child_wrong(own, "a word that is in no frame", (long)innocent[0]);
}

static int run(struct trace_child_shared *shared, size_t at, int flags)
{
    static uint8_t stack[64 << 10];
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO | flags};
    own = shared;
    sigaltstack(&alternate, NULL);
    sigaction(SIGTRAP, &action, NULL);
    return ((int (*)(void))(uintptr_t)(page + at))();
}

static int be_interrupted(struct trace_child_shared *shared)
{
    return run(shared, TRAP, 0);
}

static int be_interrupted_elsewhere(struct trace_child_shared *shared)
{
    return run(shared, TRAP, SA_ONSTACK);
}

static int spin(struct trace_child_shared *shared)
{
    trace_child_ready(shared);
    return run(shared, SPIN, 0);
}

/* --- in the test --- */

struct session {
    struct trace_child child;
    struct trace_stop stop;
    struct trace_memory memory;
};

static struct session begin(trace_child_function *function)
{
    struct session session = {.child = trace_child_start(function, 1)};
    struct base_error error = {0};
    must(trace_stop_begin(&session.stop, session.child.pid, &error), &error);
    must(trace_memory_open(&session.memory, session.child.pid, &error), &error);
    return session;
}

static int finish(struct session *session)
{
    trace_memory_close(&session->memory);
    assert_int_equal(trace_stop_end(&session->stop), 0);
    trace_stop_free(&session->stop);
    return trace_child_finish(&session->child);
}

/* A change may end within the jump, where its last bytes are as they were. */
static void take_away(struct session *session, size_t length, bool on)
{
    struct base_error error = {0};
    struct trace_memory_change change = island(length);
    if (on) { /* the same bytes, with before and after exchanged */
        memcpy(change.before, island(length).after, sizeof change.before);
        memcpy(change.after, island(length).before, sizeof change.after);
    }
    must(trace_jumps_leave(&session->stop, &session->memory, &change, 1, on, &error), &error);
    const uint8_t *to = on ? change.after : change.before;
    must(trace_memory_write(&session->memory, change.address, to, AT + 5, &error), &error);
}

static void a_handler_returns_to_where_the_jump_leads(void **state)
{
    (void)state;
    for (size_t length = AT + 1; length <= AT + 5; length++)
        for (int on = 0; on < 2; on++) {
            struct session session = begin(be_interrupted);
            take_away(&session, length, on);
            assert_int_equal(finish(&session), RIGHT);
        }
}

static void so_does_one_on_a_stack_of_its_own(void **state)
{
    (void)state;
    struct session session = begin(be_interrupted_elsewhere);
    take_away(&session, AT + 5, false);
    assert_int_equal(finish(&session), RIGHT);
}

static void a_handler_returns_to_a_jump_that_stays(void **state)
{
    (void)state;
    struct session session = begin(be_interrupted);
    struct base_error error = {0};
    struct trace_memory_change change = island(AT + 5);
    must(trace_jumps_leave(&session.stop, &session.memory, &change, 1, true, &error),
         &error); /* the jump is written */
    assert_int_equal(finish(&session), RIGHT);
}

static void set_pc(struct session *session, size_t at)
{
    struct user_regs_struct registers;
    struct base_error error = {0};
    must(trace_stop_read(&session->stop, session->child.pid, &registers, &error), &error);
    registers.rip = (uint64_t)(uintptr_t)page + at;
    must(trace_stop_write(&session->stop, session->child.pid, &registers, &error), &error);
}

static bool is_spinning(const struct session *session)
{
    return trace_stop_find(&session->stop, session->child.pid)->pc == (uint64_t)(uintptr_t)page + SPIN;
}

static void a_thread_on_the_jump_is_moved_to_its_target(void **state)
{
    (void)state;
    const struct timespec moment = {.tv_nsec = 1000000};
    struct session session = begin(spin);
    struct base_error error = {0};
    for (int i = 0; i < 5000 && !is_spinning(&session); i++) {
        trace_stop_end(&session.stop);
        nanosleep(&moment, NULL);
        must(trace_stop_begin(&session.stop, session.child.pid, &error), &error);
    }
    assert_true(is_spinning(&session));
    set_pc(&session, AT);
    take_away(&session, AT + 5, false);
    assert_int_equal(finish(&session), RIGHT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_returns_to_where_the_jump_leads),
        cmocka_unit_test(so_does_one_on_a_stack_of_its_own),
        cmocka_unit_test(a_handler_returns_to_a_jump_that_stays),
        cmocka_unit_test(a_thread_on_the_jump_is_moved_to_its_target),
    };
    make_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
