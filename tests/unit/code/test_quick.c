/* code_quick against Zydis: every opcode of both maps, behind every REX prefix and none, with every ModRM,
 * and SIB bytes and displacements that vary. Whatever the quick decoder answers must be Zydis' answer in
 * every field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "code_quick.h"

static unsigned known;

static bool same(const struct code_instruction *a, const struct code_instruction *b)
{
    return a->address == b->address && a->target == b->target && a->memory == b->memory &&
           a->immediate == b->immediate && a->absolute == b->absolute && a->marks == b->marks &&
           a->length == b->length && a->flow == b->flow && a->operand == b->operand &&
           a->rip_relative == b->rip_relative && a->displacement_at == b->displacement_at &&
           a->displacement_size == b->displacement_size && a->immediate_at == b->immediate_at &&
           a->immediate_size == b->immediate_size && a->opcode_at == b->opcode_at &&
           a->modrm_at == b->modrm_at && a->opcode_map == b->opcode_map && a->opcode == b->opcode;
}

static void compare(const uint8_t *bytes)
{
    struct code_instruction quick, slow;
    if (!code_quick_decode(bytes, CODE_QUICK_BYTES, 0x401000, &quick))
        return;
    known++;
    bool valid = code_instruction_decode_zydis(bytes, CODE_QUICK_BYTES, 0x401000, &slow);
    if (!valid || !same(&quick, &slow))
        fail_msg("%02x %02x %02x %02x %02x: %s", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
                 valid ? "another answer" : "no instruction");
}

static uint64_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 24;
}

/* `start` bytes of prefix and opcode are there: all ModRM bytes, what follows is random. */
static void compare_operands(uint8_t *bytes, size_t start, uint64_t *random)
{
    for (unsigned modrm = 0; modrm < 256; modrm++) {
        bool indexed = (modrm & 7) == 4 && modrm < 0xc0;
        bytes[start] = (uint8_t)modrm;
        for (unsigned sib = 0; sib < (indexed ? 256 : 2); sib += indexed ? 5 : 1) {
            for (size_t i = start + 1; i < CODE_QUICK_BYTES; i++)
                bytes[i] = (uint8_t)next_random(random);
            if (indexed)
                bytes[start + 1] = (uint8_t)sib;
            compare(bytes);
        }
    }
}

static void every_form_is_as_zydis_has_it(void **state)
{
    uint64_t random = 1;
    (void)state;
    known = 0;
    for (unsigned rex = 0x3f; rex < 0x50; rex++) { /* 3f stands for none */
        for (unsigned opcode = 0; opcode < 512; opcode++) {
            uint8_t bytes[CODE_QUICK_BYTES];
            size_t at = 0;
            if (rex != 0x3f)
                bytes[at++] = (uint8_t)rex;
            if (opcode >= 256)
                bytes[at++] = 0x0f;
            bytes[at++] = (uint8_t)opcode;
            compare_operands(bytes, at, &random);
        }
    }
    assert_true(known > 500000);
}

static void random_bytes_are_as_zydis_has_them(void **state)
{
    uint64_t random = 2;
    (void)state;
    known = 0;
    for (unsigned round = 0; round < 300000; round++) {
        uint8_t bytes[CODE_QUICK_BYTES];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)next_random(&random);
        compare(bytes);
    }
    assert_true(known > 50000);
}

static void what_may_be_cut_is_left_to_zydis(void **state)
{
    static const uint8_t nops[CODE_QUICK_BYTES] = {0x90, 0x90};
    struct code_instruction at;
    (void)state;
    for (size_t size = 0; size < CODE_QUICK_BYTES; size++)
        assert_false(code_quick_decode(nops, size, 0, &at));
    assert_true(code_quick_decode(nops, CODE_QUICK_BYTES, 0, &at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_as_zydis_has_it),
        cmocka_unit_test(random_bytes_are_as_zydis_has_them),
        cmocka_unit_test(what_may_be_cut_is_left_to_zydis),
    };
    return cmocka_run_group_tests_name("code_quick", tests, NULL, NULL);
}
