/* fixture.c - a program with one of everything a survey has to tell apart. It runs all of it, so that
 * test_step can follow its control flow; test_survey knows the functions by name. Built position-independent
 * and not. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define KEEP __attribute__((noinline, noclone, used))

volatile int fixture_sink;

/* --- taken, called, neither --- */
static KEEP int by_table_1(int x)
{
    return x + fixture_sink;
}
static KEEP int by_table_2(int x)
{
    return x * fixture_sink;
}
static KEEP int by_lea(int x)
{
    return x ^ fixture_sink;
}
static KEEP int only_called(int x)
{
    fixture_sink += x;
    return fixture_sink;
}
static KEEP int never_used(int x)
{
    return x - fixture_sink;
}
int exported(int x);
KEEP int exported(int x)
{
    return x + 2 * fixture_sink;
}

static int (*volatile table[])(int) = {by_table_1, by_table_2};

static KEEP int call_through(int (*function)(int), int x)
{
    return function(x) + 1;
}

/* --- jumps to other functions --- */
static KEEP int tail_jump(int x)
{
    fixture_sink++;
    return only_called(x + 1);
}
static KEEP int indirect_tail_jump(int x)
{
    return table[x & 1](x);
}
static KEEP int recursive(int x)
{
    return x < 2 ? 1 : recursive(x - 1) * x + recursive(x - 2);
}

/* --- switches --- */
static KEEP int by_switch(int x)
{
    switch (x) {
    case 0:
        return only_called(3);
    case 1:
        return exported(x) + 5;
    case 2:
        return by_lea(7);
    case 3:
        fixture_sink = 1;
        return 2;
    case 4:
        return only_called(9) + exported(3);
    case 5:
        return never_used(1);
    case 6:
        return recursive(4);
    case 7:
        fixture_sink--;
        return 11;
    default:
        return 0;
    }
}

static KEEP int by_labels(const unsigned char *code)
{
    static void *const labels[] = {&&add, &&take, &&times, &&stop};
    int value = 1;
    goto *labels[*code];
add:
    value += fixture_sink;
    goto *labels[*++code];
take:
    value -= 3;
    goto *labels[*++code];
times:
    value *= 5;
    goto *labels[*++code];
stop:
    return value;
}

/* --- a cold part, and a landing pad --- */
static KEEP __attribute__((cold)) void complain(int x)
{
    fixture_sink = x;
}
static KEEP int with_cold_part(int x)
{
    if (__builtin_expect(x > 1000, 0)) {
        complain(x);
        complain(x + 1);
        return only_called(x) * 3;
    }
    return x + 1;
}

static void clean(int *x)
{
    fixture_sink += *x;
}
static KEEP int with_landing_pad(int (*function)(int), int x)
{
    int guard __attribute__((cleanup(clean))) = x;
    return function(x) + guard;
}

/* Ends the thread by unwinding it: landing pads run. */
static KEEP int leave(int x)
{
    fflush(stdout);
    if (x > 0)
        pthread_exit(NULL);
    return x;
}

/* --- chosen when the program is loaded --- */
static KEEP int chosen(int x)
{
    return x + 77;
}
static int (*resolve(void))(int)
{
    return chosen;
}
int by_resolver(int x) __attribute__((ifunc("resolve")));

/* --- what only assembly has --- */
long reads_pc(void), thunk_user(int (*function)(int), int x), uses_gs(void), holds_data(void), runs_on(void),
    profiled(void), profiled_slot(void), jumps_short(int x);
__asm__(".text\n"
        ".type reads_pc, @function\n"
        "reads_pc:\n"
        "    call 1f\n"
        "1:  pop %rax\n"
        "    ret\n"
        ".size reads_pc, . - reads_pc\n"

        ".type __x86_indirect_thunk_rax, @function\n"
        "__x86_indirect_thunk_rax:\n"
        "    call 2f\n"
        "1:  pause\n"
        "    lfence\n"
        "    jmp 1b\n"
        "2:  mov %rax, (%rsp)\n"
        "    ret\n"
        ".size __x86_indirect_thunk_rax, . - __x86_indirect_thunk_rax\n"

        ".type thunk_user, @function\n"
        "thunk_user:\n"
        "    mov %rdi, %rax\n"
        "    mov %esi, %edi\n"
        "    sub $8, %rsp\n"
        "    call __x86_indirect_thunk_rax\n"
        "    add $8, %rsp\n"
        "    ret\n"
        ".size thunk_user, . - thunk_user\n"

        ".type uses_gs, @function\n"
        "uses_gs:\n"
        "    ret\n"
        "    mov %gs:0x10, %rax\n"
        "    ret\n"
        ".size uses_gs, . - uses_gs\n"
        ".type sets_gs, @function\n"
        "sets_gs:\n"
        "    .cfi_startproc\n"
        "    mov $158, %eax\n"
        "    mov $0x1001, %edi\n"
        "    syscall\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size sets_gs, . - sets_gs\n"

        ".type holds_data, @function\n"
        "holds_data:\n"
        "    mov 1f(%rip), %rax\n"
        "    ret\n"
        "1:  .quad 0x9090909090909090\n"
        ".size holds_data, . - holds_data\n"

        ".type runs_on, @function\n"
        "runs_on:\n"
        "    mov $5, %eax\n"
        ".size runs_on, . - runs_on\n"
        ".type jumps_short, @function\n"
        "jumps_short:\n"
        "    test %edi, %edi\n"
        "    je reads_pc\n"
        "    jmp runs_off\n"
        ".size jumps_short, . - jumps_short\n"
        ".type runs_off, @function\n"
        "runs_off:\n"
        "    ret\n"
        ".size runs_off, . - runs_off\n"

        ".type profiled, @function\n"
        "profiled:\n"
        "    ret\n"
        "    call mcount@plt\n"
        "    ret\n"
        ".size profiled, . - profiled\n"
        ".type profiled_slot, @function\n"
        "profiled_slot:\n"
        "    ret\n"
        "    call *mcount@GOTPCREL(%rip)\n"
        "    ret\n"
        ".size profiled_slot, . - profiled_slot\n");

int main(void)
{
    static const unsigned char code[] = {0, 1, 2, 0, 2, 1, 3};
    long sum = 0;
    for (int i = -1; i < 10; i++)
        sum += by_switch(i) + indirect_tail_jump(i);
    sum +=
        call_through(by_lea, 3) + tail_jump(4) + by_labels(code) + with_cold_part(3) + with_cold_part(2000);
    sum +=
        with_landing_pad(exported, 4) + by_resolver(3) + thunk_user(by_table_1, 2) + uses_gs() + holds_data();
    sum += runs_on() + jumps_short(0) + jumps_short(1) + profiled() + profiled_slot();
    sum += reads_pc() != 0;
    putchar(sum == 12345678 ? 'x' : '.');
    puts("");
    return with_landing_pad(leave, 5);
}
