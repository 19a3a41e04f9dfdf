/* Quick entries count what the usual ones count, to the byte, and call the bodies as they were called. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"

#define BLOCKS 256
#define STEPS  40000
#define MEAN   4000
#define NEVER  (UINT64_C(1) << 40) /* no block of a test is a sample */

typedef uint64_t any_function(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);
typedef void *malloc_function(size_t size);
typedef void *calloc_function(size_t count, size_t size);
typedef void *realloc_function(void *block, size_t size);
typedef void free_function(void *block);
typedef void *mmap_function(void *address, size_t size, int protection, int flags, int file, off_t offset);

static struct agent_rig rig;
static malloc_function *hooked_malloc;
static calloc_function *hooked_calloc;
static realloc_function *hooked_realloc;
static free_function *hooked_free;

static void begin(uint64_t mean, bool quick)
{
    agent_rig_begin(&rig, &(struct agent_rig_options){.sample_bytes = mean});
    rig.parameters->own = 0; /* nothing is timed */
    const char *const names[] = {quick ? "agent_entry_malloc_pass" : "agent_entry_malloc",
                                 quick ? "agent_entry_calloc_pass" : "agent_entry_calloc",
                                 quick ? "agent_entry_free_pass" : "agent_entry_free"};
    hooked_malloc = (malloc_function *)agent_rig_hook(&rig, names[0], (void *)malloc);
    hooked_calloc = (calloc_function *)agent_rig_hook(&rig, names[1], (void *)calloc);
    hooked_free = (free_function *)agent_rig_hook(&rig, names[2], (void *)free);
    hooked_realloc = (realloc_function *)agent_rig_hook(&rig, "agent_entry_realloc", (void *)realloc);
}

static struct agent_rig_figures all(void)
{
    return agent_rig_read(&rig, rig.process, 0, 0);
}

/* The record of the one thread that there is. */
static const struct wire_agent_thread *record(void)
{
    for (unsigned i = 0; i < rig.process->thread_count; i++) {
        const struct wire_agent_thread *thread = agent_rig_thread(&rig, i);
        if (thread->key != 0)
            return thread;
    }
    fail();
    return NULL;
}

static bool is_unmarked(void)
{
    const uint8_t *marks = (const uint8_t *)rig.process + WIRE_AGENT_SAMPLED_AT;
    for (uint64_t i = 0; i < WIRE_AGENT_SAMPLED; i++)
        if (marks[i] != 0)
            return false;
    return true;
}

/* --- the same figures --- */

static uint64_t seed;
static uint32_t draw(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static __attribute__((noinline, noclone)) void *allocate(void)
{
    size_t size = draw() % (draw() % 16 == 0 ? 20000 : 300);
    void *volatile block = draw() % 4 == 0 ? hooked_calloc(size, draw() % 3) : hooked_malloc(size);
    return block;
}

/* Allocates, releases and resizes at random; what is left in the end is the same each time. */
enum way { USUAL, QUICK, TIMING, PENDING, OLD };

static struct agent_rig_figures work(uint64_t mean, enum way way)
{
    void *blocks[BLOCKS] = {NULL};
    begin(mean, way != USUAL);
    rig.parameters->own = way == TIMING || way == PENDING ? (uint64_t)rig.own : 0;
    if (way == OLD)
        rig.parameters->flags = 0; /* no rdfsbase, and fs:0 not seen yet */
    if (way == PENDING)            /* of the record that the thread will have */
        rig.own->calls[0].count = 1;
    seed = 5;
    for (unsigned i = 0; i < STEPS; i++) {
        void **block = &blocks[draw() % BLOCKS];
        if (draw() % 8 == 0 && *block != NULL) {
            *block = hooked_realloc(*block, 1 + draw() % 5000);
            continue;
        }
        hooked_free(*block);
        *block = allocate();
    }
    struct agent_rig_figures figures = all();
    assert_int_equal(record()->inside, 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        hooked_free(blocks[i]);
    assert_int_equal(all().live, 0);
    assert_int_equal(all().live_count, 0);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), 0);
    assert_true(is_unmarked());
    agent_rig_end(&rig);
    return figures;
}

static void test_same_figures(void **state)
{
    (void)state;
    static const uint64_t means[] = {1, 64, MEAN, 100 * MEAN};
    for (unsigned i = 0; i < sizeof means / sizeof *means; i++) {
        struct agent_rig_figures usual = work(means[i], USUAL);
        assert_true(usual.count > 0 && usual.live_count > 0);
        for (enum way way = QUICK; way <= OLD; way++) {
            struct agent_rig_figures other = work(means[i], way);
            assert_memory_equal(&usual, &other, sizeof usual);
        }
    }
}

/* --- how bodies are called --- */

static struct {
    uint64_t arguments[6], result;
    unsigned calls;
    bool aligned, inside;
} called;

static uint64_t body(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    const uint64_t arguments[] = {a, b, c, d, e, f};
    memcpy(called.arguments, arguments, sizeof arguments);
    called.aligned =
        (uint64_t)__builtin_frame_address(0) % 16 == 0; /* rbp is pushed below the return address */
    called.inside = record()->inside != 0;
    called.calls++;
    return called.result;
}

/* `count`: arguments that are passed on, more than the function has where it is quick. */
static void check_call(any_function *function, uint64_t a, uint64_t b, bool inside, size_t count)
{
    const uint64_t arguments[] = {a, b, 3, 4, 5, 6};
    called.calls = 0;
    called.inside = !inside;
    uint64_t result = function(a, b, 3, 4, 5, 6);
    assert_int_equal(called.calls, 1);
    assert_int_equal(result, called.result);
    assert_true(called.aligned);
    assert_int_equal(called.inside, inside);
    assert_memory_equal(called.arguments, arguments, count * sizeof *arguments);
    assert_int_equal(record()->inside, 0);
}

