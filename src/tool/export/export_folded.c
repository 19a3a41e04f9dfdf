/* export_folded.c - one line a distinct stack: its frames from the outermost inwards, joined by ';', a blank
 * and a whole number. As stackcollapse scripts do, the process's name comes first. Only positive figures can
 * be drawn: others are left out. */
#include <stdlib.h>
#include <string.h>

#include "export_formats.h"
#include "export_tree.h"

struct folded {
    const struct export_tree *tree;
    struct export_output *output;
    const struct export_figure *self;
    bool samples;
    struct base_text path;
};

static const char *folded_name_of(const struct folded *folded, uint32_t branch)
{
    const struct export_frames *frames = folded->tree->frames;
    return frames->names[frames->frames[folded->tree->branches[branch].frame].function];
}

static bool folded_enter(void *context, uint32_t branch)
{
    struct folded *folded = context;
    const struct export_figure *self = &folded->self[branch];
    base_text_add(&folded->path, folded->path.length ? ";" : "");
    base_text_add(&folded->path, folded_name_of(folded, branch));
    uint64_t figure = folded->samples ? self->samples : self->value > 0 ? (uint64_t)self->value : 0;
    if (figure && !folded->path.failed) {
        export_output_bytes(folded->output, folded->path.data, folded->path.length);
        export_output_bytes(folded->output, " ", 1);
        export_output_unsigned(folded->output, figure);
        export_output_bytes(folded->output, "\n", 1);
    }
    return !folded->path.failed;
}

static void folded_leave(void *context, uint32_t branch)
{
    struct folded *folded = context;
    size_t length = strlen(folded_name_of(folded, branch));
    folded->path.length -= length < folded->path.length ? length + 1 : length;
}

static bool write_stacks(struct export_job *job, struct export_tree *tree)
{
    struct folded folded = {.tree = tree, .output = job->output, .samples = job->options->samples};
    struct export_figure *self = calloc(tree->count, sizeof *self);
    struct export_visitor visitor = {.enter = folded_enter, .leave = folded_leave, .context = &folded};
    bool done = self && export_frames_write_names(tree->frames, EXPORT_ESCAPE_FOLDED, job->options->marks);
    if (done) {
        folded.self = self;
        if (job->counter_count)
            export_tree_figures(tree, job->counters[0], self, NULL);
        done = export_tree_walk(tree, &visitor);
    }
    base_text_free(&folded.path);
    free(self);
    return done;
}

bool export_folded(struct export_job *job)
{
    struct export_frames frames;
    struct export_tree tree = {
        .frames = &frames, .apart = job->options->threads ? EXPORT_BY_THREAD : EXPORT_BY_NAME, .marks = true};
    bool done = export_frames_init(&frames, job->profile, EXPORT_DETAIL_INLINES) &&
                export_tree_build(&tree, job->options) && write_stacks(job, &tree);
    export_tree_free(&tree);
    export_frames_free(&frames);
    return done;
}
