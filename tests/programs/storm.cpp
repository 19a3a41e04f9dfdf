// storm ROUNDS CALLS [THROWS] - short functions in a loop, under signals at 10 kHz whose handler calls as many more, and throws.
//
// In each round two calls of own_step; in each handler CALLS of own_leaf below own_handled, and THROWS exceptions, each through own_throw and
// own_through. Prints how often each was called: "own_step N own_leaf N own_handled N own_throw N own_through N".
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <sys/time.h>

#define OWN __attribute__((noinline, noclone))

static unsigned long long steps, leaves, handled, thrown, caught;
static unsigned calls, throws;

OWN static unsigned own_leaf(unsigned number)
{
    leaves++;
    asm volatile("");
    return number * 3 + 1;
}

OWN static void own_throw(unsigned number)
{
    thrown++;
    if (number % 2 == 0)
        throw std::runtime_error("even");
    throw static_cast<int>(number);
}

OWN static void own_through(unsigned number)
{
    own_throw(number);
    asm volatile("");
}

OWN static void own_handled(unsigned count)
{
    handled++;
    for (unsigned i = 0; i < count; i++)
        own_leaf(i);
    for (unsigned i = 0; i < throws; i++)
        try {
            own_through(i);
        } catch (int) {
            caught++;
        } catch (const std::runtime_error &) {
            caught++;
        }
}

static void handle(int)
{
    own_handled(calls);
    asm volatile("");
}

OWN static unsigned own_step(unsigned number)
{
    steps++;
    asm volatile("");
    return number + 1;
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 2 ? strtoul(argv[1], nullptr, 10) : 0;
    struct itimerval often = {{0, 100}, {0, 100}}, never = {};
    struct sigaction action = {};
    if (argc < 3)
        return 2;
    calls = static_cast<unsigned>(strtoul(argv[2], nullptr, 10));
    throws = argc > 3 ? static_cast<unsigned>(strtoul(argv[3], nullptr, 10)) : 0;
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    handle(0); // what is loaded for the first exception is there
    sigaction(SIGALRM, &action, nullptr);
    setitimer(ITIMER_REAL, &often, nullptr);
    unsigned number = 0;
    for (unsigned long i = 0; i < rounds; i++)
        number = own_step(own_step(number));
    setitimer(ITIMER_REAL, &never, nullptr);
    printf("own_step %llu own_leaf %llu own_handled %llu own_throw %llu own_through %llu\n", steps, leaves,
           handled, thrown, caught);
    return number == 0 || caught != thrown;
}
