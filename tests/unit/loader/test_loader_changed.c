/* The agent where somebody else has a hand in it: text that others change, a tally that is killed, programs
 * that forbid something, and a process whose memory says something wrong. */
#include "loader_recording.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "loader.h"
#include "loader_layout.h"
#include "trace_child.h"
#include "wire_agent_control.h"

/* --- text that others change --- */

enum meanwhile { TEXT_IS_READ, TEXT_IS_WRITTEN, TEXT_IS_RUN, DATA_CAME, MEANWHILES };

struct changed {
    struct tally *tally;
    enum meanwhile how;
    uint64_t page;
};

static int change_mapping(void *context, struct loader_agent *agent, struct base_error *error)
{
    static const uint64_t protections[] = {PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC};
    const struct changed *changed = context;
    uint64_t file = (uint64_t)changed->tally->truth_file;
    struct helper_trace_call map = {
        SYS_mmap, {changed->page, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0}, 0, "mmap"};
    struct helper_trace_call protect = {SYS_mprotect, {changed->page, 4096, 0}, 0, "mprotect"};
    bool maps = changed->how == DATA_CAME;
    protect.arguments[2] = protections[maps ? 0 : changed->how];
    struct helper_trace_call *call = maps ? &map : &protect;
    int result = loader_call(agent, call, 1, error);
    assert_int_equal(call->answer, maps ? (int64_t)changed->page : 0);
    return result;
}

/* The program sleeps all the while: of its own text nothing runs. Its file is read-only, and no data of it
 * is there. */
static void test_what_others_made_of_a_hook_keeps_our_memory(void **state)
{
    (void)state;
    for (int how = 0; how < MEANWHILES; how++) {
        struct base_error error = {0};
        struct loader_left left;
        struct trace_memory memory;
        uint8_t byte;
        struct tally tally = loader_test_begin_tally("probe_wrap");
        loader_test_plan(&tally);
        loader_test_begin_loop(&tally, loader_test_targets[0], "sleep", "3600000");
        loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
        uint64_t address = loader_test_hook_of(&tally, "target_label")->address;
        struct changed changed = {&tally, (enum meanwhile)how, address & ~UINT64_C(4095)};
        loader_test_must(loader_visit(tally.agent, &tally.helper, false, change_mapping, &changed, &error),
                         &error);
        loader_test_must(trace_memory_open(&memory, tally.pid, &error), &error);
        loader_test_must(trace_memory_read(&memory, address + 1, &byte, 1, &error), &error);
        byte ^= 0x55; /* where our jump leads */
        loader_test_must(trace_memory_write(&memory, address + 1, &byte, 1, &error), &error);
        trace_memory_close(&memory);
        loader_test_must_leave(&tally, tally.pid, &left);
        assert_int_equal(left.skipped, how != DATA_CAME);
        assert_int_equal(kill(tally.pid, SIGKILL), 0);
        assert_int_equal(waitpid(tally.pid, &tally.status, 0), tally.pid);
        loader_test_finish_tally(&tally);
    }
}

static void change_text(const struct tally *tally, uint64_t address, uint8_t *bytes, size_t size, bool writes)
{
    struct base_error error = {0};
    struct trace_memory memory;
    loader_test_must(trace_memory_open(&memory, tally->pid, &error), &error);
    loader_test_must(writes ? trace_memory_write(&memory, address, bytes, size, &error)
                            : trace_memory_read(&memory, address, bytes, size, &error),
                     &error);
    trace_memory_close(&memory);
}

/* Behind a breakpoint the bytes are the file's again, and of other functions none change; a hook that must
 * stay, stays. */