static void test_bodies(void **state)
{
    (void)state;
    static const char *const names[] = {"agent_entry_malloc_pass", "agent_entry_calloc_pass",
                                        "agent_entry_free_pass"};
    begin(NEVER, true);
    hooked_free(hooked_malloc(1)); /* there is a record */
    for (unsigned i = 0; i < 3; i++) {
        any_function *function = (any_function *)agent_rig_hook(&rig, names[i], (void *)body);
        for (unsigned k = 0; k < 2; k++) {
            called.result = k * UINT64_C(0x123456789abcdef0);
            check_call(function, 17, 2, true, 6);
            check_call(function, 0, 0, true, 2);
            check_call(function, UINT64_MAX, 2, true, 2);
            check_call(function, UINT64_C(1) << 63, 1, true, 2);
            check_call(function, UINT64_C(1) << 40, UINT64_C(1) << 40, true, 2);
        }
        called.result = 0;
        rig.process->state = WIRE_AGENT_LEFT;
        check_call(function, 17, 2, false, 6);
        rig.process->state = WIRE_AGENT_RUNNING;
    }
    agent_rig_end(&rig);
}

/* Failures are nobody's blocks; huge sizes reach no sample. */
static void *no_malloc(size_t size)
{
    (void)size;
    errno = ENOMEM;
    return NULL;
}

static void test_failures(void **state)
{
    (void)state;
    begin(MEAN, true);
    malloc_function *fails =
        (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc_pass", (void *)no_malloc);
    for (unsigned i = 0; i < 10000; i++) {
        errno = 0;
        assert_null(fails(i % 2 == 0 ? 100 : SIZE_MAX - i));
        assert_int_equal(errno, ENOMEM);
    }
    assert_int_equal(all().count, 0);
    agent_rig_end(&rig);
}

/* What a body maps is its own. */
static mmap_function *hooked_mmap;

static void *mapping_malloc(size_t size)
{
    return hooked_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void test_inner_calls(void **state)
{
    (void)state;
    begin(NEVER, true);
    hooked_mmap = (mmap_function *)agent_rig_hook(&rig, "agent_entry_mmap", (void *)mmap);
    malloc_function *maps =
        (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc_pass", (void *)mapping_malloc);
    munmap(maps(4096), 4096);
    assert_int_equal(all().total, 0);
    munmap(mapping_malloc(4096), 4096);
    assert_int_equal(all().total, 4096);
    agent_rig_end(&rig);
}

/* --- who comes in between --- */

static jmp_buf away;

static void *leaving_malloc(size_t size)
{
    longjmp(away, (int)size);
}

static void test_left(void **state)
{
    (void)state;
    begin(64, true);
    malloc_function *leaves =
        (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc_pass", (void *)leaving_malloc);
    for (volatile unsigned i = 0; i < 1000; i++) {
        if (setjmp(away) == 0)
            leaves(8);
        assert_int_equal(record()->inside, 1);
        hooked_free(hooked_malloc(8));
        assert_int_equal(record()->inside, 0);
    }
    assert_true(all().count > 0);
    agent_rig_end(&rig);
}

static volatile unsigned handled;

static void handler(int number)
{
    (void)number;
    void *volatile block = hooked_malloc(10);
    hooked_free(block);
    handled++;
}

static void *plain_malloc(size_t size)
{
    static char room[64];
    (void)size;
    return room;
}

static void plain_free(void *block)
{
    (void)block;
}

/* The handler's own may come at any instruction, and be counted, lost, or pass. */
static void test_handlers(void **state)
{
    (void)state;
    begin(200, true);
    hooked_malloc = (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc_pass", (void *)plain_malloc);
    hooked_free = (free_function *)agent_rig_hook(&rig, "agent_entry_free_pass", (void *)plain_free);
    struct sigaction action = {.sa_handler = handler}, before;
    const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned i = 0; i < 3000000 && handled < 2000; i++) {
        void *volatile block = hooked_malloc(10);
        hooked_free(block);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_true(handled > 50);
    assert_int_equal(record()->inside, 0);
    uint64_t count = all().count;
    for (unsigned i = 0; i < 1000; i++)
        hooked_free(hooked_malloc(10));
    assert_true(all().count > count); /* it goes on counting */
    agent_rig_end(&rig);
}

static void *churn(void *given)
{
    (void)given;
    for (unsigned i = 0; i < 20000; i++)
        hooked_free(hooked_malloc(i % 100));
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    begin(MEAN, true);
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, churn, NULL);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    struct agent_rig_figures sum = all();
    double truth = 4 * 20000 / 100 * 4950.0, off = (double)sum.total - truth;
    assert_true(off * off <= 25 * sum.variance);
    assert_int_equal(sum.live, 0);
    assert_true(is_unmarked());
    agent_rig_end(&rig);
}

/* The child's page of life is empty: it takes a region of its own. */
static void test_fork(void **state)
{
    (void)state;
    int status;
    begin(64, true);
    rig.control->flags = WIRE_AGENT_FOLLOW;
    hooked_free(hooked_malloc(1000));
    uint64_t count = all().count;
    assert_true(count > 0);
    pid_t child = fork();
    if (child == 0) {
        for (unsigned i = 0; i < 100; i++)
            hooked_free(hooked_malloc(1000));
        _exit(agent_rig_read(&rig, agent_rig_process(&rig, 1), 0, 0).count > 50 * (uint64_t)WIRE_AGENT_SCALE
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(all().count, count);
    agent_rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_figures), cmocka_unit_test(test_bodies), cmocka_unit_test(test_failures),
        cmocka_unit_test(test_inner_calls),  cmocka_unit_test(test_left),   cmocka_unit_test(test_handlers),
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
