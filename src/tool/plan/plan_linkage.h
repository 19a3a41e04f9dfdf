/* plan_linkage.h - the stubs by which an image calls functions of other objects, as places to hook.
 *
 * A stub (an entry of .plt, .plt.sec or .plt.got) is one jump through a slot that ld.so fills with a
 * function's address, at once or when it is first called. The linker generates it: it can be hooked before
 * the slot is filled, and calls by one name stay apart from calls by another though both reach one address. A
 * request of the name NAME@plt means it. Calls that go through the slot without a stub (-fno-plt) are not
 * seen. Pure: a file in, image addresses out. Context: tool. Source: System V ABI AMD64, 5.2 and 13.2. */
#ifndef PLAN_LINKAGE_H
#define PLAN_LINKAGE_H

#include "plan_function.h"

/* Adds the stubs that are requested, which keeps the order by address; what is in `functions` is left as it
 * is on failure. */
int plan_linkage_add(const struct elf_image *image, const char *path,
                     const struct plan_function_request *requests, size_t request_count,
                     struct plan_functions *functions, struct base_error *error);

#endif
