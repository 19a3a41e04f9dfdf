/* import_folded.c - one line a distinct stack: frames from the outermost inwards, joined by ';', a blank and
 * a weight. Names may hold blanks: the weight is the last word. Source: stackcollapse-perf.pl and
 * flamegraph.pl of the FlameGraph project.
 *
 * What is behind a name (_[k] kernel, _[i] inlined into the frame before, _[j] generated) is read as those
 * scripts mean it.
 *
 * A weight may be a number of samples, or of anything else: the format does not say. With a rate it is
 * samples; without one it is a figure, and a share of it has no interval. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base_map.h"
#include "import_formats.h"
#include "import_stack.h"
#include "wire_loss.h"

enum { LEVELS_MOST = 64, CONSIDERED = 64 };

struct folded {
    const struct import_options *options;
    struct import_stack stack;
    struct base_map threads; /* hash of a process's name -> thread */
    uint32_t nowhere, kernel, generated;
    uint16_t counter;
    char *line; /* a copy of the present one, which is taken apart */
    size_t line_capacity;
    struct import_stack_level levels[LEVELS_MOST]; /* inlined into the last frame, innermost last */
    size_t level_count;
    struct import_stack_level frame; /* the last one; name NULL: none */
    uint32_t frame_image, frame_flags;
    bool rounded; /* a weight was no whole number */
};

/* --- lines --- */

struct line {
    const char *stack;
    size_t length; /* of the stack */
    double weight;
};

static bool is_blank(char character)
{
    return character == ' ' || character == '\t' || character == '\r';
}

/* The weight, which is a decimal number of at least 0. */
static bool read_weight(const char *digits, size_t length, double *weight)
{
    char text[64], *end;
    if (!length || length >= sizeof text)
        return false;
    memcpy(text, digits, length);
    text[length] = '\0';
    if (text[strspn(text, "0123456789.eE+-")] != '\0')
        return false;
    *weight = strtod(text, &end);
    return !*end && *weight >= 0 && *weight < 9e18;
}

/* A line without its weight; false: it is none of a folded file. An empty one has length 0. */
static bool split_line(const char *bytes, size_t length, struct line *line)
{
    *line = (struct line){.stack = bytes};
    while (length && is_blank(bytes[length - 1]))
        length--;
    if (!length)
        return true;
    size_t weight = length;
    while (weight && !is_blank(bytes[weight - 1]))
        weight--;
    line->length = weight ? weight - 1 : 0; /* one blank: others are the name's */
    if (line->length && !memchr(bytes, 0, length) &&
        read_weight(bytes + weight, length - weight, &line->weight))
        return true;
    line->length = 0;
    return bytes[0] == '#'; /* a comment; but names may begin so, too */
}

/* The length of the line at `bytes`, without its end. */
static size_t line_length(const uint8_t *bytes, size_t size)
{
    const uint8_t *end = memchr(bytes, '\n', size);
    return end ? (size_t)(end - bytes) : size;
}

bool import_folded_is(const uint8_t *bytes, size_t size)
{
    bool any = false;
    struct line line;
    for (int i = 0; i < CONSIDERED && size; i++) {
        size_t length = line_length(bytes, size);
        if (!split_line((const char *)bytes, length, &line))
            return false;
        any |= line.length > 0;
        length += length < size;
        bytes += length;
        size -= length;
    }
    return any;
}

/* --- frames --- */

/* Takes a mark such as "_[k]" off a name; 0: it has none. */
static char take_mark(char *name)
{
    size_t length = strlen(name);
    char *mark = name + (length > 4 ? length - 4 : 0);
    if (length <= 4 || strncmp(mark, "_[", 2) || mark[3] != ']' || !strchr("kij", mark[2]))
        return 0;
    *mark = '\0';
    return mark[2];
}

static uint32_t folded_image_of(struct folded *folded, char mark)
{
    struct profile *profile = folded->stack.profile;
    if (mark == 'k' && !folded->kernel)
        folded->kernel = profile_image(profile, PROFILE_IMAGE_KERNEL, "[kernel]", "", 0);
    if (mark == 'j' && !folded->generated)
        folded->generated = profile_image(profile, PROFILE_IMAGE_JIT, "[jit]", "", 0);
    return mark == 'k' ? folded->kernel : mark == 'j' ? folded->generated : folded->nowhere;
}

/* The last frame goes onto the stack, with what is inlined there. */
static void finish_frame(struct folded *folded)
{
    struct import_stack_level innermost_first[LEVELS_MOST];
    size_t count = folded->level_count;
    if (!folded->frame.name)
        return;
    for (size_t i = 0; i < count; i++)
        innermost_first[i] = folded->levels[count - 1 - i];
    import_stack_add(&folded->stack,
                     import_stack_named(folded->stack.profile, folded->frame_image, &folded->frame,
                                        innermost_first, count),
                     folded->frame_flags);
    folded->frame.name = NULL;
    folded->level_count = 0;
}

