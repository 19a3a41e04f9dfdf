/* code_instruction on bytes with their disassembly in the margin: every form the planner has to know. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "code_instruction.h"

#define AT UINT64_C(0x401000)

struct form {
    const char *text; /* as objdump prints it at AT */
    uint8_t bytes[15];
    uint8_t length, flow, operand;
    uint8_t displacement_at, displacement_size, opcode_at;
    uint64_t target, memory;
    uint16_t marks;
};

#define NONE CODE_OPERAND_NONE
#define REG  CODE_OPERAND_REGISTER
#define MEM  CODE_OPERAND_MEMORY
#define RIP  CODE_OPERAND_RIP

static const struct form forms[] = {
    /* direct calls: the displacement is the last four bytes, whatever stands before */
    {"call 401105", {0xe8, 0x00, 0x01, 0x00, 0x00}, 5, CODE_CALL, NONE, 1, 4, 0, 0x401105, 0, 0},
    {"call 400ff5", {0xe8, 0xf0, 0xff, 0xff, 0xff}, 5, CODE_CALL, NONE, 1, 4, 0, 0x400ff5, 0, 0},
    {"data16 data16 rex.W call 401010",
     {0x66, 0x66, 0x48, 0xe8, 8, 0, 0, 0},
     8,
     CODE_CALL,
     NONE,
     4,
     4,
     3,
     0x401010,
     0,
     0},
    {"addr32 call 40100e", {0x67, 0xe8, 8, 0, 0, 0}, 6, CODE_CALL, NONE, 2, 4, 1, 0x40100e, 0, 0},
    {"cs call 40100e", {0x2e, 0xe8, 8, 0, 0, 0}, 6, CODE_CALL, NONE, 2, 4, 1, 0x40100e, 0, 0},
    {"bnd call 40100e", {0xf2, 0xe8, 8, 0, 0, 0}, 6, CODE_CALL, NONE, 2, 4, 1, 0x40100e, 0, CODE_BND},
    {"rex call 40100e", {0x40, 0xe8, 8, 0, 0, 0}, 6, CODE_CALL, NONE, 2, 4, 1, 0x40100e, 0, 0},
    {"data16 call: four bytes on Intel, two on AMD",
     {0x66, 0xe8, 8, 0, 0, 0},
     6,
     CODE_CALL,
     NONE,
     2,
     4,
     1,
     0x40100e,
     0,
     CODE_AMBIGUOUS},
    /* direct jumps */
    {"jmp 401015", {0xe9, 0x10, 0, 0, 0}, 5, CODE_JUMP, NONE, 1, 4, 0, 0x401015, 0, 0},
    {"jmp 401012", {0xeb, 0x10}, 2, CODE_JUMP, NONE, 1, 1, 0, 0x401012, 0, 0},
    {"jmp 401000", {0xeb, 0xfe}, 2, CODE_JUMP, NONE, 1, 1, 0, 0x401000, 0, 0},
    {"bnd jmp 401016", {0xf2, 0xe9, 0x10, 0, 0, 0}, 6, CODE_JUMP, NONE, 2, 4, 1, 0x401016, 0, CODE_BND},
    {"je 401012", {0x74, 0x10}, 2, CODE_BRANCH, NONE, 1, 1, 0, 0x401012, 0, 0},
    {"jo 401012", {0x70, 0x10}, 2, CODE_BRANCH, NONE, 1, 1, 0, 0x401012, 0, 0},
    {"jg 401012", {0x7f, 0x10}, 2, CODE_BRANCH, NONE, 1, 1, 0, 0x401012, 0, 0},
    {"je 401016", {0x0f, 0x84, 0x10, 0, 0, 0}, 6, CODE_BRANCH, NONE, 2, 4, 1, 0x401016, 0, 0},
    {"jg,pt 401017", {0x3e, 0x0f, 0x8f, 0x10, 0, 0, 0}, 7, CODE_BRANCH, NONE, 3, 4, 2, 0x401017, 0, 0},
    {"data16 je", {0x66, 0x74, 0x10}, 3, CODE_BRANCH, NONE, 2, 1, 1, 0x401013, 0, CODE_AMBIGUOUS},
    {"loopne 401012", {0xe0, 0x10}, 2, CODE_LOOP, NONE, 1, 1, 0, 0x401012, 0, 0},
    {"loop 401012", {0xe2, 0x10}, 2, CODE_LOOP, NONE, 1, 1, 0, 0x401012, 0, 0},
    {"jrcxz 401012", {0xe3, 0x10}, 2, CODE_LOOP, NONE, 1, 1, 0, 0x401012, 0, 0},
    {"jecxz 401013", {0x67, 0xe3, 0x10}, 3, CODE_LOOP, NONE, 2, 1, 1, 0x401013, 0, 0},
    {"xbegin 401016", {0xc7, 0xf8, 0x10, 0, 0, 0}, 6, CODE_XBEGIN, NONE, 2, 4, 0, 0x401016, 0, 0},
    /* indirect ones */
    {"call *0x10(%rip)", {0xff, 0x15, 0x10, 0, 0, 0}, 6, CODE_CALL_INDIRECT, RIP, 2, 4, 0, 0, 0x401016, 0},
    {"jmp *0x10(%rip)", {0xff, 0x25, 0x10, 0, 0, 0}, 6, CODE_JUMP_INDIRECT, RIP, 2, 4, 0, 0, 0x401016, 0},
    {"bnd jmp *0x10(%rip)",
     {0xf2, 0xff, 0x25, 0x10, 0, 0, 0},
     7,
     CODE_JUMP_INDIRECT,
     RIP,
     3,
     4,
     1,
     0,
     0x401017,
     CODE_BND},
    {"rex.W call *0x10(%rip)",
     {0x48, 0xff, 0x15, 0x10, 0, 0, 0},
     7,
     CODE_CALL_INDIRECT,
     RIP,
     3,
     4,
     1,
     0,
     0x401017,
     0},
    {"call *%rax", {0xff, 0xd0}, 2, CODE_CALL_INDIRECT, REG, 0, 0, 0, 0, 0, 0},
    {"call *%r12", {0x41, 0xff, 0xd4}, 3, CODE_CALL_INDIRECT, REG, 0, 0, 1, 0, 0, 0},
    {"call *%rsp", {0xff, 0xd4}, 2, CODE_CALL_INDIRECT, REG, 0, 0, 0, 0, 0, CODE_STACK},
    {"call *(%rax)", {0xff, 0x10}, 2, CODE_CALL_INDIRECT, MEM, 0, 0, 0, 0, 0, 0},
    {"call *0x18(%rbx)", {0xff, 0x53, 0x18}, 3, CODE_CALL_INDIRECT, MEM, 0, 0, 0, 0, 0, 0},
    {"call *0x118(%rbx)",
     {0xff, 0x93, 0x18, 1, 0, 0},
     6,
     CODE_CALL_INDIRECT,
     MEM,
     0,
     0,
     0,
     0,
     0,
     CODE_ABSOLUTE},
    {"call *0x8(%rsp)", {0xff, 0x54, 0x24, 8}, 4, CODE_CALL_INDIRECT, MEM, 0, 0, 0, 0, 0, CODE_STACK},
    {"call *0x8(%r12)", {0x41, 0xff, 0x54, 0x24, 8}, 5, CODE_CALL_INDIRECT, MEM, 0, 0, 1, 0, 0, 0},
    {"call *%fs:0x10",
     {0x64, 0xff, 0x14, 0x25, 0x10, 0, 0, 0},
     8,
     CODE_CALL_INDIRECT,
     MEM,
     0,
     0,
     1,
     0,
     0,
     CODE_ABSOLUTE},
    {"call *%gs:0x10",
     {0x65, 0xff, 0x14, 0x25, 0x10, 0, 0, 0},
     8,
     CODE_CALL_INDIRECT,
     MEM,
     0,
     0,
     1,
     0,
     0,
     CODE_GS | CODE_ABSOLUTE},
    {"jmp *%rax", {0xff, 0xe0}, 2, CODE_JUMP_INDIRECT, REG, 0, 0, 0, 0, 0, 0},
    {"notrack jmp *%rax", {0x3e, 0xff, 0xe0}, 3, CODE_JUMP_INDIRECT, REG, 0, 0, 1, 0, 0, CODE_NOTRACK},
    {"jmp *0x402000(,%rax,8)",
     {0xff, 0x24, 0xc5, 0, 0x20, 0x40, 0},
     7,
     CODE_JUMP_INDIRECT,
     MEM,
     0,
     0,
     0,
     0,
     0,
     CODE_ABSOLUTE},
    {"lcall *(%rax)", {0xff, 0x18}, 2, CODE_CALL_INDIRECT, MEM, 0, 0, 0, 0, 0, CODE_FAR},
    {"ljmp *(%rax)", {0xff, 0x28}, 2, CODE_JUMP_INDIRECT, MEM, 0, 0, 0, 0, 0, CODE_FAR},
    /* ends, stops and the kernel */
    {"ret", {0xc3}, 1, CODE_RETURN, NONE, 0, 0, 0, 0, 0, 0},
    {"repz ret", {0xf3, 0xc3}, 2, CODE_RETURN, NONE, 0, 0, 1, 0, 0, 0},
    {"ret $0x8", {0xc2, 8, 0}, 3, CODE_RETURN, NONE, 0, 0, 0, 0, 0, 0},
    {"iretq", {0x48, 0xcf}, 2, CODE_RETURN, NONE, 0, 0, 1, 0, 0, 0},
    {"ud2", {0x0f, 0x0b}, 2, CODE_STOP, NONE, 0, 0, 1, 0, 0, 0},
    {"hlt", {0xf4}, 1, CODE_STOP, NONE, 0, 0, 0, 0, 0, 0},
    {"int3", {0xcc}, 1, CODE_STOP, NONE, 0, 0, 0, 0, 0, CODE_PADDING},
    {"syscall", {0x0f, 0x05}, 2, CODE_SYSTEM, NONE, 0, 0, 1, 0, 0, 0},
    {"int $0x80", {0xcd, 0x80}, 2, CODE_SYSTEM, NONE, 0, 0, 0, 0, 0, 0},
    /* what goes straight on, with memory addressed by rip in all encodings */
    {"lea 0x10(%rip),%rdi",
     {0x48, 0x8d, 0x3d, 0x10, 0, 0, 0},
     7,
     CODE_STRAIGHT,
     NONE,
     3,
     4,
     1,
     0,
     0x401017,
     CODE_LEA},
    {"mov 0x10(%rip),%rax",
     {0x48, 0x8b, 0x05, 0x10, 0, 0, 0},
     7,
     CODE_STRAIGHT,
     NONE,
     3,
     4,
     1,
     0,
     0x401017,
     0},
    {"movl $0x1,0x10(%rip)",
     {0xc7, 0x05, 0x10, 0, 0, 0, 1, 0, 0, 0},
     10,
     CODE_STRAIGHT,
     NONE,
     2,
     4,
     0,
     0,
     0x40101a,
     0},
    {"cmpb $0x0,-0x10(%rip)",
     {0x80, 0x3d, 0xf0, 0xff, 0xff, 0xff, 0},
     7,
     CODE_STRAIGHT,
     NONE,
     2,
     4,
     0,
     0,
     0x400ff7,
     0},
    {"vmovdqa 0x10(%rip),%ymm0",
     {0xc5, 0xfd, 0x6f, 0x05, 0x10, 0, 0, 0},
     8,
     CODE_STRAIGHT,
     NONE,
     4,
     4,
     2,
     0,
     0x401018,
     0},
    {"vmovdqa64 0x10(%rip),%zmm0",
     {0x62, 0xf1, 0xfd, 0x48, 0x6f, 0x05, 0x10, 0, 0, 0},
     10,
     CODE_STRAIGHT,
     NONE,
     6,
     4,
     4,
     0,
     0x40101a,
     0},
    {"pshufb 0x10(%rip),%xmm0",
     {0x66, 0x0f, 0x38, 0x00, 0x05, 0x10, 0, 0, 0},
     9,
     CODE_STRAIGHT,
     NONE,
     5,
     4,
     3,
     0,
     0x401019,
     0},
    {"lea 0x10(%eip),%eax",
     {0x67, 0x8d, 0x05, 0x10, 0, 0, 0},
     7,
     CODE_STRAIGHT,
     NONE,
     3,
     4,
     1,
     0,
     0x401017,
     CODE_LEA},
    {"lea 0x8(%rsp),%rax",
     {0x48, 0x8d, 0x44, 0x24, 8},
     5,
     CODE_STRAIGHT,
     NONE,
     0,
     0,
     1,
     0,
     0,
     CODE_LEA | CODE_STACK},
    {"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}, 4, CODE_STRAIGHT, NONE, 0, 0, 2, 0, 0, CODE_ENDBR},
    {"endbr32: not ours", {0xf3, 0x0f, 0x1e, 0xfb}, 4, CODE_STRAIGHT, NONE, 0, 0, 2, 0, 0, 0},
    {"nop", {0x90}, 1, CODE_STRAIGHT, NONE, 0, 0, 0, 0, 0, CODE_PADDING},
    {"pause", {0xf3, 0x90}, 2, CODE_STRAIGHT, NONE, 0, 0, 1, 0, 0, 0},
    {"xchg %r8,%rax", {0x49, 0x90}, 2, CODE_STRAIGHT, NONE, 0, 0, 1, 0, 0, 0},
    {"nopl 0x0(%rax,%rax,1)", {0x0f, 0x1f, 0x44, 0, 0}, 5, CODE_STRAIGHT, NONE, 0, 0, 1, 0, 0, CODE_PADDING},
    {"cs nopw 0x0(%rax,%rax,1)",
     {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
     10,
     CODE_STRAIGHT,
     NONE,
     0,
     0,
     3,
     0,
     0,
     CODE_PADDING | CODE_ABSOLUTE},
    {"lock incl (%rax)", {0xf0, 0xff, 0x00}, 3, CODE_STRAIGHT, NONE, 0, 0, 1, 0, 0, CODE_LOCK},
    {"mov %gs:0x0,%rax",
     {0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0},
     9,
     CODE_STRAIGHT,
     NONE,
     0,
     0,
     2,
     0,
     0,
     CODE_GS | CODE_ABSOLUTE},
    {"wrgsbase %rax", {0xf3, 0x48, 0x0f, 0xae, 0xd8}, 5, CODE_STRAIGHT, NONE, 0, 0, 3, 0, 0, CODE_GS},
    {"wrfsbase %rax", {0xf3, 0x48, 0x0f, 0xae, 0xd0}, 5, CODE_STRAIGHT, NONE, 0, 0, 3, 0, 0, 0},
    {"sfence", {0x0f, 0xae, 0xf8}, 3, CODE_STRAIGHT, NONE, 0, 0, 1, 0, 0, 0},
    {"mov %eax,%gs", {0x8e, 0xe8}, 2, CODE_STRAIGHT, NONE, 0, 0, 0, 0, 0, CODE_GS},
    {"swapgs", {0x0f, 0x01, 0xf8}, 3, CODE_STRAIGHT, NONE, 0, 0, 1, 0, 0, CODE_GS},
};

static void every_form_is_distinguished(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct form *form = &forms[i];
        struct code_instruction at;
        print_message("# %s\n", form->text);
        assert_true(code_instruction_decode(form->bytes, sizeof form->bytes, AT, &at));
        assert_int_equal(at.address, AT);
        assert_int_equal(at.length, form->length);
        assert_int_equal(at.flow, form->flow);
        assert_int_equal(at.operand, form->operand);
        assert_int_equal(at.displacement_at, form->displacement_at);
        assert_int_equal(at.displacement_size, form->displacement_size);
        assert_int_equal(at.opcode_at, form->opcode_at);
        assert_int_equal(at.target, form->target);
        assert_int_equal(at.memory, form->memory);
        assert_int_equal(at.rip_relative, form->memory != 0);
        assert_int_equal(at.marks, form->marks);
    }
}

/* A displacement changed where the instruction says it lies moves the target by just that much. */
static void displacements_lie_where_they_are_said_to(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct code_instruction at, moved;
        uint8_t bytes[15];
        memcpy(bytes, forms[i].bytes, sizeof bytes);
        assert_true(code_instruction_decode(bytes, sizeof bytes, AT, &at));
        if (at.displacement_size == 0)
            continue;
        int change = bytes[at.displacement_at] & 1 ? -1 : 1;
        bytes[at.displacement_at] ^= 1;
        assert_true(code_instruction_decode(bytes, sizeof bytes, AT, &moved));
        assert_int_equal(moved.length, at.length);
        assert_int_equal(moved.target + moved.memory, at.target + at.memory + (uint64_t)(int64_t)change);
    }
}

