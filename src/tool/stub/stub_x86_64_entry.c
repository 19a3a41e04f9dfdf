/* Entry hooks and their recorder. */
#include <stddef.h>
#include <string.h>

#include "code_instruction.h"
#include "stub_block.h"
#include "stub_x86_64_entry.h"
#include "stub_x86_64_move.h"

#define ENDBR_SIZE  4
#define MULTIPLY    0x27d4eb2fu /* odd, below 2^31: imul sign-extends */
#define HASH_SHIFT  20
#define TABLE_SHIFT 5  /* log2 of sizeof(struct stub_table_entry) */
#define LOOKUP_MOST 76 /* bytes that put_lookup emits */
#define SLOW_MOST   72 /* what comes behind it */

/* A forward rel8 that is not known yet; land_short fills it in. */
static unsigned put_short(struct stub_x86_64_code *code, uint8_t opcode)
{
    stub_x86_64_code_put(code, opcode, 0);
    return code->size;
}

static void land_short(struct stub_x86_64_code *code, unsigned from)
{
    if (code->size - from > INT8_MAX)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    code->bytes[from - 1] = (uint8_t)(code->size - from);
}

static void put_short_back(struct stub_x86_64_code *code, uint8_t opcode, unsigned to)
{
    stub_x86_64_code_put(code, opcode, (uint8_t)(to - (code->size + 2u)));
}

static void put_lock(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    if (counter->form == STUB_LOCK)
        stub_x86_64_code_put(code, 0xf0);
}

/* rax (0) or rsi (6) = address of the block */
static void put_block(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter,
                      unsigned to_register)
{
    if (counter->form == STUB_THREAD) {
        stub_x86_64_code_put(code, 0x65, 0x48, 0x8b, (uint8_t)(0x04 | to_register << 3), 0x25);
        stub_x86_64_code_32(code, counter->word); /* mov reg, gs:[word] */
    } else {
        stub_x86_64_code_put(code, 0x48, 0x8d, (uint8_t)(0x05 | to_register << 3));
        stub_x86_64_code_relative(code, counter->block, 0); /* lea reg, [rip+block] */
    }
}

static bool is_call(const uint8_t *bytes, size_t size)
{
    struct code_instruction in;
    return code_instruction_decode(bytes, size, 0, &in) &&
           (in.flow == CODE_CALL || in.flow == CODE_CALL_INDIRECT);
}

unsigned stub_x86_64_entry_length(const uint8_t *bytes, size_t size, unsigned jump, enum stub_reason *reason)
{
    struct stub_x86_64_code scratch;
    unsigned at = 0;
    while (at < jump && at < size) {
        stub_x86_64_code_begin(&scratch, 0x1000);
        /* Any address will do: only refusals other than OUT_OF_REACH count. */
        unsigned length = stub_x86_64_move(&scratch, &(struct stub_x86_64_move){.bytes = bytes + at,
                                                                                .available = size - at,
                                                                                .from = 0x1000 + at,
                                                                                .hole = 0x1001,
                                                                                .hole_end = 0x1000 + jump});
        if (length == 0)
            break;
        /* Where it returns to must not be a byte of the jump. */
        bool returns_here = at + length < jump && is_call(bytes + at, length);
        if (returns_here || (scratch.refused != STUB_FINE && scratch.refused != STUB_REASON_OUT_OF_REACH)) {
            *reason = STUB_REASON_ENTRY_IMMOVABLE;
            return 0;
        }
        at += length;
    }
    *reason = at < jump ? STUB_REASON_ENTRY_SHORT : STUB_FINE;
    return at < jump ? 0 : at;
}

/* --- the hook: its quick part, the body, and behind them what seldom runs --- */

/* A forward rel32 that is not known yet; land_long fills it in. */
static unsigned put_long(struct stub_x86_64_code *code, uint8_t condition)
{
    stub_x86_64_code_put(code, 0x0f, condition, 0, 0, 0, 0);
    return code->size;
}

static void land_long(struct stub_x86_64_code *code, unsigned from)
{
    code->bytes[from - 4] = (uint8_t)(code->size - from); /* below 256 */
}

static void put_long_back(struct stub_x86_64_code *code, unsigned to)
{
    stub_x86_64_code_jump(code, code->address + to);
}

