/* Opens and closes descriptors in every way there is, and knows what it has open.
 *
 *   fd_rollcall PART
 *
 * Prints results and errno of each call, so that two runs can be compared; and to the file TRUTH, at the end
 * of each process, what is open:
 *
 *   PID used N             descriptors opened by functions that are hooked
 *   PID open NUMBER LINK   as /proc/self/fd has it
 *   PID raw NUMBER         opened by a bare system call, also of the parent, and still open
 *
 * Functions that leave something open are called leave_*. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <sys/pidfd.h>
#endif
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { THREADS = 8, ROUNDS = 2000, RAW_MOST = 16, CLIENTS = 4 };

static atomic_long used;
static int raw[RAW_MOST], raw_count;
static const char *truth_path;
static const char *myself;

/* --- the truth --- */

static void write_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opened and closed by bare system calls: it is none of those that are counted. */
static void write_line(const char *format, ...)
{
    char line[PATH_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (!truth_path)
        return;
    long file = syscall(SYS_openat, AT_FDCWD, truth_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0 || write((int)file, line, (size_t)length) != length)
        abort();
    syscall(SYS_close, file);
}

/* What is open is found by trying: a list would be one more. */
static void tell(void)
{
    for (int number = 0; number < 4096; number++) {
        char path[64], link[PATH_MAX];
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        ssize_t length = readlink(path, link, sizeof link - 1);
        if (length < 0)
            continue;
        link[length] = '\0';
        write_line("%d open %d %s\n", (int)getpid(), number, link);
    }
    for (int i = 0; i < raw_count; i++)
        write_line("%d raw %d\n", (int)getpid(), raw[i]);
    write_line("%d used %ld\n", (int)getpid(), atomic_load(&used));
}

static int said(const char *what, int result)
{
    int number = errno;
    printf("%s = %d, %s\n", what, result, result < 0 ? strerror(number) : "fine");
    errno = number;
    return result;
}

/* Of a call that opens `count` descriptors, if it succeeds. */
static int opened_many(const char *what, int result, int count)
{
    if (result >= 0)
        atomic_fetch_add(&used, count);
    return said(what, result);
}

#define SAID(call)   said(#call, (errno = 0, call))
#define OPENED(call) opened_many(#call, (errno = 0, call), 1)
#define PAIR(call)   opened_many(#call, (errno = 0, call), 2)

static void fail(const char *what)
{
    fprintf(stderr, "fd_rollcall: %s: %m\n", what);
    exit(1);
}

/* A file of this process's own. */
static const char *scratch(const char *what)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/fd_rollcall.%d.%s", (int)getpid(), what);
    return path;
}

/* --- every function --- */

static void call_open(void)
{
    const char *volatile nothing = NULL;
    const char *created = scratch("created");
    OPENED(open("/etc/passwd", O_RDONLY));
    OPENED(open("/proc/nowhere/at/all", O_RDONLY));
    OPENED(open64("/etc/passwd", O_RDONLY | O_CLOEXEC));
    OPENED(openat(AT_FDCWD, "/etc", O_RDONLY | O_DIRECTORY));
    OPENED(openat(77, "passwd", O_RDONLY));
    OPENED(openat64(AT_FDCWD, "/etc/hostname", O_RDONLY));
    OPENED(creat(created, 0600));
    OPENED(creat64("/proc/nowhere/created", 0600));
    OPENED(open(nothing, O_RDONLY));
    SAID(unlink(created));
}

static void call_dup(void)
{
    OPENED(dup(1));
    OPENED(dup(1000));
    OPENED(dup2(1, 60));
    OPENED(dup2(2, 60)); /* over an open one */
    SAID(dup2(60, 60));  /* nothing happens */
    OPENED(dup2(1, -5));
    OPENED(dup3(1, 61, O_CLOEXEC));
    SAID(dup3(61, 61, 0));
    OPENED(fcntl(1, F_DUPFD, 70));
    OPENED(fcntl(1, F_DUPFD_CLOEXEC, 70));
    OPENED(fcntl(1, F_DUPFD, -3));
    SAID(fcntl(1, F_GETFD));
    SAID(fcntl(71, F_SETFD, 0));
    SAID(fcntl(1, F_GETFL) >= 0);
}

