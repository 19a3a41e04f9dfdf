/* The first bytes of asked() hold a call, which is counted from the start: a push, or an adjustment of the stack, and the call. An object
 * that is loaded later takes asked()'s address, so that it gets a hook over the same bytes; others are loaded after that. */
#include <dlfcn.h>
#include <stdio.h>
__attribute__((noipa)) int inner(int x)
{
    return x * 3;
}
__attribute__((noipa)) int asked(int x)
{
    int result = inner(x);
    return result + 1;
}
static long load(const char *file, const char *name, int rounds)
{
    void *object = dlopen(file, RTLD_NOW);
    if (!object) {
        puts(dlerror());
        return -1;
    }
    return ((long (*)(int))dlsym(object, name))(rounds);
}
int main(int argc, char **argv)
{
    long sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += asked(i);
    printf("%ld ", sum);
    printf("%ld ", load(argv[argc - 2], "run_taker", 5000));
    printf("%ld\n", load(argv[argc - 1], "run_other", 3000));
    return 0;
}
