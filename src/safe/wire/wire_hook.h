/* wire_hook.h - what the code at a hooked function gives to the agent.
 *
 *   function:  jmp stub              stub:  lea r11, [rip+hook]
 *                                           jmp [rip+hook.handler]
 *                                    body:  the moved first instructions; jmp behind them
 *                                    hook:  struct wire_hook
 *
 * At the handler every register is as the function's caller left it, rax too (al counts the vector registers
 * of a variadic call), but r11, which holds the address of the structure; [rsp] is the caller's return
 * address. What `body` does when it is called, or jumped to, is what the function did before. The target can
 * read and execute this memory, and not write it; it is complete before anything leads to the stub, and
 * changes no more. A *whole* hook is one of a function whose callers may rely on anything (functions of one
 * file agree on registers as they like): its stub begins with push r11, so that [rsp] is what r11 was, and
 * [rsp + 8] the caller's return address. Context: plain structure, any. */
#ifndef WIRE_HOOK_H
#define WIRE_HOOK_H

#include <stdint.h>

struct wire_hook {
    uint64_t handler;  /* run-time address in the agent */
    uint64_t body;     /* run-time address */
    uint64_t function; /* run-time address of the hooked function's first byte */
    uint64_t cookie;   /* the agent's own: which function it is */
};
_Static_assert(sizeof(struct wire_hook) == 32, "shared layout");

#endif
