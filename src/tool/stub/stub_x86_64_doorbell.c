/* The doorbell's code.
 *
 * rbx = the words, ebp = mine, r8d = what is left of the time to wait: LATE for a round that ends by time, 1
 * for one that ends by a signal or a change; r9d = the last beat that was seen. The kernel changes rax, rcx
 * and r11; futex reads neither r8 nor r9 for the operations used here. */
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>

#include "code_instruction.h"
#include "stub_x86_64_doorbell.h"
#include "stub_x86_64_entry.h"

#define SYSTEM_FUTEX 202 /* of x86-64 */
#define LATE         4096

static unsigned put_short(struct stub_x86_64_code *code, uint8_t opcode)
{
    stub_x86_64_code_put(code, opcode, 0);
    return code->size;
}

static void land_short(struct stub_x86_64_code *code, unsigned from)
{
    code->bytes[from - 1] = (uint8_t)(code->size - from);
    if (code->size - from > INT8_MAX)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
}

static void put_backward_jump(struct stub_x86_64_code *code, uint8_t opcode, unsigned to)
{
    int distance = (int)to - (int)(code->size + 2u);
    stub_x86_64_code_put(code, opcode, (uint8_t)distance);
    if (distance < INT8_MIN)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
}

static void put_64(struct stub_x86_64_code *code, uint64_t value)
{
    stub_x86_64_code_32(code, (uint32_t)value);
    stub_x86_64_code_32(code, (uint32_t)(value >> 32));
}

static void put_futex(struct stub_x86_64_code *code)
{
    stub_x86_64_code_put(code, 0xb8); /* mov eax, 202; syscall */
    stub_x86_64_code_32(code, SYSTEM_FUTEX);
    stub_x86_64_code_put(code, 0x0f, 0x05);
}

/* Nobody listens: back at once. Returns where that is; falls through with rax = words when tally does. */
static unsigned put_second_entry(struct stub_x86_64_code *code, const struct stub_x86_64_doorbell *doorbell)
{
    stub_x86_64_code_put(code, 0x50, 0x9c, 0x48, 0xb8); /* push rax; pushfq; mov rax, words */
    put_64(code, doorbell->words);
    stub_x86_64_code_put(code, 0x83, 0x78, doorbell->enabled, 0x00); /* cmp dword [rax+enabled], 0 */
    unsigned listens = put_short(code, 0x75);                        /* jne notify */

    unsigned quiet = code->size;
    stub_x86_64_code_put(code, 0x9d, 0x58, 0xc3); /* quiet: popfq; pop rax; ret */
    land_short(code, listens);
    return quiet;
}

static void put_notification(struct stub_x86_64_code *code)
{
    stub_x86_64_code_put(code, 0x51, 0x52, 0x53, 0x55, 0x56, 0x57); /* push rcx rdx rbx rbp rsi rdi */
    stub_x86_64_code_put(code, 0x41, 0x50, 0x41, 0x51);             /* push r8 r9 */
    stub_x86_64_code_put(code, 0x41, 0x52, 0x41, 0x53);             /* push r10 r11 */
    stub_x86_64_code_put(code, 0x48, 0x89, 0xc3);                   /* mov rbx, rax */
    stub_x86_64_code_put(code, 0xbd);                               /* mov ebp, 1 */
    stub_x86_64_code_32(code, 1);
    stub_x86_64_code_put(code, 0xf0, 0x0f, 0xc1, 0x6b,
                         offsetof(struct stub_doorbell, notified)); /* lock xadd [notified], ebp */
    stub_x86_64_code_put(code, 0xff, 0xc5);                         /* inc ebp */
    stub_x86_64_code_put(code, 0xf0, 0xff, 0x43,
                         offsetof(struct stub_doorbell, waiting)); /* lock inc dword [waiting] */
    stub_x86_64_code_put(code, 0x48, 0x8d, 0x7b,
                         offsetof(struct stub_doorbell, notified)); /* lea rdi, [notified] */
    stub_x86_64_code_put(code, 0xbe);                               /* mov esi, FUTEX_WAKE */
    stub_x86_64_code_32(code, FUTEX_WAKE);
    stub_x86_64_code_put(code, 0xba); /* mov edx, 1 */
    stub_x86_64_code_32(code, 1);
    put_futex(code);
}

/* Waits for one change of `answered`, whose value is in edx. Returns where the address of the time-out is
 * missing. */
