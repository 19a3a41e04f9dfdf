/* hammer CALLS [THREADS] - threads that call one function, each as often, and do nothing else. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 64

__attribute__((noipa)) static unsigned long hammer_nail(unsigned long value)
{
    return value * 2862933555777941757ul + 3037000493ul;
}

__attribute__((noipa)) static void *hammer_body(void *data)
{
    unsigned long value = 1, calls = *(unsigned long *)data;

    for (unsigned long i = 0; i < calls; i++)
        value = hammer_nail(value);
    return (void *)value;
}

int main(int argc, char **argv)
{
    unsigned long calls = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000000;
    int count = argc > 2 ? atoi(argv[2]) : 2;
    pthread_t threads[THREADS];
    void *value = NULL;

    for (int i = 0; i < count && i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, hammer_body, &calls) != 0)
            return 1;
    for (int i = 0; i < count && i < THREADS; i++)
        pthread_join(threads[i], &value);
    printf("%lu\n", (unsigned long)value);
    return 0;
}