static void call_pairs(void)
{
    int pair[2];
    PAIR(pipe(pair));
    SAID(close(pair[0]));
    PAIR(pipe2(pair, O_CLOEXEC));
    PAIR(pipe2(pair, 0x7fffffff));
    PAIR(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    PAIR(socketpair(AF_INET, SOCK_STREAM, 0, pair));
    PAIR(pipe(NULL));
    SAID(close(pair[1]));
}

static void call_kinds(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    OPENED(eventfd(3, EFD_NONBLOCK));
    OPENED(eventfd(3, -1));
    OPENED(timerfd_create(CLOCK_MONOTONIC, 0));
    OPENED(timerfd_create(77, 0));
    int epoll = OPENED(epoll_create(1));
    OPENED(epoll_create(0));
    OPENED(epoll_create1(EPOLL_CLOEXEC));
    int signal_file = OPENED(signalfd(-1, &signals, 0));
    SAID(signalfd(signal_file, &signals, 0)); /* changes that one */
    OPENED(signalfd(-1, &signals, 77));
    OPENED(memfd_create("rollcall", 0));
    OPENED(inotify_init());
    OPENED(inotify_init1(IN_NONBLOCK));
#ifdef __GLIBC__
    OPENED(pidfd_open(getpid(), 0));
    OPENED(pidfd_open(-1, 0));
#endif
    SAID(close(epoll));
    SAID(close(epoll));
    SAID(close(-1));
}

/* A listening socket on the loopback, and its address. */
static int listen_somewhere(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    int server = OPENED(socket(AF_INET, SOCK_STREAM, 0));
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(server, (struct sockaddr *)address, sizeof *address) || listen(server, 64) ||
        getsockname(server, (struct sockaddr *)address, &size))
        fail("listen");
    return server;
}

static int connect_to(const struct sockaddr_in *address)
{
    int client = socket(AF_INET, SOCK_STREAM, 0);
    if (client >= 0)
        atomic_fetch_add(&used, 1);
    if (client < 0 || connect(client, (const struct sockaddr *)address, sizeof *address))
        fail("connect");
    return client;
}

static void call_sockets(void)
{
    struct sockaddr_in address;
    int server = listen_somewhere(&address);
    int one = connect_to(&address);
    OPENED(accept(server, NULL, NULL));
    int two = connect_to(&address);
    OPENED(accept4(server, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    OPENED(socket(-1, 0, 0));
    fcntl(server, F_SETFL, O_NONBLOCK);
    OPENED(accept(server, NULL, NULL));
    OPENED(accept4(one, NULL, NULL, 0));
    SAID(close(two));
}

static void call_stdio(void)
{
    FILE *kept = fopen("/etc/group", "re"), *closed = fopen("/etc/group", "re"),
         *again = fopen("/etc/passwd", "re");
    if (!kept || !closed || !again)
        fail("fopen");
    fclose(closed);
    again = freopen("/etc/group", "re", again);
    DIR *directory = opendir("/etc");
    if (!directory)
        fail("opendir");
    closedir(directory);
    char name[] = "/tmp/fd_rollcall.XXXXXX";
    int temporary = mkstemp(name);
    unlink(name);
    FILE *pipe = popen("true", "r");
    pclose(pipe);
    printf("stdio %d\n", temporary >= 0);
}

static void results(void)
{
    call_open();
    call_dup();
    call_pairs();
    call_kinds();
    call_sockets();
    tell();
}

/* How many fopen and its kin open is theirs to know: only what is open matters. */
static void stdio(void)
{
    call_stdio();
    atomic_store(&used, -1);
    tell();
}

/* --- descriptors in messages --- */

static int send_rights(int socket, const int *numbers, size_t count)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr aligned;
    } control = {{0}};
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), numbers, count * sizeof(int));
    return (int)sendmsg(socket, &message, 0);
}

static int receive_rights(int socket, size_t room)
{
    char control[256] = "", byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room ? control : NULL, .msg_controllen = room};
    return (int)recvmsg(socket, &message, 0);
}

