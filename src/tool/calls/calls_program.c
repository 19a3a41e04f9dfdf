/* What is known of a program before its calls are counted: whether they can be, whether it traces others, and
 * its plan ahead of time. */
#include "calls_inside.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_read.h"
#include "helper_trace.h"
#include "proc_target.h"
#include "proc_translator.h"
#include "space_imports.h"
#include "wire_loss.h"

enum { ENVIRONMENT_MOST = 1 << 16 }; /* bytes that are looked at */

static bool is_in_environment(pid_t pid, const char *text)
{
    struct base_text environment = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    base_read_file(path, ENVIRONMENT_MOST, &environment);
    bool found =
        environment.length && memmem(environment.data, environment.length, text, strlen(text)) != NULL;
    base_text_free(&environment);
    return found;
}

/* A leak checker reads its process's threads by ptrace when the program ends, and fails under another
 * tracer. */
int calls_program_refuse(struct calls *calls, const struct space *space, struct base_error *error)
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

bool calls_program_traces(struct calls *calls, const struct space *space)
{
    const struct elf_image *program = program_of(space, calls->session.images.images);
    return program && space_imports_ptrace(program);
}

int calls_program_free_traced(struct calls *calls, const struct space *space, struct base_error *error)
{
    return calls_program_traces(calls, space)
               ? helper_trace_detach_children(&calls->session.helper, space->pid, error)
               : BASE_OK;
}

void calls_program_publish_freed(struct calls *calls, pid_t parent)
{
    struct base_error why = {0};
    char what[80], name[32] = "";
    proc_target_name(parent, parent, name, sizeof name);
    snprintf(what, sizeof what, "children of process %d%s%.15s%s are not counted", (int)parent,
             name[0] ? " (" : "", name, name[0] ? ")" : "");
    base_fail(&why, BASE_EBUSY, "it may trace them, and each can have one tracer");
    calls_note(calls, what, &why);
    profile_lose(calls->session.profile, WIRE_LOSS_CALLS_FREED, 1);
}

bool calls_program_plan(const struct space *space, struct space_session *session)
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
