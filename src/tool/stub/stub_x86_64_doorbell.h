/* stub_x86_64_doorbell.h - the code of the doorbell (stub_doorbell.h), and of the jump that leads to it.
 *
 *   _dl_debug_state:  jmp doorbell      was: [endbr64] ret and padding, at least five bytes of them
 *
 *   doorbell:  active = 0? return
 *              mine = ++notified; wake one listener
 *              while active and answered - mine < 0:
 *                  a beat since the last look: wait the whole time again
 *                  wait for `answered` to change
 *              return
 *
 *   a function that creates:  jmp stub  was: whole instructions, at least five bytes of them
 *   stub:  is its number one of those? (where an argument says it); call doorbell; those instructions, moved;
 *          jmp behind them
 *
 * It returns as the empty function did, with every general register and the flags as they came; vector
 * registers are not touched. The stack below rsp at a function's entry is nobody's; 96 bytes of it are used,
 * 104 on the way by a stub. A wait that fails in another way than by a signal, by time or by a changed word
 * (seccomp, no futex) is the last one. Rounds that end by a signal or a change count as a 4,096th of one that
 * ends by time: many signals neither make tally appear dead nor keep a thread for ever. Pure: bytes out.
 * Context: tool. Source: Intel SDM volume 2; futex(2). */
#ifndef STUB_X86_64_DOORBELL_H
#define STUB_X86_64_DOORBELL_H

#include "stub_doorbell.h"
#include "stub_x86_64_code.h"

#define STUB_X86_64_DOORBELL_JUMP 5 /* bytes that are replaced */
#define STUB_X86_64_DOORBELL_LOOK                                                                            \
    24 /* bytes to show to stub_x86_64_doorbell_fits; fewer only at the end of the text */

struct stub_x86_64_doorbell {
    uint64_t words;   /* run-time address of the struct stub_doorbell, anywhere */
    uint32_t timeout; /* milliseconds, STUB_DOORBELL_TIMEOUT; not 0 */
    uint32_t rounds;  /* STUB_DOORBELL_ROUNDS, without a beat; below 2^19 */
    uint8_t enabled;  /* offset in struct stub_doorbell of the word that enables it: active, creations */
};

/* Appends the doorbell to `code`, which lies within 2 GiB of the function. Look at code->refused. */
void stub_x86_64_doorbell(struct stub_x86_64_code *code, const struct stub_x86_64_doorbell *doorbell);

/* Appends the stub of a function that creates threads or processes. `argument`: register (x86-64's number,
 * below 8) whose lower half must be one of `numbers`; 0: always. The function's first `length` bytes, whole
 * instructions, are `old`. */
struct stub_x86_64_creation {
    uint64_t function, doorbell; /* run-time addresses */
    const uint8_t *old;
    unsigned length;
    uint8_t argument;
    const uint32_t *numbers;
    size_t number_count;
};
void stub_x86_64_doorbell_stub(struct stub_x86_64_code *code, const struct stub_x86_64_creation *creation);

/* The bytes at the function that lead to the doorbell at `doorbell`; false: out of reach. */
bool stub_x86_64_doorbell_bytes(uint64_t function, uint64_t doorbell,
                                uint8_t fresh[STUB_X86_64_DOORBELL_JUMP]);

/* Is what stands at the function an empty one, five bytes long with its padding: endbr64 and nops, a ret,
 * nops or int3? A nop may reach past the fifth byte, where nothing is changed. False also when a debugger's
 * breakpoint is there. */
bool stub_x86_64_doorbell_fits(const uint8_t *old, size_t available);

#endif
