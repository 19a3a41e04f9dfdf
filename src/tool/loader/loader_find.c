/* First step of leaving: what is ours in the process. What the process's memory lists is believed only as
 * far as the mappings agree.
 *
 * A slot says which function jumps to it. Where the function's bytes are the jump, that is put back. Where
 * others have changed the bytes, it depends on what is there now: our jump below their breakpoint is put
 * back and their byte stays; the file's bytes, or another file's, need nothing; anything else is a
 * suspect, which may hold our jump elsewhere. */
#include "loader_find.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_array.h"
#include "loader_inside.h"
#include "loader_returns.h"
#include "wire_agent_entry.h"
#include "wire_agent_process.h"

enum { SLOTS_MOST = 1 << 20 };

/* A slot, the change that takes its jump away, and what is there now. */
struct hooked {
    const struct loader_x86_64_wrap *wrap;
    struct trace_memory_change change;
    uint8_t live[LOADER_X86_64_WRAP_JUMP];
};

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

bool loader_find_is_mapped(const struct proc_maps *maps, const struct loader_own_range *range, bool named)
{
    uint64_t at = range->address;
    for (size_t i = 0; i < maps->count && at < range->address + range->size; i++)
        if (maps->items[i].start <= at && maps->items[i].end > at &&
            (!named || strcmp(maps->items[i].path, LOADER_PATH) == 0))
            at = maps->items[i].end;
    return at >= range->address + range->size;
}

static int add_range(struct loader_leaving *leaving, const struct loader_own_range *range)
{
    for (size_t i = 0; i < leaving->ours.count; i++)
        if (leaving->ours.items[i].address == range->address) {
            leaving->ours.items[i].code |= range->code;
            leaving->ours.items[i].size = range->size;
            return BASE_OK;
        }
    if (!base_array_room(leaving->ours.items, leaving->ours.count, leaving->ours.capacity))
        return no_memory(leaving->error);
    leaving->ours.items[leaving->ours.count++] = *range;
    return BASE_OK;
}

/* Of the ranges that home lists only the data is not found by name: it must be private memory right behind
 * home. */
static int read_home(struct loader_leaving *leaving, const struct proc_maps *maps, uint64_t address)
{
    struct loader_home home;
    if (loader_read(&leaving->access, address, &home, sizeof home) < 0 || home.version != LOADER_VERSION ||
        home.count < 2 || home.count > LOADER_RANGES || home.ranges[0].address != address)
        return BASE_OK;
    const struct loader_own_range data = {home.ranges[1].address, home.ranges[1].size, 0, 1};
    if (home.count > 2) {
        leaving->region = home.ranges[2].address;
        leaving->region_size = home.ranges[2].size;
    }
    if (data.address != address + home.ranges[0].size || data.size == 0 || data.size > 1u << 30 ||
        data.address % LOADER_PAGE || data.size % LOADER_PAGE || !loader_find_is_mapped(maps, &data, false))
        return BASE_OK;
    return add_range(leaving, &data);
}

/* Another tally that still runs would not notice that its agent is gone; for remains, this one counts too. */
static int refuse_running(const struct loader_leaving *leaving, const struct wire_agent_control *control)
{
    char path[64], theirs[4096], ours[sizeof theirs];
    pid_t tally = (pid_t)control->tally_pid;
    snprintf(path, sizeof path, "/proc/%d/exe", tally);
    bool counts = tally > 0 && (tally != getpid() || leaving->remains);
    ssize_t size = counts ? readlink(path, theirs, sizeof theirs) : -1;
    if (size <= 0 || control->gone || readlink("/proc/self/exe", ours, sizeof ours) != size ||
        memcmp(ours, theirs, (size_t)size) != 0)
        return BASE_OK;
    return base_fail(leaving->error, BASE_EBUSY, "process %d is being recorded by tally %d: end that one",
                     leaving->access.pid, tally);
}

bool loader_find_control(struct loader_leaving *leaving, struct wire_agent_control *control)
{
    return leaving->region_size != 0 &&
           loader_read(&leaving->access, leaving->region, control, sizeof *control) == BASE_OK &&
           control->magic == WIRE_AGENT_MAGIC && control->version == WIRE_AGENT_VERSION &&
           control->memory <= 1ull << 40;
}

static bool has_regions(const struct loader_leaving *leaving, const struct wire_agent_control *control)
{
    uint64_t size = leaving->region_size;
    return control->region_size >= wire_agent_layout(control->memory).size && control->region_size <= size &&
           control->regions_offset <= size - control->region_size;
}

void loader_find_process(struct loader_leaving *leaving, const struct wire_agent_control *control)
{
    struct wire_agent_process process;
    struct wire_agent_layout layout = wire_agent_layout(control->memory);
    uint64_t at = leaving->region + control->regions_offset;
    if (!has_regions(leaving, control) || loader_read(&leaving->access, at, &process, sizeof process) < 0 ||
        process.magic != WIRE_AGENT_MAGIC || process.pid != (uint32_t)leaving->access.pid ||
        process.state == WIRE_AGENT_FREE)
        return;
    leaving->users.process = at;
    leaving->users.records = at + wire_agent_part_offset(&layout, WIRE_AGENT_PART_THREADS);
    leaving->timers = at + layout.timers;
    leaving->own_signal = process.timer_signal;
}

