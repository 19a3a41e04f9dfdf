#include "waits.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arch.h"
#include "base_array.h"
#include "base_clock.h"
#include "base_map.h"
#include "proc_target.h"
#include "waits_frame.h"
#include "wire_loss.h"

enum {
    LOOK_LEAST_NS = 5000000, /* from the end of one look to the next, drawn at random: */
    LOOK_SPREAD_NS = 10000000,
    LOOK_SHARE = 20, /* at least so many times what the look took */
    REREAD_NS = 100000000,
    STACK_PAGES = 15, /* more is read word by word */
    PAGE = 4096,
    REGISTERS_MOST = 64, /* of a perf sample */
    NS_OF_MS = 1000000,
};

/* A line of schedstat. */
struct account {
    uint64_t run_ns, queued_ns, turns;
};

struct waiter {
    pid_t tid, pid;
    uint64_t since_ns;             /* the account begins */
    struct account first, last;    /* at the first look and the last */
    uint64_t waited_ns, queued_ns; /* since the first, what was published */
    uint64_t looked_ns;
    uint64_t turns; /* it was let run so often when it was found at `node` */
    uint32_t node;
    bool found;   /* `node` says where it waited last */
    bool placed;  /* and it waits there, as far as is known */
    bool cut;     /* its stack leads to where nothing was mapped: to be walked again */
    bool refused; /* there is no stack */
    uint32_t round;
};

/* From creation to end, as far as it was reported since the last look; 0: not reported. */
struct lifetime {
    pid_t tid;
    bool old; /* of before the last look, which did not find it */
    uint64_t from_ns, to_ns;
};

struct waits {
    struct waits_options options;
    struct lifetime *lifetimes;
    size_t lifetime_count, lifetime_capacity;
    struct waiter *waiters;
    size_t count, capacity;
    struct base_map by_tid; /* -> index; those that are gone are at ours no more */
    uint32_t round;
    uint64_t begun_ns, last_ns, due_ns, longest_ns, random;
    uint64_t samples, unseen_ns, refused_ns;
    bool busy;      /* since the last look Tally has held programs */
    uint64_t folds; /* of the profile, when its nodes were looked up: folding makes them stale */
    uint32_t node_unknown, node_queued;
    uint8_t stack[STACK_PAGES * PAGE];
};

/* --- what /proc says --- */

static bool read_account(pid_t pid, pid_t tid, struct account *account)
{
    char text[128];
    unsigned long long run, queued, turns;
    if (proc_target_text(pid, tid, "schedstat", text, sizeof text) <= 0 ||
        sscanf(text, "%llu %llu %llu", &run, &queued, &turns) != 3)
        return false;
    *account = (struct account){run, queued, turns};
    return true;
}

/* --- where a thread waits --- */

static size_t read_stack(struct waits *waits, pid_t pid, uint64_t sp)
{
    struct iovec local = {waits->stack, sizeof waits->stack}, remote[STACK_PAGES];
    size_t parts = 0;
    for (uint64_t at = sp, left = sizeof waits->stack; left && parts < STACK_PAGES; parts++) {
        uint64_t size = PAGE - at % PAGE;
        size = size < left ? size : left;
        remote[parts] = (struct iovec){(void *)(uintptr_t)at, size};
        at += size;
        left -= size;
    }
    ssize_t got = process_vm_readv(pid, &local, 1, remote, parts, 0);
    return got > 0 ? (size_t)got : proc_target_read(pid, sp, waits->stack, sizeof waits->stack);
}

/* As a perf sample has them. */
static void set_registers(uint64_t *values, const struct waits_stack *stack, uint64_t pointer)
{
    const struct arch *arch = arch_host();
    for (unsigned i = 0; i < arch->perf_count; i++)
        values[i] = arch->perf_to_dwarf[i] == arch->pc   ? stack->pc
                    : arch->perf_to_dwarf[i] == arch->sp ? stack->sp
                    : arch->perf_to_dwarf[i] == arch->fp ? pointer
                                                         : 0;
}

