/* test_slab_frame.c - what slab_frame says, held against the program without a slab.
 *
 *     test_slab slab_frame LIBRARY...        (each with fixture_run, or forms_run)
 *
 * The oracle: the same library runs twice in children that are stepped instruction by instruction, once as it
 * is and once patched. Of each step (pc, rsp) is noted; of a step in the slab what slab_frame makes of it.
 * Without repetitions both lists must be the same: every instruction of a stub, hook or moved group says "the
 * program would now be here, with this stack". Linkage stubs are left out of both (resolved calls pass them
 * by), and so is the last instruction of a call's group, which no longer exists: there the return address is
 * checked instead. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dlfcn.h>

#include <cmocka.h>

#include "base_array.h"
#include "code_instruction.h"
#include "slab_frame.h"
#include "slab_subject.h"

#define ROUNDS 4

static char **libraries;
static uint64_t *result; /* shared with children */

/* How many steps were seen, by form: in stubs by kind of site, in hooks, and by kind of frame. */
static unsigned long in_stubs[STUB_LOCK + 1][STUB_KIND_END], in_hooks[STUB_LOCK + 1];
static unsigned long in_bodies[STUB_LOCK + 1]; /* of stubs */
static unsigned long frames[STUB_LOCK + 1][SLAB_FRAME_RECORDER + 1], on_islands[STUB_LOCK + 1];
static unsigned long moved[STUB_LOCK + 1][2]; /* instructions of the program's, and added ones */

struct step {
    uint64_t pc, sp;
};

struct trace {
    struct step *steps;
    size_t count, capacity;
    uint64_t pending; /* where the return address of a call under way lies; 0: none is */
};

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

static uint64_t (*run_of(const struct slab_subject *subject))(uint64_t)
{
    uint64_t (*run)(uint64_t);
    void *symbol = dlsym(subject->handle, "fixture_run");
    *(void **)&run = symbol != NULL ? symbol : slab_subject_symbol(subject, "forms_run");
    return run;
}

/* --- lists --- */

/* The last instruction of a call's group. */
static bool is_grouped_call(const struct slab_subject *subject, uint64_t pc)
{
    struct code_instruction in;
    if (!code_instruction_decode((const uint8_t *)(uintptr_t)pc, 15, pc, &in))
        return false;
    uint32_t site = plan_site_ending(&subject->plan, pc + in.length - subject->bias);
    return site != PLAN_NONE && subject->plan.sites[site].kind == STUB_CALL_GROUP;
}

static bool is_listed(const struct slab_subject *subject, uint64_t pc)
{
    uint32_t function = plan_function_at(&subject->plan, pc - subject->bias);
    return function != PLAN_NONE && (subject->plan.functions[function].facts & PLAN_FUNCTION_LINKAGE) == 0;
}

static void add_step(struct trace *trace, struct step step)
{
    if (trace->count > 0 && memcmp(&trace->steps[trace->count - 1], &step, sizeof step) == 0)
        return;
    assert_true(base_array_room(trace->steps, trace->count, trace->capacity));
    trace->steps[trace->count++] = step;
}

static uint64_t peek(pid_t pid, uint64_t address)
{
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, pid, (void *)(uintptr_t)address, NULL);
    assert_int_equal(errno, 0);
    return (uint64_t)word;
}

static void count_piece(const struct slab *slab, uint64_t pc, const struct slab_frame *frame)
{
    enum stub_form form = slab->counter.form;
    enum slab_frame_kind kind = frame->kind;
    const struct slab_piece *piece = NULL;
    frames[form][kind]++;
    assert_true(frame->own || kind == SLAB_FRAME_MOVED);
    moved[form][frame->own] += kind == SLAB_FRAME_MOVED;
    if (pc < slab->regions[0].address || pc >= slab->regions[0].address + slab->regions[0].used)
        on_islands[form] += plan_function_at(slab->plan, pc - slab->bias) == PLAN_NONE;
    for (size_t i = 0; i < slab->piece_count && slab->pieces[i].address <= pc; i++)
        piece = &slab->pieces[i];
    if (piece != NULL && piece->site != PLAN_NONE && slab->inlined[piece->site] != PLAN_NONE)
        in_bodies[form] += kind == SLAB_FRAME_MOVED;
    if (piece != NULL && piece->site != PLAN_NONE)
        in_stubs[form][slab->plan->sites[piece->site].kind]++;
    else if (piece != NULL)
        in_hooks[form]++;
}

