/* One unit of the program whose addresses bench symbolises: the same source is compiled many times, each time with another UNIT.
 *
 * Templates over containers, instantiated for many types, are what makes the debug information of C++ programs large: long
 * names, many small functions, most of them inlined several deep. */
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#define GLUE(a, b) a##b
#define NAMED(a, b) GLUE(a, b)

namespace NAMED(unit, UNIT) {

enum { KINDS = 30 };

template <int N> struct Item {
    int key;
    std::string name;
    double weight[N % 5 + 1];
    bool operator<(const Item &other) const
    {
        int mine = key % (N + 3), its = other.key % (N + 3);
        return mine < its || (mine == its && name < other.name);
    }
};

template <int N> Item<N> make(unsigned i)
{
    return Item<N>{static_cast<int>(i * (2 * N + 7) % 101), "n" + std::to_string(i % 17), {i * 0.5}};
}

template <int N> long work(unsigned count)
{
    std::map<int, std::vector<Item<N>>> groups;
    std::unordered_map<std::string, std::shared_ptr<Item<N>>> by_name;
    std::set<Item<N>> sorted;
    for (unsigned i = 0; i < count; i++) {
        Item<N> item = make<N>(i);
        groups[item.key % 7].push_back(item);
        by_name[item.name] = std::make_shared<Item<N>>(item);
        sorted.insert(item);
    }
    std::function<long(const Item<N> &)> rank = [](const Item<N> &one) {
        return one.key * (N + 1) + static_cast<long>(one.weight[0]);
    };
    long sum = 0;
    for (auto &group : groups) {
        std::sort(group.second.begin(), group.second.end());
        sum += std::accumulate(group.second.begin(), group.second.end(), 0L,
                               [&](long all, const Item<N> &one) { return all + rank(one); });
    }
    for (auto &pair : by_name)
        sum += pair.second->key;
    return sum + static_cast<long>(sorted.size());
}

template <int... N> long every(unsigned count, std::integer_sequence<int, N...>)
{
    return (work<N>(count + N) + ...);
}

long all(unsigned count)
{
    return every(count, std::make_integer_sequence<int, KINDS>());
}

} // namespace

extern "C" long NAMED(run_unit, UNIT)(unsigned count)
{
    return NAMED(unit, UNIT)::all(count);
}
