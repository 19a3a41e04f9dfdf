/* plan.h - what to change in an image so that its calls are counted.
 *
 * A plan is made from the file alone, before anything is stopped, and is the same for every process: image
 * addresses, no bias. It is one flat block of bytes, used as it is from a cache file (slab_cache.h):
 *
 *   header | functions by start | sites by address | hooks by address | strings
 *
 * Site i counts in word i of the image's counters, hook i in the STUB_HOOK_WORDS words from site_count + 3 *
 * i on (plan_site_word, plan_hook_word). slab.h turns plan and run-time addresses into bytes.
 *
 * What is planned. Calls: every direct one to an entry of a function or to a linkage stub; indirect ones of
 * five bytes or more, shorter ones together with instructions before them that nobody branches to. Jumps:
 * direct ones to what is a function (plan_pieces.h) and does not read flags (those of two bytes over an
 * island, or like short calls); indirect ones through a slot that ld.so fills, and others of a function whose
 * switches are all understood (short ones like short calls, or over an island). Hooks: functions whose address
 * is taken. Everything else is counted under a reason (stub_reason.h), once per site or function, as the
 * reason's sentence says.
 *
 * A function is *callable* when it is not a fragment and something calls it, jumps to it or has its address;
 * it is *covered* when every such way is counted. Not seen are calls from functions that do not decode
 * (themselves a counted reason). Context: tool, any thread on its own data. */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "elf_image.h"
#include "stub_block.h"
#include "stub_reason.h"
#include "stub_x86_64_site.h"

#define PLAN_NONE     UINT32_MAX
#define PLAN_MAGIC    0x4e4c50594c4c4154u /* "TALLYPLN" */
#define PLAN_VERSION  14
#define PLAN_REASONS  64         /* numbers of reasons are below */
#define PLAN_HOOK_MAX 19         /* bytes that a hook moves: four, and one longest instruction */
#define PLAN_MOST     (1u << 26) /* functions, sites, hooks */

_Static_assert(STUB_REASON_END <= PLAN_REASONS, "room for every reason");

enum plan_function_fact {
    PLAN_FUNCTION_CALLABLE = 1,
    PLAN_FUNCTION_COVERED = 2,
    PLAN_FUNCTION_FRAGMENT = 4,
    PLAN_FUNCTION_TAKEN = 8,    /* its address is taken, or it is exported */
    PLAN_FUNCTION_LINKAGE = 16, /* no function: linkage stubs */
    /* It has a hook only because it is exported: nothing in the image needs it but through its linkage
     * stub. */
    PLAN_FUNCTION_OFFERED = 32
};

struct plan_function {
    uint64_t start;
    uint32_t size;
    uint32_t name;  /* offset in the strings; 0: nameless ("") */
    uint32_t hook;  /* index or PLAN_NONE */
    uint16_t facts; /* enum plan_function_fact */
    uint8_t reason; /* why it is not covered; of a covered one 0 */
    uint8_t zero;
};

struct plan_site {
    uint64_t address; /* of the first replaced byte */
    uint64_t target;  /* of the direct kinds; else 0 */
    /* The word that names the callee at read-out: the linkage stub's, or the operand's; or 0. */
    uint64_t slot;
    /* Of JUMP_SHORT, BRANCH_SHORT and JUMP_INDIRECT_SHORT: five bytes of padding, all 0x90 or 0xcc or part of
     * a longer nop; else 0. */
    uint64_t island;
    uint32_t function, callee; /* indices; callee PLAN_NONE: not in this image, or not known */
    uint8_t kind, length;      /* enum stub_kind; replaced bytes */
    uint8_t old[16];           /* `length` of them */
    uint8_t island_old[5], zero;
};
_Static_assert(sizeof(struct plan_site) == 64, "stored");

struct plan_hook {
    uint64_t address;
    uint32_t function;
    /* `length`: of STUB_ENTRY the moved bytes, of which five are replaced; of STUB_ENTRY_SHORT those of which
     * two are; of STUB_ENTRY_ENDBR 4. */
    uint8_t kind, length;
    uint8_t old[20]; /* `length` of them; ENDBR: 5 */
    int8_t island;   /* SHORT: as the two-byte jump has it, plan_hook_island */
    uint8_t island_old[5];
};
_Static_assert(sizeof(struct plan_hook) == 40, "stored");

struct plan_header {
    uint64_t magic;
    uint32_t version, machine;     /* ELF e_machine */
    uint64_t byte_count;           /* of the whole block */
    uint64_t text_size, text_hash; /* of the image: elf_image_text_check */
    uint64_t content; /* hash of all behind the header: what is prepared for one plan fits no other */
    uint32_t function_count, site_count, hook_count, string_bytes;
    uint64_t found, planned;                   /* sites: calls and jumps to other functions */
    uint64_t indirect_found, indirect_planned; /* of them indirect */
    uint64_t taken, hooked;                    /* functions called by address */
    uint64_t callable, covered;                /* functions */
    uint64_t gs_users;              /* instructions that use gs: then form THREAD is out of the question */
    uint64_t reasons[PLAN_REASONS]; /* by enum stub_reason */
};

struct plan {
    const struct plan_header *header;
    const struct plan_function *functions;
    const struct plan_site *sites;
    const struct plan_hook *hooks;
    const char *strings;
    void *blob;
    size_t size;
    bool mapped; /* blob is a mapping of a cache file, else malloc'd */
};

struct plan_options {
    const uint64_t *taken; /* further functions known to be called by address (found in the process) */
    size_t taken_count;
    bool no_hooks; /* plan sites only */
};

/* `options` may be NULL. BASE_EUNSUPPORTED: not x86-64. */
int plan_make(const struct elf_image *image, const struct plan_options *options, struct plan *plan,
              struct base_error *error);
void plan_free(struct plan *plan);

/* Checks every index, order and size, so that no reader of the block goes out of its bounds. False: it is not
 * a plan. `plan` borrows the block. */
bool plan_open(struct plan *plan, const void *blob, size_t size);

static inline uint32_t plan_site_word(uint32_t site)
{
    return site;
}
static inline uint32_t plan_hook_word(const struct plan *plan, uint32_t hook)
{
    return plan->header->site_count + STUB_HOOK_WORDS * hook;
}
/* How many counter words the image needs. */
static inline uint32_t plan_words(const struct plan *plan)
{
    return plan->header->site_count + STUB_HOOK_WORDS * plan->header->hook_count;
}

/* Of a SHORT hook: the image address of five bytes of padding. */
static inline uint64_t plan_hook_island(const struct plan_hook *hook)
{
    return hook->address + 2 + (uint64_t)(int64_t)hook->island;
}

/* The function that holds an image address, or PLAN_NONE. */
uint32_t plan_function_at(const struct plan *plan, uint64_t address);
/* The site whose replaced bytes end at `address`, which is thus a return address of a call; or PLAN_NONE. */
uint32_t plan_site_ending(const struct plan *plan, uint64_t address);
const char *plan_function_name(const struct plan *plan, uint32_t function);

#endif
