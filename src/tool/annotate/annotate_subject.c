#include "annotate_subject.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "annotate_places.h"
#include "base_array.h"
#include "base_options.h"
#include "view_text.h"

enum { LISTED = 6 };

enum way { BY_ADDRESS, BY_NAME, BY_PART, BY_PATTERN, BY_BEGINNING, WAYS };

struct search {
    struct view_context *context;
    const struct view_annotation *request;
    struct annotate_places sums; /* by function */
    uint32_t *found;             /* functions */
    size_t count, capacity;
};

static const char *subject_name_of(const struct search *search, uint32_t function)
{
    return profile_text(search->context->profile, search->context->profile->functions[function].name);
}

static const struct profile_image *subject_image_of(const struct search *search, uint32_t function)
{
    const struct profile *profile = search->context->profile;
    return &profile->images[profile->functions[function].image];
}

static const char *image_name(const struct search *search, uint32_t function)
{
    return profile_text(search->context->profile, subject_image_of(search, function)->name);
}

/* --- does a function fit --- */

/* "libx.so+0x1a2b": the image's name and the address. */
static bool subject_by_address(const struct search *search, uint32_t function, const char *wanted)
{
    const struct profile_function *item = &search->context->profile->functions[function];
    const char *plus = strrchr(wanted, '+'), *name = image_name(search, function);
    char *end;
    if (!plus || strncmp(plus, "+0x", 3) || strlen(name) != (size_t)(plus - wanted) ||
        strncmp(wanted, name, (size_t)(plus - wanted)))
        return false;
    uint64_t address = strtoull(plus + 3, &end, 16);
    return plus[3] && !*end && address >= item->start && (address < item->end || address == item->start);
}

/* The end of a name's unqualified part, without arguments: of "a::b<c::d>::e(f::g)" that of "e". Operators
 * and return types of templates stay as they are: their names are asked for by pattern. */
static bool by_part(const char *name, const char *wanted)
{
    size_t length = strlen(wanted), depth = 0;
    const char *end = name + strlen(name);
    for (const char *at = name; *at; at++) {
        depth += *at == '<';
        depth -= *at == '>' && depth;
        if (*at == '(' && !depth && at > name) {
            end = at;
            break;
        }
    }
    if ((size_t)(end - name) < length || strncmp(end - length, wanted, length))
        return false;
    const char *before = end - length;
    return before == name || (before - name >= 2 && before[-1] == ':' && before[-2] == ':');
}

static bool subject_fits(const struct search *search, uint32_t function, enum way way)
{
    const char *name = subject_name_of(search, function), *wanted = search->request->function;
    switch (way) {
    case BY_ADDRESS:
        return subject_by_address(search, function, wanted);
    case BY_NAME:
        return !strcmp(name, wanted);
    case BY_PART:
        return by_part(name, wanted);
    case BY_PATTERN:
        return strpbrk(wanted, "*?") && !fnmatch(wanted, name, 0);
    default:
        return !strncmp(name, wanted, strlen(wanted));
    }
}

static bool in_wanted_image(const struct search *search, uint32_t function)
{
    const char *wanted = search->request->image;
    const char *build_id =
        profile_text(search->context->profile, subject_image_of(search, function)->build_id);
    enum { SHORTEST = 4 };
    return !wanted || !fnmatch(wanted, image_name(search, function), 0) ||
           (strlen(wanted) >= SHORTEST && !strncmp(build_id, wanted, strlen(wanted)));
}

/* --- choosing --- */

static const struct view_figure *self_of(const struct search *search, uint32_t function)
{
    static const struct view_figure none = {0, 0};
    return function <= search->sums.last ? &search->sums.self[function] : &none;
}

static const struct view_figure *total_of(const struct search *search, uint32_t function)
{
    static const struct view_figure none = {0, 0};
    return function <= search->sums.last ? &search->sums.total[function] : &none;
}

static bool is_generated(const struct search *search, uint32_t function)
{
    return subject_image_of(search, function)->kind == PROFILE_IMAGE_JIT;
}

/* Generated code of one name is one function, wherever it lay. */
static bool is_known_function(const struct search *search, uint32_t function)
{
    const struct profile_function *functions = search->context->profile->functions;
    for (size_t i = 0; i < search->count; i++)
        if (is_generated(search, function) && is_generated(search, search->found[i]) &&
            functions[function].name == functions[search->found[i]].name)
            return true;
    return false;
}

