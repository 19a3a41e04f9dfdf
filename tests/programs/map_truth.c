/* map_truth MODE - maps and unmaps memory in functions called own_*, and says what it holds: a line "pid
 * map-total map-live remap-total remap-live data-total data-live last-total last-live" for each process that
 * counted itself, in bytes of whole pages. What it believes to hold must be in /proc/self/maps, or it ends
 * with 2.
 *
 *   run       mmap, munmap of parts and across parts, MAP_FIXED over what is there, mremap of all kinds, brk
 *             and sbrk, calls that fail
 *   killed    the same, ends by SIGKILL
 *   threads   four threads, without brk
 *   fork      a child that unmaps what it inherited, and maps memory of its own
 *   signals   a handler maps and unmaps a thousand times a second meanwhile; only own_last is reported
 *   jumps     ... and leaves by a jump
 *   malloc    blocks for which malloc maps memory, in own_malloc
 *   wait      until its input ends */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE    UINT64_C(4096)
#define KEPT    __attribute__((noinline, noclone))
#define FAILURE UINTPTR_MAX

enum { BY_MAP, BY_REMAP, BY_DATA, BY_LAST, OWNERS };
enum { MOST = 4096, THREADS = 4, ARENA = 256 };

struct piece {
    uint64_t start, end;
    unsigned owner;
};

struct account {
    struct piece pieces[MOST];
    unsigned count;
    uint64_t total[OWNERS], arena, random;
};
static struct account accounts[THREADS];

static void must(int right, int status)
{
    if (!right)
        _exit(status);
}

static uint64_t up(uint64_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

static uint64_t draw(struct account *account)
{
    account->random = account->random * 6364136223846793005u + 1442695040888963407u;
    return account->random >> 33;
}

static void put(struct account *account, uint64_t start, uint64_t end, unsigned owner)
{
    must(account->count < MOST, 3);
    if (start < end)
        account->pieces[account->count++] = (struct piece){start, end, owner};
}

static void strike(struct account *account, uint64_t start, uint64_t end)
{
    for (unsigned i = account->count; i-- > 0;) {
        struct piece piece = account->pieces[i];
        if (piece.end <= start || piece.start >= end)
            continue;
        account->pieces[i] = account->pieces[--account->count];
        if (piece.start < start)
            put(account, piece.start, start, piece.owner);
        if (piece.end > end)
            put(account, end, piece.end, piece.owner);
    }
}

static void hold(struct account *account, uint64_t start, uint64_t size, unsigned owner)
{
    strike(account, start, start + up(size));
    put(account, start, start + up(size), owner);
    account->total[owner] += up(size);
}

static uint64_t live_of(const struct account *account, unsigned owner)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < account->count; i++)
        sum += account->pieces[i].owner == owner ? account->pieces[i].end - account->pieces[i].start : 0;
    return sum;
}

/* --- the calls --- */

