// C++ for the tests of the symbol module: names to demangle, templates, inlined members, lambdas and libraries.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace fixture
{
template <typename T> struct Holder {
    T value;
    explicit Holder(T start) : value(start) {}
    inline __attribute__((always_inline)) T squared() const { return value * value; }
    __attribute__((noinline)) T sum(const std::vector<T> &values) const
    {
        T total{};
        for (const T &each : values)
            total += each * squared();
        return total;
    }
    Holder &operator+=(const Holder &other)
    {
        value += other.squared();
        return *this;
    }
};

namespace
{
__attribute__((noinline)) std::size_t sorted(std::vector<std::string> &names)
{
    std::sort(names.begin(), names.end(), [](const std::string &a, const std::string &b) { return a.size() < b.size(); });
    return names.size();
}
} // namespace

__attribute__((noinline)) long count(const std::map<std::string, long> &table)
{
    long total = 0;
    for (const auto &entry : table)
        total += entry.second;
    return total;
}
} // namespace fixture

int main(int argc, char **argv)
{
    std::vector<std::string> names(argv, argv + argc);
    fixture::Holder<double> real(argc);
    fixture::Holder<long> whole(argc);
    whole += fixture::Holder<long>(3);
    std::map<std::string, long> table{{argv[0], 1}};
    std::printf("%zu %f %ld %ld\n", fixture::sorted(names), real.sum({1, 2.5}), whole.sum({1, 2}), fixture::count(table));
    return 0;
}
