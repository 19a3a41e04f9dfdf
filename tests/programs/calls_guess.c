/* calls_guess [CALLS] - indirect calls and jumps that nearly always go to one function, until they go
 * somewhere else.
 *
 * Each form is a function of its own, in assembly, so that no compiler changes it. First all of them go to
 * guess_a, until tally has led them to other stubs, which try guess_a first (without tally: for 30 seconds).
 * Then they go to guess_b, to both in turn, to nowhere (a fault at address 0, caught), again from a signal
 * handler at any moment, from a fork child, from threads, and from a child of a process that has had threads.
 * In between, with GUESS_STAY in the environment, it says that it is ready and waits for a byte on stdin. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "calls_truth.h"

typedef int target(int);

int guess_register(int value, target *const *to);
int guess_memory(int value, target *const *to);
int guess_jump(int value, target *const *to);
int guess_a(int value);
int guess_b(int value);

#define FUNCTION(name, body)                                                                                 \
    __asm__(".pushsection .text\n.globl " name "\n.type " name ", @function\n.p2align 4\n" name              \
            ":\n.cfi_startproc\n" body "\n.cfi_endproc\n.size " name ", . - " name "\n.popsection\n")

#define IN_A_FRAME(body)                                                                                     \
    "sub $8, %rsp\n.cfi_def_cfa_offset 16\n" body "\nadd $8, %rsp\n.cfi_def_cfa_offset 8\nret"

FUNCTION("guess_register", IN_A_FRAME("mov (%rsi), %r10\nlea 1(%rdi), %edi\ncall *%r10"));
FUNCTION("guess_memory", IN_A_FRAME("lea 1(%rdi), %edi\nmov %rsi, %rcx\ncall *(%rcx)"));
FUNCTION("guess_jump", "xor %ecx, %ecx\nmov %rsi, %rdx\nmov (%rdx), %rax\nlea 1(%rdi), %edi\njmp *%rax");
FUNCTION("guess_a", "lea 1(%rdi), %eax\nxor %ecx, %ecx\nret");
FUNCTION("guess_b", "lea 2(%rdi), %eax\nxor %ecx, %ecx\nret");

#define CALL_BY(form, kind, value, to, b)                                                                    \
    ((b) ? CALLS_COUNT("guess_" #form, "guess_b", kind) : CALLS_COUNT("guess_" #form, "guess_a", kind),      \
     CALLS("call_all", "guess_" #form, "direct", guess_##form(value, to)))

CALLS_FUNCTION static int call_all(int value, int b)
{
    static target *const targets[] = {guess_a, guess_b};

    value += CALL_BY(register, "indirect", value, &targets[b], b);
    value += CALL_BY(memory, "indirect", value, &targets[b], b);
    value += CALL_BY(jump, "tail", value, &targets[b], b);
    return value & 0xffff;
}

static int call_often(long calls, int from, int to)
{
    int value = 0;

    for (long i = 0; i < calls; i++)
        value = call_all(value, i % 2 ? from : to);
    return value;
}

/* --- where the sites lead --- */

enum { FORMS = 3 };

/* The last four bytes of each call or jump, whose end is known: where tally has made one of it that goes to a
 * stub, they say to which. */
static void read_sites(int sites[FORMS])
{
    int (*volatile functions[FORMS])(int, target *const *) = {guess_register, guess_memory, guess_jump};
    static const size_t ends[FORMS] = {13, 12, 13};

    for (int i = 0; i < FORMS; i++)
        memcpy(&sites[i], (const char *)functions[i] + ends[i] - sizeof sites[i], sizeof sites[i]);
}

static void call_until_moved(void)
{
    int before[FORMS], now[FORMS];
    time_t end = time(NULL) + 30;

    read_sites(before);
    do {
        call_often(10000, 0, 0);
        read_sites(now);
    } while ((now[0] == before[0] || now[1] == before[1] || now[2] == before[2]) && time(NULL) < end);
    printf("moved %d\n", now[0] != before[0] && now[1] != before[1] && now[2] != before[2]);
    fflush(stdout);
}

static void stay(void)
{
    char byte;

    if (getenv("GUESS_STAY") != NULL && (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) != 1))
        _exit(9);
}

/* --- nowhere --- */

static sigjmp_buf back;
static volatile int faults;

static void on_fault(int number, siginfo_t *information, void *context)
{
    const ucontext_t *at = context;

    faults += number == SIGSEGV && information->si_addr == NULL && at->uc_mcontext.gregs[REG_RIP] == 0;
    siglongjmp(back, 1);
}

CALLS_FUNCTION static void call_nothing(void)
{
    static target *const nothing;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

    sigaction(SIGSEGV, &action, NULL);
    if (sigsetjmp(back, 1) == 0)
        CALLS_DIRECT(call_nothing, guess_register, 0, &nothing);
    if (sigsetjmp(back, 1) == 0)
        CALLS_DIRECT(call_nothing, guess_memory, 0, &nothing);
    if (sigsetjmp(back, 1) == 0)
        CALLS_DIRECT(call_nothing, guess_jump, 0, &nothing);
    signal(SIGSEGV, SIG_DFL);
    printf("faults %d\n", faults);
    fflush(stdout);
}

/* --- from everywhere --- */

static void on_alarm(int number)
{
    (void)number;
    call_often(2, 0, 1);
}

static void call_under_signals(long calls)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    call_often(calls, 0, 0);
    setitimer(ITIMER_REAL, &never, NULL);
}

static void call_in_child(long calls)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        calls_reset();
        call_often(calls, 0, 0);
        call_often(calls, 1, 0);
        calls_print();
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        exit(9);
}

static void *call_in_thread(void *calls)
{
    call_often(*(const long *)calls, 0, 0);
    call_often(*(const long *)calls, 1, 0);
    return NULL;
}

static void call_in_threads(long calls)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, call_in_thread, &calls) != 0)
            exit(9);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    long calls = argc > 1 ? atol(argv[1]) : 100000;

    calls_wait();
    call_until_moved();
    stay();
    call_often(calls, 1, 1);
    call_often(calls, 0, 1);
    call_nothing();
    call_under_signals(calls);
    call_in_child(calls);
    call_in_threads(calls);
    call_under_signals(calls);
    call_in_child(calls);
    calls_print();
    return 0;
}
