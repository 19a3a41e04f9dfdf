/* calls_dlsym [CALLS] - asks for functions of a library that was there from the start, and calls them by
 * their addresses. */
#include <dlfcn.h>
#include <stdlib.h>

#include "calls_linkage.h"
#include "calls_truth.h"
#include "truth.h"

TRUTH_FUNCTION int linkage_back(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 4;
}

TRUTH_FUNCTION int dlsym_ask(int calls)
{
    int (*plain)(int), (*caller)(int), value = 0;

    *(void **)&plain = dlsym(RTLD_DEFAULT, "linkage_plain");
    *(void **)&caller = dlsym(dlopen(NULL, RTLD_NOW), "linkage_caller");
    if (plain == NULL || caller == NULL)
        exit(1);
    for (int i = 0; i < calls; i++) {
        value = CALLS("dlsym_ask", "linkage_plain", "indirect", plain(value));
        if (i % 2)
            value = CALLS("dlsym_ask", "linkage_caller", "indirect", caller(value));
    }
    return value;
}

int main(int count, char **arguments)
{
    calls_wait();
    CALLS("main", "dlsym_ask", "direct", dlsym_ask(count > 1 ? atoi(arguments[1]) : 1000));
    calls_print();
    linkage_print();
    return 0;
}
