/* The parts of the views of one function: arrows, sources, and which function somebody means. */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "annotate.h"
#include "annotate_arrows.h"
#include "annotate_source.h"
#include "sample_profile.h"

/* --- arrows --- */

static char *draw(struct annotate_arrow *arrows, size_t count, unsigned most, uint32_t rows, bool ascii)
{
    struct base_text out = {0};
    bool ok;
    unsigned lanes = annotate_arrows_place(arrows, count, most, &ok);
    assert_true(ok);
    for (uint32_t row = 0; row < rows; row++) {
        annotate_arrows_row(arrows, count, lanes, row, ascii, &out);
        base_text_add(&out, "\n");
    }
    assert_false(out.failed);
    return base_text_detach(&out);
}

static void expect(char *drawn, const char *wanted)
{
    assert_string_equal(drawn, wanted);
    free(drawn);
}

static void arrows(void **state)
{
    (void)state;
    struct annotate_arrow loop[] = {{3, 1, 0}};
    expect(draw(loop, 1, 6, 5, false), "   \n"
                                       "╭▶ \n"
                                       "│  \n"
                                       "╰─ \n"
                                       "   \n");
    struct annotate_arrow nest[] = {{5, 0, 0}, {3, 1, 0}, {1, 4, 0}};
    expect(draw(nest, 3, 6, 6, false), "╭──▶ \n"
                                       "│╭╭▶ \n"
                                       "│││  \n"
                                       "││╰─ \n"
                                       "│╰─▶ \n"
                                       "╰─── \n");
    struct annotate_arrow crossing[] = {{0, 3, 0}, {1, 2, 0}, {4, 2, 0}};
    expect(draw(crossing, 3, 6, 5, true), ",--- \n"
                                          "| ,- \n"
                                          "|,`> \n"
                                          "`+-> \n"
                                          " `-- \n");
}

static void too_many_arrows(void **state)
{
    (void)state;
    struct annotate_arrow all[] = {{0, 9, 0}, {1, 8, 0}, {2, 7, 0}, {3, 6, 0}};
    expect(draw(all, 4, 2, 10, true), "    \n    \n,-- \n|,- \n||  \n||  \n|`> \n`-> \n    \n    \n");
    assert_int_equal(all[0].lane, ANNOTATE_ARROWS_NONE);
    expect(draw(NULL, 0, 6, 2, true), "  \n  \n");
}

/* --- sources --- */

static char directory[] = "/tmp/tally-test-XXXXXX";

