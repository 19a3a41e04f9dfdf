/* import_pprof.c - profile.proto, the format of pprof. Source: proto/profile.proto of the pprof project.
 *
 * 1. Everything but samples is read first: fields come in any order, and samples name the rest by number
 *    (import_pprof_tables.c).
 * 2. Sample types become counters (import_pprof_counters.c). One that counts samples ("samples", or
 *    "NAME.samples" for one counter of several) is no counter but says how many samples stand behind the
 *    figures of another: of the type that the period is of, else of the next. Without it a counter has no
 *    intervals.
 * 3. Locations become addresses when a sample has them: of the image, if there is a mapping
 *    (import_pprof_places.c). Names are those of the file; what has none is looked for in the image, as
 *    after recording.
 * 4. Samples become cells (import_pprof_samples.c). Labels that name a process or a thread make those;
 *    others are left out, and named in a notice.
 *
 * What tally export writes comes back as it was: marks, exact calls, losses. */
#include <stdlib.h>

#include "base_map.h"
#include "import_formats.h"
#include "import_images.h"
#include "import_pprof.h"
#include "import_proto.h"
#include "import_stack.h"

/* Does every field fit, and is any of them a sample type? The first few will tell. */
bool import_pprof_is(const uint8_t *bytes, size_t size)
{
    struct import_proto whole = import_proto_of(bytes, size);
    struct import_proto_field field;
    bool types = false;
    for (int i = 0; i < 1000 && import_proto_next(&whole, &field); i++) {
        bool is_message = field.number <= IMPORT_PPROF_STRING || field.number == IMPORT_PPROF_PERIOD_TYPE;
        if (field.number > IMPORT_PPROF_LAST_FIELD || (is_message && !field.is_bytes))
            return false;
        types |= field.number == IMPORT_PPROF_SAMPLE_TYPE;
    }
    return types && !whole.corrupt;
}

static int import_all(struct import_pprof *pprof, const uint8_t *bytes, size_t size, struct base_error *error)
{
    struct import_proto whole = import_proto_of(bytes, size);
    pprof->text = malloc(size + 1); /* a string has its terminator in place of its tag and length */
    pprof->nowhere = import_stack_nowhere(pprof->profile);
    if (!pprof->text || !pprof->nowhere)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = import_pprof_tables(pprof, whole, error);
    if (result < 0)
        return result;
    import_pprof_comments(pprof, whole, false);
    if (!import_pprof_counters(pprof))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    result = import_pprof_samples(pprof, whole, error);
    if (result < 0)
        return result;
    import_pprof_comments(pprof, whole, true);
    import_pprof_describe(pprof);
    return BASE_OK;
}

int import_pprof(const uint8_t *bytes, size_t size, const struct import_options *options,
                 struct profile *profile, struct base_error *error)
{
    struct import_pprof pprof = {.profile = profile, .images.profile = profile, .stack.profile = profile};
    (void)options;
    int result = import_all(&pprof, bytes, size, error);
    free(pprof.text);
    free(pprof.strings);
    free(pprof.mappings);
    free(pprof.locations);
    free(pprof.functions);
    base_map_free(&pprof.mapping_of);
    base_map_free(&pprof.location_of);
    base_map_free(&pprof.function_of);
    base_map_free(&pprof.processes);
    base_map_free(&pprof.threads);
    import_images_free(&pprof.images);
    return result;
}
