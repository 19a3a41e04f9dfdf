/* export_firefox.c - the processed format of the Firefox Profiler. Source: its type definitions and the
 * changes that its upgrader makes from version to version; this is version 63, in which the tables of stacks,
 * frames and functions are shared by all threads. Later versions of the profiler bring it up to theirs when
 * they load it.
 *
 * With a timeline each sample is one, at its time, with the CPU time that it stands for. Without one a thread
 * has a sample for each stack, weighing what its figures are, and the samples follow each other in the order
 * of the tree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "export_formats.h"
#include "export_moments.h"
#include "export_tree.h"

enum { VERSION = 63, GECKO_VERSION = 36, LIBRARY = 1 };

/* In the order of CATEGORIES below. */
enum category { OTHER, USER, KERNEL, GENERATED };

struct firefox {
    struct export_job *job;
    const struct export_frames *frames;
    const struct export_tree *tree;
    const struct export_moments *moments;
    uint16_t counter;
    bool timed;
    /* Texts, each once, as they are written; those that were made for it are at the end of `made`. */
    const char **strings;
    char **made;
    size_t string_count, string_capacity, made_count, made_capacity;
    struct base_map string_map; /* hash -> string, the next key after that if it is another's */
    uint32_t *of_function, *of_image, *of_source; /* strings */
    uint32_t *source;                             /* by function, from 1; 0: unknown */
    size_t source_count;
};

static void firefox_put(struct firefox *firefox, const char *text)
{
    export_output_text(firefox->job->output, text);
}

static void put_name(struct firefox *firefox, const char *name)
{
    export_output_name(firefox->job->output, name, EXPORT_ESCAPE_JSON);
}

static void put_string(struct firefox *firefox, uint32_t string)
{
    put_name(firefox, profile_text(firefox->job->profile, string));
}

static void put_number(struct firefox *firefox, int64_t number)
{
    export_output_integer(firefox->job->output, number);
}

/* Nanoseconds as milliseconds. */
static void put_ms(struct firefox *firefox, uint64_t ns)
{
    char text[48];
    snprintf(text, sizeof text, "%llu.%06u", (unsigned long long)(ns / 1000000), (unsigned)(ns % 1000000));
    firefox_put(firefox, text);
}

/* A column of `count` items, each written by `item`; one of NULL is null in all of them. */
static void put_column(struct firefox *firefox, const char *name, size_t count,
                       void (*item)(struct firefox *firefox, size_t index), const char *same)
{
    firefox_put(firefox, "\"");
    firefox_put(firefox, name);
    firefox_put(firefox, "\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            firefox_put(firefox, ",");
        if (item)
            item(firefox, i);
        else
            firefox_put(firefox, same);
    }
    firefox_put(firefox, "],\n");
}

static void end_table(struct firefox *firefox, size_t count, const char *more)
{
    firefox_put(firefox, "\"length\":");
    put_number(firefox, (int64_t)count);
    firefox_put(firefox, more);
}

/* --- texts --- */

/* False when memory ran out. The text must stay. */
static bool intern_text(struct firefox *firefox, const char *text, uint32_t *index)
{
    uint64_t key = base_hash_bytes(text, strlen(text));
    for (;; key++) {
        *index = base_map_find(&firefox->string_map, key);
        if (*index == BASE_MAP_NONE)
            break;
        if (!strcmp(firefox->strings[*index], text))
            return true;
    }
    *index = (uint32_t)firefox->string_count;
    if (!base_array_room(firefox->strings, firefox->string_count, firefox->string_capacity) ||
        !base_map_set(&firefox->string_map, key, *index))
        return false;
    firefox->strings[firefox->string_count++] = text;
    return true;
}

static bool intern_string(struct firefox *firefox, uint32_t string, uint32_t *index)
{
    struct base_text text = {0};
    export_output_escape(&text, profile_text(firefox->job->profile, string), EXPORT_ESCAPE_JSON);
    char *made = text.failed ? NULL : base_text_detach(&text);
    base_text_free(&text);
    if (!made || !base_array_room(firefox->made, firefox->made_count, firefox->made_capacity)) {
        free(made);
        return false;
    }
    firefox->made[firefox->made_count++] = made;
    return intern_text(firefox, made, index);
}

