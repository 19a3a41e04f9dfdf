/* annotate_binary.h on real programs: the loops of functions of Debian's libraries, compared by hand with their
 * sources once and kept (expected/loops-*.txt); and files that are not what was profiled. argv: EXPECTED
 * LIBRARY, as often as wanted. With --print LIBRARY FUNCTION... the loops are printed as the files have
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "annotate_binary.h"
#include "code_function.h"

static char **arguments;
static int argument_count;

/* --- loops as text --- */

static void write_loops(const struct annotate_code *code, uint64_t start, struct base_text *out)
{
    for (uint32_t i = 0; i < code->loops.count; i++) {
        const struct code_loop *loop = &code->loops.items[i];
        base_text_addf(out, "%*s%lx%s", 2 * (int)loop->depth, "",
                       (unsigned long)(code->graph.blocks[loop->header].start - start),
                       loop->irreducible ? " irreducible" : "");
        for (uint32_t k = 0; k < loop->back_count; k++) {
            const struct code_block *back = &code->graph.blocks[code->loops.backs[loop->first_back + k]];
            base_text_addf(out, "%s%lx", k ? "," : " <", (unsigned long)(back->start - start));
        }
        base_text_add(out, "\n");
    }
}

static struct profile *profile_of(const char *path, uint32_t *image)
{
    struct elf_image *elf;
    char build_id[2 * ELF_BUILD_ID_MAX + 1] = "";
    struct profile *profile = profile_new();
    if (elf_image_open(path, &elf, NULL) == BASE_OK) {
        if (elf_image_build_id(elf)->size)
            elf_build_id_format(elf_image_build_id(elf), build_id);
        elf_image_close(elf);
    }
    assert_non_null(profile);
    *image = profile_image(profile, PROFILE_IMAGE_FILE, path, build_id, 0);
    return profile;
}

/* Appends the name and the loops; false: there is no such function. */
static bool add_function(struct annotate_binary *binary, const char *name, struct base_text *out)
{
    struct code_bounds bounds = {0};
    struct annotate_code code;
    bool found = false;
    assert_int_equal(code_bounds_add_symbols(&bounds, binary->elf, NULL), BASE_OK);
    for (size_t i = 0; i < bounds.count && !found; i++) {
        const struct code_bound *bound = &bounds.items[i];
        if (strcmp(bound->name, name) || bound->end <= bound->start)
            continue;
        found = true;
        assert_int_equal(annotate_binary_code(binary, bound->start, bound->end, &code, NULL), BASE_OK);
        base_text_addf(out, "%s%s\n", name, code.whole ? "" : " does not decode");
        write_loops(&code, bound->start, out);
        annotate_binary_code_free(&code);
    }
    code_bounds_free(&bounds);
    return found;
}

/* --- against what was compared by hand --- */

static bool has_build_id(struct annotate_binary *binary, const char *wanted)
{
    return !strcmp(profile_text(binary->profile, binary->profile->images[binary->image].build_id), wanted);
}

/* Lines that begin a function stand at the margin; "#" begins a remark. */
static void compare_file(FILE *file, struct annotate_binary *binary, struct base_text *wanted,
                         struct base_text *found)
{
    char line[512];
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        base_text_add(wanted, line);
        if (line[0] == ' ')
            continue;
        line[strcspn(line, " \n")] = '\0';
        assert_true(add_function(binary, line, found));
    }
}

static void compare_library(const char *expected, const char *path)
{
    struct annotate_binary binary;
    struct base_text wanted = {0}, found = {0};
    char build_id[128];
    uint32_t image;
    struct profile *profile = profile_of(path, &image);
    FILE *file = fopen(expected, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "build-id %100s\n", build_id), 1);
    assert_true(annotate_binary_open(&binary, profile, image, false));
    if (!binary.elf || !has_build_id(&binary, build_id)) {
        print_message("# skipped: %s is not the one that was compared (build-id %s)\n", path, build_id);
    } else {
        compare_file(file, &binary, &wanted, &found);
        assert_string_equal(base_text_string(&found), base_text_string(&wanted));
    }
    fclose(file);
    annotate_binary_close(&binary);
    profile_free(profile);
    base_text_free(&wanted);
    base_text_free(&found);
}

static void libraries(void **state)
{
    (void)state;
    for (int i = 1; i + 1 < argument_count; i += 2)
        compare_library(arguments[i], arguments[i + 1]);
}

/* --- files that are not what was profiled --- */

