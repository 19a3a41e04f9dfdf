/* report_latency.h - the view of how long calls took: --latency. Private to src/tool/report.
 * Context: tool. */
#ifndef REPORT_LATENCY_H
#define REPORT_LATENCY_H

#include "report_view.h"

/* The counter that the view's header is about: it is there where calls were timed. */
#define REPORT_LATENCY_COUNTER "function.time"

#endif
