// calls_cpp [ROUNDS] - virtual calls, pointers to members, lambdas behind std::function's kind of pointer, destructors while an exception
// passes, exceptions thrown through counted frames, rethrown, and caught by type.
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "calls_truth.h"

#define CPP_FUNCTION __attribute__((noinline, noipa, used))

struct Shape {
    virtual ~Shape() = default;
    virtual long area(long scale) const = 0;
};

CPP_FUNCTION static long cpp_multiply(long a, long b)
{
    __asm__ volatile("" : "+r"(a));
    return a * b;
}

struct Square final : Shape {
    long side;
    explicit Square(long length) : side(length)
    {
    }
    CPP_FUNCTION long area(long scale) const override;
};

struct Circle final : Shape {
    long radius;
    explicit Circle(long length) : radius(length)
    {
    }
    CPP_FUNCTION long area(long scale) const override;
};

long Square::area(long scale) const
{
    return scale + CALLS("Square::area", "cpp_multiply", "direct", cpp_multiply(side, side));
}

long Circle::area(long scale) const
{
    return scale + CALLS("Circle::area", "cpp_multiply", "direct", cpp_multiply(radius * 3, radius));
}

struct Guard {
    CPP_FUNCTION explicit Guard(long *count);
    CPP_FUNCTION ~Guard();
    long *count_;
};

Guard::Guard(long *count) : count_(count)
{
    ++*count_;
}

Guard::~Guard()
{
    --*count_;
}

static long open_guards;

CPP_FUNCTION static long cpp_thrower(long value)
{
    if (value % 3 == 0)
        throw std::runtime_error("three");
    if (value % 5 == 0)
        throw value;
    __asm__ volatile("" : "+r"(value));
    return value;
}

CPP_FUNCTION static long cpp_through(long depth, long value)
{
    CALLS_COUNT("cpp_through", "Guard::Guard", "direct");
    CALLS_COUNT("cpp_through", "Guard::~Guard", "direct");
    Guard guard(&open_guards);
    long found;

    if (depth == 0)
        found = CALLS("cpp_through", "cpp_thrower", "direct", cpp_thrower(value));
    else
        found = CALLS("cpp_through", "cpp_through", "direct", cpp_through(depth - 1, value));
    __asm__ volatile("" : "+r"(found));
    return found;
}

CPP_FUNCTION static long cpp_rethrow(long value)
{
    try {
        return 1 + CALLS("cpp_rethrow", "cpp_through", "direct", cpp_through(value % 7, value));
    } catch (const std::runtime_error &) {
        CALLS("cpp_rethrow", "cpp_multiply", "direct", cpp_multiply(value, 2));
        throw;
    }
}

CPP_FUNCTION static long cpp_catch(long value)
{
    try {
        return CALLS("cpp_catch", "cpp_rethrow", "direct", cpp_rethrow(value));
    } catch (const std::exception &) {
        return CALLS("cpp_catch", "cpp_multiply", "direct", cpp_multiply(value, 3));
    } catch (long number) {
        return CALLS("cpp_catch", "cpp_multiply", "direct", cpp_multiply(number, 5));
    }
}

struct Machine {
    long state = 1;
    CPP_FUNCTION long up(long by);
    CPP_FUNCTION long down(long by);
};

long Machine::up(long by)
{
    return state += by;
}

long Machine::down(long by)
{
    return state -= by;
}

CPP_FUNCTION static long cpp_shapes(const std::vector<Shape *> &shapes)
{
    long sum = 0;

    for (const Shape *shape : shapes) {
        if (dynamic_cast<const Square *>(shape))
            CALLS_COUNT("cpp_shapes", "Square::area", "indirect");
        else
            CALLS_COUNT("cpp_shapes", "Circle::area", "indirect");
        sum += shape->area(sum % 7);
    }
    return sum;
}

CPP_FUNCTION static long cpp_members(Machine &machine, long rounds)
{
    long (Machine::*volatile member)(long) = &Machine::up;

    for (long i = 0; i < rounds; i++) {
        if (i % 2)
            CALLS_COUNT("cpp_members", "Machine::down", "indirect");
        else
            CALLS_COUNT("cpp_members", "Machine::up", "indirect");
        member = i % 2 ? &Machine::down : &Machine::up;
        (machine.*member)(i);
    }
    return machine.state;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? std::atol(argv[1]) : 2000, sum = 0;
    std::vector<Shape *> shapes;
    Machine machine;

    for (long i = 0; i < 100; i++)
        shapes.push_back(i % 3 ? static_cast<Shape *>(new Square(i)) : new Circle(i));
    calls_wait();
    for (long i = 0; i < rounds; i++) {
        sum += CALLS("main", "cpp_shapes", "direct", cpp_shapes(shapes));
        sum += CALLS("main", "cpp_catch", "direct", cpp_catch(i));
    }
    sum += CALLS("main", "cpp_members", "direct", cpp_members(machine, rounds));
    for (Shape *shape : shapes)
        delete shape;
    std::printf("%ld %ld\n", sum, open_guards);
    std::fflush(stdout);
    calls_print();
    return 0;
}