/* An instruction with one operand in the block, at rip or rax; the opcode is one byte after REX.W. */
static void put_operand(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter,
                        uint8_t opcode, uint8_t reg, uint32_t offset)
{
    bool by_register = counter->form == STUB_THREAD;
    stub_x86_64_code_put(code, 0x48, opcode, (uint8_t)((by_register ? 0x80 : 0x05) | reg << 3));
    if (by_register)
        stub_x86_64_code_32(code, offset);
    else
        stub_x86_64_code_relative(code, counter->block + offset, 0);
}

#define RAX         0
#define RCX         1
#define RDX         2
#define RSI         6
#define LOAD        0x8b
#define COMPARE     0x3b
#define SUBTRACT_TO 0x29
#define ADDRESS     0x8d
#define INCREMENT   0xff /* reg: 0 */

/* What joins the parts of a hook's code. */
struct jump_fixups {
    unsigned marked, other; /* jumps whose targets are missing; marked 0: there are no marks */
    unsigned look, done;    /* places */
};

/* Saves rcx, and of THREAD rax, which becomes the block. */
static void put_saves(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    stub_x86_64_code_put(code, 0x51); /* push rcx */
    if (counter->form != STUB_THREAD)
        return;
    stub_x86_64_code_put(code, 0x50); /* push rax */
    put_block(code, counter, RAX);
}

static void put_restores(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    if (counter->form == STUB_THREAD)
        stub_x86_64_code_put(code, 0x58); /* pop rax */
    stub_x86_64_code_put(code, 0x59);     /* pop rcx */
}

/* rcx = the return address */
static void put_caller(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    stub_x86_64_code_put(code, 0x48, 0x8b, 0x4c, 0x24,
                         counter->form == STUB_THREAD ? 16 : 8); /* mov rcx, [rsp+8 or 16] */
}

static void put_mark_check(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    uint32_t mark = offsetof(struct stub_block, mark_stack);
    if (counter->form == STUB_THREAD) {
        stub_x86_64_code_put(code, 0x65, 0x48, 0x3b, 0x24, 0x25); /* cmp rsp, gs:[word+mark_stack] */
        stub_x86_64_code_32(code, counter->word + mark);
    } else {
        put_operand(code, counter, COMPARE, 4, mark); /* cmp rsp, [mark_stack] */
    }
}

static struct jump_fixups put_quick(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    uint32_t words = 8 * counter->index;
    struct jump_fixups fixups = {0};
    if (counter->form != STUB_LOCK) {
        put_mark_check(code, counter);
        fixups.marked = put_long(code, 0x84); /* je marked */
    }
    put_saves(code, counter);
    put_caller(code, counter);
    fixups.look = code->size;
    put_operand(code, counter, COMPARE, RCX, words); /* look: cmp rcx, [words] */
    fixups.other = put_long(code, 0x85);             /* jne other */
    put_lock(code, counter);
    put_operand(code, counter, INCREMENT, 0, words + 8); /* inc [words+8] */
    fixups.done = code->size;
    put_restores(code, counter); /* done: */
    return fixups;
}

/* The mark's site is read before one instruction takes the mark and shows whether it was still there: a
 * signal handler that came in between may have made marks of its own. */
static void put_marked(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter,
                       const struct jump_fixups *fixups)
{
    bool thread = counter->form == STUB_THREAD;
    land_long(code, fixups->marked);
    put_saves(code, counter);         /* marked: */
    stub_x86_64_code_put(code, 0x52); /* push rdx */
    put_operand(code, counter, LOAD, RDX, offsetof(struct stub_block, mark_site));
    stub_x86_64_code_put(code, 0x48, 0x8d, 0x4c, 0x24, thread ? 24 : 16); /* lea rcx, [rsp+16 or 24] */
    put_operand(code, counter, SUBTRACT_TO, RCX, offsetof(struct stub_block, mark_stack));
    stub_x86_64_code_put(code, 0x48, 0x89, 0xd1, 0x5a); /* mov rcx, rdx; pop rdx */
    unsigned taken = put_short(code, 0x74);             /* je taken */
    put_caller(code, counter);
    land_short(code, taken);
    put_long_back(code, fixups->look); /* taken: jmp look */
}

