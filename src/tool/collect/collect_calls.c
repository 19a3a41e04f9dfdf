#include "collect_calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_array.h"
#include "base_text.h"
#include "collect_absent.h"
#include "collect_calls_bell.h"
#include "collect_calls_build.h"
#include "collect_calls_clean.h"
#include "collect_calls_detach.h"
#include "collect_calls_export.h"
#include "collect_calls_guess.h"
#include "collect_calls_leave.h"
#include "collect_calls_loose.h"
#include "collect_calls_threads.h"
#include "collect_calls_totals.h"
#include "collect_calls_unheard.h"
#include "collect_calls_uprobe.h"
#include "collect_left.h"
#include "collect_privileges.h"
#include "collect_record.h"
#include "collect_remains.h"
#include "collect_translator.h"
#include "patch_commit.h"
#include "patch_gs.h"
#include "patch_slab_frame.h"
#include "patch_target.h"
#include "wire_loss.h"

enum {
    SETTLE_NS = 30000000, /* ends are told when other events of that time have been worked on */
    REBINDS = 2,
    OFTEN_THREADS = 64, /* with more of them running totals are told at the end only */
};

#define GUESS_NS        150000000u
#define REBIND_FIRST_NS 400000000u
#define REBIND_AGAIN_NS 5000000000u

struct member {
    pid_t pid;
    struct collect_calls_space *space;
};

/* A space where nobody lives any more, and which is still to be told. */
struct ended {
    struct collect_calls_space *space;
    pid_t pid;
    uint64_t at_ns;
};

struct collect_calls {
    struct collect_calls_rig rig;
    struct collect_calls_options options;
    struct collect_processes *processes;
    struct collect_listen *listener;
    struct collect_calls_guest guest; /* all 0: there is none */
    struct member *members;
    size_t member_count, member_capacity;
    struct ended *ended;
    size_t ended_count, ended_capacity;
    uint64_t memory_most;     /* bytes of ours that were in use in one target */
    struct collect_left left; /* processes in which something of ours stayed */
    uint64_t leaving_ns;      /* since when processes that cannot be had are waited for; 0: none was */
    uint64_t places_left;     /* in their code that somebody else had changed: they stayed as they were */
    uint64_t stub_samples;
    uint64_t setup_ns;     /* of planning, placing and patching, all processes together */
    uint64_t attach_ns;    /* for which processes that ran were stopped by it */
    bool locked, threaded; /* forms that were used */
    char notice[256];
};

static void note(struct collect_calls *calls, const char *what, const struct base_error *why)
{
    if (!calls->notice[0])
        snprintf(calls->notice, sizeof calls->notice, "%.64s: %.180s", what, why->text);
    profile_set_meta(calls->rig.profile, "calls_notice", calls->notice);
}

/* --- making and freeing --- */

/* A report must know that calls of other functions were not all counted. */
static void tell_names(struct profile *profile, const struct collect_calls_wish *wish)
{
    struct base_text names = {0};
    for (size_t i = 0; i < wish->name_count; i++)
        base_text_addf(&names, "%s%s", i ? "," : "", wish->names[i]);
    if (names.length && !names.failed)
        profile_set_meta(profile, "calls_names", base_text_string(&names));
    base_text_free(&names);
}

int collect_calls_new(const struct collect_calls_options *options, struct collect_processes *processes,
                      struct collect_calls **made, struct base_error *error)
{
    struct collect_calls *calls = calloc(1, sizeof *calls);
    if (!calls)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    calls->options = *options;
    calls->processes = processes;
    calls->rig.profile = processes->profile;
    calls->rig.committed = patch_commit_is_strict();
    calls->rig.helper.socket = -1;
    int result = patch_helper_begin(&calls->rig.helper, error);
    if (result == BASE_OK)
        result = patch_trace_tell_endings(&calls->rig.helper, error);
    if (result == BASE_OK)
        result = collect_calls_images_init(&calls->rig.images, processes->images, &options->wish, error);
    if (result == BASE_OK)
        result = collect_listen_new(processes->start_ns, &calls->listener, error);
    if (result == BASE_OK)
        collect_listen_helper(calls->listener, calls->rig.helper.pid);
    if (result == BASE_OK && !profile_calls_counter(processes->profile))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        collect_calls_free(calls);
        return result;
    }
    tell_names(processes->profile, &options->wish);
    *made = calls;
    return BASE_OK;
}

static void free_space(struct collect_calls *calls, struct collect_calls_space *space)
{
    collect_calls_bell_forget(space, calls->listener);
    collect_calls_space_free(space);
}

void collect_calls_free(struct collect_calls *calls)
{
    if (!calls)
        return;
    patch_helper_end(&calls->rig.helper);
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].space && --calls->members[i].space->processes == 0)
            free_space(calls, calls->members[i].space);
    for (size_t i = 0; i < calls->ended_count; i++)
        free_space(calls, calls->ended[i].space);
    collect_listen_free(calls->listener);
    collect_calls_images_free(&calls->rig.images);
    free(calls->members);
    free(calls->ended);
    collect_left_free(&calls->left);
    free(calls);
}

pid_t collect_calls_helper(const struct collect_calls *calls)
{
    return calls->rig.helper.pid;
}

struct patch_helper *collect_calls_share(struct collect_calls *calls)
{
    return &calls->rig.helper;
}

void collect_calls_invite(struct collect_calls *calls, const struct collect_calls_guest *guest)
{
    calls->guest = *guest;
    calls->rig.real = guest->real;
    calls->rig.real_context = guest->context;
}

