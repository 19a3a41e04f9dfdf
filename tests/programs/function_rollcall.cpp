/* function_rollcall.cpp - everything that can happen to a call of a function whose return address was replaced.
 *
 * Prints what it found; the same without Tally. The part is named by the argument, or most of them run: results, exceptions (and backtraces),
 * cancellation, jumps, coroutines (that move between threads), forks, signals; busy, which takes 0.4 s below 21 calls; forever, all kinds at
 * once until the input ends; family, a fork while calls are on other stacks, which go on when there is input. Hooked are the functions whose names begin with timed_, and others of the C library. */
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>

#include <execinfo.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define TIMED extern "C" __attribute__((noinline, used))
#define KEEP  __asm__ volatile("" ::: "memory")

/* --- results --- */

struct pair {
    long whole;
    double real;
};
struct reals {
    double a, b;
};
struct large {
    long items[7];
};

TIMED long timed_integer(long a, long b, long c, long d, long e, long f, long g, long h)
{
    KEEP;
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
__extension__ typedef __int128 wide;
TIMED wide timed_wide(wide a)
{
    KEEP;
    return a * 3 + 1;
}
TIMED double timed_real(double a, float b, long double c)
{
    KEEP;
    return a + static_cast<double>(b) * 2 + static_cast<double>(c) * 3;
}
TIMED long double timed_extended(long double a)
{
    KEEP;
    return a * a;
}
TIMED _Complex long double timed_complex(long double a)
{
    KEEP;
    _Complex long double result;
    __real__ result = a;
    __imag__ result = -a;
    return result;
}
TIMED struct pair timed_pair(long a)
{
    KEEP;
    return {a, static_cast<double>(a) / 4};
}
TIMED struct reals timed_reals(double a)
{
    KEEP;
    return {a, a * 2};
}
TIMED struct large timed_large(long a)
{
    struct large result;
    for (int i = 0; i < 7; i++)
        result.items[i] = a * i;
    KEEP;
    return result;
}
TIMED __attribute__((target("avx2"))) __m256i timed_vector(__m256i a)
{
    KEEP;
    return _mm256_add_epi64(a, a);
}
TIMED int timed_variadic(char *to, size_t size, const char *format, ...)
{
    __builtin_va_list list;
    __builtin_va_start(list, format);
    int result = vsnprintf(to, size, format, list);
    __builtin_va_end(list);
    return result;
}
TIMED int timed_errno(int value)
{
    errno = value;
    KEEP;
    return -1;
}
TIMED long timed_deep(long depth)
{
    if (depth == 0)
        return 1;
    long below = timed_deep(depth - 1);
    KEEP;
    return below + depth % 7;
}
TIMED long timed_odd(long n);
TIMED long timed_even(long n)
{
    KEEP;
    return n == 0 ? 1 : timed_odd(n - 1); /* tail calls */
}
TIMED long timed_odd(long n)
{
    KEEP;
    return n == 0 ? 0 : timed_even(n - 1);
}
/* Its caller relies on the registers that it happens not to touch. */
static __attribute__((noinline)) long timed_local(long a)
{
    long result;
    __asm__ volatile("lea 5(%1), %0" : "=r"(result) : "r"(a));
    return result;
}

__attribute__((target("avx2"))) static void vectors(int rounds)
{
    uint64_t sum = 0;
    for (int i = 0; i < rounds; i++) {
        alignas(32) uint64_t words[4];
        _mm256_store_si256(reinterpret_cast<__m256i *>(words),
                           timed_vector(_mm256_set_epi64x(i, i + 1, i + 2, ~i)));
        sum = sum * 31 + words[0] + words[1] * 3 + words[2] * 5 + words[3] * 7;
    }
    printf("vectors %llu\n", static_cast<unsigned long long>(sum));
}

static void results()
{
    double reals = 0;
    long double extended = 0;
    long whole = 0;
    char text[200];
    for (long i = 0; i < 2000; i++) {
        whole += timed_integer(i, 1, 2, 3, 4, 5, i, 7) + static_cast<long>(timed_wide(i) >> 1);
        reals += timed_real(0.5, 0.25f, 0.125L) + timed_pair(i).real + timed_reals(0.75).b;
        extended +=
            timed_extended(static_cast<long double>(i)) + __imag__ timed_complex(static_cast<long double>(i));
        whole += timed_pair(i).whole + timed_large(i).items[6] + timed_local(i);
        whole += timed_variadic(text, sizeof text, "%ld %g %s %g", i, 0.5, "x", 1.5);
        whole += timed_errno(static_cast<int>(i)) + errno;
    }
    printf("results %ld %.17g %.20Lg %s\n", whole, reals, extended, text);
    printf("deep %ld %ld tail %ld\n", timed_deep(30), timed_deep(20000), timed_even(1001));
    if (__builtin_cpu_supports("avx2"))
        vectors(1000);
}

/* --- unwinding --- */

static int destroyed;
struct noisy {
    ~noisy()
    {
        destroyed++;
    }
};

TIMED long timed_thrower(long depth)
{
    noisy here;
    if (depth == 0)
        throw std::runtime_error("from below");
    long result = timed_thrower(depth - 1);
    KEEP;
    return result + 1;
}
TIMED long timed_catcher(long depth)
{
    try {
        return timed_thrower(depth);
    } catch (const std::runtime_error &error) {
        KEEP;
        return static_cast<long>(strlen(error.what())) + depth;
    }
}
TIMED long timed_rethrower(long depth)
{
    noisy here;
    try {
        return timed_thrower(depth);
    } catch (const std::exception &) {
        timed_catcher(2); /* another one, in the middle */
        throw;
    }
}
TIMED int timed_backtrace()
{
    void *frames[64];
    int count = backtrace(frames, 64);
    KEEP;
    return count;
}

static void exceptions(int rounds)
{
    long sum = 0;
    destroyed = 0;
    for (int i = 0; i < rounds; i++) {
        sum += timed_catcher(i % 40);
        try {
            timed_rethrower(i % 9);
        } catch (const std::exception &error) {
            sum += error.what()[0];
        }
    }
    try {
        timed_thrower(3000); /* deeper than any list of frames that is kept */
    } catch (const std::exception &) {
        sum++;
    }
    int first = timed_backtrace(), second = timed_backtrace();
    printf("exceptions %ld %d backtrace %d %d\n", sum, destroyed, first > 3, first == second);
}

static int cleaned;
static void clean(void *)
{
    cleaned++;
}
static int pipe_ends[2], listener;

TIMED void *timed_waiter(void *what)
{
    noisy here;
    char byte;
    pthread_cleanup_push(clean, nullptr);
    if (what == nullptr)
        (void)!read(pipe_ends[0], &byte, 1);
    else
        (void)accept(listener, nullptr, nullptr);
    pthread_cleanup_pop(0);
    return nullptr;
}
TIMED void *timed_leaver(void *)
{
    noisy here;
    pthread_exit(reinterpret_cast<void *>(7));
}

static void cancellation(int rounds)
{
    long ended = 0;
    destroyed = cleaned = 0;
    (void)!pipe(pipe_ends);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr address = {AF_UNIX, {0}};
    bind(listener, &address, sizeof(sa_family_t));
    listen(listener, 1);
    for (int i = 0; i < rounds; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, nullptr, timed_waiter, i % 2 ? &rounds : nullptr);
        if (i % 3)
            usleep(200);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        ended += result == PTHREAD_CANCELED;
        pthread_create(&thread, nullptr, timed_leaver, nullptr);
        pthread_join(thread, &result);
        ended += reinterpret_cast<intptr_t>(result);
    }
    close(listener);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    printf("cancellation %ld %d\n", ended, destroyed - rounds == cleaned);
}

