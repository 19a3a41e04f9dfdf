// Sixteen threads with exceptions, coroutines (contexts of their own stacks), memory, descriptors and children, and threads that live
// for a moment: all that Tally hooks, at all times. Works until its standard input ends; a wrong result is an abort.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

static std::atomic<bool> over;

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        abort();
    }
}

__attribute__((noinline)) static int thrower(int depth)
{
    if (depth == 0)
        throw std::runtime_error("from below");
    return thrower(depth - 1) + 1;
}

static void exceptions()
{
    int caught = 0;
    for (int i = 0; i < 20; i++)
        try {
            thrower(i);
        } catch (const std::exception &error) {
            caught += std::string(error.what()) == "from below";
        }
    require(caught == 20, "exceptions");
}

struct Coroutine {
    ucontext_t own, caller;
    std::vector<char> stack = std::vector<char>(64 << 10);
    int steps = 0;
};

static void coroutine_body(unsigned low, unsigned high)
{
    auto *self = reinterpret_cast<Coroutine *>((static_cast<unsigned long>(high) << 32) | low);
    for (;;) {
        self->steps += static_cast<int>(std::string(40, 'x').size());
        swapcontext(&self->own, &self->caller);
    }
}

static void coroutines()
{
    Coroutine one;
    getcontext(&one.own);
    one.own.uc_stack.ss_sp = one.stack.data();
    one.own.uc_stack.ss_size = one.stack.size();
    one.own.uc_link = &one.caller;
    auto where = reinterpret_cast<unsigned long>(&one);
    makecontext(&one.own, reinterpret_cast<void (*)()>(coroutine_body), 2, static_cast<unsigned>(where),
                static_cast<unsigned>(where >> 32));
    for (int i = 0; i < 50; i++)
        swapcontext(&one.caller, &one.own);
    require(one.steps == 50 * 40, "coroutine");
}

static void memory()
{
    std::vector<std::string> parts;
    for (int i = 0; i < 200; i++)
        parts.push_back(std::string(static_cast<size_t>(i) * 3, static_cast<char>('a' + i % 26)));
    size_t all = 0;
    for (const auto &part : parts)
        all += part.size();
    require(all == 3 * 199 * 200 / 2, "memory");
}

static void descriptors()
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    require(file >= 0, "a descriptor");
    close(file);
}

static void short_thread()
{
    int result = 0;
    std::thread one([&] { memory(); result = 7; });
    one.join();
    require(result == 7, "a short thread");
}

static void child()
{
    pid_t pid = fork();
    if (pid == 0) {
        free(malloc(100));
        _exit(9);
    }
    int status = 0;
    require(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 9, "a child");
}

static void work(int number)
{
    void (*const jobs[])() = {exceptions, coroutines, memory, descriptors, short_thread};
    for (unsigned i = static_cast<unsigned>(number); !over; i++) {
        jobs[i % 5]();
        if (number == 0 && i % 16 == 0)
            child();
        usleep(500);
    }
}

int main()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 15; i++)
        threads.emplace_back(work, i);
    puts("begun");
    fflush(stdout);
    struct pollfd input = {0, POLLIN, 0};
    for (int ready = 0; ready == 0 || (ready < 0 && errno == EINTR); ready = poll(&input, 1, 1))
        exceptions();
    over = true;
    for (auto &thread : threads)
        thread.join();
    puts("done");
    return 3;
}
