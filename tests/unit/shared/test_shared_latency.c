/* From the agent's histograms to the profile's: only differences are added, groups of threads become one, and
 * what lies stays within bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile_latency.h"
#include "shared_latency.h"

enum { LATENCIES = 3 };

static struct profile *profile;
static struct shared_latency_published published;
static struct shared_cookie cookie;
static struct wire_agent_latency latencies[LATENCIES + 1];
static uint32_t process, unknown;

/* 1 and 2 are of one function, of two groups of threads; nothing was ever called of 3. */
static int set_up(void **state)
{
    (void)state;
    profile = profile_new();
    memset(latencies, 0, sizeof latencies);
    process = profile_process(profile, 7, 0);
    unknown = profile_address(profile, profile_image(profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0), 0);
    cookie.image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    cookie.bias = 0x10000;
    for (uint32_t i = 1; i <= LATENCIES; i++)
        latencies[i] = (struct wire_agent_latency){
            .function = i == 3 ? 0x10200 : 0x10100, .cookie = 1, .group = i == 3 ? 1 : i};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    shared_latency_published_free(&published);
    profile_free(profile);
    return 0;
}

/* As the agent does, with two ticks a nanosecond. */
static void call(uint32_t number, uint64_t ns)
{
    struct wire_agent_latency *it = &latencies[number];
    it->sum += 2 * ns;
    it->most = ns > it->most ? ns : it->most;
    it->least = ~ns > it->least ? ~ns : it->least;
    it->buckets[wire_latency_bucket(ns)]++;
}

static void publish(void)
{
    const struct shared_tree tree = {.latencies = latencies, .latency_count = LATENCIES};
    struct shared_nodes view = {
        .profile = profile, .tree = &tree, .cookies = &cookie, .cookie_count = 1, .special_unknown = unknown};
    assert_int_equal(shared_latency_publish(&view, &published, process, 0.5, NULL), BASE_OK);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
}

static struct profile_latency_sum *only_sum(void)
{
    struct profile_latency_sum *sums;
    size_t count;
    assert_int_equal(profile_latency_sums(profile, NULL, &sums, &count, NULL), BASE_OK);
    assert_int_equal(count, 1);
    return sums;
}

static void test_differences(void **state)
{
    (void)state;
    call(1, 100);
    call(1, 7);
    call(2, 90000);
    for (int i = 0; i < 2; i++) { /* published twice, counted once */
        publish();
        struct profile_latency_sum *sum = only_sum();
        assert_int_equal(profile->addresses[sum->address].address, 0x100);
        assert_int_equal(profile_latency_calls(sum), 3);
        assert_int_equal(sum->sum_ns, 90107);
        assert_int_equal(sum->min_ns, 7);
        assert_int_equal(sum->max_ns, 90000);
        free(sum);
    }
    call(2, 3);
    publish();
    struct profile_latency_sum *sum = only_sum();
    assert_int_equal(profile_latency_calls(sum), 4);
    assert_int_equal(sum->sum_ns, 90110);
    assert_int_equal(sum->min_ns, 3);
    assert_int_equal(sum->buckets[wire_latency_bucket(90000)], 1);
    free(sum);
}

/* The target may have written anything. */
static void test_hostile(void **state)
{
    (void)state;
    call(1, 100);
    publish();
    latencies[1].buckets[wire_latency_bucket(100)] = 0; /* fewer than before */
    latencies[1].buckets[3] = UINT64_MAX;
    latencies[1].sum = UINT64_MAX;
    latencies[2].least = ~(uint64_t)5; /* more than the most */
    latencies[2].buckets[9] = 4;
    latencies[3].cookie = 99;
    latencies[3].least = UINT64_MAX;
    latencies[3].most = UINT64_MAX;
    publish();
    struct profile_latency_sum *sum = only_sum();
    assert_int_equal(sum->buckets[wire_latency_bucket(100)], 1);
    assert_int_equal(sum->buckets[3], INT64_MAX);
    assert_int_equal(sum->buckets[9], 0);
    assert_int_equal(sum->sum_ns, INT64_MAX);
    free(sum);
    call(3, 0); /* of no mapping that tally named, and its most stays beyond */
    latencies[3].most = 0;
    publish();
    assert_int_equal(profile->latencies[profile->latency_count - 1].address, unknown);
}

/* Ticks are converted by a figure that is not exact: a sum is between what its calls can have taken. */
static void test_sum_is_possible(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        call(1, 1000);
    latencies[1].sum += 50;
    publish();
    struct profile_latency_sum *sum = only_sum();
    assert_int_equal(sum->sum_ns, 10000);
    free(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_differences, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sum_is_possible, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