/* --- jumps --- */

static jmp_buf jump;
static volatile bool jumping = true;
TIMED long timed_jumper(long depth)
{
    if (depth == 0 && jumping)
        longjmp(jump, 3);
    if (depth == 0)
        return 0;
    long below = timed_jumper(depth - 1);
    KEEP;
    return below + 1;
}

static void jumps(int rounds)
{
    volatile long sum = 0;
    for (volatile int i = 0; i < rounds; i = i + 1) {
        int got = setjmp(jump);
        if (got == 0)
            timed_jumper(i % 200);
        sum = sum + got + timed_integer(1, 2, 3, 4, 5, 6, 7, 8);
    }
    printf("jumps %ld\n", sum);
}

struct coroutine {
    ucontext_t own, caller;
    long steps, sum;
    bool over;
    char stack[64 << 10];
};
static thread_local coroutine *current;

/* Where the present coroutine is may change with the thread: it is asked for anew each time. */
static __attribute__((noinline)) coroutine *present()
{
    KEEP;
    return current;
}
static __attribute__((noinline)) void give_way()
{
    coroutine *self = present();
    swapcontext(&self->own, &self->caller);
    KEEP;
}
TIMED long timed_step(long depth)
{
    if (depth == 0) {
        give_way();
        return 1;
    }
    long below = timed_step(depth - 1);
    give_way();
    return below + depth;
}
static void body()
{
    coroutine *self = present();
    for (long i = 0; i < self->steps; i++) {
        long got = timed_step(i % 5);
        present()->sum += got;
        try {
            timed_step(1);
            timed_thrower(3);
        } catch (const std::exception &) {
            present()->sum += 100;
        }
    }
    self = present();
    self->over = true;
    swapcontext(&self->own, &self->caller);
}
static coroutine *make_coroutine(long steps)
{
    coroutine *made = static_cast<coroutine *>(calloc(1, sizeof *made));
    getcontext(&made->own);
    made->own.uc_stack.ss_sp = made->stack;
    made->own.uc_stack.ss_size = sizeof made->stack;
    made->steps = steps;
    makecontext(&made->own, body, 0);
    return made;
}
static void resume(coroutine *one)
{
    current = one;
    swapcontext(&one->caller, &one->own);
}

