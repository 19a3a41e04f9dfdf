/* elf_export: every function of this process's libc against what dlsym says; names that are not there. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "elf_export.h"

struct loaded {
    void *handle;
    struct elf_image *image;
    uint64_t bias;
};

/* By its handle: a sanitizer's functions of the same names lie elsewhere. */
static void open_libc(struct loaded *libc)
{
    struct link_map *map;
    libc->handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    assert_non_null(libc->handle);
    assert_int_equal(dlinfo(libc->handle, RTLD_DI_LINKMAP, &map), 0);
    assert_int_equal(elf_image_open(map->l_name, &libc->image, NULL), BASE_OK);
    libc->bias = map->l_addr;
}

static void close_libc(struct loaded *libc)
{
    elf_image_close(libc->image);
    dlclose(libc->handle);
}

/* Resolvers of indirect functions are not what dlsym gives; of all others the addresses are equal. */
static void functions_are_where_dlsym_says(void **state)
{
    (void)state;
    struct loaded libc;
    struct elf_section symbols, strings;
    size_t compared = 0;
    open_libc(&libc);
    assert_true(elf_image_section(libc.image, ".dynsym", &symbols));
    assert_true(elf_image_section(libc.image, ".dynstr", &strings));
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        uint64_t found;
        memcpy(&symbol, symbols.bytes + at, sizeof symbol);
        const char *name = (const char *)strings.bytes + symbol.st_name;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
            !elf_export_find(libc.image, name, &found))
            continue;
        void *known = dlsym(libc.handle, name);
        if (known && found == symbol.st_value) { /* else another version of it is the default one */
            assert_int_equal(found + libc.bias, (uintptr_t)known);
            compared++;
        }
    }
    assert_true(compared > 1000);
    close_libc(&libc);
}

static void other_names_are_not_found(void **state)
{
    (void)state;
    struct loaded libc;
    uint64_t address;
    open_libc(&libc);
    assert_false(elf_export_find(libc.image, "", &address));
    assert_false(elf_export_find(libc.image, "no such function", &address));
    assert_false(elf_export_find(libc.image, "strlen ", &address));
    close_libc(&libc);
}

/* Every byte of the hash table changed in turn: no crash, and never another function's address. */
static void damaged_tables_give_nothing_else(void **state)
{
    (void)state;
    struct loaded libc;
    struct elf_section hashes;
    uint64_t right, found;
    size_t size;
    open_libc(&libc);
    assert_true(elf_export_find(libc.image, "qsort", &right));
    assert_true(elf_image_section(libc.image, ".gnu.hash", &hashes));
    const uint8_t *file = elf_image_bytes(libc.image, &size);
    size_t at = (size_t)(hashes.bytes - file);
    for (size_t i = 0; i < 64; i++) {
        uint8_t *copy = test_malloc(size);
        struct elf_image *damaged;
        memcpy(copy, file, size);
        copy[at + (i < 32 ? i : hashes.size / 64 * i % hashes.size)] ^= (uint8_t)(0x55 + i);
        if (elf_image_open_memory(copy, size, "damaged", &damaged, NULL) == BASE_OK) {
            if (elf_export_find(damaged, "qsort", &found))
                assert_int_equal(found, right);
            elf_image_close(damaged);
        }
        test_free(copy);
    }
    close_libc(&libc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_where_dlsym_says),
        cmocka_unit_test(other_names_are_not_found),
        cmocka_unit_test(damaged_tables_give_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
