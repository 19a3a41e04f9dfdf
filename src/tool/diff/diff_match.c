#include "diff_match.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"

/* --- names of functions --- */

/* The clone suffix that ends a name of `length` bytes: where it begins, else length. */
static size_t suffix_start(const char *name, size_t length)
{
    static const char *const clones[] = {"cold", "part",  "constprop",  "isra", "lto_priv",
                                         "llvm", "clone", "localalias", "warm", "split"};
    size_t end = length;
    while (end && isdigit((unsigned char)name[end - 1]))
        end--;
    if (end < length && end && name[end - 1] == '.')
        end--;
    else
        end = length;
    size_t begin = end;
    while (begin && (isalpha((unsigned char)name[begin - 1]) || name[begin - 1] == '_'))
        begin--;
    if (begin < 2 || name[begin - 1] != '.')
        return length;
    for (size_t i = 0; i < sizeof clones / sizeof *clones; i++)
        if (strlen(clones[i]) == end - begin && !memcmp(name + begin, clones[i], end - begin))
            return begin - 1;
    return length;
}

void diff_match_plain(const char *name, struct base_text *out)
{
    const char *clone = strstr(name, " [clone "), *version = strchr(name, '@');
    size_t length = strlen(name), shorter;
    if (clone)
        length = (size_t)(clone - name);
    if (version && version > name && (size_t)(version - name) < length && strcmp(version, "@plt"))
        length = (size_t)(version - name);
    while ((shorter = suffix_start(name, length)) < length)
        length = shorter;
    base_text_add_bytes(out, name, length);
}

/* "libx.so+0x1f0": no symbol, named by where it begins. */
static bool is_nameless(const char *name, const char *image)
{
    size_t length = strlen(image);
    return length && !strncmp(name, image, length) && !strncmp(name + length, "+0x", 3);
}

/* --- images --- */

/* Made when new; 0 when memory ran out. There are tens of images: a linear search will do. */
static uint32_t intern_image(struct diff_matcher *matcher, const struct profile *profile,
                             const struct profile_image *image, unsigned side)
{
    const char *name = profile_text(profile, image->name), *build_id = profile_text(profile, image->build_id);
    for (uint32_t i = 1; i < matcher->image_count; i++) {
        struct diff_match_image *known = &matcher->images[i];
        if (known->kind != image->kind || strcmp(known->name, name))
            continue;
        known->sides |= side;
        known->rebuilt |= !*build_id || strcmp(known->build_id, build_id);
        return i;
    }
    uint32_t fresh = (uint32_t)matcher->image_count;
    if (!base_array_room(matcher->images, matcher->image_count, matcher->image_capacity))
        return 0;
    matcher->images[matcher->image_count++] = (struct diff_match_image){.name = name,
                                                                        .build_id = build_id,
                                                                        .kind = image->kind,
                                                                        .sides = side,
                                                                        .same = fresh,
                                                                        .rebuilt = !*build_id};
    return fresh;
}

static bool intern_images(struct diff_matcher *matcher)
{
    matcher->image_of = calloc(matcher->profile_count + 1, sizeof *matcher->image_of);
    if (!matcher->image_of || !base_array_room(matcher->images, 0, matcher->image_capacity))
        return false;
    matcher->images[matcher->image_count++] = (struct diff_match_image){.name = "", .build_id = ""};
    for (size_t p = 0; p < matcher->profile_count; p++) {
        const struct profile *profile = matcher->profiles[p];
        matcher->image_of[p] = calloc(profile->image_count + 1, sizeof **matcher->image_of);
        if (!matcher->image_of[p])
            return false;
        for (size_t i = 1; i < profile->image_count; i++) {
            matcher->image_of[p][i] =
                intern_image(matcher, profile, &profile->images[i], p < matcher->old_count ? 1 : 2);
            if (!matcher->image_of[p][i])
                return false;
        }
    }
    return true;
}

static bool is_one_sided_image(const struct diff_match_image *image, unsigned side)
{
    return image->kind == PROFILE_IMAGE_FILE && image->sides == side;
}

static void match_unite(struct diff_matcher *matcher, uint32_t old, uint32_t new)
{
    struct diff_match_image *one = &matcher->images[old], *two = &matcher->images[new];
    one->rebuilt |= two->rebuilt || strcmp(one->build_id, two->build_id);
    two->same = old;
    one->sides = two->sides = 3;
}

static void strip_digits(const char *name, struct base_text *out)
{
    for (; *name; name++)
        if (!isdigit((unsigned char)*name) && *name != '.' && *name != '-')
            base_text_add_bytes(out, name, 1);
}

static bool same_but_digits(const char *one, const char *two)
{
    struct base_text left = {0}, right = {0};
    strip_digits(one, &left);
    strip_digits(two, &right);
    bool same = left.length && !left.failed && !right.failed && !strcmp(left.data, base_text_string(&right));
    base_text_free(&left);
    base_text_free(&right);
    return same;
}

