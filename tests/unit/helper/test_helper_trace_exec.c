/* Images from their first instruction on: vfork, posix_spawn and exec, and what is mapped into them. */
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_session.h"
#include "trace_child.h"
#include "trace_inject.h"

/* --- new processes --- */

static char self[] = "/proc/self/exe", image_option[] = "--image", chain_option[] = "--chain",
            chain_length[] = "60";
static char *const image[] = {self, image_option, NULL};

static int vforks(void)
{
    volatile int sum = 0; /* vfork() returns twice into this frame */
    for (volatile int i = 0; i < 20; i++) {
        int status;
        pid_t pid = vfork();
        if (pid == 0) {
            execv(image[0], image);
            _exit(1);
        }
        if (waitpid(pid, &status, 0) != pid || status != 42 << 8)
            return 1;
        sum++;
    }
    return sum;
}

static int spawns(void)
{
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t pid;
        if (posix_spawn(&pid, image[0], NULL, NULL, image, environ) || waitpid(pid, &status, 0) != pid ||
            status != 42 << 8)
            return 1;
        sum++;
    }
    return sum;
}

static void follow_images(int (*function)(void))
{
    struct helper_session tally = helper_session_begin();
    pid_t pid = helper_session_start(&tally, function, 0);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 20 << 8);
    assert_int_equal(tally.kinds[TRACE_VFORK], 20);
    assert_int_equal(tally.kinds[TRACE_EXEC], 20);
    assert_int_equal(tally.kinds[TRACE_FORK], 0);
    assert_int_equal(tally.kinds[TRACE_END], 21);
    assert_int_equal(tally.last[TRACE_VFORK].parent, pid);
    helper_session_finish(&tally);
}

static void vfork_and_exec(void **state)
{
    (void)state;
    follow_images(vforks);
}

static void posix_spawns(void **state)
{
    (void)state;
    follow_images(spawns);
}

static int vfork_child_naps(void)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        for (int i = 0; i < 200; i++) {
            atomic_fetch_add(&helper_session_truth->beats, 1);
            helper_session_nap_us(2000);
        }
        _exit(helper_session_own_gs() != 0);
    }
    if (!helper_session_number_of(helper_session_own_gs()) ||
        helper_session_own_gs() != atomic_load(&helper_session_truth->value))
        helper_session_wrong("gs base set in the kernel", helper_session_own_gs());
    return waitpid(pid, &status, 0) == pid ? 10 + WEXITSTATUS(status) : 1;
}

static void a_vfork_child_is_held_with_its_parent(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct trace_stop_thread *threads = NULL;
    size_t count = 0;
    pid_t pid = helper_session_start(&tally, vfork_child_naps, 0);
    helper_session_work_until(&tally, TRACE_VFORK, 1);
    while (atomic_load(&helper_session_truth->beats) < 5)
        helper_session_work(&tally, 1);
    helper_session_hold(&tally, pid);
    unsigned long long beats = atomic_load(&helper_session_truth->beats);
    helper_session_must(helper_trace_threads(&tally.helper, pid, &threads, &count, &error), &error);
    assert_int_equal(count, 2);
    unsigned asleep = 0;
    uint64_t gs = helper_session_new_gs(&tally);
    atomic_store(&helper_session_truth->value, gs);
    for (size_t i = 0; i < count; i++)
        if (threads[i].state == TRACE_STOP_KERNEL) {
            asleep++;
            assert_int_equal(threads[i].tid, pid);
            assert_true(threads[i].pc && threads[i].sp);
            helper_session_must(helper_trace_set_gs(&tally.helper, pid, gs, &error), &error);
        }
    assert_int_equal(asleep, 1);
    free(threads);
    helper_session_nap_us(30000);
    assert_int_equal(atomic_load(&helper_session_truth->beats), beats);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 11 << 8);
    helper_session_finish(&tally);
}

/* The child until it is woken, the parent until it is woken again. */
static int vfork_child_waits(void)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        while (!atomic_load(&helper_session_truth->beats))
            helper_session_nap_us(1000);
        _exit(1);
    }
    if (waitpid(pid, &status, 0) != pid)
        return 1;
    while (!atomic_load(&helper_session_truth->value))
        helper_session_nap_us(1000);
    return 10 + WEXITSTATUS(status);
}

static void wake_in_a_moment(void)
{
    if (fork())
        return;
    helper_session_nap_us(100000);
    atomic_store(&helper_session_truth->beats, 1);
    _exit(0);
}

/* A thread that is being left, but still sleeps in the kernel, is traced until it wakes: another stop by the
 * same helper waits for that. */
static void a_process_that_is_being_left_can_be_stopped(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct helper_stopped stopped;
    pid_t pid = helper_session_start(&tally, vfork_child_waits, 0);
    helper_session_work_until(&tally, TRACE_VFORK, 1);
    helper_session_must(helper_trace_leave(&tally.helper, tally.last[TRACE_VFORK].pid, &error), &error);
    helper_session_must(helper_trace_leave(&tally.helper, pid, &error), &error);
    assert_true(trace_child_tracers(pid) > 0);
    wake_in_a_moment();
    helper_session_must(helper_stop(&tally.helper, pid, &stopped, &error), &error);
    assert_int_equal(stopped.threads, 1);
    helper_session_must(helper_resume(&tally.helper, &stopped, &error), &error);
    assert_int_equal(stopped.lingering, 0);
    atomic_store(&helper_session_truth->value, 1);
    assert_int_equal(helper_session_wait_for(pid), 11 << 8);
    wait(NULL);
    helper_session_finish(&tally);
}

