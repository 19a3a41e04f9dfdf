/* What a killed tally left in a process is taken out of it. A forked child changes its own text by hand, in
 * every form that sites have, to lead into a memory file named as Tally's are; next to it, and everywhere
 * else, somebody else has changed it too. The parent's text is that of the file. The child goes on calling,
 * and knows the results. */
#include <asm/prctl.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_trace.h"
#include "loader_kept.h"
#include "remains_clean.h"
#include "slab_block.h"

#define PAGE  4096u
#define PAGES 9u /* of clean_text, with clean_entry */
#define SIZE  (PAGES * PAGE)
#define OURS  (16 * PAGE)

extern uint8_t clean_text[];
int clean_entry(void);

struct shared {
    atomic_uint ready, stop, wrong;
    atomic_ullong rounds;
    uint64_t code, data, strange; /* memory files of the child */
    uint64_t gs;                  /* of the child, in the end */
};

enum leads { OURS_CODE, OURS_DATA, STRANGE, NOWHERE };

/* Bytes put at `at`; those that an instruction's displacement takes are counted from `bytes`. */
struct change {
    uint32_t at;
    const char *opcode;
    enum leads leads;  /* a displacement of 32 bits follows, unless it is NOWHERE */
    uint32_t distance; /* of what it leads to */
    uint32_t island;   /* not 0: a displacement of 8 bits to there follows instead */
    bool stays;
};

static const struct change changes[] = {
    {0x100, "\xe8", OURS_CODE, 0x123, 0, false},
    {0x140, "\xe9", OURS_CODE, 0, 0, false},
    {0x180, "\x0f\x84", OURS_CODE, OURS - 1, 0, false},
    {0x1c0, "\x0f\x8f", OURS_CODE, 77, 0, false},
    {0x200, "\xeb", NOWHERE, 0, 0x240, false},
    {0x240, "\xe9", OURS_CODE, 5, 0, false},
    {0x280, "\x74", NOWHERE, 0, 0x2c0, false},
    {0x2c0, "\xe9", OURS_CODE, 6, 0, false},
    /* filled up, at every place of the pattern: some prefixes are as in the file */
    {0x300, "\x40\xe8", OURS_CODE, 7, 0, false},
    {0x322, "\x40\xe9", OURS_CODE, 7, 0, false},
    {0x340, "\x2e\x2e\x2e\x40\xe8", OURS_CODE, 8, 0, false},
    {0x361, "\x2e\x2e\x2e\x40\xe8", OURS_CODE, 9, 0, false},
    {0x382, "\x2e\x2e\x2e\x40\xe9", OURS_CODE, 10, 0, false},
    {0x3a3, "\x2e\x2e\x2e\x40\xe8", OURS_CODE, 11, 0, false},
    {0x3c0, "\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x40\xe8", OURS_CODE, 12, 0, false},
    {0x3e1, "\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x40\xe9", OURS_CODE, 13, 0, false},
    /* one behind the other, and over the ends of pages */
    {0x500, "\xe8", OURS_CODE, 14, 0, false},
    {0x505, "\xe8", OURS_CODE, 15, 0, false},
    {PAGE - 1, "\xe8", OURS_CODE, 16, 0, false},
    {2 * PAGE - 8, "\x2e\x2e\x2e\x2e\x40\xe8", OURS_CODE, 17, 0, false},
    {3 * PAGE - 4, "\xe9", OURS_CODE, 18, 0, false},
    /* short ones, the island in another page */
    {2 * PAGE + 4, "\xeb", NOWHERE, 0, 2 * PAGE - 122, false},
    {2 * PAGE - 122, "\xe9", OURS_CODE, 19, 0, false},
    {4 * PAGE - 10, "\x7f", NOWHERE, 0, 4 * PAGE + 119, false},
    {4 * PAGE + 119, "\xe9", OURS_CODE, 20, 0, false},
    /* a breakpoint of somebody else's came over ours, and stays; or has gone again */
    {0x700, "\xcc", OURS_CODE, 22, 0, false},
    {0x700, "\xcc", NOWHERE, 0, 0, true},
    {0x720, "\x90", OURS_CODE, 23, 0, false},
    {0x740, "\xcc\x84", OURS_CODE, 24, 0, false},
    {0x740, "\xcc", NOWHERE, 0, 0, true},
    {0x760, "\xcc", NOWHERE, 0, 0x780, false},
    {0x760, "\xcc", NOWHERE, 0, 0, true},
    {0x780, "\xe9", OURS_CODE, 25, 0, false},
    {0x7a0, "\xcc", STRANGE, 22, 0, true},
    /* somebody else's: before, behind and between ours, and what leads elsewhere */
    {0xff, "\xc3", NOWHERE, 0, 0, true},
    {0x105, "\xc3", NOWHERE, 0, 0, true},
    {0x107, "\xc3", NOWHERE, 0, 0, true},
    {0x146, "\xc3\xc3", NOWHERE, 0, 0, true},
    {0x4fe, "\x0f\x0b", NOWHERE, 0, 0, true},
    {0x50a, "\x0f\x0b", NOWHERE, 0, 0, true},
    {0x33c, "\xc3\xc3\xc3", NOWHERE, 0, 0, true},
    {0x600, "\xe8", OURS_DATA, 100, 0, true},
    {0x620, "\xe8", STRANGE, 100, 0, true},
    {0x640, "\xe8", OURS_CODE, OURS, 0, true}, /* one past it */
    {0x660, "\xeb", NOWHERE, 0, 0x680, true},
    {0x680, "\xe9", STRANGE, 0, 0, true},
    {0x6a0, "\xe7", OURS_CODE, 21, 0, true}, /* no call at all */
    {0x6c0, "\x2e\x2e\x90\xc3", NOWHERE, 0, 0, true},
    {6 * PAGE + 9, "\xc3", NOWHERE, 0, 0, true},
};
#define CHANGES (sizeof changes / sizeof *changes)