static bool collect_subjects(struct search *search, enum way way)
{
    const struct profile *profile = search->context->profile;
    for (uint32_t i = 1; i < profile->function_count; i++) {
        if (!subject_fits(search, i, way) || !in_wanted_image(search, i) || is_known_function(search, i))
            continue;
        if (!base_array_room(search->found, search->count, search->capacity))
            return false;
        search->found[search->count++] = i;
    }
    return true;
}

static int compare_subject_heat(const void *left, const void *right, void *context)
{
    const struct search *search = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int64_t x = self_of(search, a)->value, y = self_of(search, b)->value;
    if (x == y) {
        x = total_of(search, a)->value;
        y = total_of(search, b)->value;
    }
    return x != y ? (x > y ? -1 : 1) : (a > b) - (a < b);
}

/* The hottest first; those without a sample go when there are others. */
static void subject_rank(struct search *search)
{
    size_t sampled = 0;
    if (search->count)
        qsort_r(search->found, search->count, sizeof *search->found, compare_subject_heat, search);
    while (sampled < search->count && total_of(search, search->found[sampled])->samples)
        sampled++;
    if (sampled)
        search->count = sampled;
}

/* --- messages --- */

/* A candidate as one would have to ask for it. */
static void list_one(const struct search *search, uint32_t function, bool by_name, struct base_text *list)
{
    const struct profile_function *item = &search->context->profile->functions[function];
    base_text_add(list, list->length ? ", " : "");
    if (by_name)
        base_text_add(list, subject_name_of(search, function));
    else
        base_text_addf(list, "%s+0x%llx", image_name(search, function), (unsigned long long)item->start);
    base_text_addf(list, " (%.1f %%)",
                   100 * view_select_share(&search->context->selection, self_of(search, function)).share);
}

static int fail_ambiguous(const struct search *search)
{
    struct base_text list = {0};
    bool same = true;
    for (size_t i = 1; i < search->count; i++)
        same &= !strcmp(subject_name_of(search, search->found[0]), subject_name_of(search, search->found[i]));
    for (size_t i = 0; i < search->count && i < LISTED; i++)
        list_one(search, search->found[i], !same, &list);
    if (search->count > LISTED)
        base_text_addf(&list, " and %zu more", search->count - LISTED);
    base_fail(search->context->error, BASE_EUSAGE, "%zu functions are %s %s: %s; ask for one of them%s",
              search->count, same ? "called" : "meant by", search->request->function, base_text_string(&list),
              same ? ", or give --image or --process" : "");
    base_text_free(&list);
    return BASE_EUSAGE;
}

/* With --image: would others fit? */
static bool is_elsewhere(const struct search *search, struct base_text *images)
{
    const struct profile *profile = search->context->profile;
    uint32_t last = 0;
    for (uint32_t i = 1; search->request->image && i < profile->function_count; i++) {
        bool meant = subject_fits(search, i, BY_NAME) || subject_fits(search, i, BY_PART) ||
                     subject_fits(search, i, BY_PATTERN);
        if (!meant || profile->functions[i].image == last)
            continue;
        last = profile->functions[i].image;
        base_text_addf(images, "%s%s", images->length ? ", " : "", image_name(search, i));
    }
    return images->length;
}

/* Functions that were inlined everywhere have no code of their own. */
static bool is_inlined(const struct search *search, struct base_text *into)
{
    const struct profile *profile = search->context->profile;
    size_t hosts = 0;
    uint32_t last = 0;
    for (uint32_t i = 1; i < profile->address_count && hosts < 3; i++) {
        const struct profile_address *address = &profile->addresses[i];
        for (uint32_t level = address->inlined; level; level = profile->inlined[level].outer) {
            const char *name = profile_text(profile, profile->inlined[level].function_name);
            bool meant = !strcmp(name, search->request->function) || by_part(name, search->request->function);
            if (!meant || !address->function || address->function == last)
                continue;
            last = address->function;
            base_text_addf(into, "%s%s", hosts++ ? ", " : "", subject_name_of(search, last));
        }
    }
    return hosts > 0;
}