static uint32_t walk_stack(struct waits *waits, struct sample_process *process,
                           const struct waits_stack *stack)
{
    const struct arch *arch = arch_host();
    struct sample_stacks *sampler = waits->options.sampler;
    uint64_t registers[REGISTERS_MOST], pointer = 0;
    bool known = waits_frame_pointer(sampler, process, stack, &pointer);
    uint64_t has = UINT64_C(1) << arch->pc | UINT64_C(1) << arch->sp | (known ? UINT64_C(1) << arch->fp : 0);
    set_registers(registers, stack, pointer);
    struct perf_sample sample = {.ip = stack->pc,
                                 .time = base_clock_now(),
                                 .registers = registers,
                                 .unknown = ~has,
                                 .stack = stack->bytes,
                                 .stack_size = stack->size,
                                 .stack_asked = sizeof waits->stack};
    if (waits->options.stacks == PERF_STACKS_ADDRESS)
        sample = (struct perf_sample){.ip = stack->pc};
    bool copy_short;
    return sample_stacks_node(sampler, process, &sample, &copy_short);
}

/* A walk that ends, or has gone on by frame pointer, where nothing is known to be mapped. */
static bool was_unmapped(const struct sample_stacks *sampler, uint32_t node, uint64_t unmapped_before)
{
    const struct profile *profile = sampler->profile;
    if (profile->losses[WIRE_LOSS_NO_MAPPING] != unmapped_before)
        return true;
    while (node && profile->nodes[node].address != sampler->special_unknown)
        node = profile->nodes[node].parent;
    return node;
}

/* Where stacks lead to an object that was loaded unnoticed, the mappings are read again, now and then. */
static uint32_t find_node(struct waits *waits, struct sample_process *process,
                          const struct waits_stack *stack, bool *cut)
{
    struct sample_stacks *sampler = waits->options.sampler;
    uint64_t before = sampler->profile->losses[WIRE_LOSS_NO_MAPPING], now = base_clock_now();
    if (waits->options.stacks == PERF_STACKS_NONE)
        return 0;
    uint32_t node = walk_stack(waits, process, stack);
    bool unmapped = was_unmapped(sampler, node, before), soon = now - process->reread_ns < REREAD_NS;
    *cut = unmapped && soon && !process->reread_in_vain;
    if (!unmapped || soon)
        return node;
    process->reread_ns = now;
    sample_processes_reread_one(sampler->processes, process);
    sampler->profile->losses[WIRE_LOSS_NO_MAPPING] = before;
    node = walk_stack(waits, process, stack);
    process->reread_in_vain = was_unmapped(sampler, node, before);
    return node;
}

/* A thread that was let run `turns` times. If it waits, and did all the while, `waiter` says where. */
static void place_waiter(struct waits *waits, struct sample_process *process, struct waiter *waiter,
                         uint64_t turns)
{
    struct account after;
    struct proc_target_call call;
    struct waits_stack stack = {.bytes = waits->stack};
    int result = proc_target_call(waiter->pid, waiter->tid, &call);
    waiter->placed = waiter->cut = false;
    waiter->refused = result == BASE_EPERMISSION;
    if (waiter->refused) {
        waiter->node = waits->node_unknown;
    } else {
        if (result < 0)
            return;
        stack.pc = call.pc;
        stack.sp = call.sp;
        stack.size = read_stack(waits, waiter->pid, stack.sp);
    }
    if (!read_account(waiter->pid, waiter->tid, &after) || after.turns != turns)
        return;
    if (!waiter->refused)
        waiter->node = find_node(waits, process, &stack, &waiter->cut);
    waiter->placed = true;
    waiter->turns = turns;
}

/* --- how long --- */

static void publish_wait(struct waits *waits, struct sample_process *process, pid_t tid, uint32_t node,
                         uint64_t ns, unsigned samples)
{
    struct sample_stacks *sampler = waits->options.sampler;
    uint32_t thread = sample_processes_thread(sampler->processes, process, tid);
    profile_count(sampler->profile,
                  (struct profile_key){node, thread, PROFILE_NO_CPU, waits->options.counter}, (int64_t)ns,
                  samples);
    waits->samples += samples;
}

static void publish_queued(struct waits *waits, struct sample_process *process, struct waiter *waiter)
{
    uint64_t queued = waiter->last.queued_ns - waiter->first.queued_ns;
    if (queued <= waiter->queued_ns)
        return;
    publish_wait(waits, process, waiter->tid, waits->node_queued, queued - waiter->queued_ns, 1);
    waiter->queued_ns = queued;
}