/* So many messages, into as much room for control data as each is given. */
static int receive_many(int socket, const size_t *rooms, unsigned count)
{
    char controls[4][256] = {""}, bytes[4];
    struct iovec parts[4];
    struct mmsghdr messages[4];
    memset(messages, 0, sizeof messages);
    for (unsigned i = 0; i < count; i++) {
        parts[i] = (struct iovec){&bytes[i], 1};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_control = rooms[i] ? controls[i] : NULL;
        messages[i].msg_hdr.msg_controllen = rooms[i];
    }
    return recvmmsg(socket, messages, count, MSG_DONTWAIT, NULL);
}

/* Two, none, one; then three that meet room for one, for nothing, and for more than there is. */
static void rights_in_many(const int *pair)
{
    int many[3] = {0, 1, 2};
    const size_t ample[4] = {256, 256, 256, 256}, scarce[4] = {CMSG_LEN(sizeof(int)), 0, 200, 0};
    SAID(send_rights(pair[0], many, 2));
    SAID((int)send(pair[0], "y", 1, 0));
    SAID(send_rights(pair[0], many, 1));
    opened_many("three received in two of three messages", receive_many(pair[1], ample, 4), 3);
    for (int i = 0; i < 3; i++)
        SAID(send_rights(pair[0], many, 3));
    opened_many("four received in two of three messages", receive_many(pair[1], scarce, 4), 4);
    SAID(receive_many(pair[1], ample, 4));
    SAID(receive_many(pair[1], ample, 0));
#ifdef __GLIBC__ /* musl looks at them itself */
    SAID(recvmmsg(pair[1], NULL, 1, MSG_DONTWAIT, NULL));
    SAID(recvmmsg(pair[1], (struct mmsghdr *)16, 3, MSG_DONTWAIT, NULL));
#endif
}

static void rights(void)
{
    int pair[2], many[3] = {0, 1, 2};
    PAIR(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    SAID(send_rights(pair[0], many, 3));
    opened_many("three received", receive_rights(pair[1], CMSG_SPACE(3 * sizeof(int))), 3);
    SAID(send_rights(pair[0], many, 3));
    opened_many("two fit", receive_rights(pair[1], CMSG_LEN(2 * sizeof(int))), 2);
    SAID(send_rights(pair[0], many, 1));
    SAID(receive_rights(pair[1], 0));
    fcntl(pair[1], F_SETFL, O_NONBLOCK);
    SAID(receive_rights(pair[1], 200));
#ifdef __GLIBC__ /* musl looks at it itself */
    SAID((int)recvmsg(pair[1], NULL, 0));
    SAID((int)recvmsg(pair[1], (struct msghdr *)16, 0));
#endif
    rights_in_many(pair);
    tell();
}

/* --- ranges --- */

static void ranges(void)
{
    for (int i = 0; i < 40; i++)
        if (fcntl(1, F_DUPFD, 100 + i) >= 0)
            atomic_fetch_add(&used, 1);
    SAID((int)syscall(SYS_close, 139)); /* nobody sees it */
#ifdef __GLIBC__
    SAID(close_range(110, 119, 0));
    SAID(close_range(105, 101, 0));
    SAID(close_range(100, 104, CLOSE_RANGE_CLOEXEC));
    SAID(close_range(120, 124, CLOSE_RANGE_UNSHARE));
    OPENED(dup2(1, 300));
    OPENED(dup2(1, 301));
    closefrom(301);
#endif
    raw[raw_count++] = (int)syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
    tell();
}

/* --- threads --- */

static void leave_two(int number)
{
    for (int i = 0; i < 2; i++)
        if (open(number % 2 ? "/etc/passwd" : "/etc/group", O_RDONLY) >= 0)
            atomic_fetch_add(&used, 1);
}

static void *churn(void *argument)
{
    int number = (int)(intptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        int one = open("/dev/null", O_RDWR), two = dup(one);
        atomic_fetch_add(&used, 2);
        if (i % 16 == 0) {
            dup2(one, 200 + number);
            atomic_fetch_add(&used, 1);
        }
        close(one);
        close(two);
    }
    leave_two(number);
    return NULL;
}

static void threads(void)
{
    pthread_t all[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&all[i], NULL, churn, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    tell();
}

/* --- processes --- */

static void wait_for(pid_t child)
{
    int status;
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    printf("child %d\n", status);
}

static void forks(void)
{
    int pair[2];
    PAIR(pipe(pair));
    OPENED(open("/etc/passwd", O_RDONLY));
    raw[raw_count++] = (int)syscall(SYS_openat, AT_FDCWD, "/etc/group", O_RDONLY);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        atomic_store(&used, 0);
        close(pair[1]);
        if (read(pair[0], &byte, 1) != 0)
            abort();
        OPENED(open("/etc/hostname", O_RDONLY));
        SAID(close(pair[0] + 2)); /* its parent's passwd */
        tell();
        fflush(stdout);
        _exit(0);
    }
    close(pair[0]);
    close(pair[1]);
    wait_for(child);
    tell();
}

static void spawn_with_actions(void)
{
    posix_spawn_file_actions_t actions;
    char name[] = "true", *const arguments[] = {name, NULL};
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 7, "/etc/passwd", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 7, 40);
    posix_spawn_file_actions_addclose(&actions, 41);
    if (posix_spawnp(&child, "true", &actions, NULL, arguments, environ))
        fail("posix_spawn");
    wait_for(child);
    posix_spawn_file_actions_destroy(&actions);
}

