#include "calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "base_text.h"
#include "calls_detach.h"
#include "calls_doorbell.h"
#include "calls_remove.h"
#include "calls_undiscovered.h"
#include "calls_uprobe.h"
#include "perf_record.h"
#include "plan_absent.h"
#include "plan_gs.h"
#include "proc_commit.h"
#include "proc_target.h"
#include "proc_translator.h"
#include "remains.h"
#include "remains_clean.h"
#include "remains_drain.h"
#include "remains_left.h"
#include "sample_privileges.h"
#include "slab_frame.h"
#include "space_build.h"
#include "space_export.h"
#include "space_fork.h"
#include "space_guess.h"
#include "space_imports.h"
#include "space_memory.h"
#include "space_place.h"
#include "space_slots.h"
#include "space_survey.h"
#include "space_threads.h"
#include "space_totals.h"
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
    struct space *space;
};

/* A space where nobody lives any more, and which is still to be told. */
struct ended {
    struct space *space;
    pid_t pid;
    uint64_t at_ns;
};

struct calls {
    struct space_session session;
    struct calls_options options;
    struct sample_processes *processes;
    struct loader_listen *listener;
    struct calls_client client; /* all 0: there is none */
    struct member *members;
    size_t member_count, member_capacity;
    struct ended *ended;
    size_t ended_count, ended_capacity;
    uint64_t memory_most;     /* bytes of ours that were in use in one target */
    struct remains_left left; /* processes in which something of ours stayed */
    uint64_t leaving_ns;      /* since when processes that cannot be had are waited for; 0: none was */
    uint64_t places_left;     /* in their code that somebody else had changed: they stayed as they were */
    uint64_t stub_samples;
    uint64_t setup_ns;     /* of planning, placing and patching, all processes together */
    uint64_t attach_ns;    /* for which processes that ran were stopped by it */
    bool locked, threaded; /* forms that were used */
    char notice[256];
};

static void note(struct calls *calls, const char *what, const struct base_error *why)
{
    if (!calls->notice[0])
        snprintf(calls->notice, sizeof calls->notice, "%.64s: %.180s", what, why->text);
    profile_set_meta(calls->session.profile, "calls_notice", calls->notice);
}

/* --- making and freeing --- */

/* A report must know that calls of other functions were not all counted. */
static void publish_names(struct profile *profile, const struct space_request *request)
{
    struct base_text names = {0};
    for (size_t i = 0; i < request->name_count; i++)
        base_text_addf(&names, "%s%s", i ? "," : "", request->names[i]);
    if (names.length && !names.failed)
        profile_set_meta(profile, "calls_names", base_text_string(&names));
    base_text_free(&names);
}

int calls_new(const struct calls_options *options, struct sample_processes *processes, struct calls **made,
              struct base_error *error)
{
    struct calls *calls = calloc(1, sizeof *calls);
    if (!calls)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    calls->options = *options;
    calls->processes = processes;
    calls->session.profile = processes->profile;
    calls->session.committed = proc_commit_is_strict();
    calls->session.helper.socket = -1;
    int result = helper_begin(&calls->session.helper, error);
    if (result == BASE_OK)
        result = helper_trace_report_endings(&calls->session.helper, error);
    if (result == BASE_OK)
        result = space_images_init(&calls->session.images, processes->images, &options->request, error);
    if (result == BASE_OK)
        result = loader_listen_new(processes->start_ns, &calls->listener, error);
    if (result == BASE_OK)
        loader_listen_helper(calls->listener, calls->session.helper.pid);
    if (result == BASE_OK && !profile_calls_counter(processes->profile))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        calls_free(calls);
        return result;
    }
    publish_names(processes->profile, &options->request);
    *made = calls;
    return BASE_OK;
}

static void free_space(struct calls *calls, struct space *space)
{
    calls_doorbell_forget(space, calls->listener);
    space_free(space);
}

void calls_free(struct calls *calls)
{
    if (!calls)
        return;
    helper_end(&calls->session.helper);
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].space && --calls->members[i].space->processes == 0)
            free_space(calls, calls->members[i].space);
    for (size_t i = 0; i < calls->ended_count; i++)
        free_space(calls, calls->ended[i].space);
    loader_listen_free(calls->listener);
    space_images_free(&calls->session.images);
    free(calls->members);
    free(calls->ended);
    remains_left_free(&calls->left);
    free(calls);
}

pid_t calls_helper(const struct calls *calls)
{
    return calls->session.helper.pid;
}

struct helper *calls_share(struct calls *calls)
{
    return &calls->session.helper;
}

void calls_register(struct calls *calls, const struct calls_client *client)
{
    calls->client = *client;
    calls->session.real = client->real;
    calls->session.real_context = client->context;
}

void calls_files(const struct calls *calls, int files[2])
{
    files[0] = calls->session.helper.socket;
    files[1] = loader_listen_file(calls->listener);
}

const char *calls_notice(const struct calls *calls)
{
    return calls->notice;
}

