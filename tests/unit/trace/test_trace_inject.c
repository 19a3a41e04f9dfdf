/* Memory changed completely or not at all, system calls made in the name of children that do not notice. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_clock.h"
#include "proc_target.h"
#include "trace_child.h"
#include "trace_inject.h"

enum { PAGE = 4096 };

static void nap_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void must(int result, const struct base_error *error)
{
    if (result < 0)
        print_message("# %s\n", error->text);
    assert_int_equal(result, BASE_OK);
}

/* A stopped child and its memory. */
struct held {
    struct trace_stop stop;
    struct trace_memory memory;
    struct trace_inject inject;
};

static void hold(struct held *held, pid_t pid)
{
    struct base_error error = {0};
    int result = BASE_EBUSY;
    *held = (struct held){0};
    for (int i = 0; i < 100 && result == BASE_EBUSY; i++) {
        base_error_clear(&error);
        result = trace_stop_begin(&held->stop, pid, &error);
    }
    must(result, &error);
    must(trace_memory_open(&held->memory, pid, &error), &error);
}

static void inject_into(struct held *held, pid_t pid)
{
    struct base_error error = {0};
    hold(held, pid);
    must(trace_inject_open(&held->inject, &held->stop, &held->memory, &error), &error);
}

static void release(struct held *held)
{
    trace_inject_close(&held->inject);
    trace_memory_close(&held->memory);
    trace_stop_end(&held->stop);
    for (int i = 0; i < 5000 && trace_stop_poll(&held->stop); i++)
        nap_us(1000);
    trace_stop_free(&held->stop);
}

/* --- memory --- */

static void breakpoints_of_others_are_spared(void **state)
{
    static const uint8_t ours[5] = {0xe9, 1, 0xcc, 3, 4}, file[5] = {0x55, 0x48, 0x89, 3, 0x53};
    static const struct {
        uint8_t live[5], from[5], to[5];
        bool fine;
    } cases[] = {
        {{0xe9, 1, 0xcc, 3, 4}, {0xe9, 1, 0xcc, 3, 4}, {0x55, 0x48, 0x89, 3, 0x53}, true},
        {{0xcc, 1, 0xcc, 3, 4}, {0xcc, 1, 0xcc, 3, 4}, {0xcc, 0x48, 0x89, 3, 0x53}, true}, /* it was set */
        {{0x55, 1, 0xcc, 3, 4}, {0x55, 1, 0xcc, 3, 4}, {0x55, 0x48, 0x89, 3, 0x53}, true}, /* and removed */
        {{0xe9, 0xcc, 0xcc, 3, 4}, {0xe9, 0xcc, 0xcc, 3, 4}, {0x55, 0xcc, 0x89, 3, 0x53}, true},
        {{0xcc, 0x48, 0x89, 3, 0x53}, {0xcc, 0x48, 0x89, 3, 0x53}, {0xcc, 0x48, 0x89, 3, 0x53}, true},
        {{0xe9, 7, 0xcc, 3, 4},
         {0xe9, 1, 0xcc, 3, 4},
         {0x55, 0x48, 0x89, 3, 0x53},
         false}, /* another's jump */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t from[5], to[5];
        memcpy(from, ours, sizeof from);
        memcpy(to, file, sizeof to);
        assert_int_equal(trace_memory_spare(cases[i].live, from, to, sizeof from), cases[i].fine);
        assert_memory_equal(from, cases[i].from, sizeof from);
        assert_memory_equal(to, cases[i].to, sizeof to);
    }
}

/* The child's text and data are at the test's own addresses. */
static __attribute__((aligned(4096))) uint8_t data[64 * PAGE] = {1};

enum { LONG_LIST = 12000 }; /* changes: so many are made by several threads */

static struct trace_memory_change *make_changes(size_t count, uint64_t step, uint64_t from)
{
    struct trace_memory_change *changes = calloc(count, sizeof *changes);
    for (size_t i = 0; i < count; i++) {
        changes[i].address = from + step * (count - 1 - i); /* backwards: sorting is theirs */
        changes[i].length = 4 + i % 3;
        memset(changes[i].after, 0xa5, changes[i].length);
        for (size_t j = 0; j < changes[i].length; j++)
            changes[i].before[j] = *(const uint8_t *)(uintptr_t)(changes[i].address + j);
    }
    return changes;
}

