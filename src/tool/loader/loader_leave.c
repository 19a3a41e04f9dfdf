/* Taking an agent out of a process, by what lies in the process alone.
 *
 *   1. find       our mappings by their name, and in them home and slabs, which tell the rest
 *   2. put back   every function whose first bytes still lead to its slot: nobody new comes in
 *   3. timers     of the threads go (agent_timer.c), and the signal they used is as it was: nobody new comes
 *                 in there either
 *   4. wait       until each thread has been outside once (loader_users.h), and no return address leads to us
 *                 (loader_returns.h). Between looks the process runs
 *   5. put back   the hooks of unwinders, which others need as long as return addresses are replaced; wait again
 *   6. unmap      where loader_unmap.h proves that nothing leads there
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "loader_inside.h"
#include "loader_kept.h"
#include "loader_returns.h"
#include "loader_unmap.h"
#include "loader_users.h"
#include "proc_target.h"
#include "wire_agent_entry.h"
#include "wire_agent_process.h"

enum {
    REST_NS = 1000000,    /* and so much more each time */
    ATTEMPTS = 40,        /* 0.8 s in all, where all threads sleep */
    ATTEMPTS_AWAKE = 100, /* 5 s: who is inside may wait for a processor, and goes on once it has one */
    SLOTS_MOST = 1 << 20,
};

struct found {
    struct loader_own_range *items; /* what is to be unmapped */
    size_t count, capacity;
};

struct changes {
    struct trace_memory_change *items;
    size_t count, capacity;
};

struct leaving {
    struct loader_access access;
    struct found ours;
    struct loader_users users;
    struct loader_returns returns;
    uint64_t *functions; /* that are or were hooked */
    size_t function_count, function_capacity;
    uint64_t region, region_size;
    uint32_t timer_signals[2]; /* the timers' and what they may have moved to; 0: none */
    uint32_t own_signal;       /* which of them the process has now */
    uint64_t timers;           /* run-time address of the process's timers; 0: it has no region */
    uint64_t *suspects;        /* where neither we nor the file explain what lies there */
    size_t suspect_count, suspect_capacity;
    struct changes first, last; /* last: of hooks that others need as long as return addresses are replaced */
    bool held, remains;         /* remains: only what nobody has any more */
    struct loader_left *left;
    struct base_error *error;
};

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- 1. find --- */

/* `named`: with our name. */
static bool is_mapped(const struct proc_maps *maps, const struct loader_own_range *range, bool named)
{
    uint64_t at = range->address;
    for (size_t i = 0; i < maps->count && at < range->address + range->size; i++)
        if (maps->items[i].start <= at && maps->items[i].end > at &&
            (!named || strcmp(maps->items[i].path, LOADER_PATH) == 0))
            at = maps->items[i].end;
    return at >= range->address + range->size;
}

static int add_range(struct leaving *leaving, const struct loader_own_range *range)
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

/* Ranges that home tells of: only private memory at the place where it says that the data is, and what bears
 * our name. */
static int take_home(struct leaving *leaving, const struct proc_maps *maps, uint64_t address)
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
        data.address % LOADER_PAGE || data.size % LOADER_PAGE || !is_mapped(maps, &data, false))
        return BASE_OK;
    return add_range(leaving, &data);
}

/* Another tally that runs still, and would go on as if nothing were; for who is about to load, this one
 * too. */
static int refuse_living(const struct leaving *leaving, const struct wire_agent_control *control)
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

/* False: there is none. */
static bool read_control(struct leaving *leaving, struct wire_agent_control *control)
{
    return leaving->region_size != 0 &&
           loader_read(&leaving->access, leaving->region, control, sizeof *control) == BASE_OK &&
           control->magic == WIRE_AGENT_MAGIC && control->version == WIRE_AGENT_VERSION &&
           control->memory <= 1ull << 40;
}

static bool has_regions(const struct leaving *leaving, const struct wire_agent_control *control)
{
    uint64_t size = leaving->region_size;
    return control->region_size >= wire_agent_layout(control->memory).size && control->region_size <= size &&
           control->regions_offset <= size - control->region_size;
}