/* rax (0) or rdx (2), which is the return address + 8 * callee, becomes its hash; the callee is 8 * the
 * hook's index. */
static void put_hash(struct stub_x86_64_code *code, unsigned reg)
{
    stub_x86_64_code_put(code, 0x48, 0x69, (uint8_t)(0xc0 | reg << 3 | reg)); /* imul reg, reg, MULTIPLY */
    stub_x86_64_code_32(code, MULTIPLY);
    stub_x86_64_code_put(code, 0x48, 0xc1, (uint8_t)(0xe8 | reg), HASH_SHIFT); /* shr reg, 20 */
}

/* The first place in the table where the pair may be: nearly always it is there, and is counted. As the
 * recorder does it, but in the hook, because to call the recorder takes as long as all of this. Else falls
 * through. */
static void put_lookup(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter,
                       const struct jump_fixups *fixups)
{
    stub_x86_64_code_put(code, 0x52, 0x56);                                    /* push rdx; push rsi */
    put_operand(code, counter, LOAD, RSI, offsetof(struct stub_block, table)); /* mov rsi, [table] */
    stub_x86_64_code_put(code, 0x48, 0x85, 0xf6);                              /* test rsi, rsi */
    unsigned no_table = put_short(code, 0x74);                                 /* je away */
    stub_x86_64_code_put(code, 0xba);                                          /* mov edx, callee */
    stub_x86_64_code_32(code, 8 * counter->index);
    stub_x86_64_code_put(code, 0x48, 0x8d, 0x14, 0xd1); /* lea rdx, [rcx+rdx*8] */
    put_hash(code, RDX);
    stub_x86_64_code_put(code, 0x48, 0x23, 0x16);              /* and rdx, [rsi] */
    stub_x86_64_code_put(code, 0x48, 0xc1, 0xe2, TABLE_SHIFT); /* shl rdx, 5 */
    stub_x86_64_code_put(code, 0x48, 0x39, 0x4c, 0x16, 0x20);  /* cmp [rsi+rdx+32], rcx */
    unsigned other = put_short(code, 0x75);                    /* jne away */
    stub_x86_64_code_put(code, 0x48, 0x81, 0x7c, 0x16, 0x28);  /* cmp qword [rsi+rdx+40], callee */
    stub_x86_64_code_32(code, 8 * counter->index);
    unsigned another = put_short(code, 0x75); /* jne away */
    put_lock(code, counter);
    stub_x86_64_code_put(code, 0x48, 0xff, 0x44, 0x16, 0x30); /* inc qword [rsi+rdx+48] */
    stub_x86_64_code_put(code, 0x5e, 0x5a);                   /* pop rsi; pop rdx */
    put_long_back(code, fixups->done);                        /* jmp done */
    land_short(code, no_table);
    land_short(code, other);
    land_short(code, another);
    stub_x86_64_code_put(code, 0x5e, 0x5a); /* away: pop rsi; pop rdx */
}

/* May the hook look into the table by itself? What moved may have left no room. */
static bool looks_up(const struct stub_x86_64_code *code, const struct stub_x86_64_entry *entry)
{
    return !entry->brief && code->size + LOOKUP_MOST + SLOW_MOST <= STUB_X86_64_CODE_MAX;
}

static void put_other(struct stub_x86_64_code *code, const struct stub_x86_64_entry *entry,
                      const struct stub_x86_64_counter *counter, const struct jump_fixups *fixups,
                      uint64_t recorder)
{
    bool thread = counter->form == STUB_THREAD;
    land_long(code, fixups->other);
    if (looks_up(code, entry))
        put_lookup(code, counter, fixups);
    if (!thread)
        stub_x86_64_code_put(code, 0x50); /* push rax */
    put_operand(code, counter, ADDRESS, RAX, 8 * counter->index);
    stub_x86_64_code_put(code, 0xe8); /* call recorder */
    stub_x86_64_code_relative(code, recorder, 0);
    if (!thread)
        stub_x86_64_code_put(code, 0x58); /* pop rax */
    put_long_back(code, fixups->done);    /* jmp done */
}

