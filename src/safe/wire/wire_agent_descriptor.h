/* wire_agent_descriptor.h - open descriptors of a process, and by which stack each was opened.
 *
 * The word of number n in the part `descriptors`: 0, not open as far as is known; else how it came to be
 * open, the cell of who opened it (of WIRE_AGENT_FDS), and which event that was, of which the lower bits are
 * kept. It changes with each opening, so who reads it twice and finds it the same knows that nothing happened
 * in between.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_DESCRIPTOR_H
#define WIRE_AGENT_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>

/* numbers of descriptors that are followed: the kernel's usual limit */
#define WIRE_AGENT_DESCRIPTORS (1u << 20)

struct wire_agent_descriptor {
    uint64_t word;
    uint64_t since_ns; /* control.now_ns; of the opening that the word is of, but for a moment */
};
enum wire_agent_how {
    WIRE_AGENT_BEFORE = 1,    /* it was open when the agent came */
    WIRE_AGENT_INHERITED,     /* it was open when the process was forked */
    WIRE_AGENT_OPENED,        /* open, creat and their kin */
    WIRE_AGENT_DUPLICATED,    /* dup, fcntl */
    WIRE_AGENT_DUPLICATED_TO, /* dup2, dup3 */
    WIRE_AGENT_FCNTL,         /* fcntl, before it is known that it duplicates */
    WIRE_AGENT_SOCKET,
    WIRE_AGENT_SOCKETPAIR,
    WIRE_AGENT_ACCEPTED,
    WIRE_AGENT_PIPE,
    WIRE_AGENT_EVENT,
    WIRE_AGENT_TIMER,
    WIRE_AGENT_EPOLL,
    WIRE_AGENT_SIGNAL,
    WIRE_AGENT_MEMORY,
    WIRE_AGENT_NOTIFY, /* inotify, fanotify */
    WIRE_AGENT_PIDFD,
    WIRE_AGENT_RECEIVED,      /* recvmsg: in a message */
    WIRE_AGENT_RECEIVED_MANY, /* recvmmsg: in several */
    WIRE_AGENT_HOWS
};
#define WIRE_AGENT_WORD(cell, how, event) ((uint64_t)(cell) | (uint64_t)(how) << 28 | (uint64_t)(event) << 34)
static inline uint32_t wire_agent_word_cell(uint64_t word)
{
    return (uint32_t)(word & 0xfffffff);
}
static inline uint32_t wire_agent_word_how(uint64_t word)
{
    return (uint32_t)(word >> 28 & 63);
}
/* Was it opened after that many events? */
static inline bool wire_agent_word_is_after(uint64_t word, uint32_t events)
{
    return (int32_t)(((uint32_t)(word >> 34) - events) << 2) > 0;
}

#endif
