#include "collect_agent_listen.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"

enum {
    WAITED_MOST = 128, /* futexes in one call, ours among them; more are looked at every TICK_NS */
    TICK_NS = 10000000,
};

#define SECOND 1000000000u

struct heard {
    struct wire_agent_control *control;
    uint32_t seen;
};

struct collect_agent_listener {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    struct heard *items;
    size_t count, capacity;
    bool ending;
    uint32_t changed; /* futex: the list is another one */
    uint64_t start_ns;
    int file;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* Looks at all bells, writes the time, fills what to wait for: the first is our own. */
static unsigned look(struct collect_agent_listener *listener, struct futex_waitv *waits, bool *ending)
{
    bool rung = false;
    unsigned count = 1;
    uint64_t time = now_ns() - listener->start_ns;
    pthread_mutex_lock(&listener->lock);
    waits[0] = (struct futex_waitv){__atomic_load_n(&listener->changed, __ATOMIC_ACQUIRE),
                                    (uintptr_t)&listener->changed, FUTEX_32, 0};
    for (size_t i = 0; i < listener->count; i++) {
        struct heard *heard = &listener->items[i];
        uint32_t now = __atomic_load_n(&heard->control->bell, __ATOMIC_ACQUIRE);
        __atomic_store_n(&heard->control->now_ns, time, __ATOMIC_RELAXED);
        rung |= now != heard->seen;
        heard->seen = now;
        if (count < WAITED_MOST)
            waits[count++] = (struct futex_waitv){now, (uintptr_t)&heard->control->bell, FUTEX_32, 0};
    }
    *ending = listener->ending;
    pthread_mutex_unlock(&listener->lock);
    if (rung)
        eventfd_write(listener->file, 1);
    return count;
}

static void *listen(void *context)
{
    struct collect_agent_listener *listener = context;
    struct futex_waitv waits[WAITED_MOST];
    bool ending;
    for (;;) {
        unsigned count = look(listener, waits, &ending);
        uint64_t until = now_ns() + TICK_NS;
        struct timespec limit = {(time_t)(until / SECOND), (long)(until % SECOND)};
        if (ending)
            return NULL;
        if (syscall(SYS_futex_waitv, waits, count, 0, &limit, CLOCK_MONOTONIC) < 0 && errno == ENOSYS)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

int collect_agent_listener_new(uint64_t start_ns, struct collect_agent_listener **made,
                               struct base_error *error)
{
    struct collect_agent_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    listener->start_ns = start_ns;
    listener->file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&listener->lock, NULL);
    int number = listener->file < 0 ? errno : pthread_create(&listener->thread, NULL, listen, listener);
    if (!number) {
        *made = listener;
        return BASE_OK;
    }
    if (listener->file >= 0)
        close(listener->file);
    free(listener);
    return base_fail_errno(error, number, "a thread that hears of loaded objects");
}

static void change_list(struct collect_agent_listener *listener)
{
    __atomic_fetch_add(&listener->changed, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &listener->changed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void collect_agent_listener_free(struct collect_agent_listener *listener)
{
    if (!listener)
        return;
    pthread_mutex_lock(&listener->lock);
    listener->ending = true;
    pthread_mutex_unlock(&listener->lock);
    change_list(listener);
    pthread_join(listener->thread, NULL);
    pthread_mutex_destroy(&listener->lock);
    close(listener->file);
    free(listener->items);
    free(listener);
}

int collect_agent_listener_file(const struct collect_agent_listener *listener)
{
    return listener->file;
}

int collect_agent_listener_add(struct collect_agent_listener *listener, struct wire_agent_control *control,
                               struct base_error *error)
{
    pthread_mutex_lock(&listener->lock);
    bool room = base_array_room(listener->items, listener->count, listener->capacity);
    if (room)
        listener->items[listener->count++] = (struct heard){.control = control};
    __atomic_store_n(&control->now_ns, now_ns() - listener->start_ns, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&listener->lock);
    change_list(listener);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* A futex call on a page that goes away just fails. */
void collect_agent_listener_forget(struct collect_agent_listener *listener,
                                   const struct wire_agent_control *control)
{
    pthread_mutex_lock(&listener->lock);
    for (size_t i = 0; i < listener->count; i++)
        if (listener->items[i].control == control)
            listener->items[i] = listener->items[--listener->count];
    pthread_mutex_unlock(&listener->lock);
    change_list(listener);
}