/* The files of functions, each once. */
static bool find_sources(struct firefox *firefox)
{
    struct base_map sources = {0};
    bool done = true;
    for (size_t i = 1; done && i < firefox->frames->function_count; i++) {
        uint32_t file = firefox->frames->functions[i].file, known = base_map_find(&sources, file);
        if (file && known == BASE_MAP_NONE) {
            known = (uint32_t)++firefox->source_count;
            done = base_map_set(&sources, file, known) &&
                   intern_string(firefox, file, &firefox->of_source[known]);
        }
        firefox->source[i] = file ? known : 0;
    }
    base_map_free(&sources);
    return done;
}

static bool find_strings(struct firefox *firefox)
{
    const struct profile *profile = firefox->job->profile;
    size_t functions = firefox->frames->function_count;
    firefox->of_function = calloc(functions, sizeof *firefox->of_function);
    firefox->of_source = calloc(functions, sizeof *firefox->of_source);
    firefox->source = calloc(functions, sizeof *firefox->source);
    firefox->of_image = calloc(profile->image_count, sizeof *firefox->of_image);
    bool done = firefox->of_function && firefox->of_source && firefox->source && firefox->of_image;
    for (size_t i = 1; done && i < functions; i++)
        done = intern_text(firefox, firefox->frames->names[i], &firefox->of_function[i]);
    for (size_t i = 1; done && i < profile->image_count; i++)
        done = intern_string(firefox, profile->images[i].name, &firefox->of_image[i]);
    return done && find_sources(firefox);
}

static void free_strings(struct firefox *firefox)
{
    for (size_t i = 0; i < firefox->made_count; i++)
        free(firefox->made[i]);
    free(firefox->made);
    free(firefox->strings);
    base_map_free(&firefox->string_map);
    free(firefox->of_function);
    free(firefox->of_source);
    free(firefox->of_image);
    free(firefox->source);
}

/* --- shared tables: functions count from 1 in this module, from 0 there; so do frames and branches --- */

static void function_name(struct firefox *firefox, size_t index)
{
    put_number(firefox, firefox->of_function[index + 1]);
}

/* Each image is a resource and a library. */
static void function_resource(struct firefox *firefox, size_t index)
{
    uint32_t image = firefox->frames->functions[index + 1].image;
    put_number(firefox, image ? (int64_t)image - 1 : -1);
}

static void frame_function(struct firefox *firefox, size_t index)
{
    put_number(firefox, (int64_t)firefox->frames->frames[index + 1].function - 1);
}

static void frame_line(struct firefox *firefox, size_t index)
{
    uint32_t line = firefox->frames->frames[index + 1].line;
    if (line)
        put_number(firefox, line);
    else
        firefox_put(firefox, "null");
}

static void frame_category(struct firefox *firefox, size_t index)
{
    static const enum category of_kind[] = {[PROFILE_IMAGE_FILE] = USER,
                                            [PROFILE_IMAGE_VDSO] = USER,
                                            [PROFILE_IMAGE_KERNEL] = KERNEL,
                                            [PROFILE_IMAGE_JIT] = GENERATED};
    uint32_t function = firefox->frames->frames[index + 1].function;
    uint32_t image = firefox->frames->functions[function].image;
    uint32_t kind = firefox->job->profile->images[image].kind;
    put_number(firefox, image && kind < sizeof of_kind / sizeof *of_kind ? of_kind[kind] : OTHER);
}

static void stack_frame(struct firefox *firefox, size_t index)
{
    put_number(firefox, (int64_t)firefox->tree->branches[index + 1].frame - 1);
}

static void stack_prefix(struct firefox *firefox, size_t index)
{
    uint32_t parent = firefox->tree->branches[index + 1].parent;
    if (parent)
        put_number(firefox, (int64_t)parent - 1);
    else
        firefox_put(firefox, "null");
}

static void image_index(struct firefox *firefox, size_t index)
{
    put_number(firefox, (int64_t)index);
}

static void image_name(struct firefox *firefox, size_t index)
{
    put_number(firefox, firefox->of_image[index + 1]);
}

