/* code_survey.h - what the code of a whole image says about calls: sites, branch targets, addresses taken.
 *
 * One pass decodes every function of a list and notes (1) the sites: every call, every direct jump that
 * leaves its function, every indirect jump; (2) for every byte of text, in bit maps, whether an instruction
 * begins there and whether something enters there; (3) who takes a function's address. Functions with a
 * verdict other than FINE contribute nothing; what other code does to them is still noted.
 *
 * Completeness. Known ways into an instruction: direct branches and calls of decoded code; jump tables
 * (32-bit relative to a `lea`ed base, 64-bit absolute); relocations and, in non-PIE, data words that point
 * into text (computed goto); landing pads of exceptions (.gcc_except_table through .eh_frame); symbols;
 * entries of dynamic symbols. An indirect jump that is not explained by a table and could stay inside its
 * function sets CODE_FACT_UNRESOLVED: there no group of instructions can be moved. Too many marks are
 * possible (a table read too far), too few only in functions so flagged.
 *
 * Sizes: 32 bytes a site, five bits a byte of text. Speed: bench/bench_code.c.
 * Context: tool, any thread on its own data. */
#ifndef CODE_SURVEY_H
#define CODE_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "code_function.h"
#include "code_instruction.h"
#include "elf_image.h"

/* Bits of code_site.facts. */
enum code_site_fact {
    /* The target of a direct one: */
    CODE_SITE_NEXT = 1,      /* the next instruction: reads the pc (`call 1f; 1: pop`) */
    CODE_SITE_OWN = 2,       /* inside the site's own function, behind its start (a retpoline's call) */
    CODE_SITE_ENTRY = 4,     /* the start or another entry of a known function (target_function) */
    CODE_SITE_INSIDE = 8,    /* inside another known function, at none of its entries */
    CODE_SITE_NOWHERE = 16,  /* in no known function */
    CODE_SITE_FRAGMENT = 32, /* its function is a fragment */
    /* provably an entry: a symbol that is not a fragment's, an export, a taken address, a call's target */
    CODE_SITE_PROVEN = 64,
    CODE_SITE_PLT = 128, /* a linkage stub: `jmp *slot(%rip)`, slot given by code_survey_slot */
    /* mcount, _mcount, __fentry__ (or their linkage stubs or slots): not a call of the program's */
    CODE_SITE_MCOUNT = 256,
    CODE_SITE_THUNK = 512, /* a retpoline thunk, by name: its callee is in a register */
    /* An indirect jump: */
    CODE_SITE_TABLE = 1024 /* by its form a switch's jump table: stays inside its function */
};

struct code_site {
    uint64_t address;
    uint64_t target;          /* direct: where it goes; OPERAND_RIP: the slot's address; else 0 */
    uint32_t function;        /* that the site lies in */
    uint32_t target_function; /* of a direct one; CODE_NONE */
    uint8_t length, flow, operand, displacement_at; /* as in struct code_instruction */
    uint8_t displacement_size, prefixes;            /* prefixes: bytes before the opcode */
    uint16_t facts;
};

/* Bits of code_survey_function.facts. */
enum code_fact {
    CODE_FACT_FALLS_THROUGH = 1,   /* its last instruction that is no padding goes on into what follows */
    CODE_FACT_TABLES = 2,          /* has jump tables that were found */
    CODE_FACT_UNRESOLVED = 4,      /* has an indirect jump that may go anywhere inside it */
    CODE_FACT_CALLED = 8,          /* its start is the target of a direct call */
    CODE_FACT_ENDBR = 16,          /* begins with endbr64 */
    CODE_FACT_LOOPS_TO_START = 32, /* a branch inside it goes to its start */
    CODE_FACT_LINKAGE = 64,      /* lies in a procedure linkage table: its jumps are no sites of their own */
    CODE_FACT_READS_RETURN = 128 /* loads its own return address, not only for a profiler */
};

