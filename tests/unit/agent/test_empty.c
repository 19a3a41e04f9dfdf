/* Empty pages, by wrappers called in this process, with bodies whose memory the test knows to the byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "agent_rig.h"
#include "wire_agent_empty.h"

#define PAGE  4096
#define ARENA (64 * PAGE)

typedef void *malloc_function(size_t size);
typedef void *calloc_function(size_t count, size_t size);
typedef void *realloc_function(void *block, size_t size);
typedef void free_function(void *block);
typedef void *aligned_function(size_t alignment, size_t size);
typedef int posix_function(void **result, size_t alignment, size_t size);

static struct agent_rig rig;
static uint8_t *arena, *next; /* what the next body gives out */
static uint64_t usable;       /* of every block */
static malloc_function *hooked_malloc;
static calloc_function *hooked_calloc;
static realloc_function *hooked_realloc;
static free_function *hooked_free;
static aligned_function *hooked_aligned;
static posix_function *hooked_posix;

static void *body_malloc(size_t size)
{
    (void)size;
    return next;
}

static void *body_calloc(size_t count, size_t size)
{
    return memset(next, 0, count * size);
}

/* In its place, unless it is too much. */
static void *body_realloc(void *block, size_t size)
{
    if (size <= ARENA)
        return block != NULL ? block : next;
    errno = ENOMEM;
    return NULL;
}

static void body_free(void *block)
{
    (void)block;
}

static void *body_aligned(size_t alignment, size_t size)
{
    (void)alignment;
    return body_malloc(size);
}

static int body_posix(void **result, size_t alignment, size_t size)
{
    *result = body_aligned(alignment, size);
    return 0;
}

static size_t body_usable(void *block)
{
    (void)block;
    return usable;
}

/* The test's own functions are the allocator: one layer has them all. */
static void add_layer(void)
{
    rig.process->layers[0] = (struct wire_agent_layer){
        .start = (uint64_t)rig.code, .end = (uint64_t)rig.code + 65536, .usable_size = (uint64_t)body_usable};
    rig.process->layer_count = 1;
    rig.process->layers_known = 1;
}

static void begin(uint32_t flags)
{
    agent_rig_begin(&rig, &(struct agent_rig_options){.flags = flags});
    hooked_malloc = (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)body_malloc);
    hooked_calloc = (calloc_function *)agent_rig_hook(&rig, "agent_entry_calloc", (void *)body_calloc);
    hooked_realloc = (realloc_function *)agent_rig_hook(&rig, "agent_entry_realloc", (void *)body_realloc);
    hooked_free = (free_function *)agent_rig_hook(&rig, "agent_entry_free", (void *)body_free);
    hooked_aligned = (aligned_function *)agent_rig_hook(&rig, "agent_entry_aligned", (void *)body_aligned);
    hooked_posix = (posix_function *)agent_rig_hook(&rig, "agent_entry_posix_memalign", (void *)body_posix);
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    next = arena;
    usable = 0;
}

static void end(void)
{
    munmap(arena, ARENA);
    agent_rig_end(&rig);
}

/* Pages that were found empty, so far. */
static uint64_t empty(void)
{
    const struct wire_agent_cell *cells = agent_rig_cells(&rig, rig.process);
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= rig.process->cell_count; i++)
        sum += cells[i].empty;
    assert_int_equal(sum % PAGE, 0);
    return sum / PAGE;
}

static bool is_filled(const uint8_t *from, const uint8_t *to)
{
    for (; from < to; from++)
        if (*from != (uint8_t)(WIRE_AGENT_PATTERN >> (uintptr_t)from % 8 * 8))
            return false;
    return true;
}

static const uint32_t modes[] = {0, WIRE_AGENT_EMPTY, WIRE_AGENT_EMPTY | WIRE_AGENT_FILL,
                                 WIRE_AGENT_EMPTY | WIRE_AGENT_FILL | WIRE_AGENT_UNUSED};
enum { NONE, ZERO, INIT, UNUSED, MODES };

/* Untouched pages (zeros by chance), written zeros, one byte at each end of a page, and what is no whole
 * page. */
