#include "import.h"

#include <string.h>

#include "import_formats.h"
#include "wire_loss.h"

/* In the order in which they are tried: what has the surest marks first. */
static const struct {
    enum import_format format;
    const char *name, *shown;
    import_test *is;
    import_reader *read;
} formats[] = {
    {IMPORT_PERF, "perf.data", "perf.data", import_perf_is, import_perf},
    {IMPORT_GPERFTOOLS, "gperftools", "gperftools", import_gperftools_is, import_gperftools},
    {IMPORT_FOLDED, "folded", "folded stacks", import_folded_is, import_folded},
    {IMPORT_PPROF, "pprof", "pprof", import_pprof_is, import_pprof},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static const char imported_from[] = "imported from ";

static int index_of(enum import_format format)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].format == format)
            return i;
    return -1;
}

enum import_format import_recognise(const uint8_t *bytes, size_t size)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].is(bytes, size))
            return formats[i].format;
    return IMPORT_UNKNOWN;
}

int import_profile(const uint8_t *bytes, size_t size, const struct import_options *options,
                   struct profile **profile, struct base_error *error)
{
    int format = index_of(options->format ? options->format : import_recognise(bytes, size));
    if (size > 16 && !memcmp(bytes, "SQLite format 3", 16))
        return base_fail(error, BASE_EFORMAT, "%s is a Tally profile, or another database, already",
                         options->file);
    if (format < 0)
        return base_fail(error, BASE_EFORMAT,
                         "%s is nothing that can be imported: there are readers for " IMPORT_FORMAT_LIST,
                         options->file);
    struct profile *fresh = profile_new();
    if (!fresh)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = formats[format].read(bytes, size, options, fresh, error);
    profile_set_meta(fresh, "imported", formats[format].name);
    profile_set_meta(fresh, "mode", "import");
    profile_set_metaf(fresh, "engine", "%s%s", imported_from, formats[format].shown);
    if (!profile_meta(fresh, "import_partial"))
        profile_set_meta(fresh, "complete", "1");
    if (result == BASE_OK && fresh->losses[WIRE_LOSS_OUT_OF_MEMORY]) /* the half of a file is of no use */
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = profile_check(fresh, error);
    if (result < 0) {
        profile_free(fresh);
        return base_fail_context(error, result, "%s", options->file);
    }
    *profile = fresh;
    return BASE_OK;
}
