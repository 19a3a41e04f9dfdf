/* What images are, by their symbols and sections. */
#include "plan_image.h"

#include <elf.h>
#include <fnmatch.h>
#include <string.h>

static bool has_string(const struct elf_image *image, const char *section_name, const char *text, size_t size)
{
    struct elf_section section;
    return elf_image_section(image, section_name, &section) && section.bytes != NULL &&
           memmem(section.bytes, section.size, text, size) != NULL;
}

bool plan_image_owns_stacks(const struct elf_image *image)
{
    static const char ocaml[] = "\0caml_frametable";
    struct elf_section section;
    return elf_image_section(image, ".gopclntab", &section) ||
           elf_image_section(image, ".go.buildinfo", &section) ||
           has_string(image, ".strtab", ocaml, sizeof ocaml) ||
           has_string(image, ".dynstr", ocaml, sizeof ocaml);
}

/* Is it a name that one of the globs means? Few begin as those do. */
static bool is_any(const Elf64_Sym *symbol, const struct elf_section *strings, const char *const *globs)
{
    if (symbol->st_name >= strings->size)
        return false;
    const char *name = (const char *)strings->bytes + symbol->st_name;
    size_t size = strings->size - symbol->st_name;
    for (; *globs != NULL; globs++) {
        size_t plain = strcspn(*globs, "*?[");
        if (plain < size && memcmp(name, *globs, plain) == 0 &&
            memchr(name + plain, '\0', size - plain) != NULL && fnmatch(*globs + plain, name + plain, 0) == 0)
            return true;
    }
    return false;
}

/* Has a table of symbols a name that one of the globs means, defined or not? */
static bool has_symbol(const struct elf_section *symbols, const struct elf_section *strings,
                       const char *const *globs, bool defined)
{
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols->bytes + at, sizeof symbol);
        if ((symbol.st_shndx != SHN_UNDEF) == defined && is_any(&symbol, strings, globs))
            return true;
    }
    return false;
}

static bool table_has(const struct elf_image *image, const char *symbols_name, const char *strings_name,
                      const char *const *globs, bool defined)
{
    struct elf_section symbols, strings;
    return elf_image_section(image, symbols_name, &symbols) && symbols.bytes != NULL &&
           elf_image_section(image, strings_name, &strings) && strings.bytes != NULL &&
           has_symbol(&symbols, &strings, globs, defined);
}

bool plan_image_defines(const struct elf_image *image, const char *const *globs)
{
    return table_has(image, ".symtab", ".strtab", globs, true) ||
           table_has(image, ".dynsym", ".dynstr", globs, true);
}

bool plan_image_has_calls_read(const struct elf_image *image)
{
    /* A library's, and that of a module linked into a program. */
    static const char *const tables[] = {"mono_aot_file_info", "mono_aot_module_*_info", NULL};
    return plan_image_defines(image, tables);
}

/* Without a dynamic section, or as a position-independent program that names no loader. */
bool plan_image_is_static(const struct elf_image *image)
{
    struct elf_section dynamic, interpreter;
    if (!elf_image_section(image, ".dynamic", &dynamic) || dynamic.bytes == NULL)
        return true;
    if (elf_image_section(image, ".interp", &interpreter))
        return false;
    for (size_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.size; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, dynamic.bytes + at, sizeof entry);
        if (entry.d_tag == DT_FLAGS_1)
            return (entry.d_un.d_val & DF_1_PIE) != 0;
    }
    return false;
}

bool plan_image_is_libc(const struct elf_image *image)
{
    /* glibc before 2.34 has a part of it, with open, accept and their like once more, in libpthread. */
    static const char *const starts[] = {"__libc_start_main", "__pthread_initialize_minimal", NULL};
    return table_has(image, ".dynsym", ".dynstr", starts, true);
}

/* --- unwinders --- */

static bool has_import(const struct elf_image *image, const char *name)
{
    return table_has(image, ".dynsym", ".dynstr", (const char *const[]){name, NULL}, false);
}

/* Does the code compare a program header's type with that of the table of call-frame information? Or subtract
 * it, as compilers do for several comparisons. */
static bool looks_for_frames(const struct elf_image *image)
{
    const uint32_t type = PT_GNU_EH_FRAME, minus = -type;
    struct elf_section text;
    return elf_image_section(image, ".text", &text) && text.bytes != NULL &&
           (memmem(text.bytes, text.size, &type, sizeof type) != NULL ||
            memmem(text.bytes, text.size, &minus, sizeof minus) != NULL);
}

/* libunwind (not LLVM's) checks by system calls whether memory can be read, and caches what it has found of
 * an address. No other unwinder does. */
static bool is_caching_unwinder(const struct elf_image *image)
{
    static const char name[] = "_Unwind_";
    return has_import(image, "mincore") && has_import(image, "msync") &&
           !has_string(image, ".dynstr", name, sizeof name - 1);
}

unsigned plan_image_unwinds(const struct elf_image *image)
{
    static const char *const named[] = {
        "_Unwind_RaiseException", "_Unwind_Backtrace",   "unw_backtrace",         "unw_init_local",
        "__unw_init_local",       "_Ux86_64_init_local", "_ULx86_64_init_local*", NULL};
    bool objects = has_import(image, "_dl_find_object");
    bool headers = has_import(image, "dl_iterate_phdr") && looks_for_frames(image);
    if ((!objects && !headers) || plan_image_defines(image, named))
        return 0;
    return (objects ? PLAN_IMAGE_BY_OBJECT : 0u) | (headers ? PLAN_IMAGE_BY_HEADERS : 0u) |
           (headers && is_caching_unwinder(image) ? PLAN_IMAGE_REMEMBERS : 0u);
}
