/* Lines and inlined frames of this very program (built with -g and inlining), for every fourth byte of its
 * code, against what binutils' addr2line -i says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol.h"
#include "symbol_lines.h"

enum { LEVELS = 32, STEP = 4, SPAN = 40000 };

/* Something worth inlining, two deep. */
static inline uint64_t inner(uint64_t x)
{
    return x * 0x9e3779b97f4a7c15u ^ x >> 29;
}

static inline uint64_t middle(const uint64_t *values, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += inner(values[i]);
    return sum;
}

__attribute__((noinline)) uint64_t lines_outer(const uint64_t *values, size_t count);
__attribute__((noinline)) uint64_t lines_outer(const uint64_t *values, size_t count)
{
    return middle(values, count) + inner(count);
}

struct fixture {
    struct elf_image *image;
    struct symbol_lines *lines;
    uint64_t start, end; /* code to ask about */
};

static int set_up(void **state)
{
    static struct fixture fixture;
    struct elf_section text;
    if (elf_image_open("/proc/self/exe", &fixture.image, NULL) < 0 ||
        !symbol_lines_open(fixture.image, &fixture.lines) ||
        !elf_image_section(fixture.image, ".text", &text))
        return -1;
    fixture.start = text.address;
    fixture.end = text.address + (text.size < SPAN ? text.size : SPAN);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    symbol_lines_close(fixture->lines);
    elf_image_close(fixture->image);
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "??";
}

/* "FUNCTION\nFILE:LINE (discriminator N)\n" a level; the first line of an answer is the address. */
static size_t read_answer(FILE *from, char (*functions)[1024], char (*files)[1024], unsigned *lines)
{
    char text[1024];
    size_t count = 0;
    while (count < LEVELS && fgets(text, sizeof text, from) && strncmp(text, "0x", 2)) {
        snprintf(functions[count], 1024, "%.*s", (int)strcspn(text, "\n"), text);
        if (!fgets(text, sizeof text, from))
            break;
        char *colon = strrchr(text, ':');
        lines[count] = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
        if (colon)
            *colon = '\0';
        snprintf(files[count], 1024, "%s", base_name(text));
        count++;
    }
    return count;
}

static FILE *ask_addr2line(const struct fixture *fixture, char *path)
{
    char command[256];
    int fd = mkstemp(path);
    FILE *addresses = fdopen(fd, "w");
    for (uint64_t at = fixture->start; at < fixture->end; at += STEP)
        fprintf(addresses, "0x%llx\n", (unsigned long long)at);
    fclose(addresses);
    snprintf(command, sizeof command, "addr2line -a -i -f -e /proc/%d/exe < %s", (int)getpid(), path);
    return popen(command, "r");
}

static bool same_levels(const struct symbol_line *ours, size_t count, char (*functions)[1024],
                        char (*files)[1024], const unsigned *lines, size_t theirs)
{
    if (count != theirs)
        return false;
    for (size_t i = 0; i < count; i++) {
        bool named = i + 1 == count || (ours[i].function && !strcmp(ours[i].function, functions[i]));
        if (!named || ours[i].line != lines[i] || strcmp(base_name(ours[i].file), files[i]))
            return false;
    }
    return true;
}

static void agrees_with_addr2line(void **state)
{
    struct fixture *fixture = *state;
    char path[] = "/tmp/tally-lines-XXXXXX", line[1024];
    static char functions[LEVELS][1024], files[LEVELS][1024];
    unsigned numbers[LEVELS];
    size_t asked = 0, equal = 0, inlined = 0, known = 0;
    FILE *answers = ask_addr2line(fixture, path);
    assert_non_null(answers);
    assert_non_null(fgets(line, sizeof line, answers)); /* the first address */
    for (uint64_t at = fixture->start; at < fixture->end; at += STEP, asked++) {
        struct symbol_line ours[LEVELS];
        size_t theirs = read_answer(answers, functions, files, numbers);
        size_t count = symbol_lines_at(fixture->lines, at, ours, LEVELS);
        bool unknown = theirs <= 1 && numbers[0] == 0;
        known += !unknown;
        inlined += count > 1;
        equal += unknown ? count == 0 || ours[0].line == 0
                         : same_levels(ours, count, functions, files, numbers, theirs);
    }
    pclose(answers);
    unlink(path);
    print_message("# %zu addresses, %zu with lines, %zu inlined, %zu equal\n", asked, known, inlined, equal);
    assert_true(known > 200 && inlined > 10);
    assert_true(equal * 1000 >= asked * 990); /* the two differ about rows that are no statement */
}

static void inlined_chain_is_in_order(void **state)
{
    struct fixture *fixture = *state;
    struct symbol_file *file;
    struct symbol_function function;
    uint64_t values[3] = {1, 2, 3};
    assert_true(lines_outer(values, 3) != 0);
    assert_int_equal(symbol_file_open(fixture->image, NULL, &file, NULL), 0);
    bool seen = false;
    for (uint64_t at = fixture->start; at < fixture->end; at++) {
        struct symbol_line levels[LEVELS];
        if (!symbol_file_function(file, at, &function) || strcmp(function.name, "lines_outer"))
            continue;
        size_t count = symbol_file_lines(file, at, levels, LEVELS);
        assert_true(count > 0 && levels[count - 1].function == NULL);
        seen |= count == 3 && !strcmp(levels[0].function, "inner") && !strcmp(levels[1].function, "middle");
    }
    assert_true(seen);
    symbol_file_close(file);
}

static void nothing_where_nothing_is(void **state)
{
    struct fixture *fixture = *state;
    struct symbol_line levels[LEVELS];
    assert_int_equal(symbol_lines_at(fixture->lines, 0, levels, LEVELS), 0);
    assert_int_equal(symbol_lines_at(fixture->lines, UINT64_MAX, levels, LEVELS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_addr2line),
        cmocka_unit_test(inlined_chain_is_in_order),
        cmocka_unit_test(nothing_where_nothing_is),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