/* --- execs --- */

static void *exec_it(void *argument)
{
    (void)argument;
    helper_session_take_own();
    helper_session_nap_us(5000);
    execv(image[0], image);
    return NULL;
}

static int exec_by_another(void)
{
    pthread_t threads[6];
    for (int i = 0; i < 5; i++)
        pthread_create(&threads[i], NULL, helper_session_live, (void *)(intptr_t)10000000);
    pthread_create(&threads[5], NULL, exec_it, NULL);
    pthread_join(threads[5], NULL);
    return 1;
}

static void another_thread_may_exec(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct helper_session tally = helper_session_begin();
        pid_t pid = helper_session_start(&tally, exec_by_another, 10);
        helper_session_work_until_ended(&tally, pid);
        assert_int_equal(helper_session_wait_for(pid), 42 << 8);
        assert_int_equal(tally.kinds[TRACE_EXEC], 1);
        assert_int_equal(tally.last[TRACE_EXEC].pid, pid);
        assert_int_equal(tally.last[TRACE_EXEC].tid, pid);
        assert_int_equal(tally.kinds[TRACE_CREATED], 6);
        assert_int_equal(tally.kinds[TRACE_EXITED], 8); /* seven before the exec, and the last */
        helper_session_finish(&tally);
    }
}

static char *const chain[] = {self, chain_option, chain_length, NULL};

static int begin_chain(void)
{
    execv(chain[0], chain);
    return 1;
}

/* Held and released while it becomes one image after the other. */
static void holds_meet_execs(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    unsigned seed = 7, held = 0, refused = 0;
    pid_t pid = helper_session_start(&tally, begin_chain, 4);
    for (int i = 0; i < 20000 && tally.ended != pid; i++) {
        base_error_clear(&error);
        int result = helper_trace_hold(&tally.helper, pid, NULL, &error);
        held += result == BASE_OK;
        refused += result == BASE_ENOTFOUND;
        if (result == BASE_OK && helper_trace_release(&tally.helper, pid, NULL, &error) < 0 &&
            tally.ended != pid)
            refused++;
        helper_session_work(&tally, 0);
        helper_session_nap_us(rand_r(&seed) % 300);
    }
    helper_session_work_until_ended(&tally, pid);
    printf("# %u holds, %u refused\n", held, refused);
    assert_int_equal(helper_session_wait_for(pid), 42 << 8);
    assert_int_equal(tally.kinds[TRACE_EXEC], 61);
    assert_true(held > 0);
    helper_session_finish(&tally);
}

static int exec_at_once(void)
{
    execv(image[0], image);
    return 1;
}

/* Code is mapped next to what it is for, on whichever side; the data lies beyond it, and last in the
 * file. */
static void data_lies_beyond_code(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct user_regs_struct registers;
    uint64_t address = 0, size = HELPER_SESSION_PAGE, word = 0;
    int file = -1;
    tally.keep_held = true;
    pid_t pid = helper_session_start(&tally, exec_at_once, 0);
    helper_session_work_until(&tally, TRACE_EXEC, 1);
    helper_session_must(helper_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
    uint64_t near = registers.rip & ~(size - 1);
    struct helper_room room = {.low = near,
                               .high = near + size,
                               .size = size,
                               .protection = PROT_READ | PROT_EXEC,
                               .data = 2 * size,
                               .data_first = true};
    helper_session_must(helper_trace_share(&tally.helper, pid, &room, &address, &file, &error), &error);
    uint64_t data = address < near ? address - 2 * size : address + size;
    assert_int_equal(pwrite(file, "code", 4, 0), 4);
    helper_session_must(helper_trace_read(&tally.helper, pid, address, &word, 4, &error), &error);
    assert_memory_equal(&word, "code", 4);
    helper_session_must(helper_trace_write(&tally.helper, pid, data, "data", 5, &error), &error);
    helper_session_must(helper_trace_write(&tally.helper, pid, data + 2 * size - 5, "last", 5, &error),
                        &error);
    assert_int_equal(pread(file, &word, 4, (off_t)size), 4);
    assert_memory_equal(&word, "data", 4);
    assert_int_equal(pread(file, &word, 4, (off_t)(3 * size - 5)), 4);
    assert_memory_equal(&word, "last", 4);
    helper_session_must(helper_trace_unmap(&tally.helper, pid, address, size, &error), &error);
    helper_session_must(helper_trace_unmap(&tally.helper, pid, data, 2 * size, &error), &error);
    close(file);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 42 << 8);
    helper_session_finish(&tally);
}

static bool is_there(struct helper_session *tally, pid_t pid, uint64_t address, const char *text)
{
    char read[16] = "";
    return helper_trace_read(&tally->helper, pid, address, read, strlen(text) + 1, NULL) == BASE_OK &&
           strcmp(read, text) == 0;
}

