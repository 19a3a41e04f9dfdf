/* cli_profile.h - what the commands that show a profile share: loading it with its names, and their options.
 * Context: tool. */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "base_options.h"
#include "profile.h"
#include "report.h"

struct cli_profile_wanted {
    bool lines;      /* of source, with the names */
    bool debuginfod; /* asked for what is missing */
    /* Only samples from part->from_ns to part->to_ns, if these are set, which is noted for the header; without
     * what is Tally's own, unless part->overhead. NULL: all that the file has, Tally's own among it. */
    const struct view_part *part;
    const char *counter; /* NULL, or what is asked for: refused with a time if it has none */
};

/* Loads a profile and names in memory what its recording had no time to name; the file stays as it is. Shows
 * its progress where that can be wiped away again. A profile without a timeline and a time without samples
 * are refused. The caller frees; nothing to free on failure. */
int cli_profile_load(const char *path, const struct cli_profile_wanted *wanted, struct profile **profile,
                     struct base_error *error);

/* "5%" is a share (*percent), "20" a number of rows (*rows, *percent is then -1); "0.5" could be meant either
 * way and is asked about. */
int cli_profile_limit(const char *argument, double *percent, uint64_t *rows, struct base_error *error);

/* Where sources lie now, "FROM=TO" each; the caller's texts. */
enum { CLI_PROFILE_MAPS = 16 };
struct cli_profile_maps {
    const char *items[CLI_PROFILE_MAPS];
    size_t count;
};

/* The handler of an option whose member is a struct cli_profile_maps. */
int cli_profile_read_map(const struct base_option *option, const char *argument, void *target,
                         struct base_error *error);

/* That option: `member` names the member. */
#define CLI_PROFILE_MAP(member, of)                                                                          \
    {                                                                                                        \
        .name = "source-map", .kind = BASE_OPTION_CALL, .handler = cli_profile_read_map, member,             \
        .argument = "FROM=TO",                                                                               \
        .help = of "sources whose path begins with FROM lie in TO now (may be given several times)"          \
    }

/* The options of every command that looks at a part: `member` names members of what the command reads into,
 * of which `part` is a struct view_part. */
#define CLI_PROFILE_THREADS(member)                                                                          \
    {.name = "thread",                                                                                       \
     .kind = BASE_OPTION_TEXT,                                                                               \
     member(part.thread),                                                                                    \
     .argument = "TID|NAME",                                                                                 \
     .help = "threads of that number or name; * and ? stand for anything"},                                  \
    {                                                                                                        \
        .name = "process", .kind = BASE_OPTION_TEXT, member(part.process), .argument = "PID|NAME",           \
        .help = "processes of that number or name; * and ? stand for anything"                               \
    }
#define CLI_PROFILE_IMAGE(member, calls)                                                                     \
    {                                                                                                        \
        .name = "image", .kind = BASE_OPTION_TEXT, member(part.image), .argument = "NAME",                   \
        .help = "functions of the files of that name (" calls                                                \
                ": callers or callees); * and ? stand for anything"                                          \
    }
#define CLI_PROFILE_CPUS(member, more)                                                                       \
    {                                                                                                        \
        .name = "cpu", .kind = BASE_OPTION_TEXT, member(part.cpus), .argument = "LIST",                      \
        .help = "samples taken on these CPUs: 0,2-5" more                                                    \
    }

#define CLI_PROFILE_PERIOD(member)                                                                           \
    {.name = "from",                                                                                         \
     .kind = BASE_OPTION_DURATION,                                                                           \
     member(part.from_ns),                                                                                   \
     .argument = "TIME",                                                                                     \
     .maximum = 1e8,                                                                                         \
     .help = "samples from that time after the start on: 1.5 (seconds), 200ms, 2m (recorded with "           \
             "--timeline)"},                                                                                 \
    {                                                                                                        \
        .name = "to", .kind = BASE_OPTION_DURATION, member(part.to_ns), .argument = "TIME", .minimum = 1e-9, \
        .maximum = 1e8, .help = "samples before that time (recorded with --timeline)"                        \
    }

#define CLI_PROFILE_OVERHEAD(member)                                                                         \
    {                                                                                                        \
        .name = "with-overhead", .kind = BASE_OPTION_FLAG, member(part.overhead),                            \
        .help = "with the samples that lie in Tally's own code in the target, which are left out otherwise"  \
    }

/* Of every command that names functions: `member` names member debuginfod of what the command reads into. */
#define CLI_PROFILE_DEBUGINFOD(member)                                                                       \
    {                                                                                                        \
        .name = "debuginfod", .kind = BASE_OPTION_FLAG, member(debuginfod),                                  \
        .help = "ask the debuginfod servers of $DEBUGINFOD_URLS for what is missing"                         \
    }

#define CLI_PROFILE_VERBOSE(member)                                                                          \
    {                                                                                                        \
        .name = "verbose", .letter = 'v', .kind = BASE_OPTION_SET, member(header),                           \
        .value = VIEW_HEADER_FULL, .help = "above it, all that is known of the recording"                    \
    }

/* The options of every command that shows a profile as text: `member` names members json, debuginfod, pager
 * (true at first) and color of what the command reads into, `what` is what it prints. */
#define CLI_PROFILE_SHOWN(member, what)                                                                      \
    {.name = "json", .kind = BASE_OPTION_FLAG, member(json), .help = "for machines"},                        \
        CLI_PROFILE_DEBUGINFOD(member),                                                                      \
        {.name = "no-pager",                                                                                 \
         .kind = BASE_OPTION_UNFLAG,                                                                         \
         member(pager),                                                                                      \
         .help = "print long " what " straight to the terminal"},                                            \
    {                                                                                                        \
        .name = "color", .kind = BASE_OPTION_CHOICE, member(color), .argument = "auto|always|never",         \
        .help = "auto: on a terminal, unless NO_COLOR is set"                                                \
    }

#endif
