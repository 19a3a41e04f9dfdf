#include "loader_listen.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "base_stack.h"

enum {
    WAITED_MOST = FUTEX_WAITV_MAX, /* words in one call, ours among them */
    LOOK_NS = 1000000,             /* between looks at words that are not waited for */
    TICK_NS = 10000000,
    BEAT_NS = STUB_DOORBELL_BEAT * 1000000,
    WORKED_NS = 200000, /* of processors' time: more than waking up takes, and than two clocks differ by */
};

#define SECOND UINT64_C(1000000000)

struct watched {
    const uint32_t *doorbell;
    uint64_t *clock;
    struct stub_doorbell *waits; /* its notifiers wait for an answer; NULL: they do not */
    bool pending;                /* a notification has no answer */
    uint32_t seen, answered;
    uint64_t since_ns; /* the last answer, or the first notification after it */
};

struct loader_listen {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    struct watched *items;
    size_t count, capacity;
    bool ending;
    bool unwoken;       /* waking waiters is refused */
    clockid_t helper;   /* its processor time; 0: not known */
    uint64_t beaten_ns; /* the last beat */
    uint64_t spent_ns;  /* processor time that tally's other threads and the helper had used by then */
    uint32_t changed;   /* futex: the list has changed */
    uint64_t start_ns;
    int file;
};

/* What the thread waits for after a look; `limit_ns` 0: for as long as it takes. */
struct waiting {
    struct futex_waitv words[WAITED_MOST];
    unsigned count;
    uint64_t limit_ns;
    bool ending;
};

static uint64_t time_of(const struct loader_listen *listen)
{
    uint64_t start = __atomic_load_n(&listen->start_ns, __ATOMIC_ACQUIRE); /* before the clock is read */
    return base_clock_now() - start;
}

static void publish_time(const struct loader_listen *listen, const struct watched *watched)
{
    if (watched->clock)
        __atomic_store_n(watched->clock, time_of(listen), __ATOMIC_RELAXED);
}

static void add_word(struct waiting *waiting, const uint32_t *word, uint32_t value)
{
    waiting->words[waiting->count++] = (struct futex_waitv){value, (uintptr_t)word, FUTEX_32, 0};
}

/* Is it time for a beat? Only while tally works: one that sleeps does not bring the answer nearer. */
static bool has_worked(struct loader_listen *listen, uint64_t now)
{
    if (now - listen->beaten_ns < BEAT_NS)
        return false;
    uint64_t before = listen->spent_ns;
    listen->beaten_ns = now;
    listen->spent_ns = base_clock_of(CLOCK_PROCESS_CPUTIME_ID) - base_clock_of(CLOCK_THREAD_CPUTIME_ID);
    if (listen->helper)
        listen->spent_ns += base_clock_of(listen->helper);
    return listen->spent_ns >
           before + WORKED_NS; /* two clocks: without any work it may be less than before */
}

/* False: no notifier waits for an answer. */
static bool beat_doorbell(struct watched *watched, uint64_t now, bool worked)
{
    if (!watched->waits)
        return false;
    uint32_t answered = __atomic_load_n(&watched->waits->answered, __ATOMIC_ACQUIRE);
    if (!watched->pending || answered != watched->answered)
        watched->since_ns = now;
    watched->pending = answered != watched->seen;
    watched->answered = answered;
    if (!watched->pending)
        return false;
    if (worked && now - watched->since_ns < STUB_DOORBELL_LONGEST * UINT64_C(1000000))
        __atomic_add_fetch(&watched->waits->beats, 1, __ATOMIC_RELEASE);
    return true;
}

static void limit_to(struct waiting *waiting, uint64_t limit_ns)
{
    if (!waiting->limit_ns || waiting->limit_ns > limit_ns)
        waiting->limit_ns = limit_ns;
}

/* Looks at all doorbells. The first word to wait for is our own. */
static void look_at_doorbells(struct loader_listen *listen, struct waiting *waiting)
{
    bool notified = false;
    waiting->count = 0;
    waiting->limit_ns = listen->unwoken ? LOOK_NS : 0;
    pthread_mutex_lock(&listen->lock);
    uint64_t look_ns = base_clock_now();
    bool worked = has_worked(listen, look_ns);
    add_word(waiting, &listen->changed, __atomic_load_n(&listen->changed, __ATOMIC_ACQUIRE));
    for (size_t i = 0; i < listen->count; i++) {
        struct watched *watched = &listen->items[i];
        uint32_t now = __atomic_load_n(watched->doorbell, __ATOMIC_ACQUIRE);
        publish_time(listen, watched);
        notified |= now != watched->seen;
        watched->seen = now;
        if (beat_doorbell(watched, look_ns, worked))
            limit_to(waiting, BEAT_NS);
        if (watched->clock)
            limit_to(waiting, TICK_NS);
        if (waiting->count < WAITED_MOST)
            add_word(waiting, watched->doorbell, now);
        else
            limit_to(waiting, LOOK_NS);
    }
    waiting->ending = listen->ending;
    pthread_mutex_unlock(&listen->lock);
    if (notified)
        eventfd_write(listen->file, 1);
}

