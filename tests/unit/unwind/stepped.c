/* stepped.c - the program that test_stepping goes through one instruction at a time.
 *
 * It does, briefly, everything that has gone wrong in unwinders: PLT calls bound lazily, IFUNCs, callbacks
 * from a library, recursion, variable frames, realigned stacks, a tail call, a signal handler on the normal
 * and on an alternate stack (interrupting a leaf), setjmp/longjmp, the vDSO, a thread of its own. Built
 * without frame pointers. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile int sink;
static jmp_buf back;

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) static int recurse(int depth)
{
    char room[24];
    snprintf(room, sizeof room, "%d", depth);
    return depth == 0 ? (int)strlen(room) : recurse(depth - 1) + room[0];
}

__attribute__((noinline)) static int variable_frame(int size)
{
    char *room = __builtin_alloca((size_t)size);
    memset(room, size, (size_t)size);
    return room[size / 2] + recurse(2);
}

__attribute__((noinline)) static int realigned(int a, int b, int c, int d, int e, int f, int on_the_stack)
{
    __attribute__((aligned(64))) volatile char room[64] = {0};
    room[1] = (char)(a + b + c + d + e + f);
    return room[1] + on_the_stack + recurse(1);
}

/* Realigned and of variable size: GCC keeps the incoming stack pointer in memory and says so by an
 * expression. */
__attribute__((noinline)) static int realigned_variable(int size, int a, int b, int c, int d, int e, int f,
                                                        int g)
{
    __attribute__((aligned(32))) volatile char room[32] = {0};
    char *more = __builtin_alloca((size_t)size);
    memset(more, size, (size_t)size);
    room[1] = (char)(a + b + c + d + e + f + g);
    return room[1] + more[0] + recurse(1);
}

__attribute__((noinline)) static int tail_target(int x)
{
    return x + (int)strtol("17", NULL, 10);
}

__attribute__((noinline)) static int tail_caller(int x)
{
    return tail_target(x + 1);
}

__attribute__((noinline)) static void jump(int depth)
{
    if (depth > 0)
        jump(depth - 1);
    else if (sink != -1)
        longjmp(back, 1);
    sink++;
}

static void handle(int number)
{
    sink += number + recurse(1);
}

static void signals(void)
{
    static char other_stack[65536];
    struct sigaction action = {.sa_handler = handle};
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sigaltstack(&stack, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

static void *thread(void *argument)
{
    sink += recurse(2);
    return argument;
}

int main(void)
{
    int numbers[] = {5, 3, 9, 1};
    struct timespec now;
    pthread_t other;
    sink = variable_frame(100) + realigned(1, 2, 3, 4, 5, 6, 7) + realigned_variable(40, 1, 2, 3, 4, 5, 6, 7);
    qsort(numbers, 4, sizeof numbers[0], compare);
    sink += tail_caller(numbers[0]);
    if (setjmp(back) == 0)
        jump(3);
    clock_gettime(CLOCK_MONOTONIC, &now);
    signals();
    if (pthread_create(&other, NULL, thread, NULL) == 0)
        pthread_join(other, NULL);
    printf("%d\n", sink != 0);
    return 0;
}
