/* Which images and calls are wanted. */
#include <elf.h>
#include <fnmatch.h>
#include <string.h>

#include "plan_select.h"
#include "symbol_name.h"

/* Runtimes: calls into them are counted at their callers; calls inside them are not counted by default. */
static const char *const excluded[] = {
    "libc.so.*",     "libc-*.so",    "ld-linux*.so.*",  "ld-*.so",         "ld-musl-*",
    "libm.so.*",     "libm-*.so",    "libpthread.so.*", "libpthread-*.so", "libc.musl*",
    "libstdc++.so*", "libgcc_s.so*", "linux-vdso*",
};

static bool matches_any(const char *name, const char *const *globs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fnmatch(globs[i], name, 0) == 0)
            return true;
    return false;
}

bool plan_select_leaves_out(const char *name, const char *const *globs, size_t glob_count)
{
    for (size_t i = 0; i < glob_count; i++)
        if (globs[i][0] == '!' && fnmatch(globs[i] + 1, name, 0) == 0)
            return true;
    return false;
}

/* How many do not begin with '!'. */
static size_t count_plain(const char *const *globs, size_t count)
{
    size_t plain = 0;
    for (size_t i = 0; i < count; i++)
        plain += globs[i][0] != '!';
    return plain;
}

bool plan_select_image(const char *name, const char *const *globs, size_t glob_count)
{
    if (plan_select_leaves_out(name, globs, glob_count))
        return false;
    if (count_plain(globs, glob_count) == 0)
        return strcmp(name, "[vdso]") != 0 &&
               !matches_any(name, excluded, sizeof excluded / sizeof *excluded);
    for (size_t i = 0; i < glob_count; i++)
        if (strcmp(globs[i], "all") == 0)
            return true;
    return matches_any(name, globs, glob_count);
}

/* DT_SONAME of an image, or "" (borrowed from the image). */
static const char *soname_of(const struct elf_image *image)
{
    struct elf_section dynamic, strings;
    if (!elf_image_section(image, ".dynamic", &dynamic) || !elf_image_section(image, ".dynstr", &strings))
        return "";
    for (size_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.size; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, dynamic.bytes + at, sizeof entry);
        if (entry.d_tag == DT_SONAME && entry.d_un.d_val < strings.size &&
            memchr(strings.bytes + entry.d_un.d_val, '\0', strings.size - entry.d_un.d_val) != NULL)
            return (const char *)strings.bytes + entry.d_un.d_val;
    }
    return "";
}

const char *plan_select_image_name(const struct elf_image *image, const char *path)
{
    const char *name = soname_of(image), *slash = strrchr(path, '/');
    return name[0] != '\0' ? name : slash != NULL ? slash + 1 : path;
}

bool plan_select_name(const struct plan_select_names *names, const char *raw)
{
    struct symbol_name name;
    bool means = false;
    if (raw == NULL || raw[0] == '\0')
        return false;
    symbol_name_begin(&name, raw, false);
    for (size_t i = 0; i < names->glob_count && (!means || names->found != NULL); i++) {
        bool this = symbol_name_means(&name, names->globs[i]);
        means |= this;
        if (this && names->found != NULL)
            names->found[i] = true;
    }
    symbol_name_end(&name);
    return means;
}

static bool wants_site(const struct plan_site *site, const struct plan_select_names *names,
                       const uint8_t *named)
{
    if (named[site->function] != 0)
        return true;
    if (site->callee != PLAN_NONE)
        return named[site->callee] != 0;
    const char *name =
        site->slot != 0 && names->slot_name != NULL ? names->slot_name(names->context, site->slot) : NULL;
    return plan_select_name(names, name);
}

void plan_select_functions(const struct plan *plan, const struct plan_select_names *names, uint8_t *named)
{
    for (uint32_t i = 0; i < plan->header->function_count; i++)
        named[i] = plan_select_name(names, plan_function_name(plan, i));
}

void plan_select_names(const struct plan *plan, const struct plan_select_names *names, const uint8_t *named,
                       uint8_t *wanted)
{
    const struct plan_header *header = plan->header;
    bool any = memchr(named, 1, header->function_count) != NULL;
    for (uint32_t i = 0; i < header->site_count; i++)
        wanted[i] = wants_site(&plan->sites[i], names, named);
    memset(wanted + header->site_count, any, header->hook_count);
}
