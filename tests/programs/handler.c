/* handler [--alternate-stack] [--nested] - busy in a signal handler that a timer raises at any instruction of
 * a function that calls nothing; the function that was interrupted lies below the handler. With --nested a
 * second signal, raised in the handler, is handled in a handler of its own. */
#include <signal.h>
#include <unistd.h>

#include "truth.h"

#define HANDLER_STACK    (64 * 1024)
#define HANDLER_EVERY_NS 3000000l

static bool nested;

TRUTH_FUNCTION void handler_busy(void)
{
    TRUTH_WORK(10 * TRUTH_CHUNK);
}

TRUTH_FUNCTION void handler_inner(int number)
{
    (void)number;
    TRUTH_CALL(handler_busy());
}

TRUTH_FUNCTION void handler_raise(void)
{
    TRUTH_CALL(kill(getpid(), SIGUSR1));
    TRUTH_WORK(10);
}

TRUTH_FUNCTION void handler_outer(int number)
{
    (void)number;
    if (nested)
        TRUTH_CALL(handler_raise());
    else
        TRUTH_CALL(handler_busy());
}

TRUTH_FUNCTION void handler_interrupted(const struct truth *truth)
{
    TRUTH_WORK(100 * TRUTH_CHUNK);
    __asm__ volatile("" : : "r"(truth));
}

TRUTH_FUNCTION void handler_work(const struct truth *truth)
{
    while (truth_more(truth))
        TRUTH_CALL(handler_interrupted(truth));
    TRUTH_CALL(signal(SIGALRM,
                      SIG_IGN)); /* from here, not from main: what runs behind it is not to be interrupted */
}

static int install(bool alternate_stack)
{
    struct sigaction action = {.sa_handler = handler_outer, .sa_flags = SA_RESTART};
    stack_t stack = {.ss_sp = malloc(HANDLER_STACK), .ss_size = HANDLER_STACK};

    if (alternate_stack) {
        if (stack.ss_sp == NULL || sigaltstack(&stack, NULL) != 0)
            return -1;
        action.sa_flags |= SA_ONSTACK;
    }
    if (sigaction(SIGALRM, &action, NULL) != 0)
        return -1;
    action.sa_handler = handler_inner;
    return sigaction(SIGUSR1, &action, NULL);
}

static int start_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec every = {{0, HANDLER_EVERY_NS}, {0, HANDLER_EVERY_NS}};
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        return -1;
    return timer_settime(timer, 0, &every, NULL);
}

/* A trampoline frame lies between what was interrupted and the handler; now and then that is the clock that
 * the work looks at. */
static void print_truth(void)
{
    printf("contains handler_busy\n");
    if (nested)
        printf("stack "
               "main;handler_work;**;handler_outer;handler_raise;**;handler_inner;handler_"
               "busy\n");
    else
        printf("stack main;handler_work;**;handler_outer;handler_busy\n");
    printf("origin start\n");
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);

    nested = truth_flag(&truth, "--nested");
    if (truth.asked) {
        print_truth();
        return 0;
    }
    if (install(truth_flag(&truth, "--alternate-stack")) != 0 || start_timer() != 0)
        return 1;
    TRUTH_CALL(handler_work(&truth));
    return 0;
}