/* The process's own region, which it shows at the place of the first one (wire_agent.h); a child that is not
 * counted has its parent's there. */
static void find_process(struct leaving *leaving, const struct wire_agent_control *control)
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

static int find_counts(struct leaving *leaving)
{
    struct wire_agent_control control;
    if (!read_control(leaving, &control))
        return BASE_OK;
    leaving->timer_signals[0] = control.timer_signal <= 64 ? control.timer_signal : 0;
    leaving->timer_signals[1] = control.timer_other <= 64 ? control.timer_other : 0;
    find_process(leaving, &control);
    int result = refuse_living(leaving, &control);
    if (result == BASE_OK && has_regions(leaving, &control))
        result = loader_returns_begin(&leaving->returns, &control, leaving->region, leaving->error);
    return result;
}

/* New calls go past the agent from now on. */
static void publish(struct leaving *leaving)
{
    const uint32_t state = WIRE_AGENT_LEFT;
    if (leaving->users.process)
        helper_trace_write(leaving->access.helper, leaving->access.trace,
                           leaving->users.process + offsetof(struct wire_agent_process, state), &state,
                           sizeof state, NULL);
}

/* --- 2. put back --- */

/* A hook that replaces return addresses, or puts them back: they alone are whole (wire_hook.h). */
static bool is_whole(const struct loader_x86_64_wrap *wrap)
{
    return wrap->code[0] == 0x41 && wrap->code[1] == 0x53;
}

static bool unwinds(const struct loader_x86_64_wrap *wrap)
{
    return is_whole(wrap) && (wrap->hook.cookie & 255) == WIRE_AGENT_ENTRY_UNWIND;
}

/* They answer as long as the agent may be on a stack. */
static bool publishes_to_unwinders(const struct loader_x86_64_wrap *wrap)
{
    uint64_t entry = wrap->hook.cookie & 255;
    return entry == WIRE_AGENT_ENTRY_OBJECT || entry == WIRE_AGENT_ENTRY_HEADERS;
}

/* Is nothing there that somebody made of our jump? What was mapped since over what we had hooked shows its file, or is none's. Who changes
 * text may map it without the right to execute for that moment: it is told by its file, which has the function's `old` bytes there. Data of
 * another file differs from it by right. */
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

/* A slot, the change that takes its jump away, and what is there now. */
struct hooked {
    const struct loader_x86_64_wrap *wrap;
    struct trace_memory_change change;
    uint8_t live[LOADER_X86_64_WRAP_JUMP];
};

static int add_change(struct leaving *leaving, const struct hooked *hooked)
{
    struct changes *list =
        unwinds(hooked->wrap) || publishes_to_unwinders(hooked->wrap) ? &leaving->last : &leaving->first;
    if (!base_array_room(list->items, list->count, list->capacity))
        return no_memory(leaving->error);
    list->items[list->count++] = hooked->change;
    return BASE_OK;
}

static int add_suspect(struct leaving *leaving, uint64_t address)
{
    if (!base_array_room(leaving->suspects, leaving->suspect_count, leaving->suspect_capacity))
        return no_memory(leaving->error);
    leaving->suspects[leaving->suspect_count++] = address;
    return BASE_OK;
}

/* What is still ours of the bytes that lead from the function to the slot. */
static int add_altered(struct leaving *leaving, const struct proc_maps *maps, struct hooked *hooked)
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
    return add_change(leaving, hooked);
}

static bool overlaps(const struct changes *changes, uint64_t address)
{
    for (size_t i = 0; i < changes->count; i++)
        if (address < changes->items[i].address + changes->items[i].length &&
            changes->items[i].address < address + LOADER_X86_64_WRAP_JUMP)
            return true;
    return false;
}

/* A slot of a function that has gone, whose place another one has: what lies there is that one's. */
static bool is_known(const struct leaving *leaving, uint64_t address)
{
    return overlaps(&leaving->first, address) || overlaps(&leaving->last, address);
}