int loader_find_counts(struct loader_leaving *leaving)
{
    struct wire_agent_control control;
    if (!loader_find_control(leaving, &control))
        return BASE_OK;
    leaving->timer_signals[0] = control.timer_signal <= 64 ? control.timer_signal : 0;
    leaving->timer_signals[1] = control.timer_other <= 64 ? control.timer_other : 0;
    loader_find_process(leaving, &control);
    int result = refuse_running(leaving, &control);
    if (result == BASE_OK && has_regions(leaving, &control))
        result = loader_returns_begin(&leaving->returns, &control, leaving->region, leaving->error);
    return result;
}

void loader_find_publish(struct loader_leaving *leaving)
{
    const uint32_t state = WIRE_AGENT_LEFT;
    if (leaving->users.process)
        helper_trace_write(leaving->access.helper, leaving->access.trace,
                           leaving->users.process + offsetof(struct wire_agent_process, state), &state,
                           sizeof state, NULL);
}

/* Hooks that replace return addresses, or put them back: only these are whole (wire_hook.h). */
static bool is_whole(const struct loader_x86_64_wrap *wrap)
{
    return wrap->code[0] == 0x41 && wrap->code[1] == 0x53;
}

static bool is_unwind_wrap(const struct loader_x86_64_wrap *wrap)
{
    return is_whole(wrap) && (wrap->hook.cookie & 255) == WIRE_AGENT_ENTRY_UNWIND;
}

/* Hooks that answer unwinders about the agent's own frames, as long as those may be on a stack. */
static bool answers_unwinders(const struct loader_x86_64_wrap *wrap)
{
    uint64_t entry = wrap->hook.cookie & 255;
    return entry == WIRE_AGENT_ENTRY_OBJECT || entry == WIRE_AGENT_ENTRY_HEADERS;
}

/* Is it certain that the bytes hold nothing of our jump? Memory that was mapped since over a function that
 * we had hooked shows its file, or has none. A tool that changes text may map it without execute
 * permission for that moment: such text is recognised by its file, which has the function's `old` bytes
 * there. Data of another file may differ from its file. */
static bool shows_file(const struct proc_maps *maps, pid_t pid, uint64_t address, const uint8_t *live,
                       const uint8_t *old, size_t size)
{
    uint8_t file[LOADER_X86_64_WRAP_JUMP];
    for (size_t i = 0; i < maps->count; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        if (address < mapping->start || address >= mapping->end)
            continue;
        if (!mapping->inode)
            return true;
        int descriptor = proc_maps_open(pid, mapping, NULL);
        off_t at = (off_t)(mapping->offset + (address - mapping->start));
        bool known = descriptor >= 0 && pread(descriptor, file, size, at) == (ssize_t)size;
        if (descriptor >= 0)
            close(descriptor);
        return mapping->executable ? known && memcmp(live, file, size) == 0
                                   : !known || memcmp(old, file, size) != 0;
    }
    return true;
}

static int add_put_back(struct loader_leaving *leaving, const struct hooked *hooked)
{
    struct loader_changes *list =
        is_unwind_wrap(hooked->wrap) || answers_unwinders(hooked->wrap) ? &leaving->last : &leaving->first;
    if (!base_array_room(list->items, list->count, list->capacity))
        return no_memory(leaving->error);
    list->items[list->count++] = hooked->change;
    return BASE_OK;
}

static int add_suspect(struct loader_leaving *leaving, uint64_t address)
{
    if (!base_array_room(leaving->suspects, leaving->suspect_count, leaving->suspect_capacity))
        return no_memory(leaving->error);
    leaving->suspects[leaving->suspect_count++] = address;
    return BASE_OK;
}

/* Puts back what is still ours of the bytes that jump from the function to the slot. */
static int add_altered(struct loader_leaving *leaving, const struct proc_maps *maps, struct hooked *hooked)
{
    const size_t jump = LOADER_X86_64_WRAP_JUMP;
    struct trace_memory_change *change = &hooked->change;
    if (!trace_memory_spare(hooked->live, change->before, change->after, jump))
        return shows_file(maps, leaving->access.pid, change->address, hooked->live, hooked->wrap->old, jump)
                   ? BASE_OK
                   : add_suspect(leaving, change->address);
    if (memcmp(change->before, change->after, jump) == 0)
        return BASE_OK;
    leaving->left->probed++;
    return add_put_back(leaving, hooked);
}

static bool has_overlapping_change(const struct loader_changes *changes, uint64_t address)
{
    for (size_t i = 0; i < changes->count; i++)
        if (address < changes->items[i].address + changes->items[i].length &&
            changes->items[i].address < address + LOADER_X86_64_WRAP_JUMP)
            return true;
    return false;
}

