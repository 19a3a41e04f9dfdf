/* Instrumented functions that count themselves, in every situation in which their calls may begin and end, and print what they counted: tests
 * compare it with what Tally did. Built with -finstrument-functions, by two compilers; OWN_HOOKS: with hooks of its own, which say
 * whether they were called as often. */
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define PLAIN __attribute__((no_instrument_function))
#define APART __attribute__((noinline))

#define FUNCTIONS(X)                                                                                         \
    X(leaf) X(pair) X(deep) X(even) X(odd) X(thrower) X(catcher) X(rethrower) X(jumper) X(jumped) X(landed)  \
    X(worker) X(handler) X(in_handler) X(stepper) X(yielding) X(forked) X(quitter) X(varying) X(array) X(outer) X(inner) X(busy)

enum { 
#define X(name) N_##name,
    FUNCTIONS(X)
#undef X
    COUNT
};

static uint64_t *counts; /* shared with children */
static volatile int sink;

#define SEEN(name) __atomic_fetch_add(&counts[N_##name], 1, __ATOMIC_RELAXED)

#ifdef OWN_HOOKS
static uint64_t own[2];
extern "C" {
PLAIN APART void __cyg_profile_func_enter(void *function, void *caller);
PLAIN APART void __cyg_profile_func_exit(void *function, void *caller);
PLAIN void __cyg_profile_func_enter(void *function, void *caller)
{
    __atomic_fetch_add(&own[0], function != caller, __ATOMIC_RELAXED);
}
PLAIN void __cyg_profile_func_exit(void *function, void *caller)
{
    __atomic_fetch_add(&own[1], function != caller, __ATOMIC_RELAXED);
}
}
#endif

/* --- plain calls, inlined ones, frames of every size --- */

APART static void leaf(int n)
{
    SEEN(leaf);
    sink = n;
}

static inline __attribute__((always_inline)) int inner(int n)
{
    SEEN(inner);
    leaf(n);
    return n + 1;
}

APART static int outer(int n)
{
    SEEN(outer);
    int sum = inner(n);
    sum += inner(sum);
    leaf(sum);
    return sum;
}

APART static int pair(int a, int b, int c, int d, int e, int f, int g, int h)
{
    SEEN(pair);
    leaf(a);
    return a + b + c + d + e + f + g + h;
}

/* sp moves while it is open. */
APART static int varying(int n)
{
    SEEN(varying);
    volatile char *room = static_cast<volatile char *>(__builtin_alloca(static_cast<size_t>(n) * 40 + 8));
    room[n] = static_cast<char>(n);
    leaf(room[n]);
    int sum = pair(1, 2, 3, 4, 5, 6, 7, pair(1, 2, 3, 4, 5, 6, 7, n));
    return sum + room[n];
}

APART static int array(int n)
{
    SEEN(array);
    volatile char large[200000];
    large[0] = large[sizeof large - 1] = static_cast<char>(n);
    leaf(n);
    return n > 0 ? array(n - 1) + large[0] : large[sizeof large - 1];
}

PLAIN static void plain()
{
    for (int i = 0; i < 1000; i++) {
        leaf(i);
        sink = pair(1, 2, 3, 4, 5, 6, 7, i);
        sink = outer(i);
    }
    for (int i = 0; i < 50; i++)
        sink = varying(i);
    for (int i = 0; i < 5; i++)
        sink = array(3);
}

/* --- recursion --- */

APART static int deep(int n)
{
    SEEN(deep);
    return n > 0 ? deep(n - 1) + sink : 0;
}

APART static int odd(int n);
APART static int even(int n)
{
    SEEN(even);
    return n > 0 ? odd(n - 1) + sink : 1;
}

APART static int odd(int n)
{
    SEEN(odd);
    return n > 0 ? even(n - 1) + sink : 0;
}

PLAIN static void recursion()
{
    sink = 0;
    sink = deep(10);
    sink = deep(600);
    sink = deep(50000);
    sink = even(3000);
    leaf(1);
}

/* --- ends that are no returns --- */

APART static void thrower(int n)
{
    SEEN(thrower);
    if (n == 0)
        throw 17;
    thrower(n - 1);
    leaf(n);
}

APART static void rethrower(int n)
{
    SEEN(rethrower);
    try {
        thrower(n);
    } catch (int) {
        leaf(n);
        throw;
    }
}

APART static int catcher(int n)
{
    SEEN(catcher);
    try {
        rethrower(n);
    } catch (int what) {
        leaf(what);
        return what;
    }
    return 0;
}

PLAIN static void exceptions()
{
    for (int i = 0; i < 200; i++)
        sink = catcher(i % 9);
}

static jmp_buf back;

APART static void jumper(int n)
{
    SEEN(jumper);
    volatile char room[24];
    room[n] = 1;
    if (n == 0)
        longjmp(back, 1);
    jumper(n - 1);
    leaf(room[n]);
}

APART static void landed(int n)
{
    SEEN(landed);
    volatile char more[400];
    more[n] = 2;
    leaf(more[n]);
}

APART static int jumped(int n)
{
    SEEN(jumped);
    if (!setjmp(back))
        jumper(n);
    landed(n);
    return n;
}

