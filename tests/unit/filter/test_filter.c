/* Seccomp filters, run on calls that nobody makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "filter.h"

#define COUNT(items)  (sizeof(items) / sizeof *(items))
#define RUN(items)    filter_run(items, COUNT(items), &call)
#define LOAD(field)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)

static const struct seccomp_data call = {
    .nr = 14, .arch = 0xc000003e, .instruction_pointer = 0x1234500000678, .args = {7, 0x500000003, 0, 8}};

/* As libseccomp writes them: the machine, then a tree of numbers, then arguments. */
static void test_a_list_of_calls(void **state)
{
    (void)state;
    const struct sock_filter items[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xc000003e, 0, 6),
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 13, 0, 3),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 14, 0, 2),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 7, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct seccomp_data other = call;
    assert_int_equal(RUN(items), SECCOMP_RET_ALLOW);
    other.args[0] = 8;
    assert_int_equal(filter_run(items, COUNT(items), &other), SECCOMP_RET_KILL_PROCESS);
    other.nr = 13;
    assert_int_equal(filter_run(items, COUNT(items), &other), SECCOMP_RET_KILL_PROCESS);
}

static void test_words(void **state)
{
    (void)state;
    const struct sock_filter high[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16 + 8 + 4),
                                       BPF_STMT(BPF_RET | BPF_A, 0)};
    const struct sock_filter length[] = {BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0),
                                         BPF_STMT(BPF_MISC | BPF_TXA, 0), BPF_STMT(BPF_RET | BPF_A, 0)};
    const struct sock_filter kept[] = {BPF_STMT(BPF_LD | BPF_IMM, 9),   BPF_STMT(BPF_ST, 15),
                                       BPF_STMT(BPF_LD | BPF_IMM, 1),   BPF_STMT(BPF_LDX | BPF_MEM, 15),
                                       BPF_STMT(BPF_MISC | BPF_TXA, 0), BPF_STMT(BPF_RET | BPF_A, 0)};
    assert_int_equal(RUN(high), 5);
    assert_int_equal(RUN(length), sizeof(struct seccomp_data));
    assert_int_equal(RUN(kept), 9);
}

/* ((((21 + 4) * 3 - 5) / 2 | 0x100) & 0x1ff ^ 0x3) << 33 is 0, as the kernel has it. */
static void test_arithmetic(void **state)
{
    (void)state;
    struct sock_filter items[] = {
        BPF_STMT(BPF_LD | BPF_IMM, 21),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 4),
        BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 3),
        BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 5),
        BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 2),
        BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 0x100),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x1ff),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 3),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 1),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 1),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    assert_int_equal(RUN(items), 0x120); /* 35 = 0x23 */
    items[9].k = 33;
    assert_int_equal(RUN(items), 0);
}

/* What is no program is the worst: instructions that there are not, loads outside, jumps behind the end, no
 * end. */
static void test_no_program(void **state)
{
    (void)state;
    const struct sock_filter odd[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 2), ANSWER(SECCOMP_RET_ALLOW)};
    const struct sock_filter far[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), ANSWER(SECCOMP_RET_ALLOW)};
    const struct sock_filter away[] = {BPF_JUMP(BPF_JMP | BPF_JA, 5, 0, 0), ANSWER(SECCOMP_RET_ALLOW)};
    const struct sock_filter endless[] = {BPF_STMT(BPF_LD | BPF_IMM, 9)};
    const struct sock_filter outside[] = {BPF_STMT(BPF_ST, 16), ANSWER(SECCOMP_RET_ALLOW)};
    assert_int_equal(RUN(odd), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(far), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(away), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(endless), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(RUN(outside), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(filter_run(odd, 0, &call), SECCOMP_RET_KILL_PROCESS);
}

static void test_allows(void **state)
{
    (void)state;
    assert_true(filter_allows(SECCOMP_RET_ALLOW));
    assert_true(filter_allows(SECCOMP_RET_LOG));
    assert_false(filter_allows(SECCOMP_RET_ERRNO)); /* the agent would take the error for an answer */
    assert_false(filter_allows(SECCOMP_RET_ERRNO | 38));
    assert_false(filter_allows(SECCOMP_RET_TRAP));
    assert_false(filter_allows(SECCOMP_RET_TRACE | 1));
    assert_false(filter_allows(SECCOMP_RET_KILL_THREAD));
    assert_false(filter_allows(SECCOMP_RET_KILL_PROCESS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_of_calls), cmocka_unit_test(test_words),
        cmocka_unit_test(test_arithmetic),      cmocka_unit_test(test_no_program),
        cmocka_unit_test(test_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