void stub_x86_64_entry_body(struct stub_x86_64_code *code, const struct stub_x86_64_entry *entry,
                            struct stub_x86_64_hook *hook)
{
    unsigned start = code->size;
    *hook = (struct stub_x86_64_hook){.body = stub_x86_64_code_here(code)};
    for (unsigned at = 0; at < entry->length;) {
        unsigned length = 0;
        if (hook->count < STUB_X86_64_ENTRY_MOVED) {
            hook->from[hook->count] = (uint8_t)at;
            hook->to[hook->count++] = (uint8_t)(code->size - start);
            length = stub_x86_64_move(code,
                                      &(struct stub_x86_64_move){.bytes = entry->old + at,
                                                                 .available = entry->length - at,
                                                                 .from = entry->address + at,
                                                                 .hole = entry->address + 1,
                                                                 .hole_end = entry->address + entry->length});
        }
        if (length == 0) {
            stub_x86_64_code_refuse(code, STUB_REASON_ENTRY_IMMOVABLE);
            return;
        }
        at += length;
    }
    hook->copied =
        code->size - start == entry->length && memcmp(code->bytes + start, entry->old, entry->length) == 0;
    stub_x86_64_code_jump(code, entry->address + entry->length);
}

void stub_x86_64_entry_hook(struct stub_x86_64_code *code, const struct stub_x86_64_entry *entry,
                            const struct stub_x86_64_counter *counter, uint64_t recorder,
                            struct stub_x86_64_hook *hook)
{
    if (counter->word + 8 * ((uint64_t)counter->index + STUB_HOOK_WORDS) > INT32_MAX)
        stub_x86_64_code_refuse(code, STUB_REASON_TOO_MANY);
    struct jump_fixups fixups = put_quick(code, counter);
    if (entry->kind != STUB_ENTRY_ENDBR) {
        stub_x86_64_entry_body(code, entry, hook);
    } else {
        *hook = (struct stub_x86_64_hook){.body = entry->address + ENDBR_SIZE};
        stub_x86_64_code_jump(code, hook->body);
    }
    hook->slow = stub_x86_64_code_here(code);
    put_other(code, entry, counter, &fixups, recorder);
    if (fixups.marked != 0)
        put_marked(code, counter, &fixups);
}

void stub_x86_64_entry_window(const struct stub_x86_64_entry *entry, uint64_t *low, uint64_t *high)
{
    uint32_t top = (uint32_t)entry->old[ENDBR_SIZE] << 24;
    *low = entry->address + STUB_X86_64_ENTRY_JUMP + (uint64_t)(int64_t)(int32_t)top;
    *high = *low + 0xffffff;
}

static unsigned short_site(const struct stub_x86_64_entry *entry, uint8_t fresh[5])
{
    int64_t distance = (int64_t)(entry->island - (entry->address + STUB_X86_64_ENTRY_SHORT));
    if (distance < INT8_MIN || distance > INT8_MAX)
        return 0;
    fresh[0] = 0xeb;
    fresh[1] = (uint8_t)distance;
    return STUB_X86_64_ENTRY_SHORT;
}

unsigned stub_x86_64_entry_bytes(const struct stub_x86_64_entry *entry, uint64_t hook, uint8_t fresh[5])
{
    struct stub_x86_64_code code;
    if (entry->kind == STUB_ENTRY_SHORT)
        return short_site(entry, fresh);
    stub_x86_64_code_begin(&code, entry->address);
    stub_x86_64_code_jump(&code, hook);
    if (code.refused != STUB_FINE)
        return 0;
    memcpy(fresh, code.bytes, STUB_X86_64_ENTRY_JUMP);
    if (entry->kind == STUB_ENTRY)
        return STUB_X86_64_ENTRY_JUMP;
    return fresh[ENDBR_SIZE] == entry->old[ENDBR_SIZE] ? ENDBR_SIZE : 0;
}

uint64_t stub_x86_64_entry_body_of(const struct stub_x86_64_entry *entry, const struct stub_x86_64_hook *hook,
                                   uint64_t pc)
{
    for (unsigned i = 0; i < hook->count; i++)
        if (pc == entry->address + hook->from[i])
            return hook->body + hook->to[i];
    return 0;
}