static unsigned put_wait(struct stub_x86_64_code *code)
{
    stub_x86_64_code_put(code, 0x48, 0x8d, 0x7b,
                         offsetof(struct stub_doorbell, answered)); /* lea rdi, [answered] */
    stub_x86_64_code_put(code, 0x31, 0xf6);                         /* xor esi, esi: FUTEX_WAIT */
    stub_x86_64_code_put(code, 0x4c, 0x8d, 0x15);                   /* lea r10, [rip+time] */
    stub_x86_64_code_32(code, 0);
    unsigned time = code->size;
    put_futex(code);
    return time;
}

/* Another beat than before: the whole time to wait again. */
static void put_refill(struct stub_x86_64_code *code, const struct stub_x86_64_doorbell *doorbell)
{
    stub_x86_64_code_put(code, 0x8b, 0x43, offsetof(struct stub_doorbell, beats)); /* mov eax, [beats] */
    stub_x86_64_code_put(code, 0x41, 0x91);                                        /* xchg eax, r9d */
    stub_x86_64_code_put(code, 0x44, 0x39, 0xc8);                                  /* cmp eax, r9d */
    unsigned same = put_short(code, 0x74);                                         /* je same */
    stub_x86_64_code_put(code, 0x41, 0xb8); /* mov r8d, rounds * LATE */
    stub_x86_64_code_32(code, doorbell->rounds * LATE);
    land_short(code, same);
}

/* The loop; returns where the address of the time-out is missing. */
static unsigned put_wait_loop(struct stub_x86_64_code *code, const struct stub_x86_64_doorbell *doorbell)
{
    stub_x86_64_code_put(code, 0x44, 0x8b, 0x4b,
                         offsetof(struct stub_doorbell, beats)); /* mov r9d, [beats] */
    stub_x86_64_code_put(code, 0x41, 0xff, 0xc9);                /* dec r9d: a beat is to be seen at once */
    unsigned again = code->size;
    stub_x86_64_code_put(code, 0x83, 0x7b, doorbell->enabled, 0x00); /* again: cmp dword [enabled], 0 */
    unsigned inactive = put_short(code, 0x74);                       /* je done */
    put_refill(code, doorbell);
    stub_x86_64_code_put(code, 0x8b, 0x53,
                         offsetof(struct stub_doorbell, answered)); /* mov edx, [answered] */
    stub_x86_64_code_put(code, 0x89, 0xd0, 0x29, 0xe8);             /* mov eax, edx; sub eax, ebp */
    unsigned answered = put_short(code, 0x79);                      /* jns done */
    stub_x86_64_code_put(code, 0x45, 0x85, 0xc0);                   /* test r8d, r8d */
    unsigned gone = put_short(code, 0x7e);                          /* jle gone */
    unsigned time = put_wait(code);
    stub_x86_64_code_put(code, 0x83, 0xf8, (uint8_t)-ETIMEDOUT); /* cmp eax, -ETIMEDOUT */
    unsigned late = put_short(code, 0x74);                       /* je late */
    stub_x86_64_code_put(code, 0x41, 0xff, 0xc8);                /* dec r8d */
    stub_x86_64_code_put(code, 0x85, 0xc0);                      /* test eax, eax */
    put_backward_jump(code, 0x74, again);                        /* je again */
    stub_x86_64_code_put(code, 0x83, 0xf8, (uint8_t)-EINTR);
    put_backward_jump(code, 0x74, again);
    stub_x86_64_code_put(code, 0x83, 0xf8, (uint8_t)-EAGAIN);
    put_backward_jump(code, 0x74, again);
    unsigned fails = put_short(code, 0xeb); /* jmp done */
    land_short(code, late);
    stub_x86_64_code_put(code, 0x41, 0x81, 0xe8); /* late: sub r8d, LATE */
    stub_x86_64_code_32(code, LATE);
    put_backward_jump(code, 0xeb, again); /* jmp again */
    land_short(code, gone);
    stub_x86_64_code_put(code, 0xc7, 0x43, doorbell->enabled); /* gone: mov dword [enabled], 0 */
    stub_x86_64_code_32(code, 0);
    land_short(code, inactive);
    land_short(code, answered);
    land_short(code, fails);
    return time;
}