/* No instruction begins inside of another one. */
static void inside_is_nothing(const struct slab *slab, uint64_t pc)
{
    struct code_instruction in;
    struct slab_frame frame;
    assert_true(code_instruction_decode((const uint8_t *)(uintptr_t)pc, 15, pc, &in));
    for (uint64_t at = pc + 1; at < pc + in.length; at++)
        assert_false(slab_frame(slab, at, &frame));
}

/* What the step says of the program; false: of no instruction of it (a call to an unknown place is under
 * way). */
static bool project(const struct slab_subject *subject, pid_t pid, struct step *step, struct trace *trace)
{
    struct slab_frame frame;
    if (!slab_frame(&subject->slab, step->pc, &frame)) {
        const struct slab_region *region = subject->regions;
        for (size_t i = 0; i < subject->region_count; i++)
            assert_false(step->pc - region[i].address < region[i].size);
        return true;
    }
    count_piece(&subject->slab, step->pc, &frame);
    if (step->pc - subject->regions[0].address < subject->regions[0].size)
        inside_is_nothing(&subject->slab, step->pc);
    if (frame.kind == SLAB_FRAME_RECORDER) {
        uint64_t hook = peek(pid, step->sp + 8 * (uint64_t)frame.pushed);
        step->sp += 8 * (uint64_t)frame.pushed + 8;
        assert_true(slab_frame(&subject->slab, hook, &frame));
        assert_int_equal(frame.kind, SLAB_FRAME_ENTRY);
    }
    step->pc = frame.pc;
    step->sp += 8 * (uint64_t)frame.pushed;
    if (frame.kind != SLAB_FRAME_CALL)
        return true;
    assert_int_equal(frame.pc, 0);
    assert_int_not_equal(plan_site_ending(&subject->plan, peek(pid, step->sp) - subject->bias), PLAN_NONE);
    trace->pending = step->sp;
    return false;
}

static void take_step(const struct slab_subject *subject, pid_t pid, bool patched, struct trace *trace)
{
    struct user_regs_struct registers;
    assert_return_code(ptrace(PTRACE_GETREGS, pid, NULL, &registers), errno);
    struct step step = {registers.rip, registers.rsp};
    if (patched && !project(subject, pid, &step, trace))
        return;
    if (trace->pending != 0)
        assert_int_equal(step.sp, trace->pending); /* it has arrived */
    trace->pending = 0;
    if (is_listed(subject, step.pc) && !is_grouped_call(subject, step.pc))
        add_step(trace, step);
}

/* --- children --- */

static void be_stepped(const struct slab_subject *subject, bool patched)
{
    uint64_t (*run)(uint64_t) = run_of(subject);
    alarm(120);
    if (patched)
        slab_subject_write(subject, false);
    if (patched && subject->slab.counter.form == STUB_THREAD)
        slab_subject_use_block(slab_subject_block(subject));
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    *result = run(ROUNDS);
    raise(SIGSTOP);
}

