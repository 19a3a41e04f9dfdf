#include "space_made.h"
#include "space_make.h"
#include "space_memory.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "space_survey.h"

#define CODE (16u << 20)

static const char *const only_fixtures[] = {"libfixture_*"};

static char cache[] = "/tmp/tally-calls-XXXXXX";

int space_made_begin_tests(void **state)
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

int space_made_end_tests(void **state)
{
    (void)state;
    return nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

struct space_made *space_made_new(const char *const *names)
{
    struct space_made *calls = calloc(1, sizeof *calls);
    struct space_request request = {.names = names, .images = only_fixtures, .image_count = 1};
    if (!calls)
        return NULL;
    while (names && names[request.name_count])
        request.name_count++;
    calls->file = -1;
    calls->profile = profile_new();
    calls->session.profile = calls->profile;
    calls->session.helper.socket = -1;
    if (calls->profile && sample_images_init(&calls->images, calls->profile, NULL) == BASE_OK &&
        space_images_init(&calls->session.images, &calls->images, &request, NULL) == BASE_OK &&
        (calls->space = space_new(&calls->session, getpid())))
        return calls;
    space_made_free(calls);
    return NULL;
}

void space_made_free(struct space_made *calls)
{
    if (!calls)
        return;
    space_free(calls->space);
    space_images_free(&calls->session.images);
    sample_images_free(&calls->images);
    profile_free(calls->profile);
    if (calls->file >= 0)
        close(calls->file);
    free(calls);
}

/* Code that is never run, at an address in reach where nothing need be. */
static int add_arena(struct space_made *calls, uint64_t near)
{
    struct space *space = calls->space;
    struct space_code *code = calloc(1, sizeof *code);
    space->arenas = calloc(1, sizeof *space->arenas);
    if (code)
        *code = (struct space_code){
            .owners = 1,
            .file = memfd_create("code", MFD_CLOEXEC),
            .address = near - (256u << 20),
            .size = CODE,
            .top = CODE,
            .bytes = mmap(NULL, CODE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
    calls->file = memfd_create("block", MFD_CLOEXEC);
    if (!code || !space->arenas || ftruncate(calls->file, SLAB_BLOCK_SIZE)) {
        space_memory_release(code);
        return BASE_ENOMEM;
    }
    space->arena_count = space->arena_capacity = 1;
    space->arenas[0].code = code;
    space->arenas[0].block = (struct slab_block){.file = calls->file, .address = near - (512u << 20)};
    return slab_block_init(&space->arenas[0].block, 0, NULL);
}

int space_made_build(struct space_made *calls, struct base_error *error)
{
    struct space *space = calls->space;
    int result = space_survey(space, &calls->session, error);
    if (result > 0 && !space->arena_count)
        result = add_arena(calls, space->objects[0].low);
    for (size_t i = 0; i < space->object_count; i++)
        space->objects[i].placed = true;
    if (result >= 0)
        result = space_make(space, false, error);
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++) {
        struct space_object *object = &space->objects[i];
        object->patch = object->next ? object->next : object->patch;
        object->next = NULL;
    }
    return result;
}

uint32_t space_made_function(const struct space_object *object, const char *name)
{
    const struct plan *plan = &object->planned->plan;
    for (uint32_t i = 0; i < plan->header->function_count; i++)
        if (!strcmp(plan_function_name(plan, i), name))
            return i;
    abort();
}

uint64_t space_made_entry(const struct space_object *object, const char *name)
{
    return object->planned->plan.functions[space_made_function(object, name)].start;
}

uint32_t space_made_site(const struct space_object *object, const char *caller, const char *callee)
{
    const struct plan *plan = &object->planned->plan;
    uint32_t function = space_made_function(object, caller);
    bool linked = callee && callee[0] == '*';
    uint32_t wanted = callee && !linked ? space_made_function(object, callee) : PLAN_NONE;
    for (uint32_t i = 0; i < plan->header->site_count; i++) {
        const struct plan_site *site = &plan->sites[i];
        if (site->function == function && linked == (site->slot != 0) &&
            (linked || (callee ? site->callee == wanted : !site->target)))
            return i;
    }
    abort();
}

uint32_t space_made_site_word(const struct space_object *object, uint32_t site)
{
    return object->base + plan_site_word(site);
}

uint32_t space_made_hook_word(const struct space_object *object, const char *name)
{
    const struct plan *plan = &object->planned->plan;
    uint32_t hook = plan->functions[space_made_function(object, name)].hook;
    if (hook == PLAN_NONE)
        abort();
    return object->base + plan_hook_word(plan, hook);
}

uint64_t space_made_return(const struct space_object *object, uint32_t site)
{
    const struct plan_site *planned = &object->planned->plan.sites[site];
    return planned->address + planned->length + object->bias;
}