static void function_source(struct firefox *firefox, size_t index)
{
    if (firefox->source[index + 1])
        put_number(firefox, (int64_t)firefox->source[index + 1] - 1);
    else
        firefox_put(firefox, "null");
}

static void source_file(struct firefox *firefox, size_t index)
{
    put_number(firefox, firefox->of_source[index + 1]);
}

static void write_functions(struct firefox *firefox)
{
    size_t count = firefox->frames->function_count - 1;
    firefox_put(firefox, "\"funcTable\":{\n");
    put_column(firefox, "name", count, function_name, NULL);
    put_column(firefox, "isJS", count, NULL, "false");
    put_column(firefox, "relevantForJS", count, NULL, "false");
    put_column(firefox, "resource", count, function_resource, NULL);
    put_column(firefox, "source", count, function_source, NULL);
    put_column(firefox, "lineNumber", count, NULL, "null");
    put_column(firefox, "columnNumber", count, NULL, "null");
    put_column(firefox, "sourceMapInfo", count, NULL, "null");
    end_table(firefox, count, "},\n");
}

static void write_frames(struct firefox *firefox)
{
    size_t count = firefox->frames->frame_count - 1;
    firefox_put(firefox, "\"frameTable\":{\n");
    put_column(firefox, "address", count, NULL, "-1");
    put_column(firefox, "inlineDepth", count, NULL, "0");
    put_column(firefox, "category", count, frame_category, NULL);
    put_column(firefox, "subcategory", count, NULL, "0");
    put_column(firefox, "func", count, frame_function, NULL);
    put_column(firefox, "nativeSymbol", count, NULL, "null");
    put_column(firefox, "innerWindowID", count, NULL, "null");
    put_column(firefox, "line", count, frame_line, NULL);
    put_column(firefox, "column", count, NULL, "null");
    put_column(firefox, "sourceMapInfo", count, NULL, "null");
    end_table(firefox, count, "},\n");
}

static void write_stacks(struct firefox *firefox)
{
    size_t count = firefox->tree->count - 1;
    firefox_put(firefox, "\"stackTable\":{\n");
    put_column(firefox, "frame", count, stack_frame, NULL);
    put_column(firefox, "prefix", count, stack_prefix, NULL);
    end_table(firefox, count, "},\n");
}

static void write_resources(struct firefox *firefox)
{
    size_t images = firefox->job->profile->image_count - 1;
    char library[8];
    snprintf(library, sizeof library, "%d", LIBRARY);
    firefox_put(firefox, "\"resourceTable\":{\n");
    put_column(firefox, "lib", images, image_index, NULL);
    put_column(firefox, "name", images, image_name, NULL);
    put_column(firefox, "host", images, NULL, "null");
    put_column(firefox, "type", images, NULL, library);
    end_table(firefox, images, "},\n");
    firefox_put(
        firefox,
        "\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],\"length\":0},\n");
}

static void write_sources(struct firefox *firefox)
{
    size_t count = firefox->source_count;
    firefox_put(firefox, "\"sources\":{\n");
    put_column(firefox, "id", count, NULL, "null");
    put_column(firefox, "filename", count, source_file, NULL);
    put_column(firefox, "startLine", count, NULL, "1");
    put_column(firefox, "startColumn", count, NULL, "1");
    put_column(firefox, "sourceMapURL", count, NULL, "null");
    put_column(firefox, "content", count, NULL, "null");
    end_table(firefox, count, "},\n");
    firefox_put(firefox, "\"sourceMapInfo\":{\"originalSource\":[],\"originalLine\":[],\"originalColumn\":[],"
                         "\"length\":0},\n");
}

static void write_strings(struct firefox *firefox)
{
    firefox_put(firefox, "\"stringArray\":[");
    for (size_t i = 0; i < firefox->string_count; i++) {
        firefox_put(firefox, i ? ",\n" : "\n");
        firefox_put(firefox, firefox->strings[i]);
    }
    firefox_put(firefox, "]");
}

static void write_shared(struct firefox *firefox)
{
    firefox_put(firefox, "\"shared\":{\n");
    write_stacks(firefox);
    write_frames(firefox);
    write_functions(firefox);
    write_resources(firefox);
    write_sources(firefox);
    write_strings(firefox);
    firefox_put(firefox, "},\n");
}

