/* The test program of a module: `test_MODULE NAME [ARGUMENT...]` runs the tests of test_NAME.c.
 *
 * Each file keeps its own main(), which module_file.c.in renames to test_NAME_main: a module is linked once,
 * not once a file, and meson still runs each file in a process of its own. MODULE_FILES comes from
 * tests/unit/meson.build: MODULE_FILE(text) MODULE_FILE(views), or MODULE_FILE_WITH_ARGUMENTS(survey) where
 * main() takes arguments. */
#include <stdio.h>
#include <string.h>

#define MODULE_FILE(name)                int test_##name##_main(void);
#define MODULE_FILE_WITH_ARGUMENTS(name) int test_##name##_main(int argc, char **argv);
MODULE_FILES
#undef MODULE_FILE
#undef MODULE_FILE_WITH_ARGUMENTS

struct module_file {
    const char *name;
    int (*run)(void);
    int (*run_with)(int argc, char **argv);
};

#define MODULE_FILE(name)                {#name, test_##name##_main, NULL},
#define MODULE_FILE_WITH_ARGUMENTS(name) {#name, NULL, test_##name##_main},
static const struct module_file files[] = {MODULE_FILES};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof files / sizeof *files; i++) {
        if (strcmp(argv[1], files[i].name) != 0)
            continue;
        argv[1] = argv[0]; /* some open their own program */
        return files[i].run ? files[i].run() : files[i].run_with(argc - 1, argv + 1);
    }
    fprintf(stderr, "usage: %s NAME [ARGUMENT...]\nnames:", argv[0]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        fprintf(stderr, " %s", files[i].name);
    fputc('\n', stderr);
    return 2;
}
