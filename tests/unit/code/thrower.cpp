// thrower.cpp - exceptions through several kinds of landing pads, virtual calls, for test_step.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

static volatile int sink;

struct Guard {
    ~Guard()
    {
        sink = sink + 1;
    }
};

struct Shape {
    virtual ~Shape() = default;
    virtual int area(int x) const = 0;
};

struct Square : Shape {
    int area(int x) const override
    {
        if (x % 7 == 6)
            throw std::out_of_range("seven");
        return x * x;
    }
};

struct Circle : Shape {
    int area(int x) const override
    {
        Guard guard;
        if (x % 5 == 4)
            throw x;
        return 3 * x * x;
    }
};

__attribute__((noinline)) static int measure(const Shape &shape, int x)
{
    Guard guard;
    std::string name(static_cast<unsigned>(x) + 20, 'x');
    return shape.area(x) + static_cast<int>(name.size());
}

__attribute__((noinline)) static int careful(const Shape &shape, int x)
{
    try {
        return measure(shape, x);
    } catch (const std::exception &e) {
        return static_cast<int>(e.what()[0]);
    } catch (int value) {
        Guard guard;
        if (value > 8)
            throw;
        return -value;
    }
}

int main()
{
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.push_back(std::make_unique<Square>());
    shapes.push_back(std::make_unique<Circle>());
    int sum = 0;
    for (int i = 0; i < 12; i++)
        try {
            sum += careful(*shapes[static_cast<unsigned>(i) & 1], i);
        } catch (...) {
            sum++;
        }
    std::printf("%d\n", sum);
}