void collect_calls_files(const struct collect_calls *calls, int files[2])
{
    files[0] = calls->rig.helper.socket;
    files[1] = collect_listen_file(calls->listener);
}

const char *collect_calls_notice(const struct collect_calls *calls)
{
    return calls->notice;
}

struct collect_left *collect_calls_left(struct collect_calls *calls)
{
    return &calls->left;
}

/* --- who lives where --- */

static struct member *find_member(struct collect_calls *calls, pid_t pid)
{
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].pid == pid)
            return &calls->members[i];
    return NULL;
}

static struct collect_calls_space *space_of(struct collect_calls *calls, pid_t pid)
{
    const struct member *member = find_member(calls, pid);
    return member ? member->space : NULL;
}

static bool add_member(struct collect_calls *calls, pid_t pid, struct collect_calls_space *space)
{
    if (!base_array_room(calls->members, calls->member_count, calls->member_capacity))
        return false;
    calls->members[calls->member_count++] = (struct member){pid, space};
    return true;
}

static uint64_t used_of(int file)
{
    struct stat status;
    return fstat(file, &status) ? 0 : (uint64_t)status.st_blocks * 512;
}

static void note_memory(struct collect_calls *calls, const struct collect_calls_space *space)
{
    uint64_t used = 0;
    for (size_t i = 0; i < space->arena_count; i++)
        used += used_of(space->arenas[i].code->file);
    for (size_t i = 0; i < space->window_count; i++)
        used += used_of(space->windows[i]->file);
    for (size_t i = 0; i < space->memory_count; i++)
        used += space->memories[i].offset ? 0 : used_of(space->memories[i].file); /* counted with its code */
    if (used > calls->memory_most)
        calls->memory_most = used;
}

static void end_space(struct collect_calls *calls, struct collect_calls_space *space)
{
    note_memory(calls, space);
    collect_calls_bell_forget(space, calls->listener);
    collect_calls_bell_silence(space);
    if (base_array_room(calls->ended, calls->ended_count, calls->ended_capacity)) {
        calls->ended[calls->ended_count++] = (struct ended){space, space->pid, patch_target_now()};
        return;
    }
    profile_lose(calls->rig.profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    collect_calls_space_free(space);
}

static void remove_member(struct collect_calls *calls, pid_t pid)
{
    struct member *member = find_member(calls, pid);
    if (!member)
        return;
    struct collect_calls_space *space = member->space;
    *member = calls->members[--calls->member_count];
    if (!space)
        return;
    if (--space->processes == 0) {
        end_space(calls, space);
        return;
    }
    for (size_t i = 0; i < calls->member_count && space->pid == pid; i++)
        if (calls->members[i].space == space)
            space->pid = calls->members[i].pid;
}

static void tell_remains(struct collect_calls *calls, pid_t pid, const struct collect_calls_remains *remains)
{
    if (remains->memory_bytes)
        collect_left_add(&calls->left, pid, remains->memory_bytes, !remains->changes);
    calls->places_left += remains->changes;
    profile_lose(calls->rig.profile, WIRE_LOSS_TEXT_ALTERED,
                 remains->changes - remains->told + remains->probed);
}

/* What stays is told, and tried again at the end. `patient`: nobody waits for us meanwhile, and who is in the way may go. */
static void leave_space(struct collect_calls *calls, struct collect_calls_space *space, bool patient)
{
    struct collect_calls_remains remains = {0};
    struct base_error why = {0};
    int result;
    do {
        why = (struct base_error){0};
        result = collect_calls_detach(space, &calls->rig, false, &remains, &why);
    } while (patient && result < 0 && collect_remains_again(result, &calls->leaving_ns));
    if (result < 0 && result != BASE_ENOTFOUND) {
        note(calls, "leaving", &why);
        collect_left_add(&calls->left, space->pid, 0, !remains.changes);
    }
    tell_remains(calls, space->pid, &remains);
}

/* The process goes on, uncounted, as it was before us. */
static void give_up(struct collect_calls *calls, pid_t pid, const struct base_error *why)
{
    char what[64];
    struct collect_calls_space *space = space_of(calls, pid);
    snprintf(what, sizeof what, "calls of process %d are not counted", (int)pid);
    note(calls, what, why);
    if (space && space->processes == 1)
        leave_space(calls, space, false);
    else if (space && space->pid == pid) /* a vfork's child runs in it */
        collect_left_add(&calls->left, pid, 0, true);
    profile_lose(calls->rig.profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    if (calls->guest.left)
        calls->guest.left(calls->guest.context, pid);
    patch_trace_leave(&calls->rig.helper, pid, NULL);
    remove_member(calls, pid);
}

/* --- telling --- */

/* Hooks with many callers need room for more. */
static void tend_blocks(struct collect_calls_space *space)
{
    for (size_t i = 0; i < space->arena_count; i++)
        collect_calls_block_tend(&space->arenas[i].block, NULL);
    for (size_t i = 0; i < space->thread_count; i++)
        if (space->threads[i].state == COLLECT_CALLS_USED)
            collect_calls_block_tend(&space->threads[i].block, NULL);
}

/* What ld.so has bound since the stubs were made is gone to at once, past linkage stub and hook: some time
 * after the beginning, when most first calls were made, and once more much later; then with what indirect
 * sites were seen to call. */
static void rebind(struct collect_calls *calls, struct collect_calls_space *space)
{
    uint64_t age = patch_target_now() - space->born_ns;
    if (space->rebinds >= REBINDS || age < (space->rebinds ? REBIND_AGAIN_NS : REBIND_FIRST_NS))
        return;
    bool guessed = space->rebinds++ && collect_calls_guess_mark(space);
    if (collect_calls_build_mark_bound(space) || guessed)
        collect_calls_build_all(space, &calls->rig, false, NULL);
}

/* The first guesses come early: what calls much does so from the beginning. */
static void guess(struct collect_calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct collect_calls_space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid || space->guessed ||
            patch_target_now() - space->born_ns < GUESS_NS)
            continue;
        space->guessed = true;
        if (space->thread_count <= OFTEN_THREADS && collect_calls_guess_mark(space))
            collect_calls_build_all(space, &calls->rig, false, NULL);
    }
}

