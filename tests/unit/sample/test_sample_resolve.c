/* Names that a recording had no time for: what is left is counted, reported, and found by the next lookup.
 * The image is this program's own file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sample_resolve.h"
#include "wire_loss.h"

enum { ADDRESSES = 200, LEAST_STEP = 64, BEFORE_THE_CLOCK = 16 };

struct published {
    size_t times, done, total;
};

static void note_progress(void *context, size_t done, size_t total)
{
    struct published *published = context;
    published->times++;
    published->done = done;
    published->total = total;
}

/* Addresses all over the code of this program. */
static struct profile *make_profile(void)
{
    char path[4096], build_id[2 * ELF_BUILD_ID_MAX + 1] = "";
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    struct elf_image *image;
    struct elf_section text;
    assert_true(length > 0);
    path[length] = '\0';
    assert_int_equal(elf_image_open(path, &image, NULL), BASE_OK);
    assert_true(elf_image_section(image, ".text", &text));
    uint64_t step = text.size / ADDRESSES;
    assert_true(step >= LEAST_STEP);
    if (elf_image_build_id(image)->size)
        elf_build_id_format(elf_image_build_id(image), build_id);
    struct profile *profile = profile_new();
    uint32_t number = profile_image(profile, PROFILE_IMAGE_FILE, path, build_id, 0);
    for (unsigned i = 0; i < ADDRESSES; i++)
        assert_int_equal(profile_address(profile, number, text.address + i * step), i + 1);
    elf_image_close(image);
    return profile;
}

static const char *name_of(const struct profile *profile, uint32_t address)
{
    return profile_text(profile, profile->functions[profile->addresses[address].function].name);
}

static void left_and_found(void **state)
{
    (void)state;
    struct profile *whole = make_profile(), *cut = make_profile();
    struct published published = {0};
    struct sample_resolve_options options = {.lines = true, .progress = note_progress, .context = &published};
    assert_int_equal(sample_resolve(whole, &options, NULL), BASE_OK);
    assert_int_equal(published.times, 1 + 2 * ADDRESSES / BEFORE_THE_CLOCK);
    assert_int_equal(published.total, 2 * ADDRESSES);
    assert_int_equal(whole->losses[WIRE_LOSS_NOT_YET_RESOLVED], 0);
    unsigned different = 0;
    for (uint32_t i = 2; i <= ADDRESSES; i++)
        different += strcmp(name_of(whole, i), name_of(whole, i - 1)) != 0;
    assert_true(different > ADDRESSES / 10);

    options.limit_ns = 1;
    published = (struct published){0};
    assert_int_equal(sample_resolve(cut, &options, NULL), BASE_OK);
    assert_int_equal(published.times, 2);
    assert_int_equal(published.done, BEFORE_THE_CLOCK);
    assert_int_equal(cut->losses[WIRE_LOSS_NOT_YET_RESOLVED], ADDRESSES - BEFORE_THE_CLOCK);
    assert_int_equal(cut->addresses[BEFORE_THE_CLOCK].resolution,
                     whole->addresses[BEFORE_THE_CLOCK].resolution);
    assert_int_equal(cut->addresses[BEFORE_THE_CLOCK + 1].resolution, PROFILE_UNRESOLVED);

    options.limit_ns = 0; /* as a report asks */
    assert_int_equal(sample_resolve(cut, &options, NULL), BASE_OK);
    assert_int_equal(cut->losses[WIRE_LOSS_NOT_YET_RESOLVED], 0);
    assert_int_equal(cut->losses[WIRE_LOSS_NO_SYMBOL], whole->losses[WIRE_LOSS_NO_SYMBOL]);
    for (uint32_t i = 1; i <= ADDRESSES; i++) {
        assert_string_equal(name_of(cut, i), name_of(whole, i));
        assert_int_equal(cut->addresses[i].line, whole->addresses[i].line);
        assert_true(cut->addresses[i].lines_known);
    }
    profile_free(whole);
    profile_free(cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(left_and_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
