/* The agent's heap wrappers over forks, execs and requests to tally: who is counted, who waits for an answer
 * and how long. */
#include "heap_rig.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"

/* --- forks --- */

static unsigned child_work(void)
{
    heap_hooked_free(heap_hooked_malloc(11)); /* counts in the child */
    void *block = heap_hooked_malloc(12);
    return block == NULL;
}

static void fork_and_wait(void *inherited)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        heap_hooked_free(inherited);
        _exit((int)child_work());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_fork_followed(void **state)
{
    (void)state;
    heap_rig.control->flags = WIRE_AGENT_FOLLOW;
    heap_rig.process->silent = 1;
    void *block = heap_hooked_malloc(1000);
    fork_and_wait(block);
    const struct wire_agent_process *child = agent_rig_process(&heap_rig, 1);
    struct agent_rig_figures figures = agent_rig_read(&heap_rig, child, 0, 0);
    assert_int_equal(child->state, WIRE_AGENT_RUNNING);
    assert_int_equal(child->parent, 1);
    assert_int_equal(child->request, WIRE_AGENT_FORKED);
    assert_int_equal(figures.count, 2);
    assert_int_equal(figures.live, 12);
    assert_int_equal(child->losses[WIRE_AGENT_LOSS_UNKNOWN_FREE], 1);
    assert_int_equal(heap_all().count, 1);
    assert_int_equal(heap_all().live, 1000);
    fork_and_wait(block);
    fork_and_wait(block);
    fork_and_wait(block); /* no region is left: inert */
    assert_int_equal(heap_rig.control->next_region, 4);
    heap_rig.control->region_count++;
    heap_rig.control->gone = 1;
    fork_and_wait(block); /* nobody would read it: inert, and no loss */
    heap_rig.control->region_count--;
    assert_int_equal(heap_rig.control->next_region, 4);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_INERT), 1);
    assert_int_equal(heap_all().count, 1);
    heap_hooked_free(block);
    assert_int_equal(heap_all().live, 0);
}

static void test_fork_left_alone(void **state)
{
    (void)state;
    void *block = heap_hooked_malloc(1000);
    fork_and_wait(block);
    assert_int_equal(heap_all().count, 1);
    assert_int_equal(heap_all().live, 1000);
    assert_int_equal(agent_rig_process(&heap_rig, 1)->state, WIRE_AGENT_FREE);
    heap_hooked_free(block);
}

static void test_leaving(void **state)
{
    (void)state;
    void *block = heap_hooked_malloc(5);
    heap_rig.process->state = WIRE_AGENT_LEFT;
    free(heap_hooked_malloc(6));
    heap_hooked_free(block);
    assert_int_equal(heap_all().count, 1);
    assert_int_equal(heap_all().live, 5);
    for (unsigned i = 0; i < heap_rig.process->thread_count; i++)
        assert_int_equal(agent_rig_thread(&heap_rig, i)->inside, 0);
}

/* --- the doorbell --- */

static unsigned bodies, waiting;
static void doorbell_body(void)
{
    bodies++;
}

/* Tally: answers the first request, and keeps silent from then on. */
static void *answer_once(void *argument)
{
    uint32_t *asked = argument;
    while (__atomic_load_n(&heap_rig.control->doorbell, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    uint32_t sequence = __atomic_load_n(&heap_rig.process->request_sequence, __ATOMIC_ACQUIRE);
    *asked = __atomic_exchange_n(&heap_rig.process->request, 0, __ATOMIC_ACQ_REL);
    waiting = heap_rig.process->unrecorded;
    __atomic_store_n(&heap_rig.process->answer_sequence, sequence, __ATOMIC_RELEASE);
    return NULL;
}

/* Gives signs of life; answers after so many milliseconds, or when nobody waits any more. */
static void *answer_late(void *ms)
{
    for (unsigned i = 0; i < *(unsigned *)ms && !__atomic_load_n(&heap_rig.process->silent, __ATOMIC_RELAXED);
         i++) {
        usleep(1000);
        __atomic_fetch_add(&heap_rig.control->now_ns, 1000000, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&heap_rig.process->answer_sequence, heap_rig.process->request_sequence,
                     __ATOMIC_RELEASE);
    return NULL;
}

/* Who lives is waited for longer, but not for ever. */
static void test_a_late_answer(void **state)
{
    (void)state;
    void (*notify)(void) =
        (void (*)(void))(uintptr_t)agent_rig_hook(&heap_rig, "agent_entry_objects", (void *)doorbell_body);
    unsigned late = 4000;
    pthread_t tally;
    heap_rig.control->patience_ms = 3000;
    assert_int_equal(pthread_create(&tally, NULL, answer_late, &late), 0);
    notify();
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ANSWER), 0);
    assert_int_equal(heap_rig.process->answer_sequence, 1);
    pthread_join(tally, NULL);
    late = UINT32_MAX;
    heap_rig.control->patience_ms = 20; /* 200 in all */
    assert_int_equal(pthread_create(&tally, NULL, answer_late, &late), 0);
    notify();
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
    assert_int_equal(heap_rig.process->silent, 1);
    pthread_join(tally, NULL);
}

static void test_doorbell(void **state)
{
    (void)state;
    void (*notify)(void) =
        (void (*)(void))(uintptr_t)agent_rig_hook(&heap_rig, "agent_entry_objects", (void *)doorbell_body);
    uint32_t asked = 0;
    pthread_t tally;
    bodies = 0;
    assert_int_equal(pthread_create(&tally, NULL, answer_once, &asked), 0);
    notify();
    pthread_join(tally, NULL);
    assert_int_equal(asked, WIRE_AGENT_OBJECTS);
    assert_int_equal(waiting, 1); /* who waited was inside */
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ANSWER), 0);
    notify(); /* nobody answers: it goes on after control.patience_ms */
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
    assert_int_equal(heap_rig.process->request, WIRE_AGENT_OBJECTS);
    uint32_t rung = heap_rig.control->doorbell;
    notify(); /* and never asks again */
    assert_int_equal(heap_rig.control->doorbell, rung);
    heap_rig.process->silent = 0;
    heap_rig.control->gone = 1;
    notify();
    assert_int_equal(heap_rig.control->doorbell, rung);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
    assert_int_equal(bodies, 4);
    assert_int_equal(heap_rig.process->unrecorded, 0);
}

