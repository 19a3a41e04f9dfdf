/* calls_jumps [ROUNDS] - control that leaves counted frames in other ways than by returning.
 *
 * longjmp over counted frames, also out of a handler; coroutines that switch in the middle of counted calls;
 * and backtrace() within them, whose names are printed: they must be the same whoever counts. */
#include <dlfcn.h>
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "calls_truth.h"
#include "truth.h"

static sigjmp_buf back;
static ucontext_t outside, coroutines[3];
static char stacks[3][65536];
static int turn;

TRUTH_FUNCTION int jumps_leaf(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

/* --- longjmp --- */

TRUTH_FUNCTION void jumps_thrower(int depth)
{
    if (depth == 0)
        siglongjmp(back, 1);
    TRUTH_CALL(CALLS("jumps_thrower", "jumps_thrower", "direct", jumps_thrower(depth - 1)));
}

TRUTH_FUNCTION void jumps_on_fault(int number)
{
    CALLS_COUNT("*", "jumps_on_fault", "");
    CALLS("jumps_on_fault", "jumps_leaf", "direct", jumps_leaf(number));
    siglongjmp(back, 2);
}

TRUTH_FUNCTION void jumps_faulter(volatile int *nowhere)
{
    *nowhere = 1;
}

TRUTH_FUNCTION void jumps_throw(int rounds)
{
    for (volatile int i = 0; i < rounds; i++) {
        int how = sigsetjmp(back, 1);

        if (how == 0 && i % 2 == 0)
            CALLS("jumps_throw", "jumps_thrower", "direct", jumps_thrower(i % 10));
        else if (how == 0)
            CALLS("jumps_throw", "jumps_faulter", "direct", jumps_faulter(NULL));
        CALLS("jumps_throw", "jumps_leaf", "direct", jumps_leaf(how));
    }
}

/* --- coroutines --- */

TRUTH_FUNCTION void jumps_yield(int index)
{
    swapcontext(&coroutines[index], &outside);
}

TRUTH_FUNCTION void jumps_inner(int index)
{
    CALLS("jumps_inner", "jumps_yield", "direct", jumps_yield(index));
    TRUTH_CALL(CALLS("jumps_inner", "jumps_leaf", "direct", jumps_leaf(index)));
}

TRUTH_FUNCTION void jumps_body(void)
{
    int index = turn;

    for (;;) {
        CALLS("jumps_body", "jumps_inner", "direct", jumps_inner(index));
        CALLS("jumps_body", "jumps_leaf", "direct", jumps_leaf(index));
    }
}

TRUTH_FUNCTION void jumps_switch(int rounds)
{
    for (turn = 0; turn < 3; turn++) {
        getcontext(&coroutines[turn]);
        coroutines[turn].uc_stack.ss_sp = stacks[turn];
        coroutines[turn].uc_stack.ss_size = sizeof stacks[turn];
        CALLS_COUNT("*", "jumps_body", "");
        makecontext(&coroutines[turn], jumps_body, 0);
        swapcontext(&outside, &coroutines[turn]);
    }
    for (int i = 0; i < rounds; i++)
        swapcontext(&outside, &coroutines[i % 3]);
}

/* --- backtrace --- */

TRUTH_FUNCTION void jumps_show(void)
{
    void *frames[32];
    int count = backtrace(frames, 32);
    Dl_info found;

    for (int i = 0; i < count; i++)
        if (dladdr((char *)frames[i] - 1, &found) != 0 && found.dli_sname != NULL)
            printf("%s%s", i == 0 ? "" : " ", found.dli_sname);
    printf("\n");
}

TRUTH_FUNCTION void jumps_traced(int depth)
{
    void (*volatile again)(int) = jumps_traced;

    if (depth == 0)
        TRUTH_CALL(CALLS("jumps_traced", "jumps_show", "direct", jumps_show()));
    else if (depth % 2 == 0)
        TRUTH_CALL(CALLS("jumps_traced", "jumps_traced", "indirect", again(depth - 1)));
    else
        TRUTH_CALL(CALLS("jumps_traced", "jumps_traced", "direct", jumps_traced(depth - 1)));
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    struct sigaction action = {.sa_handler = jumps_on_fault, .sa_flags = SA_NODEFER};

    sigaction(SIGSEGV, &action, NULL);
    CALLS("main", "jumps_throw", "direct", jumps_throw(rounds));
    CALLS("main", "jumps_switch", "direct", jumps_switch(rounds));
    for (int depth = 0; depth < 6; depth++)
        CALLS("main", "jumps_traced", "direct", jumps_traced(depth));
    fflush(stdout);
    calls_print();
    return 0;
}