void collect_calls_tell(struct collect_calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct collect_calls_space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid)
            continue;
        if (space->thread_count <= OFTEN_THREADS) {
            tend_blocks(space);
            collect_calls_build_read_slots(space);
            collect_calls_totals_tell(space, &calls->rig, calls->processes, false);
            rebind(calls, space);
        }
        collect_calls_loose_tend(space, &calls->rig); /* last: what needs a hold has had it */
    }
}

static void settle(struct collect_calls *calls, uint64_t until)
{
    size_t kept = 0;
    for (size_t i = 0; i < calls->ended_count; i++) {
        struct ended ended = calls->ended[i];
        if (ended.at_ns > until) {
            calls->ended[kept++] = ended;
            continue;
        }
        collect_calls_totals_tell(ended.space, &calls->rig, calls->processes, true);
        collect_calls_space_free(ended.space);
    }
    calls->ended_count = kept;
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].space && calls->members[i].space->pid == calls->members[i].pid)
            collect_calls_totals_tell_ended(calls->members[i].space, &calls->rig, calls->processes, until);
}

/* --- what happens --- */

static bool is_in_environment(pid_t pid, const char *text)
{
    char path[64], bytes[1 << 16];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

/* What is run by a translator. And a leak checker looks at its process's threads by ptrace when the program
 * ends, and fails under another tracer. */
static int refuse_program(struct collect_calls *calls, const struct collect_calls_space *space,
                          struct base_error *error)
{
    int result = collect_translator_refuse(space->pid, error);
    if (result < 0)
        return result;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct collect_calls_image *image =
            collect_calls_images_get(&calls->rig.images, space->mappings[i].image);
        if (image && image->checks_leaks && !is_in_environment(space->pid, "detect_leaks=0"))
            return base_fail(error, BASE_EUNSUPPORTED,
                             "its leak sanitizer does not work under a tracer; to count them: "
                             "ASAN_OPTIONS=detect_leaks=0 (LSAN_OPTIONS with -fsanitize=leak)");
    }
    return BASE_OK;
}

/* What the process runs, not its loader or a library; NULL: not known. */
static const struct elf_image *program_of(const struct collect_calls_space *space,
                                          const struct collect_images *images)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)space->pid);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct collect_image *image = &images->items[space->mappings[i].image];
        if (image->elf && !strcmp(image->path, path))
            return image->elf;
    }
    return NULL;
}

/* What traces, or may, is counted itself; what it starts can have no other tracer. */
static int free_traced(struct collect_calls *calls, const struct collect_calls_space *space,
                       struct base_error *error)
{
    const struct elf_image *program = program_of(space, calls->rig.images.images);
    return program && collect_calls_imports_ptrace(program)
               ? patch_trace_free_children(&calls->rig.helper, space->pid, error)
               : BASE_OK;
}

static void tell_freed(struct collect_calls *calls, pid_t parent)
{
    struct base_error why = {0};
    char what[80], name[32] = "";
    patch_target_name(parent, parent, name, sizeof name);
    snprintf(what, sizeof what, "children of process %d%s%.15s%s are not counted", (int)parent,
             name[0] ? " (" : "", name, name[0] ? ")" : "");
    base_fail(&why, BASE_EBUSY, "it may trace them, and each can have one tracer");
    note(calls, what, &why);
    profile_lose(calls->rig.profile, WIRE_LOSS_CALLS_FREED, 1);
}

/* The program itself, not its loader. False: it has none. */
static bool plan_program(const struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    for (size_t i = 0; i < space->mapping_count; i++) {
        struct elf_section interpreter;
        uint32_t index = space->mappings[i].image;
        const struct elf_image *image = rig->images.images->items[index].elf;
        if (image && elf_image_section(image, ".interp", &interpreter)) {
            collect_calls_images_early(&rig->images, index);
            return true;
        }
    }
    return false;
}

/* A new image: old counts are told later, new ones begin. With a loader that rings, nothing of the program
 * runs before it has rung: all is planned then, at once, and only memory is mapped now, since nobody need be
 * stopped for it. */
