#include "proc_translator.h"

#include <fnmatch.h>
#include <stddef.h>

#include "proc_maps.h"

static const struct {
    const char *path, *name; /* a glob for a file's path */
} translators[] = {
    {"*/valgrind/*-linux", "Valgrind"},
    {"*/vgpreload_*.so", "Valgrind"},
    {"*/libdynamorio.so*", "DynamoRIO"},
    {"*/pinbin", "Pin"},
    {"*/librrpreload*.so", "rr"},
    {"*/librrpage*.so", "rr"},
    {"*/qemu-@(x86_64|i386|aarch64|aarch64_be|arm|armeb|riscv32|riscv64|ppc|ppc64|ppc64le|s390x|mips*|sparc*|"
     "m68k|alpha|hppa|sh4*|loongarch64|microblaze*|or1k|xtensa*|hexagon|cris|nios2)?(-static)",
     "QEMU"},
    {"*/box@(64|86)", "box64"},
    {"*/FEXInterpreter", "FEX"},
};

static const char *translator_of(const struct proc_mapping *mapping)
{
    for (size_t i = 0; i < sizeof translators / sizeof *translators; i++)
        if (mapping->executable && fnmatch(translators[i].path, mapping->path, FNM_EXTMATCH) == 0)
            return translators[i].name;
    return NULL;
}

int proc_translator_refuse(pid_t pid, struct base_error *error)
{
    struct proc_maps maps = {0};
    const char *name = NULL;
    proc_maps_read(pid, &maps, NULL);
    for (size_t i = 0; i < maps.count && !name; i++)
        name = translator_of(&maps.items[i]);
    proc_maps_free(&maps);
    return name ? base_fail(error, BASE_EUNSUPPORTED,
                            "it is run by %s, which translates its code; to profile the translator itself, "
                            "record time only",
                            name)
                : BASE_OK;
}
