// throws MODE - throws exceptions from functions called own_*, checks that each arrives as it must, and prints how many there were: "pid thrown
// thrown-again passed-on". A wrong arrival ends it with 1.
//
//   run        four threads, and a forked child that prints a line of its own
//   wait       until its input ends, in two threads
//   uncaught   ends by an exception that nobody catches
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{
std::atomic<uint64_t> thrown, again, passed;

struct unwound { // counts frames that an exception passes
    int &count;
    explicit unwound(int &where) : count(where)
    {
    }
    ~unwound()
    {
        count++;
    }
};

struct large {
    char text[200];
    double number;
};

void check(bool right)
{
    if (!right)
        _exit(1);
}
} // namespace

extern "C" __attribute__((noinline)) void own_throw(unsigned kind, unsigned depth, int &frames)
{
    unwound here(frames);
    if (depth > 0) {
        own_throw(kind, depth - 1, frames);
        return;
    }
    thrown++;
    if (kind == 0)
        throw 42;
    if (kind == 1)
        throw std::runtime_error("reported");
    large value = {"large", 1.5};
    throw value;
}

extern "C" __attribute__((noinline)) void own_again(unsigned kind, unsigned depth, int &frames)
{
    try {
        own_throw(kind, depth, frames);
    } catch (...) {
        again++;
        throw;
    }
}

extern "C" __attribute__((noinline)) void own_pass(const std::exception_ptr &exception)
{
    passed++;
    std::rethrow_exception(exception);
}

extern "C" __attribute__((noinline)) void own_new()
{
    size_t volatile size = SIZE_MAX / 4;
    char *volatile block = static_cast<char *>(operator new(size));
    operator delete(block);
}

static void work(unsigned rounds, unsigned seed)
{
    double volatile kept = 3.25;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned kind = (i + seed) % 3, depth = i % 7;
        int frames = 0, caught = 0;
        std::exception_ptr held;
        double local = kept * i;
        try {
            if (i % 2)
                own_again(kind, depth, frames);
            else
                own_throw(kind, depth, frames);
        } catch (int number) {
            caught = kind == 0 && number == 42;
            held = std::current_exception();
        } catch (const std::runtime_error &error) {
            caught = kind == 1 && std::string("reported") == error.what();
            held = std::current_exception();
        } catch (const large &value) {
            caught = kind == 2 && value.number == 1.5 && strcmp(value.text, "large") == 0;
            held = std::current_exception();
        }
        check(caught && frames == int(depth) + 1 && local == kept * i);
        if (i % 5 == 0) {
            caught = 0;
            try {
                own_pass(held);
            } catch (...) {
                caught = 1;
            }
            check(caught);
        }
        if (i % 11 == 0) {
            caught = 0;
            try {
                own_new();
            } catch (const std::bad_alloc &) {
                caught = 1;
            }
            check(caught);
        }
    }
}

static void say()
{
    char line[200];
    int length = snprintf(line, sizeof line, "%d %llu %llu %llu\n", int(getpid()), (unsigned long long)thrown,
                          (unsigned long long)again, (unsigned long long)passed);
    check(write(1, line, size_t(length)) == length);
}

static void run()
{
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; i++)
        threads.emplace_back(work, 1500, i);
    for (std::thread &thread : threads)
        thread.join();
    pid_t child = fork();
    if (child == 0) {
        thrown = again = passed = 0;
        work(700, 2);
        say();
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    check(status == 0);
    say();
}

static void wait_for_end()
{
    std::atomic<bool> ended{false};
    std::thread other([&ended] {
        while (!ended)
            work(50, 1);
    });
    pollfd input = {0, POLLIN, 0};
    do
        work(50, 0);
    while (poll(&input, 1, 1) == 0);
    ended = true;
    other.join();
    say();
}

int main(int argc, char **argv)
{
    std::string mode = argc > 1 ? argv[1] : "run";
    if (mode == "run")
        run();
    else if (mode == "wait")
        wait_for_end();
    else
        throw std::runtime_error("nobody catches this");
    return 0;
}
