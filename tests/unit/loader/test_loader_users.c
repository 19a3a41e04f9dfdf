/* Which threads are inside an agent: threads and records are set by the test, look after look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "helper_trace.h"
#include "loader_users.h"
#include "proc_target.h"
#include "wire_agent_process.h"

enum {
    CODE = 0x100000,
    ELSEWHERE = 0x700000,
    STACK = 0x900000,
    ENTERED = 0xa00000,
    PROCESS = 0x2000000,
    RECORDS = 0x3000000
};
enum { MOST = 4 };

/* What a look finds. */
static struct {
    struct trace_stop_thread threads[MOST];
    size_t count;
    struct wire_agent_process process;
    struct wire_agent_thread records[MOST];
    uint64_t word;                          /* on each stack, where a signal's frame has its pc */
    uint64_t flags;                         /* behind it: eflags, if it is one */
    uint64_t thread_pointers[MOST];         /* by number of the thread */
    struct proc_target_call asleep;         /* where those in the kernel are */
    uint64_t entry[WIRE_AGENT_ENTRY_WORDS]; /* below ENTERED */
    bool put_back;
} world;

int __wrap_helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads,
                                size_t *count, struct base_error *error);
bool __wrap_loader_returns_put_back(struct loader_returns *returns, struct loader_access *access,
                                    const struct trace_stop_thread *threads, size_t count);
size_t __wrap_proc_target_read(pid_t pid, uint64_t address, void *bytes, size_t size);
size_t __wrap_proc_target_stack(pid_t pid, uint64_t sp, uint64_t *words, size_t size);
int __wrap_proc_target_call(pid_t pid, pid_t tid, struct proc_target_call *call);
int __wrap_helper_trace_read_registers(struct helper *helper, pid_t pid, pid_t tid,
                                       struct user_regs_struct *registers, struct base_error *error);

int __wrap_helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads,
                                size_t *count, struct base_error *error)
{
    (void)helper, (void)pid, (void)error;
    *threads = malloc(sizeof world.threads);
    assert_non_null(*threads);
    memcpy(*threads, world.threads, sizeof world.threads);
    *count = world.count;
    return BASE_OK;
}

bool __wrap_loader_returns_put_back(struct loader_returns *returns, struct loader_access *access,
                                    const struct trace_stop_thread *threads, size_t count)
{
    (void)returns, (void)access, (void)threads, (void)count;
    return world.put_back;
}

size_t __wrap_proc_target_read(pid_t pid, uint64_t address, void *bytes, size_t size)
{
    (void)pid;
    uint64_t number = (address - RECORDS) / WIRE_AGENT_THREAD_BYTES;
    const void *from = address == PROCESS ? (void *)&world.process : NULL;
    if (address >= RECORDS && number < MOST)
        from = &world.records[number];
    if (address == ENTERED - sizeof world.entry)
        from = world.entry;
    if (!from)
        return 0;
    memcpy(bytes, from, size);
    return size;
}

size_t __wrap_proc_target_stack(pid_t pid, uint64_t sp, uint64_t *words, size_t size)
{
    (void)pid, (void)size;
    enum { PC = 22, COUNT = 40 };
    if (sp != STACK)
        return 0;
    memset(words, 0, COUNT * sizeof *words);
    words[PC] = world.word;
    words[PC + 1] = world.flags;
    words[PC + 2] = 0x33;
    return COUNT;
}

int __wrap_proc_target_call(pid_t pid, pid_t tid, struct proc_target_call *call)
{
    (void)pid, (void)tid;
    *call = world.asleep;
    return BASE_OK;
}

int __wrap_helper_trace_read_registers(struct helper *helper, pid_t pid, pid_t tid,
                                       struct user_regs_struct *registers, struct base_error *error)
{
    (void)helper, (void)pid, (void)error;
    *registers = (struct user_regs_struct){.fs_base = world.thread_pointers[tid]};
    return BASE_OK;
}

/* --- */

static struct loader_access reached;
static const struct loader_own_range code = {CODE, 0x1000, 1, 0};

static struct loader_users begin_users(bool counted)
{
    struct loader_users users = {.access = &reached, .ranges = &code, .range_count = 1};
    memset(&world, 0, sizeof world);
    world.put_back = true;
    users.process = counted ? PROCESS : 0;
    users.records = RECORDS;
    assert_int_equal(loader_users_begin(&users, false, NULL), BASE_OK);
    return users;
}

