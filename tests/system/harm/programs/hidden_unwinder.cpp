/* Exceptions that pass through qsort, a function of the C library that is timed: linked with -static-libgcc and stripped, its
 * unwinder has no name. With `waits`, also while standard input has lines. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>

enum { SIZE = 64, ROUNDS = 200, THREADS = 4 };

static __thread int left;

static int compare(const void *a, const void *b)
{
    if (--left == 0)
        throw *static_cast<const int *>(a);
    return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

static int sort_some(int round)
{
    int items[SIZE];
    for (int i = 0; i < SIZE; i++)
        items[i] = (i * 37 + round) % SIZE;
    left = round % 2 ? 1 + round % 50 : SIZE * SIZE;
    try {
        qsort(items, SIZE, sizeof *items, compare);
    } catch (int) {
        return 1;
    }
    for (int i = 0; i < SIZE; i++)
        if (items[i] != i)
            abort();
    return 0;
}

static void *run(void *caught)
{
    for (int i = 0; i < ROUNDS; i++)
        *static_cast<int *>(caught) += sort_some(i);
    return nullptr;
}

static void all()
{
    pthread_t threads[THREADS];
    int caught[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], nullptr, run, &caught[i]) != 0)
            abort();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], nullptr);
        printf("caught %d\n", caught[i]);
    }
    fflush(stdout);
}

int main(int count, char **arguments)
{
    char line[8];
    all();
    if (count > 1 && strcmp(arguments[1], "waits") == 0)
        while (fgets(line, sizeof line, stdin))
            all();
    all();
    return 0;
}
