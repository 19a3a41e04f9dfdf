/* Every allocation of a recording's model, its writing and its reading fails once, the Nth for N = 1, 2, 3
 * ... until nothing fails any more; then every write to the file. Whatever happens, nothing crashes, every
 * failure is reported or counted, and the file on the disk opens. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_map.h"
#include "failing.h"
#include "profile.h"
#include "store.h"
#include "wire_loss.h"

/* --- a small recording --- */

static char path[] = "/tmp/tally-faults-XXXXXX/p";

static void record_coverage(struct profile *profile, uint32_t image, unsigned seed)
{
    for (unsigned i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", seed + i);
        profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES + i % 4, seed + i, i);
        profile_set_left(profile, image, i, name, seed + i);
    }
    for (unsigned i = 0; i < PROFILE_UNCOVERED_MOST / 2; i++)
        profile_set_uncovered(profile, image, seed + i, "f", "left alone");
}

static void record_samples(struct profile *profile, unsigned seed)
{
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/x", "abcd", 0);
    uint32_t counter = profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    uint32_t thread = profile_thread(profile, profile_process(profile, 10, 0), 11);
    profile_set_meta(profile, "command", "x");
    record_coverage(profile, image, seed);
    for (unsigned i = 0; i < 300; i++) {
        uint32_t stack[5];
        for (unsigned level = 0; level < 5; level++)
            stack[level] =
                profile_address(profile, image, base_hash(seed + i * 8 + level) % (level < 2 ? 2 : 90));
        uint32_t node = profile_stack(profile, stack, NULL, 5);
        profile_count(profile, (struct profile_key){node, thread, 0, (uint16_t)counter}, 1000, 1);
        profile_timeline_add(profile, i, thread, node, 0, (uint16_t)counter);
        profile_add_calls(
            profile, profile_edge(profile, stack[1], stack[4], thread, 1 + i % (PROFILE_CALL_KINDS - 1)), i);
    }
}

/* 0: it went through; else something failed and was reported. */
static int record_and_read(void)
{
    struct profile *profile = profile_new(), *loaded = NULL;
    struct store *store = NULL;
    struct base_error error = {0};
    int result = profile ? BASE_OK : BASE_ENOMEM;
    if (profile) {
        profile->max_nodes = 400;
        result = store_create(path, &store, &error);
    }
    for (unsigned flush = 0; result == BASE_OK && flush < 3; flush++) {
        record_samples(profile, flush * 10000);
        result = store_flush(store, profile, &error);
    }
    int lost = profile && profile->losses[WIRE_LOSS_OUT_OF_MEMORY];
    if (store) {
        int closed = store_close(store, profile, false, &error);
        result = result == BASE_OK ? closed : result;
    }
    if (result == BASE_OK)
        result = store_load(path, &loaded, &error);
    if (loaded)
        profile_free(loaded);
    if (profile)
        profile_free(profile);
    return result < 0 ? result : lost;
}

/* As many functions as are said to be listed: each was known, kept and counted, or none of it. */
static int coverage_is_whole(const struct profile *profile)
{
    uint64_t listed = 0;
    for (size_t i = 1; i < profile->coverage_count; i++)
        listed += profile->coverage[i].kind == PROFILE_COVERAGE_LISTED ? profile->coverage[i].counted : 0;
    return listed == profile->uncovered_count - 1;
}

static int opens_afterwards(void)
{
    struct profile *loaded;
    struct base_error error = {0};
    if (access(path, F_OK))
        return 1; /* it failed before there was a file */
    if (store_load(path, &loaded, &error) < 0) {
        printf("# %s\n", error.text);
        return 0;
    }
    int good = profile_check(loaded, &error) == BASE_OK && coverage_is_whole(loaded);
    profile_free(loaded);
    return good;
}

static void remove_files(void)
{
    char old[sizeof path + 8];
    snprintf(old, sizeof old, "%s.old", path);
    unlink(old);
    unlink(path);
}

int main(void)
{
    uint64_t reported = 0, n = 0;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    if (!mkdtemp(path))
        return 1;
    *slash = '/';
    printf("1..1\n");
    fflush(stdout);
    for (;;) {
        failing_begin(++n);
        reported += record_and_read() != 0;
        int reached = failing_end() >= n;
        if (!opens_afterwards()) {
            printf("not ok 1 - allocation %llu failed and left a file that does not open\n",
                   (unsigned long long)n);
            return 1;
        }
        remove_files();
        if (!reached)
            break;
    }
    *slash = '\0';
    rmdir(path);
    printf("# %llu allocations failed one by one, %llu were reported or counted\n", (unsigned long long)n - 1,
           (unsigned long long)reported);
    printf("%s 1 - every_allocation_fails_once\n", n > 50 && reported > 0 ? "ok" : "not ok");
    return n > 50 && reported > 0 ? 0 : 1;
}