static int add_function(struct leaving *leaving, const struct loader_x86_64_wrap *wrap)
{
    if (!base_array_room(leaving->functions, leaving->function_count, leaving->function_capacity))
        return no_memory(leaving->error);
    if (!is_whole(wrap)) /* else nothing of ours is on the stack of who is in it but what is put back */
        leaving->functions[leaving->function_count++] = wrap->hook.function;
    return BASE_OK;
}

/* `altered` false: a function whose jump is as we made it; true: one of the others. */
static int take_slot(struct leaving *leaving, const struct proc_maps *maps,
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
        return add_change(leaving, &hooked);
    return is_known(leaving, wrap->hook.function) ? BASE_OK : add_altered(leaving, maps, &hooked);
}

/* The last ones first: of two in one place the later one is there. */
static int take_slots(struct leaving *leaving, const struct proc_maps *maps,
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
            result = take_slot(leaving, maps, &wrap, slot, altered);
    }
    return result;
}

static int add_mapping(struct leaving *leaving, const struct proc_maps *maps,
                       const struct proc_mapping *mapping)
{
    const struct loader_own_range range = {mapping->start, mapping->end - mapping->start, mapping->executable,
                                           0};
    (void)maps;
    return add_range(leaving, &range);
}

/* And what is told in it. */
static int take_mapping(struct leaving *leaving, const struct proc_maps *maps,
                        const struct proc_mapping *mapping)
{
    uint64_t magic = 0;
    int result = add_mapping(leaving, maps, mapping);
    leaving->left->mappings++;
    if (result < 0 || !mapping->executable ||
        loader_read(&leaving->access, mapping->start, &magic, sizeof magic) < 0)
        return result;
    if (magic == LOADER_HOME)
        return take_home(leaving, maps, mapping->start);
    return magic == LOADER_SLAB ? take_slots(leaving, maps, mapping, false) : BASE_OK;
}

static int take_altered(struct leaving *leaving, const struct proc_maps *maps,
                        const struct proc_mapping *mapping)
{
    uint64_t magic = 0;
    if (!mapping->executable || loader_read(&leaving->access, mapping->start, &magic, sizeof magic) < 0 ||
        magic != LOADER_SLAB)
        return BASE_OK;
    return take_slots(leaving, maps, mapping, true);
}

/* Every mapping of ours, as they are now. */
static int find(struct leaving *leaving,
                int (*take)(struct leaving *, const struct proc_maps *, const struct proc_mapping *))
{
    struct proc_maps maps = {0};
    int result = proc_maps_read(leaving->access.pid, &maps, leaving->error);
    for (size_t i = 0; i < maps.count && result == BASE_OK; i++)
        if (strcmp(maps.items[i].path, LOADER_PATH) == 0)
            result = take(leaving, &maps, &maps.items[i]);
    proc_maps_free(&maps);
    return result;
}

/* One that was looked at before what explains it is no stranger's. */
static void count_suspects(struct leaving *leaving)
{
    for (size_t i = 0; i < leaving->suspect_count; i++)
        leaving->left->skipped += !is_known(leaving, leaving->suspects[i]);
}

static int put_back(struct leaving *leaving, const struct changes *changes)
{
    struct loader_access *access = &leaving->access;
    if (changes->count == 0)
        return BASE_OK;
    int result =
        helper_trace_stage(access->helper, access->trace, changes->items, changes->count, leaving->error);
    if (result == BASE_OK)
        result = helper_trace_apply(access->helper, access->trace, leaving->error);
    if (result == BASE_OK)
        leaving->left->places += changes->count;
    return result;
}