static void stands(pid_t tid, uint64_t pc)
{
    world.threads[world.count++] =
        (struct trace_stop_thread){.tid = tid, .state = TRACE_STOP_STOPPED, .pc = pc, .sp = STACK};
}

static void expect(struct loader_users *users, int wanted)
{
    assert_int_equal(loader_users_look(users, NULL), wanted);
    world.count = 0;
}

static void each_is_waited_for_by_itself(void **state)
{
    (void)state;
    struct loader_users users = begin_users(false);
    stands(1, CODE);
    stands(2, ELSEWHERE);
    expect(&users, 1);
    stands(1, ELSEWHERE);
    stands(2, CODE + 0xfff);
    expect(&users, 0);
    assert_int_equal(loader_users_begin(&users, false, NULL), BASE_OK);
    stands(1, ELSEWHERE);
    stands(2, CODE);
    expect(&users, 1);
    loader_users_free(&users);
}

static void one_that_is_new_is_waited_for(void **state)
{
    (void)state;
    struct loader_users users = begin_users(false);
    stands(1, ELSEWHERE);
    expect(&users, 0);
    stands(1, CODE);
    stands(7, CODE);
    expect(&users, 1);
    stands(1, CODE);
    expect(&users, 0);
    stands(1, CODE);
    stands(7, CODE); /* another one of that number */
    expect(&users, 1);
    loader_users_free(&users);
}

static void a_signals_frame_leads_back(void **state)
{
    (void)state;
    struct loader_users users = begin_users(true);
    world.word = CODE + 8;
    world.flags = 0x246;
    stands(1, ELSEWHERE);
    expect(&users, 1);
    world.word = ELSEWHERE;
    stands(1, ELSEWHERE);
    expect(&users, 0);
    loader_users_free(&users);
}

/* The numbers behind it are a program's own. */
static void an_old_return_address_leads_nowhere(void **state)
{
    (void)state;
    struct loader_users users = begin_users(true);
    world.word = CODE + 8;
    world.flags = 0x3b;
    stands(1, ELSEWHERE);
    expect(&users, 0);
    loader_users_free(&users);
}

/* As long as functions that unwind are hooked, a thread in one of them is outside. */
static void who_unwinds_is_outside_of_the_rest(void **state)
{
    (void)state;
    struct loader_users users = begin_users(true);
    assert_int_equal(loader_users_begin(&users, true, NULL), BASE_OK);
    world.process.thread_count = 2;
    world.thread_pointers[1] = 0x7100;
    world.thread_pointers[2] = 0x7200;
    world.records[0] =
        (struct wire_agent_thread){.key = 0x7100, .tid = 31, .inside = WIRE_AGENT_INSIDE_ALONE};
    stands(1, CODE + 4);
    expect(&users, 1);
    world.records[0].inside = WIRE_AGENT_INSIDE_UNWINDING;
    stands(1, CODE + 4);
    stands(2, CODE + 4); /* has no record: it is about to enter or to leave */
    expect(&users, 1);
    world.word = CODE + 8; /* a handler interrupted it in a hook, and unwinds */
    world.flags = 0x246;
    world.records[1] =
        (struct wire_agent_thread){.key = 0x7200, .tid = 32, .inside = WIRE_AGENT_INSIDE_UNWINDING};
    stands(1, CODE + 4);
    stands(2, CODE + 4);
    expect(&users, 1);
    world.word = 0;
    stands(1, CODE + 4);
    stands(2, CODE + 4);
    expect(&users, 0);
    assert_int_equal(loader_users_begin(&users, false, NULL),
                     BASE_OK); /* now those hooks are put back, too */
    stands(1, CODE + 4);
    expect(&users, 1);
    world.records[0].inside = world.records[1].inside = WIRE_AGENT_OUTSIDE;
    stands(1, CODE + 4);
    expect(&users, 1);
    stands(1, ELSEWHERE);
    expect(&users, 0);
    loader_users_free(&users);
}