static uint64_t text_start(void)
{
    extern char __executable_start, etext;
    return ((uint64_t)(uintptr_t)&etext - (uint64_t)(uintptr_t)&__executable_start > 2 * PAGE)
               ? ((uint64_t)(uintptr_t)&trace_memory_apply & ~(uint64_t)(PAGE - 1))
               : 0;
}

static void check_changes(const struct trace_memory *memory, const struct trace_memory_change *changes,
                          size_t count, bool made)
{
    uint8_t bytes[TRACE_MEMORY_BYTES];
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(trace_memory_read(memory, changes[i].address, bytes, changes[i].length, NULL),
                         BASE_OK);
        assert_memory_equal(bytes, made ? changes[i].after : changes[i].before, changes[i].length);
    }
}

static void apply_and_undo(struct held *held, uint64_t from, uint64_t step, size_t count)
{
    struct base_error error = {0};
    struct trace_memory_change *changes = make_changes(count, step, from);
    for (unsigned way = 0; way < 3; way++) {
        if (way == 1)
            continue; /* on text it only fails over to the next */
        held->memory.way = way;
        uint64_t began = base_clock_now();
        must(trace_memory_apply(&held->memory, changes, count, NULL, &error), &error);
        printf("# %zu changes, %llu bytes apart, written in %llu us%s\n", count, (unsigned long long)step,
               (unsigned long long)(base_clock_now() - began) / 1000, way ? " word by word" : "");
        check_changes(&held->memory, changes, count, true);
        assert_int_equal(trace_memory_apply(&held->memory, changes, count, NULL, NULL), BASE_EBUSY);
        must(trace_memory_undo(&held->memory, changes, count, NULL, &error), &error);
        check_changes(&held->memory, changes, count, false);
        assert_int_equal(trace_memory_undo(&held->memory, changes, count, NULL, NULL), BASE_EBUSY);
    }
    held->memory.way = 0;
    free(changes);
}

