/* calls_tail [ROUNDS] - functions that end by a jump to another one, in every form x86-64 has for it.
 *
 * Written in assembly, so that no compiler changes the form: direct jumps of five and two bytes, conditional
 * ones, jumps through the table of the linker, through a register and through memory, and a chain of the
 * latter. */
#include <stdlib.h>

#include "calls_truth.h"

int tail_near(int value);
int tail_short(int value);
int tail_neighbour(int value);
int tail_condition(int value);
int tail_got(int value);
int tail_register(int value, int (*target)(int));
int tail_memory(int value, int (**target)(int));
int tail_chain(int value, int (**target)(int));
int tail_leaf(int value);
int tail_end(int value);

#define FUNCTION(name, body)                                                                                 \
    __asm__(".pushsection .text\n.globl " name "\n.type " name ", @function\n.p2align 4\n" name              \
            ":\n.cfi_startproc\n" body "\n.cfi_endproc\n.size " name ", . - " name "\n.popsection\n")

FUNCTION("tail_near", "lea 1(%rdi), %edi\n.byte 0xe9\n.long tail_leaf - . - 4");
FUNCTION("tail_short", "lea 1(%rdi), %edi\n.byte 0xeb\n.byte tail_neighbour - . - 1");
FUNCTION("tail_neighbour", "lea 2(%rdi), %eax\nxor %ecx, %ecx\nret");
FUNCTION("tail_condition", "test $1, %edi\nmov %edi, %eax\n.byte 0x0f, 0x85\n.long tail_leaf - . - 4\nret");
FUNCTION("tail_got", "lea 1(%rdi), %edi\njmp *tail_leaf@GOTPCREL(%rip)");
FUNCTION("tail_register", "lea 1(%rdi), %edi\njmp *%rsi");
FUNCTION("tail_memory", "lea 1(%rdi), %edi\njmp *(%rsi)");
FUNCTION("tail_chain", "lea 1(%rdi), %edi\nmov (%rsi), %rax\nadd $8, %rsi\njmp *%rax");
FUNCTION("tail_leaf", "lea 1(%rdi), %eax\nxor %ecx, %ecx\nret");
FUNCTION("tail_end", "lea 3(%rdi), %eax\nxor %ecx, %ecx\nret");

__attribute__((noipa)) static int drive(int rounds)
{
    int (*chain[])(int) = {(int (*)(int))(void (*)(void))tail_chain, (int (*)(int))(void (*)(void))tail_chain,
                           tail_end};
    int (*target)(int) = tail_end;
    int value = 0;

    __asm__ volatile("" : "+m"(chain), "+m"(target));
    for (int i = 0; i < rounds; i++) {
        CALLS_COUNT("tail_near", "tail_leaf", "tail");
        value += CALLS("drive", "tail_near", "direct", tail_near(i));
        CALLS_COUNT("tail_short", "tail_neighbour", "tail");
        value += CALLS("drive", "tail_short", "direct", tail_short(i));
        CALLS_COUNT_MANY("tail_condition", "tail_leaf", "tail", i & 1);
        value += CALLS("drive", "tail_condition", "direct", tail_condition(i));
        CALLS_COUNT("tail_got", "tail_leaf", "tail");
        value += CALLS("drive", "tail_got", "direct", tail_got(i));
        CALLS_COUNT("tail_register", "tail_end", "tail");
        value += CALLS("drive", "tail_register", "direct", tail_register(i, target));
        CALLS_COUNT("tail_memory", "tail_end", "tail");
        value += CALLS("drive", "tail_memory", "direct", tail_memory(i, &target));
        CALLS_COUNT_MANY("tail_chain", "tail_chain", "tail", 2);
        CALLS_COUNT("tail_chain", "tail_end", "tail");
        value += CALLS("drive", "tail_chain", "direct", tail_chain(i, chain));
        value += CALLS("drive", "tail_end", "direct", tail_end(i));
    }
    return value;
}

int main(int argc, char **argv)
{
    int value = drive(argc > 1 ? atoi(argv[1]) : 1000);

    printf("%d\n", value);
    fflush(stdout);
    calls_print();
    return 0;
}
