// hunt crowd ROUNDS PLUGIN, hunt churn THREADS - what might make a profiler inside the program wait for itself.
//
//   crowd   64 threads allocate, pass blocks on, open files, throw; one more loads and unloads PLUGIN, whose constructor allocates, and
//           another one forks children that allocate; signals come at 10 kHz to any of the threads and to each of two, and their
//           handler allocates, opens and closes, and maps
//           (ROUNDS 0: until its input ends)
//   churn   so many threads, one after the other in each of eight, each of which allocates, and leaves a block to the next
//
// Allocators are not to be entered by a handler that interrupted them: so a thread says when it is in one, and a handler allocates only
// when it is not. Opening, closing and mapping are allowed at any time. At the end it prints what own_* functions did, in the process
// that was started: "blocks N bytes N live-blocks N live N thrown N children N".
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

constexpr int CROWD = 64, SPAWNERS = 8, SLOTS = 24, SHARED = 128, CHILDREN = 12, TIMED = 2;

std::atomic<unsigned long long> blocks, bytes, live_blocks, live, thrown;
std::atomic<bool> over;
bool is_child; // of a fork: other threads' locks stay as they were
thread_local volatile sig_atomic_t inside;

struct block {
    char *place;
    size_t size;
};

uint32_t draw(uint32_t &random)
{
    random = random * 1664525u + 1013904223u;
    return random >> 8;
}

[[noreturn]] void fail(const char *what)
{
    fprintf(stderr, "hunt: %s: %s\n", what, strerror(errno));
    _exit(3);
}

} // namespace

extern "C" __attribute__((noinline)) char *own_malloc(size_t size)
{
    inside = inside + 1;
    char *volatile place = static_cast<char *>(malloc(size));
    inside = inside - 1;
    return place;
}

extern "C" __attribute__((noinline)) char *own_realloc(char *old, size_t size)
{
    inside = inside + 1;
    char *volatile place = static_cast<char *>(realloc(old, size));
    inside = inside - 1;
    return place;
}

namespace
{

void added(size_t size)
{
    blocks++, live_blocks++;
    bytes += size, live += size;
}

block make(size_t size)
{
    char *place = own_malloc(size);
    if (place == nullptr)
        fail("malloc");
    place[0] = place[size - 1] = static_cast<char>(size);
    added(size);
    return {place, size};
}

void drop(block &one)
{
    if (one.place == nullptr)
        return;
    if (one.place[0] != static_cast<char>(one.size) || one.place[one.size - 1] != static_cast<char>(one.size))
        fail("a block's contents");
    live_blocks--;
    live -= one.size;
    inside = inside + 1;
    free(one.place);
    inside = inside - 1;
    one.place = nullptr;
}

void resize(block &one, size_t size)
{
    live_blocks--;
    live -= one.size;
    one.place = own_realloc(one.place, size);
    if (one.place == nullptr)
        fail("realloc");
    one.place[0] = one.place[size - 1] = static_cast<char>(size);
    one.size = size;
    added(size);
}

/* --- handlers --- */

void handle(int)
{
    bool may_allocate = inside == 0;
    int saved = errno;
    inside = inside + 1;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file >= 0)
        close(file);
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED)
        munmap(page, 4096);
    inside = inside - 1;
    if (may_allocate) {
        block one = make(33);
        drop(one);
    }
    errno = saved;
}

sigset_t the_signals()
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGALRM);
    sigaddset(&signals, SIGUSR1);
    return signals;
}

void let_signals(bool in)
{
    sigset_t signals = the_signals();
    pthread_sigmask(in ? SIG_UNBLOCK : SIG_BLOCK, &signals, nullptr);
}

/* 10 kHz, for this thread alone. */
timer_t own_timer()
{
    struct sigevent event = {};
    timer_t timer;
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    struct itimerspec often = {{0, 100000}, {0, 100000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, nullptr))
        fail("timer");
    return timer;
}

/* --- the crowd --- */

block shared[SHARED];
pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
unsigned rounds;

block exchange(uint32_t at, block mine)
{
    inside = inside + 1; // the lock is nothing for handlers either
    pthread_mutex_lock(&shared_lock);
    block other = shared[at % SHARED];
    shared[at % SHARED] = mine;
    pthread_mutex_unlock(&shared_lock);
    inside = inside - 1;
    return other;
}

__attribute__((noinline)) void own_throw(uint32_t number)
{
    throw std::runtime_error(number % 2 ? "odd" : "even, and longer than fits into a string without memory");
}

void throw_and_catch(uint32_t number)
{
    inside = inside + 1; // exceptions' memory is malloc's
    try {
        own_throw(number);
    } catch (const std::runtime_error &error) {
        thrown += strlen(error.what()) > 0;
    }
    inside = inside - 1;
}

