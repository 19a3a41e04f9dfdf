/* The helper's side: a loop that handles what happened to the threads, reports it to tally, reads a request,
 * does it, and answers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base_clock.h"
#include "helper.h"
#include "helper_silence.h"
#include "helper_wait.h"
#include "helper_wire.h"
#include "helper_work.h"
#include "proc_target.h"

#define WATCH_MS      5 /* between two checks of the time while something is held, or events wait */
#define DRAIN_NS      UINT64_C(2000000000)
#define DRAIN_LOOK_NS 50000
#define SECOND_NS     UINT64_C(1000000000)
#define SOCKET        3 /* behind the three that every process has */
#define AT_ONCE       256
#define EVENTS_HELD   64 /* creations and ends reported together: to wake tally for each would cost more */
#define UNREAD_MOST   (64u << 20) /* bytes of events; a tally that reads none counts as ended */

struct loop {
    struct helper_server server;
    int signals;        /* signalfd; -1: there is none */
    uint64_t since;     /* when the first unsent event came; 0: there is none */
    uint64_t requested; /* when the last request came */
    struct helper_silence silence;
    struct helper_wait wait;
    uint8_t *unsent; /* messages; from `sent` to `unsent_size` */
    size_t sent, unsent_size, unsent_capacity;
};

/* --- messages that tally has not read yet --- */

static bool append_unsent(struct loop *loop, const void *bytes, size_t size)
{
    if (loop->sent) {
        loop->unsent_size -= loop->sent;
        memmove(loop->unsent, loop->unsent + loop->sent, loop->unsent_size);
        loop->sent = 0;
    }
    while (loop->unsent_capacity - loop->unsent_size < size) {
        size_t capacity = loop->unsent_capacity ? 2 * loop->unsent_capacity : 65536;
        uint8_t *grown = capacity <= UNREAD_MOST ? realloc(loop->unsent, capacity) : NULL;
        if (!grown)
            return false;
        loop->unsent = grown;
        loop->unsent_capacity = capacity;
    }
    memcpy(loop->unsent + loop->unsent_size, bytes, size);
    loop->unsent_size += size;
    return true;
}

