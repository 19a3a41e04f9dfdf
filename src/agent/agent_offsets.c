/* agent_offsets.c - what the agent's assembly needs of structures and constants in C.
 *
 * Nothing of this runs: the file is compiled to assembly, where each OFFSET leaves a line with a number, and
 * agent_offsets.py makes agent_offsets.h of those lines. So assembly cannot disagree with a structure, and
 * nothing of the target is executed, which a cross build could not. Source: Linux, kernel/bounds.c and
 * Kbuild. */
#include <stddef.h>

#include "agent.h"
#include "agent_thread.h"
#include "wire_agent_call.h"
#include "wire_agent_layout.h"
#include "wire_agent_parameters.h"
#include "wire_agent_process.h"

#define OFFSET(name, value) __asm__ volatile(".ascii \"-> " #name " %c0\"" : : "i"(value))
#define LOG2(value)         __builtin_ctzll(value)

_Static_assert((WIRE_AGENT_THREAD_BYTES & (WIRE_AGENT_THREAD_BYTES - 1)) == 0, "RECORD_BITS shifts");
_Static_assert((WIRE_AGENT_BLOCK & (WIRE_AGENT_BLOCK - 1)) == 0, "BLOCK_BITS aligns");
/* The quick entries take 16 bits of a hash for the one and 15 for the other. */
_Static_assert(WIRE_AGENT_SAMPLED == UINT64_C(1) << 16 && WIRE_AGENT_PLACES == UINT64_C(1) << 15,
               "as agent_heap_x86_64_pass.S shifts");
_Static_assert(offsetof(struct agent_thread, shared.key) == 0 &&
                   offsetof(struct wire_agent_calls, count) == 0,
               "as agent_heap_x86_64_pass.S reads them");

void agent_offsets(void);

void agent_offsets(void)
{
    OFFSET(HOOK_BODY, offsetof(struct wire_hook, body));

    OFFSET(FRAME_HOOK, offsetof(struct agent_frame, hook));
    OFFSET(FRAME_RBX, offsetof(struct agent_frame, rbx));
    OFFSET(FRAME_R15, offsetof(struct agent_frame, r15));
    OFFSET(FRAME_SIXTH, offsetof(struct agent_frame, sixth));
    OFFSET(FRAME_BYTES, offsetof(struct agent_frame, return_address));

    OFFSET(PROCESS, offsetof(struct wire_agent_parameters, process));
    OFFSET(ALIVE, offsetof(struct wire_agent_parameters, alive));
    OFFSET(FLAGS, offsetof(struct wire_agent_parameters, flags));
    OFFSET(CODE, offsetof(struct wire_agent_parameters, code));
    OFFSET(CODE_END, offsetof(struct wire_agent_parameters, code_end));
    OFFSET(FORBIDDEN, offsetof(struct wire_agent_parameters, forbidden));
    OFFSET(THREADS, offsetof(struct wire_agent_parameters, threads));
    OFFSET(FSGSBASE, WIRE_AGENT_FSGSBASE);
    OFFSET(FS_SELF, WIRE_AGENT_FS_SELF);
    OFFSET(NO_ARCH_PRCTL, WIRE_AGENT_CALL_ARCH_PRCTL);
    OFFSET(NO_TICKS, WIRE_AGENT_CALL_TICKS);

    OFFSET(STATE, offsetof(struct wire_agent_process, state));
    OFFSET(STATE_FREE, WIRE_AGENT_FREE);
    OFFSET(STATE_RUNNING, WIRE_AGENT_RUNNING);
    OFFSET(UNMAPPED, offsetof(struct wire_agent_process, unmapped));
    OFFSET(PROCESS_ALIVE, AGENT_ALIVE);

    OFFSET(SAMPLED, WIRE_AGENT_SAMPLED_AT);
    OFFSET(PLACES, WIRE_AGENT_PLACES_AT);
    OFFSET(RETURNS, WIRE_AGENT_RETURNS);
    OFFSET(BLOCK_BITS, LOG2(WIRE_AGENT_BLOCK));

    OFFSET(RECORD_BITS, LOG2(WIRE_AGENT_THREAD_BYTES));
    OFFSET(INSIDE, offsetof(struct agent_thread, shared.inside));
    OFFSET(ENTERED_SP, offsetof(struct agent_thread, shared.entered_sp));
    OFFSET(LAST_BLOCK, offsetof(struct agent_thread, last_block));
    OFFSET(UNTIL_SAMPLE, offsetof(struct agent_thread, until_sample));
    OFFSET(CALLS, offsetof(struct agent_thread, calls));
    OFFSET(IS_OUTSIDE, WIRE_AGENT_OUTSIDE);
    OFFSET(IS_INSIDE, WIRE_AGENT_INSIDE);
}
