/* code_graph_make and code_aarch64_decode on pieces of code, with their disassembly in the margin: blocks,
 * edges, loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_text.h"
#include "code_aarch64.h"
#include "code_loops.h"
#include "failing.h"

enum { TABLE = 0x180, FATAL = 0x300 };

struct piece {
    const char *what;
    const uint8_t *code, *table;
    size_t size, table_size;
    uint64_t start;
    bool aarch64;
    unsigned guessed;
    const char *blocks; /* "START>NEXT,NEXT ..." by address and index */
    const char *loops;  /* "HEADER@DEPTH<BACKS" by index of block */
};

static const uint8_t nest[] = {
    0x31, 0xc0,       /*  0: xor %eax,%eax */
    0x31, 0xc9,       /*  2: xor %ecx,%ecx */
    0x31, 0xd2,       /*  4: xor %edx,%edx */
    0x01, 0xd0,       /*  6: add %edx,%eax */
    0xff, 0xc2,       /*  8: inc %edx */
    0x83, 0xfa, 0x0a, /*  a: cmp $10,%edx */
    0x75, 0xf7,       /*  d: jne 6 */
    0xff, 0xc1,       /*  f: inc %ecx */
    0x83, 0xf9, 0x0a, /* 11: cmp $10,%ecx */
    0x75, 0xee,       /* 14: jne 4 */
    0xc3,             /* 16: ret */
};

static const uint8_t choice[] = {
    0x48, 0x8d, 0x15, 0x79, 0x00, 0x00, 0x00, /* 100: lea 180(%rip),%rdx */
    0x0f, 0xb6, 0x07,                         /* 107: movzbl (%rdi),%eax */
    0x48, 0xff, 0xc7,                         /* 10a: inc %rdi */
    0x83, 0xf8, 0x03,                         /* 10d: cmp $3,%eax */
    0x77, 0x18,                               /* 110: ja 12a */
    0x48, 0x63, 0x04, 0x82,                   /* 112: movslq (%rdx,%rax,4),%rax */
    0x48, 0x01, 0xd0,                         /* 116: add %rdx,%rax */
    0xff, 0xe0,                               /* 119: jmp *%rax */
    0x0f, 0x1f, 0x00,                         /* 11b: nopl (%rax) */
    0xff, 0xc6,                               /* 11e: inc %esi */
    0xeb, 0xe5,                               /* 120: jmp 107 */
    0xff, 0xce,                               /* 122: dec %esi */
    0xeb, 0xe1,                               /* 124: jmp 107 */
    0xf7, 0xde,                               /* 126: neg %esi */
    0xeb, 0xdd,                               /* 128: jmp 107 */
    0x89, 0xf0,                               /* 12a: mov %esi,%eax */
    0xc3,                                     /* 12c: ret */
};

/* Four entries, 11e, 122, 126 and 12a; what follows is no part of it though it looks like one. */
static const uint8_t choice_table[] = {0x9e, 0xff, 0xff, 0xff, 0xa2, 0xff, 0xff, 0xff, 0xa6, 0xff,
                                       0xff, 0xff, 0xaa, 0xff, 0xff, 0xff, 0x87, 0xff, 0xff, 0xff};
/* The same with its second entry elsewhere (a cold part). */
static const uint8_t cold_table[] = {0x9e, 0xff, 0xff, 0xff, 0x00, 0x10, 0x00, 0x00,
                                     0xa6, 0xff, 0xff, 0xff, 0xaa, 0xff, 0xff, 0xff};

static const uint8_t away[] = {
    0x85, 0xff,                   /* 200: test %edi,%edi */
    0x74, 0x05,                   /* 202: je 209 */
    0xe8, 0xf7, 0x00, 0x00, 0x00, /* 204: call 300 */
    0xff, 0xcf,                   /* 209: dec %edi */
    0x75, 0xfc,                   /* 20b: jne 209 */
    0xc3,                         /* 20d: ret */
};