static void changes_are_made_and_undone(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 2);
    struct held held;
    hold(&held, child.pid);
    apply_and_undo(&held, (uint64_t)(uintptr_t)data + 4090, 41, 5000); /* some lie across pages */
    apply_and_undo(&held, (uint64_t)(uintptr_t)data + 4090, 7, 5000);
    apply_and_undo(&held, (uint64_t)(uintptr_t)data + 4090, 17, LONG_LIST); /* by several threads */
    apply_and_undo(&held, text_start(), 17, 200);
    apply_and_undo(&held, text_start(), 17, 1);
    assert_int_equal(trace_memory_apply(&held.memory, NULL, 0, NULL, NULL), BASE_OK);
    release(&held);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void a_changed_byte_refuses_all(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    struct trace_child child = trace_child_start(trace_child_busy, 1);
    struct base_error error = {0};
    struct held held;
    hold(&held, child.pid);
    uint64_t from = (uint64_t)(uintptr_t)data;
    struct trace_memory_change *changes = make_changes(COUNT, 101, from);
    uint8_t before[COUNT * 101], after[COUNT * 101], other = 0x77;
    size_t differs = 0;
    must(trace_memory_write(&held.memory, from + 101 * 250 + 2, &other, 1, &error), &error);
    must(trace_memory_read(&held.memory, from, before, sizeof before, &error), &error);
    assert_int_equal(trace_memory_apply(&held.memory, changes, COUNT, &differs, &error), BASE_EBUSY);
    assert_int_equal(differs, 250);
    assert_non_null(strstr(error.text, "nothing was written"));
    assert_int_equal(trace_memory_read(&held.memory, from, after, sizeof after, NULL), BASE_OK);
    assert_memory_equal(before, after, sizeof before);
    changes[7].address = changes[6].address + 1; /* sorted by now */
    assert_int_equal(trace_memory_apply(&held.memory, changes, COUNT, NULL, NULL), BASE_EUSAGE);
    changes[0].length = 0;
    assert_int_equal(trace_memory_apply(&held.memory, changes, COUNT, NULL, NULL), BASE_EUSAGE);
    changes[0].length = TRACE_MEMORY_BYTES + 1;
    assert_int_equal(trace_memory_apply(&held.memory, changes, 1, NULL, NULL), BASE_EUSAGE);
    changes[0] = (struct trace_memory_change){.address = UINT64_MAX - 1, .length = 4};
    assert_int_equal(trace_memory_apply(&held.memory, changes, 1, NULL, NULL), BASE_EUSAGE);
    changes[0] = (struct trace_memory_change){.address = 8, .length = 4};
    assert_true(trace_memory_apply(&held.memory, changes, 1, NULL, NULL) < 0);
    free(changes);
    release(&held);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* The last page is a shared mapping of a file opened for reading: not even a tracer writes there. */
static void check_failed_write(uint8_t *pages, size_t size, uint64_t step)
{
    size_t count = (size - 16) / step;
    struct trace_child child = trace_child_start(trace_child_busy, 1);
    struct base_error error = {0};
    struct held held;
    hold(&held, child.pid);
    uint8_t *before = malloc(size), *after = malloc(size);
    assert_true(before && after);
    uint64_t from = (uint64_t)(uintptr_t)pages;
    struct trace_memory_change *changes = make_changes(count, step, from);
    must(trace_memory_read(&held.memory, from, before, size, &error), &error);
    for (int i = 0; i < 2; i++) { /* the second time they are in order */
        error.text[0] = '\0';
        assert_true(trace_memory_apply(&held.memory, changes, count, NULL, &error) < 0);
        assert_null(strstr(error.text, "cannot be undone")); /* nothing of the last page was written */
        must(trace_memory_read(&held.memory, from, after, size, NULL), &error);
        assert_memory_equal(before, after, size);
    }
    free(changes);
    free(before);
    free(after);
    release(&held);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void a_failed_write_is_undone(void **state)
{
    (void)state;
    static const struct {
        size_t pages;
        uint64_t step;
    } lists[] = {{2, 80}, {LONG_LIST / 128, 31}}; /* the second one is written by several threads */
    int file = open("/proc/self/exe", O_RDONLY);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        size_t size = lists[i].pages * PAGE;
        uint8_t *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint8_t *last = pages + size - PAGE;
        assert_ptr_equal(mmap(last, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0), last);
        check_failed_write(pages, size, lists[i].step);
        munmap(pages, size);
    }
    close(file);
}

/* --- calls --- */

static int share(struct trace_inject *inject, uint64_t address, uint64_t size, int protection, int *file,
                 struct base_error *error)
{
    const struct trace_inject_shared shared = {
        .name = "tally", .address = address, .size = size, .protection = protection};
    return trace_inject_share(inject, &shared, file, error);
}

static uint64_t room_near(const struct held *held, uint64_t size)
{
    struct base_error error = {0};
    struct proc_maps maps = {0};
    struct proc_gap_request request = {text_start(), text_start() + PAGE, size, 0};
    uint64_t address = 0;
    must(trace_inject_maps(&held->inject, &maps, &error), &error);
    must(proc_gap_find(&maps, &request, &address, &error), &error);
    proc_maps_free(&maps);
    assert_true(address + size - request.low < (1ull << 31) || request.high - address < (1ull << 31));
    return address;
}

static void mappings_appear_and_vanish_in(struct trace_child *child, int rounds)
{
    struct base_error error = {0};
    struct held held;
    unsigned before = trace_child_mappings(child->pid);
    for (int i = 0; i < rounds; i++) {
        struct user_regs_struct was, is;
        uint8_t bytes[64], wanted[64];
        inject_into(&held, child->pid);
        must(trace_stop_read(&held.stop, held.inject.tid, &was, &error), &error);
        uint64_t size = (uint64_t)(1 + i % 5) * PAGE, address = room_near(&held, size);
        must(trace_inject_map(&held.inject, address, size, PROT_READ | PROT_WRITE, -1, &error), &error);
        assert_int_equal(trace_inject_map(&held.inject, address, size, PROT_READ, -1, NULL), BASE_EIO);
        memset(wanted, i, sizeof wanted);
        must(trace_memory_write(&held.memory, address + size - 64, wanted, 64, &error), &error);
        must(trace_inject_wipe(&held.inject, address, size, &error), &error);
        must(trace_memory_read(&held.memory, address + size - 64, bytes, 64, &error), &error);
        assert_memory_equal(bytes, wanted, 64);
        assert_true(trace_child_mappings(child->pid) > before);
        must(trace_inject_unmap(&held.inject, address, size, &error), &error);
        must(trace_stop_read(&held.stop, held.inject.tid, &is, &error), &error);
        if (held.stop.delivered == 0)
            assert_memory_equal(&was, &is, sizeof was);
        release(&held);
    }
    assert_int_equal(trace_child_mappings(child->pid), before);
    assert_int_equal(trace_child_tracers(child->pid), 0);
}

static void mappings_appear_and_vanish(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 4);
    mappings_appear_and_vanish_in(&child, 100);
    kill(child.pid, SIGSTOP);
    while (trace_child_state(child.pid) != 'T')
        nap_us(1000);
    mappings_appear_and_vanish_in(&child, 5);
    while (trace_child_state(child.pid) != 'T')
        nap_us(1000);
    kill(child.pid, SIGCONT);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void blocked_threads_make_calls(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_blocked, 0);
    struct base_error error = {0};
    struct held held;
    for (int i = 0; i < 3; i++) {
        hold(&held, child.pid);
        for (size_t j = 0; j < held.stop.count; j++) { /* every thread in turn, whatever it waits for */
            struct trace_stop_thread *thread = &held.stop.threads[j];
            int64_t answer = 0;
            if (thread->state != TRACE_STOP_STOPPED || thread->process != child.pid)
                continue;
            must(trace_inject_open(&held.inject, &held.stop, &held.memory, &error), &error);
            held.inject.tid = thread->tid;
            must(trace_inject_call(&held.inject, "gettid", SYS_gettid, (uint64_t[6]){0}, &answer, &error),
                 &error);
            assert_int_equal(answer, thread->tid);
            trace_inject_close(&held.inject);
        }
        release(&held);
    }
    assert_int_equal(trace_child_finish(&child), 0);
}

