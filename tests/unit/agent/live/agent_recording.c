#include "agent_recording.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_blob.h"

static bool fails(struct agent_recording *recording, const char *what)
{
    if (recording->failed == NULL)
        recording->failed = what;
    return false;
}

static const struct {
    const char *name, *handler;
} wanted[] = {
    {"malloc", "agent_entry_malloc"},
    {"calloc", "agent_entry_calloc"},
    {"realloc", "agent_entry_realloc"},
    {"reallocarray", "agent_entry_reallocarray"},
    {"free", "agent_entry_free"},
    {"cfree", "agent_entry_free"},
    {"aligned_alloc", "agent_entry_aligned"},
    {"memalign", "agent_entry_aligned"},
    {"valloc", "agent_entry_malloc"},
    {"pvalloc", "agent_entry_malloc"},
    {"posix_memalign", "agent_entry_posix_memalign"},
    {"execve", "agent_entry_execve"},
    {"_dl_debug_state", "agent_entry_objects"},
};

static bool plan(struct agent_recording *recording)
{
    unsigned count = sizeof wanted / sizeof wanted[0];
    if (loader_image_open(agent_blob, agent_blob_size, &recording->image, &recording->error) != BASE_OK)
        return fails(recording, "image");
    for (unsigned i = 0; i < count; i++) {
        struct loader_function *function = &recording->functions[i];
        function->request.name = wanted[i].name;
        if (!loader_image_symbol(recording->image, wanted[i].handler, &function->handler))
            return fails(recording, wanted[i].handler);
    }
    recording->plans = loader_plans_new(recording->functions, count);
    return recording->plans != NULL || fails(recording, "plans");
}

/* --- a process --- */

static void publish(struct agent_recording_load *load, uint32_t region, pid_t pid)
{
    shared_file_modules(&load->file);
    if (!process_space_read(&load->space, pid))
        return;
    for (unsigned i = 0; i < load->space.count; i++) {
        const struct process_mapping *mapping = &load->space.mappings[i];
        struct wire_agent_module module = {mapping->start, mapping->end, mapping->bias, 0, 0, i + 1, 0};
        if (mapping->has_rows && shared_file_rows(&load->file, mapping->blob, mapping->blob_size,
                                                  &module.rows_offset, NULL) == BASE_OK)
            module.rows_size = mapping->blob_size;
        shared_file_module(&load->file, &module);
    }
    shared_file_publish(&load->file, region);
}

struct preparation {
    struct agent_recording *recording;
    struct agent_recording_load *load;
};

static int prepare(void *context, struct loader_agent *agent, struct base_error *error)
{
    struct preparation *preparation = context;
    struct agent_recording_load *load = preparation->load;
    uint64_t offset;
    int result =
        shared_file_begin(&load->file, loader_region_file(agent), &preparation->recording->request, error);
    if (result != BASE_OK)
        return result;
    shared_file_claim_region(&load->file, load->pid, 1);
    publish(load, 0, load->pid);
    struct wire_agent_parameters parameters = {
        .alive = loader_alive(agent),
        .flags = getauxval(AT_HWCAP2) & 2 ? WIRE_AGENT_FSGSBASE : 0,
    };
    shared_file_parameters(&load->file, &preparation->recording->request, loader_region(agent), &parameters);
    if (!loader_image_symbol(preparation->recording->image, "agent_parameters", &offset))
        return BASE_ENOTFOUND;
    return loader_write(agent, offset, &parameters, sizeof parameters, error);
}

static bool load_into(struct agent_recording *recording, pid_t pid)
{
    struct agent_recording_load *load = calloc(1, sizeof *load);
    struct preparation preparation = {recording, load};
    struct shared_file_pieces pieces;
    shared_file_pieces(&recording->request, &pieces);
    const struct loader_options options = {.image = recording->image,
                                           .plans = recording->plans,
                                           .file_size = shared_file_size(&recording->request),
                                           .span = pieces.span,
                                           .pieces = pieces.items,
                                           .piece_count = pieces.count,
                                           .prepare = prepare,
                                           .context = &preparation};
    if (load == NULL || recording->load_count == AGENT_RECORDING_LOADS)
        return fails(recording, "loads");
    load->pid = pid;
    if (loader_load(&recording->helper, pid, true, &options, &load->agents[0], &recording->error) !=
        BASE_OK) {
        free(load);
        return fails(recording, "load");
    }
    recording->loads[recording->load_count++] = load;
    return true;
}

static void adopt(struct agent_recording *recording, struct agent_recording_load *load, uint32_t region)
{
    struct wire_agent_process *process = shared_file_process(&load->file, region);
    uint32_t parent = process->parent - 1;
    if (load->agents[region] == NULL && parent < AGENT_RECORDING_REGIONS && load->agents[parent] != NULL)
        loader_adopt(load->agents[parent], (pid_t)process->pid, &load->agents[region], &recording->error);
}

static void answer(struct agent_recording *recording, struct agent_recording_load *load, uint32_t region)
{
    struct shared_asks asks;
    uint32_t sequence, asked;
    pid_t pid = (pid_t)shared_file_process(&load->file, region)->pid;
    if (!shared_file_request(&load->file, region, &asked, &sequence, &asks))
        return;
    if (asked & WIRE_AGENT_FORKED)
        adopt(recording, load, region);
    if ((asked & WIRE_AGENT_OBJECTS) && load->agents[region] != NULL) {
        loader_update(load->agents[region], &recording->helper, false, true, &recording->error);
        publish(load, region, pid);
    }
    if (asked & WIRE_AGENT_EXEC_FAILED)
        loader_unfollow(&recording->helper, pid);
    if ((asked & WIRE_AGENT_EXEC) &&
        loader_expect_exec(&recording->helper, pid, &recording->error) != BASE_OK)
        fails(recording, "exec");
    shared_file_answer(&load->file, region, sequence);
}