/* A page of text that is as in its file again need not be the process's own. */
static void give_page_back(struct leaving *leaving, const struct proc_maps *maps, uint64_t page)
{
    uint8_t live[LOADER_PAGE], file[LOADER_PAGE];
    for (size_t i = 0; i < maps->count; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        if (page < mapping->start || page >= mapping->end || mapping->writable)
            continue;
        int descriptor = proc_maps_open(leaving->access.pid, mapping, NULL);
        off_t at = (off_t)(mapping->offset + (page - mapping->start));
        if (descriptor >= 0 && pread(descriptor, file, sizeof file, at) == (ssize_t)sizeof file &&
            loader_read(&leaving->access, page, live, sizeof live) == BASE_OK &&
            memcmp(live, file, sizeof live) == 0)
            helper_trace_give_back(leaving->access.helper, leaving->access.trace, page, sizeof live, NULL);
        if (descriptor >= 0)
            close(descriptor);
    }
}

static void give_pages_back(struct leaving *leaving, const struct changes *changes)
{
    struct proc_maps maps = {0};
    uint64_t last = 0;
    int result = proc_maps_read(leaving->access.pid, &maps, NULL);
    for (size_t i = 0; i < changes->count && result == BASE_OK;
         i++) { /* neighbours, mostly, come one after the other */
        const struct trace_memory_change *change = &changes->items[i];
        uint64_t first = change->address & ~(uint64_t)(LOADER_PAGE - 1);
        for (uint64_t page = first; page < change->address + change->length; page += LOADER_PAGE)
            if (page != last) {
                give_page_back(leaving, &maps, page);
                last = page;
            }
    }
    proc_maps_free(&maps);
}

static bool is_ours(const struct leaving *leaving, uint64_t address)
{
    for (size_t i = 0; i < leaving->ours.count; i++)
        if (leaving->ours.items[i].code &&
            address - leaving->ours.items[i].address < leaving->ours.items[i].size)
            return true;
    return false;
}

/* --- 3. timers --- */

static int call(struct leaving *leaving, struct helper_trace_call *calls, size_t count)
{
    struct loader_access *access = &leaving->access;
    return helper_trace_call(access->helper, access->trace, access->pid, calls, count, leaving->error);
}

/* All else stays: a thread that has a place may be about to note the number of its timer there. */
static int delete_timers(struct leaving *leaving)
{
    size_t size = WIRE_AGENT_TIMERS * sizeof(struct wire_agent_timer), count = 0;
    struct wire_agent_timer *timers = calloc(1, size);
    struct helper_trace_call *calls = calloc(WIRE_AGENT_TIMERS, sizeof *calls);
    int result = timers == NULL || calls == NULL ? no_memory(leaving->error) : BASE_OK;
    if (result == BASE_OK && proc_target_read(leaving->access.pid, leaving->timers, timers, size) != size)
        result = base_fail(leaving->error, BASE_EIO, "the agent's timers cannot be read");
    for (size_t i = 0; i < WIRE_AGENT_TIMERS && result == BASE_OK; i++) {
        if (timers[i].state == WIRE_AGENT_TIMER_NONE)
            continue;
        calls[count++] = (struct helper_trace_call){SYS_timer_delete, {timers[i].id}, 0, "timer_delete"};
        timers[i].state = WIRE_AGENT_TIMER_NONE;
    }
    if (result == BASE_OK && count)
        result = call(leaving, calls, count);
    if (result == BASE_OK && count) /* their numbers may be somebody else's from now on */
        result = helper_trace_write(leaving->access.helper, leaving->access.trace, leaving->timers, timers,
                                    size, leaving->error);
    free(timers);
    free(calls);
    return result;
}

/* What the program had set before. Two threads that reset it at once may have taken our handler for that. */
static uint64_t action_before(struct leaving *leaving, uint32_t signal)
{
    uint64_t before = leaving->users.process + offsetof(struct wire_agent_process, before), handler;
    bool own = leaving->users.process && signal == leaving->own_signal &&
               loader_read(&leaving->access, before, &handler, sizeof handler) == BASE_OK &&
               !is_ours(leaving, handler);
    return own ? before : leaving->region + offsetof(struct wire_agent_control, none);
}

/* Only if the handler is ours: a fork's child has it too. What waits for it in a thread that blocks the
 * signal is dropped by that, since the default is to ignore it. */