KEPT uintptr_t own_map(uint64_t address, size_t size, int flags)
{
    uintptr_t volatile result = (uintptr_t)mmap((void *)address, size, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return result;
}

KEPT uintptr_t own_last(size_t size)
{
    uintptr_t volatile result = (uintptr_t)mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result;
}

KEPT uintptr_t own_remap(uint64_t old, size_t old_size, size_t size, int flags, uint64_t address)
{
    uintptr_t volatile result = (uintptr_t)mremap((void *)old, old_size, size, flags, (void *)address);
    return result;
}

KEPT uintptr_t own_data(intptr_t change, int by_address)
{
    uintptr_t volatile old = (uintptr_t)sbrk(0);
    if (by_address)
        must(brk((void *)(old + (uintptr_t)change)) == 0, 4);
    else
        must((uintptr_t)sbrk(change) == old, 4);
    return old;
}

KEPT void *own_malloc(size_t size)
{
    void *volatile block = malloc(size);
    return block;
}

/* --- what is done --- */

static void map_some(struct account *account)
{
    size_t size = 1 + draw(account) % (40 * PAGE);
    uintptr_t start = own_map(0, size, 0);
    must(start != FAILURE, 4);
    *(volatile char *)(start + size - 1) = 1;
    hold(account, start, size, BY_MAP);
}

/* A part of the arena: whatever is there. */
static void replace_some(struct account *account)
{
    uint64_t first = draw(account) % (ARENA - 20), pages = 1 + draw(account) % 20;
    uint64_t start = account->arena + first * PAGE;
    must(own_map(start, pages * PAGE - draw(account) % PAGE, MAP_FIXED) == start, 4);
    hold(account, start, pages * PAGE, BY_MAP);
}

static void unmap(struct account *account, uint64_t start, uint64_t size)
{
    must(munmap((void *)start, size) == 0, 4);
    strike(account, start, start + up(size));
}

static void unmap_some(struct account *account, int holes)
{
    struct piece piece = account->pieces[draw(account) % account->count];
    int in_arena = piece.start - account->arena < ARENA * PAGE;
    if (holes && draw(account) % 3 == 0) {
        unmap(account, account->arena + draw(account) % (ARENA - 30) * PAGE, 1 + draw(account) % (30 * PAGE));
    } else if (!in_arena && piece.owner < BY_DATA) {
        uint64_t pages = (piece.end - piece.start) / PAGE, skip = draw(account) % pages;
        unmap(account, piece.start + skip * PAGE, (1 + draw(account) % (pages - skip)) * PAGE);
    }
}

static void remap_some(struct account *account)
{
    struct piece piece = account->pieces[draw(account) % account->count];
    uint64_t old_size = piece.end - piece.start, size = 1 + draw(account) % (50 * PAGE);
    if (piece.owner >= BY_DATA || piece.start - account->arena < ARENA * PAGE)
        return;
    unsigned kind = draw(account) % 4;
    uint64_t place = account->arena + draw(account) % (ARENA - 50) * PAGE;
    uintptr_t start = kind == 0 ? own_remap(piece.start, old_size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place)
                      : kind == 1 ? own_remap(piece.start, old_size, size, 0, 0)
                                  : own_remap(piece.start, old_size, size, MREMAP_MAYMOVE, 0);
    if (start == FAILURE) { /* it may not move and cannot grow */
        must(kind == 1, 4);
        return;
    }
    strike(account, piece.start, piece.end);
    hold(account, start, size, BY_REMAP);
}

static void move_data(struct account *account)
{
    static uint64_t grown;
    uint64_t size = 1 + draw(account) % (9 * PAGE);
    intptr_t change = draw(account) % 3 && size <= grown ? -(intptr_t)size : (intptr_t)size;
    uint64_t old = own_data(change, draw(account) % 2 != 0), now = old + (uint64_t)change;
    grown += (uint64_t)change;
    if (change < 0)
        strike(account, up(now), up(old));
    else if (up(now) > up(old))
        hold(account, up(old), up(now) - up(old), BY_DATA);
}

static void fail(void)
{
    must(own_map(0, 0, 0) == FAILURE, 5);
    must(own_map(0, SIZE_MAX / 2, 0) == FAILURE, 5);
    must(munmap((void *)1, PAGE) != 0, 5);
    must(own_remap(PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE, 0) == FAILURE, 5);
    must(brk((void *)((UINT64_C(1) << 47) - 2 * PAGE)) != 0, 5);
}

enum { HOLES = 1, DATA = 2 };

static void churn(struct account *account, uint64_t seed, unsigned rounds, unsigned how)
{
    account->random = seed;
    if (account->arena == 0) {
        account->arena = own_map(0, ARENA * PAGE, 0);
        hold(account, account->arena, ARENA * PAGE, BY_MAP);
    }
    for (unsigned i = 0; i < rounds; i++) {
        unsigned what = draw(account) % 8;
        if ((what < 2 && account->count < 400) || account->count < 10)
            map_some(account);
        else if (what < 3)
            replace_some(account);
        else if (what < 6)
            unmap_some(account, (how & HOLES) != 0);
        else if (what < 7)
            remap_some(account);
        else if (how & DATA)
            move_data(account);
        if (i % 100 == 0)
            fail();
    }
}

/* --- what is reported --- */

static int is_mapped(uint64_t start, uint64_t end)
{
    unsigned char there;
    for (uint64_t at = start; at < end; at += PAGE)
        if (mincore((void *)at, PAGE, &there) != 0)
            return 0;
    return 1;
}

static void say(void)
{
    uint64_t total[OWNERS] = {0}, live[OWNERS] = {0};
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned owner = 0; owner < OWNERS; owner++) {
            total[owner] += accounts[i].total[owner];
            live[owner] += live_of(&accounts[i], owner);
        }
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned k = 0; k < accounts[i].count; k++)
            must(is_mapped(accounts[i].pieces[k].start, accounts[i].pieces[k].end), 2);
    char line[400];
    int length = snprintf(line, sizeof line, "%d", (int)getpid());
    for (unsigned owner = 0; owner < OWNERS; owner++)
        length += snprintf(line + length, sizeof line - (size_t)length, " %llu %llu",
                           (unsigned long long)total[owner], (unsigned long long)live[owner]);
    line[length++] = '\n';
    must(write(1, line, (size_t)length) == length, 6);
}

