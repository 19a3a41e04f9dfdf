/* test_oracle.c - the rows of real libraries against an independent reader of the same bytes.
 *
 * The oracle is elfutils' libdw (dwarf_cfi_addrframe), which interprets .eh_frame by itself, for one address
 * at a time. For each range over which it says nothing changes, the rule at its first and at its last byte
 * must say the same about CFA, return address, frame pointer and base register; and no row of ours may begin
 * inside with a different rule. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "cfi.h"

struct comparison {
    const struct arch *arch;
    struct unwind_rows rows;
    Dwarf_CFI *oracle;
    uint64_t compared, odd, different;
};

/* CFA as the oracle has it, in our terms; false when it is an expression of a kind that only we simplify. */
static bool cfa_agrees(const struct wire_rule *rule, Dwarf_Frame *frame)
{
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_frame_cfa(frame, &ops, &count) != 0)
        return rule->cfa_kind == WIRE_CFA_ODD;
    if (count == 1 && ops[0].atom == DW_OP_bregx)
        return rule->cfa_kind == WIRE_CFA_REGISTER && rule->cfa_register == ops[0].number &&
               rule->cfa_offset == (int64_t)ops[0].number2;
    if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31)
        return rule->cfa_kind == WIRE_CFA_REGISTER && rule->cfa_register == ops[0].atom - DW_OP_breg0 &&
               rule->cfa_offset == (int64_t)ops[0].number;
    if (count == 2 && ops[1].atom == DW_OP_deref)
        return rule->cfa_kind == WIRE_CFA_DEREFERENCE && rule->cfa_register == ops[0].atom - DW_OP_breg0 &&
               rule->cfa_offset == (int64_t)ops[0].number && rule->cfa_add == 0;
    return rule->cfa_kind == WIRE_CFA_PLT && count == 9 && ops[4].atom == DW_OP_lit0 + rule->cfa_offset;
}

/* A register's rule as (kind, offset); WIRE_SAVE_UNDEFINED also stands for what neither side can say. */
static unsigned oracle_rule(Dwarf_Frame *frame, int number, int64_t *offset)
{
    Dwarf_Op memory[3], *ops;
    size_t count;
    *offset = 0;
    if (dwarf_frame_register(frame, number, memory, &ops, &count) != 0)
        return WIRE_SAVE_UNDEFINED;
    if (count == 0)
        return ops == NULL ? WIRE_SAVE_SAME : WIRE_SAVE_UNDEFINED;
    if (ops[0].atom == DW_OP_call_frame_cfa) {
        *offset = count > 1 ? (int64_t)ops[1].number : 0;
        bool value = ops[count - 1].atom == DW_OP_stack_value;
        *offset = count == 1 || (count == 2 && value) ? 0 : *offset;
        return value ? WIRE_SAVE_CFA_VALUE : WIRE_SAVE_CFA;
    }
    if (count == 1 && ops[0].atom == DW_OP_breg6 && number == 6) { /* rbp, at rbp + n */
        *offset = (int64_t)ops[0].number;
        return WIRE_SAVE_FP;
    }
    if (count == 1 &&
        (ops[0].atom == DW_OP_regx || (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31))) {
        *offset = ops[0].atom == DW_OP_regx ? (int64_t)ops[0].number : ops[0].atom - DW_OP_reg0;
        return WIRE_SAVE_REGISTER;
    }
    return WIRE_SAVE_UNDEFINED;
}

static bool column_agrees(unsigned kind, int16_t slot, unsigned oracle_kind, int64_t oracle_offset)
{
    int64_t offset = kind == WIRE_SAVE_REGISTER ? slot : slot * 8;
    return kind == oracle_kind && offset == oracle_offset;
}

static bool rule_agrees(const struct comparison *comparison, const struct wire_rule *rule, Dwarf_Frame *frame,
                        int return_column, bool signal)
{
    const struct arch *arch = comparison->arch;
    int64_t ra_offset, fp_offset, base_offset = 0;
    unsigned ra = oracle_rule(frame, return_column, &ra_offset),
             fp = oracle_rule(frame, arch->fp, &fp_offset),
             base = arch->base == ARCH_NO_REGISTER ? WIRE_SAVE_SAME
                                                   : oracle_rule(frame, arch->base, &base_offset);
    if (return_column != arch->return_column &&
        ra != WIRE_SAVE_CFA) { /* assembly that keeps it in a register */
        ra = WIRE_SAVE_REGISTER;
        ra_offset = return_column;
    }
    if (rule->cfa_kind == WIRE_CFA_SIGNAL)
        return signal;
    if (rule->cfa_kind == WIRE_CFA_END)
        return ra == WIRE_SAVE_UNDEFINED;
    unsigned our_base = rule->save_kinds & WIRE_BASE_LOST ? WIRE_SAVE_UNDEFINED
                        : rule->base_slot != 0            ? WIRE_SAVE_CFA
                                                          : WIRE_SAVE_SAME;
    if (base == WIRE_SAVE_UNDEFINED && our_base == WIRE_SAVE_SAME)
        base =
            WIRE_SAVE_SAME; /* libdw's ABI table does not say that rbx is preserved where no rule names it */
    if (our_base == WIRE_SAVE_UNDEFINED) /* we follow it only where it is saved at the CFA */
        base = base == WIRE_SAVE_SAME || base == WIRE_SAVE_CFA ? base : WIRE_SAVE_UNDEFINED;
    return cfa_agrees(rule, frame) && column_agrees(wire_rule_ra_kind(rule), rule->ra_slot, ra, ra_offset) &&
           column_agrees(wire_rule_fp_kind(rule), rule->fp_slot, fp, fp_offset) &&
           column_agrees(our_base, rule->base_slot, base,
                         our_base == WIRE_SAVE_UNDEFINED ? rule->base_slot * 8 : base_offset);
}

