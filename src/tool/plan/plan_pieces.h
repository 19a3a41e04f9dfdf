/* plan_pieces.h - which pieces of code are functions, and which are the other half of one.
 *
 * A compiler may put what seldom runs of a function elsewhere: a piece with a symbol (NAME.cold) or none, and
 * an FDE of its own, like any function. A jump to it is no call, and whatever is live there - flags, the red
 * zone, registers - is live across the jump. It may also cut a function in two that are functions
 * (NAME.part.0), the second of which is only ever reached by tail jumps. What a piece is:
 *
 *   1. it has a name that no compiler gives to pieces (code_function_is_fragment): a function;
 *   2. something calls it: a function, whatever its name;
 *   3. at its start the frame holds more than a return address, by its FDE: half of a function. (What the
 *      loader begins with is none, whatever its frame.) A nameless one whose address is taken is a function
 *      otherwise;
 *   4. it is a target of a switch or an exception, or NAME.cold, which nobody calls and which GCC has cut off
 *      a function: half of one. NAME.part is a function otherwise;
 *   5. any other is nameless and entered by jumps alone. It is a function if all of them are unconditional
 *      and made with nothing but a return address on the stack, if it reads no register before writing it
 *      that a function is not given, and if it and no other function (but halves) jump into each other's
 *      middle. (10 programs and libraries with symbols, once more stripped: of 36,683 jumps that were counted then
 *      one was none; 332 were missing.)
 *
 * By 5 a half that ends a leaf function may still pass for a function, where it needs nothing but arguments
 * and does not come back. Then an edge is counted that no source has, and nothing worse: a jump's stub
 * changes neither registers nor what lies below rsp, and flags are looked at one by one (code_flags.h). A
 * hook would use the stack, so what is a function by 5 alone gets none.
 *
 * A jump to what 1 and 2 do not know is a tail call only with nothing but a return address on the stack:
 * `within` says which are not. (To what they know, no other jump than a tail call can lead; call-frame
 * information written by hand is not always right.) Context: tool. */
#ifndef PLAN_PIECES_H
#define PLAN_PIECES_H

#include "plan_draft.h"

/* Fills draft->of[].piece and draft->within from functions, survey and call-frame information. */
int plan_pieces_judge(struct plan_draft *draft, struct base_error *error);

#endif