/* --- of the recording --- */

static void write_libraries(struct firefox *firefox)
{
    const struct profile *profile = firefox->job->profile;
    const char *machine = profile_meta(profile, "machine");
    firefox_put(firefox, "\"libs\":[");
    for (size_t i = 1; i < profile->image_count; i++) {
        const struct profile_image *image = &profile->images[i];
        const char *const keys[] = {",\"name\":", ",\"debugName\":", ",\"path\":", ",\"debugPath\":"};
        firefox_put(firefox, i > 1 ? ",\n{\"arch\":" : "\n{\"arch\":");
        put_name(firefox, machine ? machine : "");
        for (int key = 0; key < 4; key++) {
            firefox_put(firefox, keys[key]);
            put_string(firefox, key < 2 ? image->name : image->path);
        }
        firefox_put(firefox, ",\"breakpadId\":\"\",\"codeId\":");
        if (image->build_id)
            put_string(firefox, image->build_id);
        else
            firefox_put(firefox, "null");
        firefox_put(firefox, "}");
    }
    firefox_put(firefox, "],\n");
}

/* What one sample stands for, or one unit of what is weighed. */
static uint64_t interval_ns(const struct firefox *firefox)
{
    const struct export_moments *moments = firefox->moments;
    return firefox->timed && moments->count && moments->items[0].value > 0 ? (uint64_t)moments->items[0].value
                                                                           : 1000000;
}

static void write_meta(struct firefox *firefox)
{
    const struct profile *profile = firefox->job->profile;
    const char *command = profile_meta(profile, "command"), *start = profile_meta(profile, "start_time"),
               *system = profile_meta(profile, "kernel");
    firefox_put(firefox, "\"meta\":{\"version\":");
    put_number(firefox, GECKO_VERSION);
    firefox_put(firefox, ",\"preprocessedProfileVersion\":");
    put_number(firefox, VERSION);
    firefox_put(firefox, ",\"interval\":");
    put_ms(firefox, interval_ns(firefox));
    firefox_put(firefox, ",\"startTime\":");
    put_number(firefox, start ? (int64_t)(strtod(start, NULL) * 1000) : 0);
    firefox_put(firefox, ",\"product\":");
    put_name(firefox, command && *command ? command : firefox->job->options->file);
    firefox_put(firefox, ",\"importedFrom\":");
    put_name(firefox, firefox->job->options->creator);
    firefox_put(firefox, ",\"oscpu\":");
    put_name(firefox, system ? system : "");
    firefox_put(
        firefox,
        ",\n\"processType\":0,\"stackwalk\":1,\"symbolicated\":true,\"symbolicationNotSupported\":true,"
        "\"usesOnlyOneStackType\":true,\"sourceCodeIsNotOnSearchfox\":true,\"markerSchema\":[],\n"
        "\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},\n"
        "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
        "{\"name\":\"User\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
        "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
        "{\"name\":\"Generated\",\"color\":\"green\",\"subcategories\":[\"Other\"]}]},\n");
}

/* --- threads --- */

static void write_thread_names(struct firefox *firefox, uint32_t index)
{
    const struct profile *profile = firefox->job->profile;
    const struct profile_thread *thread = &profile->threads[index];
    const struct profile_process *process = &profile->processes[thread->process];
    bool main = thread->tid == process->pid || !thread->tid; /* figures of no thread in particular: of all */
    firefox_put(firefox, "{\"processType\":\"default\",\"processStartupTime\":");
    put_ms(firefox, process->start_ns);
    firefox_put(firefox, ",\"processShutdownTime\":");
    if (process->end_ns)
        put_ms(firefox, process->end_ns);
    else
        firefox_put(firefox, "null");
    firefox_put(firefox, ",\"registerTime\":");
    put_ms(firefox, process->start_ns);
    firefox_put(firefox, ",\"unregisterTime\":null,\"pausedRanges\":[],\"name\":");
    put_string(firefox, thread->name ? thread->name : process->name);
    firefox_put(firefox, ",\"processName\":");
    put_string(firefox, process->name);
    firefox_put(firefox, main ? ",\"isMainThread\":true" : ",\"isMainThread\":false");
    firefox_put(firefox, ",\"pid\":\"");
    put_number(firefox, firefox->moments->pids[thread->process]);
    firefox_put(firefox, "\",\"tid\":");
    put_number(firefox, firefox->moments->tids[index]);
}