void step(block *slots, uint32_t &random)
{
    block &one = slots[draw(random) % SLOTS];
    size_t size = 1 + draw(random) % (draw(random) % 64 ? 600 : 150000);
    if (one.place == nullptr)
        one = make(size);
    else if (draw(random) % 4 == 0)
        resize(one, size);
    else
        drop(one);
    if (draw(random) % 32 == 0 && !is_child) {
        block other = exchange(draw(random), make(size));
        drop(other);
    }
    if (draw(random) % 64 == 0) {
        int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (file < 0)
            fail("open");
        close(file);
    }
    if (draw(random) % 256 == 0 && !is_child)
        throw_and_catch(draw(random));
}

void *in_crowd(void *argument)
{
    uint32_t number = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(argument)), random = number + 1;
    block slots[SLOTS] = {};
    bool timed = number < TIMED;
    timer_t timer = timed ? own_timer() : timer_t();
    let_signals(true);
    for (unsigned i = 0; i < rounds || (rounds == 0 && !over); i++)
        step(slots, random);
    let_signals(false);
    if (timed)
        timer_delete(timer);
    for (int i = 0; i < SLOTS; i += 2)
        drop(slots[i]);
    return nullptr;
}

void *load_and_unload(void *path)
{
    unsigned long loads = 0;
    for (; !over || loads < 3; loads++) {
        void *library = dlopen(static_cast<const char *>(path), RTLD_NOW);
        if (library == nullptr || dlsym(library, "own_plugin") == nullptr) {
            fprintf(stderr, "hunt: %s\n", dlerror());
            _exit(3);
        }
        dlclose(library);
    }
    return reinterpret_cast<void *>(loads);
}

void *fork_and_wait(void *)
{
    unsigned long done = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            is_child = true;
            block slots[SLOTS] = {};
            uint32_t random = static_cast<uint32_t>(i) + 500;
            for (int j = 0; j < 200; j++)
                step(slots, random);
            _exit(0);
        }
        int status = -1;
        done += child > 0 && waitpid(child, &status, 0) == child && status == 0;
        usleep(2000);
    }
    return reinterpret_cast<void *>(done);
}

pthread_t start(void *(*what)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, nullptr, what, argument))
        fail("pthread_create");
    return thread;
}

unsigned long end_of(pthread_t thread)
{
    void *result = nullptr;
    pthread_join(thread, &result);
    return reinterpret_cast<unsigned long>(result);
}

void *nothing(void *)
{
    return nullptr;
}

void wait_for_input()
{
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    over = true;
}

unsigned long crowd(char *plugin)
{
    static pthread_t threads[CROWD];
    struct sigaction action = {};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
    let_signals(false); // of those that are not of the crowd too
    end_of(start(nothing, nullptr));
    throw_and_catch(0); // what is loaded for the first exception is there
    setitimer(ITIMER_REAL, &often, nullptr);
    pthread_t loader = start(load_and_unload, plugin), parent = start(fork_and_wait, nullptr);
    for (uintptr_t i = 0; i < CROWD; i++)
        threads[i] = start(in_crowd, reinterpret_cast<void *>(i));
    if (rounds == 0)
        wait_for_input();
    for (auto &thread : threads)
        end_of(thread);
    setitimer(ITIMER_REAL, &never, nullptr);
    over = true;
    end_of(loader);
    return end_of(parent);
}

/* --- churn --- */

void *short_lived(void *argument)
{
    auto *left = static_cast<block *>(argument);
    drop(*left);
    block own = make(100), kept = make(2000);
    drop(kept);
    *left = own;
    return nullptr;
}

void *spawn(void *argument)
{
    unsigned long count = reinterpret_cast<uintptr_t>(argument);
    block left = {nullptr, 0};
    for (unsigned long i = 0; i < count; i++)
        end_of(start(short_lived, &left));
    return nullptr;
}

void churn(unsigned count)
{
    pthread_t spawners[SPAWNERS];
    for (auto &one : spawners)
        one = start(spawn, reinterpret_cast<void *>(static_cast<uintptr_t>(count / SPAWNERS)));
    for (auto &one : spawners)
        end_of(one);
}

} // namespace

int main(int argc, char **argv)
{
    unsigned number = argc > 2 ? static_cast<unsigned>(strtoul(argv[2], nullptr, 10)) : 0;
    unsigned long children = 0;
    rounds = number;
    if (argc == 4 && !strcmp(argv[1], "crowd"))
        children = crowd(argv[3]);
    else if (argc == 3 && !strcmp(argv[1], "churn"))
        churn(number);
    else
        return 2;
    printf("blocks %llu bytes %llu live-blocks %llu live %llu thrown %llu children %lu\n", blocks.load(),
           bytes.load(), live_blocks.load(), live.load(), thrown.load(), children);
    return 0;
}
