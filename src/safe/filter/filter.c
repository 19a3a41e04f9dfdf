#include "filter.h"

#include "bare_bytes.h"

#define MOST_STEPS BPF_MAXINSNS /* programs only jump forward */

struct machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
};

static bool load_word(struct machine *machine, const struct sock_filter *item,
                      const struct seccomp_data *data, uint32_t *into)
{
    switch (BPF_MODE(item->code)) {
    case BPF_IMM:
        *into = item->k;
        return true;
    case BPF_LEN:
        *into = sizeof *data;
        return true;
    case BPF_MEM:
        *into = item->k < BPF_MEMWORDS ? machine->memory[item->k] : 0;
        return item->k < BPF_MEMWORDS;
    case BPF_ABS:
        if (item->k % 4 || item->k > sizeof *data - 4)
            return false;
        *into = bare_load32((const char *)data + item->k);
        return true;
    default:
        return false;
    }
}

static bool compute_word(struct machine *machine, const struct sock_filter *item)
{
    uint32_t b = BPF_SRC(item->code) == BPF_X ? machine->x : item->k, *a = &machine->a;
    switch (BPF_OP(item->code)) {
    case BPF_ADD:
        *a += b;
        return true;
    case BPF_SUB:
        *a -= b;
        return true;
    case BPF_MUL:
        *a *= b;
        return true;
    case BPF_DIV:
        *a = b ? *a / b : 0;
        return true;
    case BPF_OR:
        *a |= b;
        return true;
    case BPF_AND:
        *a &= b;
        return true;
    case BPF_XOR:
        *a ^= b;
        return true;
    case BPF_LSH:
        *a = b < 32 ? *a << b : 0;
        return true;
    case BPF_RSH:
        *a = b < 32 ? *a >> b : 0;
        return true;
    case BPF_NEG:
        *a = 0 - *a;
        return true;
    default:
        return false;
    }
}

/* How far to jump, or -1. */
static int64_t jump_distance(const struct machine *machine, const struct sock_filter *item)
{
    uint32_t b = BPF_SRC(item->code) == BPF_X ? machine->x : item->k, a = machine->a;
    switch (BPF_OP(item->code)) {
    case BPF_JA:
        return item->k;
    case BPF_JEQ:
        return a == b ? item->jt : item->jf;
    case BPF_JGT:
        return a > b ? item->jt : item->jf;
    case BPF_JGE:
        return a >= b ? item->jt : item->jf;
    case BPF_JSET:
        return (a & b) ? item->jt : item->jf;
    default:
        return -1;
    }
}

static bool store_word(struct machine *machine, const struct sock_filter *item, uint32_t value)
{
    if (item->k >= BPF_MEMWORDS)
        return false;
    machine->memory[item->k] = value;
    return true;
}

/* One instruction that neither jumps nor returns. */
static bool step_filter(struct machine *machine, const struct sock_filter *item,
                        const struct seccomp_data *data)
{
    switch (BPF_CLASS(item->code)) {
    case BPF_LD:
        return load_word(machine, item, data, &machine->a);
    case BPF_LDX:
        return load_word(machine, item, data, &machine->x);
    case BPF_ST:
        return store_word(machine, item, machine->a);
    case BPF_STX:
        return store_word(machine, item, machine->x);
    case BPF_ALU:
        return compute_word(machine, item);
    case BPF_MISC:
        if (BPF_MISCOP(item->code) == BPF_TAX)
            machine->x = machine->a;
        else
            machine->a = machine->x;
        return true;
    default:
        return false;
    }
}

uint32_t filter_run(const struct sock_filter *items, size_t count, const struct seccomp_data *data)
{
    struct machine machine = {.a = 0};
    for (size_t at = 0; at < count && at < MOST_STEPS; at++) {
        const struct sock_filter item = items[at]; /* once: somebody may change it */
        if (BPF_CLASS(item.code) == BPF_RET)
            return BPF_RVAL(item.code) == BPF_A ? machine.a : item.k;
        if (BPF_CLASS(item.code) != BPF_JMP) {
            if (!step_filter(&machine, &item, data))
                break;
            continue;
        }
        int64_t jump = jump_distance(&machine, &item);
        if (jump < 0)
            break;
        at += (size_t)jump;
    }
    return SECCOMP_RET_KILL_PROCESS;
}

bool filter_allows(uint32_t answer)
{
    uint32_t action = answer & SECCOMP_RET_ACTION_FULL;
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}
