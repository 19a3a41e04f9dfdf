/* plugin - one of two libraries of the same layout and different names, for reuse. */
#include "truth.h"

#define JOIN_(a, b)  a##b
#define JOIN(a, b)   JOIN_(a, b)
#define PLUGIN_BUSY  JOIN(PLUGIN_NAME, _busy)
#define PLUGIN_ENTRY JOIN(PLUGIN_NAME, _entry)

void PLUGIN_BUSY(unsigned long rounds);
void PLUGIN_ENTRY(unsigned long rounds);
void plugin_run(unsigned long rounds);

TRUTH_FUNCTION void PLUGIN_BUSY(unsigned long rounds)
{
    TRUTH_WORK(rounds);
}

TRUTH_FUNCTION void PLUGIN_ENTRY(unsigned long rounds)
{
    TRUTH_CALL(PLUGIN_BUSY(rounds));
}

void plugin_run(unsigned long rounds)
{
    TRUTH_CALL(PLUGIN_ENTRY(rounds));
}
