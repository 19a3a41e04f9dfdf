/* code_bounds and code_functions: claims of every kind, on an image of 0x100 bytes of code without
 * sections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "code_by_hand.h"
#include "code_function.h"

#define T   BY_HAND_TEXT
#define SYM CODE_FROM_SYMBOL
#define FDE CODE_FROM_FDE

enum { CLAIMS = 6 };

struct wanted {
    uint64_t start, end; /* behind T */
    const char *name;
    uint8_t entries, origin;
    bool fragment, cut;
};

struct layout {
    const char *text;
    struct code_bound claims[CLAIMS]; /* addresses behind T; the last has origin 0 */
    struct wanted functions[CLAIMS];  /* the last has end 0 */
};

static const struct layout layouts[] = {
    {"nothing", {{0}}, {{0}}},
    {"one symbol", {{0, 16, "f", SYM, false}}, {{0, 16, "f", 1, SYM, false, false}}},
    {"out of order",
     {{32, 48, "g", SYM, false}, {0, 16, "f", SYM, false}},
     {{0, 16, "f", 1, SYM, false, false}, {32, 48, "g", 1, SYM, false, false}}},
    {"aliases, one known twice",
     {{0, 16, "f", SYM, false}, {0, 16, "f2", SYM, false}, {0, 16, "f", SYM, false}},
     {{0, 16, "f", 2, SYM, false, false}}},
    {"symbol and FDE agree",
     {{0, 16, NULL, FDE, false}, {0, 16, "f", SYM, false}},
     {{0, 16, "f", 1, SYM | FDE, false, false}}},
    {"the FDE's end wins, shorter",
     {{0, 32, "f", SYM, false}, {0, 16, NULL, FDE, false}},
     {{0, 16, "f", 1, SYM | FDE, false, false}}},
    {"the FDE's end wins, longer",
     {{0, 8, "f", SYM, false}, {0, 16, NULL, FDE, false}},
     {{0, 16, "f", 1, SYM | FDE, false, false}}},
    {"the longest symbol's end",
     {{0, 8, "f", SYM, false}, {0, 16, "g", SYM, false}},
     {{0, 16, "f", 2, SYM, false, false}}},
    {"no size: up to the next",
     {{0, 0, "f", SYM, false}, {16, 32, "g", SYM, false}},
     {{0, 16, "f", 1, SYM, false, false}, {16, 32, "g", 1, SYM, false, false}}},
    {"no size: up to the segment's end",
     {{0xe0, 0xe0, "f", SYM, false}},
     {{0xe0, 0x100, "f", 1, SYM, false, false}}},
    {"no size: up to the FDE's end",
     {{0, 16, NULL, FDE, false}, {0, 0, "f", SYM, false}},
     {{0, 16, "f", 1, SYM | FDE, false, false}}},
    {"a label inside",
     {{0, 32, "f", SYM, false}, {16, 16, "label", SYM, false}},
     {{0, 32, "f", 2, SYM, false, false}}},
    {"a second entry with a size",
     {{0, 32, "f", SYM, false}, {16, 32, "entry", SYM, false}},
     {{0, 32, "f", 2, SYM, false, false}}},
    {"two that overlap",
     {{0, 32, "f", SYM, false}, {16, 48, "g", SYM, false}},
     {{0, 16, "f", 1, SYM, false, true}, {16, 48, "g", 1, SYM, false, false}}},
    {"a fragment", {{0, 16, "f.cold", SYM, true}}, {{0, 16, "f.cold", 1, SYM, true, false}}},
    {"a fragment that is a function as well",
     {{0, 16, "f.part.0", SYM, true}, {0, 16, "g", SYM, false}},
     {{0, 16, "g", 2, SYM, false, false}}},
    {"FDEs alone",
     {{0, 16, NULL, FDE, false}, {16, 32, NULL, FDE, false}},
     {{0, 16, NULL, 0, FDE, false, false}, {16, 32, NULL, 0, FDE, false, false}}},
    {"FDEs that overlap",
     {{0, 32, NULL, FDE, false}, {16, 48, NULL, FDE, false}},
     {{0, 32, NULL, 0, FDE, false, false}, {32, 48, NULL, 0, FDE, false, false}}},
    {"an FDE around symbols",
     {{0, 64, NULL, FDE, false}, {16, 32, "f", SYM, false}},
     {{0, 16, NULL, 0, FDE, false, false},
      {16, 32, "f", 1, SYM, false, false},
      {32, 64, NULL, 0, FDE, false, false}}},
    {"an FDE inside of a symbol",
     {{0, 64, "f", SYM, false}, {16, 32, NULL, FDE, false}},
     {{0, 64, "f", 1, SYM, false, false}}},
    {"before the code, behind it, beyond its end, backwards",
     {{-16, 16, "a", SYM, false},
      {0x100, 0x110, "b", SYM, false},
      {0xf0, 0x1000, "c", SYM, false},
      {16, 8, "d", SYM, false}},
     {{0xf0, 0x100, "c", 1, SYM, false, false}}},
};

static void check_functions(const struct code_functions *functions, const struct wanted *wanted)
{
    size_t count = 0;
    while (wanted[count].end != 0)
        count++;
    assert_int_equal(functions->count, count);
    for (size_t i = 0; i < count; i++) {
        const struct code_function *function = &functions->items[i];
        assert_int_equal(function->start, T + wanted[i].start);
        assert_int_equal(function->end, T + wanted[i].end);
        if (wanted[i].name)
            assert_string_equal(function->name, wanted[i].name);
        else
            assert_null(function->name);
        assert_int_equal(function->entry_count, wanted[i].entries);
        assert_int_equal(function->origin, wanted[i].origin);
        assert_int_equal(function->fragment, wanted[i].fragment);
        assert_int_equal(function->cut, wanted[i].cut);
    }
}

