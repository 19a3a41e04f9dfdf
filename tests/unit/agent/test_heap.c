/* The agent's heap wrappers, called in this process: every figure against a model that the test keeps
 * itself. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"

#define SITES 3
#define AWAY  __attribute__((noinline, noclone))

typedef void *malloc_function(size_t size);
typedef void *calloc_function(size_t count, size_t size);
typedef void *realloc_function(void *block, size_t size);
typedef void *reallocarray_function(void *block, size_t count, size_t size);
typedef void free_function(void *block);
typedef void *aligned_function(size_t alignment, size_t size);
typedef int posix_function(void **result, size_t alignment, size_t size);

static struct agent_rig rig;
static malloc_function *hooked_malloc;
static calloc_function *hooked_calloc;
static realloc_function *hooked_realloc;
static reallocarray_function *hooked_reallocarray;
static free_function *hooked_free;
static aligned_function *hooked_aligned;
static posix_function *hooked_posix;

/* Bodies that fail by themselves, since a sanitizer's allocator ends the program instead. */
static void *limited_realloc(void *block, size_t size)
{
    if (size < SIZE_MAX / 8)
        return size == 0 ? (free(block), NULL) : realloc(block, size);
    errno = ENOMEM;
    return NULL;
}

static void *limited_reallocarray(void *block, size_t count, size_t size)
{
    return limited_realloc(block, count > SIZE_MAX / 16 / size ? SIZE_MAX : count * size);
}

static int limited_memalign(void **result, size_t alignment, size_t size)
{
    return alignment < sizeof(void *) ? EINVAL : posix_memalign(result, alignment, size);
}

static void begin(const struct agent_rig_options *options)
{
    agent_rig_begin(&rig, options);
    hooked_malloc = (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)malloc);
    hooked_calloc = (calloc_function *)agent_rig_hook(&rig, "agent_entry_calloc", (void *)calloc);
    hooked_realloc = (realloc_function *)agent_rig_hook(&rig, "agent_entry_realloc", (void *)limited_realloc);
    hooked_reallocarray = (reallocarray_function *)agent_rig_hook(&rig, "agent_entry_reallocarray",
                                                                  (void *)limited_reallocarray);
    hooked_free = (free_function *)agent_rig_hook(&rig, "agent_entry_free", (void *)free);
    hooked_aligned = (aligned_function *)agent_rig_hook(&rig, "agent_entry_aligned", (void *)memalign);
    hooked_posix =
        (posix_function *)agent_rig_hook(&rig, "agent_entry_posix_memalign", (void *)limited_memalign);
}

static int set_up(void **state)
{
    (void)state;
    begin(&(struct agent_rig_options){0});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static struct agent_rig_figures all(void)
{
    return agent_rig_read(&rig, rig.process, 0, 0);
}

static uint64_t loss(enum wire_agent_loss number)
{
    return rig.process->losses[number];
}

/* Three places that allocate. */
static AWAY void *site_0(size_t size)
{
    void *volatile block = hooked_malloc(size);
    return block;
}
static AWAY void *site_1(size_t size)
{
    void *volatile block = hooked_malloc(size);
    return block;
}
static AWAY void *site_2(size_t size)
{
    void *volatile block = hooked_malloc(size);
    return block;
}
static malloc_function *const sites[SITES] = {site_0, site_1, site_2};

/* What is below site n: its code is shorter than that, and the three lie in some order. */
static struct agent_rig_figures of_site(unsigned number)
{
    uint64_t low = (uint64_t)sites[number], high = low + 4096;
    for (unsigned i = 0; i < SITES; i++)
        if ((uint64_t)sites[i] > low && (uint64_t)sites[i] < high)
            high = (uint64_t)sites[i];
    return agent_rig_read(&rig, rig.process, low, high < low + 512 ? high : low + 512);
}

static void test_counts(void **state)
{
    (void)state;
    void *blocks[5];
    for (unsigned i = 0; i < 5; i++)
        blocks[i] = site_0(100 + i);
    void *other = site_1(1000);
    hooked_free(blocks[1]);
    hooked_free(other);
    hooked_free(NULL);
    struct agent_rig_figures first = of_site(0), second = of_site(1), sum = all();
    assert_int_equal(first.total, 510);
    assert_int_equal(first.count, 5);
    assert_int_equal(first.live, 409);
    assert_int_equal(first.live_count, 4);
    assert_int_equal(first.largest, 104);
    assert_int_equal(first.peak, 510);
    assert_int_equal(second.total, 1000);
    assert_int_equal(second.live_count, 0);
    assert_int_equal(second.peak, 1000);
    assert_int_equal(sum.total, 1510);
    assert_int_equal(rig.process->peak, 1510);
    assert_int_equal(rig.process->live + rig.process->first_live, 409);
    assert_int_equal(of_site(2).count, 0);
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        assert_int_equal(loss(i), 0);
    for (unsigned i = 0; i < 5; i++)
        if (i != 1)
            hooked_free(blocks[i]);
    assert_int_equal(all().live_count, 0);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), 0);
}

/* The stack below the site is this function, and then its callers up to the start of the program. */
static void test_stacks_are_whole(void **state)
{
    (void)state;
    hooked_free(site_2(1));
    const struct wire_agent_node *nodes = agent_rig_nodes(&rig, rig.process);
    unsigned depth = 0, last = 0;
    for (uint32_t i = 1; i <= rig.process->node_count; i++)
        if (nodes[i].cell != 0)
            last = i;
    assert_int_not_equal(last, 0);
    assert_true(nodes[last].pc > (uint64_t)site_2 && nodes[last].pc < (uint64_t)site_2 + 512);
    uint32_t parent = nodes[last].parent;
    assert_true(nodes[parent].pc > (uint64_t)test_stacks_are_whole &&
                nodes[parent].pc < (uint64_t)test_stacks_are_whole + 2048);
    for (uint32_t i = last; nodes[i].parent != 0; i = nodes[i].parent, depth++) {
        assert_true(nodes[i].cookie >= 100);
        assert_int_equal(nodes[i].flags, 0);
        assert_int_equal(nodes[i].ready, 1);
    }
    assert_in_range(depth, 6, 40); /* site, test, cmocka, main, libc's start, _start */
}

