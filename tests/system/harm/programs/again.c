/* again PLUGIN: loads it again and again after the first line of input, goes on when it is open, and ends at the second. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static int use(const char *path, void **library)
{
    *library = dlopen(path, RTLD_NOW);
    int (*function)(int) = *library ? (int (*)(int))dlsym(*library, "again_0") : NULL;
    return function ? function(1) : -1;
}

int main(int count, char **arguments)
{
    char line[8];
    void *library;
    if (count != 2 || write(1, "begun\n", 6) != 6 || read(0, line, sizeof line) <= 0)
        return 2;
    for (int i = 0; i < 300; i++)
        if (use(arguments[1], &library) != 2 || dlclose(library))
            return 1;
    if (use(arguments[1], &library) != 2 || write(1, "open\n", 5) != 5)
        return 1;
    while (read(0, line, sizeof line) > 0)
        ;
    return use(arguments[1], &library) != 2;
}