void stub_x86_64_doorbell(struct stub_x86_64_code *code, const struct stub_x86_64_doorbell *doorbell)
{
    if (doorbell->rounds >= 1u << 19)
        stub_x86_64_code_refuse(code, STUB_REASON_TOO_MANY);
    unsigned quiet = put_second_entry(code, doorbell);
    put_notification(code);
    unsigned time = put_wait_loop(code, doorbell);
    stub_x86_64_code_put(code, 0xf0, 0xff, 0x4b,
                         offsetof(struct stub_doorbell, waiting));  /* done: lock dec dword [waiting] */
    stub_x86_64_code_put(code, 0x41, 0x5b, 0x41, 0x5a);             /* pop r11 r10 */
    stub_x86_64_code_put(code, 0x41, 0x59, 0x41, 0x58);             /* pop r9 r8 */
    stub_x86_64_code_put(code, 0x5f, 0x5e, 0x5d, 0x5b, 0x5a, 0x59); /* pop rdi rsi rbp rbx rdx rcx */
    stub_x86_64_code_put(code, 0xe9);                               /* jmp quiet */
    stub_x86_64_code_32(code, quiet - (code->size + 4u));
    code->bytes[time - 4] = (uint8_t)(code->size - time); /* below 256 */
    put_64(code, doorbell->timeout / 1000);               /* time: struct timespec */
    put_64(code, (uint64_t)(doorbell->timeout % 1000) * 1000000);
}

/* Past the doorbell unless the register has one of the numbers. Returns where the way past it is missing. */
static unsigned put_choice(struct stub_x86_64_code *code, const struct stub_x86_64_creation *creation)
{
    unsigned found[8];
    if (creation->number_count > sizeof found / sizeof found[0] || creation->argument >= 8)
        stub_x86_64_code_refuse(code, STUB_REASON_TOO_MANY);
    stub_x86_64_code_put(code, 0x9c); /* pushfq */
    for (size_t i = 0; i < creation->number_count && i < sizeof found / sizeof found[0]; i++) {
        stub_x86_64_code_put(code, 0x81, (uint8_t)(0xf8 | creation->argument)); /* cmp reg32, number */
        stub_x86_64_code_32(code, creation->numbers[i]);
        found[i] = put_short(code, 0x74); /* je notify */
    }
    stub_x86_64_code_put(code, 0x9d); /* popfq */
    unsigned past = put_short(code, 0xeb);
    for (size_t i = 0; i < creation->number_count && i < sizeof found / sizeof found[0]; i++)
        land_short(code, found[i]);
    stub_x86_64_code_put(code, 0x9d); /* notify: popfq */
    return past;
}

void stub_x86_64_doorbell_stub(struct stub_x86_64_code *code, const struct stub_x86_64_creation *creation)
{
    struct stub_x86_64_entry entry = {
        STUB_ENTRY, (uint8_t)creation->length, creation->function, creation->old, 0, false};
    struct stub_x86_64_hook hook;
    unsigned past = creation->argument ? put_choice(code, creation) : 0;
    stub_x86_64_code_put(code, 0xe8);
    stub_x86_64_code_relative(code, creation->doorbell, 0); /* call doorbell */
    if (past)
        land_short(code, past);
    stub_x86_64_entry_body(code, &entry, &hook);
}

bool stub_x86_64_doorbell_bytes(uint64_t function, uint64_t doorbell,
                                uint8_t fresh[STUB_X86_64_DOORBELL_JUMP])
{
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, function);
    stub_x86_64_code_jump(&code, doorbell);
    for (unsigned i = 0; i < STUB_X86_64_DOORBELL_JUMP; i++)
        fresh[i] = code.bytes[i];
    return code.refused == STUB_FINE;
}

static bool is_int3(const struct code_instruction *in)
{
    return in->opcode_map == 0 && in->opcode == 0xcc;
}

/* ret, also after f2 or f3; not the one that pops arguments, nor a far one */
static bool is_return(const struct code_instruction *in)
{
    return in->flow == CODE_RETURN && in->opcode_map == 0 && in->opcode == 0xc3;
}

bool stub_x86_64_doorbell_fits(const uint8_t *old, size_t available)
{
    bool returned = false;
    for (size_t at = 0; at < STUB_X86_64_DOORBELL_JUMP;) {
        struct code_instruction in;
        if (!code_instruction_decode(old + at, available - at, at, &in))
            return false;
        bool idle = (in.marks & (CODE_PADDING | CODE_ENDBR)) != 0 && (returned || !is_int3(&in));
        if (!idle && (returned || !is_return(&in)))
            return false;
        returned = returned || is_return(&in);
        at += in.length;
    }
    return returned;
}
