/* Waits again and again, in calls that the kernel ends with EINTR only where a handler runs, and has no handler; other threads come and
 * go meanwhile. Works until its standard input ends; prints how many calls were cut short. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;
static volatile int over;

static void *nothing(void *argument)
{
    return argument;
}

static void *churn(void *argument)
{
    while (!over) {
        pthread_t thread;
        pthread_create(&thread, NULL, nothing, NULL);
        pthread_join(thread, NULL);
        usleep(500);
    }
    return argument;
}

static int is_cut(void)
{
    struct timespec moment = {0, 1000000};
    return (poll(NULL, 0, 1) < 0 && errno == EINTR) +
           (clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL) == EINTR);
}

int main(void)
{
    pthread_t threads[4];
    int cut = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, churn, NULL);
    puts("begun");
    fflush(stdout);
    for (struct pollfd input = {.fd = 0, .events = POLLIN}; poll(&input, 1, 0) == 0;) {
        for (int i = 0; i < 20000; i++)
            sink += (unsigned long)i;
        cut += is_cut();
    }
    over = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d calls were cut short\n", cut);
    return 0;
}
