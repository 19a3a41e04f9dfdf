// exceptions - throws through twenty frames in a loop, each with a destructor that is busy for a while:
// samples land in the thrower, in the C++ run-time's own unwinder, in landing pads and in what they call.
#include <cstdio>
#include <cstdlib>

extern "C" {
#include "truth.h"
}

namespace
{
constexpr int LEVELS = 20;
constexpr unsigned long CLEANUP_ROUNDS = 20000;
} // namespace

extern "C" TRUTH_FUNCTION void exception_cleanup()
{
    TRUTH_WORK(CLEANUP_ROUNDS);
}

struct Guard {
    ~Guard()
    {
        TRUTH_CALL(exception_cleanup());
    }
};

extern "C" TRUTH_FUNCTION void exception_throw()
{
    TRUTH_WORK(10 * CLEANUP_ROUNDS);
    throw 42; // the throw is in a cold part of its own
}

extern "C" TRUTH_FUNCTION void exception_descend(int left)
{
    Guard guard;

    if (left > 1)
        TRUTH_CALL(exception_descend(left - 1));
    else
        TRUTH_CALL(exception_throw());
}

extern "C" TRUTH_FUNCTION int exception_round()
{
    try {
        TRUTH_CALL(exception_descend(LEVELS));
    } catch (int value) {
        return value;
    }
    return 0;
}

// The cleanup of level n is called by level n; destructors may or may not be inlined, and cold parts have
// names of their own.
static void print_truth()
{
    std::printf("contains exception_round\nstack main;exception_round;**\n");
    std::printf(
        "contains exception_throw*\nstack main;exception_round;exception_descend{%d};exception_throw*;**\n",
        LEVELS);
    std::printf("contains exception_cleanup\n");
    for (int level = 1; level <= LEVELS; level++)
        std::printf("stack main;exception_round;exception_descend*{%d};exception_cleanup\n"
                    "stack main;exception_round;exception_descend*{%d};Guard::~Guard*;exception_cleanup\n",
                    level, level);
    std::printf("origin start\n");
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    int caught = 0;

    if (truth.asked)
        print_truth();
    while (!truth.asked && truth_more(&truth))
        for (int i = 0; i < 20; i++)
            caught += exception_round();
    return caught == 1;
}