static const uint8_t labels[] = {
    0x0f, 0xb6, 0x07, /* 400: movzbl (%rdi),%eax */
    0xff, 0x24, 0xc6, /* 403: jmp *(%rsi,%rax,8) */
    0x48, 0xff, 0xc7, /* 406: inc %rdi */
    0x0f, 0xb6, 0x07, /* 409: movzbl (%rdi),%eax */
    0xff, 0x24, 0xc6, /* 40c: jmp *(%rsi,%rax,8) */
    0x48, 0xff, 0xcf, /* 40f: dec %rdi */
    0x0f, 0xb6, 0x07, /* 412: movzbl (%rdi),%eax */
    0xff, 0x24, 0xc6, /* 415: jmp *(%rsi,%rax,8) */
    0xc3,             /* 418: ret */
};

static const uint8_t words[] = {
    0x83, 0xff, 0x01,                         /* 500: cmp $1,%edi */
    0x77, 0x09,                               /* 503: ja 50e */
    0xff, 0x24, 0xfd, 0x80, 0x01, 0x00, 0x00, /* 505: jmp *0x180(,%rdi,8) */
    0xff, 0xc0,                               /* 50c: inc %eax */
    0xc3,                                     /* 50e: ret */
};
static const uint8_t words_table[] = {0x0c, 0x05, 0, 0, 0, 0, 0, 0, 0x0e, 0x05, 0, 0, 0, 0, 0, 0};

static const uint8_t twice[] = {
    0x83, 0xff, 0x01,                         /* 500: cmp $1,%edi */
    0x77, 0x15,                               /* 503: ja 51a */
    0xff, 0x24, 0xfd, 0x80, 0x01, 0x00, 0x00, /* 505: jmp *0x180(,%rdi,8) */
    0x83, 0xfe, 0x01,                         /* 50c: cmp $1,%esi */
    0x77, 0x09,                               /* 50f: ja 51a */
    0xff, 0x24, 0xf5, 0x90, 0x01, 0x00, 0x00, /* 511: jmp *0x190(,%rsi,8) */
    0xff, 0xc0,                               /* 518: inc %eax */
    0xc3,                                     /* 51a: ret */
};
static const uint8_t twice_tables[] = {0x0c, 0x05, 0, 0, 0, 0, 0, 0, 0x1a, 0x05, 0, 0, 0, 0, 0, 0,
                                       0x18, 0x05, 0, 0, 0, 0, 0, 0, 0x1a, 0x05, 0, 0, 0, 0, 0, 0};

static const uint8_t tail[] = {
    0x48, 0x8b, 0x47, 0x18, /* 600: mov 0x18(%rdi),%rax */
    0xff, 0xe0,             /* 604: jmp *%rax */
    0xff, 0xc0,             /* 606: inc %eax */
    0xeb, 0xfc,             /* 608: jmp 606 */
};

static const uint8_t padded[] = {
    0x85, 0xff,       /* 700: test %edi,%edi */
    0x74, 0x05,       /* 702: je 709 */
    0x0f, 0x1f, 0x00, /* 704: nopl (%rax) */
    0xff, 0xc0,       /* 707: inc %eax */
    0xff, 0xcf,       /* 709: dec %edi */
    0x75, 0xf3,       /* 70b: jne 700 */
    0x90,             /* 70d: nop */
    0xc3,             /* 70e: ret */
};

static const uint8_t arm[] = {
    0x02, 0x00, 0x80, 0xd2, /*  0: mov x2, #0 */
    0x00, 0x01, 0x00, 0xb4, /*  4: cbz x0, 24 */
    0x23, 0x84, 0x40, 0xf8, /*  8: ldr x3, [x1], #8 */
    0x42, 0x00, 0x03, 0x8b, /*  c: add x2, x2, x3 */
    0x84, 0x04, 0x00, 0xf1, /* 10: subs x4, x4, #1 */
    0xa1, 0xff, 0xff, 0x54, /* 14: b.ne 8 */
    0x00, 0x04, 0x00, 0xd1, /* 18: sub x0, x0, #1 */
    0x06, 0x00, 0x00, 0x94, /* 1c: bl 34 */
    0xf9, 0xff, 0xff, 0x17, /* 20: b 4 */
    0xe0, 0x03, 0x02, 0xaa, /* 24: mov x0, x2 */
    0x00, 0xff, 0x1f, 0x37, /* 28: tbnz w0, #3, 8 */
    0xc0, 0x03, 0x5f, 0xd6, /* 2c: ret */
    0x1f, 0x20, 0x03, 0xd5, /* 30: nop */
};

