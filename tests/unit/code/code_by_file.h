/* code_by_file.h - an image and its survey as the planner would make them: symbols, FDEs, functions,
 * survey. */
#ifndef CODE_BY_FILE_H
#define CODE_BY_FILE_H

#include <stdlib.h>
#include <string.h>

#include "base_search.h"
#include "cfi.h"
#include "code_survey.h"

struct code_by_file {
    struct elf_image *image;
    struct code_bounds bounds;
    struct code_functions functions;
    struct code_survey *survey;
};

static inline int code_by_file_add_ranges(struct code_by_file *file, struct base_error *error)
{
    struct cfi_range *ranges = NULL;
    size_t count = 0;
    int code = cfi_ranges(file->image, &ranges, &count, error);
    for (size_t i = 0; i < count && code == BASE_OK; i++)
        code = code_bounds_add(
            &file->bounds, &(struct code_bound){ranges[i].start, ranges[i].end, NULL, CODE_FROM_FDE, false},
            error);
    free(ranges);
    return code;
}

static inline void code_by_file_close(struct code_by_file *file)
{
    code_survey_free(file->survey);
    code_functions_free(&file->functions);
    code_bounds_free(&file->bounds);
    if (file->image)
        elf_image_close(file->image);
    memset(file, 0, sizeof *file);
}

/* `file->image` is open already. */
static inline int code_by_file_survey(struct code_by_file *file, const struct code_survey_options *options,
                                      struct base_error *error)
{
    int code = code_bounds_add_symbols(&file->bounds, file->image, error);
    if (code == BASE_OK)
        code = code_by_file_add_ranges(file, error);
    if (code == BASE_OK)
        code = code_functions_make(&file->bounds, file->image, &file->functions, error);
    if (code == BASE_OK)
        code = code_survey_make(file->image, &file->functions, options, &file->survey, error);
    return code;
}

static inline int code_by_file_open(const char *path, struct code_by_file *file, struct base_error *error)
{
    memset(file, 0, sizeof *file);
    int code = elf_image_open(path, &file->image, error);
    if (code < 0)
        file->image = NULL;
    return code < 0 ? code : code_by_file_survey(file, NULL, error);
}

/* The first site at or after `address`: an index into sites, site_count when there is none. */
static inline size_t code_by_file_site(const struct code_survey *survey, uint64_t address)
{
    return base_search_below(survey->sites, survey->site_count, address, address);
}

#endif
