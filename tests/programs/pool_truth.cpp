/* pool_truth - allocates from pools of its own, which are named by --alloc-functions, and prints what of that a profile must have: a line
 * "bytes blocks live-bytes live-blocks" of functions called own_*.
 *
 * Pools take their memory from malloc, in large parts, inside the functions that are named: it does not count. Beside them the
 * program allocates by malloc, which does. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define KEPT extern "C" __attribute__((noinline, noclone))

struct pool {
    char *part;
    size_t left;
};

static pool first, second;
static uint64_t bytes, blocks, live_bytes, live_blocks;
static volatile unsigned released[3]; /* functions that do nothing would be one */

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void *take(pool *from, size_t size)
{
    size_t whole = (size + 16 + 15) / 16 * 16; /* its size is before it */
    if (from->left < whole) {
        from->left = whole > 65536 ? whole : 65536;
        from->part = static_cast<char *>(malloc(from->left));
    }
    char *block = from->part + 16;
    from->part += whole;
    from->left -= whole;
    memcpy(block - 16, &size, sizeof size);
    return block;
}

static size_t size_of(const void *block)
{
    size_t size;
    memcpy(&size, static_cast<const char *>(block) - 16, sizeof size);
    return size;
}

/* --- what is named --- */

KEPT void *shop_alloc(size_t size)
{
    return take(&first, size);
}
KEPT void *shop_zeros(size_t count, size_t size)
{
    return memset(take(&first, count * size), 0, count * size);
}
KEPT void *shop_resize(void *block, size_t size)
{
    void *fresh = take(&first, size); /* the old one's memory is not used again */
    if (block)
        memcpy(fresh, block, size < size_of(block) ? size : size_of(block));
    return fresh;
}
KEPT void shop_release(void *)
{
    released[0] = 1;
}
KEPT int shop_aligned(void **block, size_t, size_t size)
{
    *block = take(&first, size);
    return 0;
}
KEPT void *arena_get(pool *from, size_t size)
{
    return take(from, size);
}
KEPT void *arena_zeros(pool *from, size_t count, size_t size)
{
    return memset(take(from, count * size), 0, count * size);
}
KEPT void *arena_resize(pool *from, void *block, size_t size)
{
    void *fresh = size < (size_t(1) << 40) ? take(from, size) : nullptr;
    if (block && fresh)
        memcpy(fresh, block, size < size_of(block) ? size : size_of(block));
    return fresh;
}
KEPT void arena_put(pool *, void *)
{
    released[1] = 1;
}

struct Store {
    __attribute__((noinline, noclone)) void *get(unsigned long size)
    {
        return take(&second, size);
    }
    __attribute__((noinline, noclone)) void put(void *)
    {
        released[2] = 1;
    }
};
static Store store;

/* --- who calls it --- */

static void *volatile kept;

static void *count(void *block, size_t size)
{
    kept = block;
    must(block != nullptr);
    bytes += size, live_bytes += size, blocks++, live_blocks++;
    return block;
}

static void uncount(size_t size)
{
    live_bytes -= size, live_blocks--;
}

KEPT void own_shop(size_t size)
{
    char *block = static_cast<char *>(count(shop_alloc(size), size));
    memset(block, 1, size);
    block = static_cast<char *>(shop_resize(block, size * 2));
    uncount(size);
    count(block, size * 2);
    for (size_t i = 0; i < size; i++)
        must(block[i] == 1);
    shop_release(block);
    uncount(size * 2);
    count(shop_zeros(3, size), 3 * size);
    void *aligned;
    must(shop_aligned(&aligned, 64, size) == 0);
    count(aligned, size);
    shop_release(aligned);
    uncount(size);
}

KEPT void own_arena(size_t size)
{
    char *block = static_cast<char *>(count(arena_get(&second, size), size));
    memset(block, 2, size);
    must(arena_resize(&second, block, size_t(1) << 50) == nullptr); /* it stays */
    block = static_cast<char *>(arena_resize(&second, block, size + 100));
    uncount(size);
    count(block, size + 100);
    for (size_t i = 0; i < size; i++)
        must(block[i] == 2);
    char *zeros = static_cast<char *>(count(arena_zeros(&second, 2, size), 2 * size));
    for (size_t i = 0; i < 2 * size; i++)
        must(zeros[i] == 0);
    arena_put(&second, zeros);
    uncount(2 * size);
}

KEPT void own_store(size_t size)
{
    void *block = count(store.get(size), size);
    if (size % 2) {
        store.put(block);
        uncount(size);
    }
}

KEPT void own_malloc(size_t size)
{
    free(count(malloc(size), size));
    uncount(size);
}

int main()
{
    for (size_t i = 1; i < 2000; i++) {
        own_shop(i);
        own_arena(i);
        own_store(i);
        own_malloc(i);
    }
    char line[200];
    int length =
        snprintf(line, sizeof line, "%llu %llu %llu %llu\n", (unsigned long long)bytes,
                 (unsigned long long)blocks, (unsigned long long)live_bytes, (unsigned long long)live_blocks);
    must(fwrite(line, 1, size_t(length), stdout) == size_t(length));
    return 0;
}