static struct shared *shared;

/* --- the child --- */

static void nap(void)
{
    const struct timespec time = {.tv_nsec = 1000000};
    nanosleep(&time, NULL);
}

static uint64_t map_bytes(const char *name, uint64_t address, uint64_t size, int protection)
{
    int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)size))
        abort();
    void *at = mmap((void *)(uintptr_t)address, size, protection, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
    if (at == MAP_FAILED)
        abort();
    close(file);
    return (uint64_t)(uintptr_t)at;
}

static uint64_t map_file(const char *name, uint64_t address, int protection)
{
    return map_bytes(name, address, OURS, protection);
}

static uint64_t address_of(uint32_t at)
{
    return (uint64_t)(uintptr_t)clean_text + at;
}

static void write_displacement(uint8_t *bytes, uint64_t from, uint64_t to)
{
    int32_t displacement = (int32_t)(int64_t)(to - from - 4);
    memcpy(bytes, &displacement, sizeof displacement);
}

/* The bytes of a change; returns how many. */
static size_t make(const struct change *change, uint8_t bytes[16])
{
    size_t length = strlen(change->opcode);
    memcpy(bytes, change->opcode, length);
    if (change->island)
        bytes[length++] = (uint8_t)(change->island - (change->at + 2));
    if (change->leads == NOWHERE)
        return length;
    uint64_t base = change->leads == OURS_CODE   ? shared->code
                    : change->leads == OURS_DATA ? shared->data
                                                 : shared->strange;
    write_displacement(bytes + length, address_of(change->at) + length, base + change->distance);
    return length + 4;
}

