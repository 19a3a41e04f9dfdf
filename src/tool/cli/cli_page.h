/* cli_page.h - the reports that a page has beside its profile: what only they know. Function by function what
 * was called how often and whether all of it was counted, losses and coverage, the hottest functions line by
 * line, and the comparison with an earlier profile. Each is the document that the command with --json prints.
 * Context: tool. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "cli_profile.h"
#include "export.h"
#include "export_timeline.h"
#include "report.h"
#include "view_select.h"

enum { CLI_PAGE_ANNOTATED = 20, CLI_PAGE_ANNOTATED_MOST = 1000 };

/* What is asked of a page; zero it, set `annotated` to UINT64_MAX. */
struct cli_page_request {
    uint64_t annotated;  /* so many of the hottest functions with their lines; UINT64_MAX: the default */
    const char *against; /* NULL, or the file of an earlier profile */
    struct cli_profile_maps maps;
};

/* The options for it: `member` names the member `page` of what the command reads into, `of` begins the help
 * ("of html: "). */
#define CLI_PAGE_OPTIONS(member, of)                                                                         \
    {.name = "against",                                                                                      \
     .kind = BASE_OPTION_TEXT,                                                                               \
     member(page.against),                                                                                   \
     .argument = "OLD",                                                                                      \
     .help = of "an earlier profile, for colours by difference and what is more than noise"},                \
        {.name = "annotate",                                                                                 \
         .kind = BASE_OPTION_NUMBER,                                                                         \
         member(page.annotated),                                                                             \
         .argument = "N",                                                                                    \
         .maximum = CLI_PAGE_ANNOTATED_MOST,                                                                 \
         .help = of "so many of the hottest functions with source and instructions (default 20)"},           \
        CLI_PROFILE_MAP(member(page.maps), of)

struct cli_page {
    struct export_document *documents;
    size_t count, capacity;
    struct profile *against;
    struct view_selection part; /* of `against` */
    struct export_timeline timeline;
};

/* `options` has the filters, which hold for the earlier profile too, and the name of the file. Puts what it
 * makes into `export`, where it is good until cli_page_free. A report that makes no sense for this profile is
 * left out. On failure nothing is to be freed. */
int cli_page_build(struct cli_page *page, const struct profile *profile, const struct view_options *options,
                   const struct cli_page_request *request, struct export_options *export,
                   struct base_error *error);
void cli_page_free(struct cli_page *page);

#endif
