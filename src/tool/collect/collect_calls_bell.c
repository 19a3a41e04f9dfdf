#include "collect_calls_bell.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "patch_x86_64_bell.h"

#define PAGE        4096u
#define WAITED_MOST 128 /* futexes in one call, ours among them */
#define LOOK_NS     1000000
#define REACH       (1ull << 30) /* of the jump to the bell, and more */

/* --- listening --- */

struct heard {
    struct patch_bell *bell;
    uint32_t seen;
};

struct collect_calls_listener {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    struct heard *bells;
    size_t count, capacity;
    bool ending;
    uint32_t changed; /* futex: the list is another one */
    int file;
};

static void futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Looks at all bells. Fills what to wait for; the first is our own. */
static unsigned look(struct collect_calls_listener *listener, struct futex_waitv *waits, bool *ending)
{
    bool rung = false;
    unsigned count = 1;
    pthread_mutex_lock(&listener->lock);
    waits[0] = (struct futex_waitv){__atomic_load_n(&listener->changed, __ATOMIC_ACQUIRE),
                                    (uintptr_t)&listener->changed, FUTEX_32, 0};
    for (size_t i = 0; i < listener->count; i++) {
        struct heard *heard = &listener->bells[i];
        uint32_t now = __atomic_load_n(&heard->bell->rung, __ATOMIC_ACQUIRE);
        rung |= now != heard->seen;
        heard->seen = now;
        if (count < WAITED_MOST)
            waits[count++] = (struct futex_waitv){now, (uintptr_t)&heard->bell->rung, FUTEX_32, 0};
    }
    *ending = listener->ending;
    bool many = listener->count >= WAITED_MOST;
    pthread_mutex_unlock(&listener->lock);
    if (rung)
        eventfd_write(listener->file, 1);
    return many ? 0 : count;
}

static void *listen(void *context)
{
    struct collect_calls_listener *listener = context;
    struct futex_waitv waits[WAITED_MOST];
    const struct timespec rest = {.tv_nsec = LOOK_NS};
    bool ending;
    for (;;) {
        unsigned count = look(listener, waits, &ending);
        if (ending)
            return NULL;
        if (!count ||
            (syscall(SYS_futex_waitv, waits, count, 0, NULL, 0) < 0 && errno != EAGAIN && errno != EINTR))
            nanosleep(&rest, NULL);
    }
}

int collect_calls_listener_new(struct collect_calls_listener **made, struct base_error *error)
{
    struct collect_calls_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    listener->file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&listener->lock, NULL);
    int number = listener->file < 0 ? errno : pthread_create(&listener->thread, NULL, listen, listener);
    if (!number) {
        *made = listener;
        return BASE_OK;
    }
    if (listener->file >= 0)
        close(listener->file);
    free(listener);
    return base_fail_errno(error, number, "a thread that hears of loaded objects");
}

static void change_list(struct collect_calls_listener *listener)
{
    __atomic_fetch_add(&listener->changed, 1, __ATOMIC_RELEASE);
    futex_wake(&listener->changed);
}

void collect_calls_listener_free(struct collect_calls_listener *listener)
{
    if (!listener)
        return;
    pthread_mutex_lock(&listener->lock);
    listener->ending = true;
    pthread_mutex_unlock(&listener->lock);
    change_list(listener);
    pthread_join(listener->thread, NULL);
    pthread_mutex_destroy(&listener->lock);
    close(listener->file);
    free(listener->bells);
    free(listener);
}

int collect_calls_listener_file(const struct collect_calls_listener *listener)
{
    return listener->file;
}