/* Mappings of a file of ours, by the requested name. */
static unsigned ours_in(pid_t pid)
{
    char path[64], line[512];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && fgets(line, sizeof line, maps))
        count += strstr(line, "/memfd:tally (deleted)") != NULL;
    assert_non_null(maps);
    fclose(maps);
    return count;
}

/* Several calls in one go, with signals between them. */
static void shared_memory_appears_and_vanishes_in(struct trace_child *child)
{
    struct base_error error = {0};
    struct held held;
    int file = -1;
    inject_into(&held, child->pid);
    uint64_t address = room_near(&held, 3 * PAGE);
    const struct trace_inject_shared shared = {.name = "tally",
                                               .address = address,
                                               .size = 2 * PAGE,
                                               .protection = PROT_READ,
                                               .data = {.size = PAGE}};
    must(trace_inject_share(&held.inject, &shared, &file, &error), &error);
    assert_int_equal(ours_in(child->pid), 2);
    must(trace_inject_unmap(&held.inject, address, 3 * PAGE, &error), &error);
    close(file);
    release(&held);
}

static void signals_come_between(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_signals, 0);
    pid_t sender = fork();
    if (sender == 0) {
        for (int i = 0; i < 1500; i++) {
            while (sigqueue(child.pid, SIGRTMIN, (union sigval){.sival_int = i}))
                nap_us(100);
            nap_us(300);
        }
        _exit(0);
    }
    unsigned descriptors = trace_child_descriptors(child.pid);
    while (waitpid(sender, NULL, WNOHANG) == 0) {
        mappings_appear_and_vanish_in(&child, 1);
        shared_memory_appears_and_vanishes_in(&child);
        assert_int_equal(trace_child_descriptors(child.pid), descriptors);
    }
    for (int i = 0; i < 5000 && atomic_load(&child.shared->signals) < 1500; i++)
        nap_us(1000);
    assert_int_equal(atomic_load(&child.shared->signals), 1500);
    assert_int_equal(trace_child_finish(&child), 0);
}