static void test_hooks_are_removed_for_breakpoints(void **state)
{
    (void)state;
    for (int stays = 0; stays < 2; stays++) {
        struct base_error error = {0};
        struct loader_left left;
        uint8_t before[5], hooked[5], live[5], breakpoint = 0xcc;
        struct tally tally = loader_test_begin_tally("probe_wrap");
        for (size_t i = 0; i < tally.function_count; i++)
            tally.functions[i].stays = stays;
        loader_test_plan(&tally);
        loader_test_begin_loop(&tally, loader_test_targets[0], "sleep", "3600000");
        loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
        const struct loader_hook *hook = loader_test_hook_of(&tally, "target_label");
        loader_test_must_leave(&tally, tally.pid, &left);
        change_text(&tally, hook->address, before, sizeof before, false);
        loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
        hook = loader_test_hook_of(&tally, "target_label");
        change_text(&tally, hook->address, hooked, sizeof hooked, false);
        assert_int_equal(hooked[0], 0xe9);
        assert_false(loader_is_probed(tally.agent));
        assert_int_equal(loader_lift(tally.agent, &tally.helper, false, &error), 0);
        change_text(&tally, hook->address, &breakpoint, 1, true);
        assert_int_equal(loader_is_probed(tally.agent), !stays);
        assert_int_equal(loader_lift(tally.agent, &tally.helper, false, &error), !stays);
        change_text(&tally, hook->address, live, sizeof live, false);
        assert_int_equal(live[0], 0xcc);
        assert_memory_equal(live + 1, stays ? hooked + 1 : before + 1, sizeof live - 1);
        assert_int_equal(hook->state, stays ? LOADER_HOOKED : LOADER_LIFTED);
        assert_int_equal(loader_test_hook_of(&tally, "target_sum")->state, LOADER_HOOKED);
        assert_false(loader_is_probed(tally.agent) && !stays);
        change_text(&tally, hook->address, before, 1, true); /* as the kernel does */
        loader_test_must_leave(&tally, tally.pid, &left);
        assert_int_equal(left.skipped, 0);
        change_text(&tally, hook->address, live, sizeof live, false);
        assert_memory_equal(live, before, sizeof live);
        assert_int_equal(kill(tally.pid, SIGKILL), 0);
        assert_int_equal(waitpid(tally.pid, &tally.status, 0), tally.pid);
        loader_test_finish_tally(&tally);
    }
}

/* --- a tally that is killed --- */

/* In another process; `rounds` is shared. */
static _Noreturn void load_and_leave_for_ever(struct tally *tally, atomic_uint *rounds)
{
    struct base_error error = {0};
    struct loader_left left;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    loader_test_must(helper_begin(&tally->helper, &error), &error);
    for (;;) {
        struct loader_agent *agent = NULL;
        const struct loader_options options = loader_test_options_of(tally);
        loader_load(&tally->helper, tally->pid, false, &options, &agent, NULL);
        loader_free(agent);
        loader_leave(&tally->helper, tally->pid, false, &left, NULL);
        atomic_fetch_add(rounds, 1);
    }
}

static long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Some time after its first round, at any point of a round. */
static void kill_somewhere(pid_t other, const atomic_uint *rounds)
{
    long began = now_us();
    while (atomic_load(rounds) == 0 && now_us() < began + 20000000)
        loader_test_nap_us(200);
    assert_true(atomic_load(rounds) > 0);
    loader_test_nap_us(rand() % (now_us() - began + 1));
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

static void test_tally_may_die_at_any_moment(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct tally tally = loader_test_begin_tally("probe_count");
    struct loader_left left;
    unsigned found = 0;
    atomic_uint *rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    loader_test_plan(&tally);
    loader_test_begin_loop(&tally, loader_test_targets[0], "loop", "3");
    loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error); /* so that all is planned */
    loader_test_must_leave(&tally, tally.pid, &left);
    srand(7);
    for (int i = 0; i < 30; i++) {
        atomic_store(rounds, 0);
        pid_t other = fork();
        if (other == 0)
            load_and_leave_for_ever(&tally, rounds);
        kill_somewhere(other, rounds);
        assert_true(trace_child_is_free(tally.pid));
        loader_test_must_leave(&tally, tally.pid, &left);
        found += left.mappings != 0;
        assert_int_equal(left.bytes_left, 0);
        assert_int_equal(loader_test_ours_in(tally.pid, NULL), 0);
    }
    print_message("# left behind, and removed: %u of 30\n", found);
    assert_true(found > 0);
    munmap(rounds, 4096);
    loader_test_end(&tally);
    loader_test_finish_tally(&tally);
}

/* --- refusals: a message, and a program as it was --- */

static void begin_constrained(struct tally *tally, const char *target, bool (*constrain)(void))
{
    *tally = loader_test_begin_tally("probe_count");
    tally->constrain = constrain;
    loader_test_plan(tally);
    loader_test_begin_loop(tally, target, "loop", "2");
}