int collect_calls_bell_listen(struct collect_calls_space *space, struct collect_calls_listener *listener,
                              struct base_error *error)
{
    if (!space->bell)
        return BASE_OK;
    pthread_mutex_lock(&listener->lock);
    bool room = base_array_room(listener->bells, listener->count, listener->capacity);
    if (room)
        listener->bells[listener->count++] = (struct heard){.bell = space->bell};
    pthread_mutex_unlock(&listener->lock);
    if (room)
        __atomic_store_n(&space->bell->active, 1, __ATOMIC_RELEASE);
    change_list(listener);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* The listener looks at bells only with the lock held; a futex call on a page that goes away just fails. */
void collect_calls_bell_forget(struct collect_calls_space *space, struct collect_calls_listener *listener)
{
    pthread_mutex_lock(&listener->lock);
    for (size_t i = 0; i < listener->count; i++)
        if (listener->bells[i].bell == space->bell)
            listener->bells[i] = listener->bells[--listener->count];
    pthread_mutex_unlock(&listener->lock);
    change_list(listener);
}

/* --- a bell --- */

bool collect_calls_bell_rings(const struct collect_calls_space *space, uint32_t *rung)
{
    if (!space->bell)
        return false;
    *rung = __atomic_load_n(&space->bell->rung, __ATOMIC_ACQUIRE);
    return *rung != space->bell->answered;
}

void collect_calls_bell_answer(struct collect_calls_space *space, uint32_t rung)
{
    __atomic_store_n(&space->bell->answered, rung, __ATOMIC_RELEASE);
    futex_wake(&space->bell->answered);
}

void collect_calls_bell_silence(struct collect_calls_space *space)
{
    if (!space->bell)
        return;
    __atomic_store_n(&space->bell->active, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&space->bell->births, 0, __ATOMIC_RELEASE);
    futex_wake(&space->bell->answered);
}

bool collect_calls_bell_settled(const struct collect_calls_space *space)
{
    struct r_debug list;
    struct iovec local = {&list, sizeof list}, remote = {(void *)(uintptr_t)space->object_list, sizeof list};
    return !space->object_list ||
           process_vm_readv(space->pid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof list ||
           list.r_state == RT_CONSISTENT;
}

/* --- installing --- */

/* The mapping of ld.so that holds the function it calls, and the function's run-time address. */
static const struct collect_calls_mapping *
find_function(struct collect_calls_space *space, const struct collect_images *images, uint64_t *function)
{
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct collect_image *image = &images->items[space->mappings[i].image];
        const char *name = strrchr(image->path, '/');
        uint64_t address;
        if (!name || strncmp(name, "/ld", 3) || !image->elf || !patch_bell_find(image->elf, &address))
            continue;
        *function = address + space->mappings[i].bias;
        if (patch_bell_list(image->elf, &address))
            space->object_list = address + space->mappings[i].bias;
        return collect_calls_space_mapping(space, *function);
    }
    return NULL;
}

/* Where the arena for what the loader will load is made along with the bell, it lies between the bell's code and its words. */
static int take_arena(struct collect_calls_space *space, struct collect_calls_code *code,
                      const struct collect_calls_memory *memory, struct base_error *error)
{
    if (!base_array_room(space->arenas, space->arena_count, space->arena_capacity) ||
        !(space->bell_code = collect_calls_code_split(code, PAGE)))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    space->arenas[space->arena_count++] = (struct collect_calls_arena){
        code, {.file = memory->file, .offset = memory->offset, .address = memory->address}};
    space->bell_words = memory->address + COLLECT_BLOCK_SIZE;
    return BASE_OK;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a < b ? b - a : a - b;
}

/* An arena that nothing lies in yet and that the loader reaches has room for the bell too: nothing more need be mapped. */
static bool share_arena(struct collect_calls_space *space, uint64_t near)
{
    for (size_t i = 0; i < space->arena_count && !space->bell_code; i++) {
        const struct collect_calls_arena *arena = &space->arenas[i];
        struct collect_calls_code *code = arena->code;
        if (code->used || code->owners > 1 || distance(code->address, near) > REACH)
            continue;
        space->bell_code = collect_calls_code_split(code, PAGE);
        space->bell_words = arena->block.address + COLLECT_BLOCK_SIZE;
    }
    return space->bell_code != NULL;
}

static int map_bell(struct collect_calls_space *space, struct collect_calls_rig *rig, uint64_t near,
                    uint64_t code_ahead, struct base_error *error)
{
    struct collect_calls_code *code;
    struct collect_calls_memory memory;
    struct patch_helper_room room = {.low = near,
                                     .high = near + PAGE,
                                     .size = PAGE + code_ahead,
                                     .data = code_ahead ? COLLECT_CALLS_ARENA_DATA : PAGE};
    if (!code_ahead && share_arena(space, near))
        return BASE_OK;
    int result = collect_calls_space_both(space, rig, room, &code, &memory, error);
    if (result < 0)
        return result;
    if (!code_ahead) {
        space->bell_code = code;
        space->bell_words = memory.address;
        return result;
    }
    result = take_arena(space, code, &memory, error);
    if (result < 0) {
        patch_trace_unmap(&rig->helper, space->pid, code->address, code->size, NULL);
        collect_calls_code_release(code); /* its memory goes with the space */
    }
    return result;
}

static int map_words(struct collect_calls_space *space, struct base_error *error)
{
    const struct collect_calls_memory *memory = collect_calls_space_memory_at(space, space->bell_words);
    void *words = !memory ? MAP_FAILED
                          : mmap(NULL, sizeof *space->bell, PROT_READ | PROT_WRITE, MAP_SHARED, memory->file,
                                 (off_t)(memory->offset + (space->bell_words - memory->address)));
    if (words == MAP_FAILED)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    space->bell = words;
    return BASE_OK;
}

static int make_code(const struct collect_calls_space *space, struct base_error *error)
{
    struct patch_x86_64_bell bell = {space->bell_words, PATCH_BELL_TIMEOUT, PATCH_BELL_ROUNDS,
                                     offsetof(struct patch_bell, active)};
    struct patch_x86_64_code code;
    patch_x86_64_code_begin(&code, space->bell_code->address);
    patch_x86_64_bell(&code, &bell);
    if (code.refused != PATCH_FINE || code.size > space->bell_code->size)
        return base_fail(error, BASE_EUNSUPPORTED, "the loader's bell does not fit");
    memcpy(space->bell_code->bytes, code.bytes, code.size);
    space->bell_code->used = code.size;
    return BASE_OK;
}

/* The jump that makes the loader ring, as a change that is still to be made. */
static int plan_ring(struct collect_calls_space *space, struct collect_calls_rig *rig, uint64_t function,
                     struct base_error *error)
{
    struct patch_memory_change change = {.address = function, .length = PATCH_X86_64_BELL_JUMP};
    int result = patch_trace_read(&rig->helper, space->pid, function, change.before, change.length, error);
    if (result == BASE_OK && !patch_x86_64_bell_site(function, space->bell_code->address, change.after))
        result = base_fail(error, BASE_EUNSUPPORTED, "the loader is out of reach");
    if (result == BASE_OK)
        space->bell_change = change;
    return result;
}

int collect_calls_bell_prepare(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct collect_calls_listener *listener, uint64_t code_ahead,
                               struct base_error *error)
{
    uint64_t function;
    uint8_t old[PATCH_X86_64_BELL_LOOK];
    const struct collect_calls_mapping *mapping = find_function(space, rig->images.images, &function);
    if (!mapping || patch_trace_read(&rig->helper, space->pid, function, old, sizeof old, NULL) < 0 ||
        !patch_x86_64_bell_fits(old, sizeof old))
        return 0;
    int result = map_bell(space, rig, function, code_ahead, error);
    if (result == BASE_OK)
        result = map_words(space, error);
    if (result == BASE_OK)
        result = make_code(space, error);
    if (result == BASE_OK)
        result = collect_calls_bell_listen(space, listener, error);
    if (result == BASE_OK)
        result = plan_ring(space, rig, function, error);
    if (result == BASE_OK)
        result = patch_trace_farewell(&rig->helper, space->pid, space->bell_words, 0, error);
    return result < 0 ? result : 1;
}

int collect_calls_bell_install(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct collect_calls_listener *listener, uint64_t code_ahead,
                               struct base_error *error)
{
    int prepared = collect_calls_bell_prepare(space, rig, listener, code_ahead, error);
    if (prepared <= 0)
        return prepared;
    int result = patch_trace_stage(&rig->helper, space->pid, &space->bell_change, 1, error);
    if (result == BASE_OK)
        result = patch_trace_apply(&rig->helper, space->pid, error);
    space->bell_set = result == BASE_OK;
    return result < 0 ? result : prepared;
}