static int spin_with_signals_ignored(struct trace_child_shared *shared)
{
    sigset_t mask;
    signal(SIGRTMIN, SIG_IGN);
    trace_child_ready(shared);
    while (!atomic_load(&shared->stop)) {
        sigprocmask(SIG_BLOCK, NULL, &mask);
        if (!sigisemptyset(&mask))
            trace_child_wrong(shared, "signals are blocked", 0);
        atomic_fetch_add(&shared->rounds[0], 1);
    }
    return 0;
}

/* More signals than may come before a call: the others stay pending until it is made. A tracer sees ignored
 * signals, too. */
static void more_signals_are_pending_than_may_come_before(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(spin_with_signals_ignored, 0);
    struct base_error error = {0};
    struct held held;
    int64_t answer = 0;
    inject_into(&held, child.pid);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sigqueue(child.pid, SIGRTMIN, (union sigval){.sival_int = i}), 0);
    for (int i = 0; i < 3; i++) {
        must(trace_inject_call(&held.inject, "getpid", SYS_getpid, (uint64_t[6]){0}, &answer, &error),
             &error);
        assert_int_equal(answer, child.pid);
    }
    release(&held);
    unsigned long long before = atomic_load(&child.shared->rounds[0]);
    while (atomic_load(&child.shared->rounds[0]) < before + 1000)
        nap_us(1000);
    assert_int_equal(trace_child_finish(&child), 0);
}