static void must_be_refused(struct tally *tally, int code, const char *words)
{
    struct base_error error = {0};
    unsigned before, after;
    loader_test_nap_us(30000); /* what it maps itself at its start */
    loader_test_ours_in(tally->pid, &before);
    int result = loader_test_load(tally, tally->pid, false, &error);
    if (result != code || !strstr(error.text, words))
        print_message("# %d: %s\n", result, error.text);
    assert_int_equal(result, code);
    assert_non_null(strstr(error.text, words));
    loader_test_ours_in(tally->pid, &after);
    assert_int_equal(after, before);
    assert_true(trace_child_is_free(tally->pid));
}

static bool forbid(unsigned call, uint32_t answer, unsigned argument, uint32_t bits)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * argument)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static bool without_memory_files(void)
{
    return forbid(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS, 1, ~0u);
}

static bool without_new_code(void)
{
    return forbid(SYS_mmap, SECCOMP_RET_ERRNO | EPERM, 2, PROT_EXEC);
}

static bool with_little_space(void)
{
    return !setrlimit(RLIMIT_AS, &(struct rlimit){128 << 20, 128 << 20});
}

static bool with_no_writable_code(void)
{
    prctl(65 /* PR_SET_MDWE, Linux 6.3; elsewhere a program like any other */, 1, 0, 0, 0);
    return true;
}

static const char *static_target(void)
{
    for (int i = 0; i < loader_test_target_count; i++)
        if (strlen(loader_test_targets[i]) > 7 &&
            !strcmp(loader_test_targets[i] + strlen(loader_test_targets[i]) - 7, "_static"))
            return loader_test_targets[i];
    return loader_test_targets[0];
}

static void test_what_a_program_forbids_is_said(void **state)
{
    (void)state;
    struct tally tally;
    begin_constrained(&tally, loader_test_targets[0], without_memory_files);
    must_be_refused(&tally, BASE_EPERMISSION, "memfd_create");
    loader_test_end(&tally);
    loader_test_finish_tally(&tally);
    begin_constrained(&tally, static_target(), without_new_code);
    must_be_refused(&tally, BASE_EUNSUPPORTED, "may not execute new memory");
    loader_test_end(&tally);
    loader_test_finish_tally(&tally);
    begin_constrained(&tally, static_target(), with_little_space);
    tally.large = true;
    must_be_refused(&tally, BASE_ENOMEM, "ulimit -v");
    loader_test_end(&tally);
    loader_test_finish_tally(&tally);
}

static void test_forbidding_writable_code_is_no_hindrance(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct loader_left left;
    struct tally tally;
    begin_constrained(&tally, loader_test_targets[0], with_no_writable_code);
    loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
    loader_test_wait_for_more(&tally);
    loader_test_must_leave(&tally, tally.pid, &left);
    assert_int_equal(left.bytes_left, 0);
    loader_test_end(&tally);
    loader_test_finish_tally(&tally);
}

/* Addresses that tables may need later are not mapped. */
static void test_a_limit_of_addresses_is_no_hindrance(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct loader_left left;
    struct tally tally;
    begin_constrained(&tally, static_target(), with_little_space);
    loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
    loader_test_wait_for_more(&tally);
    loader_test_must_leave(&tally, tally.pid, &left);
    assert_int_equal(left.bytes_left, 0);
    assert_int_equal(loader_test_ours_in(tally.pid, NULL), 0);
    loader_test_end(&tally);
    loader_test_finish_tally(&tally);
}

