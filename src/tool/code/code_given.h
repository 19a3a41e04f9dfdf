/* code_given.h - does code begin with what a function is given, or with what another piece of code left?
 *
 * A function finds its arguments in six general and eight vector registers; in any other it may find
 * anything, and only saves it. Code that reads one of those first is no function: somebody jumps there with
 * values of his own. Code that reads none may still be a piece of another function. Context: tool. Source:
 * System V ABI AMD64 3.2.3. */
#ifndef CODE_GIVEN_H
#define CODE_GIVEN_H

#include <stdbool.h>
#include <stdint.h>

#include "code_text.h"

/* Looks along the straight way from `address`, past branches not taken, to the first call, jump or return,
 * at most 32 instructions. True: each register that is read there was given or written before. */
bool code_given_only(const struct code_text *text, uint64_t address);

#endif