/* --- modes --- */

static void *thread(void *number)
{
    churn(&accounts[(uintptr_t)number], 11 + (uintptr_t)number, 1500, 0);
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, thread, (void *)i) == 0, 7);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    say();
}

static void run_fork(void)
{
    static struct account inherited;
    churn(&accounts[0], 5, 1500, HOLES | DATA);
    pid_t child = fork();
    if (child == 0) {
        inherited = accounts[0];
        memset(accounts, 0, sizeof accounts);
        for (unsigned i = 0; i < inherited.count; i += 2)
            if (inherited.pieces[i].owner < BY_DATA)
                munmap((void *)inherited.pieces[i].start,
                       inherited.pieces[i].end - inherited.pieces[i].start);
        churn(&accounts[0], 6, 1000, 0);
        say();
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    must(status == 0, 8);
    say();
}

static sigjmp_buf back;
static volatile int leaves;

static void handler(int number)
{
    (void)number;
    void *block = mmap(NULL, 3 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(block, 3 * PAGE);
    if (leaves)
        siglongjmp(back, 1);
}

static void interrupted(int jumps)
{
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    static volatile unsigned rounds;
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &often, NULL);
    sigsetjmp(back, 1);
    leaves = jumps;
    for (; rounds < 40000; rounds++) {
        void *block = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(block, PAGE);
        munmap((char *)block + PAGE, PAGE);
    }
    leaves = 0;
    setitimer(ITIMER_REAL, &never, NULL);
    for (unsigned i = 1; i <= 50; i++) {
        uintptr_t start = own_last(i * PAGE);
        hold(&accounts[0], start, i * PAGE, BY_LAST);
        if (i % 2)
            unmap(&accounts[0], start, (i + 1) / 2 * PAGE);
    }
    say();
}

static void allocate(void)
{
    void *blocks[50];
    for (unsigned i = 0; i < 50; i++)
        blocks[i] = own_malloc(i % 2 ? 3000000 : 60000);
    for (unsigned i = 0; i < 50; i++)
        free(blocks[i]);
    say();
}

static void go_on(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    do
        churn(&accounts[0], 9, 200, 0);
    while (poll(&input, 1, 1) == 0);
    say();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "run";
    if (!strcmp(mode, "threads"))
        run_threads();
    else if (!strcmp(mode, "fork"))
        run_fork();
    else if (!strcmp(mode, "signals"))
        interrupted(0);
    else if (!strcmp(mode, "jumps"))
        interrupted(1);
    else if (!strcmp(mode, "malloc"))
        allocate();
    else if (!strcmp(mode, "wait"))
        go_on();
    else {
        churn(&accounts[0], 3, 5000, HOLES | DATA);
        say();
        if (!strcmp(mode, "killed"))
            raise(SIGKILL);
    }
    return 0;
}