/* Each of some threads takes whatever coroutine is free. */
static coroutine *pool[24];
static bool taken[24];
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *)
{
    for (unsigned at = 0;; at++) {
        int found = -1, left = 0;
        pthread_mutex_lock(&pool_lock);
        for (int i = 0; i < 24; i++) {
            int index = static_cast<int>((at + static_cast<unsigned>(i)) % 24);
            left += !pool[index]->over;
            if (found < 0 && !taken[index] && !pool[index]->over)
                found = index;
        }
        if (found >= 0)
            taken[found] = true;
        pthread_mutex_unlock(&pool_lock);
        if (left == 0)
            return nullptr;
        if (found < 0) {
            sched_yield();
            continue;
        }
        resume(pool[found]);
        pthread_mutex_lock(&pool_lock);
        taken[found] = false;
        pthread_mutex_unlock(&pool_lock);
    }
}

static void coroutines(long steps)
{
    pthread_t threads[4];
    long sum = 0;
    for (auto &one : pool)
        one = make_coroutine(steps);
    for (auto &thread : threads)
        pthread_create(&thread, nullptr, work, nullptr);
    for (auto &thread : threads)
        pthread_join(thread, nullptr);
    for (auto &one : pool) {
        sum += one->sum;
        free(one);
    }
    coroutine *lost = make_coroutine(10); /* left in the middle, and its stack with it */
    resume(lost);
    resume(lost);
    free(lost);
    printf("coroutines %ld %ld\n", sum, timed_deep(40));
}

/* --- forks --- */

TIMED pid_t timed_fork()
{
    pid_t pid = fork();
    KEEP;
    return pid;
}

static void forks(int rounds)
{
    long sum = 0;
    for (int i = 0; i < rounds; i++) {
        int status = 0;
        pid_t pid = timed_fork();
        if (pid == 0)
            _exit(static_cast<int>((timed_catcher(4) + timed_deep(10)) % 100));
        waitpid(pid, &status, 0);
        sum += WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
    }
    printf("forks %ld\n", sum);
}

/* --- signals --- */