static void test_others_who_are_there_are_named(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct loader_left left;
    struct tally tally;
    begin_constrained(&tally, loader_test_targets[0], NULL);
    assert_int_equal(ptrace(PTRACE_SEIZE, tally.pid, 0, 0), 0);
    assert_int_equal(loader_test_load(&tally, tally.pid, false, &error), BASE_EBUSY);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, tally.pid, 0, 0), 0);
    assert_int_equal(waitpid(tally.pid, &tally.status, __WALL), tally.pid);
    assert_int_equal(ptrace(PTRACE_DETACH, tally.pid, 0, 0), 0);
    base_error_clear(&error);
    tally.refuses = true;
    must_be_refused(&tally, BASE_EFORMAT, "nothing doing");
    tally.refuses = false;
    loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
    must_be_refused(&tally, BASE_EBUSY, "is being recorded by tally");
    loader_test_wait_for_more(&tally);
    ((struct wire_agent_control *)(void *)tally.region)->tally_pid =
        0; /* as if no tally had loaded it: it is removed */
    loader_test_must(loader_test_load(&tally, tally.pid, false, &error), &error);
    loader_test_wait_for_more(&tally);
    loader_test_must_leave(&tally, tally.pid, &left);
    assert_true(left.mappings > 0);
    assert_int_equal(left.bytes_left, 0);
    loader_test_must_leave(&tally, tally.pid, &left); /* nothing is there, nothing happens */
    assert_int_equal(left.mappings + left.places, 0);
    loader_test_end(&tally);
    assert_int_equal(loader_test_load(&tally, tally.pid, false, NULL), BASE_ENOTFOUND);
    loader_test_finish_tally(&tally);
}

/* --- a process whose memory says something wrong --- */

static uint8_t *lie(uint64_t magic)
{
    int file = memfd_create(LOADER_NAME, MFD_CLOEXEC);
    if (ftruncate(file, 65536))
        return NULL;
    uint64_t *words = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (int i = 0; i < 65536 / 8; i++)
        words[i] = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 12 ^ (uint64_t)rand();
    words[0] = magic;
    words[1] = LOADER_VERSION | 0xffffff00ull << 32;
    uint8_t *there = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    struct loader_home *home = (void *)words;
    if (magic == LOADER_HOME) {
        home->version = LOADER_VERSION;
        home->count = 3;
        home->ranges[0] = (struct loader_own_range){(uint64_t)(uintptr_t)there, 4096, 1, 0};
        home->ranges[1] = (struct loader_own_range){0x10000, ~0ull << 12, 0, 0};
        home->ranges[2] = (struct loader_own_range){(uint64_t)(uintptr_t)words, ~0ull, 0, 0};
    }
    close(file);
    munmap(words, 65536);
    return there;
}

static int run_liar(struct trace_child_shared *shared)
{
    volatile uint64_t kept[512];
    srand((unsigned)getpid());
    for (int i = 0; i < 3; i++)
        if (!lie(LOADER_SLAB) || !lie(LOADER_HOME) || !lie((uint64_t)rand()))
            return 3;
    for (unsigned i = 0; i < 512; i++)
        kept[i] = i;
    trace_child_ready(shared);
    while (!atomic_load(&shared->stop))
        loader_test_nap_us(1000);
    for (unsigned i = 0; i < 512; i++)
        if (kept[i] != i)
            trace_child_wrong(shared, "memory", (long)i);
    return 0;
}

static void test_wrong_memory_does_no_harm(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct helper helper;
    loader_test_must(helper_begin(&helper, &error), &error);
    for (int i = 0; i < 5; i++) {
        struct loader_left left;
        struct trace_child child = trace_child_start(run_liar, 0);
        loader_test_must(loader_leave(&helper, child.pid, false, &left, &error), &error);
        assert_true(left.mappings >= 9);
        assert_int_equal(left.places, 0);
        assert_int_equal(trace_child_finish(&child), 0);
    }
    helper_end(&helper);
}

int main(int argc, char **argv)
{
    if (argc < 4 || !loader_test_open_probe(argv[1]))
        return 2;
    loader_test_library = argv[2];
    loader_test_targets = argv + 3;
    loader_test_target_count = argc - 3;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_others_made_of_a_hook_keeps_our_memory),
        cmocka_unit_test(test_hooks_are_removed_for_breakpoints),
        cmocka_unit_test(test_tally_may_die_at_any_moment),
        cmocka_unit_test(test_what_a_program_forbids_is_said),
        cmocka_unit_test(test_forbidding_writable_code_is_no_hindrance),
        cmocka_unit_test(test_a_limit_of_addresses_is_no_hindrance),
        cmocka_unit_test(test_others_who_are_there_are_named),
        cmocka_unit_test(test_wrong_memory_does_no_harm),
    };
    int result = cmocka_run_group_tests(tests, NULL, NULL);
    loader_image_close(loader_test_probe);
    return result;
}
