/* agent_record.h - where the records of threads are, and whose each is. */
#ifndef AGENT_RECORD_H
#define AGENT_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_thread.h"

/* in a record's key, until it is complete: thread pointers are even */
#define AGENT_RECORD_MAKING UINT64_C(1)

/* The record of that thread pointer, complete or not. `claimed` not NULL: takes one if there is none, and
 * says so; it is this thread's pointer then. NULL: there is none. */
struct agent_thread *agent_record_find(uint64_t key, bool *claimed);
/* Would it look for one? Not soon after none was free. */
bool agent_record_may_claim(void);
/* Bytes from this thread's pointer to where the C library keeps its number; 0: nowhere that is found. */
uint32_t agent_record_tid_offset(uint64_t key, uint32_t tid);

#endif