/* False: tally is gone, or does not read. `wait`: until all is sent. */
static bool send_unsent(struct loop *loop, bool wait)
{
    while (loop->sent < loop->unsent_size) {
        ssize_t sent = helper_wire_put(loop->server.socket, loop->unsent + loop->sent,
                                       loop->unsent_size - loop->sent, wait ? 0 : MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return !wait && (errno == EAGAIN || errno == EWOULDBLOCK);
        loop->sent += (size_t)sent;
    }
    loop->sent = loop->unsent_size = 0;
    return true;
}

static bool send_events(struct loop *loop, bool wait)
{
    struct trace_follow *follow = &loop->server.follow;
    size_t size = follow->event_count * sizeof *follow->events;
    struct helper_message message = {.code = HELPER_EVENTS, .size = size};
    if (size &&
        (!append_unsent(loop, &message, sizeof message) || !append_unsent(loop, follow->events, size)))
        return false;
    follow->event_count = 0;
    follow->urgent = false;
    loop->since = 0;
    return send_unsent(loop, wait);
}

static bool is_due(struct loop *loop)
{
    const struct trace_follow *follow = &loop->server.follow;
    uint64_t now = follow->event_count ? base_clock_now() : 0;
    loop->since = loop->since ? loop->since : now;
    return follow->urgent || follow->event_count >= EVENTS_HELD || loop->unsent_size ||
           now - loop->since >= WATCH_MS * 1000000ull;
}

/* --- requests --- */

/* False: tally is gone. */
static bool answer_request(struct loop *loop, const struct helper_message *request, const void *bytes,
                           int file)
{
    struct base_error error = {0};
    struct helper_answer answer = {.file = -1};
    int code = helper_work(&loop->server, request, bytes, file, &answer, &error);
    answer.message.code = code;
    if (code < 0) {
        answer.bytes = error.text;
        answer.message.size = strlen(error.text);
    }
    bool sent = send_events(loop, true) &&
                !helper_wire_send(loop->server.socket, &answer.message, answer.bytes, answer.file);
    if (answer.file >= 0)
        close(answer.file);
    free(answer.owned);
    return sent;
}

static bool serve_request(struct loop *loop)
{
    struct helper_message request;
    void *bytes = NULL;
    int file;
    if (helper_wire_receive(loop->server.socket, &request, &bytes, &file))
        return false;
    bool served = answer_request(loop, &request, bytes, file);
    free(bytes);
    if (file >= 0)
        close(file);
    loop->requested = base_clock_now();
    helper_silence_end(&loop->silence);
    if (loop->server.suspended)
        helper_silence_found(&loop->silence);
    loop->server.suspended = false;
    return served;
}

/* --- what happened --- */

/* Handles what waitpid reports, but only so much: under a storm of signals tally must be served too. True:
 * there may be more. */
static bool take_stops(struct helper_server *server, struct helper_wait *wait)
{
    for (int i = 0; i < AT_ONCE; i++) {
        int status;
        pid_t tid = helper_wait_next(wait, &status);
        if (tid <= 0)
            return false;
        if (trace_stop_handle_status(&server->once.stop, tid, status) == BASE_ENOTFOUND)
            trace_follow_handle_status(&server->follow, tid, status);
        helper_wait_expect(wait, WIFSTOPPED(status) ? tid : tid + 1);
        helper_wait_expect(wait, server->follow.expected);
    }
    return true;
}

/* Handles timeouts. True while something may have to be done when time has passed. */
static bool watch_time(struct loop *loop)
{
    struct helper_server *server = &loop->server;
    struct trace_stop *once = &server->once.stop;
    uint64_t deadline = helper_silence_deadline(&loop->silence, loop->requested);
    bool ended = once->holding && once->began < deadline;
    if (ended)
        helper_work_resume(server);
    bool waits = trace_follow_poll(&server->follow, deadline, &ended) || once->holding;
    if (ended)
        helper_silence_found(&loop->silence);
    loop->silence.watched = waits;
    return waits;
}

static void drain_signals(struct loop *loop)
{
    struct signalfd_siginfo info;
    while (read(loop->signals, &info, sizeof info) == (ssize_t)sizeof info)
        helper_wait_expect(&loop->wait, (pid_t)info.ssi_pid);
}

/* Until something happens, or timeouts or all threads must be checked. */
static int wait_for_event(struct loop *loop, struct pollfd *files, nfds_t count, bool more, bool watch)
{
    uint64_t rest = helper_wait_rest(&loop->wait), watched = WATCH_MS * UINT64_C(1000000);
    bool unobserved = loop->signals < 0;
    uint64_t longest = watch || unobserved ? watched : UINT64_MAX;
    longest = more ? 0 : rest && rest < longest ? rest : longest;
    struct timespec most = {(time_t)(longest / SECOND_NS), (long)(longest % SECOND_NS)};
    int ready = ppoll(files, count, longest == UINT64_MAX ? NULL : &most, NULL);
    if (ready >= 0 || errno == EINTR)
        return ready;
    return poll(files, count,
                longest == UINT64_MAX ? -1 : (int)(longest / 1000000)); /* ppoll is refused by a filter */
}

/* False: tally is gone. */
static bool run_once(struct loop *loop)
{
    struct trace_follow *follow = &loop->server.follow;
    bool more = take_stops(&loop->server, &loop->wait), watch = watch_time(loop);
    if (follow->broken || (is_due(loop) && !send_events(loop, false)))
        return false;
    watch = watch || follow->event_count;
    short wanted = loop->unsent_size ? POLLIN | POLLOUT : POLLIN;
    struct pollfd files[] = {
        {loop->server.socket, wanted, 0}, {loop->signals, POLLIN, 0}, {follow->ends, POLLIN, 0}};
    int ready = wait_for_event(loop, files, 3, more, watch);
    if (ready < 0)
        return errno == EINTR;
    if (files[1].revents)
        drain_signals(loop);
    if (files[2].revents)
        trace_follow_poll_ends(follow);
    if (files[0].revents & POLLIN)
        return serve_request(loop);
    return !(files[0].revents & (POLLHUP | POLLERR));
}

/* --- beginning and end --- */

/* Beside a busy target on few processors, the helper must not wait for a processor: while it waits, some
 * threads of the target are stopped. */
static void raise_priority(void)
{
    struct sched_param least = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &least))
        setpriority(PRIO_PROCESS, 0, -20); /* without the privilege, neither works */
}