static const uint8_t arm_switch[] = {
    0x63, 0x28, 0x20, 0x8b, /*  0: add x3, x3, w0, sxth #2 */
    0x60, 0x00, 0x1f, 0xd6, /*  4: br x3 */
    0xe0, 0x03, 0x02, 0xaa, /*  8: mov x0, x2 */
    0xc0, 0x03, 0x5f, 0xd6, /*  c: ret */
    0x60, 0x00, 0x1f, 0xd6, /* 10: br x3 */
};

#define CODE(array)       .code = (array), .size = sizeof(array)
#define WITH_TABLE(array) .table = (array), .table_size = sizeof(array)

static const struct piece pieces[] = {
    {"two loops, one in the other", CODE(nest), .start = 0, .blocks = "0>1 4>2 6>3,2 f>4,1 16>",
     .loops = "1@1<3 2@2<2"},
    {"a switch in a loop, its length by the comparison", CODE(choice), WITH_TABLE(choice_table),
     .start = 0x100, .blocks = "100>1 107>2,6 112>3,4,5,6 11e>1 122>1 126>1 12a>", .loops = "1@1<3,4,5"},
    {"an entry outside of the function is left out", CODE(choice), WITH_TABLE(cold_table), .start = 0x100,
     .blocks = "100>1 107>2,6 112>3,5,6 11e>1 122>1 126>1 12a>", .loops = "1@1<3,5"},
    {"a table that is not in the file: what nothing else leads to", CODE(choice), .start = 0x100,
     .guessed = 1, .blocks = "100>1 107>2,6 112>3,4,5 11e>1 122>1 126>1 12a>", .loops = "1@1<3,4,5"},
    {"a call that does not return", CODE(away), .start = 0x200, .blocks = "200>1,2 204> 209>3,2 20d>",
     .loops = "2@1<2"},
    {"computed gotos", CODE(labels), .start = 0x400, .guessed = 3,
     .blocks = "400>1,2,3 406>1,2,3 40f>1,2,3 418>", .loops = "1!@1<1,2 1@2<1 2@2<2"},
    {"a table of addresses", CODE(words), WITH_TABLE(words_table), .start = 0x500,
     .blocks = "500>1,3 505>2,3 50c>3 50e>", .loops = ""},
    {"two tables of addresses", CODE(twice), WITH_TABLE(twice_tables), .start = 0x500,
     .blocks = "500>1,5 505>2,5 50c>3,5 511>4,5 518>5 51a>", .loops = ""},
    {"a tail call goes nowhere, though something lies open", CODE(tail), .start = 0x600,
     .blocks = "600> 606>1", .loops = "1@1<1"},
    {"padding that is run, behind a branch", CODE(padded), .start = 0x700,
     .blocks = "700>1,2 707>2 709>3,0 70e>", .loops = "0@1<2"},
    {"AArch64", CODE(arm), .start = 0, .aarch64 = true, .blocks = "0>1 4>2,4 8>3,2 18>1 24>5,2 2c>",
     .loops = "1@1<3 2@2<2"},
    {"an AArch64 switch, and a tail call", CODE(arm_switch), .start = 0, .aarch64 = true, .guessed = 1,
     .blocks = "0>1,2 8> 10>", .loops = ""},
};

static bool returns(void *context, uint64_t target)
{
    (void)context;
    return target != FATAL;
}