static bool same_build(const struct diff_match_image *one, const struct diff_match_image *two)
{
    return *one->build_id && !strcmp(one->build_id, two->build_id);
}

static bool same_version(const struct diff_match_image *one, const struct diff_match_image *two)
{
    return same_but_digits(one->name, two->name);
}

/* The only image of the other side that `same` says is this one; 0: none or several. */
static uint32_t only_partner(const struct diff_matcher *matcher, uint32_t image, unsigned side,
                             bool (*same)(const struct diff_match_image *, const struct diff_match_image *))
{
    uint32_t found = 0;
    for (uint32_t i = 1; i < matcher->image_count; i++) {
        if (!is_one_sided_image(&matcher->images[i], side) ||
            !same(&matcher->images[image], &matcher->images[i]))
            continue;
        if (found)
            return 0;
        found = i;
    }
    return found;
}

static void unite_by(struct diff_matcher *matcher,
                     bool (*same)(const struct diff_match_image *, const struct diff_match_image *))
{
    for (uint32_t old = 1; old < matcher->image_count; old++) {
        if (!is_one_sided_image(&matcher->images[old], 1))
            continue;
        uint32_t new = only_partner(matcher, old, 2, same);
        if (new &&only_partner(matcher, new, 1, same) == old)
            match_unite(matcher, old, new);
    }
}

/* --- renamed images: the functions they have in common --- */

struct name_set {
    uint64_t *hashes; /* sorted, each once */
    size_t count, capacity;
};