/* Of the numbers from..to; one by one where close_range is refused. */
static void close_between(int from, int to)
{
    const struct dirent *entry;
    DIR *all = from <= to && close_range((unsigned)from, (unsigned)to, 0) ? opendir("/proc/self/fd") : NULL;
    while (all && (entry = readdir(all))) {
        int file = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] != '.' && file >= from && file <= to && file != dirfd(all))
            close(file);
    }
    if (all)
        closedir(all);
}

/* The other end of the socket is among them: while the helper has that open, it is never notified that tally
 * has ended. */
static void close_others(int socket)
{
    close_between(SOCKET, socket - 1);
    close_between(socket + 1, INT_MAX);
}

/* The helper gives up the terminal's signals, tally's descriptors and tally's working directory. */
static void daemonize_helper(int *socket)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL); /* else no stop is reported */
    setsid();
    prctl(PR_SET_NAME, "tally-helper");
    prctl(PR_SET_TIMERSLACK, 1000);
    raise_priority();
    if (*socket != SOCKET && dup2(*socket, SOCKET) == SOCKET)
        *socket = SOCKET;
    int null = open("/dev/null", O_RDWR);
    for (int file = 0; file <= 2 && null >= 0; file++)
        dup2(null, file);
    close_others(*socket);
    /* A message that is sent only in part (tally was stopped in the middle of it) must not keep the target
     * stopped. */
    struct timeval timeout = {HELPER_TIMEOUT_MS / 1000, 0};
    setsockopt(*socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    setsockopt(*socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (chdir("/"))
        return; /* the only consequence: the directory stays busy */
}

static void begin_loop(struct loop *loop, int socket)
{
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    loop->server.socket = socket;
    loop->server.once.memory.file = -1;
    helper_silence_begin(&loop->silence, proc_target_own_parent());
    /* Either may be refused, and a signalfd gets no signals that are not blocked. */
    loop->signals =
        sigprocmask(SIG_BLOCK, &children, NULL) ? -1 : signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    trace_follow_begin(&loop->server.follow);
}

/* Threads that were interrupted, in order to be detached, may not have stopped yet: if this process ended
 * now, their calls would be interrupted and answer EINTR. */
static void drain_stops(struct helper_server *server)
{
    struct helper_wait wait = {0};
    uint64_t began = base_clock_now();
    while ((trace_stop_awaits(&server->once.stop) || trace_follow_awaits(&server->follow)) &&
           base_clock_now() - began < DRAIN_NS)
        if (!take_stops(server, &wait))
            base_clock_sleep(DRAIN_LOOK_NS);
}

_Noreturn void helper_serve(int socket)
{
    struct loop loop = {0};
    daemonize_helper(&socket);
    begin_loop(&loop, socket);
    while (run_once(&loop))
        ;
    if (loop.server.once.stop.holding)
        helper_work_resume(&loop.server);
    drain_stops(&loop.server);
    trace_follow_end(&loop.server.follow);
    _exit(0); /* the kernel then detaches threads that run or linger */
}