/* --- the model --- */

struct model {
    struct {
        void *block;
        size_t size;
        unsigned site;
    } live[512];
    uint64_t total[SITES], count[SITES], bytes[SITES], blocks[SITES], max[SITES], at_peak[SITES], temporary,
        sum, peak;
    void *last;
};

static void model_add(struct model *model, unsigned slot, void *block, size_t size, unsigned site)
{
    assert_non_null(block);
    model->live[slot].block = block;
    model->live[slot].size = size;
    model->live[slot].site = site;
    model->total[site] += size;
    model->count[site]++;
    model->blocks[site]++;
    model->bytes[site] += size;
    model->max[site] = model->bytes[site] > model->max[site] ? model->bytes[site] : model->max[site];
    model->sum += size;
    model->last = block;
    if (model->sum > model->peak) {
        model->peak = model->sum;
        memcpy(model->at_peak, model->bytes, sizeof model->at_peak);
    }
}

static void model_remove(struct model *model, unsigned slot)
{
    model->temporary += model->live[slot].block == model->last;
    model->bytes[model->live[slot].site] -= model->live[slot].size;
    model->blocks[model->live[slot].site]--;
    model->sum -= model->live[slot].size;
    model->live[slot].block = NULL;
}

static uint32_t random_state = 12345;
static uint32_t draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static void compare(const struct model *model)
{
    uint64_t bytes;
    for (unsigned i = 0; i < SITES; i++) {
        struct agent_rig_figures figures = of_site(i);
        assert_int_equal(figures.total, model->total[i]);
        assert_int_equal(figures.count, model->count[i]);
        assert_int_equal(figures.live, model->bytes[i]);
        assert_int_equal(figures.live_count, model->blocks[i]);
        assert_int_equal(figures.max, model->max[i]);
        assert_int_equal(figures.peak, model->at_peak[i]);
    }
    assert_int_equal(all().temporary, model->temporary);
    assert_int_equal(rig.process->peak, model->peak);
    assert_int_equal(rig.process->live + rig.process->first_live, model->sum);
    agent_rig_blocks(&rig, rig.process, &bytes);
    assert_int_equal(bytes, model->sum);
}

static void test_random_operations(void **state)
{
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof model);
    for (unsigned i = 0; i < 60000; i++) {
        unsigned slot = draw() % (i < 30000 ? 512 : 200), site = draw() % SITES;
        size_t size = draw() % 16 == 0 ? draw() % 200000 : draw() % 300;
        if (model.live[slot].block != NULL) {
            void *block = model.live[slot].block;
            model_remove(&model, slot);
            hooked_free(block);
        } else {
            model_add(&model, slot, sites[site](size), size, site);
        }
        if (i % 10007 == 0)
            compare(&model);
    }
    compare(&model);
    for (unsigned i = 0; i < 512; i++)
        hooked_free(model.live[i].block);
    assert_int_equal(all().live_count, 0);
    assert_int_equal(loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
}

static void test_other_shapes(void **state)
{
    (void)state;
    void *posix = NULL;
    void *blocks[] = {hooked_calloc(7, 11), hooked_aligned(64, 100), hooked_reallocarray(NULL, 5, 6),
                      hooked_realloc(NULL, 13)};
    errno = 77;
    assert_int_equal(hooked_posix(&posix, 128, 17), 0);
    assert_int_equal((uint64_t)posix % 128, 0);
    assert_int_equal(errno, 77);
    assert_int_equal(all().total, 77 + 100 + 30 + 13 + 17);
    assert_int_equal(all().count, 5);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(((uint64_t *)blocks[0])[i], 0);
    assert_int_equal(hooked_posix(&posix, 3, 17), EINVAL); /* refused: nothing is counted */
    assert_int_equal(all().count, 5);
    for (unsigned i = 0; i < 4; i++)
        hooked_free(blocks[i]);
    hooked_free(posix);
    assert_int_equal(all().live, 0);
}

static void test_reallocation(void **state)
{
    (void)state;
    char *block = hooked_malloc(100);
    memset(block, 'x', 100);
    block = hooked_realloc(block, 100000);
    assert_int_equal(block[99], 'x');
    assert_int_equal(all().total, 100100);
    assert_int_equal(all().count, 2);
    assert_int_equal(all().live, 100000);
    assert_int_equal(all().live_count, 1);
    assert_int_equal(all().temporary, 1);
    size_t volatile most = PTRDIFF_MAX - 4096;
    errno = 0;
    assert_null(hooked_realloc(block, most)); /* fails: the block stays */
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(block[99], 'x');
    size_t volatile many = SIZE_MAX / 2;
    assert_null(hooked_reallocarray(block, many, 3));
    assert_int_equal(all().live, 100000);
    assert_int_equal(all().live_count, 1);
    assert_int_equal(all().total, 100100);
    assert_int_equal(all().temporary, 1);
    assert_int_equal(rig.process->live + rig.process->first_live, 100000);
    assert_int_equal(rig.process->peak, 100000);
    assert_int_equal(all().peak, 100000);
    assert_null(hooked_realloc(block, 0)); /* as glibc does it: released */
    assert_int_equal(all().live_count, 0);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), 0);
}

