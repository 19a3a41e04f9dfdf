/* annotate_parts.h - the parts that one function is printed in. Private to src/tool/annotate. Context:
 * tool. */
#ifndef ANNOTATE_PARTS_H
#define ANNOTATE_PARTS_H

#include "annotate_figures.h"

/* The parts. */
void annotate_head(struct annotate *annotate); /* annotate_head.c: what it is, notes, loops */
void annotate_text(struct annotate *annotate); /* annotate_text.c: lines */
int annotate_asm(struct annotate *annotate);   /* annotate_asm.c: instructions */
int annotate_json(struct annotate *annotate);  /* annotate_json.c: everything */
/* The instruction as text, in the syntax that was asked for. annotate_asm.c */
struct code_disassembly;
void annotate_instruction(struct annotate *annotate, struct code_disassembly *disassembly, size_t number,
                          struct base_text *out);

int annotate_loops(struct view_context *context); /* annotate_loops.c: the loops of the whole profile */

#endif
