/* wire_agent_request.h - what the agent asks of tally, and how long it waits for the answer.
 *
 * The agent sets bits in process.request, or for a request of one thread takes a word of process.asks; then
 * it adds one to process.request_sequence and to control.doorbell, and wakes that futex (shared). Tally reads
 * request_sequence, takes all bits (exchange with 0) and words, does what they ask, stores the sequence it
 * read into answer_sequence and wakes that futex. A thread that waits, waits for its own sequence; others may
 * come meanwhile.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_REQUEST_H
#define WIRE_AGENT_REQUEST_H

/* times patience_ms that a request waits in all: as long as the doorbell of exact calls */
#define WIRE_AGENT_PATIENCE_MOST 50

/* Bits of process.request. */
enum wire_agent_request {
    WIRE_AGENT_OBJECTS = 1, /* new objects were mapped, or old ones unmapped; nobody runs the new ones yet */
    WIRE_AGENT_EXEC = 2,    /* the thread is about to execve */
    /* it did not happen; nobody waits. Beside EXEC it is the older one: to be seen to first */
    WIRE_AGENT_EXEC_FAILED = 4,
    WIRE_AGENT_FORKED = 8, /* this region was taken by a child just now; nobody waits */
    WIRE_AGENT_END = 16, /* the thread ends the process now: what it has can be looked at until the answer */
};

/* A word of `asks`: thread << 32 | enum wire_agent_request; 0: free. The agent takes one that is free, tally
 * takes all words. */
#define WIRE_AGENT_ASKS       64
#define WIRE_AGENT_OF_THREADS (WIRE_AGENT_EXEC | WIRE_AGENT_EXEC_FAILED | WIRE_AGENT_END)

#endif