static volatile long handled;
TIMED long timed_in_handler(long a)
{
    KEEP;
    return a + 1;
}
static void handle(int)
{
    try {
        timed_thrower(2);
    } catch (const std::exception &) {
        handled = timed_in_handler(handled);
    }
}

/* No exceptions here: their memory is malloc's, and a handler that throws may not interrupt that. For the same reason the timer runs
 * only while all threads are in the middle of it. */
static pthread_barrier_t begun, done;
static void *churn(void *)
{
    volatile long sum = 0;
    pthread_barrier_wait(&begun);
    for (long i = 0; i < 60000; i++)
        sum = sum + timed_integer(i, 1, 1, 1, 1, 1, 1, 1) + timed_deep(i % 12);
    pthread_barrier_wait(&done);
    return reinterpret_cast<void *>(sum);
}

static void signals()
{
    struct sigaction action = {};
    static char stack[64 << 10];
    stack_t alternate = {stack, 0, sizeof stack};
    struct itimerval interval = {{0, 100}, {0, 100}}, none = {};
    pthread_t threads[8];
    uintptr_t sum = 0;
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigaltstack(&alternate, nullptr);
    action.sa_handler = handle;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    handle(0); /* what is loaded for the first exception is there */
    sigaction(SIGALRM, &action, nullptr);
    pthread_barrier_init(&begun, nullptr, 9);
    pthread_barrier_init(&done, nullptr, 9);
    for (auto &thread : threads)
        pthread_create(&thread, nullptr, churn, nullptr);
    pthread_barrier_wait(&begun);
    setitimer(ITIMER_REAL, &interval, nullptr);
    volatile long own = 0;
    for (long i = 0; i < 60000; i++)
        own = own + timed_integer(i, 1, 1, 1, 1, 1, 1, 1) + timed_deep(i % 12);
    setitimer(ITIMER_REAL, &none, nullptr);
    pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
    pthread_barrier_wait(&done);
    sum += static_cast<uintptr_t>(own);
    for (auto &thread : threads) {
        void *result;
        pthread_join(thread, &result);
        sum += reinterpret_cast<uintptr_t>(result);
    }
    printf("signals %llu %d\n", static_cast<unsigned long long>(sum), handled > 0);
}

/* --- time --- */

TIMED long timed_busy(long depth)
{
    if (depth > 0) {
        long below = timed_busy(depth - 1);
        KEEP;
        return below + 1;
    }
    struct timespec begun, now; /* what the process used before is none of this call's time */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
    do {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        for (volatile int i = 0; i < 1000; i = i + 1) {
        }
    } while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < 400000000);
    return 0;
}

/* --- until its input ends --- */

static volatile bool over;
static unsigned long long rounds_done;

static void expect(long found, long wanted, const char *what)
{
    if (found == wanted)
        return;
    printf("%s is %ld, not %ld\n", what, found, wanted);
    abort();
}
static void *keep_deep(void *)
{
    const long wanted = timed_deep(4000);
    do {
        expect(timed_deep(4000), wanted, "deep");
        __atomic_fetch_add(&rounds_done, 1, __ATOMIC_RELAXED);
    } while (!over);
    return nullptr;
}
static void *keep_throwing(void *)
{
    for (long i = 0; i < 60 || !over; i++)
        expect(timed_catcher(i % 60), 10 + i % 60, "catcher");
    return nullptr;
}
static void *keep_jumping(void *)
{
    jmp_buf here;
    while (!over) {
        volatile long sum = 0;
        if (setjmp(here) == 0)
            longjmp(here, static_cast<int>(timed_integer(1, 0, 0, 0, 0, 0, 0, 0)));
        sum = sum + timed_deep(100) + timed_even(1001);
        expect(sum, timed_deep(100), "jumping");
    }
    return nullptr;
}
TIMED void timed_jump_out(jmp_buf here)
{
    longjmp(here, 1);
}
static __attribute__((noinline)) void leave_below(jmp_buf here, size_t bytes)
{
    auto *room = static_cast<volatile char *>(__builtin_alloca(bytes));
    room[0] = 1;
    timed_jump_out(here);
    room[0] = 2;
}
/* From thousands of depths, each of which may be one where a call is still open. */
static void *keep_leaving(void *)
{
    jmp_buf here;
    while (!over)
        for (volatile size_t depth = 12000; depth > 0 && !over; depth = depth - 1)
            if (setjmp(here) == 0)
                leave_below(here, depth * 16);
    return nullptr;
}
static void *keep_switching(void *)
{
    while (!over) {
        coroutine *one = make_coroutine(3), *other = make_coroutine(3);
        while (!one->over || !other->over) {
            resume(one->over ? other : one);
            usleep(20);
            resume(other->over ? one : other);
            if (one->over && other->over)
                break;
        }
        expect(one->sum + other->sum, 614, "switching");
        free(one);
        free(other);
    }
    return nullptr;
}
static void forever()
{
    void *(*const kinds[])(void *) = {keep_deep, keep_throwing, keep_jumping, keep_leaving, keep_switching};
    constexpr int count = sizeof kinds / sizeof *kinds;
    pthread_t threads[count];
    char byte;
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], nullptr, kinds[i], nullptr);
    printf("ready\n");
    while (read(0, &byte, 1) > 0) {
    }
    over = true;
    for (auto &thread : threads)
        pthread_join(thread, nullptr);
    printf("ended %d\n", rounds_done > 0);
}

