/* Against the processor: a program is run step by step, and every step of its own code must be one that the
 * survey allows for.
 *
 *     test_code step STEPS PROGRAM [ARGUMENT...]
 *
 * - Where control is, an instruction begins, and it goes on to the next one or to the target that decoding
 * said.
 * - An indirect jump that stays inside its function is known to be a switch, and it goes where something was
 * said to enter.
 * - An indirect call, or jump to another function, goes to a function whose address is known to be taken.
 * - What comes from elsewhere (libraries, the unwinder; not: start-up code that neither symbol nor FDE
 * covers) arrives at a function taken, behind a call, or at a landing pad. Skipped where the program is not
 * there, or tracing a child is not permitted. */
#include <elf.h>
#include <errno.h>
#include <libelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "code_by_file.h"
#include "proc_maps.h"

static char **command; /* STEPS PROGRAM ... */

struct walk {
    struct code_by_file file;
    pid_t pid;
    uint64_t bias;   /* run-time address minus image address */
    uint64_t before; /* run-time pc before the step */
    unsigned steps, inside, indirect, switches, arrivals;
};

/* --- the child --- */

static void become_target(void)
{
    personality(ADDR_NO_RANDOMIZE);
    setenv("LD_BIND_NOW", "1", 1);
    if (freopen("/dev/null", "w", stdout) == NULL || ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        _exit(77);
    execv(command[1], command + 1);
    _exit(78);
}

static bool start_target(struct walk *walk)
{
    int status;
    walk->pid = fork();
    if (walk->pid == 0)
        become_target();
    assert_int_equal(waitpid(walk->pid, &status, 0), walk->pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return false;
    assert_true(WIFSTOPPED(status));
    ptrace(PTRACE_SETOPTIONS, walk->pid, NULL, PTRACE_O_EXITKILL);
    return true;
}

static uint64_t read_pc(const struct walk *walk)
{
    struct user_regs_struct registers;
    assert_int_equal(ptrace(PTRACE_GETREGS, walk->pid, NULL, &registers), 0);
    return registers.rip;
}

static void find_bias(struct walk *walk)
{
    struct proc_maps maps = {NULL, 0, 0};
    struct stat status;
    uint64_t address;
    bool found = false;
    assert_int_equal(stat(command[1], &status), 0);
    assert_int_equal(proc_maps_read(walk->pid, &maps, NULL), BASE_OK);
    for (size_t i = 0; i < maps.count && !found; i++) {
        found = maps.items[i].inode == status.st_ino && maps.items[i].executable &&
                elf_image_address_of_offset(walk->file.image, maps.items[i].offset, &address);
        if (found)
            walk->bias = maps.items[i].start - address;
    }
    assert_true(found);
    proc_maps_free(&maps);
}

/* Lets ld.so do its work at full speed. */
static void run_to_entry(struct walk *walk)
{
    const Elf64_Ehdr *header = elf64_getehdr(elf_image_handle(walk->file.image));
    uint64_t entry = walk->bias + header->e_entry;
    struct user_regs_struct registers;
    int status;
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, walk->pid, (void *)(uintptr_t)entry, NULL);
    assert_int_equal(errno, 0);
    assert_int_equal(
        ptrace(PTRACE_POKETEXT, walk->pid, (void *)(uintptr_t)entry, (void *)((word & ~0xffL) | 0xcc)), 0);
    assert_int_equal(ptrace(PTRACE_CONT, walk->pid, NULL, NULL), 0);
    assert_int_equal(waitpid(walk->pid, &status, 0), walk->pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(ptrace(PTRACE_POKETEXT, walk->pid, (void *)(uintptr_t)entry, (void *)word), 0);
    assert_int_equal(ptrace(PTRACE_GETREGS, walk->pid, NULL, &registers), 0);
    registers.rip = entry;
    assert_int_equal(ptrace(PTRACE_SETREGS, walk->pid, NULL, &registers), 0);
    walk->before = entry;
}

/* --- judging a step; addresses are the image's --- */

static void wrong(const struct walk *walk, const char *what, uint64_t from, uint64_t to)
{
    kill(walk->pid, SIGKILL);
    fail_msg("step %u: %s: %llx -> %llx", walk->steps, what, (unsigned long long)from,
             (unsigned long long)to);
}

static bool fine_at(const struct walk *walk, uint64_t address, uint32_t *number)
{
    *number = code_functions_find(&walk->file.functions, address);
    return *number != CODE_NONE && walk->file.survey->items[*number].verdict == CODE_VERDICT_FINE;
}

static bool is_taken(const struct walk *walk, uint64_t address)
{
    return code_survey_marked(walk->file.survey, CODE_MAP_TAKEN, address);
}

static bool follows_call(const struct walk *walk, uint64_t address)
{
    const struct code_survey *survey = walk->file.survey;
    uint64_t call = code_survey_previous(survey, address);
    if (call == 0)
        return false;
    const struct code_site *site = &survey->sites[code_by_file_site(survey, call)];
    return site < survey->sites + survey->site_count && site->address == call &&
           (site->flow == CODE_CALL || site->flow == CODE_CALL_INDIRECT);
}

static void judge_indirect(struct walk *walk, const struct code_instruction *at, uint32_t from, uint64_t to)
{
    const struct code_survey *survey = walk->file.survey;
    const struct code_site *site = &survey->sites[code_by_file_site(survey, at->address)];
    uint32_t number;
    bool linkage = (survey->items[from].facts & CODE_FACT_LINKAGE) != 0;
    if (site->address != at->address)
        wrong(walk, "no site", at->address, to);
    walk->indirect++;
    if (!fine_at(walk, to, &number))
        return;
    bool inside = at->flow == CODE_JUMP_INDIRECT && to != walk->file.functions.items[number].start;
    if (inside || site->facts & CODE_SITE_TABLE) {
        walk->switches++;
        if (!(site->facts & CODE_SITE_TABLE))
            wrong(walk, "a switch that was not known as one", at->address, to);
        if (!is_taken(walk, to) && !code_survey_marked(survey, CODE_MAP_LANDING, to) &&
            !(survey->items[from].facts & CODE_FACT_UNRESOLVED))
            wrong(walk, "a switch's target that was not known", at->address, to);
    } else if (!is_taken(walk, to) && !linkage) {
        wrong(walk, "a function whose address was not known to be taken", at->address, to);
    }
}

static void judge_step(struct walk *walk, uint32_t from, uint64_t before, uint64_t to)
{
    struct code_instruction at;
    size_t available;
    uint32_t number;
    const uint8_t *bytes = code_text_at(&walk->file.survey->text, before, &available);
    walk->inside++;
    if (!code_survey_marked(walk->file.survey, CODE_MAP_START, before))
        wrong(walk, "no instruction begins", before, to);
    if (fine_at(walk, to, &number) && !code_survey_marked(walk->file.survey, CODE_MAP_START, to))
        wrong(walk, "an instruction's middle", before, to);
    assert_true(code_instruction_decode(bytes, available, before, &at));
    if (at.flow == CODE_CALL_INDIRECT || at.flow == CODE_JUMP_INDIRECT) {
        judge_indirect(walk, &at, from, to);
    } else if (at.flow != CODE_RETURN) {
        bool next = to == before + at.length && !code_instruction_ends(&at) && at.flow != CODE_CALL;
        bool again = to == before; /* a repeated string instruction */
        bool target = at.displacement_size && !at.rip_relative && to == at.target;
        if (!next && !target && !again)
            wrong(walk, "neither the next nor the target", before, to);
    }
}

static void judge_arrival(struct walk *walk, uint64_t to)
{
    walk->arrivals++;
    if (!is_taken(walk, to) && !follows_call(walk, to) &&
        !code_survey_marked(walk->file.survey, CODE_MAP_LANDING, to))
        wrong(walk, "an arrival from elsewhere that was not known", 0, to);
}

static void judge(struct walk *walk, uint64_t now)
{
    uint32_t from, to;
    size_t available;
    bool was_inside = fine_at(walk, walk->before - walk->bias, &from);
    if (was_inside)
        judge_step(walk, from, walk->before - walk->bias, now - walk->bias);
    else if (fine_at(walk, now - walk->bias, &to) &&
             code_text_at(&walk->file.survey->text, walk->before - walk->bias, &available) == NULL)
        judge_arrival(walk, now - walk->bias);
}

/* --- the walk --- */

static void walk_steps(struct walk *walk, unsigned steps)
{
    int status = 0, signal = 0;
    for (; walk->steps < steps; walk->steps++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, walk->pid, NULL, (void *)(intptr_t)signal), 0);
        assert_int_equal(waitpid(walk->pid, &status, 0), walk->pid);
        if (!WIFSTOPPED(status))
            break;
        signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        uint64_t now = read_pc(walk);
        if (signal == 0)
            judge(walk, now);
        walk->before = now;
    }
    if (WIFSTOPPED(status)) {
        kill(walk->pid, SIGKILL);
        waitpid(walk->pid, &status, 0);
    }
}

static void every_step_was_allowed_for(void **state)
{
    struct base_error error = {""};
    struct walk walk = {.steps = 0};
    (void)state;
    if (code_by_file_open(command[1], &walk.file, &error) != BASE_OK)
        fail_msg("%s", error.text);
    if (start_target(&walk)) {
        find_bias(&walk);
        run_to_entry(&walk);
        walk_steps(&walk, (unsigned)strtoul(command[0], NULL, 10));
        print_message("# %u steps, %u inside, %u indirect, %u switches, %u arrivals\n", walk.steps,
                      walk.inside, walk.indirect, walk.switches, walk.arrivals);
        assert_true(walk.inside > 500 && walk.indirect > 0 && walk.arrivals > 0);
    } else {
        print_message("# skipped: this place does not permit tracing a child\n");
        code_by_file_close(&walk.file);
        skip();
    }
    code_by_file_close(&walk.file);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_step_was_allowed_for)};
    if (argc < 3)
        return 2;
    if (access(argv[2], X_OK) != 0) {
        printf("1..0 # SKIP %s is not there\n", argv[2]);
        return 0;
    }
    command = argv + 1;
    return cmocka_run_group_tests_name("code_step", tests, NULL, NULL);
}
