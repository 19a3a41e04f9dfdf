/* code_function.h - the functions of an image: where each begins and ends, its names, and whether its bytes
 * decode.
 *
 * Reading order of the module: this header (which functions there are), code_instruction.h (one instruction),
 * code_survey.h (a whole image: sites, branch targets, taken addresses), code_flags.h (are the flags dead
 * here?). Everything in the module is a function of bytes: no live process, no host dependence. What is
 * decoded is x86-64; the decoder is Zydis. All addresses are the image's own virtual addresses; `end` is
 * always exclusive. Context: tool, any thread on its own data.
 *
 * Life cycle: gather candidate bounds (`code_bounds_add`, `code_bounds_add_symbols`; the ranges of FDEs come
 * from the cfi module through the caller), then `code_functions_make`. */
#ifndef CODE_FUNCTION_H
#define CODE_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "elf_image.h"

#define CODE_NONE UINT32_MAX /* no function, no entry */

/* Who says that there is a function; bits. */
enum code_origin { CODE_FROM_SYMBOL = 1, CODE_FROM_FDE = 2 };

/* One claim that a function lies in [start, end). */
struct code_bound {
    uint64_t start, end; /* end == start: not known (a symbol without a size); the next claim ends it */
    const char *name;    /* borrowed, must outlive everything made from it; NULL: nameless (an FDE) */
    uint8_t origin;      /* enum code_origin, one bit or both */
    bool fragment;       /* a piece of another function, not a function: see code_function_is_fragment */
};

struct code_bounds {
    struct code_bound *items;
    size_t count, capacity;
};

int code_bounds_add(struct code_bounds *bounds, const struct code_bound *bound, struct base_error *error);
/* Adds the defined FUNC and GNU_IFUNC symbols of .symtab and .dynsym; names point into the image. */
int code_bounds_add_symbols(struct code_bounds *bounds, const struct elf_image *image,
                            struct base_error *error);
void code_bounds_free(struct code_bounds *bounds);

/* True for names of compilers' pieces: NAME.cold, NAME.cold.1, NAME.part.0. False for clones, which are
 * functions: NAME.isra.0, NAME.constprop.0, NAME.lto_priv.0. A name does not decide: GCC's NAME.cold is
 * reached with whatever is live at that moment, LLVM's NAME.cold.1 is called, and NAME.part is what GCC calls
 * the rest of a function whose beginning was inlined, a function itself (plan_pieces.h tells them apart). */
bool code_function_is_fragment(const char *name);
/* NAME.part.0 alone, of those. */
bool code_function_is_part(const char *name);

/* A name and the address that bears it. Those at a function's start are its aliases; others lie inside it
 * (labels that are symbols, second entries of hand-written assembly). */
struct code_entry {
    uint64_t address;
    const char *name;  /* never NULL */
    uint32_t function; /* index */
    bool fragment;
};

struct code_function {
    uint64_t start, end;
    const char *name;     /* of the first entry at the start; NULL: only an FDE speaks of it */
    uint32_t first_entry; /* its entries are entries[first_entry .. first_entry + entry_count), by address */
    uint32_t entry_count;
    uint8_t origin;
    bool fragment; /* every name at its start is a fragment's; false for nameless ones */
    bool cut; /* it claimed more than it got: another function began inside it without ending there too */
};

/* Sorted by start, not overlapping. */
struct code_functions {
    struct code_function *items;
    size_t count;
    struct code_entry *entries; /* sorted by address */
    size_t entry_count;
};

/* Rules: claims with one start are one function; its end is its FDE's, else the longest sized symbol's, else
 * the next function's start or the end of its executable segment. A symbol inside a longer symbol becomes an
 * entry of that. Of two that overlap without nesting the first is cut. What only FDEs claim gets what no
 * symbol covers. Claims outside of the executable segments, or beyond their end, are cut or dropped (hostile
 * files). */
int code_functions_make(const struct code_bounds *bounds, const struct elf_image *image,
                        struct code_functions *functions, struct base_error *error);
void code_functions_free(struct code_functions *functions);

/* The function that holds `address`, or CODE_NONE. */
uint32_t code_functions_find(const struct code_functions *functions, uint64_t address);
/* The first entry at exactly `address`, or CODE_NONE. */
uint32_t code_functions_entry(const struct code_functions *functions, uint64_t address);

/* --- verdicts --- */

/* Why the bytes of a function are not to be trusted. */
enum code_verdict {
    CODE_VERDICT_FINE,             /* decodes from its start to its end exactly */
    CODE_VERDICT_EMPTY,            /* has no bytes */
    CODE_VERDICT_NO_BYTES,         /* its bytes are not in the file */
    CODE_VERDICT_UNDECODABLE,      /* holds bytes that are no instruction */
    CODE_VERDICT_PAST_END,         /* its last instruction reaches past its end */
    CODE_VERDICT_DATA_IN_TEXT,     /* reads data that lie between its instructions */
    CODE_VERDICT_INTO_INSTRUCTION, /* jumps into the middle of one of its instructions */
    CODE_VERDICT_AMBIGUOUS,        /* holds a branch whose length depends on the maker of the processor */
    CODE_VERDICT_CUT,              /* its bounds contradict those of another function */
    CODE_VERDICT_END
};

#endif
