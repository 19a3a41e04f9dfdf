/* Reading a plan: checks of a block of bytes, and finding things in it. */
#include <string.h>

#include "base_search.h"
#include "plan.h"
#include "stub_x86_64_entry.h"

/* Cuts `count` items of `size` bytes off the block; false when they are not there. */
static bool cut_items(const uint8_t **at, size_t *left, uint64_t count, size_t size, const void **items)
{
    if (count > PLAN_MOST || count * size > *left)
        return false;
    *items = *at;
    *at += count * size;
    *left -= (size_t)(count * size);
    return true;
}

static bool divide_block(struct plan *plan, const uint8_t *blob, size_t size)
{
    const struct plan_header *header = (const void *)blob;
    const void *functions, *sites, *hooks;
    if (size < sizeof *header || header->magic != PLAN_MAGIC || header->version != PLAN_VERSION ||
        header->byte_count != size)
        return false;
    const uint8_t *at = blob + sizeof *header;
    size_t left = size - sizeof *header;
    if (!cut_items(&at, &left, header->function_count, sizeof *plan->functions, &functions) ||
        !cut_items(&at, &left, header->site_count, sizeof *plan->sites, &sites) ||
        !cut_items(&at, &left, header->hook_count, sizeof *plan->hooks, &hooks) ||
        left != header->string_bytes || left == 0 || at[0] != '\0' || at[left - 1] != '\0')
        return false;
    *plan = (struct plan){.header = header,
                          .functions = functions,
                          .sites = sites,
                          .hooks = hooks,
                          .strings = (const char *)at,
                          .size = size};
    return true;
}

static bool are_functions_valid(const struct plan *plan)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < plan->header->function_count; i++) {
        const struct plan_function *function = &plan->functions[i];
        if (function->start < end || function->start + function->size < function->start ||
            function->name >= plan->header->string_bytes || function->reason >= PLAN_REASONS ||
            (function->hook != PLAN_NONE && function->hook >= plan->header->hook_count))
            return false;
        end = function->start + function->size;
    }
    return true;
}

static bool is_site_kind(unsigned kind)
{
    return (kind >= STUB_CALL && kind < STUB_ENTRY) || kind == STUB_JUMP_GROUP ||
           kind == STUB_JUMP_GROUP_SHORT || kind == STUB_JUMP_INDIRECT_SHORT;
}

static bool are_sites_valid(const struct plan *plan)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < plan->header->site_count; i++) {
        const struct plan_site *site = &plan->sites[i];
        bool is_short = stub_x86_64_site_has_island((enum stub_kind)site->kind);
        if (!is_site_kind(site->kind) || site->length < (is_short ? 2 : 5) ||
            site->length > STUB_X86_64_SITE_MAX || site->address < end || site->address > UINT64_MAX - 16 ||
            site->function >= plan->header->function_count ||
            (site->callee != PLAN_NONE && site->callee >= plan->header->function_count))
            return false;
        end = site->address + site->length;
    }
    return true;
}

static bool is_hook_valid(const struct plan_hook *hook)
{
    if (hook->kind == STUB_ENTRY_ENDBR)
        return hook->length == 4;
    unsigned least = hook->kind == STUB_ENTRY         ? STUB_X86_64_ENTRY_JUMP
                     : hook->kind == STUB_ENTRY_SHORT ? STUB_X86_64_ENTRY_SHORT
                                                      : UINT8_MAX;
    return hook->length >= least && hook->length <= PLAN_HOOK_MAX &&
           (hook->kind == STUB_ENTRY || hook->address >= 128);
}

static bool are_hooks_valid(const struct plan *plan)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < plan->header->hook_count; i++) {
        const struct plan_hook *hook = &plan->hooks[i];
        if (!is_hook_valid(hook) || hook->address < end || hook->address > UINT64_MAX - 32 ||
            hook->function >= plan->header->function_count || plan->functions[hook->function].hook != i ||
            plan->functions[hook->function].start != hook->address)
            return false;
        end = hook->address + hook->length;
    }
    return true;
}

bool plan_open(struct plan *plan, const void *blob, size_t size)
{
    struct plan found;
    if ((uintptr_t)blob % 8 != 0 || !divide_block(&found, blob, size) || !are_functions_valid(&found) ||
        !are_sites_valid(&found) || !are_hooks_valid(&found))
        return false;
    *plan = found;
    return true;
}

uint32_t plan_function_at(const struct plan *plan, uint64_t address)
{
    size_t all = plan->header->function_count;
    if (all == 0 || address < plan->functions[0].start ||
        address >= plan->functions[all - 1].start + plan->functions[all - 1].size)
        return PLAN_NONE; /* most often another image's: no search for it */
    size_t count = base_search_up_to(plan->functions, all, start, address);
    bool inside = count > 0 && address - plan->functions[count - 1].start < plan->functions[count - 1].size;
    return inside ? (uint32_t)(count - 1) : PLAN_NONE;
}

uint32_t plan_site_ending(const struct plan *plan, uint64_t address)
{
    size_t before = base_search_below(plan->sites, plan->header->site_count, address, address);
    bool ends = before > 0 && plan->sites[before - 1].address + plan->sites[before - 1].length == address;
    return ends ? (uint32_t)(before - 1) : PLAN_NONE;
}

const char *plan_function_name(const struct plan *plan, uint32_t function)
{
    return plan->strings + plan->functions[function].name;
}