static void compare_at(struct comparison *comparison, uint64_t address, Dwarf_Frame *frame, int return_column,
                       bool signal)
{
    const struct wire_rule *rule = unwind_rows_find(&comparison->rows, address);
    comparison->compared++;
    if (rule->cfa_kind == WIRE_CFA_ODD) {
        comparison->odd++;
        return;
    }
    if (!rule_agrees(comparison, rule, frame, return_column, signal) && comparison->different++ < 10)
        fprintf(stderr, "# %#lx: kind %d cfa r%d%+d fp %d at %d, ra %d at %d, base at %d\n", address,
                rule->cfa_kind, rule->cfa_register, rule->cfa_offset, wire_rule_fp_kind(rule), rule->fp_slot,
                wire_rule_ra_kind(rule), rule->ra_slot, rule->base_slot);
}

static void compare_function(struct comparison *comparison, const struct cfi_range *range)
{
    uint64_t at = range->start;
    while (at < range->end) {
        Dwarf_Frame *frame;
        Dwarf_Addr start, end;
        bool signal;
        if (dwarf_cfi_addrframe(comparison->oracle, at, &frame) != 0) {
            comparison->different++;
            return;
        }
        int return_column = dwarf_frame_info(frame, &start, &end, &signal);
        end = end < range->end ? end : range->end;
        compare_at(comparison, at, frame, return_column, signal);
        const struct wire_rule *first = unwind_rows_find(&comparison->rows, at);
        for (uint64_t inside = at + 1; inside < end; inside++)
            comparison->different += unwind_rows_find(&comparison->rows, inside) != first;
        free(frame);
        at = end > at ? end : at + 1;
    }
}

static void compare_image(const char *path, uint64_t at_least)
{
    struct comparison comparison = {0};
    struct elf_image *image;
    struct cfi_range *ranges;
    struct cfi_statistics statistics;
    size_t count, size;
    void *blob;
    if (access(path, R_OK) != 0) {
        fprintf(stderr, "# needs %s: not here\n", path);
        skip();
    }
    assert_int_equal(elf_image_open(path, &image, NULL), BASE_OK);
    assert_int_equal(cfi_compile(image, NULL, &blob, &size, &statistics, NULL), BASE_OK);
    assert_int_equal(cfi_ranges(image, &ranges, &count, NULL), BASE_OK);
    assert_true(unwind_rows_open(&comparison.rows, blob, size));
    comparison.arch = comparison.rows.arch;
    elf_version(EV_CURRENT);
    int file = open(path, O_RDONLY);
    Elf *elf = elf_begin(file, ELF_C_READ_MMAP, NULL);
    comparison.oracle = dwarf_getcfi_elf(elf);
    assert_non_null(comparison.oracle);
    for (size_t i = 0; i < count; i++)
        compare_function(&comparison, &ranges[i]);
    fprintf(stderr, "# %s: %lu rows compared, %lu odd, %lu different\n", path, comparison.compared,
            comparison.odd, comparison.different);
    assert_int_equal(comparison.different, 0);
    assert_int_equal(statistics.broken_fdes, 0);
    assert_true(comparison.compared >= at_least);
    assert_true(comparison.odd <= comparison.compared / 1000);
    dwarf_cfi_end(comparison.oracle);
    elf_end(elf);
    close(file);
    free(ranges);
    free(blob);
    elf_image_close(image);
}

static void rows_of_libc(void **state)
{
    (void)state;
    compare_image("/lib/x86_64-linux-gnu/libc.so.6", 20000);
}

static void rows_of_sqlite(void **state)
{
    (void)state;
    compare_image("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0", 10000);
}

/* C++ */
static void rows_of_libstdcxx(void **state)
{
    (void)state;
    compare_image("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 20000);
}

/* Another machine's, on this host. */
static void rows_of_an_aarch64_libc(void **state)
{
    (void)state;
    compare_image("/usr/aarch64-linux-gnu/lib/libc.so.6", 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_libc),
        cmocka_unit_test(rows_of_sqlite),
        cmocka_unit_test(rows_of_libstdcxx),
        cmocka_unit_test(rows_of_an_aarch64_libc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
