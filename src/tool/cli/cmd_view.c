/* tally view: the page of a profile in a browser, without a file. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_text.h"
#include "cli.h"
#include "cli_page.h"
#include "cli_profile.h"
#include "export.h"
#include "serve.h"
#include "view_select.h"

struct view_request {
    const char *counter;
    struct view_part part;
    struct cli_page_request page;
    uint64_t port;
    bool browser, debuginfod;
};

#define MEMBER(member) .offset = offsetof(struct view_request, member)

static const struct base_option view_options[] = {
    {.kind = BASE_OPTION_HEADING, .help = "What is shown, and where"},
    {.name = "counter",
     .kind = BASE_OPTION_TEXT,
     MEMBER(counter),
     .argument = "NAME",
     .help = "these figures only (default: all)"},
    CLI_PAGE_OPTIONS(MEMBER, ""),
    {.name = "port",
     .kind = BASE_OPTION_NUMBER,
     MEMBER(port),
     .argument = "N",
     .maximum = UINT16_MAX,
     .help = "listen there (default: any port that is free)"},
    {.name = "no-browser", .kind = BASE_OPTION_UNFLAG, MEMBER(browser), .help = "only print the address"},
    {.kind = BASE_OPTION_HEADING, .help = "Only a part"},
    CLI_PROFILE_THREADS(MEMBER),
    CLI_PROFILE_IMAGE(MEMBER, "calls"),
    CLI_PROFILE_CPUS(MEMBER, "; then without calls, which are counted by thread"),
    CLI_PROFILE_OVERHEAD(MEMBER),
    {.kind = BASE_OPTION_HEADING, .help = "How names are found"},
    CLI_PROFILE_DEBUGINFOD(MEMBER),
    {0},
};

static const char *const view_notes[] = {
    "Opens $BROWSER, or what xdg-open finds on a desktop, and prints the address. Only this machine reaches "
    "it, and only who knows it; Ctrl-C ends it. tally export --format html writes the same page to a file.",
    "  tally view",
    "  tally view --against before.out after.out",
    NULL,
};

static const struct base_options_command view_command = {
    .name = "tally view",
    .synopsis = {"[OPTIONS] [FILE]"},
    .summary =
        "Show a profile as a page in a browser: flame graphs, functions, callers and callees, source. FILE "
        "is a profile that tally record left (default tally.out).",
    .options = view_options,
    .maximum_arguments = 1,
    .arguments = "FILE",
    .notes = view_notes,
};

/* --- the page --- */

static bool view_keep(void *context, const void *bytes, size_t length)
{
    struct base_text *page = context;
    base_text_add_bytes(page, bytes, length);
    return !page->failed;
}

static int write_page(const struct profile *profile, const struct view_request *request,
                      struct view_options *part, struct base_text *text, struct base_error *error)
{
    struct view_selection selection;
    struct cli_page page;
    int code = view_select(profile, part, &selection, error);
    if (code < 0)
        return code;
    struct export_options options = {
        .format = EXPORT_HTML,
        .part = {.threads = selection.threads, .images = selection.images, .cpus = selection.cpus},
        .counter = request->counter ? selection.counter : 0,
        .preferred = selection.counter,
        .creator = "tally " TALLY_VERSION,
        .file = part->file,
    };
    code = cli_page_build(&page, profile, part, &request->page, &options, error);
    if (code >= 0) {
        code = export_profile(profile, &options, view_keep, text, error);
        if (code == BASE_EIO) /* `keep` has no other reason */
            code = base_fail(error, BASE_ENOMEM, "out of memory for the page");
        cli_page_free(&page);
    }
    view_select_free(&selection);
    return code;
}

static int make_page(const char *file, const struct view_request *request, struct base_text *text,
                     struct base_error *error)
{
    struct profile *profile = NULL;
    struct view_options part = {
        .part = request->part, .counter = request->counter, .file = file, .debuginfod = request->debuginfod};
    if (!export_has_page())
        return base_fail(error, BASE_EUNSUPPORTED,
                         "view: this tally was built without npm and has no page in it; install nodejs and "
                         "npm (make setup) and build it anew, or use tally browse");
    const struct cli_profile_wanted wanted = {
        .lines = true, .debuginfod = request->debuginfod, .part = &request->part};
    int code = cli_profile_load(file, &wanted, &profile, error);
    if (code >= 0)
        code = write_page(profile, request, &part, text, error);
    profile_free(profile);
    return code;
}

/* --- the browser --- */

/* NULL: none that could show anything. */
static const char *find_browser(void)
{
    const char *wanted = getenv("BROWSER");
    const char *screens[] = {getenv("WAYLAND_DISPLAY"), getenv("DISPLAY")};
    if (wanted && *wanted)
        return wanted;
    return (screens[0] && *screens[0]) || (screens[1] && *screens[1]) ? "xdg-open" : NULL;
}

/* Its words are not ours, and signals are not blocked in it. */
static void open_browser(const char *program, const char *address)
{
    char *arguments[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)address, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    pid_t child;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setpgroup(&how, 0); /* Ctrl-C is for us */
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int failed = posix_spawnp(&child, program, &files, &how, arguments, environ);
    if (failed)
        cli_say("cannot start %s: %s; open the address yourself", program, strerror(failed));
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
}

/* --- serving --- */

static void serve_until_signal(const struct serve *serve, int signals, const struct base_text *page)
{
    struct pollfd waiting[] = {{.fd = signals, .events = POLLIN}, {.fd = serve->listening, .events = POLLIN}};
    for (;;) {
        if (poll(waiting, 2, -1) < 0 && errno != EINTR)
            return;
        while (waitpid(-1, NULL, WNOHANG) > 0) /* the browser, if it was one that ends at once */
            ;
        struct signalfd_siginfo info;
        while (waiting[0].revents && read(signals, &info, sizeof info) == sizeof info)
            if (info.ssi_signo != SIGCHLD)
                return;
        if (waiting[1].revents)
            serve_answer(serve, page->data, page->length);
    }
}

static int serve_page(const struct view_request *request, const char *file, const struct base_text *page,
                      struct base_error *error)
{
    struct serve serve;
    sigset_t taken, before;
    sigemptyset(&taken);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGHUP);
    sigaddset(&taken, SIGCHLD);
    if (serve_open(&serve, (uint16_t)request->port, error) < 0)
        return cli_fail(error);
    sigprocmask(SIG_BLOCK, &taken, &before);
    int signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        base_fail_errno(error, errno, "signalfd");
        serve_close(&serve);
        return cli_fail(error);
    }
    printf("%s\n", serve.address);
    fflush(stdout);
    cli_say("%s is at that address until Ctrl-C", file);
    const char *browser = request->browser ? find_browser() : NULL;
    if (browser)
        open_browser(browser, serve.address);
    serve_until_signal(&serve, signals, page);
    close(signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    serve_close(&serve);
    return CLI_OK;
}

int cmd_view(int argc, char **argv)
{
    struct view_request request = {.browser = true, .page.annotated = UINT64_MAX};
    struct base_options_rest rest;
    struct base_error error = {0};
    struct base_text page = {0};
    int status;
    if (!cli_parse(&view_command, argc, argv, &request, &rest, &status))
        return status;
    const char *file = rest.count ? rest.arguments[0] : "tally.out";
    status = make_page(file, &request, &page, &error) < 0 ? cli_fail(&error)
                                                          : serve_page(&request, file, &page, &error);
    base_text_free(&page);
    return status;
}
