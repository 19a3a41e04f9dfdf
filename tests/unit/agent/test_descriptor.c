/* The agent's table of descriptors (agent_call_descriptor.c): hooked bodies of the test's own say what the
 * kernel would have given. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"
#include "wire_agent_entry.h"

#define AWAY __attribute__((noinline, noclone))

enum { THREADS = 8, ROUNDS = 4000, OF_THREAD = 64 };

typedef long call_function(long first, long second, long third, long fourth);

static struct agent_rig rig;
static call_function *opening, *outer, *duplicating_to, *fcntl_like, *signalling, *pairing, *socket_pairing,
    *receiving, *receiving_many, *closing, *closing_range, *forking;
static jmp_buf jump;
static long result_of_body, calls_of_body;

/* --- bodies --- */

static AWAY long body(long first, long second, long third, long fourth)
{
    (void)first, (void)second, (void)third, (void)fourth;
    __atomic_fetch_add(&calls_of_body, 1, __ATOMIC_RELAXED);
    return result_of_body;
}

/* Gives what it is asked for. */
static AWAY long echo(long first, long second, long third, long fourth)
{
    (void)second, (void)third, (void)fourth;
    if (first == -2)
        longjmp(jump, 1);
    return first;
}

/* As creat calls open. */
static AWAY long outer_body(long first, long second, long third, long fourth)
{
    long volatile result = opening(first, second, third, fourth);
    return result;
}

static AWAY long pair_body(long first, long second, long third, long fourth)
{
    (void)third;
    int *pair = (int *)(second == 4 ? fourth : first);
    pair[0] = 40, pair[1] = 41;
    return result_of_body;
}

static AWAY long fork_body(long first, long second, long third, long fourth)
{
    (void)first, (void)second, (void)third, (void)fourth;
    return fork();
}

static call_function *hook(enum wire_agent_how how, call_function *of)
{
    return (call_function *)agent_rig_hook_published(&rig, "agent_entry_descriptor", (void *)of,
                                                     WIRE_AGENT_COOKIE(WIRE_AGENT_ENTRY_DESCRIPTOR, how));
}

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){.flags = WIRE_AGENT_FOLLOW});
    rig.process->timed = 1;
    rig.process->pid_inside = (uint32_t)getpid();
    opening = hook(WIRE_AGENT_OPENED, echo);
    outer = hook(WIRE_AGENT_EVENT, outer_body);
    duplicating_to = hook(WIRE_AGENT_DUPLICATED_TO, body);
    fcntl_like = hook(WIRE_AGENT_FCNTL, body);
    signalling = hook(WIRE_AGENT_SIGNAL, body);
    pairing = hook(WIRE_AGENT_PIPE, pair_body);
    socket_pairing = hook(WIRE_AGENT_SOCKETPAIR, pair_body);
    receiving = hook(WIRE_AGENT_RECEIVED, body);
    receiving_many = hook(WIRE_AGENT_RECEIVED_MANY, body);
    closing = (call_function *)agent_rig_hook(&rig, "agent_entry_close", (void *)body);
    closing_range = (call_function *)agent_rig_hook(&rig, "agent_entry_close_range", (void *)body);
    forking = (call_function *)agent_rig_hook(&rig, "agent_entry_fork", (void *)fork_body);
    result_of_body = calls_of_body = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

/* --- what the table says --- */

static uint64_t word_in(const struct wire_agent_process *process, uint32_t number)
{
    return ((const struct wire_agent_descriptor *)((uintptr_t)process + rig.layout.descriptors))[number].word;
}

static uint64_t word_of(uint32_t number)
{
    return word_in(rig.process, number);
}

static void is_open_by(uint32_t number, enum wire_agent_how how)
{
    assert_int_not_equal(word_of(number), 0);
    assert_int_equal(wire_agent_word_how(word_of(number)), how);
    assert_true(rig.process->descriptor_end > number);
}

static uint32_t open_count(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WIRE_AGENT_DESCRIPTORS; i++)
        count += word_of(i) != 0;
    return count;
}

static uint64_t used(void)
{
    return agent_rig_read(&rig, rig.process, 0, 0).count;
}

static void no_losses(void)
{
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        assert_int_equal(rig.process->losses[i], 0);
}

/* --- opening --- */

