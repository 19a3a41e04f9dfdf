/* plan_function.h - single functions of an image, found by name, and what a hook at their entry replaces.
 *
 * Names are looked for in .symtab, .dynsym and .gnu_debugdata. Functions at one address are one function: the
 * first request that names it has it, and beside that the first of those that go over others. Of a function
 * that is chosen when the program is loaded (IFUNC) the symbol names only the resolver; where the image has
 * slots for the outcome, these are returned.
 *
 * A name alone is a guess: any program may have a function `free` of its own. A request for the function that
 * calls of that name come to says `interposes`: in an image that is linked dynamically a symbol that it
 * exports, or any of the C library's; in a static program a global one, or one that was hidden (after the
 * symbols of all files), which with a reserved name is the C library's. That is for allocators, which other
 * libraries replace. A request that relies on what the C library's function does, down to its arguments, says
 * `own`: in an image that is linked dynamically only the C library's (a function that interposes calls it);
 * in a static program one of those above that has a reserved name beside (__libc_accept), or whose code makes
 * a system call, itself or by the C library's function for that (__syscall_ret). A program's own `accept` has
 * neither.
 *
 * What is replaced and moved is decided as for the hooks of exact calls (plan_hooks.c), but always five bytes
 * with an endbr64 among the moved ones, and without call-frame information when a symbol bounds the function
 * (musl has none). An image without such a name costs a look through its symbols; one with costs a survey
 * (code_survey.h). Pure: a file in, image addresses out. Context: tool. */
#ifndef PLAN_FUNCTION_H
#define PLAN_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "elf_image.h"
#include "plan.h"

struct plan_function_request {
    const char *name; /* as in the file, or a glob of fnmatch(3) */
    /* A glob for the image's path, or for its last part when it has no slash, with !(a|b) too; NULL: any. */
    const char *image;
    const char *beside; /* only in an image that defines this function too; NULL: in any */
    bool over;          /* also what an earlier request has */
    bool written;       /* the name may also be as it is written in C++ and Rust (symbol_name.h) */
    /* Only a function to which other images' calls of that name are bound, or the C library's own. */
    bool interposes;
    bool own; /* only the C library's own */
};

struct plan_hookable {
    uint64_t address;
    uint32_t request; /* index of the request */
    uint32_t over;    /* one more than the index of the request that goes over that one; 0: none */
    uint8_t reason;   /* enum stub_reason; STUB_FINE: it can be hooked */
    uint8_t length;   /* bytes that move; five are replaced */
    bool resolver;    /* of an IFUNC; not to be hooked, reason ENTRY_RESOLVER */
    bool reserved;    /* in a static program: it has a reserved name, too */
    uint8_t old[PLAN_HOOK_MAX + 1];
    char *name;      /* the symbol */
    uint64_t *slots; /* of a resolver: image addresses of words that hold what it chose */
    size_t slot_count;
};

struct plan_functions { /* by address */
    struct plan_hookable *items;
    size_t count, capacity;
};

/* Does the request concern an image of this path? */
bool plan_function_concerns(const struct plan_function_request *request, const char *path);

/* Does it mean a symbol of this name? */
bool plan_function_means(const struct plan_function_request *request, const char *name);

/* Visits the names of all functions that requests may mean, as in the file; one at several addresses or in
 * several tables each time. */
typedef void plan_function_visit(void *context, const char *name);
void plan_function_names(const struct elf_image *image, plan_function_visit *visit, void *context);

/* `path` is the image's, for the requests. */
int plan_function_plan(const struct elf_image *image, const char *path,
                       const struct plan_function_request *requests, size_t request_count,
                       struct plan_functions *functions, struct base_error *error);
void plan_functions_free(struct plan_functions *functions);

#endif
