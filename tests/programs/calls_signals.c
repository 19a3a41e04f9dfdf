/* calls_signals [CALLS] [MICROSECONDS] - handlers that call counted functions while counted calls are made.
 *
 * A timer's signal comes every MICROSECONDS (100) to a handler on an alternate stack; every thousandth call
 * raises another one by itself, and now and then a third one interrupts the first's handler. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "calls_truth.h"
#include "truth.h"

TRUTH_FUNCTION int signals_leaf(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

TRUTH_FUNCTION int signals_step(int value)
{
    return 2 + CALLS("signals_step", "signals_leaf", "direct", signals_leaf(value));
}

TRUTH_FUNCTION int signals_deep(int depth)
{
    int below = 0;

    if (depth > 0)
        below = 1 + CALLS("signals_deep", "signals_deep", "direct", signals_deep(depth - 1));
    __asm__ volatile("" : "+r"(below)); /* else the compiler makes a loop of it */
    return below;
}

TRUTH_FUNCTION void signals_on_timer(int number)
{
    static volatile unsigned long turn;

    CALLS_COUNT("*", "signals_on_timer", "");
    TRUTH_CALL(CALLS("signals_on_timer", "signals_leaf", "direct", signals_leaf(number)));
    if (turn++ % 64 == 0)
        raise(SIGUSR2);
    TRUTH_CALL(CALLS("signals_on_timer", "signals_leaf", "direct", signals_leaf(number)));
}

TRUTH_FUNCTION void signals_on_user(int number)
{
    CALLS_COUNT("*", "signals_on_user", "");
    CALLS("signals_on_user", "signals_deep", "direct", signals_deep(number % 8));
    TRUTH_CALL(CALLS("signals_on_user", "signals_step", "direct", signals_step(number)));
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void tick(long microseconds)
{
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};

    setitimer(ITIMER_REAL, &timer, NULL);
}

TRUTH_FUNCTION int signals_main(long calls)
{
    int (*volatile by_pointer)(int) = signals_step;
    int value = 0;

    for (long i = 1; i <= calls; i++) {
        value = CALLS("signals_main", "signals_step", "direct", signals_step(value));
        value = CALLS("signals_main", "signals_step", "indirect", by_pointer(value));
        if (i % 1000 == 0)
            raise(SIGUSR1);
    }
    return value;
}

int main(int argc, char **argv)
{
    static char room[65536];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    long calls = argc > 1 ? atol(argv[1]) : 200000;

    sigaltstack(&stack, NULL);
    handle(SIGALRM, signals_on_timer, SA_ONSTACK | SA_RESTART);
    handle(SIGUSR1, signals_on_user, SA_ONSTACK);
    handle(SIGUSR2, signals_on_user, SA_NODEFER);
    calls_wait();
    tick(argc > 2 ? atol(argv[2]) : 100);
    CALLS("main", "signals_main", "direct", signals_main(calls));
    tick(0);
    calls_print();
    return 0;
}