static void expect_refusal(uint32_t kind, const char *path, const char *build_id, const char *start_time,
                           const char *why)
{
    struct annotate_binary binary;
    struct profile *profile = profile_new();
    uint32_t process = profile_process(profile, 77, 0);
    uint32_t image = profile_image(profile, kind, path, build_id, kind == PROFILE_IMAGE_JIT ? process : 0);
    if (start_time)
        profile_set_meta(profile, "start_time", start_time);
    assert_true(annotate_binary_open(&binary, profile, image, false));
    if (why) {
        assert_null(binary.elf);
        if (!strstr(base_text_string(&binary.why), why))
            fail_msg("%s: %s", path, base_text_string(&binary.why));
    } else {
        assert_non_null(binary.elf);
        assert_string_equal(base_text_string(&binary.why), "");
    }
    struct annotate_code code;
    assert_int_equal(annotate_binary_code(&binary, 0, 64, &code, NULL), BASE_OK);
    assert_true(why == NULL || (!code.whole && code.instructions.count == 0));
    annotate_binary_code_free(&code);
    annotate_binary_close(&binary);
    profile_free(profile);
}

static void refusals(void **state)
{
    (void)state;
    char *self = arguments[0];
    expect_refusal(PROFILE_IMAGE_KERNEL, "[kernel]", NULL, NULL, "the kernel's code cannot be read");
    expect_refusal(PROFILE_IMAGE_VDSO, "[vdso]", NULL, NULL, "the vDSO is no file");
    expect_refusal(PROFILE_IMAGE_JIT, "[jit]", NULL, NULL, "code that process 77 generated is gone with it");
    expect_refusal(PROFILE_IMAGE_SPECIAL, "(folded)", NULL, NULL, "there is no code behind it");
    expect_refusal(PROFILE_IMAGE_FILE, "/nonexistent/program", NULL, NULL, "No such file or directory");
    expect_refusal(PROFILE_IMAGE_FILE, "/etc/passwd", NULL, NULL, "/etc/passwd");
    expect_refusal(PROFILE_IMAGE_FILE, self, "00112233", NULL, "has changed since: its build-id is ");
}

/* An image without a build-id is believed as long as it is older than the recording. */
static void without_build_id(void **state)
{
    char path[] = "/tmp/tally-test-XXXXXX";
    int descriptor = mkstemp(path);
    uint8_t header[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 3, [18] = 0x3e, [20] = 1, [52] = 64};
    (void)state;
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, header, sizeof header), sizeof header);
    struct timespec times[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    assert_int_equal(futimens(descriptor, times), 0);
    close(descriptor);
    expect_refusal(PROFILE_IMAGE_FILE, path, NULL, "1000001", NULL);
    expect_refusal(PROFILE_IMAGE_FILE, path, NULL, "999999", "has no build-id and has changed since");
    expect_refusal(PROFILE_IMAGE_FILE, path, "0011", "1000001", "its build-id is gone, then 0011");
    unlink(path);
}

/* This program calls cmocka through a slot of its GOT. */
static void slots(void **state)
{
    struct annotate_binary binary;
    struct elf_section section;
    uint32_t image, found = 0;
    struct profile *profile = profile_of(arguments[0], &image);
    (void)state;
    assert_true(annotate_binary_open(&binary, profile, image, false));
    assert_non_null(binary.elf);
    for (size_t i = 0; i < elf_image_section_count(binary.elf); i++) {
        if (!elf_image_section_header(binary.elf, i, &section) || strncmp(section.name, ".got", 4))
            continue;
        for (uint64_t at = section.address; at < section.address + section.memory_size; at += 8) {
            const char *name = annotate_binary_slot(&binary, at);
            found += name && !strcmp(name, "_cmocka_run_group_tests");
        }
    }
    assert_int_equal(found, 1);
    assert_null(annotate_binary_slot(&binary, 0));
    annotate_binary_close(&binary);
    profile_free(profile);
}

static int print_all(int count, char **names)
{
    struct annotate_binary binary;
    struct base_text out = {0};
    uint32_t image;
    struct profile *profile = profile_of(names[0], &image);
    if (!annotate_binary_open(&binary, profile, image, false) || !binary.elf)
        return 1;
    printf("build-id %s\n", profile_text(profile, profile->images[image].build_id));
    for (int i = 1; i < count; i++)
        add_function(&binary, names[i], &out);
    fputs(base_text_string(&out), stdout);
    base_text_free(&out);
    annotate_binary_close(&binary);
    profile_free(profile);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries),
        cmocka_unit_test(refusals),
        cmocka_unit_test(without_build_id),
        cmocka_unit_test(slots),
    };
    arguments = argv;
    argument_count = argc;
    if (argc > 2 && !strcmp(argv[1], "--print"))
        return print_all(argc - 2, argv + 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