/* 300,000 blocks at once: thirteen tables, and none is lost. */
static void test_many_blocks(void **state)
{
    (void)state;
    enum { MANY = 300000 };
    static void *blocks[MANY];
    uint64_t bytes;
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = site_0(i % 100);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, &bytes), MANY);
    assert_int_equal(all().live, bytes);
    assert_in_range(rig.process->block_used / MANY, 16, 64); /* bytes a block */
    for (unsigned i = 0; i < MANY; i++)
        hooked_free(blocks[(uint64_t)i * 7919 % MANY]);
    assert_int_equal(all().live_count, 0);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), 0);
    assert_int_equal(loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
}

/* --- threads --- */

#define THREADS 8
static void *volatile mailbox[64];
static pthread_barrier_t together;

static void *worker(void *argument)
{
    uint32_t own = (uint32_t)(uintptr_t)argument * 7919 + 1;
    uint64_t total = 0;
    hooked_free(NULL);
    pthread_barrier_wait(&together); /* all have their records */
    for (unsigned i = 0; i < 20000; i++) {
        own = own * 1664525u + 1013904223u;
        size_t size = own >> 8 & 1023;
        void *block = site_0(size);
        total += size;
        block = __atomic_exchange_n(&mailbox[own >> 20 & 63], block, __ATOMIC_ACQ_REL);
        if (block != NULL)
            hooked_free(block); /* most often another thread's */
    }
    return (void *)total;
}

static void run_threads(unsigned count, uint64_t *total)
{
    pthread_t threads[96];
    void *result;
    pthread_barrier_init(&together, NULL, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i), 0);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        *total += (uint64_t)result;
    }
    pthread_barrier_destroy(&together);
}

static void check_threads(unsigned count)
{
    uint64_t total = 0, bytes;
    for (unsigned i = 0; i < 64; i++)
        mailbox[i] = NULL;
    run_threads(count, &total);
    uint64_t blocks = agent_rig_blocks(&rig, rig.process, &bytes);
    assert_int_equal(all().total, total);
    assert_int_equal(all().count, (uint64_t)count * 20000);
    assert_int_equal(all().live, bytes);
    assert_int_equal(all().live_count, blocks);
    assert_int_equal(loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
    for (unsigned i = 0; i < 64; i++)
        hooked_free(mailbox[i]);
    assert_int_equal(all().live, 0);
    assert_int_equal(agent_rig_blocks(&rig, rig.process, NULL), 0);
}

static void test_threads(void **state)
{
    (void)state;
    check_threads(THREADS);
    /* At most 64 blocks of 1 KiB and one more in each thread's hands; the maximum is known to 1/64 for each
     * thread. */
    assert_in_range(rig.process->peak, 15000, (THREADS + 64) * 1024);
}

static void test_more_threads_than_groups(void **state)
{
    (void)state;
    check_threads(90);
    assert_in_range(rig.process->thread_count, 65, 91); /* one that ended early may have left its record */
    assert_int_equal(rig.process->group_count, rig.process->thread_count);
}

/* --- being inside --- */

static void *body_that_allocates(size_t size)
{
    hooked_free(hooked_malloc(50));
    return malloc(size);
}

static void test_inner_calls_are_not_counted(void **state)
{
    (void)state;
    malloc_function *outer =
        (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)body_that_allocates);
    void *block = outer(20);
    assert_int_equal(all().count, 1);
    assert_int_equal(all().total, 20);
    assert_int_equal(loss(WIRE_AGENT_LOSS_INTERRUPTED), 0);
    hooked_free(block);
    assert_int_equal(all().live, 0);
}

static void *from_handler;
static void handler(int number)
{
    (void)number;
    from_handler = hooked_malloc(33);
}

static void *body_that_is_interrupted(size_t size)
{
    raise(SIGUSR1);
    return malloc(size);
}

static void catch (void (*function)(int), int flags)
{
    struct sigaction action = {.sa_handler = function, .sa_flags = flags};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void test_a_handler_in_a_hook_is_a_loss(void **state)
{
    (void)state;
    malloc_function *outer =
        (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)body_that_is_interrupted);
    catch (handler, 0);
    void *block = outer(20);
    assert_non_null(from_handler);
    assert_int_equal(all().count, 1);
    assert_int_equal(loss(WIRE_AGENT_LOSS_INTERRUPTED), 1);
    free(from_handler);
    hooked_free(block);
    raise(SIGUSR1); /* outside of a hook it counts, and its stack passes the signal frame */
    assert_int_equal(all().count, 2);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ROWS) + loss(WIRE_AGENT_LOSS_CUT), 0);
    const struct wire_agent_node *nodes = agent_rig_nodes(&rig, rig.process);
    unsigned exact = 0;
    for (uint32_t i = 1; i <= rig.process->node_count; i++)
        exact += nodes[i].flags == WIRE_AGENT_NODE_EXACT;
    assert_int_equal(exact, 1);
    hooked_free(from_handler);
}

/* --- a handler at each instruction of a hook, the agent's own too --- */

#define TRAP_FLAG UINT64_C(0x100)
#define STEPS     1024

static malloc_function *stepped;
static uint64_t stepped_calls, step, wanted_step;

static void *body_of_step(size_t size)
{
    static uint64_t blocks[2 * STEPS][2];
    (void)size;
    uint64_t number = __atomic_fetch_add(&stepped_calls, 1, __ATOMIC_RELAXED); /* it is interrupted, too */
    return blocks[number % (2 * STEPS)];
}

static void step_handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    if (step++ != wanted_step)
        return;
    stepped(33);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG; /* no more steps */
}

