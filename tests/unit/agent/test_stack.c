/* Walks under which the table of modules changes (agent_stack.c): a copy of an entry is used, whatever
 * becomes of the table. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"

enum { IMAGE_BYTES = 1 << 20, INTERVAL_US = 100, TRIES = 1000, LITTLE = 65536, EINTR_ANSWER = -4 };

typedef void *malloc_function(size_t size);
typedef void free_function(void *block);

static struct agent_rig rig;
static malloc_function *hooked_malloc;
static free_function *hooked_free;
static uint64_t room;
static volatile unsigned changes;

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){0});
    hooked_malloc = (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)malloc);
    hooked_free = (free_function *)agent_rig_hook(&rig, "agent_entry_free", (void *)free);
    room = rig.parameters->mapped[WIRE_AGENT_PART_ROWS];
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig.parameters->mapped[WIRE_AGENT_PART_ROWS] = room;
    agent_rig_end(&rig);
    return 0;
}

/* As tally does it: the other table becomes the valid one, then this one is written again. */
static void change_modules(void)
{
    uint32_t generation = rig.process->generation;
    struct wire_agent_module *modules = (void *)((uint8_t *)rig.process + rig.layout.modules[generation & 1]);
    __atomic_store_n(&rig.process->generation, generation + 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < rig.process->module_count[generation & 1]; i++)
        modules[i].rows_offset = UINT64_C(1) << 46; /* such an address nobody has */
}

/* Where the agent waits for room for rows: between its look at an entry and its use. */
static void interrupt(int number, siginfo_t *information, void *context)
{
    (void)number, (void)information;
    const greg_t *registers = ((const ucontext_t *)context)->uc_mcontext.gregs;
    bool waits = (uint64_t)registers[REG_RIP] - (uint64_t)rig.image < IMAGE_BYTES &&
                 registers[REG_RAX] == EINTR_ANSWER;
    if (!waits || rig.parameters->mapped[WIRE_AGENT_PART_ROWS] == room)
        return;
    change_modules();
    rig.parameters->mapped[WIRE_AGENT_PART_ROWS] = room;
    changes++;
}

/* All rows are mapped, and little of them is said to be: the kernel grows no mapping from its middle, so the
 * agent waits for whoever knows. */
static void test_a_module_that_changes_under_a_walk(void **state)
{
    (void)state;
    const struct itimerval often = {{0, INTERVAL_US}, {0, INTERVAL_US}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_sigaction = interrupt, .sa_flags = SA_SIGINFO}, before;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    changes = 0;
    for (unsigned i = 0; i < TRIES && changes < 3; i++) {
        agent_rig_modules(&rig, 1000 * (i + 1));
        agent_rig_modules(&rig, 1000 * (i + 1)); /* both tables tell the same */
        memset(rig.parameters->refusals, 0, sizeof rig.parameters->refusals);
        rig.parameters->mapped[WIRE_AGENT_PART_ROWS] = LITTLE;
        hooked_free(hooked_malloc(7));
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_int_equal(changes, 3);
    assert_int_equal(agent_rig_read(&rig, rig.process, 0, 0).live_count, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_module_that_changes_under_a_walk),
    };
    return cmocka_run_group_tests_name("agent_stack", tests, NULL, NULL);
}