/* --- a fork's child, and stacks that nobody is on --- */

extern "C" const char __executable_start, etext;

TIMED uintptr_t timed_place()
{
    return reinterpret_cast<uintptr_t>(__builtin_extract_return_addr(__builtin_return_address(0)));
}
static void wait_for_timing()
{
    for (uintptr_t place = 0;; usleep(1000)) {
        place = timed_place();
        if (place < reinterpret_cast<uintptr_t>(&__executable_start) || place >= reinterpret_cast<uintptr_t>(&etext))
            return;
    }
}

static int wake[2];
static void wait_for_byte()
{
    coroutine *self = present();
    char byte;
    printf("child %d\n", static_cast<int>(getpid()));
    if (read(wake[0], &byte, 1) != 1)
        abort();
    self->over = true;
    swapcontext(&self->own, &self->caller);
}

/* The child waits on a stack of its own: `inner` and the one that this is called on have nobody, and calls that have begun. */
TIMED long timed_family(coroutine *inner, pid_t *child)
{
    if ((*child = fork()) == 0) {
        timed_integer(1, 2, 3, 4, 5, 6, 7, 8);
        coroutine *waiting = make_coroutine(0);
        makecontext(&waiting->own, wait_for_byte, 0);
        resume(waiting);
    }
    while (!inner->over && *child == 0)
        resume(inner);
    return inner->sum;
}

static void family()
{
    char byte;
    int status = -1;
    pid_t child;
    printf("ready\n");
    wait_for_timing();
    coroutine *inner = make_coroutine(3);
    for (int i = 0; i < 5; i++)
        resume(inner);
    if (pipe(wake) != 0)
        abort();
    timed_family(inner, &child);
    if (child == 0) {
        printf("sum %ld\n", inner->sum);
        exit(0);
    }
    while (!inner->over) /* what the parent had pending is another thing now */
        resume(inner);
    printf("parent %ld %ld\n", inner->sum, timed_deep(60));
    if (read(0, &byte, 1) != 1 || write(wake[1], &byte, 1) != 1)
        abort();
    waitpid(child, &status, 0);
    printf("status %d\n", status);
}

int main(int count, char **words)
{
    const std::string part = count > 1 ? words[1] : "all";
    const bool all = part == "all";
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (part == "forever")
        forever();
    if (part == "family")
        family();
    if (part == "busy")
        printf("busy %ld\n", timed_busy(20));
    if (all || part == "results")
        results();
    if (all || part == "exceptions")
        exceptions(300);
    if (all || part == "cancellation")
        cancellation(60);
    if (all || part == "jumps")
        jumps(600);
    if (all || part == "coroutines")
        coroutines(60);
    if (all || part == "forks")
        forks(12);
    if (all || part == "signals")
        signals();
    return 0;
}
