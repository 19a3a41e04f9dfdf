/* threads [COUNT] [--together] [--forever] [--headless] - COUNT threads that each do the same share of the
 * work. All exist at once; they work one after another unless --together. With --forever they go on until the
 * process is killed, and the first line on stdout says that all have begun. With --headless the first thread
 * ends then. */
#include <pthread.h>
#include <stdatomic.h>

#include "truth.h"

struct crew {
    double seconds; /* of each thread */
    bool together, forever, headless;
    pthread_mutex_t turn;
    pthread_barrier_t begun;
};

TRUTH_FUNCTION void thread_busy(void)
{
    TRUTH_WORK(TRUTH_CHUNK / 4);
}

TRUTH_FUNCTION void thread_work(const struct crew *crew)
{
    double end = truth_clock(CLOCK_THREAD_CPUTIME_ID) + crew->seconds;

    while (crew->forever || truth_clock(CLOCK_THREAD_CPUTIME_ID) < end)
        TRUTH_CALL(thread_busy());
}

TRUTH_FUNCTION void *thread_body(void *data)
{
    struct crew *crew = data;

    pthread_barrier_wait(&crew->begun);
    if (!crew->together)
        pthread_mutex_lock(&crew->turn);
    TRUTH_CALL(thread_work(crew));
    if (!crew->together)
        pthread_mutex_unlock(&crew->turn);
    return NULL;
}

static int run(struct crew *crew, long count)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_t attributes;

    if (threads == NULL || pthread_attr_init(&attributes) != 0)
        return 1;
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    pthread_mutex_init(&crew->turn, NULL);
    pthread_barrier_init(&crew->begun, NULL, (unsigned)count + 1);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attributes, thread_body, crew) != 0) {
            fprintf(stderr, "threads: only %ld could be made\n", i);
            return 1;
        }
    pthread_barrier_wait(&crew->begun);
    printf("begun %ld\n", count);
    fflush(stdout);
    if (crew->headless)
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
    static struct crew crew; /* outlives main */
    crew.seconds = truth.seconds / (double)count;
    crew.together = truth_flag(&truth, "--together");
    crew.forever = truth_flag(&truth, "--forever");
    crew.headless = truth_flag(&truth, "--headless");

    if (truth.asked) {
        printf("contains thread_busy\nstack thread_body;thread_work;thread_busy\norigin thread\n");
        return 0;
    }
    if (run(&crew, count) != 0)
        return 1;
    truth_process();
    return 0;
}