static void vforks(void)
{
    char name[] = "true", *const arguments[] = {name, NULL};
    OPENED(dup2(1, 40));
    OPENED(dup2(1, 41));
    OPENED(dup2(1, 42));
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        close(42);
        dup2(2, 43);
        if (open("/etc/passwd", O_RDONLY) < 0)
            _exit(1);
        syscall(SYS_close_range, 40, 50, 0);
        close(40);
        execvp("true", arguments);
        _exit(2);
    }
    wait_for(child);
    child = vfork();
    if (child == 0) {
        close(41);
        _exit(0);
    }
    wait_for(child);
    spawn_with_actions();
    if (system("true"))
        fail("system");
    tell();
}

static void execs(void)
{
    OPENED(open("/etc/passwd", O_RDONLY));
    OPENED(open("/etc/group", O_RDONLY | O_CLOEXEC));
    OPENED(open("/etc/hostname", O_RDONLY));
    fflush(stdout);
    execl(myself, myself, "after_exec", (char *)NULL);
    fail("exec");
}

/* 4 or so are of the program before. */
static void after_exec(void)
{
    const char *names[] = {"/etc/passwd", "/etc/group", "/etc/hostname"};
    for (int number = 3; number < 64; number++) {
        char path[64], link[PATH_MAX] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        if (readlink(path, link, sizeof link - 1) > 0 && !strcmp(link, names[2]))
            close(number);
    }
    OPENED(open("/etc/hosts", O_RDONLY));
    tell();
}

