/* calls_plugin - one of two libraries of the same layout and different names, for calls_dlopen. */
#include "calls_truth.h"
#include "truth.h"

#define TEXT_(a)     #a
#define TEXT(a)      TEXT_(a)
#define JOIN_(a, b)  a##b
#define JOIN(a, b)   JOIN_(a, b)
#define PLUGIN(name) JOIN(PLUGIN_NAME, name)
#define NAME(name)   TEXT(PLUGIN(name))

TRUTH_FUNCTION static int PLUGIN(_leaf)(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

TRUTH_FUNCTION static int PLUGIN(_pointed)(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 2;
}

__attribute__((constructor)) static void PLUGIN(_begin)(void)
{
    CALLS_COUNT("*", NAME(_begin), "");
    for (int i = 0; i < 10; i++)
        CALLS(NAME(_begin), NAME(_leaf), "direct", PLUGIN(_leaf)(i));
}

__attribute__((destructor)) static void PLUGIN(_end)(void)
{
    CALLS_COUNT("*", NAME(_end), "");
    for (int i = 0; i < 20; i++)
        CALLS(NAME(_end), NAME(_leaf), "direct", PLUGIN(_leaf)(i));
    calls_print();
}

int calls_plugin_run(int rounds, int (*back)(int));

int calls_plugin_run(int rounds, int (*back)(int))
{
    int (*volatile pointer)(int) = PLUGIN(_pointed);
    int value = 0;

    CALLS_COUNT("dlopen_drive", "calls_plugin_run", "indirect");
    for (int i = 0; i < rounds; i++) {
        value = CALLS("calls_plugin_run", NAME(_leaf), "direct", PLUGIN(_leaf)(value));
        value = CALLS("calls_plugin_run", NAME(_pointed), "indirect", pointer(value));
        value = CALLS("calls_plugin_run", "dlopen_back", "indirect", back(value));
    }
    return value;
}