static void test_opened_and_closed(void **state)
{
    (void)state;
    rig.control->now_ns = 77000;
    assert_int_equal(opening(7, 0, 0, 0), 7);
    is_open_by(7, WIRE_AGENT_OPENED);
    const struct wire_agent_descriptor *table =
        (const void *)((uintptr_t)rig.process + rig.layout.descriptors);
    assert_int_equal(table[7].since_ns, 77000);
    assert_int_equal(opening(-1, 0, 0, 0), -1);
    assert_int_equal(opening(0, 0, 0, 0), 0);
    assert_int_equal(used(), 2);
    assert_int_equal(open_count(), 2);
    result_of_body = -1;
    assert_int_equal(closing(7, 0, 0, 0), -1); /* what fails with EIO has closed */
    assert_int_equal(closing(7, 0, 0, 0), -1);
    assert_int_equal(closing(-1, 0, 0, 0), -1);
    assert_int_equal(closing(WIRE_AGENT_DESCRIPTORS, 0, 0, 0), -1);
    assert_int_equal(calls_of_body, 4);
    assert_int_equal(word_of(7), 0);
    assert_int_equal(open_count(), 1);
    no_losses();
}

/* The cell is that of the caller's stack. */
static AWAY long here(long number)
{
    long volatile result = opening(number, 0, 0, 0);
    return result;
}

static void test_by_stack(void **state)
{
    (void)state;
    here(5);
    const struct wire_agent_cell *cells = agent_rig_cells(&rig, rig.process);
    uint64_t node = cells[wire_agent_word_cell(word_of(5))].node;
    uint64_t pc = agent_rig_nodes(&rig, rig.process)[node].pc;
    assert_in_range(pc, (uint64_t)here, (uint64_t)here + 256);
    assert_int_equal(agent_rig_read(&rig, rig.process, (uint64_t)here, (uint64_t)here + 256).count, 1);
}

/* One number, of two calls: the inner one has it. */
static void test_one_calls_another(void **state)
{
    (void)state;
    assert_int_equal(outer(9, 0, 0, 0), 9);
    is_open_by(9, WIRE_AGENT_OPENED);
    assert_int_equal(used(), 1);
    assert_int_equal(closing(9, 0, 0, 0), 0);
    assert_int_equal(outer(9, 0, 0, 0), 9); /* the number again, and by a new event */
    assert_int_equal(used(), 2);
    no_losses();
}

/* Calls that open only with certain arguments. */
static void test_arguments(void **state)
{
    (void)state;
    result_of_body = 12;
    duplicating_to(12, 12, 0, 0);
    fcntl_like(3, F_GETFD, 0, 0);
    fcntl_like(3, F_SETFL, 0, 0);
    signalling(12, 0, 0, 0);
    assert_int_equal(open_count(), 0);
    fcntl_like(3, F_DUPFD, 0, 0);
    is_open_by(12, WIRE_AGENT_DUPLICATED);
    uint64_t before = word_of(12);
    duplicating_to(3, 12, 0, 0); /* over an open one */
    is_open_by(12, WIRE_AGENT_DUPLICATED_TO);
    assert_int_not_equal(word_of(12), before);
    result_of_body = 13;
    fcntl_like(3, F_DUPFD_CLOEXEC, 0, 0);
    is_open_by(13, WIRE_AGENT_DUPLICATED);
    result_of_body = 14;
    signalling(0xffffffff, 0, 0, 0);
    is_open_by(14, WIRE_AGENT_SIGNAL);
    assert_int_equal(used(), 4);
    assert_int_equal(calls_of_body, 8);
    no_losses();
}

static void test_pairs(void **state)
{
    (void)state;
    int pair[2];
    result_of_body = -1;
    pairing((long)pair, 0, 0, 0);
    assert_int_equal(open_count(), 0);
    result_of_body = 0;
    pairing((long)pair, 0, 0, 0);
    is_open_by(40, WIRE_AGENT_PIPE);
    is_open_by(41, WIRE_AGENT_PIPE);
    socket_pairing(1, 4, 0, (long)pair);
    is_open_by(40, WIRE_AGENT_SOCKETPAIR);
    assert_int_equal(used(), 4);
    assert_int_equal(open_count(), 2);
    no_losses();
}

/* --- messages --- */

struct letter {
    union {
        char bytes[512];
        struct cmsghdr aligned;
    } control;
    size_t used;
};

static void put(struct letter *letter, int level, int type, unsigned count, int first)
{
    struct cmsghdr *header = (void *)(letter->control.bytes + letter->used);
    int *numbers = (void *)CMSG_DATA(header);
    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (unsigned i = 0; i < count; i++)
        numbers[i] = first + (int)i;
    letter->used += CMSG_SPACE(count * sizeof(int));
}

static struct msghdr header_of(struct letter *letter)
{
    return (struct msghdr){.msg_control = letter->control.bytes, .msg_controllen = letter->used};
}