/* Another slot's function has the place now: the bytes there are explained by that. */
static bool is_explained(const struct loader_leaving *leaving, uint64_t address)
{
    return has_overlapping_change(&leaving->first, address) ||
           has_overlapping_change(&leaving->last, address);
}

static int add_function(struct loader_leaving *leaving, const struct loader_x86_64_wrap *wrap)
{
    if (!base_array_room(leaving->functions, leaving->function_count, leaving->function_capacity))
        return no_memory(leaving->error);
    if (!is_whole(
            wrap)) /* whole ones leave nothing of ours on a stack but return addresses, which are put back */
        leaving->functions[leaving->function_count++] = wrap->hook.function;
    return BASE_OK;
}

/* `altered` false: handles functions whose jump is as we made it; true: the others. */
static int find_slot(struct loader_leaving *leaving, const struct proc_maps *maps,
                     const struct loader_x86_64_wrap *wrap, uint64_t slot, bool altered)
{
    const size_t jump = LOADER_X86_64_WRAP_JUMP;
    struct hooked hooked = {.wrap = wrap, .change = {.address = wrap->hook.function, .length = jump}};
    loader_x86_64_wrap_jump(wrap->hook.function, slot, hooked.change.before);
    memcpy(hooked.change.after, wrap->old, jump);
    int result = altered ? BASE_OK : add_function(leaving, wrap);
    if (result < 0 || wrap->beneath ||
        loader_read(&leaving->access, wrap->hook.function, hooked.live, jump) < 0 ||
        altered != (memcmp(hooked.live, hooked.change.before, jump) != 0))
        return result;
    if (!altered)
        return add_put_back(leaving, &hooked);
    return is_explained(leaving, wrap->hook.function) ? BASE_OK : add_altered(leaving, maps, &hooked);
}

/* From the last slot on: of two for one place the later one is in effect. */
static int find_slots(struct loader_leaving *leaving, const struct proc_maps *maps,
                      const struct proc_mapping *mapping, bool altered)
{
    struct loader_slab_head head;
    uint64_t most = (mapping->end - mapping->start) / sizeof(struct loader_x86_64_wrap);
    if (loader_read(&leaving->access, mapping->start, &head, sizeof head) < 0 ||
        head.version != LOADER_VERSION)
        return BASE_OK;
    uint64_t used = head.used < most ? head.used : most;
    int result = BASE_OK;
    for (uint64_t i = used < SLOTS_MOST ? used : SLOTS_MOST; i-- > 1 && result == BASE_OK;) {
        struct loader_x86_64_wrap wrap;
        uint64_t slot = mapping->start + i * sizeof wrap;
        if (loader_read(&leaving->access, slot, &wrap, sizeof wrap) == BASE_OK && wrap.hook.function != 0)
            result = find_slot(leaving, maps, &wrap, slot, altered);
    }
    return result;
}

int loader_find_add_mapping(struct loader_leaving *leaving, const struct proc_maps *maps,
                            const struct proc_mapping *mapping)
{
    const struct loader_own_range range = {mapping->start, mapping->end - mapping->start, mapping->executable,
                                           0};
    (void)maps;
    return add_range(leaving, &range);
}

int loader_find_mapping(struct loader_leaving *leaving, const struct proc_maps *maps,
                        const struct proc_mapping *mapping)
{
    uint64_t magic = 0;
    int result = loader_find_add_mapping(leaving, maps, mapping);
    leaving->left->mappings++;
    if (result < 0 || !mapping->executable ||
        loader_read(&leaving->access, mapping->start, &magic, sizeof magic) < 0)
        return result;
    if (magic == LOADER_HOME)
        return read_home(leaving, maps, mapping->start);
    return magic == LOADER_SLAB ? find_slots(leaving, maps, mapping, false) : BASE_OK;
}

int loader_find_altered(struct loader_leaving *leaving, const struct proc_maps *maps,
                        const struct proc_mapping *mapping)
{
    uint64_t magic = 0;
    if (!mapping->executable || loader_read(&leaving->access, mapping->start, &magic, sizeof magic) < 0 ||
        magic != LOADER_SLAB)
        return BASE_OK;
    return find_slots(leaving, maps, mapping, true);
}

int loader_find(struct loader_leaving *leaving,
                int (*take)(struct loader_leaving *, const struct proc_maps *, const struct proc_mapping *))
{
    struct proc_maps maps = {0};
    int result = proc_maps_read(leaving->access.pid, &maps, leaving->error);
    for (size_t i = 0; i < maps.count && result == BASE_OK; i++)
        if (strcmp(maps.items[i].path, LOADER_PATH) == 0)
            result = take(leaving, &maps, &maps.items[i]);
    proc_maps_free(&maps);
    return result;
}

/* A later slot may have explained a place that an earlier one could not. */
void loader_find_count_suspects(struct loader_leaving *leaving)
{
    for (size_t i = 0; i < leaving->suspect_count; i++)
        leaving->left->skipped += !is_explained(leaving, leaving->suspects[i]);
}
