/* bench_code.c - how long it takes to survey the code of images.
 *
 *     bench_code [-n ROUNDS] FILE...
 *
 * For each file the best of ROUNDS (5): milliseconds for the list of functions (symbols, FDEs) and for the
 * survey, then what the survey found. Names and call-frame information come in as for the planner of exact
 * call counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cfi.h"
#include "code_survey.h"

struct figures {
    double list, survey; /* ms */
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int gather(const struct elf_image *image, struct code_functions *functions, struct base_error *error)
{
    struct code_bounds bounds = {NULL, 0, 0};
    struct cfi_range *ranges = NULL;
    size_t count = 0;
    int code = code_bounds_add_symbols(&bounds, image, error);
    if (code == BASE_OK)
        code = cfi_ranges(image, &ranges, &count, error);
    for (size_t i = 0; i < count && code == BASE_OK; i++)
        code = code_bounds_add(
            &bounds, &(struct code_bound){ranges[i].start, ranges[i].end, NULL, CODE_FROM_FDE, false}, error);
    if (code == BASE_OK)
        code = code_functions_make(&bounds, image, functions, error);
    free(ranges);
    code_bounds_free(&bounds);
    return code;
}

static void print_survey(const struct code_survey *survey)
{
    size_t calls = 0, indirect = 0, jumps = 0, taken = 0, unresolved = 0;
    for (size_t i = 0; i < survey->site_count; i++) {
        calls += survey->sites[i].flow == CODE_CALL;
        indirect += survey->sites[i].flow == CODE_CALL_INDIRECT;
        jumps += survey->sites[i].flow != CODE_CALL && survey->sites[i].flow != CODE_CALL_INDIRECT;
    }
    for (size_t i = 0; i < survey->functions->count; i++) {
        taken += survey->items[i].taken != 0;
        unresolved += (survey->items[i].facts & CODE_FACT_UNRESOLVED) != 0;
    }
    printf("    %zu functions, %llu fine, %zu taken, %zu unresolved; %llu instructions; %zu calls, %zu "
           "indirect, %zu jumps\n",
           survey->functions->count, (unsigned long long)survey->verdicts[CODE_VERDICT_FINE], taken,
           unresolved, (unsigned long long)survey->instructions, calls, indirect, jumps);
    for (int i = 1; i < CODE_VERDICT_END; i++)
        if (survey->verdicts[i])
            printf("    %llu of verdict %d\n", (unsigned long long)survey->verdicts[i], i);
}

static int measure(const struct elf_image *image, bool last, struct figures *best, struct base_error *error)
{
    struct code_functions functions;
    struct code_survey *survey;
    double start = now_ms();
    int code = gather(image, &functions, error);
    if (code < 0)
        return code;
    double middle = now_ms();
    code = code_survey_make(image, &functions, NULL, &survey, error);
    double end = now_ms();
    if (code == BASE_OK) {
        best->list = middle - start < best->list ? middle - start : best->list;
        best->survey = end - middle < best->survey ? end - middle : best->survey;
        if (last) {
            printf("    functions %.2f ms, survey %.2f ms, %.1f ns an instruction\n", best->list,
                   best->survey,
                   best->survey * 1e6 / (double)(survey->instructions ? survey->instructions : 1));
            print_survey(survey);
        }
        code_survey_free(survey);
    }
    code_functions_free(&functions);
    return code;
}

static int bench(const char *path, int rounds)
{
    struct base_error error = {""};
    struct elf_image *image;
    struct figures best = {1e12, 1e12};
    int code = elf_image_open(path, &image, &error);
    if (code == BASE_OK) {
        printf("%s\n", path);
        for (int i = 0; i < rounds && code == BASE_OK; i++)
            code = measure(image, i + 1 == rounds, &best, &error);
        elf_image_close(image);
    }
    if (code < 0)
        fprintf(stderr, "bench_code: %s\n", error.text);
    return code;
}

int main(int argc, char **argv)
{
    int first = 1, rounds = 5, failures = 0;
    if (argc > 2 && strcmp(argv[1], "-n") == 0) {
        rounds = atoi(argv[2]);
        first = 3;
    }
    if (first >= argc || rounds < 1) {
        fprintf(stderr, "usage: bench_code [-n ROUNDS] FILE...\n");
        return 2;
    }
    for (int i = first; i < argc; i++)
        failures += bench(argv[i], rounds) < 0;
    return failures > 0;
}
