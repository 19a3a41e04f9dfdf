/* test_plan_fuzz.c - random programs, whose writer knows every call: what is planned must be what the writer
 * says.
 *
 * A program is a list of functions, each a list of instructions from a small stock, put together at random:
 * arithmetic in several lengths, pushes, jumps forward over a few instructions, direct calls, tail jumps,
 * conditional tail jumps, indirect calls in several lengths. The writer keeps one record an instruction, and
 * the oracle decides from the records alone, by plain rules, what each call must become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan.h"
#include "plan_elf.h"

#define FUNCTIONS 24
#define MOST      2048
#define PROGRAMS  400

enum what { PLAIN, PUSH, FORWARD, CALL, TAIL, BRANCH, LONG_CALL, SHORT_CALL, SHORT_TAIL, RETURN };

struct record {
    uint64_t address, target; /* of FORWARD: an address; of CALL, TAIL, BRANCH: a function's start */
    unsigned length, function;
    enum what what;
    bool entered; /* a branch goes here */
};

struct program {
    struct record records[MOST];
    unsigned count;
    uint8_t bytes[MOST * 8];
    size_t size;
    uint64_t starts[FUNCTIONS + 1];
    bool called[FUNCTIONS];
    uint64_t random;
};

static unsigned pick(struct program *program, unsigned below)
{
    program->random = program->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(program->random >> 33) % below;
}

static struct record *put_instruction(struct program *program, unsigned function, enum what what,
                                      const void *bytes, unsigned length)
{
    struct record *record = &program->records[program->count++];
    *record = (struct record){
        .address = PLAN_ELF_TEXT + program->size, .length = length, .function = function, .what = what};
    memcpy(program->bytes + program->size, bytes, length);
    program->size += length;
    return record;
}

static void put_plain(struct program *program, unsigned function)
{
    static const struct {
        const char *bytes;
        unsigned length;
    } stock[] = {
        {"\x90", 1},
        {"\x89\xdf", 2},                     /* mov edi, ebx */
        {"\x31\xf6", 2},                     /* xor esi, esi */
        {"\x48\x89\xdf", 3},                 /* mov rdi, rbx */
        {"\x48\x8b\x7b\x08", 4},             /* mov rdi, [rbx+8] */
        {"\x48\x8b\x7c\x24\x04", 5},         /* mov rdi, [rsp+4]: never the return address */
        {"\xbf\x07\x00\x00\x00", 5},         /* mov edi, 7 */
        {"\x0f\x28\x44\x24\x10", 5},         /* movaps xmm0, [rsp+16] */
        {"\x48\x81\xc7\x00\x01\x00\x00", 7}, /* add rdi, 256 */
    };
    unsigned which = pick(program, sizeof stock / sizeof *stock);
    put_instruction(program, function, PLAIN, stock[which].bytes, stock[which].length);
}

static void put_indirect(struct program *program, unsigned function)
{
    static const struct {
        const char *bytes;
        unsigned length;
    } stock[] = {
        {"\xff\xd0", 2},                     /* call rax */
        {"\x41\xff\xd4", 3},                 /* call r12 */
        {"\xff\x53\x10", 3},                 /* call [rbx+16] */
        {"\xff\x54\x24\x08", 4},             /* call [rsp+8] */
        {"\x41\xff\x54\x24\x08", 5},         /* call [r12+8] */
        {"\xff\x93\x00\x01\x00\x00", 6},     /* call [rbx+256] */
        {"\xff\x94\x24\x80\x00\x00\x00", 7}, /* call [rsp+128] */
    };
    unsigned which = pick(program, sizeof stock / sizeof *stock);
    put_instruction(program, function, stock[which].length < 5 ? SHORT_CALL : LONG_CALL, stock[which].bytes,
                    stock[which].length);
}

/* Displacements are filled in when all starts are known. */
static void put_direct(struct program *program, unsigned function, enum what what)
{
    static const uint8_t call[5] = {0xe8}, jump[5] = {0xe9}, branch[6] = {0x0f, 0x84};
    const void *bytes = what == CALL ? call : what == TAIL ? jump : branch;
    struct record *record = put_instruction(program, function, what, bytes, what == BRANCH ? 6 : 5);
    do
        record->target = pick(program, FUNCTIONS);
    while (record->target == function);
}

/* je over the next one to three instructions; jumps behind the function's last are left out by the caller. */
static void put_forward(struct program *program, unsigned function)
{
    put_instruction(program, function, FORWARD, "\x74\x00", 2)->target = 1 + pick(program, 3);
}

