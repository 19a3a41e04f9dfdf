#include "annotate_binary.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base_search.h"
#include "code_aarch64.h"

/* --- opening --- */

static bool binary_refuse(struct annotate_binary *binary)
{
    const struct profile *profile = binary->profile;
    const struct profile_image *image = &profile->images[binary->image];
    switch (image->kind) {
    case PROFILE_IMAGE_FILE:
        return false;
    case PROFILE_IMAGE_VDSO:
        base_text_add(&binary->why, "the vDSO is no file, its code cannot be read");
        break;
    case PROFILE_IMAGE_KERNEL:
        base_text_add(&binary->why, "the kernel's code cannot be read");
        break;
    case PROFILE_IMAGE_JIT:
        base_text_addf(&binary->why, "code that process %d generated is gone with it",
                       profile->processes[image->process].pid);
        break;
    default:
        base_text_add(&binary->why, "there is no code behind it");
    }
    return true;
}

/* Without a build-id only the time of the last change tells. */
static bool is_newer(const struct profile *profile, const char *path)
{
    const char *start = profile_meta(profile, "start_time"), *duration = profile_meta(profile, "duration_ns");
    struct stat status;
    if (!start || stat(path, &status) != 0)
        return false;
    double end = strtod(start, NULL) + (duration ? strtod(duration, NULL) / 1e9 : 0);
    return (double)status.st_mtim.tv_sec + (double)status.st_mtim.tv_nsec / 1e9 > end;
}

static bool is_the_same(struct annotate_binary *binary, const char *path)
{
    char now[2 * ELF_BUILD_ID_MAX + 1] = "";
    const char *then = profile_text(binary->profile, binary->profile->images[binary->image].build_id);
    if (elf_image_build_id(binary->elf)->size)
        elf_build_id_format(elf_image_build_id(binary->elf), now);
    if (strcmp(now, then)) {
        base_text_addf(&binary->why, "%s has changed since: its build-id is %s, then %s", path,
                       *now ? now : "gone", *then ? then : "it had none");
        return false;
    }
    if (*now || !is_newer(binary->profile, path))
        return true;
    base_text_addf(&binary->why, "%s has no build-id and has changed since", path);
    return false;
}

static void close_file(struct annotate_binary *binary)
{
    code_survey_free(binary->survey);
    binary->survey = NULL;
    symbol_file_close(binary->symbols);
    elf_image_close(binary->elf);
    code_text_free(&binary->memory);
    binary->symbols = NULL;
    binary->elf = NULL;
}

bool annotate_binary_open(struct annotate_binary *binary, const struct profile *profile, uint32_t image,
                          bool debuginfod)
{
    const char *path = profile_text(profile, profile->images[image].path);
    struct symbol_options options = {.debuginfod = debuginfod, .root = ""};
    struct base_error error = {0};
    *binary = (struct annotate_binary){.profile = profile, .image = image};
    if (binary_refuse(binary))
        return !binary->why.failed;
    int code = elf_image_open(path, &binary->elf, &error);
    if (code < 0) {
        binary->elf = NULL;
        base_text_add(&binary->why, error.text);
        return code != BASE_ENOMEM && !binary->why.failed;
    }
    if (!is_the_same(binary, path)) {
        close_file(binary);
        return !binary->why.failed;
    }
    uint16_t machine = elf_image_machine(binary->elf);
    if (machine != EM_X86_64 && machine != EM_AARCH64) {
        base_text_addf(&binary->why, "code of ELF machine %u cannot be shown", machine);
        close_file(binary);
        return !binary->why.failed;
    }
    binary->aarch64 = machine == EM_AARCH64;
    if (symbol_file_open(binary->elf, &options, &binary->symbols, &error) < 0 ||
        code_text_of_loads(binary->elf, &binary->memory, &error) < 0) {
        close_file(binary);
        return false;
    }
    return true;
}

void annotate_binary_close(struct annotate_binary *binary)
{
    close_file(binary);
    base_map_free(&binary->stays);
    base_text_free(&binary->why);
}

/* --- functions that never return --- */

/* What follows a call of one is other code: taking it for the continuation would give loops a second way
 * in. */
static bool is_known_to_stay(const char *name)
{
    static const char *const names[] = {"abort",
                                        "exit",
                                        "_exit",
                                        "_Exit",
                                        "quick_exit",
                                        "pthread_exit",
                                        "__assert_fail",
                                        "__assert",
                                        "__stack_chk_fail",
                                        "__fortify_fail",
                                        "__chk_fail",
                                        "__longjmp_chk",
                                        "longjmp",
                                        "siglongjmp",
                                        "_longjmp",
                                        "__cxa_throw",
                                        "__cxa_rethrow",
                                        "__cxa_bad_cast",
                                        "__cxa_bad_typeid",
                                        "__cxa_throw_bad_array_new_length",
                                        "__cxa_pure_virtual",
                                        "__cxa_call_unexpected",
                                        "_Unwind_Resume",
                                        "_ZSt9terminatev",
                                        "__libc_fatal",
                                        "__libc_message",
                                        "__libc_message_impl",
                                        "malloc_printerr",
                                        "err",
                                        "errx",
                                        "verr",
                                        "verrx",
                                        "rust_panic",
                                        "_gfortran_stop_string",
                                        "_gfortran_runtime_error_at"};
    size_t length = strcspn(name, "@");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !strncmp(name, names[i], length))
            return true;
    return !strncmp(name, "_ZSt", 4) && strstr(name, "__throw_"); /* std::__throw_length_error ... */
}