static struct trace trace_of(const struct slab_subject *subject, bool patched)
{
    struct trace trace = {0};
    int status = 0;
    *result = 0;
    pid_t pid = fork();
    if (pid == 0) {
        be_stepped(subject, patched);
        _exit(1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    while (*result == 0) {
        assert_return_code(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), errno);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSTOPPED(status) && (WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP));
        take_step(subject, pid, patched, &trace);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return trace;
}

static void show(const struct trace *trace, size_t at, const char *name, uint64_t bias)
{
    for (size_t i = at < 3 ? 0 : at - 3; i < at + 3 && i < trace->count; i++)
        print_error("%s %zu: %lx, rsp %lx\n", name, i, trace->steps[i].pc - bias, trace->steps[i].sp);
}

static void traces_are_the_same(const struct slab_subject *subject, const struct trace *plain,
                                const struct trace *patched)
{
    for (size_t i = 0; i < plain->count && i < patched->count; i++)
        if (memcmp(&plain->steps[i], &patched->steps[i], sizeof plain->steps[i]) != 0) {
            show(plain, i, "plain", subject->bias);
            show(patched, i, "patched", subject->bias);
            fail_msg("step %zu differs", i);
        }
    assert_int_equal(plain->count, patched->count);
    assert_true(plain->count > 200);
}

static void steps_are_the_programs(const char *path, enum stub_form form, bool resolves, bool guesses)
{
    struct slab_subject subject;
    slab_subject_load(&subject, path);
    subject.resolves = resolves;
    subject.guesses = guesses;
    slab_subject_prepare(&subject, form, (uint64_t)(uintptr_t)run_of(&subject));
    struct trace plain = trace_of(&subject, false);
    uint64_t expected = *result;
    struct trace patched = trace_of(&subject, true);
    assert_int_equal(*result, expected);
    traces_are_the_same(&subject, &plain, &patched);
    free(plain.steps);
    free(patched.steps);
    slab_subject_unload(&subject);
}

static void stubs_are_as_if_they_were_not_there(void **state)
{
    (void)state;
    for (char **library = libraries; *library != NULL; library++)
        for (enum stub_form form = STUB_PLAIN; form <= STUB_LOCK; form++)
            for (int resolves = 0; resolves < 2; resolves++)
                steps_are_the_programs(*library, form, resolves != 0, false);
}

/* The first library has indirect sites of every form. */
static void guessing_stubs_are_as_if_they_were_not_there(void **state)
{
    (void)state;
    for (enum stub_form form = STUB_PLAIN; form <= STUB_LOCK; form++)
        steps_are_the_programs(libraries[0], form, true, true);
}

/* Runs last: has every form of everything been stepped through? */
static void nothing_was_left_out(void **state)
{
    (void)state;
    for (enum stub_form form = STUB_PLAIN; form <= STUB_LOCK; form++) {
        for (int kind = STUB_CALL; kind < STUB_KIND_END; kind++)
            if (kind != STUB_ENTRY && kind != STUB_ENTRY_ENDBR && kind != STUB_ENTRY_SHORT &&
                in_stubs[form][kind] == 0)
                fail_msg("no step in a stub of kind %d, form %d", kind, form);
        for (int kind = SLAB_FRAME_ENTRY; kind <= SLAB_FRAME_RECORDER; kind++)
            assert_true(frames[form][kind] > 0);
        assert_true(moved[form][false] > 0 && moved[form][true] > 0);
        assert_true(in_hooks[form] > 0);
        assert_true(on_islands[form] > 0);
        assert_true(in_bodies[form] > 0);
    }
}

static void other_addresses_are_not_ours(void **state)
{
    (void)state;
    struct slab_subject subject;
    struct slab_frame frame;
    slab_subject_load(&subject, libraries[0]);
    slab_subject_prepare(&subject, STUB_THREAD, (uint64_t)(uintptr_t)run_of(&subject));
    const struct slab_region *region = &subject.regions[0];
    assert_false(slab_frame(&subject.slab, 0, &frame));
    assert_false(slab_frame(&subject.slab, UINT64_MAX, &frame));
    assert_false(slab_frame(&subject.slab, region->address - 1, &frame));
    assert_false(slab_frame(&subject.slab, region->address + region->used, &frame));
    assert_false(slab_frame(&subject.slab, address_of(&frame), &frame));
    for (uint32_t i = 0; i < subject.plan.header->site_count; i++) /* sites themselves are the program's */
        assert_false(slab_frame(&subject.slab, subject.plan.sites[i].address + subject.bias, &frame));
    slab_subject_unload(&subject);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stubs_are_as_if_they_were_not_there),
        cmocka_unit_test(guessing_stubs_are_as_if_they_were_not_there),
        cmocka_unit_test(nothing_was_left_out),
        cmocka_unit_test(other_addresses_are_not_ours),
    };
    result = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argument_count < 2 || result == MAP_FAILED)
        return 2;
    libraries = arguments + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