struct remains_left *calls_left(struct calls *calls)
{
    return &calls->left;
}

/* --- who lives where --- */

static struct member *find_member(struct calls *calls, pid_t pid)
{
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].pid == pid)
            return &calls->members[i];
    return NULL;
}

static struct space *space_of(struct calls *calls, pid_t pid)
{
    const struct member *member = find_member(calls, pid);
    return member ? member->space : NULL;
}

static bool add_member(struct calls *calls, pid_t pid, struct space *space)
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

static void note_memory(struct calls *calls, const struct space *space)
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

static void end_space(struct calls *calls, struct space *space)
{
    note_memory(calls, space);
    calls_doorbell_forget(space, calls->listener);
    calls_doorbell_silence(space);
    if (base_array_room(calls->ended, calls->ended_count, calls->ended_capacity)) {
        calls->ended[calls->ended_count++] = (struct ended){space, space->pid, base_clock_now()};
        return;
    }
    profile_lose(calls->session.profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    space_free(space);
}

static void remove_member(struct calls *calls, pid_t pid)
{
    struct member *member = find_member(calls, pid);
    if (!member)
        return;
    struct space *space = member->space;
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

static void publish_remains(struct calls *calls, pid_t pid, const struct calls_remains *remains)
{
    if (remains->memory_bytes)
        remains_left_add(&calls->left, pid, remains->memory_bytes, !remains->changes);
    calls->places_left += remains->changes;
    profile_lose(calls->session.profile, WIRE_LOSS_TEXT_ALTERED,
                 remains->changes - remains->published + remains->probed);
}

/* What stays is told, and tried again at the end. `patient`: nobody waits for us meanwhile, and who is in the way may go. */
static void leave_space(struct calls *calls, struct space *space, bool patient)
{
    struct calls_remains remains = {0};
    struct base_error why = {0};
    int result;
    do {
        why = (struct base_error){0};
        result = calls_remove(space, &calls->session, false, &remains, &why);
    } while (patient && result < 0 && remains_again(result, &calls->leaving_ns));
    if (result < 0 && result != BASE_ENOTFOUND) {
        note(calls, "leaving", &why);
        remains_left_add(&calls->left, space->pid, 0, !remains.changes);
    }
    publish_remains(calls, space->pid, &remains);
}

/* The process goes on, uncounted, as it was before us. */
static void give_up(struct calls *calls, pid_t pid, const struct base_error *why)
{
    char what[64];
    struct space *space = space_of(calls, pid);
    snprintf(what, sizeof what, "calls of process %d are not counted", (int)pid);
    note(calls, what, why);
    if (space && space->processes == 1)
        leave_space(calls, space, false);
    else if (space && space->pid == pid) /* a vfork's child runs in it */
        remains_left_add(&calls->left, pid, 0, true);
    profile_lose(calls->session.profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    if (calls->client.left)
        calls->client.left(calls->client.context, pid);
    helper_trace_leave(&calls->session.helper, pid, NULL);
    remove_member(calls, pid);
}

/* --- telling --- */

/* Hooks with many callers need room for more. */
static void tend_blocks(struct space *space)
{
    for (size_t i = 0; i < space->arena_count; i++)
        slab_block_grow(&space->arenas[i].block, NULL);
    for (size_t i = 0; i < space->thread_count; i++)
        if (space->threads[i].state == SPACE_USED)
            slab_block_grow(&space->threads[i].block, NULL);
}

/* What ld.so has bound since the stubs were made is gone to at once, past linkage stub and hook: some time
 * after the beginning, when most first calls were made, and once more much later; then with what indirect
 * sites were seen to call. */
static void rebind(struct calls *calls, struct space *space)
{
    uint64_t age = base_clock_now() - space->created_ns;
    if (space->rebinds >= REBINDS || age < (space->rebinds ? REBIND_AGAIN_NS : REBIND_FIRST_NS))
        return;
    bool guessed = space->rebinds++ && space_guess_mark(space);
    if (space_slots_mark_bound(space) || guessed)
        space_build_all(space, &calls->session, false, NULL);
}

/* The first guesses come early: what calls much does so from the beginning. */
static void guess(struct calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid || space->guessed ||
            base_clock_now() - space->created_ns < GUESS_NS)
            continue;
        space->guessed = true;
        if (space->thread_count <= OFTEN_THREADS && space_guess_mark(space))
            space_build_all(space, &calls->session, false, NULL);
    }
}

void calls_publish(struct calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid)
            continue;
        if (space->thread_count <= OFTEN_THREADS) {
            tend_blocks(space);
            space_slots_read(space);
            space_totals_publish(space, &calls->session, calls->processes, false);
            rebind(calls, space);
        }
        calls_detach_tend(space, &calls->session); /* last: what needs a hold has had it */
    }
}