static int begin_image(struct collect_calls *calls, pid_t pid, struct base_error *error)
{
    struct collect_calls_space *space = collect_calls_space_new(&calls->rig, pid);
    if (!space || !add_member(calls, pid, space)) {
        free(space);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    space->launched = true;
    int result = collect_translator_refuse(pid, error);
    if (result == BASE_OK)
        result = collect_calls_space_look(space, &calls->rig, error);
    bool loads = result == BASE_OK && plan_program(space, &calls->rig);
    if (result == BASE_OK)
        result = free_traced(calls, space, error);
    if (result == BASE_OK)
        result =
            collect_calls_bell_install(space, &calls->rig, calls->listener, COLLECT_CALLS_CODE_AHEAD, error);
    if (result > 0) {
        collect_calls_build_ahead(space, &calls->rig);
        return result;
    }
    if (result == 0 && loads && calls->guest.left) /* nobody will ring */
        calls->guest.left(calls->guest.context, pid);
    if (result == 0)
        result = collect_calls_space_survey(space, &calls->rig, error);
    if (result >= 0)
        result = refuse_program(calls, space, error);
    return result < 0 ? result : collect_calls_build_all(space, &calls->rig, true, error);
}

static void on_exec(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct base_error why = {0};
    uint64_t began = patch_target_now();
    remove_member(calls, event->pid);
    collect_privileges_tell(calls->rig.profile, event);
    if (calls->guest.exec)
        calls->guest.exec(calls->guest.context, event->pid);
    if (begin_image(calls, event->pid, &why) < 0)
        give_up(calls, event->pid, &why);
    else
        patch_trace_release(&calls->rig.helper, event->pid, NULL, NULL);
    calls->setup_ns += patch_target_now() - began;
}

/* Threads keep their gs: counters are locked. */
static int give_nothing(struct collect_calls *calls, const struct collect_calls_space *space,
                        struct base_error *error)
{
    const uint64_t keep = PATCH_TRACE_KEEP;
    calls->locked = true;
    return patch_trace_give(&calls->rig.helper, space->pid, &keep, 1, error);
}

static int begin_fork(struct collect_calls *calls, struct collect_calls_space *parent,
                      const struct patch_trace_event *event, struct base_error *error)
{
    struct collect_calls_space *child;
    int result = collect_calls_space_fork(parent, &calls->rig, event->pid, &child, error);
    if (result < 0)
        return result;
    if (!add_member(calls, event->pid, child)) {
        collect_calls_space_free(child);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    child->first_tid = event->pid;
    result = collect_calls_threads_inherit(child, &calls->rig, error);
    if (result == BASE_OK)
        result = collect_calls_bell_listen(child, calls->listener, error);
    if (result == BASE_OK && child->form == PATCH_LOCK)
        result = give_nothing(calls, child, error);
    return result < 0 || child->form != PATCH_THREAD
               ? result
               : collect_calls_threads_refill(child, &calls->rig, true, error);
}

/* Not followed: the copy becomes what it would have been without us. */
static void clean_fork(struct collect_calls *calls, const struct collect_calls_space *parent, pid_t pid)
{
    struct collect_calls_space child = *parent;
    struct collect_calls_remains remains;
    child.pid = pid;
    child.bell = NULL; /* the parent's words: they are not to be touched */
    int result = collect_calls_detach(&child, &calls->rig, true, &remains, NULL);
    if (result == BASE_EBUSY) /* it did not wait for a silent tally */
        result = collect_calls_detach(&child, &calls->rig, false, &remains, NULL);
    if (result < 0 && result != BASE_ENOTFOUND)
        collect_left_add(&calls->left, pid, 0, !remains.changes);
    tell_remains(calls, pid, &remains);
}

static void on_fork(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct base_error why = {0};
    struct collect_calls_space *parent = space_of(calls, event->parent);
    bool freed = (event->flags & PATCH_TRACE_FLAG_FREED) != 0;
    if (!calls->options.follow || !parent || freed) {
        if (freed)
            tell_freed(calls, event->parent);
        if (parent)
            clean_fork(calls, parent, event->pid);
        patch_trace_leave(&calls->rig.helper, event->pid, NULL);
        return;
    }
    if (begin_fork(calls, parent, event, &why) == BASE_OK) {
        patch_trace_release(&calls->rig.helper, event->pid, NULL, NULL);
        return;
    }
    clean_fork(calls, parent, event->pid);
    give_up(calls, event->pid, &why);
}

static void on_vfork(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct collect_calls_space *space = space_of(calls, event->parent);
    if (event->flags & PATCH_TRACE_FLAG_FREED)
        tell_freed(calls, event->parent);
    else if (space && add_member(calls, event->pid, space))
        space->processes++;
}

static void on_birth(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct collect_calls_space *space = space_of(calls, event->pid);
    if (!space && event->pid != event->parent) {
        on_vfork(calls, event);
        space = space_of(calls, event->pid);
    }
    struct collect_calls_thread *thread = space ? collect_calls_threads_find(space, event->gs) : NULL;
    if (space && !event->gs && space->form != PATCH_LOCK) /* it did not wait for counters of its own */
        profile_lose(calls->rig.profile, WIRE_LOSS_CALLS_SHARED, 1);
    if (!thread)
        return;
    collect_calls_threads_withdraw(space, event->tid);
    collect_calls_threads_set(space, thread, COLLECT_CALLS_USED);
    thread->process = event->pid;
    thread->tid = event->tid;
    struct base_error why = {0};
    if (space->form != PATCH_THREAD) /* born before gs was given back, told after it */
        return;
    int result = collect_calls_threads_refill(space, &calls->rig, false, &why);
    if (result < 0 && result != BASE_ENOTFOUND)
        note(calls, "counters for more threads", &why);
}

/* Code that is counted may not use gs, any other may not set it. */
static bool image_uses_gs(struct collect_calls *calls, uint32_t index)
{
    struct collect_calls_image *image = collect_calls_images_get(&calls->rig.images, index);
    if (!image || image->state == COLLECT_CALLS_PLANNED)
        return image && image->plan.header->gs_users;
    if (!image->gs_looked)
        image->sets_gs = image->elf && patch_gs_is_set(image->elf);
    image->gs_looked = true;
    return image->sets_gs;
}

static bool code_uses_gs(struct collect_calls *calls, const struct collect_calls_space *space)
{
    for (size_t i = 0; i < space->mapping_count; i++)
        if (image_uses_gs(calls, space->mappings[i].image))
            return true;
    return false;
}

/* Beside code that uses gs, a thread that has set it forbids counters by gs. The space is held. */
static bool has_set_gs(struct collect_calls *calls, const struct collect_calls_space *space)
{
    struct patch_stop_thread *threads;
    size_t count;
    bool used = false;
    if (patch_trace_threads(&calls->rig.helper, space->pid, &threads, &count, NULL) < 0)
        return false;
    for (size_t i = 0; i < count && !used; i++) {
        struct user_regs_struct registers;
        used = patch_trace_read_registers(&calls->rig.helper, space->pid, threads[i].tid, &registers, NULL) ==
                   BASE_OK &&
               registers.gs_base;
    }
    free(threads);
    return used;
}

static int go_locked(struct collect_calls *calls, struct collect_calls_space *space, struct base_error *error)
{
    int result = collect_calls_build_change_form(space, &calls->rig, PATCH_LOCK, error);
    return result < 0 ? result : give_nothing(calls, space, error);
}

/* Threads whose birth has not been told yet have blocks too. The space is held. */
static int clear_gs(struct collect_calls *calls, const struct collect_calls_space *space,
                    struct base_error *error)
{
    struct collect_calls_ranges ranges = {0};
    bool room = true;
    for (size_t i = 0; i < space->memory_count && room; i++)
        room =
            collect_calls_ranges_add(&ranges, &(struct patch_range){space->memories[i].address,
                                                                    space->memories[i].size, false, false});
    int result =
        room ? collect_calls_leave_gs(&calls->rig.helper, space->pid, &ranges, space->gs_offset, error)
             : base_fail(error, BASE_ENOMEM, "out of memory");
    free(ranges.items);
    return result;
}

/* An object was loaded that uses gs, while threads count by it: they no longer do, and gs is as it was. Who is in a stub of before
 * counts in the fallback. */
static int give_gs_back(struct collect_calls *calls, struct collect_calls_space *space,
                        struct base_error *error)
{
    int result = patch_trace_hold(&calls->rig.helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = go_locked(calls, space, error);
    if (result == BASE_OK)
        result = clear_gs(calls, space, error);
    patch_trace_release(&calls->rig.helper, space->pid, NULL, NULL);
    return result;
}

/* Nothing, unless threads count by gs and an object that is mapped by now uses it. The space is not held. A process that has ended is no
 * failure: its event is in the queue. */
static int keep_off_gs(struct collect_calls *calls, struct collect_calls_space *space,
                       struct base_error *error)
{
    int result = BASE_OK;
    if (space->form == PATCH_THREAD && code_uses_gs(calls, space))
        result = give_gs_back(calls, space, error);
    return result == BASE_ENOTFOUND ? BASE_OK : result;
}

/* From one thread to several. The space is held. `lock`: its code uses gs. */
static int go_threaded(struct collect_calls *calls, struct collect_calls_space *space, bool lock,
                       pid_t unborn, struct base_error *error)
{
    if (lock || has_set_gs(calls, space))
        return go_locked(calls, space, error);
    int result = collect_calls_threads_assign_all(space, &calls->rig, unborn, error);
    if (result == BASE_OK)
        result = collect_calls_threads_refill(space, &calls->rig, true, error);
    if (result == BASE_OK)
        result = collect_calls_build_change_form(space, &calls->rig, PATCH_THREAD, error);
    calls->threaded |= result == BASE_OK;
    return result;
}

static void on_need(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct base_error why = {0};
    struct collect_calls_space *space = space_of(calls, event->parent);
    pid_t pid = event->parent;
    if (!space) {
        patch_trace_leave(&calls->rig.helper, event->pid, NULL);
        return;
    }
    int result = BASE_OK;
    if (space->form == PATCH_THREAD) { /* nobody else need stand, unless more must be mapped */
        result = collect_calls_threads_refill(space, &calls->rig, false, &why);
    } else {
        bool lock = code_uses_gs(calls, space); /* which may take a while: nobody need stand for it */
        result = patch_trace_hold(&calls->rig.helper, pid, NULL, &why);
        if (result == BASE_OK) {
            result = go_threaded(calls, space, lock, event->tid, &why);
            patch_trace_release(&calls->rig.helper, pid, NULL, NULL);
        }
    }
    /* It may have ended: the births and deaths that are queued behind this event still count. */
    if (result < 0 && result != BASE_ENOTFOUND)
        give_up(calls, pid, &why);
}

static void on_death(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct collect_calls_space *space = space_of(calls, event->pid);
    struct collect_calls_thread *thread = space ? collect_calls_threads_find(space, event->gs) : NULL;
    if (!thread || thread->state != COLLECT_CALLS_USED)
        return;
    collect_calls_threads_set(space, thread, COLLECT_CALLS_ENDED);
    thread->ended_ns = patch_target_now();
}

/* What ld.so has bound since the slots were last read. */
static void on_ending(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct collect_calls_space *space = space_of(calls, event->pid);
    if (space && space->pid == event->pid)
        collect_calls_build_read_slots(space);
    patch_trace_let_end(&calls->rig.helper, event->pid, NULL);
}

static void on_stranger(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct collect_calls_space *space = space_of(calls, event->pid);
    if (space && space->form == PATCH_THREAD)
        collect_calls_threads_assign(space, &calls->rig, event->pid, event->tid, NULL);
    profile_lose(calls->rig.profile, WIRE_LOSS_CALLS_SHARED, 1);
}

/* Where no event of the kernel's tells the table of processes what happened. */
static void tell_processes(struct collect_calls *calls, const struct patch_trace_event *event)
{
    char name[32] = "";
    struct collect_task task = {.pid = (uint32_t)event->pid,
                                .tid = (uint32_t)(event->tid ? event->tid : event->pid),
                                .parent_pid = (uint32_t)event->parent,
                                .parent_tid = (uint32_t)event->parent,
                                .time = patch_target_now()};
    struct collect_comm comm = {(uint32_t)event->pid, (uint32_t)event->pid, true, name};
    switch ((enum patch_trace_kind)event->kind) {
    case PATCH_TRACE_FORK:
    case PATCH_TRACE_VFORK:
    case PATCH_TRACE_BIRTH:
        collect_processes_on_fork(calls->processes, &task);
        break;
    case PATCH_TRACE_EXEC:
        patch_target_name(event->pid, event->pid, name, sizeof name);
        collect_processes_on_comm(calls->processes, &comm, task.time);
        break;
    case PATCH_TRACE_END:
        task.tid = task.pid;
        collect_processes_on_exit(calls->processes, &task);
        break;
    default:
        break;
    }
}

static void stir(struct collect_calls *calls, const struct patch_trace_event *event)
{
    struct collect_calls_space *space = space_of(calls, event->parent ? event->parent : event->pid);
    if (space && event->kind != PATCH_TRACE_DEATH && event->kind != PATCH_TRACE_ENDING &&
        event->kind != PATCH_TRACE_END)
        collect_calls_loose_stir(space);
}

static void on_event(struct collect_calls *calls, const struct patch_trace_event *event)
{
    stir(calls, event);
    if (calls->options.untold)
        tell_processes(calls, event);
    switch ((enum patch_trace_kind)event->kind) {
    case PATCH_TRACE_EXEC:
        on_exec(calls, event);
        break;
    case PATCH_TRACE_FORK:
        on_fork(calls, event);
        break;
    case PATCH_TRACE_VFORK:
        on_vfork(calls, event);
        break;
    case PATCH_TRACE_BIRTH:
        on_birth(calls, event);
        break;
    case PATCH_TRACE_NEED:
        on_need(calls, event);
        break;
    case PATCH_TRACE_DEATH:
        on_death(calls, event);
        break;
    case PATCH_TRACE_STRANGER:
        on_stranger(calls, event);
        break;
    case PATCH_TRACE_ENDING:
        on_ending(calls, event);
        break;
    case PATCH_TRACE_END:
        remove_member(calls, event->pid);
        break;
    }
}

/* --- objects that come and go --- */

/* `missed`: nobody waited for an answer, so what has been loaded since was not counted from its beginning. */
static void answer_bell(struct collect_calls *calls, struct collect_calls_space *space, uint32_t rung,
                        bool missed)
{
    struct base_error why = {0};
    uint64_t began = patch_target_now();
    int result = collect_calls_loose_take(space, &calls->rig, &why);
    if (result < 0 && result != BASE_ENOTFOUND) {
        note(calls, "births are not seen", &why);
        profile_lose(calls->rig.profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    }
    if (collect_calls_bell_reopen(space) && !missed)
        profile_lose(calls->rig.profile, WIRE_LOSS_NOT_PLANNED, 1);
    result = BASE_OK;
    collect_calls_build_read_slots(space); /* of objects that may be about to go */
    if (calls->guest.objects)
        calls->guest.objects(calls->guest.context, space->pid);
    bool settled = collect_calls_bell_settled(space);
    if (settled)
        result = collect_calls_space_survey(space, &calls->rig, &why);
    if (settled && result >= 0 && refuse_program(calls, space, &why) < 0) {
        give_up(calls, space->pid, &why);
        return;
    }
    if (settled && result >= 0 && keep_off_gs(calls, space, &why) < 0) {
        give_up(calls, space->pid, &why);
        return;
    }
    if (result > 0 && missed)
        profile_lose(calls->rig.profile, WIRE_LOSS_NOT_PLANNED, 1);
    if (result > 0)
        result = collect_calls_build_all(space, &calls->rig, false, &why);
    if (result < 0 && result != BASE_ENOTFOUND) {
        note(calls, "objects that were loaded are not counted", &why);
        profile_lose(calls->rig.profile, WIRE_LOSS_NOT_PLANNED, 1);
    }
    collect_calls_bell_answer(space, rung);
    calls->setup_ns += patch_target_now() - began;
}

static void answer_bells(struct collect_calls *calls)
{
    uint64_t ignored;
    uint32_t rung;
    if (read(collect_listen_file(calls->listener), &ignored, sizeof ignored) < 0)
        return;
    for (size_t i = calls->member_count; i-- > 0;) { /* one that is given up is replaced by the last */
        struct collect_calls_space *space = calls->members[i].space;
        if (space && collect_calls_bell_rings(space, &rung))
            answer_bell(calls, space, rung, false);
    }
}

static void look_for_probes(struct collect_calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct collect_calls_space *space = calls->members[i].space;
        if (space && space->pid == calls->members[i].pid)
            collect_calls_uprobe_tend(space, &calls->rig);
    }
}

int collect_calls_step(struct collect_calls *calls, struct base_error *error)
{
    struct patch_trace_event event;
    int result;
    while ((result = patch_trace_next(&calls->rig.helper, &event, error)) > 0) {
        on_event(calls, &event);
        answer_bells(calls);
    }
    answer_bells(calls);
    look_for_probes(calls);
    guess(calls);
    settle(calls, patch_target_now() - SETTLE_NS);
    return result;
}

/* --- around a stop of tally --- */

/* Who was let go is traced again: then the helper sees its births, and gives them their blocks, without asking. */
void collect_calls_suspend(struct collect_calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct collect_calls_space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid || !space->bell)
            continue;
        collect_calls_loose_take(space, &calls->rig, NULL);
        collect_calls_bell_silence(space);
    }
    patch_trace_suspend(&calls->rig.helper, NULL);
}

void collect_calls_resume(struct collect_calls *calls)
{
    for (size_t i = calls->member_count; i-- > 0;) { /* one that is given up is replaced by the last */
        struct collect_calls_space *space = calls->members[i].space;
        if (space && space->pid == calls->members[i].pid && space->bell)
            answer_bell(calls, space, __atomic_load_n(&space->bell->rung, __ATOMIC_ACQUIRE), true);
    }
}

/* --- beginning --- */

int collect_calls_launch(struct collect_calls *calls, pid_t pid, struct base_error *error)
{
    return patch_trace_follow(&calls->rig.helper, pid, error);
}

static int give_blocks(struct collect_calls *calls, struct collect_calls_space *space,
                       struct base_error *error)
{
    calls->threaded = true;
    int result = collect_calls_threads_assign_all(space, &calls->rig, 0, error);
    return result < 0 ? result : collect_calls_threads_refill(space, &calls->rig, true, error);
}

static int attach_held(struct collect_calls *calls, struct collect_calls_space *space, bool lock,
                       struct base_error *error)
{
    struct patch_stop_thread *threads;
    size_t count;
    int result = patch_trace_threads(&calls->rig.helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    free(threads);
    if (count > 1) {
        space->form = lock || has_set_gs(calls, space) ? PATCH_LOCK : PATCH_THREAD;
        result =
            space->form == PATCH_LOCK ? give_nothing(calls, space, error) : give_blocks(calls, space, error);
    }
    if (result == BASE_OK)
        result = collect_calls_build_place(space, &calls->rig, error);
    if (result == BASE_OK)
        result = collect_calls_bell_prepare(space, &calls->rig, calls->listener, 0, error);
    if (result > 0) /* where it cannot be written now, it is with the next changes */
        collect_calls_bell_ring(space, &calls->rig, NULL);
    return result < 0 ? result : BASE_OK;
}

/* What was loaded before the loader rang may have set gs since: no stub may count by it then, not for a moment.
 * What is loaded later waits for our answer. 1: there are other objects than before. */
static int look_again(struct collect_calls *calls, struct collect_calls_space *space,
                      struct base_error *error)
{
    int result = collect_calls_space_survey(space, &calls->rig, error);
    int kept = result < 0 ? result : keep_off_gs(calls, space, error);
    return kept < 0 ? kept : result;
}

/* Never planned on: what a killed tally left is removed first. */
static int clean(struct collect_calls *calls, pid_t pid, struct base_error *error)
{
    struct collect_calls_cleaned cleaned;
    int result = collect_calls_clean(&calls->rig.helper, pid, &cleaned, error);
    if (result == BASE_OK && cleaned.bytes_left > cleaned.bytes_kept)
        collect_left_add(&calls->left, pid, cleaned.bytes_left - cleaned.bytes_kept, true);
    return result;
}

/* Stopped twice: for what must be mapped and the bytes that make the loader ring, and for all others. */
static int attach(struct collect_calls *calls, struct collect_calls_space *space, struct base_error *error)
{
    int result = clean(calls, space->pid, error);
    if (result == BASE_OK)
        result = collect_calls_space_survey(space, &calls->rig, error);
    if (result >= 0)
        result = refuse_program(calls, space, error);
    if (result >= 0)
        result = free_traced(calls, space, error);
    if (result < 0)
        return result;
    bool lock = code_uses_gs(calls, space);
    result = patch_trace_hold(&calls->rig.helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = attach_held(calls, space, lock, error);
    patch_trace_release(&calls->rig.helper, space->pid, NULL, NULL);
    if (result == BASE_OK)
        result = look_again(calls, space, error);
    if (result >= 0)
        result = collect_calls_build_all(space, &calls->rig, false, error);
    if (result == BASE_OK) /* where nobody rings, or has waited too long */
        result = look_again(calls, space, error);
    return result > 0 ? collect_calls_build_all(space, &calls->rig, false, error) : result;
}

int collect_calls_attach(struct collect_calls *calls, pid_t pid, struct base_error *error)
{
    int result = patch_trace_follow(&calls->rig.helper, pid, error);
    if (result < 0)
        return result;
    struct collect_calls_space *space = collect_calls_space_new(&calls->rig, pid);
    if (!space || !add_member(calls, pid, space)) {
        free(space);
        patch_trace_leave(&calls->rig.helper, pid, NULL);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    uint64_t began = patch_target_now();
    result = attach(calls, space, error);
    calls->setup_ns += patch_target_now() - began;
    struct patch_trace_cost cost;
    if (patch_trace_cost(&calls->rig.helper, pid, &cost, NULL) == BASE_OK)
        calls->attach_ns += cost.stopped_ns;
    if (result < 0) {
        leave_space(calls, space, true);
        patch_trace_leave(&calls->rig.helper, pid, NULL);
        remove_member(calls, pid);
    }
    return result;
}

/* --- the end --- */

static void describe(struct collect_calls *calls)
{
    struct patch_trace_cost cost = {0};
    struct profile *profile = calls->rig.profile;
    profile_set_meta(profile, "calls_form", calls->locked ? "lock" : calls->threaded ? "thread" : "plain");
    profile_set_metaf(profile, "calls_setup_ns", "%llu", (unsigned long long)calls->setup_ns);
    if (calls->attach_ns)
        profile_set_metaf(profile, "calls_attach_stopped_ns", "%llu", (unsigned long long)calls->attach_ns);
    profile_set_metaf(profile, "calls_stub_bytes", "%llu", (unsigned long long)calls->rig.stub_bytes);
    profile_set_metaf(profile, "calls_stubs", "%llu", (unsigned long long)calls->rig.stub_sites);
    profile_set_metaf(profile, "overhead_stub_samples", "%llu", (unsigned long long)calls->stub_samples);
    if (calls->memory_most)
        profile_set_metaf(profile, "overhead_target_memory", "%llu", (unsigned long long)calls->memory_most);
    if (calls->places_left)
        profile_set_metaf(profile, "calls_remains", "%llu", (unsigned long long)calls->places_left);
    if (patch_trace_cost(&calls->rig.helper, 0, &cost, NULL) < 0)
        return;
    profile_set_metaf(profile, "overhead_signals", "%llu", (unsigned long long)cost.signals);
    profile_set_metaf(profile, "overhead_births", "%llu",
                      (unsigned long long)(cost.births + cost.forks + cost.execs));
    profile_set_metaf(profile, "overhead_stopped_ns", "%llu", (unsigned long long)cost.stopped_ns);
    profile_set_metaf(profile, "overhead_followed_ns", "%llu", (unsigned long long)cost.followed_ns);
    profile_set_metaf(profile, "overhead_traced_ns", "%llu",
                      (unsigned long long)(cost.followed_ns - cost.loose_ns));
}

/* The helper answers after it has sent what it knew. */
static int catch_up(struct collect_calls *calls, struct base_error *error)
{
    struct patch_trace_cost cost;
    int result = patch_trace_cost(&calls->rig.helper, 0, &cost, error);
    return result < 0 ? result : collect_calls_step(calls, error);
}

void collect_calls_before_agent(struct collect_calls *calls)
{
    struct base_error why = {0};
    for (size_t i = 0; i < calls->member_count; i++) {
        struct collect_calls_space *space = calls->members[i].space;
        bool first = space && space->pid == calls->members[i].pid;
        int result = first ? collect_calls_loose_end(space, &calls->rig, &why) : BASE_OK;
        if (result < 0 && result != BASE_ENOTFOUND) /* else it has ended */
            note(calls, "leaving", &why);
    }
}

int collect_calls_leave(struct collect_calls *calls, struct base_error *error)
{
    int result = catch_up(calls, error);
    for (size_t i = 0; i < calls->member_count; i++) {
        struct collect_calls_space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid)
            continue;
        collect_calls_build_read_slots(space);
        leave_space(calls, space, true);
    }
    for (size_t i = 0; i < calls->member_count; i++)
        patch_trace_leave(&calls->rig.helper, calls->members[i].pid, NULL);
    while (calls->member_count)
        remove_member(calls, calls->members[0].pid);
    describe(calls);
    patch_helper_end(
        &calls->rig.helper); /* who stands at a birth that nobody reads of goes on, and can be left */
    collect_calls_unheard_leave(&calls->left, calls->rig.profile);
    return result;
}

/* The first name that no image has which is counted: there is one notice. Where nothing is counted, nothing
 * is known. */
static void tell_absent(struct collect_calls *calls)
{
    const struct collect_calls_images *set = &calls->rig.images;
    struct symbol_near near = {0};
    struct base_error why = {0};
    size_t absent = 0;
    bool counted = false;
    while (absent < set->wish.name_count && set->found[absent])
        absent++;
    if (absent == set->wish.name_count)
        return;
    for (size_t i = 0; i < set->capacity; i++) {
        if (!set->items[i] || set->items[i]->state != COLLECT_CALLS_PLANNED)
            continue;
        collect_absent_look(&near, &set->images->items[i]);
        counted = true;
    }
    collect_absent_tell(&near, set->wish.names[absent], "what is counted of the program", "", &why);
    if (counted)
        note(calls, "not counted", &why);
    symbol_near_free(&near);
}

void collect_calls_finish(struct collect_calls *calls)
{
    settle(calls, UINT64_MAX);
    tell_absent(calls);
}

/* --- stubs in sampled stacks --- */

static const struct patch_slab *slab_around(const struct collect_calls_patch *patch, uint64_t pc)
{
    for (size_t i = 0; patch && i < patch->slab.region_count; i++)
        if (pc - patch->slab.regions[i].address < patch->slab.regions[i].size)
            return &patch->slab;
    return NULL;
}

static const struct patch_slab *find_slab(const struct collect_calls_space *space, uint64_t pc)
{
    bool ours = collect_calls_space_is_code(space, pc);
    for (size_t i = 0; ours && i < space->object_count; i++) {
        const struct collect_calls_object *object = &space->objects[i];
        const struct patch_slab *slab = slab_around(object->patch, pc);
        for (size_t j = 0; !slab && j < object->older_count; j++)
            slab = slab_around(object->older[j], pc);
        if (slab)
            return slab;
    }
    return NULL;
}

/* A few rounds: the recorder's caller is a hook, a stub may lead to another slab. */
bool collect_calls_frame(struct collect_calls *calls, pid_t pid, uint64_t *pc, uint64_t *sp,
                         collect_calls_word *word, void *context)
{
    const struct collect_calls_space *space = space_of(calls, pid);
    bool found = false;
    for (int i = 0; space && i < 4; i++) {
        struct patch_slab_frame frame;
        const struct patch_slab *slab = find_slab(space, *pc);
        if (!slab || !patch_slab_frame(slab, *pc, &frame))
            break;
        *sp += 8ull * frame.pushed;
        *pc = frame.pc;
        if (frame.kind == PATCH_FRAME_CALL || frame.kind == PATCH_FRAME_RECORDER) {
            if (!word(context, *sp, pc))
                break;
            *sp += 8;
        }
        found = true;
    }
    calls->stub_samples += found;
    return found;
}