static void write_function(struct program *program, unsigned function)
{
    unsigned instructions = 4 + pick(program, 40), first = program->count;
    program->starts[function] = PLAN_ELF_TEXT + program->size;
    put_instruction(program, function, PUSH, "\x53", 1); /* push rbx */
    put_instruction(program, function, PLAIN, "\x48\x31\xdb",
                    3); /* xor rbx, rbx: no function reads the flags it is entered with */
    for (unsigned i = 0; i < instructions; i++) {
        switch (pick(program, 10)) {
        case 0:
            put_direct(program, function, CALL);
            break;
        case 1:
            put_direct(program, function, BRANCH);
            break;
        case 2:
        case 3:
            put_indirect(program, function);
            break;
        case 4:
            put_forward(program, function);
            break;
        case 5:
            put_instruction(program, function, PUSH, "\x56", 1); /* push rsi */
            break;
        default:
            put_plain(program, function);
        }
    }
    for (unsigned i = 0; i < 3; i++) /* so that each jump forward has a target */
        put_instruction(program, function, PLAIN, "\x90", 1);
    unsigned end = pick(program, 4);
    if (end == 0)
        put_direct(program, function, TAIL);
    else if (end == 1)
        put_instruction(program, function, SHORT_TAIL, "\xff\x60\x18", 3); /* jmp [rax+24] */
    else
        put_instruction(program, function, RETURN, "\xc3", 1);
    for (unsigned i = first; i < program->count; i++)
        if (program->records[i].what == FORWARD) {
            struct record *target = &program->records[i + 1 + program->records[i].target];
            program->records[i].target = target->address;
            target->entered = true;
        }
}

/* Resolves what the records left open. */
static void link_program(struct program *program)
{
    for (unsigned i = 0; i < program->count; i++) {
        struct record *record = &program->records[i];
        uint8_t *end = program->bytes + (record->address - PLAN_ELF_TEXT) + record->length;
        if (record->what == FORWARD)
            end[-1] = (uint8_t)(record->target - record->address - record->length);
        if (record->what != CALL && record->what != TAIL && record->what != BRANCH)
            continue;
        if (record->what == CALL)
            program->called[record->target] = true;
        record->target = program->starts[record->target];
        uint32_t displacement = (uint32_t)(record->target - record->address - record->length);
        memcpy(end - 4, &displacement, 4);
    }
}

static void write_program(struct program *program, uint64_t seed)
{
    memset(program, 0, sizeof *program);
    program->random = seed * 2654435761u + 1;
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        write_function(program, i);
        program->starts[i + 1] = PLAN_ELF_TEXT + program->size;
        while (program->size % 16 != 0)
            program->bytes[program->size++] = 0xcc;
    }
    link_program(program);
}

/* --- the oracle --- */

struct verdict {
    enum stub_kind kind; /* 0: left alone */
    uint64_t address;
    unsigned length;
};

static bool reaches_stack(const struct record *record)
{
    return record->what == PUSH;
}

/* The fewest instructions before a short call that make five bytes: all plain, none after the first
 * entered. */
static struct verdict expect_short(const struct program *program, unsigned index)
{
    const struct record *call = &program->records[index];
    uint64_t end = call->address + call->length;
    unsigned first = index;
    while (end - program->records[first].address < 5) {
        if (first == 0 || index - first == 4 || program->records[first - 1].function != call->function)
            return (struct verdict){0};
        first--;
        if (program->records[first].what != PLAIN && program->records[first].what != PUSH)
            return (struct verdict){0};
    }
    for (unsigned i = first; i <= index; i++)
        if ((i > first && program->records[i].entered) ||
            (i < index && call->what == SHORT_CALL && reaches_stack(&program->records[i])))
            return (struct verdict){0};
    return (struct verdict){call->what == SHORT_CALL ? STUB_CALL_GROUP : STUB_JUMP_GROUP,
                            program->records[first].address,
                            (unsigned)(end - program->records[first].address)};
}

/* Does the instruction read rax or r12, which no function here is given or writes? All others do not. */
static bool reads_unknown(const struct program *program, const struct record *record)
{
    const uint8_t *bytes = program->bytes + (record->address - PLAN_ELF_TEXT);
    return record->what == SHORT_TAIL ||
           (record->what == SHORT_CALL && (bytes[1] == 0xd0 || bytes[0] == 0x41)) ||
           (record->what == LONG_CALL && bytes[0] == 0x41);
}

/* Reached by jumps alone, and none of them is conditional: does the straight way from its start to the first
 * call or jump read what a function is given? */
static bool looks_like_function(const struct program *program, uint64_t start)
{
    enum { LOOKED_AT = 32 };
    unsigned first = 0;
    for (unsigned i = 0; i < program->count; i++) {
        if (program->records[i].what == BRANCH && program->records[i].target == start)
            return false;
        if (program->records[i].address == start)
            first = i;
    }
    for (unsigned i = first; i < first + LOOKED_AT; i++) {
        const struct record *record = &program->records[i];
        if (reads_unknown(program, record))
            return false;
        if (record->what == CALL || record->what == TAIL || record->what == RETURN ||
            record->what == LONG_CALL || record->what == SHORT_CALL)
            return true;
    }
    return true;
}

/* With `named`, every function has a symbol and is thereby proven; else what is called is, or looks like one. */
static struct verdict expect_site(const struct program *program, unsigned index, bool named)
{
    const struct record *record = &program->records[index];
    struct verdict whole = {0, record->address, record->length};
    bool proven = named; /* the target */
    for (unsigned i = 0; i < FUNCTIONS; i++)
        proven = proven || (program->starts[i] == record->target && program->called[i]);
    switch (record->what) {
    case CALL:
        whole.kind = STUB_CALL;
        return whole;
    case TAIL:
        whole.kind = proven || looks_like_function(program, record->target) ? STUB_JUMP : 0;
        return whole;
    case BRANCH:
        whole.kind = proven ? STUB_BRANCH : 0;
        return whole;
    case LONG_CALL:
        whole.kind = STUB_CALL_INDIRECT;
        return whole;
    case SHORT_CALL:
    case SHORT_TAIL:
        return expect_short(program, index);
    default:
        return (struct verdict){0};
    }
}