static void change_text(void)
{
    uint8_t bytes[16];
    if (mprotect(clean_text, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC))
        abort();
    for (size_t i = 0; i < CHANGES; i++) {
        size_t length = make(&changes[i], bytes);
        memcpy(clean_text + changes[i].at, bytes, length);
    }
    uint8_t *call = (uint8_t *)(uintptr_t)clean_entry; /* e8 to the leaf: through our code from now on */
    int32_t leaf;
    memcpy(&leaf, call + 1, sizeof leaf);
    uint8_t stub[5] = {0xe9};
    uint64_t entry = (uint64_t)(uintptr_t)call, at = shared->code + 0x200;
    write_displacement(stub + 1, at + 1, entry + 5 + (uint64_t)(int64_t)leaf);
    memcpy((void *)(uintptr_t)at, stub, sizeof stub);
    write_displacement(call + 1, entry + 1, at);
    if (mprotect(clean_text, SIZE, PROT_READ | PROT_EXEC) ||
        mprotect((void *)(uintptr_t)shared->code, OURS, PROT_READ | PROT_EXEC))
        abort();
}

static void map_files(void)
{
    uint64_t near = address_of(0) & ~0xfffffull;
    shared->code = map_file("tally", near - (512 << 20), PROT_READ | PROT_WRITE);
    shared->data = map_file("tally", near - (600 << 20), PROT_READ | PROT_WRITE);
    shared->strange = map_file("tally2", near - (700 << 20), PROT_READ | PROT_EXEC);
}

static void live(void)
{
    while (!atomic_load(&shared->stop)) {
        if (clean_entry() != 42)
            atomic_fetch_add(&shared->wrong, 1);
        atomic_fetch_add(&shared->rounds, 1);
    }
}

static pid_t start(void (*child)(void))
{
    memset(shared, 0, sizeof *shared);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        child();
        _exit(0);
    }
    while (!atomic_load(&shared->ready) && waitpid(pid, NULL, WNOHANG) == 0)
        nap();
    assert_int_equal(atomic_load(&shared->ready), 1);
    return pid;
}

static void finish(pid_t pid)
{
    int status = -1;
    unsigned long long before = atomic_load(&shared->rounds);
    for (int i = 0; i < 10000 && atomic_load(&shared->rounds) < before + 3; i++)
        nap();
    assert_true(atomic_load(&shared->rounds) >= before + 3);
    atomic_store(&shared->stop, 1);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(atomic_load(&shared->wrong), 0);
}

/* --- the tests --- */

static void read_child(pid_t pid, uint8_t text[SIZE])
{
    struct iovec local = {text, SIZE}, remote = {clean_text, SIZE};
    assert_int_equal(process_vm_readv(pid, &local, 1, &remote, 1, 0), SIZE);
}

/* Mappings of files with this name; "" after `name` or " (deleted)". */
static unsigned mappings_of(pid_t pid, const char *name)
{
    char path[64], line[512], end[64];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    snprintf(end, sizeof end, "/memfd:%s (deleted)\n", name);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, end) != NULL;
    fclose(file);
    return count;
}

static void live_changed(void)
{
    map_files();
    change_text();
    atomic_store(&shared->ready, 1);
    live();
}

/* As in the file, but for what somebody else did. */
static void expect_text(uint8_t expected[SIZE])
{
    uint8_t bytes[16];
    memcpy(expected, clean_text, SIZE);
    for (size_t i = 0; i < CHANGES; i++)
        if (changes[i].stays)
            memcpy(expected + changes[i].at, bytes, make(&changes[i], bytes));
}

static void compare_text(const uint8_t *found, const uint8_t *expected)
{
    for (uint32_t at = 0; at < SIZE; at++)
        if (found[at] != expected[at])
            print_message("# at 0x%x: %02x, not %02x\n", at, found[at], expected[at]);
    assert_memory_equal(found, expected, SIZE);
}

