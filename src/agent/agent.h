/* agent.h - what runs inside a target: the rules, and what every file of the agent needs.
 *
 * The agent is one position-independent image without undefined symbols, put into a process from outside. It
 * has no thread-local storage, takes no memory from the target, holds no lock that blocks, prints nothing and
 * ends nothing. It runs on the threads of a foreign program, in the middle of their allocators and in their
 * signal handlers, and keeps these rules:
 *
 *   1. Hooks are wrappers. A hooked function's first bytes lead to an entry (agent_hook_x86_64_entry.S),
 *      which saves what its caller would see, and calls the wrapper in C with the same arguments and a struct
 *      agent_frame. The wrapper calls the `body`, which is what the function was; result and errno are its
 *      own. Stacks are walked from the caller on, never through the agent.
 *   2. One thread is inside once. agent_thread_enter is the only way in, and what it returns is the proof
 *      that its caller may use the thread's record; a second entry (an allocator that calls its own
 *      functions, a signal handler that allocates) gets NULL and passes through. An entry that was left by
 *      longjmp is known by its stack pointer (agent_thread.c).
 *   3. Everything that is counted lies in the shared region (wire_agent_control.h), reached by indices that
 *      are checked against constants; when a part is full, that is a counted loss.
 *   4. No C++ exception may meet a frame of the agent: functions that throw are hooked so that the body that
 *      throws is jumped to.
 *
 * What changes outside the region is private to the process: agent_parameters, while it forks, when its child
 * takes a region of its own, and as parts grow; agent_returns, each of which is written once; and struct
 * wire_agent_own. Context of every function: signal, any thread of the target.
 *
 * Directories: src/agent is what all collectors stand on (the region, records of threads, stacks, figures);
 * heap, call and timer are one collector each, and do not know each other; hook has what concerns the whole
 * process, and may use all of them. The wrapper of agent_entry_NAME is agent_wrap_NAME, whatever directory it
 * is in. */
#ifndef AGENT_H
#define AGENT_H

#include <stdint.h>

#include "wire_hook.h"

/* Looked for by its name from outside: it stays in the image, as it is declared, whoever calls it. */
#define AGENT_BY_NAME __attribute__((used))

/* What the entry pushed, and above it the caller's return address. */
struct agent_frame {
    const struct wire_hook *hook;
    uint64_t thread; /* the thread pointer: fs base */
    uint64_t rbx, rbp, r12, r13, r14, r15;
    uint64_t sixth; /* argument */
    uint64_t return_address;
};

/* What a wrapper behind enter_or_answer (agent_hook_x86_64_entry.S) says, in rax and rdx: it was handled, and
 * then the answer; else the body is jumped to, and nothing of ours is on the stack. */
struct agent_answer {
    uint64_t handled, result;
};

#endif
