/* test_stub_doorbell.c - what the doorbell does to threads that notify while a partner process answers, does
 * not answer, or is gone; at last in this machine's own ld.so. Its bytes: test_stub_doorbell_bytes.c.
 *
 *     test_stub_doorbell LIBRARY      (something to dlopen) */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "plan_elf.h"
#include "proc_refuse.h"
#include "stub_bytes.h"
#include "stub_harness.h"
#include "stub_x86_64_doorbell.h"

#define THREADS       8
#define NOTIFICATIONS 200

static const char *library;

/* --- live --- */

static uint8_t *place;              /* the code */
static struct stub_doorbell *words; /* shared with children */

static int set_up(void **state)
{
    (void)state;
    place = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    words = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return place == MAP_FAILED || words == MAP_FAILED ? -1 : 0;
}

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static void put_doorbell(uint8_t *at, uint32_t timeout, uint32_t rounds)
{
    struct stub_x86_64_code code;
    struct stub_x86_64_doorbell doorbell = {address_of(words), timeout, rounds,
                                            offsetof(struct stub_doorbell, active)};
    stub_x86_64_code_begin(&code, address_of(at));
    stub_x86_64_doorbell(&code, &doorbell);
    assert_int_equal(code.refused, STUB_FINE);
    memcpy(at, code.bytes, code.size);
    *words = (struct stub_doorbell){.active = 1};
}

static void notify(void)
{
    ((void (*)(void))(uintptr_t)place)();
}