static void test_message(void **state)
{
    (void)state;
    struct letter letter = {.used = 0};
    put(&letter, SOL_SOCKET, SCM_RIGHTS, 3, 20);
    put(&letter, SOL_SOCKET, SCM_CREDENTIALS, 3, 30);
    put(&letter, SOL_SOCKET, SCM_RIGHTS, 1, 50);
    put(&letter, SOL_SOCKET + 1, SCM_RIGHTS, 1, 60);
    struct msghdr header = header_of(&letter);
    result_of_body = 1;
    assert_int_equal(receiving(3, (long)&header, 0, 0), 1);
    for (uint32_t i = 20; i < 23; i++)
        is_open_by(i, WIRE_AGENT_RECEIVED);
    is_open_by(50, WIRE_AGENT_RECEIVED);
    assert_int_equal(open_count(), 4);
    assert_int_equal(used(), 4);
    result_of_body = -1;
    closing_range(0, 100, 0, 0);
    assert_int_equal(receiving(3, (long)&header, 0, 0), -1);
    assert_int_equal(open_count(), 0);
    no_losses();
}

/* Sizes that lie, and addresses that nobody may read: nothing is taken from them, and the body has its
 * say. */
static void test_hostile_message(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 15, 16, 17, 19, 64 << 10, UINT64_MAX, UINT64_MAX - 7};
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    munmap(page + 4096, 4096);
    struct letter letter = {.used = 0};
    put(&letter, SOL_SOCKET, SCM_RIGHTS, 1, 20);
    struct cmsghdr *part = &letter.control.aligned;
    result_of_body = 1;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct msghdr header = header_of(&letter);
        part->cmsg_len = sizes[i];
        assert_int_equal(receiving(3, (long)&header, 0, 0), 1);
        part->cmsg_len = 0;
        header.msg_controllen = sizes[i];
        assert_int_equal(receiving(3, (long)&header, 0, 0), 1);
    }
    long wild[] = {0, 1, 8, (long)(page + 4096), (long)(page + 4096 - 24), -64, -8, INT64_MAX};
    for (unsigned i = 0; i < sizeof wild / sizeof *wild; i++) {
        struct msghdr header = {.msg_control = (void *)wild[i], .msg_controllen = 64};
        assert_int_equal(receiving(3, wild[i], 0, 0), 1);
        assert_int_equal(receiving(3, (long)&header, 0, 0), 1);
        assert_int_equal(receiving_many(3, wild[i], 5, 0), 1);
        assert_int_equal(receiving_many(3, wild[i], UINT32_MAX, 0), 1);
    }
    assert_int_equal(open_count(), 0);
    assert_int_equal(calls_of_body, 2 * 9 + 4 * 8);
    munmap(page, 4096);
}

/* As many messages as the call says it got: the others' control data are of before. */
static void test_many_messages(void **state)
{
    (void)state;
    struct letter letters[4] = {{.used = 0}, {.used = 0}, {.used = 0}, {.used = 0}};
    struct mmsghdr messages[4];
    memset(messages, 0, sizeof messages);
    for (unsigned i = 0; i < 4; i++) {
        if (i != 1)
            put(&letters[i], SOL_SOCKET, SCM_RIGHTS, 2, 100 + 10 * (int)i);
        messages[i].msg_hdr = header_of(&letters[i]);
    }
    result_of_body = 3;
    assert_int_equal(receiving_many(3, (long)messages, 4, 0), 3);
    assert_int_equal(open_count(), 4);
    is_open_by(100, WIRE_AGENT_RECEIVED_MANY);
    is_open_by(121, WIRE_AGENT_RECEIVED_MANY);
    assert_int_equal(word_of(130), 0);
    result_of_body = 0;
    receiving_many(3, (long)messages, 4, 0);
    receiving_many(3, (long)messages, 0, 0);
    receiving_many(3, (long)&messages[1], 1, 0); /* no room for any */
    assert_int_equal(used(), 4);
    no_losses();
}

/* --- closing --- */

static void test_ranges(void **state)
{
    (void)state;
    for (long i = 10; i < 30; i++)
        opening(i, 0, 0, 0);
    closing_range(12, 14, 4 /* CLOSE_RANGE_CLOEXEC */, 0);
    closing_range(14, 12, 0, 0);
    closing_range(12, 14, 64, 0); /* fails */
    assert_int_equal(open_count(), 20);
    closing_range(12, 14, 0, 0);
    assert_int_equal(open_count(), 17);
    closing_range(15, 16, 2 /* CLOSE_RANGE_UNSHARE */, 0);
    assert_int_equal(open_count(), 15);
    closing_range(25, UINT32_MAX, 0, 0);
    assert_int_equal(open_count(), 10);
    assert_int_equal(word_of(24) != 0, 1);
    assert_int_equal(calls_of_body, 6);
    no_losses();
}