static void instructions_that_are_cut_do_not_decode(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct code_instruction at;
        for (size_t size = 0; size < forms[i].length; size++)
            assert_false(code_instruction_decode(forms[i].bytes, size, AT, &at));
        assert_true(code_instruction_decode(forms[i].bytes, forms[i].length, AT, &at));
    }
}

static void immediates_are_read(void **state)
{
    static const struct {
        const char *text;
        uint8_t bytes[15];
        uint64_t value;
        uint8_t at, size;
    } cases[] = {
        {"mov $0x401000,%edi", {0xbf, 0x00, 0x10, 0x40, 0x00}, 0x401000, 1, 4},
        {"mov $0x401000,%rdi", {0x48, 0xc7, 0xc7, 0x00, 0x10, 0x40, 0x00}, 0x401000, 3, 4},
        {"mov $-1,%rax", {0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff}, UINT64_MAX, 3, 4},
        {"movabs $0x123456789abc,%rax",
         {0x48, 0xb8, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0},
         0x123456789abc,
         2,
         8},
        {"push $0x401000", {0x68, 0x00, 0x10, 0x40, 0x00}, 0x401000, 1, 4},
        {"movq $0x401000,0x8(%rax)", {0x48, 0xc7, 0x40, 8, 0x00, 0x10, 0x40, 0}, 0x401000, 4, 4},
        {"sub $0x8,%rsp", {0x48, 0x83, 0xec, 8}, 8, 3, 1},
        {"call: a displacement, no immediate", {0xe8, 1, 0, 0, 0}, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct code_instruction at;
        print_message("# %s\n", cases[i].text);
        assert_true(code_instruction_decode(cases[i].bytes, sizeof cases[i].bytes, AT, &at));
        assert_int_equal(at.immediate, cases[i].value);
        assert_int_equal(at.immediate_at, cases[i].at);
        assert_int_equal(at.immediate_size, cases[i].size);
    }
}

static void what_is_no_instruction_does_not_decode(void **state)
{
    static const uint8_t bad[][15] = {
        {0x06},       /* push %es: not in 64-bit mode */
        {0xff, 0xff}, /* ff /7 */
        {0x0f, 0x04}, /* reserved */
        {0xf0, 0xe8}, /* lock call */
        {0x8d, 0xc0}, /* lea of a register */
        {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
         0x66}, /* prefixes alone */
    };
    struct code_instruction at;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(code_instruction_decode(bad[i], sizeof bad[i], AT, &at));
}

/* --- whole functions --- */

static int decode(const uint8_t *bytes, size_t size, size_t end, struct code_instructions *instructions,
                  uint64_t *where)
{
    struct code_piece piece = {AT, bytes, size};
    struct code_text text = {&piece, 1};
    return code_instructions_decode(&text, AT, AT + end, instructions, where);
}

static void a_function_decodes_to_its_end(void **state)
{
    static const uint8_t bytes[] = {
        0x55,                         /* 401000 push %rbp */
        0x48, 0x89, 0xe5,             /* 401001 mov %rsp,%rbp */
        0xe8, 0xf7, 0xff, 0xff, 0xff, /* 401004 call 401000 */
        0x75, 0xf6,                   /* 401009 jne 401001 */
        0x5d,                         /* 40100b pop %rbp */
        0xc3,                         /* 40100c ret */
    };
    static const uint64_t starts[] = {0x401000, 0x401001, 0x401004, 0x401009, 0x40100b, 0x40100c};
    struct code_instructions all = {NULL, 0, 0};
    uint64_t where;
    (void)state;
    assert_int_equal(decode(bytes, sizeof bytes, sizeof bytes, &all, &where), CODE_VERDICT_FINE);
    assert_int_equal(all.count, 6);
    for (size_t i = 0; i < all.count; i++) {
        assert_int_equal(all.items[i].address, starts[i]);
        assert_int_equal(code_instructions_find(&all, starts[i]), i);
    }
    assert_int_equal(code_instructions_find(&all, 0x401002), SIZE_MAX);
    assert_int_equal(code_instructions_find(&all, 0x40100d), SIZE_MAX);
    code_instructions_free(&all);
}

static void verdicts_name_the_reason_and_the_place(void **state)
{
    static const struct {
        const char *text;
        uint8_t bytes[16];
        uint8_t size, end;
        int verdict;
        uint64_t where;
    } cases[] = {
        {"empty", {0xc3}, 1, 0, CODE_VERDICT_EMPTY, 0},
        {"ends inside of an instruction: nop; call",
         {0x90, 0xe8, 0, 0, 0, 0},
         6,
         4,
         CODE_VERDICT_PAST_END,
         1},
        {"the file ends: nop; nop; ...", {0x90, 0x90}, 2, 5, CODE_VERDICT_NO_BYTES, 2},
        {"the file ends inside of an instruction", {0x90, 0xe8, 0, 0}, 4, 6, CODE_VERDICT_UNDECODABLE, 1},
        {"nop; (bad)", {0x90, 0x06, 0xc3}, 3, 3, CODE_VERDICT_UNDECODABLE, 1},
        {"jmp into its own displacement", {0xeb, 0xff, 0x90, 0xc3}, 4, 4, CODE_VERDICT_INTO_INSTRUCTION, 0},
        {"mov 0x1(%rip),%eax; ret; .int",
         {0x8b, 0x05, 1, 0, 0, 0, 0xc3, 0x90, 0x90, 0x90, 0x90},
         11,
         11,
         CODE_VERDICT_DATA_IN_TEXT,
         0},
        {"lea of an instruction's middle",
         {0x48, 0x8d, 0x05, 0xfa, 0xff, 0xff, 0xff, 0xc3},
         8,
         8,
         CODE_VERDICT_DATA_IN_TEXT,
         0},
        {"lea of an instruction (a label)", {0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xc3}, 8, 8, CODE_VERDICT_FINE, 0},
        {"jmp over a lock prefix", {0xeb, 0x01, 0xf0, 0xff, 0x00, 0xc3}, 6, 6, CODE_VERDICT_FINE, 0},
        {"data16 call", {0x90, 0x66, 0xe8, 0, 0, 0, 0}, 7, 7, CODE_VERDICT_AMBIGUOUS, 1},
        {"branches that leave are fine", {0x74, 0x40, 0xeb, 0x80}, 4, 4, CODE_VERDICT_FINE, 0},
    };
    struct code_instructions all = {NULL, 0, 0};
    uint64_t where;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        print_message("# %s\n", cases[i].text);
        assert_int_equal(decode(cases[i].bytes, cases[i].size, cases[i].end, &all, &where), cases[i].verdict);
        assert_int_equal(where, AT + cases[i].where);
    }
    struct code_text nothing = {NULL, 0};
    assert_int_equal(code_instructions_decode(&nothing, AT, AT + 4, &all, &where), CODE_VERDICT_NO_BYTES);
    code_instructions_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_distinguished),
        cmocka_unit_test(displacements_lie_where_they_are_said_to),
        cmocka_unit_test(instructions_that_are_cut_do_not_decode),
        cmocka_unit_test(immediates_are_read),
        cmocka_unit_test(what_is_no_instruction_does_not_decode),
        cmocka_unit_test(a_function_decodes_to_its_end),
        cmocka_unit_test(verdicts_name_the_reason_and_the_place),
    };
    return cmocka_run_group_tests_name("code_instruction", tests, NULL, NULL);
}