/* --- the recorder ---
 *
 * rdx = hook's words, rcx = return address, rsi = block, then:
 *   1. nearly always: the first place in the table where the pair may be holds it: count there;
 *   2. else, slowly: the hook's own words are free, or were claimed for this return address meanwhile (by a
 *       signal handler, or another thread in the LOCK form): count there;
 *   3. else the table again: r9 = callee, rdi = table, rax = index; at most STUB_TABLE_PROBES entries.
 *       One is taken by cmpxchg of its return address, then it is given its callee. Whoever finds it in
 *       between sees callee 0 and goes on to the next: the pair may stand there twice, and readers add up;
 *   4. no table, or no room: the hook's overflow.
 * cmpxchg and inc are single instructions, so no signal handler can come in between their read and write. */

static void put_recorder_restores(struct stub_x86_64_code *code)
{
    stub_x86_64_code_put(code, 0x5f, 0x5e, 0x5a, 0xc3); /* pop rdi; pop rsi; pop rdx; ret */
}

/* 1. Falls through to the slow part. */
static void put_fast(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    stub_x86_64_code_put(code, 0x52, 0x56, 0x57);       /* push rdx; push rsi; push rdi */
    stub_x86_64_code_put(code, 0x48, 0x89, 0xc2);       /* mov rdx, rax */
    put_block(code, counter, 6);                        /* rsi = block */
    stub_x86_64_code_put(code, 0x48, 0x83, 0x3a, 0x00); /* cmp qword [rdx], 0 */
    unsigned unclaimed = put_short(code, 0x74);         /* je slow */
    stub_x86_64_code_put(code, 0x48, 0x8b, 0x7e, 0x08, 0x48, 0x85,
                         0xff);                                /* mov rdi, [rsi+8]; test rdi, rdi */
    unsigned no_table = put_short(code, 0x74);                 /* je slow */
    stub_x86_64_code_put(code, 0x48, 0x29, 0xf2);              /* sub rdx, rsi */
    stub_x86_64_code_put(code, 0x48, 0x8d, 0x04, 0xd1);        /* lea rax, [rcx+rdx*8] */
    put_hash(code, RAX);                                       /* */
    stub_x86_64_code_put(code, 0x48, 0x23, 0x07);              /* and rax, [rdi] */
    stub_x86_64_code_put(code, 0x48, 0xc1, 0xe0, TABLE_SHIFT); /* shl rax, 5 */
    stub_x86_64_code_put(code, 0x48, 0x8d, 0x44, 0x07, 0x20);  /* lea rax, [rdi+rax+32] */
    stub_x86_64_code_put(code, 0x48, 0x39, 0x08);              /* cmp [rax], rcx */
    unsigned other = put_short(code, 0x75);                    /* jne back */
    stub_x86_64_code_put(code, 0x48, 0x39, 0x50, 0x08);        /* cmp [rax+8], rdx */
    unsigned another = put_short(code, 0x75);                  /* jne back */
    put_lock(code, counter);                                   /* */
    stub_x86_64_code_put(code, 0x48, 0xff, 0x40, 0x10);        /* inc qword [rax+16] */
    put_recorder_restores(code);
    land_short(code, other);
    land_short(code, another);
    stub_x86_64_code_put(code, 0x48, 0x01, 0xf2); /* back: add rdx, rsi */
    land_short(code, unclaimed);
    land_short(code, no_table);
}

/* 3. rax = hash of (rcx, r9), rsi = mask, r10 = entries left to look at; jumps forward to *full without a
 * table. */
static void put_search(struct stub_x86_64_code *code, unsigned *full)
{
    stub_x86_64_code_put(code, 0x49, 0x89, 0xd1);       /* mov r9, rdx */
    stub_x86_64_code_put(code, 0x49, 0x29, 0xf1);       /* sub r9, rsi */
    stub_x86_64_code_put(code, 0x48, 0x8b, 0x7e, 0x08); /* mov rdi, [rsi+8] */
    stub_x86_64_code_put(code, 0x48, 0x85, 0xff);       /* test rdi, rdi */
    *full = put_short(code, 0x74);                      /* je full */
    stub_x86_64_code_put(code, 0x4a, 0x8d, 0x04, 0xc9); /* lea rax, [rcx+r9*8] */
    put_hash(code, RAX);
    stub_x86_64_code_put(code, 0x48, 0x8b, 0x37); /* mov rsi, [rdi] */
    stub_x86_64_code_put(code, 0x41, 0xba);       /* mov r10d, PROBES */
    stub_x86_64_code_32(code, STUB_TABLE_PROBES);
}