/* Time waited and not yet published. For a thread that was woken and is still queued the kernel has not
 * added the queue time: the next publication corrects it. */
static uint64_t take_waited(struct waiter *waiter)
{
    const struct account *first = &waiter->first, *last = &waiter->last;
    uint64_t passed = waiter->looked_ns - waiter->since_ns;
    uint64_t elsewhere = last->run_ns - first->run_ns + last->queued_ns - first->queued_ns;
    uint64_t waited = passed > elsewhere ? passed - elsewhere : 0, published = waiter->waited_ns;
    if (waited <= published)
        return 0;
    waiter->waited_ns = waited;
    return waited - published;
}

/* `before`: where it waited before it ran, if that was found; half of what is between two looks is of
 * there. */
static void publish_waited(struct waits *waits, struct sample_process *process, struct waiter *waiter,
                           const uint32_t *before)
{
    uint64_t waited = take_waited(waiter), half = before ? waited / 2 : 0;
    if (!waited)
        return;
    if (half)
        publish_wait(waits, process, waiter->tid, *before, half, 0);
    publish_wait(waits, process, waiter->tid, waiter->node, waited - half, 1);
    if (waiter->refused)
        waits->refused_ns += waited;
}

/* --- nodes --- */

static uint32_t special_node(struct profile *profile, const char *name)
{
    uint32_t image = profile_image(profile, PROFILE_IMAGE_SPECIAL, name, "", 0), flags = 0;
    uint32_t address = profile_address(profile, image, 0);
    return address ? profile_stack(profile, &address, &flags, 1) : 0;
}

/* What is known of places, but for that of `placed`, is of before the last folding. */
static void forget_places(struct waits *waits, const struct waiter *placed)
{
    struct profile *profile = waits->options.sampler->profile;
    do {
        waits->folds = profile_folds(profile);
        waits->node_unknown = special_node(profile, "(unknown)");
        waits->node_queued = special_node(profile, "(waiting for a CPU)");
    } while (waits->folds != profile_folds(profile));
    for (size_t i = 0; i < waits->count; i++)
        if (&waits->waiters[i] != placed)
            waits->waiters[i].placed = waits->waiters[i].found = false;
}

static bool are_stale(const struct waits *waits)
{
    return waits->folds != profile_folds(waits->options.sampler->profile);
}

/* --- threads --- */

static bool is_known_waiter(const struct waits *waits, pid_t tid)
{
    uint32_t at = base_map_find(&waits->by_tid, (uint64_t)tid);
    return at < waits->count && waits->waiters[at].tid == tid;
}

static struct lifetime *lifetime_of(const struct waits *waits, pid_t tid)
{
    for (size_t i = waits->lifetime_count; i-- > 0;)
        if (waits->lifetimes[i].tid == tid)
            return &waits->lifetimes[i];
    return NULL;
}

static struct waiter *begin_waiter(struct waits *waits, pid_t pid, pid_t tid, const struct account *account,
                                   uint64_t now)
{
    uint32_t at = base_map_find(&waits->by_tid, (uint64_t)tid);
    bool known = is_known_waiter(waits, tid);
    if (!known) {
        at = (uint32_t)waits->count;
        if (!base_array_room(waits->waiters, waits->count, waits->capacity) ||
            !base_map_set(&waits->by_tid, (uint64_t)tid, at))
            return NULL;
        waits->count++;
        const struct lifetime *lifetime = lifetime_of(waits, tid);
        uint64_t accounted = account->run_ns + account->queued_ns;
        uint64_t from = lifetime && lifetime->from_ns > waits->last_ns ? lifetime->from_ns : waits->last_ns;
        if (from && now > from + accounted)
            waits->unseen_ns += now - from - accounted;
    }
    struct waiter *waiter = &waits->waiters[at];
    bool another = account->turns < waiter->first.turns || account->run_ns < waiter->first.run_ns ||
                   account->queued_ns < waiter->first.queued_ns; /* which has the number now */
    if (!known || waiter->pid != pid || another)
        *waiter = (struct waiter){.tid = tid, .pid = pid, .since_ns = now, .first = *account};
    return waiter;
}

