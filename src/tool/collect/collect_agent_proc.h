/* collect_agent_proc.h - what /proc tells of a process. Context: tool. */
#ifndef COLLECT_AGENT_PROC_H
#define COLLECT_AGENT_PROC_H

#include <stdint.h>
#include <sys/types.h>

/* When it began: field 22 of /proc/PID/stat. 0: not to be had. */
uint64_t collect_agent_proc_start(pid_t pid);
/* The process that a thread belongs to; 0: it is gone. */
pid_t collect_agent_proc_of_thread(pid_t tid);

#endif