static void set_trap_flag(bool on)
{
    uint64_t flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~TRAP_FLAG);
}

static void test_every_call_of_handlers_counts_or_is_a_loss(void **state)
{
    (void)state;
    struct sigaction action = {.sa_sigaction = step_handler, .sa_flags = SA_SIGINFO}, before;
    stepped = (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)body_of_step);
    stepped_calls = step = wanted_step = 0;
    stepped(20);
    assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
    for (; wanted_step < STEPS; wanted_step += 3) { /* more than there are; all of them take seconds */
        step = 0;
        set_trap_flag(true);
        stepped(20);
        set_trap_flag(false);
    }
    assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
    assert_true(loss(WIRE_AGENT_LOSS_INTERRUPTED) > 0);
    assert_int_equal(all().count + loss(WIRE_AGENT_LOSS_INTERRUPTED), stepped_calls);
}

static struct wire_agent_thread *own_record(void)
{
    for (unsigned i = 0; i < rig.process->thread_count; i++) {
        struct wire_agent_thread *thread = agent_rig_thread(&rig, i);
        if (thread->key != 0)
            return thread;
    }
    return NULL;
}

/* As a handler finds it that comes while the record is made. */
static void test_a_handler_before_there_is_a_record(void **state)
{
    (void)state;
    hooked_free(site_0(1));
    struct wire_agent_thread *own = own_record();
    assert_non_null(own);
    const uint64_t key = own->key;
    assert_int_equal(key & 1, 0);
    own->key |= 1;
    catch (handler, 0);
    raise(SIGUSR1);
    assert_non_null(from_handler);
    assert_int_equal(own->key, key | 1);
    assert_int_equal(all().count, 1);
    assert_int_equal(loss(WIRE_AGENT_LOSS_INTERRUPTED), 1);
    assert_int_equal(rig.process->thread_count, 1);
    hooked_free(site_1(2)); /* it never came back to what it interrupted */
    assert_int_equal(own->key, key);
    assert_int_equal(all().count, 2);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_RECORD), 0);
    assert_int_equal(rig.process->unrecorded, 0);
    free(from_handler);
}

static jmp_buf way_out;
static void *body_that_jumps(size_t size)
{
    (void)size;
    longjmp(way_out, 1);
}

static void test_a_hook_that_was_left(void **state)
{
    (void)state;
    malloc_function *outer =
        (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)body_that_jumps);
    hooked_free(hooked_malloc(1));
    if (setjmp(way_out) == 0)
        outer(20);
    hooked_free(hooked_malloc(2));
    assert_int_equal(all().count, 2);
    assert_int_equal(all().total, 3);
}

/* An allocator's operator new that throws is jumped to, with the caller's own frame on top. */
static void *seen_caller;
static AWAY void *throwing_body(size_t size)
{
    assert_int_equal(size, 77);
    seen_caller = __builtin_return_address(0);
    return NULL;
}
static void *plain_new(size_t size)
{
    return size == 77 ? NULL : malloc(size);
}

static AWAY uint64_t call_new(malloc_function *function, size_t size, void **result)
{
    *result = function(size);
    return (uint64_t)__builtin_extract_return_addr(seen_caller);
}

static void test_new(void **state)
{
    (void)state;
    malloc_function *hooked =
        (malloc_function *)agent_rig_hook(&rig, "agent_entry_new", (void *)throwing_body);
    rig.process->layers[0] = (struct wire_agent_layer){
        .start = (uint64_t)hooked, .end = (uint64_t)hooked + 1, .plain_new = (uint64_t)plain_new};
    rig.process->layer_count = 1;
    void *block;
    call_new(hooked, 10, &block);
    assert_non_null(block);
    assert_null(seen_caller);
    assert_int_equal(all().total, 10);
    hooked_free(block);
    uint64_t caller = call_new(hooked, 77, &block);
    assert_true(caller > (uint64_t)call_new && caller < (uint64_t)call_new + 256);
    assert_int_equal(all().count, 1);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RECORD], 0);
}

/* --- forks --- */

static unsigned child_work(void)
{
    hooked_free(hooked_malloc(11)); /* counts in the child */
    void *block = hooked_malloc(12);
    return block == NULL;
}

static void fork_and_wait(void *inherited)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        hooked_free(inherited);
        _exit((int)child_work());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_fork_followed(void **state)
{
    (void)state;
    rig.control->flags = WIRE_AGENT_FOLLOW;
    rig.process->silent = 1;
    void *block = hooked_malloc(1000);
    fork_and_wait(block);
    const struct wire_agent_process *child = agent_rig_process(&rig, 1);
    struct agent_rig_figures figures = agent_rig_read(&rig, child, 0, 0);
    assert_int_equal(child->state, WIRE_AGENT_RUNNING);
    assert_int_equal(child->parent, 1);
    assert_int_equal(child->request, WIRE_AGENT_FORKED);
    assert_int_equal(figures.count, 2);
    assert_int_equal(figures.live, 12);
    assert_int_equal(child->losses[WIRE_AGENT_LOSS_UNKNOWN_FREE], 1);
    assert_int_equal(all().count, 1);
    assert_int_equal(all().live, 1000);
    fork_and_wait(block);
    fork_and_wait(block);
    fork_and_wait(block); /* no region is left: inert */
    assert_int_equal(rig.control->next_region, 4);
    rig.control->region_count++;
    rig.control->gone = 1;
    fork_and_wait(block); /* nobody would read it: inert, and no loss */
    rig.control->region_count--;
    assert_int_equal(rig.control->next_region, 4);
    assert_int_equal(loss(WIRE_AGENT_LOSS_INERT), 1);
    assert_int_equal(all().count, 1);
    hooked_free(block);
    assert_int_equal(all().live, 0);
}

