/* Sites as they are in one process, and the bytes that make them lead to a stub. */

#include "slab.h"
#include "slab_inside.h"

struct stub_x86_64_request slab_site(const struct slab *slab, uint32_t index)
{
    const struct plan_site *site = &slab->plan->sites[index];
    bool quiet = slab->quiet != NULL && slab->quiet[index] != 0;
    return (struct stub_x86_64_request){.kind = (enum stub_kind)site->kind,
                                        .length = site->length,
                                        .address = site->address + slab->bias,
                                        .old = site->old,
                                        .target = site->target + slab->bias,
                                        .island = site->island + slab->bias,
                                        .by_slot = site->slot != 0 && !quiet,
                                        .quiet = quiet};
}

/* Can the site be made to lead to `stub`? */
enum stub_reason slab_site_redirect(const struct stub_x86_64_request *site, uint64_t stub, uint8_t fresh[16],
                                    uint8_t island[5])
{
    enum stub_reason reason = stub_x86_64_site_bytes(site, stub, fresh);
    if (reason == STUB_FINE && stub_x86_64_site_has_island(site->kind))
        reason = stub_x86_64_site_island(site->island, stub, island);
    return reason;
}