/* A short jump with nothing movable before it may lead over padding that it reaches. */
static bool is_over_island(const struct program *program, const struct record *record,
                           const struct plan_site *site)
{
    int64_t distance = (int64_t)(site->island - record->address - record->length);
    if (record->what != SHORT_TAIL || site->address != record->address)
        return false;
    assert_int_equal(site->kind, STUB_JUMP_INDIRECT_SHORT);
    assert_int_equal(site->length, record->length);
    assert_in_range(distance + 128, 0, 255);
    assert_memory_equal(site->island_old, "\xcc\xcc\xcc\xcc\xcc", 5);
    assert_memory_equal(program->bytes + (site->island - PLAN_ELF_TEXT), site->island_old, 5);
    return true;
}

static void compare(const struct program *program, const struct plan *plan, bool named)
{
    uint32_t site = 0;
    uint64_t found = 0;
    for (unsigned i = 0; i < program->count; i++) {
        const struct record *record = &program->records[i];
        struct verdict verdict = expect_site(program, i, named);
        found += record->what >= CALL && record->what <= SHORT_TAIL;
        if (verdict.kind == 0) {
            site += site < plan->header->site_count && is_over_island(program, record, &plan->sites[site]);
            continue;
        }
        assert_true(site < plan->header->site_count);
        const struct plan_site *planned = &plan->sites[site++];
        assert_int_equal(planned->address, verdict.address);
        assert_int_equal(planned->kind, verdict.kind);
        assert_int_equal(planned->length, verdict.length);
        assert_int_equal(planned->function, record->function);
        assert_memory_equal(planned->old, program->bytes + (verdict.address - PLAN_ELF_TEXT), verdict.length);
        if (record->target == 0)
            continue;
        assert_int_equal(planned->target, record->target);
        assert_int_equal(plan->functions[planned->callee].start, record->target);
    }
    assert_int_equal(site, plan->header->site_count);
    assert_int_equal(found, plan->header->found);
    assert_int_equal(site, plan->header->planned);
}

static void plans_are_what_the_writer_knows(void **state)
{
    (void)state;
    static struct program program;
    for (unsigned seed = 0; seed < PROGRAMS; seed++) {
        struct plan_elf elf = {0};
        struct plan plan;
        struct base_error error = {0};
        char names[FUNCTIONS][8];
        bool named = seed % 2 == 0;
        write_program(&program, seed);
        base_text_add_bytes(&elf.text, program.bytes, program.size);
        for (unsigned i = 0; i < FUNCTIONS; i++) {
            names[i][0] = 'f';
            names[i][1] = (char)('a' + i);
            names[i][2] = '\0';
            elf.functions[i].name = named ? names[i] : NULL;
            elf.functions[i].start = program.starts[i];
            elf.functions[i].has_fde = 1;
        }
        for (unsigned i = 0, j = 0; i < FUNCTIONS; i++) {
            while (j < program.count && program.records[j].function == i)
                j++;
            elf.functions[i].size =
                program.records[j - 1].address + program.records[j - 1].length - program.starts[i];
        }
        elf.count = FUNCTIONS;
        struct elf_image *image = plan_elf_image(&elf);
        assert_non_null(image);
        assert_int_equal(plan_make(image, NULL, &plan, &error), BASE_OK);
        compare(&program, &plan, named);
        plan_free(&plan);
        elf_image_close(image);
        plan_elf_free(&elf);
    }
}

/* Random bytes for functions: plans are made or refused, and never believe what is not there. */
static void noise_is_survived(void **state)
{
    (void)state;
    static const uint8_t usual[] = {0xe8, 0xe9, 0xff, 0xeb, 0x0f, 0x90, 0xc3, 0x48};
    static struct program program;
    for (unsigned seed = 0; seed < 300; seed++) {
        struct plan_elf elf = {0};
        struct plan plan;
        uint8_t bytes[400];
        program.random = seed + 77;
        for (unsigned i = 0; i < 8; i++) {
            for (size_t j = 0; j < sizeof bytes; j++)
                bytes[j] = pick(&program, 4) == 0 ? (uint8_t)pick(&program, 256)
                                                  : usual[pick(&program, sizeof usual)];
            plan_elf_function(&elf, i % 2 == 0 ? "noise" : NULL, bytes, 1 + pick(&program, sizeof bytes),
                              i % 3 != 0);
        }
        struct elf_image *image = plan_elf_image(&elf);
        assert_non_null(image);
        if (plan_make(image, NULL, &plan, NULL) == BASE_OK)
            plan_free(&plan);
        elf_image_close(image);
        plan_elf_free(&elf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_what_the_writer_knows),
        cmocka_unit_test(noise_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