PLAIN static void jumps()
{
    for (int i = 0; i < 200; i++)
        sink = jumped(i % 9);
}

/* --- threads --- */

APART static void quitter(int n) /* it never comes to its end */
{
    SEEN(quitter);
    if (n == 0)
        pthread_exit(nullptr);
    quitter(n - 1);
    leaf(n);
}

APART static void *worker(void *rounds)
{
    SEEN(worker);
    for (intptr_t i = 0; i < reinterpret_cast<intptr_t>(rounds); i++)
        leaf(static_cast<int>(i));
    quitter(5);
    return nullptr;
}

PLAIN static void threads()
{
    for (int round = 0; round < 5; round++) {
        pthread_t all[20];
        for (pthread_t &one : all)
            pthread_create(&one, nullptr, worker, reinterpret_cast<void *>(2000));
        for (pthread_t one : all)
            pthread_join(one, nullptr);
    }
}

/* --- processes --- */

APART static void forked(int n)
{
    SEEN(forked);
    pid_t child = fork();
    for (int i = 0; i < n; i++)
        leaf(i);
    if (child == 0)
        _exit(0);
    waitpid(child, nullptr, 0);
}

PLAIN static void forks()
{
    for (int i = 0; i < 4; i++)
        forked(100);
}

/* --- signals --- */

APART static void in_handler(int n)
{
    SEEN(in_handler);
    sink = n;
}

static void handler(int)
{
    SEEN(handler);
    for (int i = 0; i < 3; i++)
        in_handler(i);
}

APART static void busy(int n)
{
    SEEN(busy);
    for (int i = 0; i < n; i++)
        leaf(i);
}

PLAIN static void signals_on(int flags)
{
    struct sigaction action = {};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | flags;
    sigaction(SIGALRM, &action, nullptr);
    setitimer(ITIMER_REAL, &often, nullptr);
    while (__atomic_load_n(&counts[N_handler], __ATOMIC_RELAXED) < (flags ? 4000u : 2000u))
        busy(1000);
    setitimer(ITIMER_REAL, &never, nullptr);
}

PLAIN static void signals()
{
    stack_t other = {};
    other.ss_size = 65536;
    other.ss_sp = malloc(other.ss_size);
    sigaltstack(&other, nullptr);
    signals_on(0);
    signals_on(SA_ONSTACK);
}

/* --- coroutines --- */

static ucontext_t resumer, routines[3];

APART static void yielding(int which)
{
    SEEN(yielding);
    leaf(which);
    swapcontext(&routines[which], &resumer);
    leaf(which);
}

static void routine(int which)
{
    for (;;)
        yielding(which);
}

APART static void stepper(int which)
{
    SEEN(stepper);
    swapcontext(&resumer, &routines[which]);
    leaf(which);
}

PLAIN static void coroutines()
{
    for (int i = 0; i < 3; i++) {
        getcontext(&routines[i]);
        routines[i].uc_stack.ss_size = 256 << 10;
        routines[i].uc_stack.ss_sp = malloc(256 << 10);
        makecontext(&routines[i], reinterpret_cast<void (*)()>(routine), 1, i);
    }
    for (int i = 0; i < 600; i++)
        stepper(i * 7 % 3);
}

/* --- all --- */

PLAIN static void library(const char *path)
{
#ifndef STATIC
    for (int i = 0; i < 3; i++) {
        void *object = dlopen(path, RTLD_NOW);
        void (*call)(int) = object ? reinterpret_cast<void (*)(int)>(dlsym(object, "plugged")) : nullptr;
        if (!call) {
            fprintf(stderr, "%s\n", dlerror());
            exit(2);
        }
        call(100);
        dlclose(object);
    }
#else
    sink = *path;
#endif
}

/* Until standard input ends. */
PLAIN static void forever()
{
    char byte;
    puts("ready");
    fflush(stdout);
    if (fork() == 0)
        _exit(read(0, &byte, 1) == 1);
    while (waitpid(-1, nullptr, WNOHANG) == 0) {
        plain();
        sink = deep(100);
        exceptions();
        jumps();
    }
    puts("ended");
}

PLAIN static void tell()
{
    static const char *const names[] = {
#define X(name) #name,
        FUNCTIONS(X)
#undef X
    };
    for (int i = 0; i < COUNT; i++)
        if (counts[i])
            printf("%s %llu\n", names[i], static_cast<unsigned long long>(counts[i]));
#ifdef OWN_HOOKS
    fprintf(stderr, "own %llu %llu\n", static_cast<unsigned long long>(own[0]), static_cast<unsigned long long>(own[1]));
#endif
}

PLAIN int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)();
    } parts[] = {{"plain", plain},     {"recursion", recursion}, {"exceptions", exceptions}, {"jumps", jumps},
                 {"threads", threads}, {"forks", forks},         {"signals", signals},       {"coroutines", coroutines},
                 {"forever", forever}};
    counts = static_cast<uint64_t *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (const auto &part : parts)
        if (argc > 1 && !strcmp(argv[1], part.name))
            part.run();
    if (argc > 2 && !strcmp(argv[1], "library"))
        library(argv[2]);
    tell();
    return 0;
}