static char *put_file(const char *name, const char *bytes, size_t size)
{
    char *path;
    assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void expect_line(struct annotate_source *source, const char *path, uint32_t line, const char *wanted)
{
    size_t length = 0;
    const char *text = annotate_source_line(source, path, line, &length);
    if (!wanted) {
        assert_null(text);
        return;
    }
    assert_non_null(text);
    assert_int_equal(length, strlen(wanted));
    assert_memory_equal(text, wanted, length);
}

static void lines_of_files(void **state)
{
    struct annotate_source source = {0};
    (void)state;
    char *plain = put_file("plain.c", "one\r\n\nthree", 11);
    expect_line(&source, plain, 0, NULL);
    expect_line(&source, plain, 1, "one");
    expect_line(&source, plain, 2, "");
    expect_line(&source, plain, 3, "three");
    expect_line(&source, plain, 4, NULL);
    expect_line(&source, plain, UINT32_MAX, NULL);
    assert_int_equal(annotate_source_count(&source, plain), 3);
    assert_int_equal(annotate_source_error(&source, plain), 0);
    assert_true(annotate_source_changed(&source, plain) > 0);
    char *empty = put_file("empty.c", "", 0), *end = put_file("end.c", "a\n", 2);
    expect_line(&source, empty, 1, NULL);
    assert_int_equal(annotate_source_count(&source, empty), 0);
    assert_int_equal(annotate_source_count(&source, end), 1);
    expect_line(&source, end, 1, "a");
    assert_int_equal(annotate_source_error(&source, "/dev/zero"), EINVAL);
    assert_int_equal(annotate_source_error(&source, directory), EINVAL);
    assert_int_equal(annotate_source_error(&source, "/nonexistent/a.c"), ENOENT);
    assert_int_equal(annotate_source_changed(&source, "/nonexistent/a.c"), 0);
    annotate_source_free(&source);
    unlink(plain);
    unlink(empty);
    unlink(end);
    free(plain);
    free(empty);
    free(end);
}

static void maps_of_paths(void **state)
{
    const char *const maps[] = {"/build/=/a/", "/src=/b", "rel=/c", "/src/deep=/never"};
    struct annotate_source source = {.maps = maps, .map_count = 4};
    (void)state;
    assert_string_equal(annotate_source_path(&source, "/build/x.c"), "/a/x.c");
    assert_string_equal(annotate_source_path(&source, "/src/deep/x.c"), "/b/deep/x.c"); /* the first counts */
    assert_string_equal(annotate_source_path(&source, "/src"), "/b");
    assert_string_equal(annotate_source_path(&source, "/srcs/x.c"), "/srcs/x.c");
    assert_string_equal(annotate_source_path(&source, "rel/x.c"), "/c/x.c");
    assert_string_equal(annotate_source_path(&source, "/other/x.c"), "/other/x.c");
    annotate_source_free(&source);
}

/* --- which function --- */

static void expect_answer(const struct sample_profile *sample, const char *function, const char *image,
                          const char *wanted)
{
    const struct view_annotation annotation = {.function = function, .image = image, .around = 4};
    struct view_options options = {.view = VIEW_ANNOTATE, .annotation = &annotation, .width = 0};
    struct base_text out = {0};
    struct base_error error = {0};
    int code = annotate_print(sample->profile, &options, &out, &error);
    const char *found = code ? error.text : strstr(base_text_string(&out), wanted);
    if (!found || strncmp(found, wanted, strlen(wanted)))
        fail_msg("%s gives %s", function, code ? error.text : base_text_string(&out));
    assert_true(code == BASE_OK || code == BASE_EUSAGE);
    base_text_free(&out);
}

static void functions_meant(void **state)
{
    struct sample_profile sample = sample_profile_full();
    (void)state;
    expect_answer(&sample, "fib", NULL, "fib in libsqlite3");
    expect_answer(&sample, "sqlite3V", NULL, "sqlite3VdbeExec in libsqlite3");
    expect_answer(&sample, "*Next", NULL, "sqlite3BtreeNext in libsqlite3");
    expect_answer(&sample, "libsqlite3.so.0+0x1008", NULL, "sqlite3VdbeExec in libsqlite3");
    expect_answer(&sample, "libsqlite3.so.0+0x9999999", NULL, "no function libsqlite3.so.0+0x9999999");
    expect_answer(&sample, "hash_bytes", NULL,
                  "hash_bytes has no code of its own: it was inlined into std::__detail");
    expect_answer(&sample, "sqlite3", NULL, "2 functions are meant by sqlite3: sqlite3VdbeExec (");
    expect_answer(&sample, "vdbeexec", NULL,
                  "no function vdbeexec in this profile; did you mean sqlite3VdbeExec?");
    expect_answer(&sample, "mian", NULL, "no function mian in this profile; did you mean main?");
    expect_answer(
        &sample, "zzzzzzzzzzzzzzzz", NULL,
        "no function zzzzzzzzzzzzzzzz in this profile (tally report shows those that have samples)");
    expect_answer(&sample, "main", "lib*", "no function main in an image lib*; there is one in ");
    profile_free(sample.profile);
}

static void functions_of_one_name(void **state)
{
    struct sample_profile sample = sample_profile_new();
    uint32_t first = sample_profile_function(&sample, sample.program, "init", 0x100, "/src/a.c", 3);
    uint32_t second = sample_profile_function(&sample, sample.library, "init", 0x900, "/src/b.c", 3);
    uint32_t cold = sample_profile_function(&sample, sample.library, "init.cold", 0x700, "/src/b.c", 9);
    uint32_t method = sample_profile_function(&sample, sample.library, "ns::stack<a::b>::push(int)", 0xa00,
                                              "/src/c.cpp", 3);
    (void)state;
    SAMPLE(&sample, 0, 30, first);
    expect_answer(&sample, "init", NULL, "init in "); /* the other has no sample */
    SAMPLE(&sample, 0, 10, second);
    SAMPLE(&sample, 0, 5, cold);
    SAMPLE(&sample, 0, 5, method);
    expect_answer(&sample, "init", NULL, "2 functions are called init: ");
    expect_answer(&sample, "init", "libsqlite3*", "init in libsqlite3");
    expect_answer(&sample, "init", "libsqlite3*", "note: a part of it lies apart: init.cold (10.0 %)");
    expect_answer(&sample, "push", NULL, "ns::stack<a::b>::push(int) in ");
    expect_answer(&sample, "stack<a::b>::push", NULL, "ns::stack<a::b>::push(int) in ");
    expect_answer(&sample, "ush", NULL, "no function ush");
    profile_free(sample.profile);
}

/* --- instructions: files of one segment, without sections --- */

enum { AT = 0x1000 };

static char *put_program(const char *name, uint16_t machine, const uint8_t *code, size_t size)
{
    uint8_t bytes[sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + 256];
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_DYN,
                         .e_machine = machine,
                         .e_version = EV_CURRENT,
                         .e_phoff = sizeof header,
                         .e_ehsize = sizeof header,
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 1};
    Elf64_Phdr program = {.p_type = PT_LOAD,
                          .p_flags = PF_R | PF_X,
                          .p_offset = sizeof header + sizeof program,
                          .p_vaddr = AT,
                          .p_filesz = size,
                          .p_memsz = size,
                          .p_align = 1};
    assert_true(size <= 256);
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, &program, sizeof program);
    memcpy(bytes + sizeof header + sizeof program, code, size);
    return put_file(name, (const char *)bytes, sizeof header + sizeof program + size);
}