static void answer_doorbells(struct agent_recording *recording)
{
    for (unsigned i = 0; i < recording->load_count; i++) {
        struct agent_recording_load *load = recording->loads[i];
        uint32_t regions = shared_file_regions(&load->file);
        shared_file_control(&load->file)->now_ns += 1000000;
        for (uint32_t region = 0; region < regions && region < AGENT_RECORDING_REGIONS; region++)
            answer(recording, load, region);
    }
}

static void take_events(struct agent_recording *recording)
{
    struct trace_event event;
    struct pollfd socket = {recording->helper.socket, POLLIN, 0};
    if (!helper_trace_pending(&recording->helper))
        poll(&socket, 1, 1);
    while (helper_trace_next(&recording->helper, &event, &recording->error) > 0)
        if (loader_take_event(&recording->helper, &event)) {
            load_into(recording, event.pid);
            loader_unfollow(&recording->helper, event.pid);
        }
}

/* --- the command --- */

static bool launch(struct agent_recording *recording, char *const argv[])
{
    int go[2];
    if (pipe(go) != 0)
        return fails(recording, "pipe");
    recording->pid = fork();
    if (recording->pid == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_PTRACER, (unsigned long)recording->helper.pid, 0ul, 0ul, 0ul);
        close(go[1]);
        if (read(go[0], &byte, 1) == 1) {
            close(go[0]);
            execvp(argv[0], argv);
        }
        _exit(99);
    }
    close(go[0]);
    bool expected = loader_expect_exec(&recording->helper, recording->pid, &recording->error) == BASE_OK;
    if (expected && write(go[1], "g", 1) != 1)
        expected = false;
    close(go[1]);
    return expected || fails(recording, "launch");
}

static void count_hooks(struct agent_recording *recording)
{
    const struct loader_hook *hooks;
    for (unsigned i = 0; i < recording->load_count; i++) {
        size_t count = loader_hooks(recording->loads[i]->agents[0], &hooks);
        for (size_t j = 0; j < count; j++)
            recording->hooks += hooks[j].state != LOADER_REFUSED;
    }
}

bool agent_recording_run(struct agent_recording *recording, char *const argv[])
{
    if (helper_begin(&recording->helper, &recording->error) != BASE_OK)
        return fails(recording, "helper");
    if (!plan(recording) || !launch(recording, argv))
        return false;
    while (wait4(recording->pid, &recording->status, WNOHANG, &recording->usage) == 0) {
        take_events(recording);
        answer_doorbells(recording);
    }
    take_events(recording);
    count_hooks(recording);
    return recording->failed == NULL;
}

void agent_recording_free(struct agent_recording *recording)
{
    for (unsigned i = 0; i < recording->load_count; i++) {
        struct agent_recording_load *load = recording->loads[i];
        for (unsigned region = AGENT_RECORDING_REGIONS; region-- > 0;)
            loader_free(load->agents[region]);
        shared_file_end(&load->file);
        process_space_free(&load->space);
        free(load);
    }
    loader_plans_free(recording->plans);
    loader_image_close(recording->image);
    helper_end(&recording->helper);
}

static bool is_below(const struct shared_tree *tree, uint32_t node, uint64_t low, uint64_t high)
{
    for (unsigned i = 0; node != 0 && node <= tree->node_count && i < 200;
         node = tree->nodes[node].parent, i++)
        if (tree->nodes[node].parent != 0 && tree->nodes[node].pc >= low && tree->nodes[node].pc < high)
            return true;
    return high == 0;
}

static void add_cell(const struct shared_tree *tree, const struct wire_agent_cell *cell,
                     struct agent_recording_figures *sum)
{
    uint64_t live = cell->total - cell->freed_own - cell->freed_other;
    sum->cells++;
    sum->total += cell->total;
    sum->count += cell->count;
    sum->live += live;
    sum->live_count += cell->count - cell->freed_own_count - cell->freed_other_count;
    sum->max += cell->max;
    sum->peak += cell->peak_epoch == tree->process.peak_epoch ? cell->peak : live;
    sum->temporary += cell->temporary;
}

bool agent_recording_read(struct agent_recording *recording, unsigned load, uint32_t region, uint64_t low,
                          uint64_t high, struct agent_recording_figures *figures)
{
    struct shared_tree tree;
    *figures = (struct agent_recording_figures){0};
    if (load >= recording->load_count || region >= shared_file_regions(&recording->loads[load]->file) ||
        shared_file_read(&recording->loads[load]->file, region, &tree, &recording->error) != BASE_OK)
        return false;
    for (uint32_t node = 1; node <= tree.node_count; node++)
        if (tree.nodes[node].cell != 0 && tree.nodes[node].cell <= tree.cell_count &&
            is_below(&tree, node, low, high))
            add_cell(&tree, &tree.cells[tree.nodes[node].cell], figures);
    figures->nodes = tree.node_count;
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        figures->losses += i != WIRE_AGENT_LOSS_UNKNOWN_FREE && i != WIRE_AGENT_LOSS_FRAME_POINTER
                               ? tree.process.losses[i]
                               : 0;
    shared_tree_free(&tree);
    return true;
}