static void killed(void)
{
    struct sockaddr_in address;
    OPENED(open("/etc/passwd", O_RDONLY));
    listen_somewhere(&address);
    int closed = OPENED(open("/etc/group", O_RDONLY));
    close(closed);
    tell();
    sleep(3);
    OPENED(open("/etc/hostname", O_RDONLY));
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

/* --- cancellation --- */

static int server_socket, quiet_socket;
static const char *fifo;
static atomic_int cleaned, waiting;

static void clean(void *argument)
{
    (void)argument;
    atomic_fetch_add(&cleaned, 1);
}

static void *wait_in(void *argument)
{
    pthread_cleanup_push(clean, NULL);
    atomic_fetch_add(&waiting, 1);
    switch ((int)(intptr_t)argument) {
    case 0:
        accept(server_socket, NULL, NULL);
        break;
    case 1:
        accept4(server_socket, NULL, NULL, 0);
        break;
    case 2:
        open(fifo, O_RDONLY);
        break;
    default:
        receive_rights(quiet_socket, 200);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancellation(void)
{
    struct sockaddr_in address;
    int pair[2];
    server_socket = listen_somewhere(&address);
    PAIR(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    quiet_socket = pair[0];
    fifo = scratch("fifo");
    if (mkfifo(fifo, 0600))
        fail("mkfifo");
    for (intptr_t i = 0; i < 40; i++) {
        pthread_t thread;
        void *result;
        int before = atomic_load(&waiting);
        pthread_create(&thread, NULL, wait_in, (void *)(i % 4));
        while (atomic_load(&waiting) == before)
            usleep(100);
        if (i % 3)
            usleep(2000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED)
            fail("cancelled");
    }
    unlink(fifo);
    printf("cleaned %d\n", atomic_load(&cleaned));
    tell();
}

/* --- signals --- */

static void open_in_handler(int number)
{
    int saved = errno, file = open("/dev/null", O_RDONLY);
    (void)number;
    if (file >= 0) {
        atomic_fetch_add(&used, 1);
        close(file);
    }
    errno = saved;
}

/* Until it sleeps: in the one call that waits. */
static void wait_until_asleep(pid_t process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    for (;;) {
        int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
        ssize_t length = read(file, text, sizeof text - 1);
        syscall(SYS_close, file);
        text[length > 0 ? length : 0] = '\0';
        const char *name_end = strrchr(text, ')');
        if (!name_end || name_end[2] == 'S')
            return;
        usleep(500);
    }
}

/* A call that waits is interrupted, and its handler opens and closes; then it is interrupted for good. */
static void handlers(void)
{
    struct sockaddr_in address;
    struct sigaction action = {.sa_handler = open_in_handler, .sa_flags = SA_RESTART};
    int server = listen_somewhere(&address);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags = 0;
    sigaction(SIGALRM, &action, NULL);
    fflush(stdout);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (int i = 0; i < 50; i++) {
            wait_until_asleep(parent);
            kill(parent, SIGUSR1);
        }
        wait_until_asleep(parent);
        kill(parent, SIGALRM);
        _exit(0);
    }
    OPENED(accept(server, NULL, NULL));
    wait_for(child);
    tell();
}

/* --- a server under load --- */

static atomic_int stop;
static atomic_long served, failures;
static struct sockaddr_in load_address;

static void *serve(void *argument)
{
    (void)argument;
    while (!atomic_load(&stop)) {
        char byte;
        int peer = accept(server_socket, NULL, NULL);
        if (peer < 0)
            break;
        if (read(peer, &byte, 1) == 1 && write(peer, &byte, 1) == 1)
            atomic_fetch_add(&served, 1);
        close(peer);
    }
    return NULL;
}

static void *ask(void *argument)
{
    (void)argument;
    while (!atomic_load(&stop)) {
        char byte = 'q';
        int client = socket(AF_INET, SOCK_STREAM, 0);
        struct linger linger = {1, 0}; /* no connection is left waiting */
        if (client < 0 || connect(client, (struct sockaddr *)&load_address, sizeof load_address) ||
            write(client, &byte, 1) != 1 || read(client, &byte, 1) != 1 || byte != 'q')
            atomic_fetch_add(&failures, 1);
        setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(client);
        usleep(200);
    }
    return NULL;
}

static void forever(void)
{
    pthread_t servers[CLIENTS], clients[CLIENTS];
    signal(SIGPIPE, SIG_IGN);
    server_socket = listen_somewhere(&load_address);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_create(&servers[i], NULL, serve, NULL);
        pthread_create(&clients[i], NULL, ask, NULL);
    }
    printf("ready\n");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) == 1) {
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    shutdown(server_socket, SHUT_RDWR);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(servers[i], NULL);
    printf("served %d, failures %ld\n", atomic_load(&served) > 0, atomic_load(&failures));
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"results", results},
                 {"stdio", stdio},
                 {"rights", rights},
                 {"ranges", ranges},
                 {"threads", threads},
                 {"forks", forks},
                 {"vforks", vforks},
                 {"execs", execs},
                 {"after_exec", after_exec},
                 {"killed", killed},
                 {"cancellation", cancellation},
                 {"handlers", handlers},
                 {"forever", forever}};
    truth_path = getenv("TRUTH");
    myself = arguments[0];
    for (size_t i = 0; count == 2 && i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(arguments[1], parts[i].name)) {
            parts[i].run();
            return 0;
        }
    return 2;
}
