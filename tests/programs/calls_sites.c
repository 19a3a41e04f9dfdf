/* calls_sites [ROUNDS] - 100,000 places that call one function by its address: 100 functions of 1,000 two- or
 * three-byte calls. Prints its truth as calls_truth.h says; every place makes ROUNDS (3) calls. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTIONS 100
#define PLACES    1000

__asm__(".altmacro\n"
        ".macro site_function number\n"
        ".globl site_\\number\n"
        ".type site_\\number, @function\n"
        "site_\\number:\n"
        ".cfi_startproc\n"
        "push %rbx\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbx, -16\n"
        "mov %rdi, %rbx\n"
        ".rept 1000\n"
        "call *%rbx\n"
        ".endr\n"
        "pop %rbx\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size site_\\number, . - site_\\number\n"
        ".pushsection .data.rel, \"aw\"\n"
        ".quad site_\\number\n"
        ".popsection\n"
        ".endm\n"
        ".pushsection .data.rel, \"aw\"\n"
        ".p2align 3\n"
        "site_table:\n"
        ".popsection\n"
        ".set site_index, 0\n"
        ".rept 100\n"
        "site_function %site_index\n"
        ".set site_index, site_index + 1\n"
        ".endr\n"
        ".noaltmacro\n");

extern void (*const site_table[FUNCTIONS])(void (*)(void)) __attribute__((visibility("hidden")));

__attribute__((noipa)) static void site_leaf(void)
{
    __asm__ volatile("");
}

__attribute__((noipa)) static void site_drive(int rounds)
{
    for (int i = 0; i < rounds; i++)
        for (int f = 0; f < FUNCTIONS; f++)
            site_table[f](site_leaf);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 3;

    site_drive(rounds);
    printf("{\"pid\":%d,\"edges\":[[\"main\",\"site_drive\",\"direct\",1]", (int)getpid());
    for (int f = 0; f < FUNCTIONS; f++)
        printf(",[\"site_drive\",\"site_%d\",\"indirect\",%d],[\"site_%d\",\"site_leaf\",\"indirect\",%d]", f,
               rounds, f, rounds * PLACES);
    printf("]}\n");
    return 0;
}