static int restore_signal(struct leaving *leaving, uint32_t signal)
{
    const uint64_t size = sizeof(uint64_t); /* of the kernel's signal sets */
    uint64_t found = leaving->region + offsetof(struct wire_agent_control, found), handler = 0;
    uint64_t before = action_before(leaving, signal);
    struct helper_trace_call ask = {SYS_rt_sigaction, {signal, 0, found, size}, 0, "rt_sigaction"};
    struct helper_trace_call set = {SYS_rt_sigaction, {signal, before, 0, size}, 0, "rt_sigaction"};
    int result = call(leaving, &ask, 1);
    if (result < 0)
        return result;
    if (loader_read(&leaving->access, found, &handler, sizeof handler) < 0)
        return BASE_EIO;
    return is_ours(leaving, handler) ? call(leaving, &set, 1) : BASE_OK;
}

/* While a call is made a timer may go off yet, and somebody be sent to the handler. */
static int end_timers(struct leaving *leaving)
{
    if (!leaving->timer_signals[0])
        return BASE_OK;
    int result = leaving->timers ? delete_timers(leaving) : BASE_OK;
    for (size_t i = 0; i < 2 && result == BASE_OK; i++)
        if (leaving->timer_signals[i])
            result = restore_signal(leaving, leaving->timer_signals[i]);
    return result;
}

/* --- 4. wait --- */

/* Hooks have been put back, all or all but those of `unwinders`: nobody comes in by them from now on. */
static int begin_waiting(struct leaving *leaving, bool unwinders)
{
    struct loader_users *users = &leaving->users;
    users->access = &leaving->access;
    users->ranges = leaving->ours.items;
    users->range_count = leaving->ours.count;
    users->functions = leaving->functions;
    users->function_count = leaving->function_count;
    users->returns = &leaving->returns;
    return loader_users_begin(users, unwinders, leaving->error);
}

static int rest(struct leaving *leaving, int attempt)
{
    const struct timespec moment = {.tv_nsec = (long)REST_NS * attempt};
    struct loader_access *access = &leaving->access;
    struct helper *helper = access->helper;
    if (leaving->held)
        helper_trace_release(helper, access->pid, NULL, NULL);
    else
        loader_go(access, false);
    nanosleep(&moment, NULL);
    if (!leaving->held)
        return loader_stop(access, helper, access->pid, false, leaving->error);
    int result = helper_trace_hold(helper, access->pid, NULL, leaving->error);
    access->standing = result == BASE_OK;
    return result;
}

/* As long as a handler is set, its code stays, and what leads to it. Who was in the agent's start of a thread may have
 * made one more timer, and a fork's child have come to its region. */
static int put_unwinders_back(struct leaving *leaving)
{
    struct wire_agent_control control;
    if (read_control(leaving, &control))
        find_process(leaving, &control);
    publish(leaving);
    int ended = end_timers(leaving);
    int result = ended == BASE_OK ? put_back(leaving, &leaving->last) : ended;
    if (result < 0)
        return result;
    give_pages_back(leaving, &leaving->last);
    return begin_waiting(leaving, false);
}

/* 1: somebody is inside still; 0: nobody, and nobody can come in. */
static int wait_for_users(struct leaving *leaving)
{
    bool unwinders = true;
    int used = begin_waiting(leaving, unwinders) < 0 ? BASE_ENOMEM : 1;
    for (int i = 0; i < (leaving->users.awake ? ATTEMPTS_AWAKE : ATTEMPTS) && used > 0; i++) {
        int result = i ? rest(leaving, i) : BASE_OK;
        used = result < 0 ? result : loader_users_look(&leaving->users, leaving->error);
        if (used == 0 && unwinders) {
            result = put_unwinders_back(leaving);
            unwinders = false;
            used = result < 0 ? result : loader_users_look(&leaving->users, leaving->error);
        }
    }
    return used;
}

/* --- 6. unmap --- */

/* While the process ran the agent may have grown its tables, and given back what it needed for a moment: there the
 * program's own may lie now. */
