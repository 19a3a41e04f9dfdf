/* threads [COUNT] [--together] [--forever] [--headless] - COUNT threads that each do the same share of the
 * work. All exist at once; they work one after another unless --together. With --forever they go on until the
 * process is killed, and the first line on stdout says that all have begun. With --headless the first thread
 * ends then. */
#include <pthread.h>
#include <stdatomic.h>

#include "truth.h"

struct pool {
    double seconds; /* of each thread */
    bool together, forever, headless;
    pthread_mutex_t turn;
    pthread_barrier_t begun;
};

TRUTH_FUNCTION void thread_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK / 4);
}

TRUTH_FUNCTION void thread_work(const struct pool *pool)
{
    double end = truth_clock(CLOCK_THREAD_CPUTIME_ID) + pool->seconds;

    while (pool->forever || truth_clock(CLOCK_THREAD_CPUTIME_ID) < end)
        TRUTH_CALL(thread_busy());
}

TRUTH_FUNCTION void *thread_body(void *data)
{
    struct pool *pool = data;

    pthread_barrier_wait(&pool->begun);
    if (!pool->together)
        pthread_mutex_lock(&pool->turn);
    TRUTH_CALL(thread_work(pool));
    if (!pool->together)
        pthread_mutex_unlock(&pool->turn);
    return NULL;
}

static int run(struct pool *pool, long count)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_t attributes;

    if (threads == NULL || pthread_attr_init(&attributes) != 0)
        return 1;
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    pthread_mutex_init(&pool->turn, NULL);
    pthread_barrier_init(&pool->begun, NULL, (unsigned)count + 1);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attributes, thread_body, pool) != 0) {
            fprintf(stderr, "threads: only %ld could be made\n", i);
            return 1;
        }
    pthread_barrier_wait(&pool->begun);
    printf("begun %ld\n", count);
    fflush(stdout);
    if (pool->headless)
        pthread_exit(NULL);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return 0;
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long count = truth_number(&truth, 0, 8);
    static struct pool pool; /* outlives main */
    pool.seconds = truth.seconds / (double)count;
    pool.together = truth_flag(&truth, "--together");
    pool.forever = truth_flag(&truth, "--forever");
    pool.headless = truth_flag(&truth, "--headless");

    if (truth.asked) {
        printf("contains thread_busy\nstack thread_body;thread_work;thread_busy\norigin thread\n");
        return 0;
    }
    if (run(&pool, count) != 0)
        return 1;
    truth_process();
    return 0;
}
