/* test_rows.c - opening a rows blob believes nothing, and finding finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rows_blob.h"

#define BASE 0x30000

static const struct rows_blob_row some[] = {
    {BASE,
     {.cfa_kind = WIRE_CFA_REGISTER, .cfa_register = 7, .cfa_offset = 8, .ra_slot = -1, .save_kinds = 0x10}},
    {BASE + 0x10, {.cfa_kind = WIRE_CFA_REGISTER, .cfa_register = 7, .cfa_offset = 16, .save_kinds = 0x10}},
    {BASE + 0xffff, {.cfa_kind = WIRE_CFA_END}},
    {BASE + 0x20000, {.cfa_kind = WIRE_CFA_ODD}},
    {BASE + 0x20001, {.cfa_kind = WIRE_CFA_SIGNAL}},
};
enum { COUNT = sizeof some / sizeof some[0], PAGES = 3 };

static void make(struct rows_blob *blob)
{
    rows_blob_make(blob, 62, BASE, PAGES, some, COUNT);
}

static void finds_the_row_at_or_below(void **state)
{
    struct rows_blob blob;
    struct unwind_rows rows;
    (void)state;
    make(&blob);
    assert_true(unwind_rows_open(&rows, &blob, blob.header.byte_count));
    assert_ptr_equal(rows.arch, &arch_x86_64);
    static const struct {
        uint64_t address;
        unsigned rule;
    } expected[] = {
        {0, 0},
        {BASE - 1, 0},
        {BASE, 1},
        {BASE + 0xf, 1},
        {BASE + 0x10, 2},
        {BASE + 0xfffe, 2},
        {BASE + 0xffff, 3},
        {BASE + 0x10000, 0}, /* a page without rows */
        {BASE + 0x1ffff, 0},
        {BASE + 0x20000, 4},
        {BASE + 0x20001, 5},
        {BASE + 0x2ffff, 5},
        {BASE + 0x30000, 0},
        {UINT64_MAX, 0},
    };
    for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_ptr_equal(unwind_rows_find(&rows, expected[i].address), &rows.rules[expected[i].rule]);
}

static void an_empty_blob_is_a_blob(void **state)
{
    struct rows_blob blob;
    struct unwind_rows rows;
    (void)state;
    rows_blob_make(&blob, 183, 0, 0, NULL, 0);
    assert_true(unwind_rows_open(&rows, &blob, blob.header.byte_count));
    assert_int_equal(unwind_rows_find(&rows, 0)->cfa_kind, WIRE_CFA_NONE);
}

/* Each corruption alone makes the blob unusable. */
static bool opens_with(size_t offset, size_t size, uint64_t value)
{
    struct rows_blob blob;
    struct unwind_rows rows;
    make(&blob);
    uint32_t byte_count = blob.header.byte_count;
    memcpy((uint8_t *)&blob + offset, &value, size);
    return unwind_rows_open(&rows, &blob, byte_count);
}

static void refuses_what_could_lead_outside(void **state)
{
    const size_t head = sizeof(struct wire_rows_header), rules = head, pages = rules + (COUNT + 1) * 16,
                 rows = pages + (PAGES + 1) * 4;
    (void)state;
#define FIELD(name) offsetof(struct wire_rows_header, name), sizeof((struct wire_rows_header *)0)->name
    assert_true(opens_with(FIELD(text_hash), 12345)); /* not ours to judge */
    assert_false(opens_with(FIELD(magic), 0));
    assert_false(opens_with(FIELD(version), 2));
    assert_false(opens_with(FIELD(machine), 3));
    assert_false(opens_with(FIELD(machine), 62 + 0x10000));
    assert_false(opens_with(FIELD(base), BASE + 8));
    assert_false(opens_with(FIELD(base), UINT64_C(0xffffffffffff0000))); /* pages past the address space */
    assert_false(opens_with(FIELD(page_count), PAGES + 1));
    assert_false(opens_with(FIELD(page_count), UINT32_MAX));
    assert_false(opens_with(FIELD(row_count), COUNT + 1));
    assert_false(opens_with(FIELD(rule_count), 0));
    assert_false(opens_with(FIELD(rule_count), UINT32_MAX));
    assert_false(opens_with(FIELD(byte_count), 0));
    assert_false(opens_with(rules + offsetof(struct wire_rule, cfa_kind), 1, WIRE_CFA_ODD)); /* rule 0 */
    assert_false(opens_with(rules + 16 + offsetof(struct wire_rule, cfa_kind), 1, WIRE_CFA_ODD + 1));
    assert_false(opens_with(rules + 16 + offsetof(struct wire_rule, cfa_register), 1, 17));
    assert_false(opens_with(rules + 16 + offsetof(struct wire_rule, save_kinds), 1, 0x60));
    assert_false(opens_with(rules + 16 + offsetof(struct wire_rule, save_kinds), 1, 0x06));
    assert_false(
        opens_with(rules + 16 + offsetof(struct wire_rule, save_kinds), 1, 0x30)); /* in register -1 */
    assert_false(opens_with(pages, 4, 1));
    assert_false(opens_with(pages + 4, 4, 4));          /* page 1 would begin in the middle of rows */
    assert_false(opens_with(pages + 4, 4, UINT32_MAX)); /* and page 0 end far outside */
    assert_false(opens_with(pages + 4 * PAGES, 4, COUNT - 1));
    assert_false(opens_with(rows, 2, 1));             /* a page must begin at offset 0 */
    assert_false(opens_with(rows + 4, 2, 0));         /* rows must rise */
    assert_false(opens_with(rows + 2, 2, COUNT + 1)); /* no such rule */
#undef FIELD
}

static void refuses_short_and_unaligned_memory(void **state)
{
    struct rows_blob blob;
    struct unwind_rows rows;
    uint8_t *copy = malloc(sizeof blob + 1);
    (void)state;
    make(&blob);
    for (uint32_t size = 0; size < blob.header.byte_count; size++)
        assert_false(unwind_rows_open(&rows, &blob, size));
    memcpy(copy + 1, &blob, sizeof blob);
    assert_false(unwind_rows_open(&rows, copy + 1, blob.header.byte_count));
    free(copy);
}

/* Any byte changed to anything: refused, or every answer is still one of the blob's rules. */
static void survives_random_damage(void **state)
{
    uint64_t random = 1;
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct rows_blob blob;
        struct unwind_rows rows;
        make(&blob);
        const uint32_t size = blob.header.byte_count;
        for (unsigned k = 0; k <= i % 3; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            ((uint8_t *)&blob)[(random >> 33) % size] = (uint8_t)(random >> 56);
        }
        if (!unwind_rows_open(&rows, &blob, sizeof blob))
            continue;
        for (uint64_t k = 0; k < 8; k++) {
            const struct wire_rule *rule = unwind_rows_find(&rows, rows.header->base - 2 + k * 0x7fff);
            assert_true(rule >= rows.rules && rule < rows.rules + rows.header->rule_count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_row_at_or_below),
        cmocka_unit_test(an_empty_blob_is_a_blob),
        cmocka_unit_test(refuses_what_could_lead_outside),
        cmocka_unit_test(refuses_short_and_unaligned_memory),
        cmocka_unit_test(survives_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