static void write_blocks(const struct code_graph *graph, struct base_text *out)
{
    for (size_t i = 0; i < graph->block_count; i++) {
        const struct code_block *block = &graph->blocks[i];
        base_text_addf(out, "%s%lx>", i ? " " : "", (unsigned long)block->start);
        for (uint32_t n = 0; n < block->next_count; n++)
            base_text_addf(out, "%s%u", n ? "," : "", graph->next[block->first_next + n]);
    }
}

static void write_loops(const struct code_loops *loops, struct base_text *out)
{
    for (uint32_t i = 0; i < loops->count; i++) {
        const struct code_loop *loop = &loops->items[i];
        base_text_addf(out, "%s%u%s@%u<", i ? " " : "", loop->header, loop->irreducible ? "!" : "",
                       loop->depth);
        for (uint32_t back = 0; back < loop->back_count; back++)
            base_text_addf(out, "%s%u", back ? "," : "", loops->backs[loop->first_back + back]);
    }
}

static int make(const struct piece *piece, struct code_instructions *instructions, struct code_graph *graph)
{
    struct code_piece code = {piece->start, piece->code, piece->size},
                      table = {TABLE, piece->table, piece->table_size};
    struct code_piece both[2] = {piece->start < TABLE ? code : table, piece->start < TABLE ? table : code};
    struct code_text memory = {both, 2};
    struct code_graph_options options = {.returns = returns, .aarch64 = piece->aarch64};
    uint64_t where, end = piece->start + piece->size;
    if (!instructions->count) {
        int verdict = piece->aarch64
                          ? code_aarch64_decode_all(&memory, piece->start, end, instructions, &where)
                          : code_instructions_decode(&memory, piece->start, end, instructions, &where);
        assert_int_equal(verdict, CODE_VERDICT_FINE);
    }
    return code_graph_make(instructions, &memory, &options, graph, NULL);
}

static void expect(const char *what, struct base_text *found, const char *expected)
{
    if (strcmp(base_text_string(found), expected))
        fail_msg("%s: %s, not %s", what, base_text_string(found), expected);
    base_text_clear(found);
}

static void blocks_and_loops(void **state)
{
    struct base_text text = {0};
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct code_instructions instructions = {0};
        struct code_graph graph;
        struct code_loops loops;
        assert_int_equal(make(&pieces[i], &instructions, &graph), BASE_OK);
        assert_int_equal(code_loops_find(&graph, &loops, NULL), BASE_OK);
        write_blocks(&graph, &text);
        expect(pieces[i].what, &text, pieces[i].blocks);
        write_loops(&loops, &text);
        expect(pieces[i].what, &text, pieces[i].loops);
        assert_int_equal(graph.guessed, pieces[i].guessed);
        code_loops_free(&loops);
        code_graph_free(&graph);
        code_instructions_free(&instructions);
    }
    base_text_free(&text);
}

static void found_by_address(void **state)
{
    struct code_instructions instructions = {0};
    struct code_graph graph;
    (void)state;
    assert_int_equal(make(&pieces[1], &instructions, &graph), BASE_OK);
    assert_int_equal(code_graph_find(&graph, 0xff), CODE_NONE);
    assert_int_equal(code_graph_find(&graph, 0x100), 0);
    assert_int_equal(code_graph_find(&graph, 0x106), 0);
    assert_int_equal(code_graph_find(&graph, 0x107), 1);
    assert_int_equal(code_graph_find(&graph, 0x11d), 2); /* padding belongs to what it follows */
    assert_int_equal(code_graph_find(&graph, 0x12c), 6);
    assert_int_equal(code_graph_find(&graph, 0x12d), CODE_NONE);
    code_graph_free(&graph);
    assert_int_equal(code_graph_find(&graph, 0x100), CODE_NONE);
    code_instructions_free(&instructions);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct code_instructions instructions = {0};
        struct code_graph graph;
        unsigned failures = 0;
        assert_int_equal(make(&pieces[i], &instructions, &graph), BASE_OK);
        code_graph_free(&graph);
        for (int code = BASE_ENOMEM; code != BASE_OK; failures += code != BASE_OK) {
            failing_begin(failures + 1);
            code = make(&pieces[i], &instructions, &graph);
            failing_end();
            assert_true(code == BASE_OK || (code == BASE_ENOMEM && graph.blocks == NULL));
        }
        assert_true(failures >= 3);
        code_graph_free(&graph);
        code_instructions_free(&instructions);
    }
}