/* A thread that is not asleep may go on. */
static void who_does_not_sleep_is_reported(void **state)
{
    (void)state;
    struct loader_users users = begin_users(false);
    stands(1, CODE);
    expect(&users, 1);
    assert_true(users.awake);
    stands(1, CODE);
    world.threads[0].in_call = true;
    expect(&users, 1);
    assert_false(users.awake);
    loader_users_free(&users);
}

static void one_asleep_in_a_call_is_where_the_kernel_says(void **state)
{
    (void)state;
    const struct trace_stop_thread asleep = {.tid = 3, .state = TRACE_STOP_KERNEL};
    struct loader_users users = begin_users(false);
    world.asleep = (struct proc_target_call){.number = 58, .pc = CODE, .sp = STACK};
    world.threads[world.count++] = asleep;
    expect(&users, 1);
    world.asleep.pc = ELSEWHERE;
    world.asleep.number = -1; /* it may be about to do anything */
    world.threads[world.count++] = asleep;
    expect(&users, 1);
    world.asleep.number = 58;
    world.threads[world.count++] = asleep;
    expect(&users, 0);
    loader_users_free(&users);
}

static void a_record_counts_until_its_owner_has_left(void **state)
{
    (void)state;
    struct loader_users users = begin_users(true);
    world.process.thread_count = 2;
    world.records[1] = (struct wire_agent_thread){.key = 1, .tid = 5, .inside = 1};
    expect(&users, 1);
    world.records[1].inside = 0;
    expect(&users, 0);
    world.records[1].inside = 1; /* by a hook that is still set */
    expect(&users, 0);
    world.records[1].tid = 6; /* created by a thread inside */
    expect(&users, 1);
    world.records[1].tid = 0; /* not known whose */
    expect(&users, 1);
    world.records[1].key = 0;
    expect(&users, 0);
    loader_users_free(&users);
}

static void put_entry(uint64_t called, uint64_t linked, uint64_t caller)
{
    memset(world.entry, 0, sizeof world.entry);
    world.entry[12] = called;
    world.entry[14] = linked;
    world.entry[WIRE_AGENT_ENTRY_WORDS - 1] = caller;
}

/* By an exception: the words of the entry have been overwritten, or are another entry's. */
static void who_left_is_not_counted(void **state)
{
    (void)state;
    struct loader_users users = begin_users(true);
    world.process.thread_count = 1;
    world.records[0] =
        (struct wire_agent_thread){.key = 1, .tid = 5, .inside = WIRE_AGENT_INSIDE, .entered_sp = ENTERED};
    put_entry(CODE + 8, ELSEWHERE, ELSEWHERE);
    expect(&users, 1);
    put_entry(CODE + 8, ELSEWHERE, CODE + 16); /* the return address was replaced, or will be */
    expect(&users, 1);
    put_entry(CODE + 8, CODE + 16, ELSEWHERE);
    expect(&users, 1);
    world.records[0].inside = WIRE_AGENT_INSIDE_ALONE;
    put_entry(ELSEWHERE, ELSEWHERE, ELSEWHERE);
    expect(&users, 1);
    world.records[0].inside = WIRE_AGENT_INSIDE;
    expect(&users, 0);
    assert_int_equal(loader_users_begin(&users, false, NULL), BASE_OK);
    put_entry(CODE + 8, ELSEWHERE + 4, ELSEWHERE); /* of a function that was called there later */
    expect(&users, 0);
    loader_users_free(&users);
}

static void threads_without_a_record_count(void **state)
{
    (void)state;
    struct loader_users users = begin_users(true);
    world.process.unrecorded = 2;
    expect(&users, 1);
    world.process.unrecorded = 0;
    expect(&users, 0);
    world.put_back = false;
    expect(&users, 1);
    loader_users_free(&users);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_waited_for_by_itself),
        cmocka_unit_test(one_that_is_new_is_waited_for),
        cmocka_unit_test(a_signals_frame_leads_back),
        cmocka_unit_test(an_old_return_address_leads_nowhere),
        cmocka_unit_test(who_unwinds_is_outside_of_the_rest),
        cmocka_unit_test(who_does_not_sleep_is_reported),
        cmocka_unit_test(one_asleep_in_a_call_is_where_the_kernel_says),
        cmocka_unit_test(a_record_counts_until_its_owner_has_left),
        cmocka_unit_test(who_left_is_not_counted),
        cmocka_unit_test(threads_without_a_record_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
