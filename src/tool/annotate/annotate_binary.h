/* annotate_binary.h - the file behind an image of the profile, if it is still the one that was profiled, and
 * the code of one function in it. Context: tool. */
#ifndef ANNOTATE_BINARY_H
#define ANNOTATE_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_map.h"
#include "base_text.h"
#include "code_graph.h"
#include "code_loops.h"
#include "code_survey.h"
#include "code_text.h"
#include "elf_image.h"
#include "profile.h"
#include "symbol.h"

struct annotate_binary {
    const struct profile *profile;
    uint32_t image;
    struct elf_image *elf; /* NULL: cannot be had */
    struct symbol_file *symbols;
    struct code_text memory;
    bool aarch64;
    struct base_text why;       /* it cannot be had; else what to know about it, or nothing */
    struct base_map stays;      /* by address of a callee: 1 when it never returns */
    struct code_survey *survey; /* of no function: for the slots; made when one is asked for */
    bool survey_tried;
};

/* Always succeeds but for memory (false); `elf` tells whether there is a file, `why` why not. */
bool annotate_binary_open(struct annotate_binary *binary, const struct profile *profile, uint32_t image,
                          bool debuginfod);
void annotate_binary_close(struct annotate_binary *binary);

struct annotate_code { /* of one function */
    struct code_instructions instructions;
    struct code_graph graph;
    struct code_loops loops;
    bool whole; /* everything decoded; else graph and loops are empty */
};

/* Decodes [start, end). What does not decode gives no error: `whole` is false, `instructions` hold what came
 * before. Negative: out of memory. */
int annotate_binary_code(struct annotate_binary *binary, uint64_t start, uint64_t end,
                         struct annotate_code *code, struct base_error *error);
void annotate_binary_code_free(struct annotate_code *code);

/* The instruction that holds `address`; SIZE_MAX: none. */
size_t annotate_binary_instruction(const struct annotate_code *code, uint64_t address);

/* The name that ld.so binds the word at `address` to (a slot of the GOT); NULL: it is no such word. */
const char *annotate_binary_slot(struct annotate_binary *binary, uint64_t address);

/* The levels of source at an address (symbol_file_lines). 0: not known. */
enum { ANNOTATE_BINARY_LEVELS = 64 };
size_t annotate_binary_lines(struct annotate_binary *binary, uint64_t address,
                             struct symbol_line levels[ANNOTATE_BINARY_LEVELS]);

#endif