/* Numbers beyond the table are a loss, and a call whose return is not seen. */
static void test_losses(void **state)
{
    (void)state;
    assert_int_equal(opening(WIRE_AGENT_DESCRIPTORS, 0, 0, 0), WIRE_AGENT_DESCRIPTORS);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RESULT], 1);
    opening(WIRE_AGENT_DESCRIPTORS - 1, 0, 0, 0);
    is_open_by(WIRE_AGENT_DESCRIPTORS - 1, WIRE_AGENT_OPENED);
    rig.process->timed = 0;
    assert_int_equal(opening(5, 0, 0, 0), 5);
    assert_int_equal(word_of(5), 0);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RESULT], 2);
}

/* A call that is left by a jump has no outcome, and harms none that comes later. */
static void test_left_by_a_jump(void **state)
{
    (void)state;
    for (volatile long i = 0; i < 50; i++) {
        if (setjmp(jump) == 0)
            opening(-2, 0, 0, 0);
        assert_int_equal(opening(i, 0, 0, 0), i);
    }
    assert_int_equal(open_count(), 50);
    assert_int_equal(used(), 50);
}

/* --- whose table --- */

/* Who runs in the memory of another process (vfork) has descriptors of its own. */
static void test_another_process_in_our_memory(void **state)
{
    (void)state;
    opening(6, 0, 0, 0);
    rig.process->pid_inside = (uint32_t)getpid() + 1;
    opening(7, 0, 0, 0);
    closing(6, 0, 0, 0);
    closing_range(0, 100, 0, 0);
    assert_int_equal(open_count(), 1);
    is_open_by(6, WIRE_AGENT_OPENED);
}

static void test_not_counting(void **state)
{
    (void)state;
    opening(6, 0, 0, 0);
    rig.process->state = WIRE_AGENT_LEFT;
    assert_int_equal(opening(7, 0, 0, 0), 7);
    assert_int_equal(closing(6, 0, 0, 0), 0);
    rig.process->state = WIRE_AGENT_RUNNING;
    assert_int_equal(open_count(), 1);
    assert_int_equal(calls_of_body, 1);
}

static void end_child(int status)
{
    _exit(status);
}

/* The child has what was open at the fork, also what its parent closed right after; what it opens is its
 * own. */
static void test_forked(void **state)
{
    (void)state;
    int gate[2];
    char byte;
    assert_int_equal(pipe(gate), 0);
    opening(10, 0, 0, 0), opening(11, 0, 0, 0), opening(12, 0, 0, 0);
    closing(11, 0, 0, 0);
    pid_t child = (pid_t)forking(0, 0, 0, 0);
    if (child == 0) {
        if (read(gate[0], &byte, 1) != 1)
            end_child(1);
        opening(20, 0, 0, 0);
        closing(10, 0, 0, 0);
        end_child(0);
    }
    closing(12, 0, 0, 0);
    int status = -1;
    assert_int_equal(write(gate[1], "g", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const struct wire_agent_process *its = agent_rig_process(&rig, 1);
    assert_int_equal(its->pid_inside, child);
    assert_int_equal(word_in(its, 10), 0);
    assert_int_equal(word_in(its, 11), 0);
    assert_int_equal(wire_agent_word_how(word_in(its, 12)), WIRE_AGENT_INHERITED);
    assert_int_equal(wire_agent_word_cell(word_in(its, 12)), 0);
    assert_int_equal(wire_agent_word_how(word_in(its, 20)), WIRE_AGENT_OPENED);
    assert_int_equal(agent_rig_read(&rig, its, 0, 0).count, 1);
    is_open_by(10, WIRE_AGENT_OPENED);
    assert_int_equal(word_of(12), 0);
    assert_int_equal(word_of(20), 0);
    close(gate[0]), close(gate[1]);
}

/* --- threads --- */

/* Each has numbers of its own, as the kernel would see to. */
static void *churn(void *argument)
{
    long first = 1000 + OF_THREAD * (long)(intptr_t)argument;
    for (long i = 0; i < ROUNDS; i++) {
        long number = first + i % OF_THREAD;
        if (i >= OF_THREAD)
            closing(number, 0, 0, 0);
        outer(number, 0, 0, 0);
    }
    for (long i = 0; i < OF_THREAD; i += 2)
        closing(first + i, 0, 0, 0);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(used(), THREADS * ROUNDS);
    assert_int_equal(open_count(), THREADS * OF_THREAD / 2);
    no_losses();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_opened_and_closed),
        TEST(test_by_stack),
        TEST(test_one_calls_another),
        TEST(test_arguments),
        TEST(test_pairs),
        TEST(test_message),
        TEST(test_hostile_message),
        TEST(test_many_messages),
        TEST(test_ranges),
        TEST(test_losses),
        TEST(test_left_by_a_jump),
        TEST(test_another_process_in_our_memory),
        TEST(test_not_counting),
        TEST(test_forked),
        TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
