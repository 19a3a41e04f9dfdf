/* What of a text leads to memory of ours, whatever bytes an instruction of ours happens to have: the test
 * changes a page of its own text, and all that it changed, and nothing else, is to be found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "loader_leads.h"

#define PAGE 4096
#define SITE 128 /* where the page has a jump of its own */

/* Padding, and a tail jump. */
__asm__(".text\n"
        ".balign 4096\n"
        "leads_text:\n"
        ".fill 128, 1, 0x90\n"
        ".byte 0xe9, 0x1c, 0xd3, 0x20, 0x00\n"
        ".fill 4096 - 133, 1, 0x90\n");
extern uint8_t leads_text[] __attribute__((visibility("hidden")));

static uint8_t file[PAGE];

static int set_up(void **state)
{
    (void)state;
    memcpy(file, leads_text, PAGE);
    return mprotect(leads_text, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
}

static uint64_t address_of(size_t at)
{
    return (uint64_t)(uintptr_t)leads_text + at;
}

/* Puts back what is found to lead to the 16 bytes at one of the targets: none of it lies outside of
 * at..at+length-1. How many changes. */
static size_t put_back_both(const uint64_t targets[2], size_t at, size_t length)
{
    struct proc_maps maps = {0};
    struct loader_leads leads = {0};
    const struct loader_range ranges[2] = {{.address = targets[0], .size = 16, .code = true},
                                           {.address = targets[1], .size = 16, .code = true}};
    assert_int_equal(proc_maps_read(getpid(), &maps, NULL), BASE_OK);
    assert_int_equal(loader_leads_find(getpid(), &maps, ranges, 2, &leads, NULL), BASE_OK);
    assert_int_equal(leads.unreadable, 0);
    for (size_t i = 0; i < leads.count; i++) {
        const struct trace_memory_change *change = &leads.changes[i];
        assert_true(change->address >= address_of(at) &&
                    change->address + change->length <= address_of(at) + length);
        assert_memory_equal(change->before, (void *)(uintptr_t)change->address, change->length);
        memcpy((void *)(uintptr_t)change->address, change->after, change->length);
    }
    size_t count = leads.count;
    loader_leads_free(&leads);
    proc_maps_free(&maps);
    return count;
}

static size_t put_back(uint64_t target, size_t at, size_t length)
{
    return put_back_both((uint64_t[2]){target, target}, at, length);
}

static void put_jump(size_t at, uint8_t opcode, uint32_t displacement)
{
    leads_text[at] = opcode;
    memcpy(leads_text + at + 1, &displacement, sizeof displacement);
}

static uint64_t target_of(size_t at, uint32_t displacement)
{
    return address_of(at + 5) + (uint64_t)(int64_t)(int32_t)displacement;
}

static void is_put_back(size_t at, uint8_t opcode, uint32_t displacement)
{
    put_jump(at, opcode, displacement);
    size_t found = put_back(target_of(at, displacement), at, 5);
    if (memcmp(leads_text, file, PAGE) || !found)
        fail_msg("%02x %08x at %zu is not put back", opcode, displacement, at);
}

/* Bytes as a breakpoint's, as the file's, and as short jumps. */
static void every_byte_may_be_in_a_displacement(void **state)
{
    (void)state;
    static const uint32_t odd[] = {0x2fd3cc,   0x20d3cc,   0x20cc1c,   0xccd31c,   0x3bccd3cc,
                                   0x0120d31d, 0x90909090, 0x90cc90cc, 0x70eb75cc, 0x4ccccccc};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        is_put_back(SITE, 0xe9, odd[i]);
        is_put_back(SITE, 0xe8, odd[i]);
        is_put_back(SITE + 400, 0xe9, odd[i]);
        is_put_back(SITE - 3, 0xe9, odd[i]); /* over the other jump's first bytes */
    }
    srandom(20261125);
    for (unsigned i = 0; i < 400; i++) {
        uint32_t displacement = (uint32_t)random() << 1;
        for (unsigned byte = 0; byte < 4; byte++)
            displacement =
                random() % 3 ? displacement : (displacement & ~(0xffu << 8 * byte)) | 0xccu << 8 * byte;
        is_put_back(i % 4 ? SITE : (size_t)random() % (PAGE - 8), 0xe9, displacement);
    }
}

/* Over our jump's first byte, and the file's byte again when it was removed. */
static void a_breakpoint_of_others_stays(void **state)
{
    (void)state;
    const uint32_t displacement = 0x3b20d31c;
    put_jump(SITE + 400, 0xe9, displacement);
    leads_text[SITE + 400] = 0xcc;
    assert_int_equal(put_back(target_of(SITE + 400, displacement), SITE + 401, 4), 1);
    assert_int_equal(leads_text[SITE + 400], 0xcc);
    leads_text[SITE + 400] = file[SITE + 400];
    assert_memory_equal(leads_text, file, PAGE);
    put_jump(SITE + 400, 0xe9, displacement);
    leads_text[SITE + 400] = file[SITE + 400];
    assert_int_equal(put_back(target_of(SITE + 400, displacement), SITE + 401, 4), 1);
    assert_memory_equal(leads_text, file, PAGE);
}

/* Bytes before a breakpoint, its own and those of the displacement may happen to lead to ours, read from
 * another place on. */
static void a_displacement_is_not_taken_for_two(void **state)
{
    (void)state;
    srandom(20261126);
    for (unsigned i = 0; i < 400; i++) {
        const size_t at = SITE + 400, before = at - 1 - i % 4;
        uint32_t displacement = 0xff000000 | ((uint32_t)random() & 0xffffff), other;
        put_jump(at, 0xe9, displacement);
        leads_text[at] = i & 4 ? 0xcc : file[at];
        memcpy(&other, leads_text + before + 1, sizeof other);
        const uint64_t targets[] = {target_of(at, displacement), target_of(before, other)};
        assert_true(put_back_both(targets, at + 1, 4) > 0);
        assert_int_equal(leads_text[at], i & 4 ? 0xcc : file[at]);
        leads_text[at] = file[at];
        assert_memory_equal(leads_text, file, PAGE);
    }
}

static void what_leads_elsewhere_stays(void **state)
{
    (void)state;
    put_jump(SITE + 400, 0xe9, 0x1000);
    assert_int_equal(put_back(target_of(SITE + 400, 0x2000), 0, 0), 0);
    memcpy(leads_text, file, PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_may_be_in_a_displacement),
        cmocka_unit_test(a_breakpoint_of_others_stays),
        cmocka_unit_test(a_displacement_is_not_taken_for_two),
        cmocka_unit_test(what_leads_elsewhere_stays),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
