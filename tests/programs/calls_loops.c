/* calls_loops [ROUNDS] - functions without room for a hook of five bytes, called by address from two threads:
 * one loops back to its second instruction, the other one is shorter than a jump and has another function
 * right behind it. */
#include <pthread.h>
#include <stdlib.h>

#include "calls_truth.h"
#include "truth.h"

long loops_sum(long sum, long rounds);
long loops_tiny(long value);
long loops_behind(long value);

__asm__(".text\n"
        ".p2align 5\n"
        ".globl loops_sum\n"
        ".type loops_sum, @function\n"
        "loops_sum:\n"
        ".cfi_startproc\n"
        "	sub	%rsi, %rdi\n"
        "1:	add	$7, %rdi\n"
        "	dec	%rsi\n"
        "	jg	1b\n"
        "	lea	(%rdi), %rax\n"
        "	ret\n"
        ".cfi_endproc\n"
        ".size loops_sum, . - loops_sum\n"
        ".p2align 5\n"
        ".globl loops_tiny\n"
        ".type loops_tiny, @function\n"
        "loops_tiny:\n"
        ".cfi_startproc\n"
        "	mov	%edi, %eax\n"
        "	ret\n"
        ".cfi_endproc\n"
        ".size loops_tiny, . - loops_tiny\n"
        ".globl loops_behind\n"
        ".type loops_behind, @function\n"
        "loops_behind:\n"
        ".cfi_startproc\n"
        "	lea	1(%rdi), %rax\n"
        "	ret\n"
        ".cfi_endproc\n"
        ".size loops_behind, . - loops_behind\n"
        ".p2align 5\n");

TRUTH_FUNCTION long loops_round(long value)
{
    long (*volatile sum)(long, long) = loops_sum;
    long (*volatile tiny)(long) = loops_tiny;
    long (*volatile behind)(long) = loops_behind;
    long times = value % 5 + 1, wrong = 0;

    wrong += CALLS("loops_round", "loops_sum", "indirect", sum(value, times)) != value + 6 * times;
    wrong += CALLS("loops_round", "loops_tiny", "indirect", tiny(value)) != value;
    wrong += CALLS("loops_round", "loops_behind", "indirect", behind(value)) != value + 1;
    return wrong;
}

TRUTH_FUNCTION void *loops_body(void *data)
{
    long wrong = 0, rounds = *(long *)data;

    for (long i = 0; i < rounds; i++)
        wrong += CALLS("loops_body", "loops_round", "direct", loops_round(i));
    return (void *)wrong;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 100000;
    pthread_t thread;
    void *wrong[2];

    calls_wait();
    CALLS_COUNT_MANY("*", "loops_body", "", 2);
    wrong[0] = loops_body(&rounds); /* alone at first */
    if (pthread_create(&thread, NULL, loops_body, &rounds) != 0)
        return 1;
    pthread_join(thread, &wrong[1]);
    calls_print();
    return wrong[0] != NULL || wrong[1] != NULL;
}