static uint32_t load(uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static void wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* The partner: answers until `notified` has come to `last`, then leaves as tally does. */
static void answer_until(uint32_t last)
{
    uint32_t seen = load(&words->answered);
    while (seen != last) {
        syscall(SYS_futex, &words->notified, FUTEX_WAIT, seen, NULL, NULL, 0);
        seen = load(&words->notified);
        store(&words->answered, seen);
        wake(&words->answered);
    }
    store(&words->active, 0);
    wake(&words->answered);
}

static pid_t start_partner(uint32_t last)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        answer_until(last);
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

static void ends_well(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void *notify_often(void *argument)
{
    uint32_t *early = argument;
    for (unsigned i = 0; i < NOTIFICATIONS; i++) {
        uint32_t before = load(&words->notified);
        notify();
        /* A thread that comes back has been answered: at least its own notification. */
        if ((int32_t)(load(&words->answered) - (before + 1)) < 0)
            (*early)++;
    }
    return NULL;
}

/* `notified` begins just below its end and wraps around. */
static void threads_wait_for_the_answer(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    uint32_t early[THREADS] = {0}, start = UINT32_MAX - 300;
    put_doorbell(place, 60000, 10);
    words->notified = words->answered = start;
    pid_t partner = start_partner(start + THREADS * NOTIFICATIONS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, notify_often, &early[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ends_well(partner);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(early[i], 0);
    assert_int_equal(words->notified, start + THREADS * NOTIFICATIONS);
    assert_int_equal(words->answered, words->notified);
    assert_int_equal(words->waiting, 0);
    assert_int_equal(words->active, 0);
}

/* call doorbell; call stub_harness_seen; to stub_harness_leave */
static void put_caller(uint8_t *at)
{
    uint64_t seen = address_of(stub_harness_seen), leave = address_of(stub_harness_leave);
    stub_bytes_read("e8 00 00 00 00 ff 15 06 00 00 00 ff 25 08 00 00 00", at, 17);
    int32_t distance = (int32_t)(place - (at + 5));
    memcpy(at + 1, &distance, 4);
    memcpy(at + 17, &seen, 8);
    memcpy(at + 25, &leave, 8);
}

static void registers_are_kept_at(const uint8_t *caller)
{
    for (unsigned i = 0; i < 16; i++) {
        stub_harness_in.general[i] = 0x1111111111111111u * i + 0x0123456789abcdefu;
        stub_harness_in.vector[i][0] = 0x0101010101010101u * i;
        stub_harness_in.vector[i][1] = ~stub_harness_in.vector[i][0];
    }
    stub_harness_in.flags = 0x8d7; /* carry, parity, adjust, zero, sign, overflow */
    stub_harness_in.entry = address_of(caller);
    memset(&stub_harness_out, 0, sizeof stub_harness_out);
    stub_harness_enter();
    assert_int_equal(stub_harness_out.times, 1);
    for (unsigned i = 0; i < 16; i++)
        if (i != 4)
            assert_int_equal(stub_harness_out.general[i], stub_harness_in.general[i]);
    assert_int_equal(stub_harness_out.general[4], stub_harness_in.host_sp - 8);
    assert_int_equal(stub_harness_out.flags & 0x8d7, 0x8d7);
    assert_memory_equal(stub_harness_out.vector, stub_harness_in.vector, sizeof stub_harness_in.vector);
}

static void registers_and_flags_come_back(void **state)
{
    (void)state;
    put_doorbell(place, 60000, 10);
    put_caller(place + 0x800);
    pid_t partner = start_partner(1);
    registers_are_kept_at(place + 0x800);
    ends_well(partner);
    assert_int_equal(words->notified, 1);
    registers_are_kept_at(place + 0x800); /* nobody listens: no notification */
    assert_int_equal(words->notified, 1);
    put_doorbell(place, 1, 2); /* and by way of a partner that is dead */
    registers_are_kept_at(place + 0x800);
    assert_int_equal(words->notified, 1);
    assert_int_equal(words->active, 0);
}

/* A function that adds its first two arguments, entered by way of its stub; only the number 435 notifies. */
static void a_function_that_creates_does_what_it_did(void **state)
{
    (void)state;
    static const uint8_t adds[] = {0x48, 0x89, 0xf8, 0x48,
                                   0x01, 0xf0, 0xc3}; /* mov rax, rdi; add rax, rsi; ret */
    static const uint32_t numbers[] = {56, 435};
    uint8_t *function = place + 0x400, *stub = place + 0x600;
    struct stub_x86_64_code code;
    struct stub_x86_64_doorbell doorbell = {address_of(words), 60000, 10,
                                            offsetof(struct stub_doorbell, creations)};
    stub_x86_64_code_begin(&code, address_of(place));
    stub_x86_64_doorbell(&code, &doorbell);
    memcpy(place, code.bytes, code.size);
    memcpy(function, adds, sizeof adds);
    struct stub_x86_64_creation creation = {address_of(function), address_of(place), adds, 6, 7, numbers, 2};
    stub_x86_64_code_begin(&code, address_of(stub));
    stub_x86_64_doorbell_stub(&code, &creation);
    assert_int_equal(code.refused, STUB_FINE);
    memcpy(stub, code.bytes, code.size);
    assert_true(stub_x86_64_doorbell_bytes(address_of(function), address_of(stub), function));
    uint64_t (*add)(uint64_t, uint64_t) = (uint64_t(*)(uint64_t, uint64_t))(uintptr_t)function;
    *words = (struct stub_doorbell){.active = 1};
    assert_int_equal(add(435, 7), 442); /* the doorbell is disabled */
    assert_int_equal(words->notified, 0);
    *words = (struct stub_doorbell){.creations = 1};
    assert_int_equal(add(434, 7), 441);
    assert_int_equal(words->notified, 0);
    pid_t partner = start_partner(2);
    assert_int_equal(add(435, 8), 443);
    assert_int_equal(words->notified, 1);
    words->creations = 1;
    assert_int_equal(add(56, UINT64_MAX), 55);
    assert_int_equal(words->notified, 2);
    ends_well(partner);
    doorbell.timeout = 1, doorbell.rounds = 2; /* a partner that is dead */
    stub_x86_64_code_begin(&code, address_of(place));
    stub_x86_64_doorbell(&code, &doorbell);
    memcpy(place, code.bytes, code.size);
    *words = (struct stub_doorbell){.active = 1, .creations = 1};
    assert_int_equal(add(56, 1), 57);
    assert_int_equal(words->creations, 0);
    assert_int_equal(words->active, 1);
    assert_int_equal(words->waiting, 0);
}

static void a_dead_partner_does_not_hold_anybody(void **state)
{
    (void)state;
    put_doorbell(place, 3, 4);
    alarm(60);
    notify();
    alarm(0);
    assert_int_equal(words->active, 0);
    assert_int_equal(words->notified, 1);
    assert_int_equal(words->waiting, 0);
    put_doorbell(place, 60000, 0); /* does not wait at all */
    notify();
    assert_int_equal(words->active, 0);
    put_doorbell(place, 60000, 10); /* answered before it was notified */
    words->answered = 1;
    notify();
    assert_int_equal(words->active, 1);
}

static uint64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

enum { BEATS = 40, BEAT_MS = 20, PATIENCE_MS = 500 };

/* The partner: works for longer than a thread waits, and beats. Its status is 1 if it had no processor for so
 * long that the thread gave up. */
static _Noreturn void beat(bool answers)
{
    uint64_t last = now_ms(), longest = 0;
    alarm(60);
    while (load(&words->waiting) == 0) {
        sched_yield();
        last = now_ms();
    }
    for (unsigned i = 0; i < BEATS + (answers ? 1u : 0u); i++) {
        usleep(i < BEATS ? BEAT_MS * 1000 : 0);
        if (i < BEATS)
            __atomic_add_fetch(&words->beats, 1, __ATOMIC_SEQ_CST);
        else {
            store(&words->answered, load(&words->notified));
            wake(&words->answered);
        }
        uint64_t now = now_ms();
        longest = now - last > longest ? now - last : longest;
        last = now;
    }
    _exit(longest > PATIENCE_MS / 2);
}

/* 1: the partner had no processor for too long. */
static int notify_while_it_beats(bool answers)
{
    int status = -1;
    put_doorbell(place, PATIENCE_MS / 10, 10);
    words->beats = UINT32_MAX; /* it wraps around */
    pid_t partner = fork();
    if (partner == 0)
        beat(answers);
    alarm(60);
    notify();
    alarm(0);
    uint32_t beats = load(&words->beats), active = load(&words->active);
    assert_int_equal(waitpid(partner, &status, 0), partner);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
        return 1;
    assert_int_equal(status, 0);
    assert_int_equal(beats, BEATS - 1);
    assert_int_equal(active, answers);
    assert_int_equal(words->waiting, 0);
    return 0;
}

/* A partner that beats is waited for; one that stops is not. Where the machine is so loaded that the partner
 * cannot beat in time, it is tried again. */
static void beats_are_waited_for(void **state)
{
    (void)state;
    assert_true(BEATS * BEAT_MS > PATIENCE_MS);
    for (int answers = 0; answers < 2; answers++) {
        int attempts = 20;
        while (attempts > 0 && notify_while_it_beats(answers))
            attempts--;
        if (attempts == 0)
            skip();
    }
}

/* The partner ends while a thread waits, without an answer. */
static void leaving_sets_free(void **state)
{
    (void)state;
    put_doorbell(place, 60000, 10);
    pid_t partner = fork();
    if (partner == 0) {
        alarm(60);
        while (load(&words->waiting) == 0)
            sched_yield();
        usleep(2000);
        store(&words->active, 0);
        while (load(&words->waiting) != 0) { /* it may not wait yet */
            wake(&words->answered);
            sched_yield();
        }
        _exit(0);
    }
    notify();
    ends_well(partner);
    assert_int_equal(words->answered, 0);
    assert_int_equal(words->notified, 1);
}

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
    (void)number;
    ticks++;
}

static void set_ticks(long microseconds)
{
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    struct sigaction action = {.sa_handler = on_tick};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

/* Signals, each of which ends a wait, are no reason to give up a living partner: it answers after 200 of
 * them, with two rounds to wait. */
static void signals_are_not_taken_for_death(void **state)
{
    (void)state;
    put_doorbell(place, 60000, 2);
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t partner = fork();
    if (partner == 0) {
        char byte;
        alarm(60);
        if (read(pipe_ends[0], &byte, 1) == 1) {
            store(&words->answered, load(&words->notified));
            wake(&words->answered);
        }
        _exit(0);
    }
    pid_t watcher = fork();
    if (watcher == 0) { /* sends the signals: then it is sure that they come during the wait */
        alarm(60);
        while (load(&words->waiting) == 0)
            sched_yield();
        for (unsigned i = 0; i < 200; i++) {
            kill(getppid(), SIGUSR1);
            usleep(300);
        }
        _exit(write(pipe_ends[1], "x", 1) != 1);
    }
    struct sigaction action = {.sa_handler = on_tick};
    sigaction(SIGUSR1, &action, NULL);
    ticks = 0;
    notify();
    assert_int_equal(words->active, 1);
    assert_int_equal(words->answered, 1);
    assert_true(ticks > 2);
    ends_well(partner);
    ends_well(watcher);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

/* Each wait is ended by a signal, none by time: the wait still ends. */
static void signals_do_not_hold_for_ever(void **state)
{
    (void)state;
    put_doorbell(place, 60000, 1);
    pid_t child = fork();
    if (child == 0) {
        set_ticks(50);
        notify();
        _exit(load(&words->active) == 0 ? 0 : 1);
    }
    ends_well(child);
    assert_int_equal(words->waiting, 0);
}

/* A futex that fails ends the waiting at its first call: a wait of a million rounds would show. */
static void a_forbidden_futex_does_not_spin(void **state)
{
    (void)state;
    static const unsigned errors[] = {EPERM, ENOSYS};
    for (unsigned i = 0; i < 2; i++) {
        put_doorbell(place, 1, (1 << 19) - 1);
        pid_t child = fork();
        if (child == 0) {
            if (!proc_refuse(SYS_futex, errors[i]))
                _exit(77);
            alarm(20);
            notify();
            _exit(0);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip();
        assert_int_equal(status, 0);
        assert_int_equal(words->active, 1); /* it says nothing of the partner */
        assert_int_equal(words->notified, 1);
        assert_int_equal(words->waiting, 0);
    }
}

/* --- ld.so --- */

static const char *interpreter(void)
{
    return access("/lib64/ld-linux-x86-64.so.2", R_OK) == 0 ? "/lib64/ld-linux-x86-64.so.2" : NULL;
}

static struct elf_image *open_image(const char *path)
{
    struct elf_image *image = NULL;
    assert_int_equal(elf_image_open(path, &image, NULL), BASE_OK);
    return image;
}

static void finds_what_the_loader_calls(void **state)
{
    (void)state;
    uint64_t address = 0;
    if (interpreter() == NULL)
        skip();
    struct elf_image *image = open_image(interpreter());
    assert_true(stub_doorbell_find(image, &address));
    assert_int_equal(address, _r_debug.r_brk - _r_debug.r_ldbase); /* what ld.so itself says */
    size_t available = 0;
    const uint8_t *bytes = elf_image_at(image, address, &available);
    assert_non_null(bytes);
    assert_true(stub_x86_64_doorbell_fits(bytes, available));
    elf_image_close(image);
}

static void finds_it_in_musl(void **state)
{
    (void)state;
    uint64_t address = 0;
    if (access("/lib/ld-musl-x86_64.so.1", R_OK) != 0)
        skip();
    struct elf_image *image = open_image("/lib/ld-musl-x86_64.so.1");
    assert_true(stub_doorbell_find(image, &address));
    size_t available = 0;
    const uint8_t *bytes = elf_image_at(image, address, &available);
    assert_non_null(bytes);
    assert_true(stub_x86_64_doorbell_fits(bytes, available));
    elf_image_close(image);
}

static void finds_it_by_its_whole_name(void **state)
{
    (void)state;
    struct plan_elf elf = {0};
    uint64_t address = 0;
    plan_elf_function(&elf, "_dl_debug_state_", "\xc3", 1, 1);
    plan_elf_function(&elf, "dl_debug_state", "\xc3", 1, 1);
    struct elf_image *image = plan_elf_image(&elf);
    assert_non_null(image);
    assert_false(stub_doorbell_find(image, &address));
    elf_image_close(image);
    uint64_t made = plan_elf_function(&elf, "_dl_debug_state", "\xc3", 1, 1);
    image = plan_elf_image(&elf);
    assert_true(stub_doorbell_find(image, &address));
    assert_int_equal(address, made);
    elf_image_close(image);
    plan_elf_free(&elf);
}

static uint8_t *map_near(uint64_t near)
{
    for (uint64_t distance = 0x100000; distance < 0x70000000; distance += 0x100000) {
        void *at = (void *)(uintptr_t)((near & ~UINT64_C(0xfff)) - distance);
        void *got = mmap(at, 0x1000, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (got == at)
            return got;
        if (got != MAP_FAILED)
            munmap(got, 0x1000);
    }
    return NULL;
}

/* In a child: ld.so's own function leads to the doorbell; dlopen and dlclose notify. 0 when all is as it
 * should be. */
static int open_with_doorbell(void)
{
    uint64_t function = _r_debug.r_brk;
    uint8_t *at = (uint8_t *)(uintptr_t)function, fresh[STUB_X86_64_DOORBELL_JUMP],
            *code = map_near(function);
    void *page = (void *)(uintptr_t)(function & ~UINT64_C(0xfff));
    if (code == NULL || !stub_x86_64_doorbell_fits(at, STUB_X86_64_DOORBELL_LOOK) ||
        !stub_x86_64_doorbell_bytes(function, address_of(code), fresh) ||
        mprotect(page, 0x2000, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return 1;
    put_doorbell(code, 60000, 10);
    memcpy(at, fresh, sizeof fresh);
    pid_t partner = start_partner(4); /* dlopen and dlclose: each before and after */
    void *handle = dlopen(library, RTLD_NOW);
    if (handle == NULL || dlsym(handle, "fixture_run") == NULL || words->notified != 2 ||
        words->answered != 2)
        return 2;
    if (dlclose(handle) != 0 || words->notified != 4 || words->answered != 4)
        return 3;
    ends_well(partner);
    return words->waiting == 0 ? 0 : 4;
}

static void notifies_in_the_real_loader(void **state)
{
    (void)state;
    if (interpreter() == NULL)
        skip();
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(open_with_doorbell());
    }
    ends_well(child);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_wait_for_the_answer),
        cmocka_unit_test(registers_and_flags_come_back),
        cmocka_unit_test(a_function_that_creates_does_what_it_did),
        cmocka_unit_test(a_dead_partner_does_not_hold_anybody),
        cmocka_unit_test(beats_are_waited_for),
        cmocka_unit_test(leaving_sets_free),
        cmocka_unit_test(signals_are_not_taken_for_death),
        cmocka_unit_test(signals_do_not_hold_for_ever),
        cmocka_unit_test(a_forbidden_futex_does_not_spin),
        cmocka_unit_test(finds_what_the_loader_calls),
        cmocka_unit_test(finds_it_in_musl),
        cmocka_unit_test(finds_it_by_its_whole_name),
        cmocka_unit_test(notifies_in_the_real_loader),
    };
    if (argument_count < 2)
        return 2;
    library = arguments[1];
    return cmocka_run_group_tests(tests, set_up, NULL);
}
