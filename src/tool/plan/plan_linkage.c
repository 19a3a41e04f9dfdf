#include "plan_linkage.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "plan_slots.h"

static const char SUFFIX[] = "@plt";

static const uint8_t ENDBR64[] = {0xf3, 0x0f, 0x1e, 0xfa};

enum {
    STEP = 8,    /* stubs begin at multiples of it */
    OPCODES = 2, /* of jmp [rip+disp32], before the displacement */
    BND = 0xf2
};

struct search {
    const struct plan_function_request *requests;
    size_t request_count;
    const char *path;
    struct plan_slots slots;
    struct plan_functions found;
};

/* --- requests --- */

/* Does the request mean the stub of `name`? */
static bool means_stub_of(const struct plan_function_request *request, const char *name)
{
    size_t length = strlen(name);
    return !strncmp(request->name, name, length) && !strcmp(request->name + length, SUFFIX);
}

static uint32_t request_of(const struct search *search, const char *name)
{
    for (size_t i = 0; i < search->request_count; i++)
        if (*name && means_stub_of(&search->requests[i], name) &&
            plan_function_concerns(&search->requests[i], search->path))
            return (uint32_t)i;
    return PLAN_NONE;
}

static bool has_stub_requests(const struct plan_function_request *requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(requests[i].name);
        if (length >= sizeof SUFFIX && !strcmp(requests[i].name + length - (sizeof SUFFIX - 1), SUFFIX))
            return true;
    }
    return false;
}

/* --- stubs --- */

/* Bytes of the stub that begins there, with *slot, through which it jumps; 0: none does. */
static uint8_t stub_at(const struct elf_section *section, size_t at, uint64_t *slot)
{
    const uint8_t *bytes = section->bytes + at;
    size_t left = section->size - at, length = 0;
    int32_t displacement;
    if (left >= sizeof ENDBR64 && !memcmp(bytes, ENDBR64, sizeof ENDBR64))
        length = sizeof ENDBR64;
    if (length < left && bytes[length] == BND)
        length++;
    if (left < length + OPCODES + sizeof displacement || bytes[length] != 0xff || bytes[length + 1] != 0x25)
        return 0;
    memcpy(&displacement, bytes + length + OPCODES, sizeof displacement);
    length += OPCODES + sizeof displacement;
    *slot = section->address + at + length + (uint64_t)(int64_t)displacement;
    return (uint8_t)length;
}

static bool add_stub(struct search *search, const struct elf_section *section, size_t at)
{
    uint64_t slot;
    uint8_t length = stub_at(section, at, &slot);
    const char *name = length ? plan_slots_name(&search->slots, slot) : NULL;
    uint32_t request = name ? request_of(search, name) : PLAN_NONE;
    if (request == PLAN_NONE)
        return true;
    if (!base_array_room(search->found.items, search->found.count, search->found.capacity))
        return false;
    struct plan_hookable *function = &search->found.items[search->found.count];
    *function = (struct plan_hookable){.address = section->address + at,
                                       .request = request,
                                       .length = length,
                                       .name = strdup(search->requests[request].name)};
    memcpy(function->old, section->bytes + at, length);
    search->found.count += function->name != NULL;
    return function->name != NULL;
}

static bool add_stubs(struct search *search, const struct elf_image *image)
{
    for (size_t i = 0; i < elf_image_section_count(image); i++) {
        struct elf_section section;
        if (!elf_image_section_header(image, i, &section) || strncmp(section.name, ".plt", 4) != 0 ||
            !elf_image_section_at(image, i, &section) || section.bytes == NULL)
            continue;
        for (size_t at = 0; at < section.size; at += STEP)
            if (!add_stub(search, &section, at))
                return false;
    }
    return true;
}

static int by_address(const void *left, const void *right)
{
    const struct plan_hookable *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static bool append_functions(struct plan_functions *functions, const struct plan_functions *found)
{
    for (size_t i = 0; i < found->count; i++)
        if (!base_array_room(functions->items, functions->count + i, functions->capacity))
            return false;
    if (found->count == 0)
        return true;
    memcpy(functions->items + functions->count, found->items, found->count * sizeof *found->items);
    functions->count += found->count;
    qsort(functions->items, functions->count, sizeof *functions->items, by_address);
    return true;
}

int plan_linkage_add(const struct elf_image *image, const char *path,
                     const struct plan_function_request *requests, size_t request_count,
                     struct plan_functions *functions, struct base_error *error)
{
    struct search search = {.requests = requests, .request_count = request_count, .path = path};
    if (!has_stub_requests(requests, request_count))
        return BASE_OK;
    int result = plan_slots_make(image, &search.slots, error);
    if (result < 0)
        return result;
    bool good = add_stubs(&search, image) && append_functions(functions, &search.found);
    plan_slots_free(&search.slots);
    if (good)
        free(search.found.items);
    else
        plan_functions_free(&search.found);
    return good ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}