static void our_changes_go_and_others_stay(void **state)
{
    static uint8_t before[SIZE], after[SIZE], expected[SIZE];
    struct remains_cleaned cleaned;
    struct base_error error = {0};
    (void)state;
    pid_t pid = start(live_changed);
    read_child(pid, before);
    assert_int_equal(mappings_of(pid, "tally"), 2);
    assert_int_equal(remains_clean_process(pid, &cleaned, &error), BASE_OK);
    read_child(pid, after);
    expect_text(expected);
    compare_text(after, expected);
    assert_memory_not_equal(before, after, SIZE);
    assert_int_equal(cleaned.mappings, 2);
    assert_int_equal(cleaned.bytes_left, 0);
    assert_int_equal(cleaned.unreadable, 0);
    assert_true(cleaned.places >= 26);
    assert_int_equal(mappings_of(pid, "tally"), 0);
    assert_int_equal(mappings_of(pid, "tally2"), 1);
    assert_int_equal(remains_clean_process(pid, &cleaned, &error), BASE_OK); /* nothing is left to do */
    assert_int_equal(cleaned.mappings, 0);
    assert_int_equal(cleaned.places, 0);
    read_child(pid, after);
    compare_text(after, expected);
    finish(pid);
}

static void live_untouched(void)
{
    atomic_store(&shared->ready, 1);
    live();
}

static void a_process_without_us_is_left_alone(void **state)
{
    struct remains_cleaned cleaned;
    static uint8_t after[SIZE];
    (void)state;
    pid_t pid = start(live_untouched);
    assert_int_equal(remains_clean_process(pid, &cleaned, NULL), BASE_OK);
    assert_int_equal(cleaned.mappings, 0);
    assert_int_equal(cleaned.places, 0);
    read_child(pid, after);
    compare_text(after, clean_text);
    finish(pid);
}

/* A thread calls from our memory, and will come back there: the text is put back, the memory stays. */
static void rest(void)
{
    atomic_store(&shared->ready, 1);
    live();
}

static void live_inside(void)
{
    uint8_t code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3}; /* call *%rdi */
    map_files();
    memcpy((void *)(uintptr_t)shared->code, code, sizeof code);
    change_text();
    ((void (*)(void (*)(void)))(uintptr_t)shared->code)(rest);
}

/* The text is put back, the memory stays. */
static void expect_kept(void (*child)(void))
{
    struct remains_cleaned cleaned;
    static uint8_t after[SIZE], expected[SIZE];
    pid_t pid = start(child);
    assert_int_equal(remains_clean_process(pid, &cleaned, NULL), BASE_OK);
    assert_int_equal(cleaned.mappings, 2);
    assert_int_equal(cleaned.bytes_left, 2 * OURS);
    assert_int_equal(mappings_of(pid, "tally"), 2);
    read_child(pid, after);
    expect_text(expected);
    compare_text(after, expected);
    finish(pid);
}

static void memory_stays_where_a_thread_comes_back(void **state)
{
    (void)state;
    expect_kept(live_inside);
}

static void expect_gone(void (*child)(void))
{
    struct remains_cleaned cleaned;
    pid_t pid = start(child);
    assert_int_equal(remains_clean_process(pid, &cleaned, NULL), BASE_OK);
    assert_int_equal(cleaned.mappings, 2);
    assert_int_equal(cleaned.bytes_left, 0);
    assert_int_equal(mappings_of(pid, "tally"), 0);
    finish(pid);
}

/* Somebody else changed a place that led to code, when it was left: from then on code stays, whatever is
 * tried. */
static void note_code(pid_t pid)
{
    struct helper helper;
    const struct loader_range code = {shared->code, OURS, true, false};
    assert_int_equal(helper_begin(&helper, NULL), BASE_OK);
    assert_int_equal(helper_trace_follow(&helper, pid, NULL), BASE_OK);
    assert_int_equal(helper_trace_hold(&helper, pid, NULL, NULL), BASE_OK);
    for (int i = 0; i < 2; i++) /* the second time there is nothing to note */
        assert_int_equal(loader_kept_note(&(struct loader_target){&helper, pid, pid}, &code, 1, NULL),
                         BASE_OK);
    helper_trace_release(&helper, pid, NULL, NULL);
    helper_trace_leave(&helper, pid, NULL);
    helper_end(&helper);
}