/* Who takes an address; bits. */
enum code_taken {
    CODE_TAKEN_LEA = 1,        /* lea of it in code */
    CODE_TAKEN_IMMEDIATE = 2,  /* an immediate of the same value in non-PIE code */
    CODE_TAKEN_RELOCATION = 4, /* R_X86_64_RELATIVE, 64, GLOB_DAT, RELR */
    CODE_TAKEN_DATA = 8,       /* an aligned word of data in non-PIE */
    CODE_TAKEN_EXPORT = 16,    /* a dynamic symbol that others may bind to */
    CODE_TAKEN_LOADER = 32,    /* e_entry, DT_INIT, DT_FINI, resolvers, personality routines */
    CODE_TAKEN_GIVEN = 64,     /* the caller said so */
    CODE_TAKEN_LINKAGE = 128   /* R_X86_64_JUMP_SLOT: only linkage stubs go through it */
};

struct code_survey_function { /* one for each of code_functions.items, same index */
    uint64_t where;           /* the address at which the verdict was reached */
    uint32_t first_site, site_count;
    uint8_t verdict; /* enum code_verdict */
    uint8_t taken;   /* enum code_taken, of its start */
    uint16_t facts;  /* enum code_fact */
};

/* The bit maps over the text. */
enum code_map {
    CODE_MAP_START,   /* an instruction of a decoded function begins here */
    CODE_MAP_BRANCH,  /* target of a direct jump, conditional or not */
    CODE_MAP_CALL,    /* target of a direct call */
    CODE_MAP_TAKEN,   /* address taken in one of the ways above */
    CODE_MAP_NOWHERE, /* so taken, not by the loader alone, in the text, of no known function */
    CODE_MAP_LANDING, /* landing pad, jump table's entry */
    CODE_MAPS
};

struct code_slot { /* a word that ld.so fills: GLOB_DAT, JUMP_SLOT, 64, IRELATIVE */
    uint64_t address;
    const char *name;  /* the symbol's, in the image; "" for IRELATIVE */
    uint64_t function; /* where the image itself defines the symbol; 0: it does not */
    uint32_t type;     /* R_X86_64_... */
};

struct code_survey {
    const struct code_functions *functions; /* borrowed */
    struct code_text text;                  /* borrows from the image */
    struct code_survey_function *items;     /* functions->count */
    struct code_site *sites;                /* ascending addresses */
    size_t site_count, site_capacity;
    struct code_slot *slots; /* ascending addresses */
    size_t slot_count, slot_capacity;
    uint64_t instructions;               /* decoded, in functions that are FINE */
    uint64_t verdicts[CODE_VERDICT_END]; /* functions by verdict */
    uint64_t gs_users, first_gs; /* instructions that use gs, functions that set it; the first of them */
    uint64_t taken_nowhere;      /* bits in CODE_MAP_NOWHERE */
    bool position_independent;   /* ET_DYN: immediates and data words are no addresses */
    uint64_t map_base, map_end;  /* what the bit maps span */
    uint64_t *maps[CODE_MAPS];
};

struct code_survey_options {
    const uint64_t *taken; /* further addresses known to be taken (from the running process) */
    size_t taken_count;
};

/* `functions` and `image` must outlive the result. `options` may be NULL. BASE_EUNSUPPORTED: not x86-64. */
int code_survey_make(const struct elf_image *image, const struct code_functions *functions,
                     const struct code_survey_options *options, struct code_survey **survey,
                     struct base_error *error);
void code_survey_free(struct code_survey *survey);

/* Is the bit set? False outside of the text. */
bool code_survey_marked(const struct code_survey *survey, enum code_map map, uint64_t address);
/* Can control enter strictly inside [start, end), that is at an address in (start, end), other than by
 * running from start? Any of BRANCH, CALL, TAKEN, LANDING, and entries that are symbols. Ask for
 * CODE_FACT_UNRESOLVED as well. */
bool code_survey_entered(const struct code_survey *survey, uint64_t start, uint64_t end);
/* The start of the instruction that ends where `address` begins one; 0: none in the same function. */
uint64_t code_survey_previous(const struct code_survey *survey, uint64_t address);
/* The slot that a linkage stub at `address` jumps through ([endbr64] [bnd] jmp *slot(%rip)). False: it is
 * none. */
bool code_survey_slot(const struct code_survey *survey, uint64_t address, uint64_t *slot);
/* The slot at this address, or NULL. */
const struct code_slot *code_survey_slot_at(const struct code_survey *survey, uint64_t address);
/* The name that ld.so binds the slot to; NULL: no such slot. "" for a resolver's. */
const char *code_survey_slot_name(const struct code_survey *survey, uint64_t slot);

#endif
