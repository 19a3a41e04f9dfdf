/* bench_agent - what the agent adds to a malloc and free, by stacks of 17 frames.
 *
 *   bench_agent [PAIRS [NAME]]
 *
 * The agent is loaded into this process (tests/unit/agent/agent_rig.h) and its wrappers are called, or libc's
 * functions are; rounds of both alternate, the medians are printed. tight: a pair at a time from one place.
 * ways: the same, but each time down another of 64 ways through the last six frames. churn: 65,536 blocks of
 * 16 to 527 bytes are live, each step replaces a random one. sampled: churn with --heap=sample:524288. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent_rig.h"

#define AWAY   __attribute__((noinline, noclone))
#define ROUNDS 7
#define LIVE   65536

static struct agent_rig rig;
static void *(*allocate)(size_t size);
static void (*release)(void *block);
static void *blocks[LIVE];
static uint32_t state = 1;

static uint32_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static AWAY void tight_step(unsigned way)
{
    (void)way;
    void *volatile block = allocate(100);
    release(block);
}

static AWAY void churn_step(unsigned way)
{
    (void)way;
    uint32_t number = draw(), slot = number % LIVE;
    release(blocks[slot]);
    blocks[slot] = allocate(16 + (number >> 16) % 512);
}

static AWAY void left(unsigned way, unsigned levels, void (*step)(unsigned));
static AWAY void right(unsigned way, unsigned levels, void (*step)(unsigned))
{
    if (levels == 0)
        step(way);
    else if (way >> levels & 1)
        right(way, levels - 1, step);
    else
        left(way, levels - 1, step);
    __asm__ volatile("");
}
static AWAY void left(unsigned way, unsigned levels, void (*step)(unsigned))
{
    if (levels == 0)
        step(way);
    else if (way >> levels & 1)
        right(way, levels - 1, step);
    else
        left(way, levels - 1, step);
    __asm__ volatile("");
}

/* Nine frames here, the step, main and libc's three: 17 with the ways' six. */
static AWAY void down(unsigned depth, unsigned way, void (*step)(unsigned))
{
    if (depth == 0)
        left(way, 6, step);
    else
        down(depth - 1, way, step);
    __asm__ volatile("");
}

static double run(unsigned pairs, bool many_ways, void (*step)(unsigned))
{
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    for (unsigned i = 0; i < pairs; i++)
        down(4, many_ways ? draw() : 21, step);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return ((double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec)) / pairs;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return difference > 0 ? 1 : difference < 0 ? -1 : 0;
}

static void use_hooks(bool hooked, void *hooked_malloc, void *hooked_free)
{
    allocate = hooked ? (void *(*)(size_t))hooked_malloc : malloc;
    release = hooked ? (void (*)(void *))hooked_free : free;
}

static void measure(const char *name, unsigned pairs, uint64_t sample_bytes, bool many_ways,
                    void (*step)(unsigned))
{
    double times[2][ROUNDS];
    agent_rig_begin(&rig, &(struct agent_rig_options){.memory = 256u << 20, .sample_bytes = sample_bytes});
    void *hooked_malloc = agent_rig_hook(&rig, "agent_entry_malloc", (void *)malloc);
    void *hooked_free = agent_rig_hook(&rig, "agent_entry_free", (void *)free);
    for (unsigned round = 0; round < ROUNDS * 2; round++) {
        use_hooks(round & 1, hooked_malloc, hooked_free);
        for (unsigned i = 0; i < LIVE; i++) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
        run(LIVE * 4, many_ways, step); /* all slots filled, caches warm */
        times[round & 1][round / 2] = run(pairs, many_ways, step);
        for (unsigned i = 0; i < LIVE; i++) {
            release(blocks[i]);
            blocks[i] = NULL;
        }
    }
    qsort(times[0], ROUNDS, sizeof(double), compare);
    qsort(times[1], ROUNDS, sizeof(double), compare);
    double plain = times[0][ROUNDS / 2], with = times[1][ROUNDS / 2];
    printf("%-8s %6.1f ns a pair, with the agent %6.1f: +%.1f\n", name, plain, with, with - plain);
    agent_rig_end(&rig);
}

int main(int argc, char **argv)
{
    unsigned pairs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1000000;
    static const struct {
        const char *name;
        uint64_t sample_bytes;
        bool many_ways;
        void (*step)(unsigned);
    } kinds[] = {{"tight", 0, false, tight_step},
                 {"ways", 0, true, tight_step},
                 {"churn", 0, true, churn_step},
                 {"sampled", 524288, true, churn_step}};
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (argc < 3 || strcmp(argv[2], kinds[i].name) == 0)
            measure(kinds[i].name, pairs, kinds[i].sample_bytes, kinds[i].many_ways, kinds[i].step);
    return 0;
}
