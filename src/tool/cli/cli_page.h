/* cli_page.h - the reports that a page has beside its profile: what only they know. Function by function what was called how
 * often and whether all of it was counted, losses and coverage, the hottest functions line by line, and the comparison with an
 * earlier profile. Each is the document that the command with --json prints.
 * Context: tool. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <stddef.h>

#include "base_error.h"
#include "export.h"
#include "report.h"

struct cli_page {
    struct export_document *documents;
    size_t count, capacity;
};

enum { CLI_PAGE_MAPS = 16 };

struct cli_page_sources {
    const char *maps[CLI_PAGE_MAPS]; /* "FROM=TO" */
    size_t count;
};

struct cli_page_wish {
    size_t annotated; /* so many of the hottest functions at most */
    const struct cli_page_sources *sources;
    const struct profile *against; /* NULL, or what is compared with */
    const char *against_file;
};

/* `options` has the filters and the name of the file. A report that makes no sense for this profile is left out. On failure nothing
 * is to be freed. */
int cli_page_build(struct cli_page *page, const struct profile *profile, const struct report_options *options,
                   const struct cli_page_wish *wish, struct base_error *error);
void cli_page_free(struct cli_page *page);

#endif