static uint32_t address_in(struct profile *profile, uint32_t image, uint32_t function, uint64_t offset)
{
    uint32_t index = profile_address(profile, image, AT + offset);
    struct profile_address value = profile->addresses[index];
    value.resolution = PROFILE_RESOLVED;
    value.lines_known = true;
    value.function = function;
    profile_set_address(profile, index, &value);
    return index;
}

/* `hot` has 75 samples, `call` (an address inside a call) 25 in what it called. */
static char *listing(const char *path, size_t size, uint64_t hot, uint64_t call, bool ascii)
{
    struct profile *profile = profile_new();
    uint32_t process = profile_process(profile, 1, 0), thread = profile_thread(profile, process, 1);
    uint32_t counter = profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, path, NULL, 0);
    uint32_t function = profile_function(profile, image, "nest", AT, AT + size);
    uint32_t leaf = profile_node(profile, 0, address_in(profile, image, function, hot), 0);
    uint32_t caller = profile_node(profile, 0, address_in(profile, image, function, call), 0);
    uint32_t elsewhere = profile_image(profile, PROFILE_IMAGE_KERNEL, "[kernel]", NULL, 0);
    uint32_t callee = profile_node(profile, caller, profile_address(profile, elsewhere, 0xffff0000), 0);
    profile_set_meta(profile, "start_time", "9999999999");
    profile_count(profile, (struct profile_key){leaf, thread, 0, (uint16_t)counter}, 75000000, 75);
    profile_count(profile, (struct profile_key){callee, thread, 0, (uint16_t)counter}, 25000000, 25);
    const struct view_annotation annotation = {.function = "nest", .assembly = true, .around = 4};
    struct view_options options = {
        .view = VIEW_ANNOTATE, .annotation = &annotation, .width = 80, .ascii = ascii, .limit_percent = 1};
    char *whole = sample_profile_report_by(annotate_print, profile, &options),
         *from = strstr(whole, "nest in ");
    assert_non_null(from);
    char *text = strdup(from);
    free(whole);
    profile_free(profile);
    return text;
}

