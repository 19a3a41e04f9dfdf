/* A timer of the program's own, its first, beside threads that are created all the time, until the input
 * ends. What it prints then is whether the timer is there, and its interval. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { INTERVAL_S = 1000, CREATORS = 3 };

static volatile bool ended;

static void *live_shortly(void *argument)
{
    return argument;
}

static void *create_threads(void *argument)
{
    while (!ended) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, live_shortly, NULL))
            pthread_join(thread, NULL);
    }
    return argument;
}

int main(void)
{
    struct sigevent nobody = {.sigev_notify = SIGEV_NONE};
    struct itimerspec time = {{INTERVAL_S, 0}, {INTERVAL_S, 0}};
    pthread_t creators[CREATORS];
    timer_t timer;
    char byte;
    if (timer_create(CLOCK_MONOTONIC, &nobody, &timer) || timer_settime(timer, 0, &time, NULL))
        return 2;
    for (int i = 0; i < CREATORS; i++)
        pthread_create(&creators[i], NULL, create_threads, NULL);
    puts("begun");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    ended = true;
    for (int i = 0; i < CREATORS; i++)
        pthread_join(creators[i], NULL);
    bool there = timer_gettime(timer, &time) == 0;
    printf("there %d interval %ld\n", there, (long)time.it_interval.tv_sec);
    return 0;
}