static void memory_is_shared(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(trace_child_busy, 2);
    struct base_error error = {0};
    struct held held;
    unsigned mappings = trace_child_mappings(child.pid), descriptors = trace_child_descriptors(child.pid);
    for (int i = 0; i < 10; i++) {
        int file = -1;
        char theirs[32] = "";
        inject_into(&held, child.pid);
        uint64_t address = room_near(&held, 3 * PAGE);
        must(share(&held.inject, address, 3 * PAGE, PROT_READ | PROT_EXEC, &file, &error), &error);
        char *ours = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        assert_ptr_not_equal(ours, MAP_FAILED);
        snprintf(ours + 2 * PAGE, 32, "seen %d", i);
        must(trace_memory_read(&held.memory, address + 2 * PAGE, theirs, 32, &error), &error);
        assert_string_equal(theirs, ours + 2 * PAGE);
        assert_int_equal(trace_child_descriptors(child.pid), descriptors);
        /* In the way: nothing stays. */
        int none = -1;
        assert_true(share(&held.inject, address, PAGE, PROT_READ, &none, NULL) < 0);
        assert_int_equal(trace_child_descriptors(child.pid), descriptors);
        must(trace_inject_unmap(&held.inject, address, 3 * PAGE, &error), &error);
        munmap(ours, 3 * PAGE);
        close(file);
        release(&held);
    }
    assert_int_equal(trace_child_mappings(child.pid), mappings);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* --- seccomp --- */

static struct sock_filter no_memfd[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static int busy_below_filter(struct trace_child_shared *shared)
{
    struct sock_fprog program = {sizeof no_memfd / sizeof *no_memfd, no_memfd};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 5;
    return trace_child_busy(shared);
}

static void filters_are_checked_first(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(busy_below_filter, 1);
    struct base_error error = {0};
    struct held held;
    int file = -1;
    hold(&held, child.pid);
    int result = trace_inject_open(&held.inject, &held.stop, &held.memory, &error);
    if (result == BASE_EPERMISSION) {
        assert_non_null(strstr(error.text, "not allowed to read"));
        print_message("# filters cannot be read here\n");
    } else {
        must(result, &error);
        uint64_t address = room_near(&held, PAGE);
        assert_int_equal(share(&held.inject, address, PAGE, PROT_READ, &file, &error), BASE_EPERMISSION);
        assert_non_null(strstr(error.text, "forbids memfd_create (it kills"));
        base_error_clear(&error);
        assert_int_equal(trace_inject_map(&held.inject, address, PAGE, PROT_EXEC, -1, &error),
                         BASE_EPERMISSION);
        assert_non_null(strstr(error.text, "forbids mmap (it answers it with an error"));
        base_error_clear(&error);
        must(trace_inject_map(&held.inject, address, PAGE, PROT_READ, -1, &error), &error);
        must(trace_inject_unmap(&held.inject, address, PAGE, &error), &error);
    }
    release(&held);
    assert_int_equal(trace_child_finish(&child), 0);
}

/* In a container: the tracer has filters too, and may not read any. */
static int trace_below_filter(void)
{
    struct trace_child child = trace_child_start(trace_child_busy, 1);
    struct trace_stop stop = {0};
    struct trace_memory memory;
    struct trace_inject inject;
    int file = -1, bad = 0;
    struct base_error error = {0};
    while (trace_stop_begin(&stop, child.pid, NULL) == BASE_EBUSY)
        ;
    bad |= trace_memory_open(&memory, child.pid, NULL) != BASE_OK;
    bad |= 2 * (trace_inject_open(&inject, &stop, &memory, &error) != BASE_OK);
    if (bad)
        return bad;
    bad |= 4 * (share(&inject, 0x7000000, PAGE, PROT_READ, &file, &error) != BASE_EPERMISSION);
    bad |= 8 * !strstr(error.text, "forbids memfd_create");
    bad |= 16 *
           (trace_inject_map(&inject, 0x7000000, PAGE, PROT_EXEC, -1, NULL) != BASE_EPERMISSION); /* EACCES */
    bad |= 32 * (trace_inject_map(&inject, 0x7000000, PAGE, PROT_READ, -1, NULL) != BASE_OK);
    bad |= 64 * (trace_inject_unmap(&inject, 0x7000000, PAGE, NULL) != BASE_OK);
    trace_inject_close(&inject);
    trace_memory_close(&memory);
    trace_stop_end(&stop);
    trace_stop_free(&stop);
    return bad | 128 * (trace_child_finish(&child) != 0);
}

static void in_a_container_filters_are_tried_first(void **state)
{
    (void)state;
    struct sock_fprog program = {sizeof no_memfd / sizeof *no_memfd, no_memfd};
    int status;
    pid_t tracer = fork();
    if (tracer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
            _exit(77);
        _exit(trace_below_filter());
    }
    waitpid(tracer, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* --- restartable sequences --- */

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

/* Spins inside a restartable sequence; only an abort leads out of it. Counts aborts. */
static __attribute__((noinline)) void spin_until_abort(struct rseq *area)
{
    __asm__ volatile("lea 3f(%%rip), %%rax\n"
                     "mov %%rax, %0\n"
                     "1: pause\n"
                     "jmp 1b\n"
                     "2:\n"
                     ".byte 0x0f, 0xb9, 0x3d\n" /* ud1, with the signature as its displacement */
                     ".long 0x53053053\n"
                     "4: movq $0, %0\n"
                     ".pushsection .data.rel.local, \"aw\"\n"
                     ".balign 32\n"
                     "3: .long 0, 0\n"
                     ".quad 1b, 2b - 1b, 4b\n"
                     ".popsection\n"
                     : "+m"(area->rseq_cs)
                     :
                     : "rax", "memory");
}

static int spin_in_sequences(struct trace_child_shared *shared)
{
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    if (__rseq_size == 0)
        atomic_store(&shared->wrong, 1000);
    trace_child_ready(shared);
    while (__rseq_size && !atomic_load(&shared->stop)) {
        spin_until_abort(area);
        atomic_fetch_add(&shared->rounds[0], 1);
    }
    return 0;
}

static void sequences_are_aborted(void **state)
{
    (void)state;
    struct trace_child child = trace_child_start(spin_in_sequences, 0);
    if (atomic_load(&child.shared->wrong)) {
        print_message("# this C library registers no restartable sequences\n");
        atomic_store(&child.shared->wrong, 0);
    } else {
        for (int i = 0; i < 20; i++) {
            unsigned long long before = atomic_load(&child.shared->rounds[0]);
            mappings_appear_and_vanish_in(&child, 1);
            for (int j = 0; j < 5000 && atomic_load(&child.shared->rounds[0]) == before; j++)
                nap_us(1000);
            assert_true(atomic_load(&child.shared->rounds[0]) > before);
        }
    }
    assert_int_equal(trace_child_finish(&child), 0);
}
#else
static void sequences_are_aborted(void **state)
{
    (void)state;
    skip();
}
#endif

/* --- gaps --- */

static int find_gap(const char *text, struct proc_gap_request request, uint64_t *address)
{
    struct proc_maps maps = {0};
    assert_int_equal(proc_maps_parse(text, &maps, NULL), BASE_OK);
    int result = proc_gap_find(&maps, &request, address, NULL);
    proc_maps_free(&maps);
    return result;
}

static void gaps_are_found(void **state)
{
    (void)state;
    uint64_t at;
    /* A program without PIE: below it there is little, above it the heap grows. */
    const char *fixed = "00400000-00500000 r-xp 00000000 08:01 1 /bin/x\n"
                        "00600000-00700000 rw-p 00000000 00:00 0 [heap]\n";
    assert_int_equal(find_gap(fixed, (struct proc_gap_request){0x400000, 0x500000, 0x100000, 0}, &at),
                     BASE_OK);
    assert_int_equal(at, 0x300000);
    assert_int_equal(find_gap(fixed, (struct proc_gap_request){0x400000, 0x500000, 0x3000000, 0}, &at),
                     BASE_OK);
    assert_int_equal(at, 0x40700000);
    assert_int_equal(find_gap(fixed, (struct proc_gap_request){0x400000, 0x500000, 0x7f000000, 0}, &at),
                     BASE_OK);
    assert_int_equal(at, 0x800000); /* the space of the heap, because no other is left */
    assert_int_equal(find_gap(fixed, (struct proc_gap_request){0x400000, 0x500000, 0x80000000, 0}, &at),
                     BASE_ENOTFOUND);
    /* Its heap has not grown yet, and begins right behind it, or so far off that there is room in between. */
    const char *young = "00400000-00500000 r-xp 00000000 08:01 1 /bin/x\n";
    struct proc_gap_request above = {0x400000, 0x500000, 0x3000000, 0x500000};
    assert_int_equal(find_gap(young, above, &at), BASE_OK);
    assert_int_equal(at, 0x40500000);
    above.heap = 0x3400123;
    assert_int_equal(find_gap(young, above, &at), BASE_OK);
    assert_int_equal(at, 0x43401000);
    above.heap = 0x3500123;
    assert_int_equal(find_gap(young, above, &at), BASE_OK);
    assert_int_equal(at, 0x500000);
    above.size = 0x7b000000; /* the space of the heap, because no other is left */
    assert_int_equal(find_gap(young, above, &at), BASE_OK);
    assert_int_equal(at, 0x3601000);
    /* A library with neighbours on both sides. */
    const char *crowded = "7f0000000000-7f0000010000 r-xp 00000000 08:01 1 /lib/a\n"
                          "7f0000011000-7f0000100000 r-xp 00000000 08:01 2 /lib/b\n"
                          "7f0000100000-7f0000200000 r-xp 00000000 08:01 3 /lib/c\n";
    struct proc_gap_request request = {0x7f0000011000, 0x7f0000100000, 1, 0};
    assert_int_equal(find_gap(crowded, request, &at), BASE_OK);
    assert_int_equal(at, 0x7f0000010000);
    request.size = 0x1001;
    assert_int_equal(find_gap(crowded, request, &at), BASE_OK);
    assert_int_equal(at, 0x7f0000000000 - 0x2000);
    request.size = 0;
    assert_int_equal(find_gap(crowded, request, &at), BASE_EUSAGE);
    request.size = UINT64_MAX;
    assert_int_equal(find_gap(crowded, request, &at), BASE_EUSAGE);
    const char *full = "00010000-7ffffffff000 rw-p 00000000 00:00 0\n";
    assert_int_equal(find_gap(full, (struct proc_gap_request){0x400000, 0x500000, 1, 0}, &at),
                     BASE_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_found),
        cmocka_unit_test(changes_are_made_and_undone),
        cmocka_unit_test(a_changed_byte_refuses_all),
        cmocka_unit_test(breakpoints_of_others_are_spared),
        cmocka_unit_test(a_failed_write_is_undone),
        cmocka_unit_test(mappings_appear_and_vanish),
        cmocka_unit_test(blocked_threads_make_calls),
        cmocka_unit_test(signals_come_between),
        cmocka_unit_test(more_signals_are_pending_than_may_come_before),
        cmocka_unit_test(memory_is_shared),
        cmocka_unit_test(filters_are_checked_first),
        cmocka_unit_test(in_a_container_filters_are_tried_first),
        cmocka_unit_test(sequences_are_aborted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
