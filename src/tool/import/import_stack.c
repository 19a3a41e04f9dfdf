#include "import_stack.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base_map.h"
#include "base_text.h"
#include "wire_loss.h"

void import_stack_begin(struct import_stack *stack)
{
    stack->count = stack->first = 0;
    stack->cut = false;
}

static size_t ring_index(const struct import_stack *stack, size_t index)
{
    return (stack->first + index) % IMPORT_STACK_DEEPEST;
}

bool import_stack_mark(struct import_stack *stack, const char *name)
{
    if (!strcmp(name, "[stack cut]") && !stack->count) {
        stack->cut = true;
        return true;
    }
    if (!strcmp(name, "<signal>") && stack->count) {
        stack->flags[ring_index(stack, stack->count - 1)] |= PROFILE_NODE_SIGNAL;
        return true;
    }
    return false;
}

void import_stack_add(struct import_stack *stack, uint32_t address, uint32_t flags)
{
    stack->failed |= !address;
    if (stack->count < IMPORT_STACK_DEEPEST) {
        stack->count++;
    } else {
        stack->first = ring_index(stack, 1);
        if (!stack->cut)
            profile_lose(stack->profile, WIRE_LOSS_TOO_DEEP, 1);
        stack->cut = true;
    }
    size_t at = ring_index(stack, stack->count - 1);
    stack->addresses[at] = address;
    stack->flags[at] = flags;
}

/* Once around, so that the outermost comes first. */
static void straighten_stack(struct import_stack *stack)
{
    for (; stack->first; stack->first--) {
        uint32_t address = stack->addresses[0], flags = stack->flags[0];
        size_t others = (IMPORT_STACK_DEEPEST - 1) * sizeof *stack->addresses;
        memmove(stack->addresses, stack->addresses + 1, others);
        memmove(stack->flags, stack->flags + 1, others);
        stack->addresses[IMPORT_STACK_DEEPEST - 1] = address;
        stack->flags[IMPORT_STACK_DEEPEST - 1] = flags;
    }
}

uint32_t import_stack_node(struct import_stack *stack)
{
    if (!stack->count || stack->failed)
        return 0;
    straighten_stack(stack);
    if (stack->cut)
        stack->flags[0] |= PROFILE_NODE_CUT;
    uint32_t node = profile_stack(stack->profile, stack->addresses, stack->flags, stack->count);
    stack->failed |= !node;
    return node;
}

/* --- names --- */

static const char *text_of(const char *text)
{
    return text ? text : "";
}

static uint64_t hash_level(uint64_t hash, const struct import_stack_level *level)
{
    const char *file = text_of(level->file);
    hash = base_hash(hash ^ base_hash_bytes(level->name, strlen(level->name)));
    hash = base_hash(hash ^ base_hash_bytes(file, strlen(file)));
    return base_hash(hash ^ level->line);
}

/* A positive number: SQLite's are signed, and people meet it in queries. */
static uint64_t address_of(const struct import_stack_level *function,
                           const struct import_stack_level *inlined, size_t levels)
{
    uint64_t hash = hash_level(0, function);
    for (size_t i = 0; i < levels; i++)
        hash = hash_level(hash, &inlined[i]);
    return hash >> 1;
}

/* What an address is called; resolution 0: memory ran out. */
static struct profile_address value_of(struct profile *profile, uint32_t address,
                                       const struct import_stack_naming *naming)
{
    struct profile_address value = profile->addresses[address];
    value.function =
        profile_function(profile, value.image, naming->function->name, naming->start, naming->end);
    value.file = profile_string(profile, naming->function->file);
    value.line = naming->function->line;
    value.inlined = 0;
    value.lines_known = true;
    value.resolution = value.function ? PROFILE_RESOLVED : PROFILE_UNRESOLVED;
    for (size_t i = naming->levels; i-- > 0;) {
        value.inlined = profile_inlined(profile, naming->inlined[i].name, text_of(naming->inlined[i].file),
                                        naming->inlined[i].line, value.inlined);
        if (!value.inlined)
            value.resolution = PROFILE_UNRESOLVED;
    }
    return value;
}

uint32_t import_stack_name(struct profile *profile, uint32_t address,
                           const struct import_stack_naming *naming)
{
    const struct profile_address *known = &profile->addresses[address];
    struct profile_address value = value_of(profile, address, naming);
    if (value.resolution != PROFILE_RESOLVED)
        return 0;
    if (known->resolution == PROFILE_RESOLVED &&
        (known->function != value.function || known->inlined != value.inlined || known->file != value.file ||
         known->line != value.line))
        return import_stack_named(profile, value.image, naming->function, naming->inlined, naming->levels);
    profile_set_address(profile, address, &value);
    return address;
}

uint32_t import_stack_named(struct profile *profile, uint32_t image,
                            const struct import_stack_level *function,
                            const struct import_stack_level *inlined, size_t levels)
{
    uint32_t address = profile_address(profile, image, address_of(function, inlined, levels));
    if (!address || profile->addresses[address].resolution == PROFILE_RESOLVED)
        return address;
    struct profile_address value =
        value_of(profile, address,
                 &(struct import_stack_naming){.function = function, .inlined = inlined, .levels = levels});
    if (value.resolution != PROFILE_RESOLVED)
        return 0;
    profile_set_address(profile, address, &value);
    return address;
}

uint32_t import_stack_nowhere(struct profile *profile)
{
    return profile_image(profile, PROFILE_IMAGE_SPECIAL, "", "", 0);
}

void import_stack_notice(struct profile *profile, const char *format, ...)
{
    struct base_text text = {0};
    const char *before = profile_meta(profile, "import_notice");
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    base_text_addf(&text, "%s%s%s", before ? before : "", before ? "; " : "", sentence);
    profile_set_meta(profile, "import_notice", base_text_string(&text));
    if (text.failed)
        profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    base_text_free(&text);
}

void import_stack_partial(struct profile *profile, const char *why)
{
    if (!profile_meta(profile, "import_partial"))
        profile_set_meta(profile, "import_partial", why);
}