static void test_fork_left_alone(void **state)
{
    (void)state;
    void *block = hooked_malloc(1000);
    fork_and_wait(block);
    assert_int_equal(all().count, 1);
    assert_int_equal(all().live, 1000);
    assert_int_equal(agent_rig_process(&rig, 1)->state, WIRE_AGENT_FREE);
    hooked_free(block);
}

static void test_leaving(void **state)
{
    (void)state;
    void *block = hooked_malloc(5);
    rig.process->state = WIRE_AGENT_LEFT;
    free(hooked_malloc(6));
    hooked_free(block);
    assert_int_equal(all().count, 1);
    assert_int_equal(all().live, 5);
    for (unsigned i = 0; i < rig.process->thread_count; i++)
        assert_int_equal(agent_rig_thread(&rig, i)->inside, 0);
}

/* --- the bell --- */

static unsigned bodies, waiting;
static void bell_body(void)
{
    bodies++;
}

/* Tally: answers the first request, and keeps silent from then on. */
static void *answer_once(void *argument)
{
    uint32_t *asked = argument;
    while (__atomic_load_n(&rig.control->doorbell, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    uint32_t sequence = __atomic_load_n(&rig.process->request_sequence, __ATOMIC_ACQUIRE);
    *asked = __atomic_exchange_n(&rig.process->request, 0, __ATOMIC_ACQ_REL);
    waiting = rig.process->unrecorded;
    __atomic_store_n(&rig.process->answer_sequence, sequence, __ATOMIC_RELEASE);
    return NULL;
}

/* Gives signs of life; answers after so many milliseconds, or when nobody waits any more. */
static void *answer_late(void *ms)
{
    for (unsigned i = 0; i < *(unsigned *)ms && !__atomic_load_n(&rig.process->silent, __ATOMIC_RELAXED);
         i++) {
        usleep(1000);
        __atomic_fetch_add(&rig.control->now_ns, 1000000, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&rig.process->answer_sequence, rig.process->request_sequence, __ATOMIC_RELEASE);
    return NULL;
}

/* Who lives is waited for longer, but not for ever. */
static void test_a_late_answer(void **state)
{
    (void)state;
    void (*ring)(void) =
        (void (*)(void))(uintptr_t)agent_rig_hook(&rig, "agent_entry_objects", (void *)bell_body);
    unsigned late = 4000;
    pthread_t tally;
    rig.control->patience_ms = 3000;
    assert_int_equal(pthread_create(&tally, NULL, answer_late, &late), 0);
    ring();
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ANSWER), 0);
    assert_int_equal(rig.process->answer_sequence, 1);
    pthread_join(tally, NULL);
    late = UINT32_MAX;
    rig.control->patience_ms = 20; /* 200 in all */
    assert_int_equal(pthread_create(&tally, NULL, answer_late, &late), 0);
    ring();
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
    assert_int_equal(rig.process->silent, 1);
    pthread_join(tally, NULL);
}

static void test_bell(void **state)
{
    (void)state;
    void (*ring)(void) =
        (void (*)(void))(uintptr_t)agent_rig_hook(&rig, "agent_entry_objects", (void *)bell_body);
    uint32_t asked = 0;
    pthread_t tally;
    bodies = 0;
    assert_int_equal(pthread_create(&tally, NULL, answer_once, &asked), 0);
    ring();
    pthread_join(tally, NULL);
    assert_int_equal(asked, WIRE_AGENT_OBJECTS);
    assert_int_equal(waiting, 1); /* who waited was inside */
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ANSWER), 0);
    ring(); /* nobody answers: it goes on after control.patience_ms */
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
    assert_int_equal(rig.process->request, WIRE_AGENT_OBJECTS);
    uint32_t rung = rig.control->doorbell;
    ring(); /* and never asks again */
    assert_int_equal(rig.control->doorbell, rung);
    rig.process->silent = 0;
    rig.control->gone = 1;
    ring();
    assert_int_equal(rig.control->doorbell, rung);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
    assert_int_equal(bodies, 4);
    assert_int_equal(rig.process->unrecorded, 0);
}

/* A tally that says that it is stopped is not waited for; nor asked again. */
static void test_suspended(void **state)
{
    (void)state;
    void (*ring)(void) =
        (void (*)(void))(uintptr_t)agent_rig_hook(&rig, "agent_entry_objects", (void *)bell_body);
    rig.control->patience_ms = 1000000; /* longer than this test may take */
    rig.control->suspended = 1;
    ring();
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
    assert_int_equal(rig.process->silent, 1);
    rig.control->suspended = 0;
    uint32_t rung = rig.control->doorbell;
    ring();
    assert_int_equal(rig.control->doorbell, rung);
    rig.process->silent = 0;
    rig.process->answer_sequence = rig.process->request_sequence + 1;
    ring();
    assert_int_equal(rig.control->doorbell, rung + 1);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ANSWER), 1);
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
            &rig, "agent_entry_execve", (void *)failing_exec);
    rig.control->patience_ms = 20;
    assert_int_equal(hooked(NULL, NULL, NULL), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(rig.process->request, WIRE_AGENT_EXEC); /* not answered, so it was the last word */
    rig.process->silent = 0;
    rig.process->answer_sequence = rig.process->request_sequence + 1; /* answered before it asked */
    assert_int_equal(hooked(NULL, NULL, NULL), -1);
    assert_int_equal(rig.process->request, WIRE_AGENT_EXEC | WIRE_AGENT_EXEC_FAILED);
    assert_int_equal(rig.process->asks[0], (uint64_t)getpid() << 32 | WIRE_AGENT_EXEC);
    assert_int_equal(rig.process->asks[2], (uint64_t)getpid() << 32 | WIRE_AGENT_EXEC_FAILED);
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
    void *hooked = agent_rig_hook(&rig, "agent_entry_execve", (void *)failing_exec);
    unsigned asked = 0;
    rig.control->patience_ms = 1;
    pthread_barrier_init(&before_exec, NULL, EXECS);
    rig.process->answer_sequence = rig.process->request_sequence + 1000; /* all are answered at once */
    for (unsigned i = 0; i < EXECS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, exec_in_vain, hooked), 0);
    for (unsigned i = 0; i < EXECS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&before_exec);
    for (unsigned i = 0; i < WIRE_AGENT_ASKS; i++)
        asked += rig.process->asks[i] != 0;
    assert_int_equal(asked, WIRE_AGENT_ASKS);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_ANSWER),
                     2 * EXECS - WIRE_AGENT_ASKS); /* each fails, and says so */
    assert_int_equal(rig.process->silent, 0);
}