static void add_frame(struct folded *folded, char *name)
{
    char mark = take_mark(name);
    if (mark == 'i' && folded->frame.name && folded->level_count < LEVELS_MOST) {
        folded->levels[folded->level_count++] = (struct import_stack_level){.name = name};
        return;
    }
    finish_frame(folded);
    if (!mark && import_stack_mark(&folded->stack, name))
        return;
    folded->frame.name = *name ? name : "[unknown]";
    folded->frame_image = folded_image_of(folded, mark);
    folded->frame_flags = mark == 'k' ? PROFILE_NODE_KERNEL : 0;
}

/* --- processes --- */

static uint32_t thread_named(struct folded *folded, const char *name)
{
    struct profile *profile = folded->stack.profile;
    uint64_t key = base_hash_bytes(name, strlen(name));
    uint32_t thread = base_map_find(&folded->threads, key);
    if (thread != BASE_MAP_NONE)
        return thread;
    uint32_t process = profile_process(profile, 0, 0);
    thread = process ? profile_thread(profile, process, 0) : 0;
    if (!thread || !base_map_set(&folded->threads, key, thread)) {
        folded->stack.failed = true;
        return 0;
    }
    struct profile_process value = profile->processes[process];
    value.name = profile_string(profile, name);
    profile_set_process(profile, process, &value);
    profile_set_thread_name(profile, thread, name);
    return thread;
}

/* --- a stack --- */

static void count_weight(struct folded *folded, uint32_t node, uint32_t thread, double weight)
{
    double rate = folded->options->rate_hz;
    int64_t value = (int64_t)fmin(round(rate > 0 ? weight * 1e9 / rate : weight), 9e18);
    folded->rounded |= weight != floor(weight);
    uint64_t samples = rate > 0 ? (uint64_t)llround(weight) : 0;
    profile_count(folded->stack.profile, (struct profile_key){node, thread, PROFILE_NO_CPU, folded->counter},
                  value, samples);
}

static bool folded_add_line(struct folded *folded, const struct line *line)
{
    uint32_t thread = 0;
    char *rest, *name;
    if (folded->line_capacity <= line->length) {
        char *grown = realloc(folded->line, line->length + 1);
        if (!grown)
            return false;
        folded->line = grown;
        folded->line_capacity = line->length + 1;
    }
    memcpy(folded->line, line->stack, line->length);
    folded->line[line->length] = '\0';
    import_stack_begin(&folded->stack);
    rest = folded->line;
    if (folded->options->processes)
        thread = thread_named(folded, strsep(&rest, ";"));
    while ((name = strsep(&rest, ";")))
        add_frame(folded, name);
    finish_frame(folded);
    count_weight(folded, import_stack_node(&folded->stack), thread, line->weight);
    return !folded->stack.failed;
}

static int read_lines(struct folded *folded, const uint8_t *bytes, size_t size, struct base_error *error)
{
    struct line line;
    for (size_t number = 1; size; number++) {
        size_t length = line_length(bytes, size);
        if (!split_line((const char *)bytes, length, &line))
            return base_fail(error, BASE_EFORMAT,
                             "line %zu is no folded stack: frames joined by ';', a blank, "
                             "a weight",
                             number);
        if (line.length && !folded_add_line(folded, &line))
            return base_fail(error, BASE_ENOMEM, "out of memory");
        length += length < size;
        bytes += length;
        size -= length;
    }
    return BASE_OK;
}

static void folded_describe(const struct folded *folded)
{
    struct profile *profile = folded->stack.profile;
    const struct import_options *options = folded->options;
    if (folded->rounded)
        import_stack_notice(profile, "weights with fractions are rounded");
    if (options->rate_hz > 0)
        profile_set_metaf(profile, "rate_hz", "%.6g", options->rate_hz);
    else
        import_stack_notice(profile, "the file does not say what its weights are: shares have no intervals "
                                     "(with tally import --rate they are samples)");
}

int import_folded(const uint8_t *bytes, size_t size, const struct import_options *options,
                  struct profile *profile, struct base_error *error)
{
    struct folded folded = {.options = options, .stack.profile = profile};
    bool timed = options->rate_hz > 0;
    folded.nowhere = import_stack_nowhere(profile);
    folded.counter = (uint16_t)profile_counter(profile, timed ? "time.cpu" : "weight", timed ? "ns" : "",
                                               !timed, PROFILE_SUM);
    if (!folded.nowhere || !folded.counter)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = read_lines(&folded, bytes, size, error);
    if (result == BASE_OK)
        folded_describe(&folded);
    free(folded.line);
    base_map_free(&folded.threads);
    return result;
}