static void settle(struct calls *calls, uint64_t until)
{
    size_t kept = 0;
    for (size_t i = 0; i < calls->ended_count; i++) {
        struct ended ended = calls->ended[i];
        if (ended.at_ns > until) {
            calls->ended[kept++] = ended;
            continue;
        }
        space_totals_publish(ended.space, &calls->session, calls->processes, true);
        space_free(ended.space);
    }
    calls->ended_count = kept;
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].space && calls->members[i].space->pid == calls->members[i].pid)
            space_totals_publish_ended(calls->members[i].space, &calls->session, calls->processes, until);
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
static int refuse_program(struct calls *calls, const struct space *space, struct base_error *error)
{
    int result = proc_translator_refuse(space->pid, error);
    if (result < 0)
        return result;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_image *image = space_images_get(&calls->session.images, space->mappings[i].image);
        if (image && image->checks_leaks && !is_in_environment(space->pid, "detect_leaks=0"))
            return base_fail(error, BASE_EUNSUPPORTED,
                             "its leak sanitizer does not work under a tracer; to count them: "
                             "ASAN_OPTIONS=detect_leaks=0 (LSAN_OPTIONS with -fsanitize=leak)");
    }
    return BASE_OK;
}

/* What the process runs, not its loader or a library; NULL: not known. */
static const struct elf_image *program_of(const struct space *space, const struct sample_images *images)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)space->pid);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct sample_image *image = &images->items[space->mappings[i].image];
        if (image->elf && !strcmp(image->path, path))
            return image->elf;
    }
    return NULL;
}

/* What traces, or may, is counted itself; what it starts can have no other tracer. */
static int free_traced(struct calls *calls, const struct space *space, struct base_error *error)
{
    const struct elf_image *program = program_of(space, calls->session.images.images);
    return program && space_imports_ptrace(program)
               ? helper_trace_free_children(&calls->session.helper, space->pid, error)
               : BASE_OK;
}

static void publish_freed(struct calls *calls, pid_t parent)
{
    struct base_error why = {0};
    char what[80], name[32] = "";
    proc_target_name(parent, parent, name, sizeof name);
    snprintf(what, sizeof what, "children of process %d%s%.15s%s are not counted", (int)parent,
             name[0] ? " (" : "", name, name[0] ? ")" : "");
    base_fail(&why, BASE_EBUSY, "it may trace them, and each can have one tracer");
    note(calls, what, &why);
    profile_lose(calls->session.profile, WIRE_LOSS_CALLS_FREED, 1);
}

/* The program itself, not its loader. False: it has none. */
static bool plan_program(const struct space *space, struct space_session *session)
{
    for (size_t i = 0; i < space->mapping_count; i++) {
        struct elf_section interpreter;
        uint32_t index = space->mappings[i].image;
        const struct elf_image *image = session->images.images->items[index].elf;
        if (image && elf_image_section(image, ".interp", &interpreter)) {
            space_images_early(&session->images, index);
            return true;
        }
    }
    return false;
}

/* A new image: old counts are told later, new ones begin. With a loader that rings, nothing of the program
 * runs before it has rung: all is planned then, at once, and only memory is mapped now, since nobody need be
 * stopped for it. */
