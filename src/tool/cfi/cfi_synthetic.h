/* cfi_synthetic.h - rows for code that nobody wrote call-frame information for, but whose shape is known
 * (private to the module).
 * Context: tool. */
#ifndef CFI_SYNTHETIC_H
#define CFI_SYNTHETIC_H

#include "cfi_find.h"
#include "cfi_program.h"

/* What the rows of one image are gathered in. */
struct cfi_material {
    const struct elf_image *image;
    const struct arch *arch;
    struct cfi_rules rules;
    struct cfi_row_list rows;
    struct cfi_span_list code; /* executable segments, in order */
};

/* All four append to `spans`, which need not be in order. False: no memory. */

/* A signal trampoline whose rt_sigreturn is at `at`: from one byte before it, since the handler's return
 * address is looked up one byte early. */
bool cfi_synthetic_trampoline(struct cfi_material *material, uint64_t at, uint64_t end,
                              struct cfi_span_list *spans);

/* The linker's .plt, .plt.got and .plt.sec: lld, and every linker on AArch64, describes none of them. */
bool cfi_synthetic_plt(struct cfi_material *material, struct cfi_span_list *spans);

/* The functions _init and _fini. */
bool cfi_synthetic_start_up(struct cfi_material *material, struct cfi_span_list *spans);

/* The program's entry point, when nobody describes it: musl's _start has no call-frame information, and
 * nothing above it. */
bool cfi_synthetic_entry(struct cfi_material *material, struct cfi_span_list *spans);

#endif