static int by_hash(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Every C program has these. */
static bool says_nothing(const char *name)
{
    static const char *const names[] = {"main",
                                        "_init",
                                        "_fini",
                                        "frame_dummy",
                                        "register_tm_clones",
                                        "deregister_tm_clones",
                                        "__do_global_dtors_aux"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return !strncmp(name, "_start", 6) || strstr(name, "@plt");
}

static bool add_names(const struct diff_matcher *matcher, size_t at, uint32_t image, struct name_set *set)
{
    const struct profile *profile = matcher->profiles[at];
    struct base_text plain = {0};
    bool done = true;
    for (size_t i = 1; done && i < profile->function_count; i++) {
        const struct profile_function *function = &profile->functions[i];
        const char *name = profile_text(profile, function->name);
        if (matcher->image_of[at][function->image] != image || says_nothing(name) ||
            is_nameless(name, matcher->images[image].name))
            continue;
        base_text_clear(&plain);
        diff_match_plain(name, &plain);
        done = !plain.failed && base_array_room(set->hashes, set->count, set->capacity);
        if (done)
            set->hashes[set->count++] = base_hash_bytes(plain.data, plain.length);
    }
    base_text_free(&plain);
    return done;
}

static bool names_of(const struct diff_matcher *matcher, uint32_t image, struct name_set *set)
{
    size_t kept = 0;
    for (size_t p = 0; p < matcher->profile_count; p++)
        if (!add_names(matcher, p, image, set))
            return false;
    if (set->count)
        qsort(set->hashes, set->count, sizeof *set->hashes, by_hash);
    for (size_t i = 0; i < set->count; i++)
        if (!i || set->hashes[i] != set->hashes[i - 1])
            set->hashes[kept++] = set->hashes[i];
    set->count = kept;
    return true;
}

static size_t in_common(const struct name_set *one, const struct name_set *two)
{
    size_t common = 0;
    for (size_t i = 0, j = 0; i < one->count && j < two->count;) {
        common += one->hashes[i] == two->hashes[j];
        bool first = one->hashes[i] <= two->hashes[j], second = two->hashes[j] <= one->hashes[i];
        i += first;
        j += second;
    }
    return common;
}

/* The image of the new side that has most functions in common, if those are half of the smaller's. */
static uint32_t most_alike(const struct diff_matcher *matcher, const struct name_set *sets, uint32_t old)
{
    uint32_t best = 0;
    size_t most = 0;
    for (uint32_t new = 1; new < matcher->image_count; new ++) {
        size_t common = is_one_sided_image(&matcher->images[new], 2) ? in_common(&sets[old], &sets[new]) : 0;
        size_t smaller = sets[old].count < sets[new].count ? sets[old].count : sets[new].count;
        if (common > most && 2 * common >= smaller) {
            most = common;
            best = new;
        }
    }
    return best;
}

static bool unite_renamed(struct diff_matcher *matcher)
{
    struct name_set *sets = calloc(matcher->image_count, sizeof *sets);
    bool done = sets != NULL;
    for (uint32_t i = 1; done && i < matcher->image_count; i++)
        if (is_one_sided_image(&matcher->images[i], 1) || is_one_sided_image(&matcher->images[i], 2))
            done = names_of(matcher, i, &sets[i]);
    for (uint32_t old = 1; done && old < matcher->image_count; old++) {
        uint32_t new = is_one_sided_image(&matcher->images[old], 1) ? most_alike(matcher, sets, old) : 0;
        if (new)
            match_unite(matcher, old, new);
    }
    for (uint32_t i = 1; sets && i < matcher->image_count; i++)
        free(sets[i].hashes);
    free(sets);
    return done;
}

bool diff_match_init(struct diff_matcher *matcher, const struct profile *const *profiles, size_t count,
                     size_t old_count)
{
    *matcher = (struct diff_matcher){.profiles = profiles, .profile_count = count, .old_count = old_count};
    if (!intern_images(matcher) || !base_array_room(matcher->items, 0, matcher->item_capacity))
        return false;
    matcher->items[matcher->item_count++] = (struct diff_match_item){0};
    base_text_add_bytes(&matcher->text, "", 1);
    unite_by(matcher, same_build);
    unite_by(matcher, same_version);
    return unite_renamed(matcher) && !matcher->text.failed;
}

void diff_match_free(struct diff_matcher *matcher)
{
    for (size_t p = 0; matcher->image_of && p < matcher->profile_count; p++)
        free(matcher->image_of[p]);
    free(matcher->image_of);
    free(matcher->images);
    free(matcher->items);
    base_map_free(&matcher->map);
    base_text_free(&matcher->text);
    *matcher = (struct diff_matcher){0};
}

/* --- items --- */

static bool is_item(const struct diff_matcher *matcher, uint32_t item, const struct diff_match_item *wanted,
                    const char *name)
{
    const struct diff_match_item *known = &matcher->items[item];
    return known->kind == wanted->kind && known->image == wanted->image &&
           !strcmp(matcher->text.data + known->name, name);
}

/* The item with this kind, image and name; made when new. Other items with the same hash are passed by. */
static uint32_t intern_item(struct diff_matcher *matcher, struct diff_match_item item, const char *name)
{
    uint64_t key = base_hash_bytes(name, strlen(name)) ^ base_hash((uint64_t)item.kind << 32 | item.image);
    uint32_t known;
    for (; (known = base_map_find(&matcher->map, key)) != BASE_MAP_NONE; key++)
        if (is_item(matcher, known, &item, name))
            return known;
    uint32_t fresh = (uint32_t)matcher->item_count;
    item.name = matcher->text.length;
    base_text_add(&matcher->text, name);
    base_text_add_bytes(&matcher->text, "", 1);
    if (matcher->text.failed ||
        !base_array_room(matcher->items, matcher->item_count, matcher->item_capacity) ||
        !base_map_set(&matcher->map, key, fresh))
        return 0;
    matcher->items[matcher->item_count++] = item;
    return fresh;
}

/* `own`: the name of its image, which names functions without a symbol. Of one build they keep those
 * names. */
static uint32_t function_item(struct diff_matcher *matcher, uint32_t image, const char *own, const char *name)
{
    struct diff_match_item item = {.kind = VIEW_FUNCTION, .image = image};
    struct base_text plain = {0};
    bool nameless = is_nameless(name, own);
    if (nameless && matcher->images[image].rebuilt)
        return intern_item(matcher, item, "(functions without a name)");
    if (nameless) /* in an image that was renamed too */
        base_text_addf(&plain, "%s%s", matcher->images[image].name, name + strlen(own));
    else
        diff_match_plain(name, &plain);
    uint32_t found = plain.failed ? 0 : intern_item(matcher, item, base_text_string(&plain));
    base_text_free(&plain);
    return found;
}

uint32_t diff_match_item(struct diff_matcher *matcher, size_t at, const struct view_entities *entities,
                         uint32_t entity)
{
    const struct profile *profile = matcher->profiles[at];
    const struct view_entity *of = &entities->items[entity];
    uint32_t image = matcher->images[matcher->image_of[at][of->image]].same;
    struct diff_match_item item = {.kind = of->kind, .image = image};
    const char *own = profile_text(profile, profile->images[of->image].name);
    switch (of->kind) {
    case VIEW_FUNCTION:
    case VIEW_JIT_FUNCTION:
        return function_item(matcher, image, own, profile_text(profile, of->name));
    case VIEW_ADDRESS:
        return intern_item(matcher, item, "(no function)");
    case VIEW_IMAGE:
        return intern_item(matcher, item, own);
    case VIEW_SIGNAL:
        return intern_item(matcher, item, "<signal>");
    case VIEW_CUT:
        return intern_item(matcher, item, "[stack cut]");
    default:
        return intern_item(matcher, item, "[unknown]");
    }
}

const char *diff_match_name(const struct diff_matcher *matcher, uint32_t item)
{
    return matcher->text.data + matcher->items[item].name;
}

const char *diff_match_image_name(const struct diff_matcher *matcher, uint32_t item)
{
    return matcher->images[matcher->items[item].image].name;
}
