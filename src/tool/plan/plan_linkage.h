/* plan_linkage.h - the stubs by which an image calls functions of other objects, as places to hook.
 *
 * A stub (an entry of .plt, .plt.sec or .plt.got) is one jump through a slot that ld.so fills with a
 * function's address, at once or when it is first called. The stub is code that nobody writes: hooked, it may
 * be so before the slot is filled, and one name's calls are told from another's though both end up at one
 * address. It is asked for by a wish of the name NAME@plt. Calls that go through the slot without a stub
 * (-fno-plt) are not seen. Pure: a file in, image addresses out. Context: tool. Source: System V ABI AMD64,
 * 5.2 and 13.2. */
#ifndef PLAN_LINKAGE_H
#define PLAN_LINKAGE_H

#include "plan_function.h"

/* Adds the stubs that the wishes ask for, which keeps the order by address; what is in `functions` is left as
 * it is on failure. */
int plan_linkage_add(const struct elf_image *image, const char *path,
                     const struct plan_function_request *requests, size_t request_count,
                     struct plan_functions *functions, struct base_error *error);

#endif