static const char *weight_type(const struct firefox *firefox, bool *is_time)
{
    const struct profile *profile = firefox->job->profile;
    const char *unit = profile_text(profile, profile->counters[firefox->counter].unit);
    *is_time = unit[0] == 'n' && unit[1] == 's' && !unit[2];
    return *is_time ? "tracing-ms" : unit[0] == 'b' && unit[1] == 'y' ? "bytes" : "samples";
}

static void write_times(struct firefox *firefox, const struct export_moment *moments, size_t count,
                        bool is_time)
{
    uint64_t at = 0;
    firefox_put(firefox, "],\n\"time\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            firefox_put(firefox, ",");
        put_ms(firefox, firefox->timed ? moments[i].time_ns : at);
        at += is_time ? (uint64_t)moments[i].value : 1000000;
    }
}

static void write_weights(struct firefox *firefox, const struct export_moment *moments, size_t count)
{
    bool is_time;
    const char *type = weight_type(firefox, &is_time);
    write_times(firefox, moments, count, is_time);
    firefox_put(firefox, firefox->timed
                             ? "],\n\"weight\":null,\"weightType\":\"samples\",\"threadCPUDelta\":["
                             : "],\n\"weight\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            firefox_put(firefox, ",");
        if (!firefox->timed && is_time)
            put_ms(firefox, (uint64_t)moments[i].value);
        else
            put_number(firefox, moments[i].value);
    }
    firefox_put(firefox, "],\n");
    if (!firefox->timed) {
        firefox_put(firefox, "\"weightType\":\"");
        firefox_put(firefox, type);
        firefox_put(firefox, "\",");
    }
}

static void write_thread(struct firefox *firefox, const struct export_moment *moments, size_t count)
{
    write_thread_names(firefox, moments[0].thread);
    firefox_put(firefox, ",\n\"samples\":{\"stack\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            firefox_put(firefox, ",");
        put_number(firefox, (int64_t)moments[i].branch - 1);
    }
    write_weights(firefox, moments, count);
    end_table(firefox, count, "},\n");
    firefox_put(firefox, "\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],"
                         "\"category\":[],\"length\":0}}");
}

static void firefox_write_all(struct firefox *firefox)
{
    const struct export_moments *moments = firefox->moments;
    firefox_put(firefox, "{");
    write_meta(firefox);
    write_libraries(firefox);
    write_shared(firefox);
    firefox_put(firefox, "\"threads\":[");
    for (size_t from = 0, to; from < moments->count; from = to) {
        for (to = from + 1; to < moments->count && moments->items[to].thread == moments->items[from].thread;)
            to++;
        firefox_put(firefox, from ? ",\n" : "\n");
        write_thread(firefox, &moments->items[from], to - from);
    }
    firefox_put(firefox, "]}\n");
}

bool export_firefox(struct export_job *job)
{
    struct export_frames frames;
    struct export_tree tree = {.frames = &frames, .apart = EXPORT_TOGETHER, .marks = true};
    struct export_moments moments = {0};
    struct firefox firefox = {.job = job,
                              .frames = &frames,
                              .tree = &tree,
                              .moments = &moments,
                              .counter = job->counters[0],
                              .timed = export_moments_timed(job->options, job->counters[0])};
    bool done = export_frames_init(&frames, job->profile, EXPORT_DETAIL_INLINES | EXPORT_DETAIL_LINES) &&
                export_tree_build(&tree, job->options) &&
                export_frames_write_names(&frames, EXPORT_ESCAPE_JSON, false) &&
                export_moments_find(&tree, job->options, firefox.counter, firefox.timed, &moments) &&
                find_strings(&firefox);
    if (done)
        firefox_write_all(&firefox);
    free_strings(&firefox);
    export_moments_free(&moments);
    export_tree_free(&tree);
    export_frames_free(&frames);
    return done;
}
