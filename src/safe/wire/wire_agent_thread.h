/* wire_agent_thread.h - thread records, and whether a thread has frames of the agent on its stack.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_THREAD_H
#define WIRE_AGENT_THREAD_H

#include <stdint.h>

#define WIRE_AGENT_THREADS      16384 /* thread records of a process */
#define WIRE_AGENT_PLACES       32768 /* where thread pointers are looked for */
#define WIRE_AGENT_ENTRY_WORDS  32
#define WIRE_AGENT_THREAD_BYTES (512 * 1024)

/* A thread record; what follows the first line is the agent's own. */
struct wire_agent_thread {
    uint64_t key;    /* the thread pointer; 0: free; one more: being made */
    uint32_t tid;    /* of the thread that it was claimed by last */
    uint32_t inside; /* the agent's: enum wire_agent_inside */
    uint32_t zero[12];
    uint64_t entered_sp; /* the agent's: of the outermost entry that is inside */
};
/* While a thread may have agent frames on its stack. What an entry calls of the program's finds, not far
 * below entered_sp, its return address into the agent, and two words above that, in a frame of the usual
 * form, the word that lies right below entered_sp: the caller's return address. Without these, who was inside
 * has left by a jump or an exception. */
enum wire_agent_inside {
    WIRE_AGENT_OUTSIDE = 0,
    WIRE_AGENT_INSIDE = 1,
    WIRE_AGENT_INSIDE_ALONE = 2,    /* the entry calls nothing of the program's */
    WIRE_AGENT_INSIDE_UNWINDING = 3 /* the same, and it replaces no return address: WIRE_AGENT_ENTRY_UNWIND */
};

/* The part `places` finds a record by its thread pointer: a word is the pointer's 48 bits << 16 | the number
 * of the record; 0: none yet. The agent's own. */
static inline uint64_t wire_agent_place_word(uint64_t key, uint32_t number)
{
    return key << 16 | number;
}

#endif