/* A tally that says that it is stopped is not waited for; nor asked again. */
static void test_suspended(void **state)
{
    (void)state;
    void (*notify)(void) =
        (void (*)(void))(uintptr_t)agent_rig_hook(&heap_rig, "agent_entry_objects", (void *)doorbell_body);
    heap_rig.control->patience_ms = 1000000; /* longer than this test may take */
    heap_rig.control->suspended = 1;
    notify();
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
    assert_int_equal(heap_rig.process->silent, 1);
    heap_rig.control->suspended = 0;
    uint32_t rung = heap_rig.control->doorbell;
    notify();
    assert_int_equal(heap_rig.control->doorbell, rung);
    heap_rig.process->silent = 0;
    heap_rig.process->answer_sequence = heap_rig.process->request_sequence + 1;
    notify();
    assert_int_equal(heap_rig.control->doorbell, rung + 1);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
}

static int failing_exec(const char *path, char *const *arguments, char *const *environment)
{
    errno = path == NULL && arguments == NULL && environment == NULL ? ENOENT : EINVAL;
    return -1;
}

static void test_exec_that_fails(void **state)
{
    (void)state;
    int (*hooked)(const char *, char *const *, char *const *) =
        (int (*)(const char *, char *const *, char *const *))(uintptr_t)agent_rig_hook(
            &heap_rig, "agent_entry_execve", (void *)failing_exec);
    heap_rig.control->patience_ms = 20;
    assert_int_equal(hooked(NULL, NULL, NULL), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(heap_rig.process->request, WIRE_AGENT_EXEC); /* not answered, so it was the last word */
    heap_rig.process->silent = 0;
    heap_rig.process->answer_sequence = heap_rig.process->request_sequence + 1; /* answered before it asked */
    assert_int_equal(hooked(NULL, NULL, NULL), -1);
    assert_int_equal(heap_rig.process->request, WIRE_AGENT_EXEC | WIRE_AGENT_EXEC_FAILED);
    assert_int_equal(heap_rig.process->asks[0], (uint64_t)getpid() << 32 | WIRE_AGENT_EXEC);
    assert_int_equal(heap_rig.process->asks[2], (uint64_t)getpid() << 32 | WIRE_AGENT_EXEC_FAILED);
}

/* Several threads exec at once: tally hears of each, or it is a loss. */
static pthread_barrier_t before_exec;
static void *exec_in_vain(void *hooked)
{
    pthread_barrier_wait(&before_exec);
    ((int (*)(const char *, char *const *, char *const *))(uintptr_t)hooked)(NULL, NULL, NULL);
    return NULL;
}

static void test_many_execs(void **state)
{
    (void)state;
    enum { EXECS = WIRE_AGENT_ASKS + 6 };
    pthread_t threads[EXECS];
    void *hooked = agent_rig_hook(&heap_rig, "agent_entry_execve", (void *)failing_exec);
    unsigned asked = 0;
    heap_rig.control->patience_ms = 1;
    pthread_barrier_init(&before_exec, NULL, EXECS);
    heap_rig.process->answer_sequence =
        heap_rig.process->request_sequence + 1000; /* all are answered at once */
    for (unsigned i = 0; i < EXECS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, exec_in_vain, hooked), 0);
    for (unsigned i = 0; i < EXECS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&before_exec);
    for (unsigned i = 0; i < WIRE_AGENT_ASKS; i++)
        asked += heap_rig.process->asks[i] != 0;
    assert_int_equal(asked, WIRE_AGENT_ASKS);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ANSWER),
                     2 * EXECS - WIRE_AGENT_ASKS); /* each fails, and says so */
    assert_int_equal(heap_rig.process->silent, 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, heap_set_up, heap_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_fork_followed),   TEST(test_fork_left_alone), TEST(test_leaving),
        TEST(test_doorbell),        TEST(test_suspended),       TEST(test_a_late_answer),
        TEST(test_exec_that_fails), TEST(test_many_execs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