static void look_at_thread(struct waits *waits, struct sample_process *process, pid_t tid)
{
    struct account account;
    if (!read_account(process->pid, tid, &account))
        return;
    if (are_stale(waits))
        forget_places(waits, NULL);
    uint64_t now = base_clock_now();
    struct waiter *waiter = begin_waiter(waits, process->pid, tid, &account, now);
    if (!waiter) {
        profile_lose(waits->options.sampler->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    waiter->round = waits->round;
    waiter->looked_ns = now;
    waiter->last = account;
    publish_queued(waits, process, waiter);
    bool ran = !waiter->placed || waiter->turns != account.turns, found = waiter->found;
    uint32_t before = waiter->node;
    if (ran && waits->busy)
        waits->unseen_ns += take_waited(waiter);
    if (ran || waiter->cut)
        place_waiter(waits, process, waiter, account.turns);
    if (are_stale(waits)) { /* by that */
        forget_places(waits, waiter);
        found = false;
    }
    if (!waiter->placed)
        return;
    waiter->found = !waiter->cut; /* else it is published when the mappings have been read */
    if (waiter->found)
        publish_waited(waits, process, waiter, ran && found ? &before : NULL);
}

static void look_at_process(struct waits *waits, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    const struct dirent *entry;
    while (threads && (entry = readdir(threads))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct sample_processes *processes = waits->options.sampler->processes;
        struct sample_process *process =
            tid > 0 ? sample_processes_get(processes, pid, base_clock_now()) : NULL;
        if (process)
            look_at_thread(waits, process, tid);
    }
    if (threads)
        closedir(threads);
}

/* --- threads that are created, and end --- */

static void add_lifetime(struct waits *waits, struct lifetime lifetime)
{
    if (base_array_room(waits->lifetimes, waits->lifetime_count, waits->lifetime_capacity))
        waits->lifetimes[waits->lifetime_count++] = lifetime;
    else
        profile_lose(waits->options.sampler->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

void waits_created(struct waits *waits, pid_t tid, uint64_t time)
{
    add_lifetime(waits, (struct lifetime){.tid = tid, .from_ns = time});
}

void waits_ended(struct waits *waits, pid_t tid, uint64_t time)
{
    struct lifetime *lifetime = lifetime_of(waits, tid);
    if (lifetime && !lifetime->to_ns)
        lifetime->to_ns = time;
    else if (is_known_waiter(waits, tid))
        add_lifetime(waits, (struct lifetime){.tid = tid, .to_ns = time});
}

/* Those that this round has not met have ended. */
static void end_the_gone(struct waits *waits, uint64_t now)
{
    for (size_t i = waits->count; i-- > 0;) {
        struct waiter *waiter = &waits->waiters[i];
        if (waiter->round == waits->round)
            continue;
        struct lifetime *lifetime = lifetime_of(waits, waiter->tid);
        /* not of another that had the number since */
        bool own = lifetime && lifetime->from_ns <= waiter->since_ns;
        uint64_t end = own && lifetime->to_ns ? lifetime->to_ns : now;
        waits->unseen_ns += take_waited(waiter) + (end > waiter->looked_ns ? end - waiter->looked_ns : 0);
        if (own)
            lifetime->from_ns = 0; /* it is accounted for */
        *waiter = waits->waiters[--waits->count];
        if (i < waits->count)
            base_map_set(&waits->by_tid, (uint64_t)waiter->tid, (uint32_t)i);
    }
}

static uint64_t length_of(const struct waits *waits, const struct lifetime *lifetime)
{
    uint64_t end = lifetime->to_ns ? lifetime->to_ns : waits->last_ns;
    return end > lifetime->from_ns ? end - lifetime->from_ns : 0;
}

/* A thread that was created and ended between two looks may have waited all that time. Of one that was not
 * found, and whose end is not reported until the next look, it is the time until this one. What was
 * reported later than `now` is for the next look. */
static void end_the_short(struct waits *waits, uint64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < waits->lifetime_count; i++) {
        struct lifetime *lifetime = &waits->lifetimes[i];
        if (!lifetime->from_ns || (!lifetime->to_ns && is_known_waiter(waits, lifetime->tid)))
            continue;
        if (lifetime->to_ns > now || (!lifetime->to_ns && !lifetime->old)) {
            lifetime->old = lifetime->from_ns <= now;
            waits->lifetimes[kept++] = *lifetime;
            continue;
        }
        waits->unseen_ns += length_of(waits, lifetime);
    }
    waits->lifetime_count = kept;
}

/* --- from outside --- */

int waits_new(const struct waits_options *options, struct waits **made, struct base_error *error)
{
    struct account own;
    if (!read_account(getpid(), getpid(), &own) || !own.turns)
        return base_fail(error, BASE_EUNSUPPORTED,
                         "--time=real needs a kernel that keeps account of who waits (CONFIG_SCHED_INFO)");
    struct waits *waits = calloc(1, sizeof *waits);
    if (!waits)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    waits->options = *options;
    forget_places(waits, NULL);
    if (getrandom(&waits->random, sizeof waits->random, GRND_NONBLOCK) != sizeof waits->random)
        waits->random = base_hash((uint64_t)getpid());
    *made = waits;
    return BASE_OK;
}

void waits_free(struct waits *waits)
{
    if (!waits)
        return;
    base_map_free(&waits->by_tid);
    free(waits->waiters);
    free(waits->lifetimes);
    free(waits);
}

void waits_begin(struct waits *waits, uint64_t now)
{
    waits->last_ns = now;
}

uint64_t waits_due(const struct waits *waits)
{
    return waits->due_ns;
}

/* The next look, behind one that took from `begun` to `ended`. */
static void schedule_look(struct waits *waits, uint64_t begun, uint64_t ended)
{
    waits->random = base_hash(waits->random + 1);
    uint64_t drawn = LOOK_LEAST_NS + waits->random % LOOK_SPREAD_NS, rest = (ended - begun) * LOOK_SHARE;
    waits->due_ns = ended + (drawn > rest ? drawn : rest);
    if (!waits->begun_ns)
        waits->begun_ns = begun;
    else if (begun - waits->last_ns > waits->longest_ns)
        waits->longest_ns = begun - waits->last_ns;
    waits->last_ns = begun;
}

void waits_look(struct waits *waits)
{
    pid_t *pids = NULL;
    uint64_t begun = base_clock_now();
    size_t count = sample_processes_living(waits->options.sampler->processes, &pids);
    waits->round++;
    for (size_t i = 0; i < count; i++)
        look_at_process(waits, pids[i]);
    free(pids);
    waits->busy = false;
    end_the_gone(waits, begun);
    end_the_short(waits, begun);
    schedule_look(waits, begun, base_clock_now());
}

void waits_busy(struct waits *waits)
{
    waits->busy = true;
}

void waits_finish(struct waits *waits)
{
    struct profile *profile = waits->options.sampler->profile;
    uint64_t looks = waits->round > 1 ? waits->round - 1 : 1;
    for (size_t i = 0; i < waits->count; i++)
        waits->unseen_ns += take_waited(&waits->waiters[i]);
    for (size_t i = 0; i < waits->lifetime_count; i++) /* since the last look */
        if (waits->lifetimes[i].from_ns &&
            (waits->lifetimes[i].to_ns || !is_known_waiter(waits, waits->lifetimes[i].tid)))
            waits->unseen_ns += length_of(waits, &waits->lifetimes[i]);
    if (waits->unseen_ns / NS_OF_MS)
        profile_lose(profile, WIRE_LOSS_WAIT_UNSEEN, waits->unseen_ns / NS_OF_MS);
    if (waits->refused_ns / NS_OF_MS)
        profile_lose(profile, WIRE_LOSS_WAIT_REFUSED, waits->refused_ns / NS_OF_MS);
    profile_set_metaf(profile, "waits_apart_ns", "%llu",
                      (unsigned long long)((waits->last_ns - waits->begun_ns) / looks));
    profile_set_metaf(profile, "waits_apart_most_ns", "%llu", (unsigned long long)waits->longest_ns);
}

uint64_t waits_samples(const struct waits *waits)
{
    return waits->samples;
}