struct word {
    uint32_t word;
    uint8_t flow;
    uint64_t target;
};

static void words_of_aarch64(void **state)
{
    static const struct word all[] = {
        {0x8b030042, CODE_STRAIGHT, 0},      /* add x2, x2, x3 */
        {0x94000006, CODE_CALL, 0x10018},    /* bl .+24 */
        {0x97ffffff, CODE_CALL, 0xfffc},     /* bl .-4 */
        {0x17fffff9, CODE_JUMP, 0xffe4},     /* b .-28 */
        {0x54ffffa1, CODE_BRANCH, 0xfff4},   /* b.ne .-12 */
        {0x54000030, CODE_BRANCH, 0x10004},  /* bc.eq .+4 */
        {0xb4000100, CODE_BRANCH, 0x10020},  /* cbz x0, .+32 */
        {0x35ffffe1, CODE_BRANCH, 0xfffc},   /* cbnz w1, .-4 */
        {0x371fff00, CODE_BRANCH, 0xffe0},   /* tbnz w0, #3, .-32 */
        {0xb6f80042, CODE_BRANCH, 0x10008},  /* tbz x2, #63, .+8 */
        {0xd61f0060, CODE_JUMP_INDIRECT, 0}, /* br x3 */
        {0xd71f0a11, CODE_JUMP_INDIRECT, 0}, /* braa x16, x17 */
        {0xd63f0060, CODE_CALL_INDIRECT, 0}, /* blr x3 */
        {0xd73f0a11, CODE_CALL_INDIRECT, 0}, /* blraa x16, x17 */
        {0xd65f03c0, CODE_RETURN, 0},        /* ret */
        {0xd65f0bff, CODE_RETURN, 0},        /* retaa */
        {0xd69f03e0, CODE_RETURN, 0},        /* eret */
        {0xd4200020, CODE_STOP, 0},          /* brk #1 */
        {0xd4400000, CODE_STOP, 0},          /* hlt #0 */
        {0xd4000001, CODE_SYSTEM, 0},        /* svc #0 */
        {0x00000000, CODE_STOP, 0},          /* udf #0 */
        {0xd503201f, CODE_STRAIGHT, 0},      /* nop */
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct code_instruction found;
        code_aarch64_decode(all[i].word, 0x10000, &found);
        if (found.flow != all[i].flow || found.target != all[i].target)
            fail_msg("%08x: flow %u to %lx", all[i].word, found.flow, (unsigned long)found.target);
        assert_int_equal(found.length, 4);
        assert_int_equal(found.marks, all[i].word == 0xd503201f ? CODE_PADDING : 0);
    }
}

static void ends_of_aarch64(void **state)
{
    struct code_piece code = {0, arm, 10};
    struct code_text memory = {&code, 1};
    struct code_instructions instructions = {0};
    uint64_t where;
    (void)state;
    assert_int_equal(code_aarch64_decode_all(&memory, 0, 12, &instructions, &where), CODE_VERDICT_NO_BYTES);
    assert_int_equal(where, 8);
    assert_int_equal(code_aarch64_decode_all(&memory, 0, 6, &instructions, &where), CODE_VERDICT_PAST_END);
    assert_int_equal(where, 4);
    assert_int_equal(code_aarch64_decode_all(&memory, 4, 4, &instructions, &where), CODE_VERDICT_EMPTY);
    assert_int_equal(code_aarch64_decode_all(&memory, 16, 20, &instructions, &where), CODE_VERDICT_NO_BYTES);
    code_instructions_free(&instructions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_and_loops),          cmocka_unit_test(found_by_address),
        cmocka_unit_test(every_allocation_may_fail), cmocka_unit_test(words_of_aarch64),
        cmocka_unit_test(ends_of_aarch64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
