/* plan_gs.h - does code of an image set the base of the segment gs? Then a counter that is found by gs (form
 * THREAD) would be sought wherever the program set it.
 *
 * For images that have no plan, whose instructions are not decoded: bytes are searched for wrgsbase, and for
 * the numbers of arch_prctl(ARCH_SET_GS) in two moves to registers near each other. An image may have these
 * by chance, which costs speed; WebAssembly that was compiled ahead of time (wasm2c, RLBox) has both by
 * intent. A plan decodes instructions and is exact (plan.h, gs_users). Pure. Context: tool, any thread.
 * Source: Intel SDM volume 2, WRFSBASE/WRGSBASE; arch_prctl(2). */
#ifndef PLAN_GS_H
#define PLAN_GS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf_image.h"

bool plan_gs_is_set(const struct elf_image *image);
/* The same of bytes of code. */
bool plan_gs_is_set_in(const uint8_t *code, size_t size);

#endif