/* Names that contain the word, the hottest first, else those with the fewest differences. */
static bool list_similar_names(struct search *search, struct base_text *list)
{
    const struct profile *profile = search->context->profile;
    const char **names = calloc(profile->function_count + 1, sizeof *names);
    size_t count = 0;
    search->count = 0;
    for (uint32_t i = 1; names && i < profile->function_count; i++) {
        names[count++] = subject_name_of(search, i);
        if (strcasestr(names[count - 1], search->request->function) &&
            base_array_room(search->found, search->count, search->capacity))
            search->found[search->count++] = i;
    }
    subject_rank(search);
    for (size_t i = 0; i < search->count && i < 3; i++)
        base_text_addf(list, "%s%s", i ? ", " : "", subject_name_of(search, search->found[i]));
    const char *nearest =
        names && !list->length ? base_options_nearest(search->request->function, names, count) : NULL;
    if (nearest)
        base_text_add(list, nearest);
    free(names);
    return list->length;
}

static int fail_not_found(struct search *search)
{
    const char *wanted = search->request->function;
    struct base_text list = {0};
    struct base_error *error = search->context->error;
    if (is_elsewhere(search, &list))
        base_fail(error, BASE_EUSAGE, "no function %s in an image %s; there is one in %s", wanted,
                  search->request->image, base_text_string(&list));
    else if (is_inlined(search, &list))
        base_fail(error, BASE_EUSAGE, "%s has no code of its own: it was inlined into %s; annotate that",
                  wanted, base_text_string(&list));
    else if (list_similar_names(search, &list))
        base_fail(error, BASE_EUSAGE, "no function %s in this profile; did you mean %s?", wanted,
                  base_text_string(&list));
    else
        base_fail(error, BASE_EUSAGE,
                  "no function %s in this profile (tally report shows those that have samples)", wanted);
    base_text_free(&list);
    return BASE_EUSAGE;
}

/* --- pieces apart --- */

/* "f.cold", "f.part.0", "f(int) [clone .cold]" of f. */
static bool is_piece(const char *piece, const char *name)
{
    size_t length = strlen(name);
    return !strncmp(piece, name, length) &&
           (!strncmp(piece + length, ".cold", 5) || !strncmp(piece + length, ".part.", 6) ||
            !strncmp(piece + length, " [clone .cold", 13) || !strncmp(piece + length, " [clone .part.", 14));
}

static void find_pieces(const struct search *search, struct annotate_subject *subject)
{
    const struct profile *profile = search->context->profile;
    for (uint32_t i = 1; i < profile->function_count; i++)
        if (profile->functions[i].image == subject->image && total_of(search, i)->samples &&
            is_piece(subject_name_of(search, i), subject_name_of(search, subject->function)))
            list_one(search, i, true, &subject->apart);
}

static int sum_addresses(struct search *search)
{
    const struct profile *profile = search->context->profile;
    if (!annotate_places_init(&search->sums, profile))
        return view_memory(search->context);
    for (uint32_t i = 1; i < profile->address_count; i++)
        if (profile->addresses[i].function &&
            !annotate_places_add(&search->sums, i, profile->addresses[i].function))
            return view_memory(search->context);
    return annotate_places_sum(search->context, &search->sums);
}

static int subject_choose(struct search *search, struct annotate_subject *subject)
{
    for (unsigned way = 0; way < WAYS && !search->count; way++)
        if (!collect_subjects(search, way))
            return view_memory(search->context);
    subject_rank(search);
    if (search->count > 1)
        return fail_ambiguous(search);
    if (!search->count)
        return fail_not_found(search);
    uint32_t function = search->found[0];
    const struct profile_function *item = &search->context->profile->functions[function];
    subject->function = function;
    subject->image = item->image;
    subject->start = item->start;
    subject->end = item->end;
    subject->generated = is_generated(search, function);
    subject->self = *self_of(search, function);
    subject->total = *total_of(search, function);
    find_pieces(search, subject);
    return subject->apart.failed ? view_memory(search->context) : 0;
}

int annotate_subject_find(struct view_context *context, struct annotate_subject *subject)
{
    struct search search = {.context = context, .request = context->options->annotation};
    *subject = (struct annotate_subject){0};
    int code = sum_addresses(&search);
    if (!code)
        code = subject_choose(&search, subject);
    annotate_places_free(&search.sums);
    free(search.found);
    return code;
}

void annotate_subject_free(struct annotate_subject *subject)
{
    base_text_free(&subject->apart);
}

bool annotate_subject_holds(const struct annotate_subject *subject, const struct profile *profile,
                            uint32_t address)
{
    uint32_t function = profile->addresses[address].function;
    if (!function)
        return false;
    if (!subject->generated)
        return function == subject->function;
    return profile->images[profile->functions[function].image].kind == PROFILE_IMAGE_JIT &&
           profile->functions[function].name == profile->functions[subject->function].name;
}