/* 3. r8 = entry. The index is kept on the stack while rax serves cmpxchg. Returns the jump to "full". */
static unsigned put_probe(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    unsigned again = code->size;
    stub_x86_64_code_put(code, 0x48, 0x21, 0xf0);              /* again: and rax, rsi */
    stub_x86_64_code_put(code, 0x49, 0x89, 0xc0);              /* mov r8, rax */
    stub_x86_64_code_put(code, 0x49, 0xc1, 0xe0, TABLE_SHIFT); /* shl r8, 5 */
    stub_x86_64_code_put(code, 0x4e, 0x8d, 0x44, 0x07, 0x20);  /* lea r8, [rdi+r8+32] */
    stub_x86_64_code_put(code, 0x50, 0x31, 0xc0);              /* push rax; xor eax, eax */
    put_lock(code, counter);
    stub_x86_64_code_put(code, 0x49, 0x0f, 0xb1, 0x08); /* cmpxchg [r8], rcx */
    unsigned taken = put_short(code, 0x75);             /* jne taken */
    stub_x86_64_code_put(code, 0x4d, 0x89, 0x48, 0x08); /* mov [r8+8], r9 */
    unsigned fresh = put_short(code, 0xeb);             /* jmp found */
    land_short(code, taken);
    stub_x86_64_code_put(code, 0x48, 0x39, 0xc8);       /* taken: cmp rax, rcx */
    unsigned other = put_short(code, 0x75);             /* jne other */
    stub_x86_64_code_put(code, 0x4d, 0x39, 0x48, 0x08); /* cmp [r8+8], r9 */
    unsigned same = put_short(code, 0x74);              /* je found */
    land_short(code, other);
    stub_x86_64_code_put(code, 0x58, 0x48, 0xff, 0xc0); /* other: pop rax; inc rax */
    stub_x86_64_code_put(code, 0x41, 0xff, 0xca);       /* dec r10d */
    put_short_back(code, 0x75, again);                  /* jne again */
    unsigned none = put_short(code, 0xeb);              /* jmp full */
    land_short(code, fresh);
    land_short(code, same);
    stub_x86_64_code_put(code, 0x58); /* found: pop rax */
    put_lock(code, counter);
    stub_x86_64_code_put(code, 0x49, 0xff, 0x40, 0x10); /* inc qword [r8+16] */
    return none;
}

void stub_x86_64_entry_recorder(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter)
{
    unsigned no_table, no_room, claimed, ours, out;
    put_fast(code, counter);
    stub_x86_64_code_put(code, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52); /* slow: push r8; push r9; push r10 */
    stub_x86_64_code_put(code, 0x31, 0xc0);                         /* xor eax, eax */
    put_lock(code, counter);
    stub_x86_64_code_put(code, 0x48, 0x0f, 0xb1, 0x0a); /* 2. cmpxchg [rdx], rcx */
    claimed = put_short(code, 0x74);                    /* je own */
    stub_x86_64_code_put(code, 0x48, 0x39, 0xc8);       /* cmp rax, rcx */
    ours = put_short(code, 0x74);                       /* je own */
    put_search(code, &no_table);
    no_room = put_probe(code, counter);
    out = code->size;
    stub_x86_64_code_put(code, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58); /* out: pop r10; pop r9; pop r8 */
    put_recorder_restores(code);
    land_short(code, claimed);
    land_short(code, ours);
    put_lock(code, counter);
    stub_x86_64_code_put(code, 0x48, 0xff, 0x42, 0x08); /* own: inc qword [rdx+8] */
    put_short_back(code, 0xeb, out);
    land_short(code, no_table);
    land_short(code, no_room);
    put_lock(code, counter);
    stub_x86_64_code_put(code, 0x48, 0xff, 0x42, 0x10); /* 4. full: inc qword [rdx+16] */
    put_short_back(code, 0xeb, out);
}
