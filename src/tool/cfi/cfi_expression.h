/* cfi_expression.h - the few DWARF expressions that compilers, linkers and C libraries put into call-frame
 * information, known by their opcodes (private to the module).
 *
 * Expressions are not evaluated: each known form becomes a kind of rule, everything else is odd.
 *   breg r, n; deref [; plus_uconst k | ; lit k; plus | ; const1u k; plus]   CFA in memory: realigned stacks,
 *                                                                           OpenSSL's assembly
 *   breg r, n                                                               CFA = r + n, written the long way
 *   breg sp, 8; breg pc, 0; lit15; and; litN; ge; lit3; shl; plus           the linker's PLT
 * and for a register's place: breg fp, n; breg sp, n; plus_uconst n (from the CFA, which is on the stack).
 * Context: tool. Source: DWARF 5 section 2.5. */
#ifndef CFI_EXPRESSION_H
#define CFI_EXPRESSION_H

#include "arch.h"
#include "cfi_reader.h"
#include "cfi_state.h"

void cfi_expression_cfa(const struct arch *arch, struct cfi_reader bytes, struct cfi_state *state);
struct cfi_column cfi_expression_place(const struct arch *arch, struct cfi_reader bytes);

#endif
