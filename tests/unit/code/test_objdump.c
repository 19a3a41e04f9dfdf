/* Against an oracle: objdump -d of real programs (the arguments) must agree on every call, jump and
 * conditional jump in functions that decode: address, kind, direct or not, and target. Functions and
 * objdump's lines outside of one another are not compared. A file that is not there is passed over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_array.h"
#include "code_by_file.h"

struct branch {
    uint64_t address, target; /* target 0: indirect */
    char kind;                /* 'c'all, 'j'ump, 'b'ranch */
};

struct branches {
    struct branch *items;
    size_t count, capacity;
};

static char **files;
static int file_count;

static void add_branch(struct branches *branches, struct branch branch)
{
    assert_true(base_array_room(branches->items, branches->count, branches->capacity));
    branches->items[branches->count++] = branch;
}

/* --- objdump's view --- */

/* 0: neither a call nor a jump. */
static char kind_of_word(const char *word)
{
    if (strncmp(word, "call", 4) == 0 || strcmp(word, "lcall") == 0)
        return 'c';
    if (strncmp(word, "jmp", 3) == 0 || strcmp(word, "ljmp") == 0)
        return 'j';
    return word[0] == 'j' || strncmp(word, "loop", 4) == 0 ? 'b' : 0;
}

/* "  401000:\tbnd call 401030 <f>": prefixes are words of their own. */
static void read_line(struct branches *branches, char *line)
{
    char *colon = strstr(line, ":\t"), *place = NULL;
    if (colon == NULL)
        return;
    struct branch branch = {.address = strtoull(line, NULL, 16)};
    for (char *word = strtok_r(colon + 2, " \t\n", &place); word; word = strtok_r(NULL, " \t\n", &place)) {
        branch.kind = kind_of_word(word);
        if (branch.kind == 0 && strchr("<*%$#(", word[0]))
            return;
        if (branch.kind == 0)
            continue;
        const char *operand = strtok_r(NULL, " \t\n", &place);
        if (operand && operand[0] != '*')
            branch.target = strtoull(operand, NULL, 16);
        add_branch(branches, branch);
        return;
    }
}

static void read_objdump(const char *path, struct branches *branches)
{
    char command[4096], *line = NULL;
    size_t size = 0;
    assert_true((size_t)snprintf(command, sizeof command, "LC_ALL=C objdump -d -w --no-show-raw-insn '%s'",
                                 path) < sizeof command);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (getline(&line, &size, pipe) > 0)
        read_line(branches, line);
    free(line);
    assert_int_equal(pclose(pipe), 0);
}

/* --- ours --- */

static char kind_of_flow(uint8_t flow)
{
    switch (flow) {
    case CODE_CALL:
    case CODE_CALL_INDIRECT:
        return 'c';
    case CODE_JUMP:
    case CODE_JUMP_INDIRECT:
        return 'j';
    case CODE_BRANCH:
    case CODE_LOOP:
        return 'b';
    default:
        return 0;
    }
}

static void read_function(const struct code_by_file *file, size_t number, struct code_instructions *all,
                          struct branches *branches)
{
    const struct code_function *function = &file->functions.items[number];
    uint64_t where;
    assert_int_equal(
        code_instructions_decode(&file->survey->text, function->start, function->end, all, &where),
        CODE_VERDICT_FINE);
    for (size_t i = 0; i < all->count; i++)
        if (kind_of_flow(all->items[i].flow))
            add_branch(branches, (struct branch){all->items[i].address, all->items[i].target,
                                                 kind_of_flow(all->items[i].flow)});
}

static bool is_fine(const struct code_by_file *file, uint64_t address)
{
    uint32_t number = code_functions_find(&file->functions, address);
    return number != CODE_NONE && file->survey->items[number].verdict == CODE_VERDICT_FINE;
}

/* The sites of the survey are those of our branches that are calls, leave their function, or are indirect
 * jumps. */
static void compare_sites(const struct code_by_file *file, const struct branches *ours)
{
    size_t site = 0;
    for (size_t i = 0; i < ours->count; i++) {
        const struct branch *branch = &ours->items[i];
        uint32_t from = code_functions_find(&file->functions, branch->address);
        bool leaves = branch->target == 0 || code_functions_find(&file->functions, branch->target) != from;
        if (branch->kind != 'c' && !leaves)
            continue;
        assert_true(site < file->survey->site_count);
        assert_int_equal(file->survey->sites[site].address, branch->address);
        assert_int_equal(
            file->survey->sites[site].operand == CODE_OPERAND_NONE ? file->survey->sites[site].target : 0,
            branch->target);
        site++;
    }
    assert_int_equal(site, file->survey->site_count);
}

static void compare(const char *path)
{
    struct base_error error = {""};
    struct code_by_file file;
    struct code_instructions all = {NULL, 0, 0};
    struct branches theirs = {NULL, 0, 0}, ours = {NULL, 0, 0};
    size_t compared = 0;
    if (code_by_file_open(path, &file, &error) != BASE_OK)
        fail_msg("%s", error.text);
    read_objdump(path, &theirs);
    for (size_t i = 0; i < file.functions.count; i++)
        if (file.survey->items[i].verdict == CODE_VERDICT_FINE)
            read_function(&file, i, &all, &ours);
    for (size_t i = 0; i < theirs.count; i++) {
        const struct branch *branch = &theirs.items[i];
        if (!is_fine(&file, branch->address))
            continue;
        if (compared == ours.count || ours.items[compared].address != branch->address ||
            ours.items[compared].kind != branch->kind || ours.items[compared].target != branch->target)
            fail_msg("%s: objdump has %c at %llx", path, branch->kind, (unsigned long long)branch->address);
        compared++;
    }
    assert_int_equal(compared, ours.count);
    compare_sites(&file, &ours);
    print_message("# %s: %zu branches and %zu sites in %llu of %zu functions\n", path, compared,
                  file.survey->site_count, (unsigned long long)file.survey->verdicts[CODE_VERDICT_FINE],
                  file.functions.count);
    free(theirs.items);
    free(ours.items);
    code_instructions_free(&all);
    code_by_file_close(&file);
}

static void objdump_agrees(void **state)
{
    (void)state;
    for (int i = 0; i < file_count; i++)
        if (access(files[i], R_OK) == 0)
            compare(files[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(objdump_agrees)};
    files = argv + 1;
    file_count = argc - 1;
    return cmocka_run_group_tests_name("code_objdump", tests, NULL, NULL);
}