static void test_pages(void **state)
{
    (void)state;
    static const uint64_t expected[MODES] = {[ZERO] = 5, [INIT] = 2, [UNUSED] = 3};
    for (unsigned mode = 0; mode < MODES; mode++) {
        begin(modes[mode]);
        next = arena + 16;
        uint8_t *block = hooked_malloc(10 * PAGE - 32); /* pages 1 to 8 */
        memset(arena + 4 * PAGE, 0, 2 * PAGE);
        arena[6 * PAGE] = 1;
        arena[8 * PAGE - 1] = 1;
        arena[8 * PAGE + 2000] = (uint8_t)(modes[mode] & WIRE_AGENT_FILL ? 0 : 1);
        hooked_free(block);
        assert_int_equal(empty(), expected[mode]);
        assert_int_equal(arena[0], 0); /* beside the block */
        assert_int_equal(arena[10 * PAGE - 16], 0);
        end();
    }
}

/* Every byte of a fresh block is filled, none beside it; calloc's are zeros. */
static void test_filling(void **state)
{
    (void)state;
    for (unsigned mode = 0; mode < MODES; mode++) {
        bool fills = mode >= INIT;
        begin(modes[mode]);
        for (unsigned at = 0; at < 24; at++)
            for (size_t size = 0; size < 40; size++) {
                memset(arena, 7, 128);
                next = arena + 16 + at;
                hooked_free(hooked_malloc(size));
                assert_int_equal(next[-1], 7);
                assert_int_equal(next[size], 7);
                assert_int_equal(size != 0 && is_filled(next, next + size), size != 0 && fills);
            }
        void *block;
        next = arena;
        memset(arena, 7, ARENA);
        hooked_free(hooked_aligned(64, 3 * PAGE));
        assert_int_equal(is_filled(arena, arena + 3 * PAGE), fills);
        next = arena + 8 * PAGE;
        assert_int_equal(hooked_posix(&block, 64, 3 * PAGE), 0);
        hooked_free(block);
        assert_int_equal(is_filled(next, next + 3 * PAGE), fills);
        uint64_t before = empty();
        block = hooked_calloc(2, 2 * PAGE);
        assert_int_equal(((uint8_t *)block)[0] | ((uint8_t *)block)[4 * PAGE - 1], 0);
        hooked_free(block);
        assert_int_equal(empty() - before, mode == ZERO || mode == INIT ? 4 : 0);
        end();
    }
}

/* What is beyond the request and usable is the program's: realloc's filling begins behind it. Where that is
 * not known, nothing is filled. */
static void test_resizing(void **state)
{
    (void)state;
    begin(modes[UNUSED]);
    memset(arena, 7, ARENA);
    uint8_t *block = hooked_malloc(PAGE + 10);
    memset(block, 1, 2 * PAGE);
    block = hooked_realloc(block, 6 * PAGE);
    assert_int_equal(block[2 * PAGE], 7);
    add_layer();
    usable = 7 * PAGE;
    block = hooked_realloc(block, 20 * PAGE);
    assert_int_equal(block[7 * PAGE - 1], 7);
    assert_true(is_filled(block + 7 * PAGE, block + 20 * PAGE));
    assert_int_equal(empty(), 0);
    usable = 20 * PAGE;
    block = hooked_realloc(block, 10 * PAGE); /* it had 13 pages of pattern; three stay */
    assert_int_equal(empty(), 13);
    assert_null(hooked_realloc(block, ARENA + 1)); /* nothing was released */
    assert_int_equal(empty(), 13);
    hooked_free(block);
    assert_int_equal(empty(), 16);
    memset(arena, 7, ARENA);
    block = hooked_realloc(NULL, 2 * PAGE);
    assert_true(is_filled(block, block + 2 * PAGE));
    assert_null(hooked_realloc(NULL, ARENA + 1));
    end();
}

/* Pages that may not be read do not count, and do no harm. */
static void test_unreadable(void **state)
{
    (void)state;
    begin(modes[ZERO]);
    void *block = hooked_malloc(9 * PAGE);
    assert_int_equal(mprotect(arena + 3 * PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(arena + 5 * PAGE, 2 * PAGE, PROT_NONE), 0);
    hooked_free(block);
    assert_int_equal(empty(), 6);
    hooked_free(arena + 20 * PAGE); /* nobody knows it */
    assert_int_equal(empty(), 6);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages), cmocka_unit_test(test_filling),
                                       cmocka_unit_test(test_resizing), cmocka_unit_test(test_unreadable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