/* --- limits --- */

static AWAY void *deeper(unsigned levels, size_t size)
{
    void *volatile block = levels == 0 ? hooked_malloc(size) : deeper(levels - 1, size);
    return block;
}

static void test_deep_stacks(void **state)
{
    (void)state;
    hooked_free(deeper(50, 10));
    assert_int_equal(loss(WIRE_AGENT_LOSS_TOO_DEEP), 0);
    hooked_free(deeper(200, 10));
    assert_int_equal(loss(WIRE_AGENT_LOSS_TOO_DEEP), 1);
    assert_int_equal(all().count, 2);
    hooked_free(deeper(50, 10));
    assert_int_equal(all().total, 30);
}

#define MANY_AT_ONCE 60000
#define FULL_RUNS    40

static size_t size_of(unsigned number)
{
    return number % 50 == 0 ? 5000 : 10 + number % 400;
}

/* One run on a small region: what is live by the figures, in bytes and blocks, and the bytes' variance.
 * Returns how many samples found no place. */
static uint64_t fill_tables(uint64_t seed, struct agent_rig_figures *figures)
{
    static void *blocks[MANY_AT_ONCE];
    uint64_t total = 0;
    agent_rig_end(&rig);
    begin(&(struct agent_rig_options){.memory = 1 << 20});
    rig.control->sample_seed = seed;
    for (unsigned i = 0; i < MANY_AT_ONCE; i++) {
        blocks[i] = site_1(size_of(i));
        total += size_of(i);
    }
    *figures = all();
    assert_int_equal(figures->total, total);
    assert_int_equal(figures->count, MANY_AT_ONCE);
    assert_in_range(rig.process->level, 1, WIRE_AGENT_LEVELS);
    uint64_t known = agent_rig_blocks(&rig, rig.process, NULL);
    assert_in_range(known, 4096, MANY_AT_ONCE - 1); /* how many fit is a matter of addresses */
    assert_int_equal(loss(WIRE_AGENT_LOSS_SAMPLED) + loss(WIRE_AGENT_LOSS_NO_BLOCK), MANY_AT_ONCE - known);
    for (unsigned i = 0; i < MANY_AT_ONCE; i++)
        hooked_free(blocks[i]);
    assert_int_equal(all().live, 0);
    assert_int_equal(all().live_count, 0);
    assert_int_equal(rig.process->live + rig.process->first_live, 0);
    assert_int_equal(loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), MANY_AT_ONCE - known);
    return loss(WIRE_AGENT_LOSS_NO_BLOCK);
}

/* Past the ceiling totals stay exact. What is live is estimated: each time, and in the mean of several,
 * within five of the deviations that it states; and all of it goes away again. */
static void test_full_tables(void **state)
{
    (void)state;
    double truth = 0, off = 0, variance = 0, blocks = 0;
    uint64_t lost = 0;
    for (unsigned i = 0; i < MANY_AT_ONCE; i++)
        truth += (double)size_of(i);
    for (uint64_t seed = 1; seed <= FULL_RUNS; seed++) {
        struct agent_rig_figures figures;
        lost += fill_tables(seed, &figures);
        double one = (double)figures.live - truth;
        assert_true(figures.variance > 0);
        assert_true(one * one <= 25 * figures.variance);
        off += one;
        variance += figures.variance;
        blocks += (double)figures.live_count / FULL_RUNS;
    }
    assert_true(off * off <= 25 * variance);
    assert_true(variance < truth * truth / 400 * FULL_RUNS); /* less than 5 % in each */
    assert_in_range(blocks, 0.95 * MANY_AT_ONCE, 1.05 * MANY_AT_ONCE);
    assert_true(lost < FULL_RUNS); /* or it would be biased */
}

/* realloc that fails gives back what a sample stood for. */
static void test_reallocation_past_the_ceiling(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    begin(&(struct agent_rig_options){.memory = 1 << 20});
    rig.process->level = 1;
    void *blocks[400];
    for (unsigned i = 0; i < 400; i++)
        blocks[i] = site_0(300);
    uint64_t live = all().live, live_count = all().live_count;
    assert_true(live > 0);
    size_t volatile most = PTRDIFF_MAX - 4096;
    for (unsigned i = 0; i < 400; i++)
        assert_null(hooked_realloc(blocks[i], most));
    assert_int_equal(all().live, live);
    assert_int_equal(all().live_count, live_count);
    assert_int_equal(all().total, 400 * 300);
    for (unsigned i = 0; i < 400; i++)
        hooked_free(blocks[i]);
    assert_int_equal(all().live, 0);
    assert_int_equal(all().live_count, 0);
}

