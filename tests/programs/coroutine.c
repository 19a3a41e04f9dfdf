/* coroutine - work on a large stack of its own (makecontext), between switches back to the main one. */
#include <ucontext.h>

#include "truth.h"

#define COROUTINE_STACK (1024 * 1024)

static ucontext_t outside, inside;
static char stack[COROUTINE_STACK];

TRUTH_FUNCTION void coroutine_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK);
}

TRUTH_FUNCTION void coroutine_step(void)
{
    char room[3000];

    __asm__ volatile("" : : "r"(room) : "memory");
    TRUTH_CALL(coroutine_busy());
    __asm__ volatile("" : : "r"(room) : "memory");
}

TRUTH_FUNCTION void coroutine_body(void)
{
    for (;;) {
        TRUTH_CALL(coroutine_step());
        swapcontext(&inside, &outside);
    }
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);

    if (truth.asked) {
        printf(
            "contains coroutine_busy\nstack coroutine_body;coroutine_step;coroutine_busy\norigin thread\n");
        return 0;
    }
    if (getcontext(&inside) != 0)
        return 1;
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = COROUTINE_STACK;
    inside.uc_link = NULL;
    makecontext(&inside, coroutine_body, 0);
    while (truth_more(&truth))
        swapcontext(&outside, &inside);
    return 0;
}