static void wait_for_all(const struct waiting *waiting)
{
    uint64_t until = base_clock_now() + waiting->limit_ns;
    struct timespec limit = {(time_t)(until / SECOND), (long)(until % SECOND)};
    long result = syscall(SYS_futex_waitv, waiting->words, waiting->count, 0,
                          waiting->limit_ns ? &limit : NULL, CLOCK_MONOTONIC);
    if (result < 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT)
        base_clock_sleep(LOOK_NS);
}

static void *run_listener(void *context)
{
    struct waiting waiting;
    for (look_at_doorbells(context, &waiting); !waiting.ending; look_at_doorbells(context, &waiting))
        wait_for_all(&waiting);
    return NULL;
}

static long wake_waiters(uint32_t *word, int most)
{
    return syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

void loader_listen_wake(uint32_t *word)
{
    wake_waiters(word, INT_MAX);
}

void loader_listen_helper(struct loader_listen *listen, pid_t helper)
{
    clockid_t clock;
    if (clock_getcpuclockid(helper, &clock))
        return;
    pthread_mutex_lock(&listen->lock);
    listen->helper = clock;
    pthread_mutex_unlock(&listen->lock);
}

void loader_listen_restart(struct loader_listen *listen, uint64_t start_ns)
{
    __atomic_store_n(&listen->start_ns, start_ns, __ATOMIC_RELEASE);
}

int loader_listen_new(uint64_t start_ns, struct loader_listen **made, struct base_error *error)
{
    struct loader_listen *listen = calloc(1, sizeof *listen);
    if (!listen)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    listen->start_ns = start_ns;
    listen->unwoken = wake_waiters(&listen->changed, 0) < 0;
    listen->file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&listen->lock, NULL);
    int number = listen->file < 0 ? errno : base_stack_thread(&listen->thread, run_listener, listen);
    if (!number) {
        *made = listen;
        return BASE_OK;
    }
    if (listen->file >= 0)
        close(listen->file);
    free(listen);
    return base_fail_errno(error, number, "a thread that receives notifications");
}

static void change_list(struct loader_listen *listen)
{
    __atomic_fetch_add(&listen->changed, 1, __ATOMIC_RELEASE);
    loader_listen_wake(&listen->changed);
}

void loader_listen_free(struct loader_listen *listen)
{
    if (!listen)
        return;
    pthread_mutex_lock(&listen->lock);
    listen->ending = true;
    pthread_mutex_unlock(&listen->lock);
    change_list(listen);
    pthread_join(listen->thread, NULL);
    pthread_mutex_destroy(&listen->lock);
    close(listen->file);
    free(listen->items);
    free(listen);
}

int loader_listen_file(const struct loader_listen *listen)
{
    return listen->file;
}

static int add_watched(struct loader_listen *listen, struct watched watched, struct base_error *error)
{
    pthread_mutex_lock(&listen->lock);
    bool room = base_array_room(listen->items, listen->count, listen->capacity);
    if (room)
        listen->items[listen->count++] = watched;
    publish_time(listen, &watched);
    pthread_mutex_unlock(&listen->lock);
    change_list(listen);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

int loader_listen_add(struct loader_listen *listen, const uint32_t *doorbell, uint64_t *clock,
                      struct base_error *error)
{
    return add_watched(listen, (struct watched){.doorbell = doorbell, .clock = clock}, error);
}

int loader_listen_add_doorbell(struct loader_listen *listen, struct stub_doorbell *doorbell,
                               struct base_error *error)
{
    return add_watched(listen, (struct watched){.doorbell = &doorbell->notified, .waits = doorbell}, error);
}

/* A futex call on a page that goes away just fails. */
void loader_listen_forget(struct loader_listen *listen, const uint32_t *doorbell)
{
    pthread_mutex_lock(&listen->lock);
    for (size_t i = 0; i < listen->count; i++)
        if (listen->items[i].doorbell == doorbell)
            listen->items[i] = listen->items[--listen->count];
    pthread_mutex_unlock(&listen->lock);
    change_list(listen);
}