static void instructions_of_x86_64(void **state)
{
    static const uint8_t code[] = {
        0x31, 0xc9,                   /*  0: xor %ecx,%ecx */
        0x31, 0xd2,                   /*  2: xor %edx,%edx */
        0x01, 0xd0,                   /*  4: add %edx,%eax */
        0xff, 0xc2,                   /*  6: inc %edx */
        0x83, 0xfa, 0x0a,             /*  8: cmp $10,%edx */
        0x75, 0xf7,                   /*  b: jne 4 */
        0xe8, 0xee, 0x0f, 0x00, 0x00, /*  d: call 2000 */
        0xff, 0xc1,                   /* 12: inc %ecx */
        0x83, 0xf9, 0x0a,             /* 14: cmp $10,%ecx */
        0x75, 0xe9,                   /* 17: jne 2 */
        0xc3,                         /* 19: ret */
    };
    (void)state;
    char *path = put_program("nest", EM_X86_64, code, sizeof code);
    expect(listing(path, sizeof code, 6, 0x11, false),
           "nest in nest\n"
           "self 75.0 ±8.4 % (75.0 ms), total 100.0 ±1.8 %, 75 samples\n"
           "\n"
           "  loop  total         self         where\n"
           "  1     100.0 ±1.8 %  75.0 ±8.4 %  0x1002-0x1019\n"
           "    2    75.0 ±8.4 %  75.0 ±8.4 %  0x1004-0x100d\n"
           "\n"
           "    self         total samples loop     at    instruction\n"
           "                                        1000  xor %ecx, %ecx\n"
           "                                  1 ╭─▶ 1002  xor %edx, %edx\n"
           "                                  2 │╭▶ 1004  add %edx, %eax\n"
           ">  75.0 ±8.4 %              75    2 ││  1006  inc %edx\n"
           "                                  2 ││  1008  cmp $0xa, %edx\n"
           "                                  2 │╰─ 100b  jnz 1004\n"
           "                25.0 %            1 │   100d  call 2000\n"
           "                                  1 │   1012  inc %ecx\n"
           "                                  1 │   1014  cmp $0xa, %ecx\n"
           "                                  1 ╰── 1017  jnz 1002\n"
           "                                        1019  ret\n");
    unlink(path);
    free(path);
}

static void instructions_of_aarch64(void **state)
{
    static const uint8_t code[] = {
        0x23, 0x84, 0x40, 0xf8, /*  0: ldr x3, [x1], #8 */
        0x42, 0x00, 0x03, 0x8b, /*  4: add x2, x2, x3 */
        0x84, 0x04, 0x00, 0xf1, /*  8: subs x4, x4, #1 */
        0xa1, 0xff, 0xff, 0x54, /*  c: b.ne 0 */
        0xfc, 0x03, 0x00, 0x94, /* 10: bl 2000 */
        0xc0, 0x03, 0x5f, 0xd6, /* 14: ret */
    };
    (void)state;
    char *path = put_program("nest", EM_AARCH64, code, sizeof code);
    expect(listing(path, sizeof code, 4, 0x13, true),
           "nest in nest\n"
           "self 75.0 +-8.4 % (75.0 ms), total 100.0 +-1.8 %, 75 samples\n"
           "\n"
           "  loop  total         self          where\n"
           "  1     75.0 +-8.4 %  75.0 +-8.4 %  0x1000-0x1010\n"
           "\n"
           "    self         total samples loop    at    instruction\n"
           "                                  1 ,> 1000  ldr x3, [x1], #8\n"
           "> 75.0 +-8.4 %              75    1 |  1004  add x2, x2, x3\n"
           "                                  1 |  1008  subs x4, x4, #1\n"
           "                                  1 `- 100c  b.ne 1000\n"
           "                25.0 %                 1010  bl 2000\n"
           "                                       1014  ret\n");
    unlink(path);
    free(path);
}

static void code_of_a_strange_machine(void **state)
{
    static const uint8_t code[] = {0x13, 0, 0, 0, 0x13, 0, 0, 0};
    (void)state;
    char *path = put_program("nest", EM_RISCV, code, sizeof code);
    char *text = listing(path, sizeof code, 0, 4, false);
    assert_non_null(strstr(text, "note: code of ELF machine 243 cannot be shown; these are the addresses"));
    free(text);
    unlink(path);
    free(path);
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrows),
        cmocka_unit_test(too_many_arrows),
        cmocka_unit_test(lines_of_files),
        cmocka_unit_test(maps_of_paths),
        cmocka_unit_test(functions_meant),
        cmocka_unit_test(functions_of_one_name),
        cmocka_unit_test(instructions_of_x86_64),
        cmocka_unit_test(instructions_of_aarch64),
        cmocka_unit_test(code_of_a_strange_machine),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