static void what_was_noted_stays_for_good(void **state)
{
    struct remains_cleaned cleaned;
    static uint8_t after[SIZE], expected[SIZE];
    (void)state;
    pid_t pid = start(live_changed);
    note_code(pid);
    assert_int_equal(mappings_of(pid, "tally-kept"), 1);
    assert_int_equal(loader_kept_bytes(pid), OURS);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(remains_clean_process(pid, &cleaned, NULL), BASE_OK);
        assert_int_equal(cleaned.mappings, 2 - i); /* the data has gone */
        assert_int_equal(cleaned.bytes_left, OURS);
        assert_int_equal(cleaned.bytes_kept, OURS);
        assert_int_equal(mappings_of(pid, "tally"), 1);
        assert_int_equal(mappings_of(pid, "tally-kept"), 1);
    }
    read_child(pid, after);
    expect_text(expected);
    compare_text(after, expected);
    finish(pid);
}

/* A number on a stack that would be an address in our memory, of which nothing is code there: small programs'
 * numbers are, where code that was reserved and never written lies low. */
static void live_with_numbers(void)
{
    volatile uint64_t numbers[64];
    map_files();
    change_text();
    for (size_t i = 0; i < 64; i++)
        numbers[i] = shared->code + PAGE + i * 8;
    atomic_store(&shared->ready, 1);
    live();
    if (numbers[63] - numbers[0] != 63 * 8)
        atomic_fetch_add(&shared->wrong, 1);
}

static void a_number_keeps_no_memory(void **state)
{
    (void)state;
    expect_gone(live_with_numbers);
}

enum { INNER_ENTRY = 0x2ea, INNER_CALL = 0x300, INNER_RETURN = INNER_CALL + 5, INNER = 0x340 };

/* What hooks do: a call within our code, here with no register that leads there. Behind it the thread turns
 * on the spot. */
static void put_inner_call(void)
{
    static const uint8_t clear[INNER_CALL - INNER_ENTRY] = {
        0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0x31, 0xff,              /* xor eax, eax ... edi */
        0x45, 0x31, 0xc0, 0x45, 0x31, 0xc9, 0x45, 0x31, 0xd2, 0x45, 0x31, 0xdb}; /* r8d ... r11d */
    uint8_t call[] = {0xe8, 0, 0, 0, 0, 0xeb, 0xfe}, leaf[] = {0xc3};
    memcpy((void *)(uintptr_t)(shared->code + INNER_ENTRY), clear, sizeof clear);
    write_displacement(call + 1, INNER_CALL + 1, INNER);
    memcpy((void *)(uintptr_t)(shared->code + INNER_CALL), call, sizeof call);
    memcpy((void *)(uintptr_t)(shared->code + INNER), leaf, sizeof leaf);
}

static void live_after_hooks(void)
{
    volatile uint64_t words[64];
    map_files();
    put_inner_call();
    change_text();
    for (size_t i = 0; i < 64; i++)
        words[i] = shared->code + INNER_RETURN;
    atomic_store(&shared->ready, 1);
    live();
    if (words[63] != words[0])
        atomic_fetch_add(&shared->wrong, 1);
}

static void what_hooks_left_on_a_stack_keeps_no_memory(void **state)
{
    (void)state;
    expect_gone(live_after_hooks);
}

static void live_in_a_handler(int signal)
{
    (void)signal;
    atomic_store(&shared->ready, 1);
    live();
    _exit(0);
}

/* Stopped just behind the call, it will come back there. */
static void live_interrupted(void)
{
    const struct itimerval soon = {.it_value.tv_usec = 1000};
    map_files();
    put_inner_call();
    change_text();
    signal(SIGALRM, live_in_a_handler);
    setitimer(ITIMER_REAL, &soon, NULL);
    ((void (*)(void))(uintptr_t)(shared->code + INNER_ENTRY))();
}

