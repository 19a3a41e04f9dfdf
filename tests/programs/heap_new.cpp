// heap_new - allocates by operator new only, in own_new, and prints what it did: bytes, blocks, live bytes, live blocks.
//
// What fails throws, and is caught here: an exception passes whatever hooks operator new.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>

namespace {
struct figures {
    unsigned long long total, count, live, live_count, caught;
};

struct block {
    char *bytes;
    size_t size;
};
} // namespace

extern "C" __attribute__((noinline)) char *own_new(size_t size, unsigned form)
{
    char *volatile bytes = form == 0 ? static_cast<char *>(operator new(size))
                           : form == 1 ? static_cast<char *>(operator new[](size))
                                       : static_cast<char *>(operator new(size, std::nothrow));
    return bytes;
}

static void release(struct block *block, unsigned form, figures *figures)
{
    if (block->bytes == nullptr)
        return;
    figures->live -= block->size;
    figures->live_count--;
    if (form == 0)
        operator delete(block->bytes);
    else
        operator delete[](block->bytes);
    block->bytes = nullptr;
}

static void work(unsigned number, figures *figures)
{
    block blocks[64] = {};
    uint32_t random = number;
    for (unsigned i = 0; i < number; i++) {
        random = random * 1664525u + 1013904223u;
        unsigned slot = random >> 26, form = (random >> 8) % 3;
        size_t size = 1 + (random >> 10) % 3000;
        release(&blocks[slot], slot % 2, figures);
        blocks[slot] = block{own_new(size, slot % 2 ? 1 : form == 1 ? 0 : form), size};
        figures->total += size;
        figures->count++;
        figures->live += size;
        figures->live_count++;
        try {
            if (i % 50 == 0)
                own_new(size_t(1) << 60, i % 100 == 0);
        } catch (const std::bad_alloc &) {
            figures->caught++;
        }
    }
    for (unsigned i = 0; i < 60; i++)
        release(&blocks[i], i % 2, figures);
}

int main(int argc, char **argv)
{
    unsigned number = argc > 1 ? unsigned(strtoul(argv[1], nullptr, 10)) : 5000;
    figures mine[2] = {};
    std::thread other(work, number, &mine[1]);
    work(number, &mine[0]);
    other.join();
    bool right = mine[0].caught == (number + 49) / 50 && mine[1].caught == mine[0].caught;
    printf("%llu %llu %llu %llu\n", mine[0].total + mine[1].total, mine[0].count + mine[1].count,
           mine[0].live + mine[1].live, mine[0].live_count + mine[1].live_count);
    return right ? 0 : 1;
}