static int find_again(struct leaving *leaving)
{
    struct proc_maps maps = {0};
    size_t kept = 0;
    int result = find(leaving, add_mapping);
    if (result == BASE_OK)
        result = proc_maps_read(leaving->access.pid, &maps, leaving->error);
    for (size_t i = 0; i < leaving->ours.count && result == BASE_OK; i++) {
        const struct loader_own_range *range = &leaving->ours.items[i];
        if (is_mapped(&maps, range, !range->data))
            leaving->ours.items[kept++] = *range;
    }
    leaving->ours.count = result == BASE_OK ? kept : leaving->ours.count;
    proc_maps_free(&maps);
    return result;
}

static int unmap(struct leaving *leaving, bool used)
{
    struct loader_access *access = &leaving->access;
    int found = find_again(leaving);
    if (found < 0)
        return found;
    struct loader_range *ranges = calloc(leaving->ours.count + 1, sizeof *ranges);
    if (ranges == NULL)
        return no_memory(leaving->error);
    for (size_t i = 0; i < leaving->ours.count; i++) {
        const struct loader_own_range *range = &leaving->ours.items[i];
        ranges[i] = (struct loader_range){range->address, range->size, range->code, false};
        leaving->left->bytes_left += used ? range->size : 0;
    }
    int result = used ? BASE_OK
                      : loader_unmap(access->helper, access->trace, access->pid, ranges, leaving->ours.count,
                                     &leaving->left->bytes_left, leaving->error);
    if (leaving->left->skipped)
        loader_kept_note(access->helper, access->trace, access->pid, ranges, leaving->ours.count, NULL);
    free(ranges);
    return result;
}

/* Steps 1 to 3. */
static int close_entries(struct leaving *leaving)
{
    int result = find(leaving, take_mapping);
    if (result == BASE_OK) /* all that are as we made them are known now */
        result = find(leaving, take_altered);
    count_suspects(leaving);
    if (result == BASE_OK)
        result = find_counts(leaving);
    if (result == BASE_OK)
        result = put_back(leaving, &leaving->first);
    if (result < 0)
        return result;
    give_pages_back(leaving, &leaving->first);
    publish(leaving);
    end_timers(leaving); /* once more when nobody can make one; an error is one then */
    base_error_clear(leaving->error);
    return BASE_OK;
}

static int leave_standing(struct leaving *leaving)
{
    int result = close_entries(leaving);
    if (result < 0)
        return result;
    int used = wait_for_users(leaving);
    /* What a stranger may have made of our jump leads to our code, too. */
    result = unmap(leaving, used != 0 || leaving->left->skipped);
    return used < 0 ? used : result;
}

static int leave(struct leaving *leaving, struct helper *helper, pid_t pid)
{
    *leaving->left = (struct loader_left){0};
    int result = loader_stop(&leaving->access, helper, pid, leaving->held, leaving->error);
    if (result == BASE_OK)
        result = leave_standing(leaving);
    loader_go(&leaving->access, leaving->held);
    free(leaving->ours.items);
    free(leaving->first.items);
    free(leaving->last.items);
    free(leaving->functions);
    free(leaving->suspects);
    loader_returns_free(&leaving->returns);
    loader_users_free(&leaving->users);
    return result;
}

int loader_leave(struct helper *helper, pid_t pid, bool held, struct loader_left *left,
                 struct base_error *error)
{
    struct leaving leaving = {.held = held, .left = left, .error = error};
    return leave(&leaving, helper, pid);
}

int loader_remove_remains(struct helper *helper, pid_t pid, bool held, struct base_error *error)
{
    struct loader_left left;
    struct leaving leaving = {.held = held, .remains = true, .left = &left, .error = error};
    int result = leave(&leaving, helper, pid);
    if (result == BASE_OK && left.bytes_left)
        return base_fail(
            error, BASE_EBUSY,
            "an agent that a killed tally left in process %d cannot be removed yet: try again later", pid);
    return result;
}