static int decode_range(const struct annotate_binary *binary, uint64_t start, uint64_t end,
                        struct code_instructions *instructions)
{
    uint64_t where;
    return binary->aarch64 ? code_aarch64_decode_all(&binary->memory, start, end, instructions, &where)
                           : code_instructions_decode(&binary->memory, start, end, instructions, &where);
}

/* No way out of [start, end) is seen in it: then it ends the program, or throws. */
static bool has_no_way_out(const struct code_instructions *instructions, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < instructions->count; i++) {
        const struct code_instruction *at = &instructions->items[i];
        bool jumps = at->flow == CODE_JUMP || at->flow == CODE_BRANCH;
        if (at->flow == CODE_RETURN || at->flow == CODE_JUMP_INDIRECT ||
            (jumps && (at->target < start || at->target >= end)))
            return false;
    }
    return instructions->count > 0;
}

static bool is_noreturn_function(struct annotate_binary *binary, uint64_t target)
{
    enum { LONGEST = 4096 }; /* those that only complain are short */
    struct symbol_function function;
    struct code_instructions instructions = {0};
    if (!symbol_file_function(binary->symbols, target, &function) || function.start != target)
        return false;
    if (is_known_to_stay(function.raw_name))
        return true;
    if (function.end - function.start > LONGEST)
        return false;
    bool found = decode_range(binary, function.start, function.end, &instructions) == CODE_VERDICT_FINE &&
                 has_no_way_out(&instructions, function.start, function.end);
    code_instructions_free(&instructions);
    return found;
}

static bool is_returning_function(void *context, uint64_t target)
{
    struct annotate_binary *binary = context;
    uint32_t known = base_map_find(&binary->stays, target);
    if (known == BASE_MAP_NONE) {
        known = is_noreturn_function(binary, target);
        base_map_set(&binary->stays, target, known); /* else it is asked again */
    }
    return !known;
}

/* --- the code of a function --- */

int annotate_binary_code(struct annotate_binary *binary, uint64_t start, uint64_t end,
                         struct annotate_code *code, struct base_error *error)
{
    struct code_graph_options options = {
        .returns = is_returning_function, .context = binary, .aarch64 = binary->aarch64};
    *code = (struct annotate_code){0};
    if (!binary->elf)
        return BASE_OK;
    int result = decode_range(binary, start, end, &code->instructions);
    const struct code_instruction *last =
        code->instructions.count ? &code->instructions.items[code->instructions.count - 1] : NULL;
    code->whole = result >= 0 && last && last->address + last->length == end;
    if (result < 0)
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    else
        result = BASE_OK;
    if (code->whole)
        result = code_graph_make(&code->instructions, &binary->memory, &options, &code->graph, error);
    if (result == BASE_OK)
        result = code_loops_find(&code->graph, &code->loops, error);
    if (result < 0)
        annotate_binary_code_free(code);
    return result;
}

void annotate_binary_code_free(struct annotate_code *code)
{
    code_instructions_free(&code->instructions);
    code_graph_free(&code->graph);
    code_loops_free(&code->loops);
    *code = (struct annotate_code){0};
}

size_t annotate_binary_instruction(const struct annotate_code *code, uint64_t address)
{
    const struct code_instructions *all = &code->instructions;
    size_t count = base_search_up_to(all->items, all->count, address, address);
    if (!count || address - all->items[count - 1].address >= all->items[count - 1].length)
        return SIZE_MAX;
    return count - 1;
}

size_t annotate_binary_lines(struct annotate_binary *binary, uint64_t address,
                             struct symbol_line levels[ANNOTATE_BINARY_LEVELS])
{
    return binary->symbols ? symbol_file_lines(binary->symbols, address, levels, ANNOTATE_BINARY_LEVELS) : 0;
}

const char *annotate_binary_slot(struct annotate_binary *binary, uint64_t address)
{
    static const struct code_functions nothing = {0};
    if (!binary->survey_tried && binary->elf) {
        binary->survey_tried = true;
        if (code_survey_make(binary->elf, &nothing, NULL, &binary->survey, NULL) < 0)
            binary->survey = NULL; /* other machines have no slots here */
    }
    const char *name = binary->survey ? code_survey_slot_name(binary->survey, address) : NULL;
    return name && *name ? name : NULL;
}
