/* What was left open: rows that are made, replaced and used again, merged, folded, written, read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "merge.h"
#include "profile.h"
#include "profile_directory.h"
#include "store.h"

struct scene {
    struct profile *profile;
    uint32_t process, node;
};

static struct scene set_scene(void)
{
    struct scene scene = {.profile = profile_new()};
    scene.process = profile_process(scene.profile, 7, 0);
    uint32_t thread = profile_thread(scene.profile, scene.process, 0);
    uint32_t image = profile_image(scene.profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    scene.node = profile_node(scene.profile, 0, profile_address(scene.profile, image, 0x10), 0);
    uint16_t counter = (uint16_t)profile_counter(scene.profile, "fd.live", "descriptors", true, PROFILE_LIVE);
    profile_count(scene.profile, (struct profile_key){scene.node, thread, PROFILE_NO_CPU, counter}, 2, 2);
    return scene;
}

static struct profile_descriptor one(const struct scene *scene, uint32_t number, uint32_t origin)
{
    return (struct profile_descriptor){.process = scene->process,
                                       .node = origin == PROFILE_DESCRIPTOR_OPENED ? scene->node : 0,
                                       .number = number,
                                       .origin = origin,
                                       .kind = profile_string(scene->profile, "file"),
                                       .name = profile_string(scene->profile, "/etc/passwd"),
                                       .opened_ns = 10,
                                       .age_ns = 20};
}

static uint32_t add(const struct scene *scene, uint32_t number, uint32_t origin)
{
    const struct profile_descriptor it = one(scene, number, origin);
    return profile_add_descriptor(scene->profile, &it);
}

static void rows(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct profile_descriptor it = one(&scene, 3, PROFILE_DESCRIPTOR_OPENED);
    assert_int_equal(add(&scene, 3, PROFILE_DESCRIPTOR_OPENED), 1);
    assert_int_equal(add(&scene, 4, PROFILE_DESCRIPTOR_BEFORE), 2);
    it.origin = 0;
    profile_set_descriptor(scene.profile, 1, &it);
    assert_int_equal(add(&scene, 5, PROFILE_DESCRIPTOR_UNSEEN), 1); /* its place serves again */
    assert_int_equal(add(&scene, 6, PROFILE_DESCRIPTOR_INHERITED), 3);
    it.process = 99;
    assert_int_equal(profile_add_descriptor(scene.profile, &it), 0);
    it = one(&scene, 3, PROFILE_DESCRIPTOR_ORIGINS);
    assert_int_equal(profile_add_descriptor(scene.profile, &it), 0);
    it = one(&scene, 3, 0);
    assert_int_equal(profile_add_descriptor(scene.profile, &it), 0);
    it = one(&scene, 3, PROFILE_DESCRIPTOR_OPENED);
    it.node = 99;
    profile_set_descriptor(scene.profile, 2, &it);
    profile_set_descriptor(scene.profile, 77, &it);
    assert_int_equal(scene.profile->descriptors[2].number, 4);
    assert_int_equal(profile_check(scene.profile, NULL), BASE_OK);
    assert_string_equal(profile_descriptor_origin_name(PROFILE_DESCRIPTOR_UNSEEN), "unseen");
    assert_string_equal(profile_descriptor_origin_name(99), "");
    profile_free(scene.profile);
}

static void write_file(struct profile *profile)
{
    struct store *store;
    unlink(path);
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
}

static int run(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
    return code;
}

static void written_and_merged(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct profile *loaded, *into = profile_new();
    add(&scene, 3, PROFILE_DESCRIPTOR_OPENED);
    uint32_t gone = add(&scene, 4, PROFILE_DESCRIPTOR_BEFORE);
    add(&scene, 5, PROFILE_DESCRIPTOR_UNSEEN);
    const struct profile_descriptor closed = one(&scene, 4, 0);
    profile_set_descriptor(scene.profile, gone, &closed);
    write_file(scene.profile);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    assert_int_equal(loaded->descriptor_count, 4);
    const struct profile_descriptor *it = &loaded->descriptors[1];
    assert_int_equal(it->node, scene.node);
    assert_int_equal(it->opened_ns, 10);
    assert_int_equal(it->age_ns, 20);
    assert_string_equal(profile_text(loaded, it->kind), "file");
    assert_string_equal(profile_text(loaded, it->name), "/etc/passwd");
    assert_int_equal(merge_add(into, loaded, path, NULL), BASE_OK);
    assert_int_equal(merge_add(into, loaded, path, NULL), BASE_OK);
    assert_int_equal(into->descriptor_count, 5);
    assert_int_equal(into->descriptors[3].process, 2);
    assert_int_equal(into->descriptors[3].node, into->descriptors[1].node);
    assert_int_equal(into->descriptors[4].number, 5);
    assert_int_equal(into->descriptors[4].node, 0);
    assert_int_equal(profile_check(into, NULL), BASE_OK);
    profile_free(into);
    profile_free(loaded);
    profile_free(scene.profile);
}

/* 300 rows, each as it was made; its node is that of its own address, or what took that one. */
static void are_whole_but_for_stacks(const struct profile *profile, uint32_t image)
{
    size_t own = 0, taken = 0;
    assert_int_equal(profile->descriptor_count, 301);
    for (uint32_t i = 1; i < profile->descriptor_count; i++) {
        const struct profile_descriptor *it = &profile->descriptors[i];
        assert_int_equal(it->number, 10 * (i - 1));
        assert_int_equal(it->origin, PROFILE_DESCRIPTOR_OPENED);
        assert_int_equal(it->process, 1);
        assert_int_equal(it->opened_ns, 10);
        assert_int_equal(it->age_ns, 20);
        assert_string_equal(profile_text(profile, it->kind), "file");
        assert_string_equal(profile_text(profile, it->name), "/etc/passwd");
        assert_in_range(it->node, 1, profile->node_count - 1);
        uint32_t at = profile->nodes[it->node].address;
        const struct profile_address *address = &profile->addresses[at];
        taken += at == profile->folded_address;
        own += address->image == image && address->address == 0x1000 + it->number;
    }
    assert_int_equal(own + taken, 300);
    assert_true(taken > 0 && own > 0);
}

/* Their nodes are folded away: what took them has them. */
static void folded(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct profile *profile = scene.profile;
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    profile->max_nodes = 1000;
    uint64_t before = profile_folds(profile);
    for (uint32_t i = 0; i < 3000; i++) {
        struct scene at = scene;
        at.node = profile_node(profile, 0, profile_address(profile, image, 0x1000 + i), 0);
        if (i % 10 == 0)
            assert_int_not_equal(add(&at, i, PROFILE_DESCRIPTOR_OPENED), 0);
    }
    assert_true(profile_folds(profile) > before);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    are_whole_but_for_stacks(profile, image);
    profile_free(profile);
}

static void corrupt(void **state)
{
    (void)state;
    static const char *const lies[] = {
        "UPDATE data_descriptors SET process = 9", "UPDATE data_descriptors SET node = -1",
        "UPDATE data_descriptors SET origin = 9", "UPDATE data_descriptors SET process = 0",
        "DROP VIEW descriptors; DROP TABLE data_descriptors"};
    struct profile *loaded;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct scene scene = set_scene();
        add(&scene, 3, PROFILE_DESCRIPTOR_OPENED);
        write_file(scene.profile);
        assert_int_equal(run(lies[i]), SQLITE_OK);
        assert_int_equal(store_load(path, &loaded, NULL), BASE_EFORMAT);
        profile_free(scene.profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(written_and_merged),
                                       cmocka_unit_test(folded), cmocka_unit_test(corrupt)};
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