/* Each bit of `path` chooses another way: 2^levels stacks, more nodes than fit. */
static AWAY void *wander_b(unsigned path, unsigned levels);
static AWAY void *wander_a(unsigned path, unsigned levels)
{
    void *volatile block = levels == 0 ? hooked_malloc(1)
                           : path & 1  ? wander_a(path >> 1, levels - 1)
                                       : wander_b(path >> 1, levels - 1);
    return block;
}
static AWAY void *wander_b(unsigned path, unsigned levels)
{
    void *volatile block = levels == 0 ? hooked_malloc(1)
                           : path & 1  ? wander_a(path >> 1, levels - 1)
                                       : wander_b(path >> 1, levels - 1);
    return block;
}

static void wander_everywhere(unsigned levels)
{
    for (unsigned i = 0; i < 1u << levels; i++)
        hooked_free(wander_a(i, levels));
}

static void test_many_stacks(void **state)
{
    (void)state;
    uint32_t nodes = 0;
    for (unsigned round = 1; round <= 2; round++) {
        wander_everywhere(12);
        assert_int_equal(all().count, round * 4096);
        assert_int_equal(loss(WIRE_AGENT_LOSS_NO_NODE), 0);
        assert_true(round == 1 || rig.process->node_count == nodes); /* all of them were found again */
        nodes = rig.process->node_count;
        assert_in_range(nodes, 4096 * 3 - 2, 4096 * 3 + 30);
    }
    agent_rig_end(&rig);
    begin(&(struct agent_rig_options){.memory = 1 << 20});
    wander_everywhere(13);
    assert_int_not_equal(loss(WIRE_AGENT_LOSS_NO_NODE) + loss(WIRE_AGENT_LOSS_NO_CELL), 0);
    assert_int_equal(all().count + loss(WIRE_AGENT_LOSS_NO_CELL), 8192);
}

static void test_modules_change(void **state)
{
    (void)state;
    hooked_free(site_0(1));
    agent_rig_modules(&rig, 500);
    hooked_free(site_0(1));
    agent_rig_modules(&rig, 900);
    hooked_free(site_0(1));
    const struct wire_agent_node *nodes = agent_rig_nodes(&rig, rig.process);
    unsigned leaves = 0;
    for (uint32_t i = 1; i <= rig.process->node_count; i++)
        leaves += nodes[i].cell != 0;
    assert_int_equal(leaves, 3);
    assert_int_equal(all().count, 3);
}

/* Tally, publishing all the time: each table is of one cookie, which is its generation. */
static atomic_bool published_enough;
static void *publish_tables(void *argument)
{
    (void)argument;
    while (!atomic_load(&published_enough)) {
        uint32_t next = rig.process->generation + 1;
        struct wire_agent_module *table = (void *)((uint8_t *)rig.process + rig.layout.modules[next & 1]);
        for (uint32_t i = WIRE_AGENT_MODULES; i-- > 0;) { /* towards who copies */
            __atomic_store_n(&table[i].cookie, next, __ATOMIC_RELAXED);
            for (volatile unsigned j = 0; j < 5; j++)
                ; /* as long as it takes to copy it a few times */
        }
        rig.process->module_count[next & 1] = WIRE_AGENT_MODULES;
        __atomic_store_n(&rig.process->generation, next, __ATOMIC_RELEASE);
        usleep(next % 2 == 0 ? 50 : 0); /* the other half: the older table is written again at once */
    }
    return NULL;
}

/* The whole of its table is of the generation that it says. */
static void check_table(const struct wire_agent_process *child)
{
    const struct wire_agent_module *table =
        (const void *)((const uint8_t *)child + rig.layout.modules[child->generation & 1]);
    assert_int_equal(child->state, WIRE_AGENT_RUNNING);
    for (uint32_t i = 0; child->generation != 0 && i < WIRE_AGENT_MODULES; i++)
        assert_int_equal(table[i].cookie, child->generation);
}

/* Children of forks copy their parent's table while it changes. */
static void test_modules_change_in_a_fork(void **state)
{
    (void)state;
    pthread_t publisher;
    unsigned copied = 0;
    atomic_store(&published_enough, false);
    rig.process->silent = 1;
    rig.control->flags = WIRE_AGENT_FOLLOW;
    assert_int_equal(pthread_create(&publisher, NULL, publish_tables, NULL), 0);
    while (__atomic_load_n(&rig.process->generation, __ATOMIC_ACQUIRE) < 4)
        usleep(100); /* the rig's own table is gone */
    for (unsigned i = 0; i < 1000; i++) {
        struct wire_agent_process *child = agent_rig_process(&rig, 1);
        rig.control->next_region = 1;
        memset(child, 0, rig.layout.returns);
        pid_t pid = fork();
        if (pid == 0) {
            hooked_free(malloc(1)); /* its first hook */
            _exit(0);
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        check_table(child);
        copied += child->generation != 0;
    }
    atomic_store(&published_enough, true);
    pthread_join(publisher, NULL);
    assert_true(copied > 500);
}

/* Code without rows that has some number in rbp: jit_call(rbp, hooked malloc). */
typedef void jit_call(uint64_t fp, malloc_function *function);
static jit_call *make_jit(void)
{
    static const uint8_t code[] = {0x55,                   /* push %rbp */
                                   0x48, 0x89, 0xfd,       /* mov %rdi,%rbp */
                                   0xbf, 24,   0,    0, 0, /* mov $24,%edi */
                                   0xff, 0xd6,             /* call *%rsi */
                                   0x5d, 0xc3};            /* pop %rbp; ret */
    uint8_t *at = rig.code + rig.code_used;
    memcpy(at, code, sizeof code);
    rig.code_used += 64;
    return (jit_call *)(void *)at;
}

static ucontext_t main_context, coroutine_context;
static jit_call *jit;
static uint64_t jit_fp;
static void coroutine(void)
{
    jit(jit_fp, hooked_malloc);
}

static void run_on(uint8_t *stack, size_t size, uint64_t fp)
{
    jit_fp = fp;
    assert_int_equal(getcontext(&coroutine_context), 0);
    coroutine_context.uc_stack.ss_sp = stack;
    coroutine_context.uc_stack.ss_size = size;
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, coroutine, 0);
    assert_int_equal(swapcontext(&main_context, &coroutine_context), 0);
}