static void add_claims(struct code_bounds *bounds, const struct code_bound *claims)
{
    for (size_t i = 0; i < CLAIMS && claims[i].origin; i++) {
        struct code_bound claim = claims[i];
        claim.start += T;
        claim.end += T;
        assert_int_equal(code_bounds_add(bounds, &claim, NULL), BASE_OK);
    }
}

static void claims_become_functions(void **state)
{
    static const uint8_t code[0x100];
    struct elf_image *image = code_by_hand(ET_DYN, code, sizeof code);
    (void)state;
    assert_non_null(image);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct code_bounds bounds = {NULL, 0, 0};
        struct code_functions functions;
        print_message("# %s\n", layouts[i].text);
        add_claims(&bounds, layouts[i].claims);
        assert_int_equal(code_functions_make(&bounds, image, &functions, NULL), BASE_OK);
        check_functions(&functions, layouts[i].functions);
        code_functions_free(&functions);
        code_bounds_free(&bounds);
    }
    elf_image_close(image);
}

static void addresses_are_found(void **state)
{
    static const uint8_t code[0x100];
    static const struct code_bound claims[] = {
        {0, 16, "f", SYM, false}, {8, 8, "label", SYM, false}, {32, 48, "g", SYM, false}, {0}};
    struct elf_image *image = code_by_hand(ET_DYN, code, sizeof code);
    struct code_bounds bounds = {NULL, 0, 0};
    struct code_functions functions;
    (void)state;
    add_claims(&bounds, claims);
    assert_int_equal(code_functions_make(&bounds, image, &functions, NULL), BASE_OK);
    for (uint64_t at = 0; at < 0x100; at++) {
        uint32_t wanted = at < 16 ? 0 : at >= 32 && at < 48 ? 1 : CODE_NONE;
        assert_int_equal(code_functions_find(&functions, T + at), wanted);
        uint32_t entry = at == 0 ? 0 : at == 8 ? 1 : at == 32 ? 2 : CODE_NONE;
        assert_int_equal(code_functions_entry(&functions, T + at), entry);
    }
    assert_int_equal(code_functions_find(&functions, 0), CODE_NONE);
    assert_int_equal(code_functions_find(&functions, UINT64_MAX), CODE_NONE);
    assert_string_equal(functions.entries[1].name, "label");
    assert_int_equal(functions.entries[1].function, 0);
    assert_int_equal(functions.entries[2].function, 1);
    code_functions_free(&functions);
    code_bounds_free(&bounds);
    elf_image_close(image);
}

static void fragments_are_known_by_name(void **state)
{
    static const char *const fragments[] = {"f.cold",        "f.cold.12",       "f.part.0",
                                            "f.part.0.cold", "f.isra.0.part.1", "_ZN1a1bEv.cold"};
    static const char *const functions[] = {"f",          "f.isra.0", "f.constprop.0", "f.lto_priv.0",
                                            "f.colder",   "f.party",  "cold",          ".cold",
                                            "f.llvm.123", "partial"};
    (void)state;
    for (size_t i = 0; i < sizeof fragments / sizeof *fragments; i++)
        assert_true(code_function_is_fragment(fragments[i]));
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        assert_false(code_function_is_fragment(functions[i]));
    assert_false(code_function_is_fragment(NULL));
    assert_true(code_function_is_part("f.part.0"));
    assert_true(code_function_is_part("f.isra.0.part.1"));
    assert_false(code_function_is_part("f.part.0.cold"));
    assert_false(code_function_is_part("f.cold"));
    assert_false(code_function_is_part("f"));
    assert_false(code_function_is_part(NULL));
}

/* Random claims: sorted, apart, each non-empty and inside of the code; every name at an address with code
 * found again. */
static void any_claims_give_a_list_without_overlap(void **state)
{
    static const uint8_t code[0x100];
    struct elf_image *image = code_by_hand(ET_DYN, code, sizeof code);
    uint64_t random = 1;
    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        struct code_bounds bounds = {NULL, 0, 0};
        struct code_functions functions;
        for (unsigned i = 0; i < 24; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t start = T - 16 + (random >> 33) % 0x120, size = (random >> 50) % 64;
            bool symbol = random >> 32 & 1;
            code_bounds_add(
                &bounds,
                &(struct code_bound){start, start + size, symbol ? "s" : NULL, symbol ? SYM : FDE, false},
                NULL);
        }
        assert_int_equal(code_functions_make(&bounds, image, &functions, NULL), BASE_OK);
        uint64_t last = T;
        for (size_t i = 0; i < functions.count; i++) {
            assert_true(functions.items[i].start >= last);
            assert_true(functions.items[i].end > functions.items[i].start);
            last = functions.items[i].end;
        }
        assert_true(last <= T + 0x100);
        for (size_t i = 0; i < functions.entry_count; i++)
            assert_int_equal(code_functions_find(&functions, functions.entries[i].address),
                             functions.entries[i].function);
        for (size_t i = 0; i < bounds.count; i++) {
            const struct code_bound *bound = &bounds.items[i];
            if (bound->start >= T && bound->start < T + 0x100 && bound->name)
                assert_int_not_equal(code_functions_entry(&functions, bound->start), CODE_NONE);
        }
        code_functions_free(&functions);
        code_bounds_free(&bounds);
    }
    elf_image_close(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_become_functions),
        cmocka_unit_test(addresses_are_found),
        cmocka_unit_test(fragments_are_known_by_name),
        cmocka_unit_test(any_claims_give_a_list_without_overlap),
    };
    return cmocka_run_group_tests_name("code_function", tests, NULL, NULL);
}