static int begin_image(struct calls *calls, pid_t pid, struct base_error *error)
{
    struct space *space = space_new(&calls->session, pid);
    if (!space || !add_member(calls, pid, space)) {
        free(space);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    space->launched = true;
    int result = proc_translator_refuse(pid, error);
    if (result == BASE_OK)
        result = space_look(space, &calls->session, error);
    bool loads = result == BASE_OK && plan_program(space, &calls->session);
    if (result == BASE_OK)
        result = free_traced(calls, space, error);
    if (result == BASE_OK)
        result = calls_doorbell_install(space, &calls->session, calls->listener, SPACE_CODE_AHEAD, error);
    if (result > 0) {
        space_place_ahead(space, &calls->session);
        return result;
    }
    if (result == 0 && loads && calls->client.left) /* nobody will ring */
        calls->client.left(calls->client.context, pid);
    if (result == 0)
        result = space_survey(space, &calls->session, error);
    if (result >= 0)
        result = refuse_program(calls, space, error);
    return result < 0 ? result : space_build_all(space, &calls->session, true, error);
}

static void on_exec(struct calls *calls, const struct trace_event *event)
{
    struct base_error why = {0};
    uint64_t began = base_clock_now();
    remove_member(calls, event->pid);
    if (trace_event_lost_privileges(event))
        sample_privileges_lost(calls->session.profile, event->pid, event->flags & TRACE_FLAG_PRIVILEGES_LOST);
    if (calls->client.exec)
        calls->client.exec(calls->client.context, event->pid);
    if (begin_image(calls, event->pid, &why) < 0)
        give_up(calls, event->pid, &why);
    else
        helper_trace_release(&calls->session.helper, event->pid, NULL, NULL);
    calls->setup_ns += base_clock_now() - began;
}

/* Threads keep their gs: counters are locked. */
static int give_nothing(struct calls *calls, const struct space *space, struct base_error *error)
{
    const uint64_t keep = TRACE_GS_KEEP;
    calls->locked = true;
    return helper_trace_give(&calls->session.helper, space->pid, &keep, 1, error);
}

static int begin_fork(struct calls *calls, struct space *parent, const struct trace_event *event,
                      struct base_error *error)
{
    struct space *child;
    int result = space_fork(parent, &calls->session, event->pid, &child, error);
    if (result < 0)
        return result;
    if (!add_member(calls, event->pid, child)) {
        space_free(child);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    child->first_tid = event->pid;
    result = space_threads_inherit(child, &calls->session, error);
    if (result == BASE_OK)
        result = calls_doorbell_listen(child, calls->listener, error);
    if (result == BASE_OK && child->form == STUB_LOCK)
        result = give_nothing(calls, child, error);
    return result < 0 || child->form != STUB_THREAD
               ? result
               : space_threads_refill(child, &calls->session, true, error);
}

/* Not followed: the copy becomes what it would have been without us. */
static void clean_fork(struct calls *calls, const struct space *parent, pid_t pid)
{
    struct space child = *parent;
    struct calls_remains remains;
    child.pid = pid;
    child.doorbell = NULL; /* the parent's words: they are not to be touched */
    int result = calls_remove(&child, &calls->session, true, &remains, NULL);
    if (result == BASE_EBUSY) /* it did not wait for a silent tally */
        result = calls_remove(&child, &calls->session, false, &remains, NULL);
    if (result < 0 && result != BASE_ENOTFOUND)
        remains_left_add(&calls->left, pid, 0, !remains.changes);
    publish_remains(calls, pid, &remains);
}

static void on_fork(struct calls *calls, const struct trace_event *event)
{
    struct base_error why = {0};
    struct space *parent = space_of(calls, event->parent);
    bool freed = (event->flags & TRACE_FLAG_FREED) != 0;
    if (!calls->options.follow || !parent || freed) {
        if (freed)
            publish_freed(calls, event->parent);
        if (parent)
            clean_fork(calls, parent, event->pid);
        helper_trace_leave(&calls->session.helper, event->pid, NULL);
        return;
    }
    if (begin_fork(calls, parent, event, &why) == BASE_OK) {
        helper_trace_release(&calls->session.helper, event->pid, NULL, NULL);
        return;
    }
    clean_fork(calls, parent, event->pid);
    give_up(calls, event->pid, &why);
}

static void on_vfork(struct calls *calls, const struct trace_event *event)
{
    struct space *space = space_of(calls, event->parent);
    if (event->flags & TRACE_FLAG_FREED)
        publish_freed(calls, event->parent);
    else if (space && add_member(calls, event->pid, space))
        space->processes++;
}

static void on_creation(struct calls *calls, const struct trace_event *event)
{
    struct space *space = space_of(calls, event->pid);
    if (!space && event->pid != event->parent) {
        on_vfork(calls, event);
        space = space_of(calls, event->pid);
    }
    struct space_thread *thread = space ? space_threads_find(space, event->gs) : NULL;
    if (space && !event->gs && space->form != STUB_LOCK) /* it did not wait for counters of its own */
        profile_lose(calls->session.profile, WIRE_LOSS_CALLS_SHARED, 1);
    if (!thread)
        return;
    space_threads_withdraw(space, event->tid);
    space_threads_set(space, thread, SPACE_USED);
    thread->process = event->pid;
    thread->tid = event->tid;
    struct base_error why = {0};
    if (space->form != STUB_THREAD) /* born before gs was given back, told after it */
        return;
    int result = space_threads_refill(space, &calls->session, false, &why);
    if (result < 0 && result != BASE_ENOTFOUND)
        note(calls, "counters for more threads", &why);
}

/* Code that is counted may not use gs, any other may not set it. */
static bool image_uses_gs(struct calls *calls, uint32_t index)
{
    struct space_image *image = space_images_get(&calls->session.images, index);
    if (!image || image->state == SPACE_PLANNED)
        return image && image->plan.header->gs_users;
    if (!image->gs_looked)
        image->sets_gs = image->elf && plan_gs_is_set(image->elf);
    image->gs_looked = true;
    return image->sets_gs;
}

static bool code_uses_gs(struct calls *calls, const struct space *space)
{
    for (size_t i = 0; i < space->mapping_count; i++)
        if (image_uses_gs(calls, space->mappings[i].image))
            return true;
    return false;
}

/* Beside code that uses gs, a thread that has set it forbids counters by gs. The space is held. */
static bool has_set_gs(struct calls *calls, const struct space *space)
{
    struct trace_stop_thread *threads;
    size_t count;
    bool used = false;
    if (helper_trace_threads(&calls->session.helper, space->pid, &threads, &count, NULL) < 0)
        return false;
    for (size_t i = 0; i < count && !used; i++) {
        struct user_regs_struct registers;
        used = helper_trace_read_registers(&calls->session.helper, space->pid, threads[i].tid, &registers,
                                           NULL) == BASE_OK &&
               registers.gs_base;
    }
    free(threads);
    return used;
}

static int go_locked(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = space_build_change_form(space, &calls->session, STUB_LOCK, error);
    return result < 0 ? result : give_nothing(calls, space, error);
}

/* Threads whose birth has not been told yet have blocks too. The space is held. */
static int clear_gs(struct calls *calls, const struct space *space, struct base_error *error)
{
    struct remains_ranges ranges = {0};
    bool room = true;
    for (size_t i = 0; i < space->memory_count && room; i++)
        room = remains_ranges_add(&ranges, &(struct loader_range){space->memories[i].address,
                                                                  space->memories[i].size, false, false});
    int result = room ? remains_drain_gs(&calls->session.helper, space->pid, &ranges, space->gs_offset, error)
                      : base_fail(error, BASE_ENOMEM, "out of memory");
    free(ranges.items);
    return result;
}

/* An object was loaded that uses gs, while threads count by it: they no longer do, and gs is as it was. Who is in a stub of before
 * counts in the fallback. */
static int give_gs_back(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = helper_trace_hold(&calls->session.helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = go_locked(calls, space, error);
    if (result == BASE_OK)
        result = clear_gs(calls, space, error);
    helper_trace_release(&calls->session.helper, space->pid, NULL, NULL);
    return result;
}

/* Nothing, unless threads count by gs and an object that is mapped by now uses it. The space is not held. A process that has ended is no
 * failure: its event is in the queue. */
static int keep_off_gs(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = BASE_OK;
    if (space->form == STUB_THREAD && code_uses_gs(calls, space))
        result = give_gs_back(calls, space, error);
    return result == BASE_ENOTFOUND ? BASE_OK : result;
}

/* From one thread to several. The space is held. `lock`: its code uses gs. */
static int go_threaded(struct calls *calls, struct space *space, bool lock, pid_t unborn,
                       struct base_error *error)
{
    if (lock || has_set_gs(calls, space))
        return go_locked(calls, space, error);
    int result = space_threads_assign_all(space, &calls->session, unborn, error);
    if (result == BASE_OK)
        result = space_threads_refill(space, &calls->session, true, error);
    if (result == BASE_OK)
        result = space_build_change_form(space, &calls->session, STUB_THREAD, error);
    calls->threaded |= result == BASE_OK;
    return result;
}

static void on_need(struct calls *calls, const struct trace_event *event)
{
    struct base_error why = {0};
    struct space *space = space_of(calls, event->parent);
    pid_t pid = event->parent;
    if (!space) {
        helper_trace_leave(&calls->session.helper, event->pid, NULL);
        return;
    }
    int result = BASE_OK;
    if (space->form == STUB_THREAD) { /* nobody else need stand, unless more must be mapped */
        result = space_threads_refill(space, &calls->session, false, &why);
    } else {
        bool lock = code_uses_gs(calls, space); /* which may take a while: nobody need stand for it */
        result = helper_trace_hold(&calls->session.helper, pid, NULL, &why);
        if (result == BASE_OK) {
            result = go_threaded(calls, space, lock, event->tid, &why);
            helper_trace_release(&calls->session.helper, pid, NULL, NULL);
        }
    }
    /* It may have ended: the births and deaths that are queued behind this event still count. */
    if (result < 0 && result != BASE_ENOTFOUND)
        give_up(calls, pid, &why);
}

static void on_death(struct calls *calls, const struct trace_event *event)
{
    struct space *space = space_of(calls, event->pid);
    struct space_thread *thread = space ? space_threads_find(space, event->gs) : NULL;
    if (!thread || thread->state != SPACE_USED)
        return;
    space_threads_set(space, thread, SPACE_ENDED);
    thread->ended_ns = base_clock_now();
}

/* What ld.so has bound since the slots were last read. */
static void on_ending(struct calls *calls, const struct trace_event *event)
{
    struct space *space = space_of(calls, event->pid);
    if (space && space->pid == event->pid)
        space_slots_read(space);
    helper_trace_let_end(&calls->session.helper, event->pid, NULL);
}

static void on_found(struct calls *calls, const struct trace_event *event)
{
    struct space *space = space_of(calls, event->pid);
    if (space && space->form == STUB_THREAD)
        space_threads_assign(space, &calls->session, event->pid, event->tid, NULL);
    profile_lose(calls->session.profile, WIRE_LOSS_CALLS_SHARED, 1);
}

/* Where no event of the kernel's tells the table of processes what happened. */
static void publish_processes(struct calls *calls, const struct trace_event *event)
{
    char name[32] = "";
    struct perf_task task = {.pid = (uint32_t)event->pid,
                             .tid = (uint32_t)(event->tid ? event->tid : event->pid),
                             .parent_pid = (uint32_t)event->parent,
                             .parent_tid = (uint32_t)event->parent,
                             .time = base_clock_now()};
    struct perf_comm comm = {(uint32_t)event->pid, (uint32_t)event->pid, true, name};
    switch ((enum trace_event_kind)event->kind) {
    case TRACE_FORK:
    case TRACE_VFORK:
    case TRACE_CREATED:
        sample_processes_on_fork(calls->processes, &task);
        break;
    case TRACE_EXEC:
        proc_target_name(event->pid, event->pid, name, sizeof name);
        sample_processes_on_comm(calls->processes, &comm, task.time);
        break;
    case TRACE_END:
        task.tid = task.pid;
        sample_processes_on_exit(calls->processes, &task);
        break;
    default:
        break;
    }
}

static void stir(struct calls *calls, const struct trace_event *event)
{
    struct space *space = space_of(calls, event->parent ? event->parent : event->pid);
    if (space && event->kind != TRACE_EXITED && event->kind != TRACE_ENDING && event->kind != TRACE_END)
        calls_detach_stir(space);
}

static void on_event(struct calls *calls, const struct trace_event *event)
{
    stir(calls, event);
    if (calls->options.unpublished)
        publish_processes(calls, event);
    switch ((enum trace_event_kind)event->kind) {
    case TRACE_EXEC:
        on_exec(calls, event);
        break;
    case TRACE_FORK:
        on_fork(calls, event);
        break;
    case TRACE_VFORK:
        on_vfork(calls, event);
        break;
    case TRACE_CREATED:
        on_creation(calls, event);
        break;
    case TRACE_NEED:
        on_need(calls, event);
        break;
    case TRACE_EXITED:
        on_death(calls, event);
        break;
    case TRACE_FOUND:
        on_found(calls, event);
        break;
    case TRACE_ENDING:
        on_ending(calls, event);
        break;
    case TRACE_END:
        remove_member(calls, event->pid);
        break;
    }
}

/* --- objects that come and go --- */

/* `missed`: nobody waited for an answer, so what has been loaded since was not counted from its beginning. */
static void answer_doorbell(struct calls *calls, struct space *space, uint32_t notified, bool missed)
{
    struct base_error why = {0};
    uint64_t began = base_clock_now();
    int result = calls_detach_take(space, &calls->session, &why);
    if (result < 0 && result != BASE_ENOTFOUND) {
        note(calls, "births are not seen", &why);
        profile_lose(calls->session.profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    }
    if (calls_doorbell_reopen(space) && !missed)
        profile_lose(calls->session.profile, WIRE_LOSS_NOT_PLANNED, 1);
    result = BASE_OK;
    space_slots_read(space); /* of objects that may be about to go */
    if (calls->client.objects)
        calls->client.objects(calls->client.context, space->pid);
    bool settled = calls_doorbell_settled(space);
    if (settled)
        result = space_survey(space, &calls->session, &why);
    if (settled && result >= 0 && refuse_program(calls, space, &why) < 0) {
        give_up(calls, space->pid, &why);
        return;
    }
    if (settled && result >= 0 && keep_off_gs(calls, space, &why) < 0) {
        give_up(calls, space->pid, &why);
        return;
    }
    if (result > 0 && missed)
        profile_lose(calls->session.profile, WIRE_LOSS_NOT_PLANNED, 1);
    if (result > 0)
        result = space_build_all(space, &calls->session, false, &why);
    if (result < 0 && result != BASE_ENOTFOUND) {
        note(calls, "objects that were loaded are not counted", &why);
        profile_lose(calls->session.profile, WIRE_LOSS_NOT_PLANNED, 1);
    }
    calls_doorbell_answer(space, notified);
    calls->setup_ns += base_clock_now() - began;
}

static void answer_doorbells(struct calls *calls)
{
    uint64_t ignored;
    uint32_t notified;
    if (read(loader_listen_file(calls->listener), &ignored, sizeof ignored) < 0)
        return;
    for (size_t i = calls->member_count; i-- > 0;) { /* one that is given up is replaced by the last */
        struct space *space = calls->members[i].space;
        if (space && calls_doorbell_notifications(space, &notified))
            answer_doorbell(calls, space, notified, false);
    }
}

static void look_for_probes(struct calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (space && space->pid == calls->members[i].pid)
            calls_uprobe_tend(space, &calls->session);
    }
}

int calls_step(struct calls *calls, struct base_error *error)
{
    struct trace_event event;
    int result;
    while ((result = helper_trace_next(&calls->session.helper, &event, error)) > 0) {
        on_event(calls, &event);
        answer_doorbells(calls);
    }
    answer_doorbells(calls);
    look_for_probes(calls);
    guess(calls);
    settle(calls, base_clock_now() - SETTLE_NS);
    return result;
}

/* --- around a stop of tally --- */

/* Who was let go is traced again: then the helper sees its births, and gives them their blocks, without asking. */
void calls_suspend(struct calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid || !space->doorbell)
            continue;
        calls_detach_take(space, &calls->session, NULL);
        calls_doorbell_silence(space);
    }
    helper_trace_suspend(&calls->session.helper, NULL);
}

void calls_resume(struct calls *calls)
{
    for (size_t i = calls->member_count; i-- > 0;) { /* one that is given up is replaced by the last */
        struct space *space = calls->members[i].space;
        if (space && space->pid == calls->members[i].pid && space->doorbell)
            answer_doorbell(calls, space, __atomic_load_n(&space->doorbell->notified, __ATOMIC_ACQUIRE),
                            true);
    }
}

/* --- beginning --- */

int calls_launch(struct calls *calls, pid_t pid, struct base_error *error)
{
    return helper_trace_follow(&calls->session.helper, pid, error);
}

static int give_blocks(struct calls *calls, struct space *space, struct base_error *error)
{
    calls->threaded = true;
    int result = space_threads_assign_all(space, &calls->session, 0, error);
    return result < 0 ? result : space_threads_refill(space, &calls->session, true, error);
}

static int attach_held(struct calls *calls, struct space *space, bool lock, struct base_error *error)
{
    struct trace_stop_thread *threads;
    size_t count;
    int result = helper_trace_threads(&calls->session.helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    free(threads);
    if (count > 1) {
        space->form = lock || has_set_gs(calls, space) ? STUB_LOCK : STUB_THREAD;
        result =
            space->form == STUB_LOCK ? give_nothing(calls, space, error) : give_blocks(calls, space, error);
    }
    if (result == BASE_OK)
        result = space_place(space, &calls->session, error);
    if (result == BASE_OK)
        result = calls_doorbell_prepare(space, &calls->session, calls->listener, 0, error);
    if (result > 0) /* where it cannot be written now, it is with the next changes */
        calls_doorbell_notification(space, &calls->session, NULL);
    return result < 0 ? result : BASE_OK;
}

/* What was loaded before the loader rang may have set gs since: no stub may count by it then, not for a moment.
 * What is loaded later waits for our answer. 1: there are other objects than before. */
static int look_again(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = space_survey(space, &calls->session, error);
    int kept = result < 0 ? result : keep_off_gs(calls, space, error);
    return kept < 0 ? kept : result;
}

/* Never planned on: what a killed tally left is removed first. */
static int clean(struct calls *calls, pid_t pid, struct base_error *error)
{
    struct remains_cleaned cleaned;
    int result = remains_clean(&calls->session.helper, pid, &cleaned, error);
    if (result == BASE_OK && cleaned.bytes_left > cleaned.bytes_kept)
        remains_left_add(&calls->left, pid, cleaned.bytes_left - cleaned.bytes_kept, true);
    return result;
}

/* Stopped twice: for what must be mapped and the bytes that make the loader ring, and for all others. */
static int attach(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = clean(calls, space->pid, error);
    if (result == BASE_OK)
        result = space_survey(space, &calls->session, error);
    if (result >= 0)
        result = refuse_program(calls, space, error);
    if (result >= 0)
        result = free_traced(calls, space, error);
    if (result < 0)
        return result;
    bool lock = code_uses_gs(calls, space);
    result = helper_trace_hold(&calls->session.helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = attach_held(calls, space, lock, error);
    helper_trace_release(&calls->session.helper, space->pid, NULL, NULL);
    if (result == BASE_OK)
        result = look_again(calls, space, error);
    if (result >= 0)
        result = space_build_all(space, &calls->session, false, error);
    if (result == BASE_OK) /* where nobody rings, or has waited too long */
        result = look_again(calls, space, error);
    return result > 0 ? space_build_all(space, &calls->session, false, error) : result;
}

int calls_attach(struct calls *calls, pid_t pid, struct base_error *error)
{
    int result = helper_trace_follow(&calls->session.helper, pid, error);
    if (result < 0)
        return result;
    struct space *space = space_new(&calls->session, pid);
    if (!space || !add_member(calls, pid, space)) {
        free(space);
        helper_trace_leave(&calls->session.helper, pid, NULL);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    uint64_t began = base_clock_now();
    result = attach(calls, space, error);
    calls->setup_ns += base_clock_now() - began;
    struct trace_cost cost;
    if (helper_trace_cost(&calls->session.helper, pid, &cost, NULL) == BASE_OK)
        calls->attach_ns += cost.stopped_ns;
    if (result < 0) {
        leave_space(calls, space, true);
        helper_trace_leave(&calls->session.helper, pid, NULL);
        remove_member(calls, pid);
    }
    return result;
}

/* --- the end --- */

static void describe(struct calls *calls)
{
    struct trace_cost cost = {0};
    struct profile *profile = calls->session.profile;
    profile_set_meta(profile, "calls_form", calls->locked ? "lock" : calls->threaded ? "thread" : "plain");
    profile_set_metaf(profile, "calls_setup_ns", "%llu", (unsigned long long)calls->setup_ns);
    if (calls->attach_ns)
        profile_set_metaf(profile, "calls_attach_stopped_ns", "%llu", (unsigned long long)calls->attach_ns);
    profile_set_metaf(profile, "calls_stub_bytes", "%llu", (unsigned long long)calls->session.stub_bytes);
    profile_set_metaf(profile, "calls_stubs", "%llu", (unsigned long long)calls->session.stub_sites);
    profile_set_metaf(profile, "overhead_stub_samples", "%llu", (unsigned long long)calls->stub_samples);
    if (calls->memory_most)
        profile_set_metaf(profile, "overhead_target_memory", "%llu", (unsigned long long)calls->memory_most);
    if (calls->places_left)
        profile_set_metaf(profile, "calls_remains", "%llu", (unsigned long long)calls->places_left);
    if (helper_trace_cost(&calls->session.helper, 0, &cost, NULL) < 0)
        return;
    profile_set_metaf(profile, "overhead_signals", "%llu", (unsigned long long)cost.signals);
    profile_set_metaf(profile, "overhead_births", "%llu",
                      (unsigned long long)(cost.creations + cost.forks + cost.execs));
    profile_set_metaf(profile, "overhead_stopped_ns", "%llu", (unsigned long long)cost.stopped_ns);
    profile_set_metaf(profile, "overhead_followed_ns", "%llu", (unsigned long long)cost.followed_ns);
    profile_set_metaf(profile, "overhead_traced_ns", "%llu",
                      (unsigned long long)(cost.followed_ns - cost.detached_ns));
}

/* The helper answers after it has sent what it knew. */
static int catch_up(struct calls *calls, struct base_error *error)
{
    struct trace_cost cost;
    int result = helper_trace_cost(&calls->session.helper, 0, &cost, error);
    return result < 0 ? result : calls_step(calls, error);
}

void calls_before_agent(struct calls *calls)
{
    struct base_error why = {0};
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        bool first = space && space->pid == calls->members[i].pid;
        int result = first ? calls_detach_end(space, &calls->session, &why) : BASE_OK;
        if (result < 0 && result != BASE_ENOTFOUND) /* else it has ended */
            note(calls, "leaving", &why);
    }
}

int calls_leave(struct calls *calls, struct base_error *error)
{
    int result = catch_up(calls, error);
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid)
            continue;
        space_slots_read(space);
        leave_space(calls, space, true);
    }
    for (size_t i = 0; i < calls->member_count; i++)
        helper_trace_leave(&calls->session.helper, calls->members[i].pid, NULL);
    while (calls->member_count)
        remove_member(calls, calls->members[0].pid);
    describe(calls);
    helper_end(
        &calls->session.helper); /* who stands at a birth that nobody reads of goes on, and can be left */
    calls_undiscovered_leave(&calls->left, calls->session.profile);
    return result;
}

/* The first name that no image has which is counted: there is one notice. Where nothing is counted, nothing
 * is known. */
static void explain_absent(struct calls *calls)
{
    const struct space_images *set = &calls->session.images;
    struct symbol_near near = {0};
    struct base_error why = {0};
    size_t absent = 0;
    bool counted = false;
    while (absent < set->request.name_count && set->found[absent])
        absent++;
    if (absent == set->request.name_count)
        return;
    for (size_t i = 0; i < set->capacity; i++) {
        if (!set->items[i] || set->items[i]->state != SPACE_PLANNED)
            continue;
        sample_image_visit(&set->images->items[i], plan_absent_look, &near);
        counted = true;
    }
    plan_absent_explain(&near, set->request.names[absent], "what is counted of the program", "", &why);
    if (counted)
        note(calls, "not counted", &why);
    symbol_near_free(&near);
}

void calls_finish(struct calls *calls)
{
    settle(calls, UINT64_MAX);
    explain_absent(calls);
}

/* --- stubs in sampled stacks --- */

static const struct slab *slab_around(const struct space_patch *patch, uint64_t pc)
{
    for (size_t i = 0; patch && i < patch->slab.region_count; i++)
        if (pc - patch->slab.regions[i].address < patch->slab.regions[i].size)
            return &patch->slab;
    return NULL;
}

static const struct slab *find_slab(const struct space *space, uint64_t pc)
{
    bool ours = space_memory_is_code(space, pc);
    for (size_t i = 0; ours && i < space->object_count; i++) {
        const struct space_object *object = &space->objects[i];
        const struct slab *slab = slab_around(object->patch, pc);
        for (size_t j = 0; !slab && j < object->older_count; j++)
            slab = slab_around(object->older[j], pc);
        if (slab)
            return slab;
    }
    return NULL;
}

/* A few rounds: the recorder's caller is a hook, a stub may lead to another slab. */
bool calls_frame(struct calls *calls, pid_t pid, uint64_t *pc, uint64_t *sp, sample_word *word, void *context)
{
    const struct space *space = space_of(calls, pid);
    bool found = false;
    for (int i = 0; space && i < 4; i++) {
        struct slab_frame frame;
        const struct slab *slab = find_slab(space, *pc);
        if (!slab || !slab_frame(slab, *pc, &frame))
            break;
        *sp += 8ull * frame.pushed;
        *pc = frame.pc;
        if (frame.kind == SLAB_FRAME_CALL || frame.kind == SLAB_FRAME_RECORDER) {
            if (!word(context, *sp, pc))
                break;
            *sp += 8;
        }
        found = true;
    }
    calls->stub_samples += found;
    return found;
}
