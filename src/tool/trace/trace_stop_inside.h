/* trace_stop_inside.h - what the files trace_stop*.c share; each calls only those below it here. Context:
 * helper. */
#ifndef TRACE_STOP_INSIDE_H
#define TRACE_STOP_INSIDE_H

#include "proc_target.h"
#include "trace_stop.h"

/* --- trace_stop_seize.c --- */

/* Seizes all threads that are not in the table yet: of all processes in it with a follower; else of the
 * process, and its vfork children. Returns how many, or an error. */
int trace_stop_seize_new(struct trace_stop *stop, struct base_error *error);

/* Is the thread ending, or has it ended? Then a refused thread needs no stopping. *facts is set unless it
 * has. */
bool trace_stop_is_ending(pid_t process, pid_t tid, struct proc_target_facts *facts);

/* --- trace_stop_thread.c --- */

/* Handles what waitpid reported of a thread that is in the table. */
int trace_stop_take_status(struct trace_stop *stop, pid_t tid, int status);
/* 1: something happened to the thread, and is handled; the table may have grown. 0: nothing did. */
int trace_stop_wait_once(struct trace_stop *stop, pid_t tid);
/* Between two looks at threads that are about to stop. */
void trace_stop_rest(void);

/* --- trace_stop_table.c --- */

/* Where the thread is in the table, or would be. */
size_t trace_stop_index(const struct trace_stop *stop, pid_t tid);
/* A running thread. BASE_ENOMEM, or BASE_OK. */
int trace_stop_insert(struct trace_stop *stop, pid_t process, pid_t tid);
/* A tid may be given out again: an ended thread must not stand in the way of a new one. */
void trace_stop_forget_gone(struct trace_stop *stop);

#endif