/* Two pieces in three pages; `second`: which page the second one is. */
static int share_two(struct helper_session *tally, pid_t pid, uint64_t address, uint64_t second, int *file)
{
    const uint64_t size = HELPER_SESSION_PAGE;
    const struct trace_inject_piece pieces[] = {{0, 0, size, 0}, {second * size, size, size, 0}};
    const struct trace_inject_shared shared = {
        .name = "tally", .address = address, .size = 2 * size, .pieces = pieces, .piece_count = 2};
    return helper_trace_share_pieces(&tally->helper, pid, &shared, file, NULL);
}

/* No descriptor can be had from here on; returns the limit as it was. */
static struct rlimit forbid_descriptors(void)
{
    struct rlimit limit;
    int least = dup(1);
    assert_true(least >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    close(least);
    struct rlimit none = {(rlim_t)least, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return limit;
}

/* Of pieces that cannot be mapped, or whose file cannot be opened, none stays; and other mappings in their
 * place stay. */
static void pieces_change_no_other_mapping(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct user_regs_struct registers;
    const uint64_t size = HELPER_SESSION_PAGE;
    uint64_t address = 0;
    char byte;
    int file = -1;
    tally.keep_held = true;
    pid_t pid = helper_session_start(&tally, exec_at_once, 0);
    helper_session_work_until(&tally, TRACE_EXEC, 1);
    helper_session_must(helper_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
    uint64_t near = registers.rip & ~(size - 1);
    struct helper_room room = {
        .low = near, .high = near + size, .size = 3 * size, .protection = PROT_READ | PROT_WRITE};
    helper_session_must(helper_trace_map(&tally.helper, pid, &room, &address, &error), &error);
    helper_session_must(helper_trace_write(&tally.helper, pid, address + 2 * size, "theirs", 7, &error),
                        &error);
    helper_session_must(helper_trace_unmap(&tally.helper, pid, address, 2 * size, &error), &error);
    assert_int_equal(share_two(&tally, pid, address, 2, &file), BASE_EIO);
    assert_true(is_there(&tally, pid, address + 2 * size, "theirs"));
    assert_true(helper_trace_read(&tally.helper, pid, address, &byte, 1, NULL) < 0);
    struct rlimit limit = forbid_descriptors();
    int result = share_two(&tally, pid, address, 1, &file);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(result, BASE_EIO);
    assert_int_equal(file, -1);
    for (uint64_t page = 0; page < 2; page++)
        assert_true(helper_trace_read(&tally.helper, pid, address + page * size, &byte, 1, NULL) < 0);
    assert_int_equal(share_two(&tally, pid, address, 1, &file), BASE_OK);
    assert_int_equal(pwrite(file, "ours", 5, (off_t)size), 5);
    assert_true(is_there(&tally, pid, address + size, "ours"));
    assert_true(is_there(&tally, pid, address + 2 * size, "theirs"));
    close(file);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 42 << 8);
    helper_session_finish(&tally);
}

static void calls_are_injected_into_a_new_image(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    struct base_error error = {0};
    struct user_regs_struct registers;
    uint64_t address = 0;
    int file = -1;
    tally.keep_held = true;
    pid_t pid = helper_session_start(&tally, exec_at_once, 0);
    helper_session_work_until(&tally, TRACE_EXEC, 1);
    helper_session_must(helper_trace_read_registers(&tally.helper, pid, pid, &registers, &error), &error);
    assert_int_equal(tally.last[TRACE_EXEC].flags, 0);
    struct helper_room room = {.low = registers.rip & ~(uint64_t)(HELPER_SESSION_PAGE - 1),
                               .high = (registers.rip | (HELPER_SESSION_PAGE - 1)) + 1,
                               .size = HELPER_SESSION_PAGE,
                               .protection = PROT_READ | PROT_WRITE};
    helper_session_must(helper_trace_map(&tally.helper, pid, &room, &address, &error), &error);
    helper_session_must(helper_trace_write(&tally.helper, pid, address, "abc", 4, &error), &error);
    helper_session_must(helper_trace_share(&tally.helper, pid, &room, &address, &file, &error), &error);
    helper_session_must(helper_trace_unmap(&tally.helper, pid, address, HELPER_SESSION_PAGE, &error), &error);
    close(file);
    helper_session_hold(&tally, pid);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    helper_session_release(&tally, pid);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 42 << 8);
    helper_session_finish(&tally);
}

int main(int argc, char **argv)
{
    if (!helper_session_main(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vfork_and_exec),
        cmocka_unit_test(posix_spawns),
        cmocka_unit_test(a_vfork_child_is_held_with_its_parent),
        cmocka_unit_test(a_process_that_is_being_left_can_be_stopped),
        cmocka_unit_test(another_thread_may_exec),
        cmocka_unit_test(holds_meet_execs),
        cmocka_unit_test(data_lies_beyond_code),
        cmocka_unit_test(pieces_change_no_other_mapping),
        cmocka_unit_test(calls_are_injected_into_a_new_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
