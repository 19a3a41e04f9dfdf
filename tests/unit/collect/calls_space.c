#include "calls_space.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect_calls_build.h"

#define CODE (16u << 20)

static const char *const only_fixtures[] = {"libpatch_*"};

static char cache[] = "/tmp/tally-calls-XXXXXX";

int calls_space_begin_tests(void **state)
{
    (void)state;
    return !mkdtemp(cache) || setenv("XDG_CACHE_HOME", cache, 1) ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *place)
{
    (void)facts;
    (void)kind;
    (void)place;
    return remove(path);
}

int calls_space_end_tests(void **state)
{
    (void)state;
    return nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

struct calls_space *calls_space_new(const char *const *names)
{
    struct calls_space *calls = calloc(1, sizeof *calls);
    struct collect_calls_wish wish = {.names = names, .images = only_fixtures, .image_count = 1};
    if (!calls)
        return NULL;
    while (names && names[wish.name_count])
        wish.name_count++;
    calls->file = -1;
    calls->profile = profile_new();
    calls->rig.profile = calls->profile;
    calls->rig.helper.socket = -1;
    if (calls->profile && collect_images_init(&calls->images, calls->profile, NULL) == BASE_OK &&
        collect_calls_images_init(&calls->rig.images, &calls->images, &wish, NULL) == BASE_OK &&
        (calls->space = collect_calls_space_new(&calls->rig, getpid())))
        return calls;
    calls_space_free(calls);
    return NULL;
}

void calls_space_free(struct calls_space *calls)
{
    if (!calls)
        return;
    collect_calls_space_free(calls->space);
    collect_calls_images_free(&calls->rig.images);
    collect_images_free(&calls->images);
    profile_free(calls->profile);
    if (calls->file >= 0)
        close(calls->file);
    free(calls);
}

/* Code that is never run, at an address in reach where nothing need be. */
static int add_arena(struct calls_space *calls, uint64_t near)
{
    struct collect_calls_space *space = calls->space;
    struct collect_calls_code *code = calloc(1, sizeof *code);
    space->arenas = calloc(1, sizeof *space->arenas);
    if (code)
        *code = (struct collect_calls_code){
            .owners = 1,
            .file = memfd_create("code", MFD_CLOEXEC),
            .address = near - (256u << 20),
            .size = CODE,
            .top = CODE,
            .bytes = mmap(NULL, CODE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
    calls->file = memfd_create("block", MFD_CLOEXEC);
    if (!code || !space->arenas || ftruncate(calls->file, COLLECT_BLOCK_SIZE)) {
        collect_calls_code_release(code);
        return BASE_ENOMEM;
    }
    space->arena_count = space->arena_capacity = 1;
    space->arenas[0].code = code;
    space->arenas[0].block =
        (struct collect_calls_block){.file = calls->file, .address = near - (512u << 20)};
    return collect_calls_block_init(&space->arenas[0].block, 0, NULL);
}

int calls_space_build(struct calls_space *calls, struct base_error *error)
{
    struct collect_calls_space *space = calls->space;
    int result = collect_calls_space_survey(space, &calls->rig, error);
    if (result > 0 && !space->arena_count)
        result = add_arena(calls, space->objects[0].low);
    for (size_t i = 0; i < space->object_count; i++)
        space->objects[i].placed = true;
    if (result >= 0)
        result = collect_calls_build_make(space, false, error);
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++) {
        struct collect_calls_object *object = &space->objects[i];
        object->patch = object->next ? object->next : object->patch;
        object->next = NULL;
    }
    return result;
}

uint32_t calls_space_function(const struct collect_calls_object *object, const char *name)
{
    const struct patch_plan *plan = &object->planned->plan;
    for (uint32_t i = 0; i < plan->header->function_count; i++)
        if (!strcmp(patch_plan_function_name(plan, i), name))
            return i;
    abort();
}

uint64_t calls_space_entry(const struct collect_calls_object *object, const char *name)
{
    return object->planned->plan.functions[calls_space_function(object, name)].start;
}

uint32_t calls_space_site(const struct collect_calls_object *object, const char *caller, const char *callee)
{
    const struct patch_plan *plan = &object->planned->plan;
    uint32_t function = calls_space_function(object, caller);
    bool linked = callee && callee[0] == '*';
    uint32_t wanted = callee && !linked ? calls_space_function(object, callee) : PATCH_NONE;
    for (uint32_t i = 0; i < plan->header->site_count; i++) {
        const struct patch_plan_site *site = &plan->sites[i];
        if (site->function == function && linked == (site->slot != 0) &&
            (linked || (callee ? site->callee == wanted : !site->target)))
            return i;
    }
    abort();
}

uint32_t calls_space_site_word(const struct collect_calls_object *object, uint32_t site)
{
    return object->base + patch_plan_site_word(site);
}

uint32_t calls_space_hook_word(const struct collect_calls_object *object, const char *name)
{
    const struct patch_plan *plan = &object->planned->plan;
    uint32_t hook = plan->functions[calls_space_function(object, name)].hook;
    if (hook == PATCH_NONE)
        abort();
    return object->base + patch_plan_hook_word(plan, hook);
}

uint64_t calls_space_return(const struct collect_calls_object *object, uint32_t site)
{
    const struct patch_plan_site *planned = &object->planned->plan.sites[site];
    return planned->address + planned->length + object->bias;
}
