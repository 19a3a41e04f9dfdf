/* function_rig.h - functions of this process that the agent times, for the tests of that. */
#ifndef FUNCTION_RIG_H
#define FUNCTION_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <ucontext.h>

#include <cmocka.h>

#include "agent_rig.h"

#define AWAY __attribute__((noinline, noclone))

enum {
    CALLS = 1000,
    THREADS = 8,
    NEAR_BYTES = 512,
    DEPTHS = 12000,
    DEPTH_BYTES = 32 /* AddressSanitizer's step of alloca() */
};
enum { MANY_THREADS = 80, GROUPS = 64 }; /* so many threads have histograms of their own */

typedef long timed_function(long depth);

/* What stands where the return address of the caller's caller... of whoever calls this, is. */
#define RETURN_ADDRESS() ((uint64_t)__builtin_extract_return_addr(__builtin_return_address(0)))

extern struct agent_rig function_rig;
extern timed_function *function_timed, *function_unwinder;
extern jmp_buf function_jump;
extern ucontext_t function_outside, function_inside;
extern uint64_t function_seen, function_seen_after, function_seen_by_unwinder;

AWAY long function_unwinder_body(long value);

/* 0: returns; 1: unwinds first; 2: jumps out; 3: forks; 4: waits on its stack; more: calls itself that often
 * less ten. */
AWAY long function_timed_body(long what);

int function_set_up(void **state);

int function_tear_down(void **state);

AWAY long function_caller(long what);

AWAY long function_second_caller(long what);

bool function_is_in(const void *function, uint64_t address);

uint64_t function_calls_of(const struct wire_agent_process *process);

const struct wire_agent_latency *function_latencies(const struct wire_agent_process *process);

uint64_t function_calls_in_histograms(const struct wire_agent_process *process);

void function_no_losses(void);

#endif