static void memory_stays_where_a_thread_was_interrupted(void **state)
{
    (void)state;
    expect_kept(live_interrupted);
}

/* --- gs bases --- */

#define FALLBACK 0x70000000ull
#define BLOCKS   0x200000000000ull
#define LATER    (BLOCKS + 4 * SLAB_BLOCK_SIZE) /* memory of ours that holds no blocks of threads */

static uint64_t wished_gs;

static void live_with_gs(void)
{
    const int access = PROT_READ | PROT_WRITE;
    map_bytes("tally", FALLBACK, SLAB_BLOCK_SIZE, access);
    map_bytes("tally", BLOCKS, 2 * SLAB_BLOCK_SIZE, access);
    map_bytes("tally", LATER, SLAB_BLOCK_SIZE + PAGE, access);
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, wished_gs))
        abort();
    atomic_store(&shared->ready, 1);
    live();
    syscall(SYS_arch_prctl, ARCH_GET_GS, &shared->gs);
}

static void expect_gs(uint64_t before, uint64_t after)
{
    struct remains_cleaned cleaned;
    wished_gs = before;
    pid_t pid = start(live_with_gs);
    assert_int_equal(remains_clean_process(pid, &cleaned, NULL), BASE_OK);
    assert_int_equal(mappings_of(pid, "tally"), 0);
    finish(pid);
    assert_int_equal(shared->gs, after);
}

/* A killed tally's stubs find blocks from the fallback on. */
static void gs_bases_of_ours_go_and_those_of_the_program_stay(void **state)
{
    const uint64_t others[] = {0, (uint64_t)(uintptr_t)shared, BLOCKS - FALLBACK - SLAB_BLOCK_SIZE,
                               BLOCKS - FALLBACK + 2 * SLAB_BLOCK_SIZE, LATER - FALLBACK};
    (void)state;
    expect_gs(BLOCKS - FALLBACK, 0);
    expect_gs(BLOCKS - FALLBACK + SLAB_BLOCK_SIZE, 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        expect_gs(others[i], others[i]);
}

static void an_ended_process_is_an_error(void **state)
{
    struct remains_cleaned cleaned;
    struct base_error error = {0};
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    assert_true(remains_clean_process(pid, &cleaned, &error) < 0);
    assert_string_not_equal(error.text, "");
}

/* A tally that runs has it: that is reported, and nothing is changed. */
static void a_followed_process_is_left_alone(void **state)
{
    struct remains_cleaned cleaned;
    struct base_error error = {0};
    struct helper helper;
    static uint8_t before[SIZE], after[SIZE];
    (void)state;
    pid_t pid = start(live_changed);
    read_child(pid, before);
    assert_int_equal(helper_begin(&helper, &error), BASE_OK);
    assert_int_equal(helper_trace_follow(&helper, pid, &error), BASE_OK);
    assert_int_equal(remains_clean_process(pid, &cleaned, &error), BASE_EBUSY);
    read_child(pid, after);
    assert_memory_equal(before, after, SIZE);
    helper_end(&helper);
    finish(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_changes_go_and_others_stay),
        cmocka_unit_test(a_process_without_us_is_left_alone),
        cmocka_unit_test(memory_stays_where_a_thread_comes_back),
        cmocka_unit_test(what_was_noted_stays_for_good),
        cmocka_unit_test(a_number_keeps_no_memory),
        cmocka_unit_test(what_hooks_left_on_a_stack_keeps_no_memory),
        cmocka_unit_test(memory_stays_where_a_thread_was_interrupted),
        cmocka_unit_test(gs_bases_of_ours_go_and_those_of_the_program_stay),
        cmocka_unit_test(an_ended_process_is_an_error),
        cmocka_unit_test(a_followed_process_is_left_alone),
    };
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