/* Two stacks of one thread with a guard page between them, and a frame that leads into that: nothing is read
 * there. */
static void test_stacks_with_a_guard(void **state)
{
    (void)state;
    enum { STACK = 65536, GUARD = 4096 };
    uint8_t *low = mmap(NULL, 2 * STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(low != MAP_FAILED);
    uint8_t *guard = low + STACK, *high = guard + GUARD;
    assert_int_equal(mprotect(guard, GUARD, PROT_NONE), 0);
    jit = make_jit();
    run_on(high, STACK, (uint64_t)high + STACK - 64); /* the window reaches the end of this stack */
    run_on(low, STACK, (uint64_t)guard + 64);
    run_on(high, STACK, (uint64_t)guard + GUARD - 8);
    assert_int_equal(all().count, 3);
    munmap(low, 2 * STACK + GUARD);
}

static void test_without_modules(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    begin(&(struct agent_rig_options){.no_rows = true});
    hooked_free(site_0(1));
    assert_int_equal(all().count, 1);
    assert_int_equal(loss(WIRE_AGENT_LOSS_NO_MAPPING), 1);
}

/* --- sizes and samples --- */

static size_t usable(void *block)
{
    (void)block;
    return 48;
}

static void test_overhead(void **state)
{
    (void)state;
    rig.process->layers[0] = (struct wire_agent_layer){.start = (uint64_t)hooked_malloc,
                                                       .end = (uint64_t)hooked_malloc + 1,
                                                       .usable_size = (uint64_t)usable,
                                                       .header_bytes = 8};
    rig.process->layer_count = 1;
    rig.control->flags = WIRE_AGENT_INCLUDE;
    hooked_free(hooked_malloc(40)); /* nobody has said yet that these are all */
    assert_int_equal(all().total, 0);
    rig.process->layers_known = 1;
    hooked_free(hooked_malloc(40));
    assert_int_equal(all().total, 56);
    rig.control->flags = WIRE_AGENT_DELTA;
    hooked_free(hooked_malloc(40));
    assert_int_equal(all().total, 56 + 16);
    assert_int_equal(all().live, 0);
}

/* Sums of samples are within five of their own stated deviations of the truth, and the deviation is what it
 * must be. */
static void check_samples(uint64_t mean, size_t size, unsigned blocks)
{
    agent_rig_end(&rig);
    begin(&(struct agent_rig_options){.sample_bytes = mean});
    void *keep[64] = {NULL};
    for (unsigned i = 0; i < blocks; i++) {
        hooked_free(keep[i % 64]);
        keep[i % 64] = site_0(size);
    }
    struct agent_rig_figures sum = all();
    double truth = (double)size * blocks, off = (double)sum.total - truth;
    assert_true(off * off <= 25 * sum.variance + truth * truth * 1e-8);
    double off_count = (double)sum.count / WIRE_AGENT_SCALE - blocks;
    double size_or_one = size != 0 ? (double)size : 1;
    assert_true(off_count * off_count * size_or_one * size_or_one <=
                25 * sum.variance + truth * truth * 1e-8 + 25 * (double)mean * blocks);
    for (unsigned i = 0; i < 64; i++)
        hooked_free(keep[i]);
    assert_int_equal(all().live, 0);
    assert_int_equal(all().live_count, 0);
    assert_int_equal(loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
    if (size > 0 && size * 100 < mean) /* the variance of a Poisson sum: truth * mean */
        assert_in_range((uint64_t)(sum.variance / (truth * (double)mean) * 100), 50, 160);
}

static void test_samples(void **state)
{
    (void)state;
    check_samples(10000, 16, 200000);
    check_samples(10000, 90, 100000);
    check_samples(10000, 5000, 20000);
    check_samples(10000, 100000, 500);
    check_samples(10000, 1000000, 100);
    check_samples(524288, 100, 500000);
    check_samples(64, 0, 50000);
    check_samples(1, 24, 1000);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_counts),
        TEST(test_stacks_are_whole),
        TEST(test_random_operations),
        TEST(test_other_shapes),
        TEST(test_reallocation),
        TEST(test_many_blocks),
        TEST(test_threads),
        TEST(test_more_threads_than_groups),
        TEST(test_inner_calls_are_not_counted),
        TEST(test_a_handler_in_a_hook_is_a_loss),
        TEST(test_every_call_of_handlers_counts_or_is_a_loss),
        TEST(test_a_handler_before_there_is_a_record),
        TEST(test_a_hook_that_was_left),
        TEST(test_new),
        TEST(test_fork_followed),
        TEST(test_fork_left_alone),
        TEST(test_leaving),
        TEST(test_bell),
        TEST(test_suspended),
        TEST(test_a_late_answer),
        TEST(test_exec_that_fails),
        TEST(test_many_execs),
        TEST(test_deep_stacks),
        TEST(test_full_tables),
        TEST(test_reallocation_past_the_ceiling),
        TEST(test_many_stacks),
        TEST(test_modules_change),
        TEST(test_modules_change_in_a_fork),
        TEST(test_without_modules),
        TEST(test_stacks_with_a_guard),
        TEST(test_overhead),
        TEST(test_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
