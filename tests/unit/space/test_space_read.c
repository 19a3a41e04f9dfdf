/* From counters to edges. The libraries are real ones, planned from their files, with slots that ld.so fills
 * in this process; what was counted is written into a block by hand. Every edge is checked, and no other may
 * be there.
 *
 *     test_space space_read FIXTURE TAILS */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "space_made.h"
#include "space_make.h"
#include "space_read.h"
#include "space_slots.h"
#include "space_survey.h"

enum { UNKNOWN_SITE = 0, UNKNOWN_CALLEE = 1 }; /* no image address of a function */

static char **libraries;

struct subject {
    void *handle;
    struct space_made *calls;
    struct space_object *object;
    const struct slab_block *block;
    unsigned entries; /* of the table, used */
};

static struct subject begin(const char *library, const char *const *names)
{
    struct subject subject = {.handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL)};
    struct base_error error = {0};
    assert_non_null(subject.handle);
    subject.calls = space_made_new(names);
    assert_non_null(subject.calls);
    assert_int_equal(space_made_build(subject.calls, &error), BASE_OK);
    assert_int_equal(subject.calls->space->object_count, 1);
    subject.object = &subject.calls->space->objects[0];
    subject.block = &subject.calls->space->arenas[0].block;
    return subject;
}

static void finish(struct subject *subject)
{
    struct base_error error = {0};
    assert_int_equal(profile_check(subject->calls->profile, &error), BASE_OK);
    space_made_free(subject->calls);
    if (subject->handle)
        dlclose(subject->handle);
}

/* ld.so fills the slot at the first call. */
static void bind(struct subject *subject)
{
    static uint64_t truth[1 + 11 * 11];
    uint64_t (*run)(uint64_t) = (uint64_t(*)(uint64_t))(uintptr_t)dlsym(subject->handle, "fixture_run");
    uint64_t (*tails)(uint64_t *, uint64_t, uint64_t) =
        (uint64_t(*)(uint64_t *, uint64_t, uint64_t))(uintptr_t)dlsym(subject->handle, "tails_run");
    if (run)
        run(20);
    else
        tails(truth, 3, 100);
    space_slots_read(subject->calls->space);
}

/* --- what was counted --- */

static void put_word(const struct subject *subject, uint64_t at, uint64_t value)
{
    assert_int_equal(pwrite(subject->block->file, &value, 8, (off_t)at), 8);
}

static void count(const struct subject *subject, uint32_t site, uint64_t calls)
{
    put_word(subject, 8ull * space_made_site_word(subject->object, site), calls);
}

/* The first caller of the hook. */
static void first_arrival(const struct subject *subject, const char *callee, uint64_t from, uint64_t calls)
{
    uint32_t word = space_made_hook_word(subject->object, callee);
    put_word(subject, 8ull * word, from);
    put_word(subject, 8ull * word + 8, calls);
}

static void overflow(const struct subject *subject, const char *callee, uint64_t calls)
{
    put_word(subject, 8ull * space_made_hook_word(subject->object, callee) + 16, calls);
}

/* Another one. */
static void arrival(struct subject *subject, const char *callee, uint64_t from, uint64_t calls)
{
    uint64_t at = SLAB_BLOCK_TABLES + 32 + 32ull * subject->entries++;
    put_word(subject, at, from);
    put_word(subject, at + 8, 8ull * space_made_hook_word(subject->object, callee));
    put_word(subject, at + 16, calls);
}

static uint64_t mark(const struct subject *subject, uint32_t site)
{
    return ~(uint64_t)space_made_site_word(subject->object, site);
}

static void read_with(struct subject *subject, struct space_reading reading)
{
    struct slab_counts counts = {0};
    struct base_error error = {0};
    reading.space = subject->calls->space;
    reading.session = &subject->calls->session;
    assert_int_equal(space_read_block(reading.space, subject->block, &counts, &error), BASE_OK);
    assert_int_equal(space_read(&reading, &counts, &error), BASE_OK);
    slab_counts_free(&counts);
    subject->calls->checked = 0;
}

static void read_final(struct subject *subject)
{
    read_with(subject, (struct space_reading){.final = true});
}

/* --- edges --- */

static bool is_address(const struct profile *profile, uint32_t index, uint32_t image, uint64_t address)
{
    const struct profile_address *found = &profile->addresses[index];
    if (address == UNKNOWN_SITE)
        return !index;
    if (address == UNKNOWN_CALLEE)
        return profile->images[found->image].kind == PROFILE_IMAGE_SPECIAL;
    return found->image == image && found->address == address;
}

static void edge_of(struct subject *subject, uint64_t site, uint64_t callee, enum profile_call_kind kind,
                    uint32_t thread, uint64_t calls)
{
    const struct profile *profile = subject->calls->profile;
    uint32_t image = subject->calls->images.items[subject->object->image].profile_image;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        if (edge->kind != (uint32_t)kind || edge->thread != thread ||
            !is_address(profile, edge->site, image, site) ||
            !is_address(profile, edge->callee, image, callee))
            continue;
        assert_int_equal(edge->calls, calls);
        subject->calls->checked++;
        return;
    }
    fail_msg("no edge from %lx to %lx", (unsigned long)site, (unsigned long)callee);
}

static void edge(struct subject *subject, uint64_t site, uint64_t callee, enum profile_call_kind kind,
                 uint64_t calls)
{
    edge_of(subject, site, callee, kind, 0, calls);
}

static uint64_t entry(const struct subject *subject, const char *name)
{
    return space_made_entry(subject->object, name);
}

/* As callers' frames have it. */
static uint64_t frame(const struct subject *subject, uint32_t site)
{
    return space_made_return(subject->object, site) - subject->object->bias - 1;
}

static void nothing_else(const struct subject *subject)
{
    const struct profile *profile = subject->calls->profile;
    unsigned published = 0;
    for (size_t i = 1; i < profile->edge_count; i++) {
        published += profile->edges[i].calls != 0;
        if (profile->edges[i].calls && published > subject->calls->checked)
            print_message("# %lx -> %lx kind %u: %lu\n",
                          (unsigned long)profile->addresses[profile->edges[i].site].address,
                          (unsigned long)profile->addresses[profile->edges[i].callee].address,
                          profile->edges[i].kind, (unsigned long)profile->edges[i].calls);
    }
    assert_int_equal(published, subject->calls->checked);
}

/* --- sites --- */

static void direct_sites_have_their_callees(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t call = space_made_site(subject.object, "three", "leaf");
    uint32_t jump = space_made_site(subject.object, "maybe_tail", "leaf");
    uint32_t far = space_made_site(subject.object, "fixture_run", "sum");
    count(&subject, call, 5);
    count(&subject, jump, 3);
    count(&subject, far, UINT64_C(1) << 40);
    read_with(&subject, (struct space_reading){0});
    edge(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, 5);
    edge(&subject, frame(&subject, jump), entry(&subject, "leaf"), PROFILE_CALL_TAIL, 3);
    edge(&subject, frame(&subject, far), entry(&subject, "sum"), PROFILE_CALL_DIRECT, UINT64_C(1) << 40);
    nothing_else(&subject);
    finish(&subject);
}

static void a_filled_slot_names_the_callee(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t call = space_made_site(subject.object, "fixture_run", "*");
    uint32_t jump = space_made_site(subject.object, "switched", "*");
    bind(&subject);
    count(&subject, call, 9);
    count(&subject, jump, 4);
    first_arrival(&subject, "fixture_exported", space_made_return(subject.object, call),
                  9); /* the same calls */
    arrival(&subject, "fixture_exported", mark(&subject, jump), 4);
    read_with(&subject, (struct space_reading){0});
    edge(&subject, frame(&subject, call), entry(&subject, "fixture_exported"), PROFILE_CALL_DIRECT, 9);
    edge(&subject, frame(&subject, jump), entry(&subject, "fixture_exported"), PROFILE_CALL_TAIL, 4);
    nothing_else(&subject);
    finish(&subject);
}

/* Not filled yet: hooks know; at the end the symbol's name does. */
static void an_unfilled_slot_is_published_when_it_is_known(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t call = space_made_site(subject.object, "fixture_run", "*");
    uint32_t jump = space_made_site(subject.object, "switched", "*");
    count(&subject, call, 9);
    count(&subject, jump, 4);
    read_with(&subject, (struct space_reading){0});
    nothing_else(&subject);
    first_arrival(&subject, "fixture_exported", space_made_return(subject.object, call), 7);
    read_with(&subject, (struct space_reading){.replace = true});
    edge(&subject, frame(&subject, call), entry(&subject, "fixture_exported"), PROFILE_CALL_DIRECT, 9);
    nothing_else(&subject);
    read_with(&subject, (struct space_reading){.replace = true, .final = true});
    edge(&subject, frame(&subject, call), entry(&subject, "fixture_exported"), PROFILE_CALL_DIRECT, 9);
    edge(&subject, frame(&subject, jump), entry(&subject, "fixture_exported"), PROFILE_CALL_TAIL, 4);
    nothing_else(&subject);
    finish(&subject);
}

static void a_slot_that_nobody_knows_leads_to_its_stub(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t call = space_made_site(subject.object, "fixture_run", "*");
    count(&subject, call, 9);
    subject.calls->space->mapping_count = 0; /* where it might have been found */
    read_final(&subject);
    edge(&subject, frame(&subject, call), subject.object->planned->plan.sites[call].target,
         PROFILE_CALL_DIRECT, 9);
    nothing_else(&subject);
    finish(&subject);
}

/* --- hooks --- */

static void hooks_name_the_callees_of_indirect_calls(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    uint64_t from = space_made_return(subject.object, site);
    count(&subject, site, 100);
    first_arrival(&subject, "one", from, 40);
    arrival(&subject, "one", from, 2); /* a pair may stand in several places */
    arrival(&subject, "two", from, 50);
    read_with(&subject, (struct space_reading){.replace = true});
    edge(&subject, frame(&subject, site), entry(&subject, "one"), PROFILE_CALL_INDIRECT, 42);
    edge(&subject, frame(&subject, site), entry(&subject, "two"), PROFILE_CALL_INDIRECT, 50);
    nothing_else(&subject);
    read_with(&subject, (struct space_reading){.replace = true, .final = true});
    edge(&subject, frame(&subject, site), entry(&subject, "one"), PROFILE_CALL_INDIRECT, 42);
    edge(&subject, frame(&subject, site), entry(&subject, "two"), PROFILE_CALL_INDIRECT, 50);
    edge(&subject, frame(&subject, site), UNKNOWN_CALLEE, PROFILE_CALL_INDIRECT, 8);
    nothing_else(&subject);
    finish(&subject);
}

/* Counted at the hook, and not yet at the site when that was read: what hooks counted is published. */
static void a_site_behind_its_hooks_is_no_underflow(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    count(&subject, site, 3);
    first_arrival(&subject, "one", space_made_return(subject.object, site), 4);
    read_final(&subject);
    edge(&subject, frame(&subject, site), entry(&subject, "one"), PROFILE_CALL_INDIRECT, 4);
    nothing_else(&subject);
    finish(&subject);
}

static void arrivals_from_elsewhere_keep_their_address(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    const struct profile *profile = subject.calls->profile;
    uint64_t inside = entry(&subject, "mixed") + 9, here = (uint64_t)(uintptr_t)&bind + 1;
    first_arrival(&subject, "one", inside + subject.object->bias + 1, 5); /* no site ends there */
    arrival(&subject, "two", 0x1234, 6);                                  /* nothing is there */
    arrival(&subject, "three", here, 7);
    read_final(&subject);
    edge(&subject, inside, entry(&subject, "one"), PROFILE_CALL_INDIRECT, 5);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "two"), PROFILE_CALL_ENTRY, 6);
    const struct space_mapping *mapping = space_mapping(subject.calls->space, here);
    assert_non_null(mapping);
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_address *site = &profile->addresses[profile->edges[i].site];
        if (site->image != subject.calls->images.items[mapping->image].profile_image)
            continue;
        assert_int_equal(site->address, here - 1 - mapping->bias);
        assert_int_equal(profile->edges[i].calls, 7);
        assert_int_equal(profile->edges[i].kind, PROFILE_CALL_INDIRECT);
        subject.calls->checked++;
    }
    nothing_else(&subject);
    finish(&subject);
}

static void calls_without_a_record_have_no_caller(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    overflow(&subject, "one", 11);
    overflow(&subject, "leaf", 12);
    read_final(&subject);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "one"), PROFILE_CALL_ENTRY, 11);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "leaf"), PROFILE_CALL_ENTRY, 12);
    nothing_else(&subject);
    finish(&subject);
}

/* --- tail jumps --- */

static void marks_name_the_jump(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[1], NULL);
    uint32_t jump = space_made_site(subject.object, "jumps_0", NULL);
    uint32_t call = space_made_site(subject.object, "tails_run", NULL);
    uint32_t linked = space_made_site(subject.object, "linked", "*");
    bind(&subject);
    count(&subject, jump, 20);
    count(&subject, call, 5);
    count(&subject, linked, 6);
    first_arrival(&subject, "jumps_3", mark(&subject, jump), 7);
    arrival(&subject, "calls_5", mark(&subject, jump), 8);
    arrival(&subject, "jumps_0", space_made_return(subject.object, call), 5);
    arrival(&subject, "tails_exported", mark(&subject, linked), 6);
    read_final(&subject);
    edge(&subject, frame(&subject, jump), entry(&subject, "jumps_3"), PROFILE_CALL_TAIL, 7);
    edge(&subject, frame(&subject, jump), entry(&subject, "calls_5"), PROFILE_CALL_TAIL, 8);
    edge(&subject, frame(&subject, jump), UNKNOWN_CALLEE, PROFILE_CALL_TAIL, 5);
    edge(&subject, frame(&subject, call), entry(&subject, "jumps_0"), PROFILE_CALL_INDIRECT, 5);
    edge(&subject, frame(&subject, linked), entry(&subject, "tails_exported"), PROFILE_CALL_TAIL, 6);
    nothing_else(&subject);
    finish(&subject);
}

/* Of no site: nobody's numbers, those of hooks, the header's. */
static void marks_of_no_site_have_no_caller(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[1], NULL);
    first_arrival(&subject, "jumps_0", ~(uint64_t)subject.calls->space->word_end, 1);
    first_arrival(&subject, "jumps_1", UINT64_C(1) << 63, 2);
    first_arrival(&subject, "jumps_2", ~UINT64_C(0), 3);
    first_arrival(&subject, "jumps_3", ~(uint64_t)space_made_hook_word(subject.object, "quiet"), 4);
    read_final(&subject);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "jumps_0"), PROFILE_CALL_ENTRY, 1);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "jumps_1"), PROFILE_CALL_ENTRY, 2);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "jumps_2"), PROFILE_CALL_ENTRY, 3);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "jumps_3"), PROFILE_CALL_ENTRY, 4);
    nothing_else(&subject);
    finish(&subject);
}

/* A site that another form of the stubs leaves out was counted before, and so were its jumps. */
static void marks_of_a_site_without_a_stub_keep_it(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[1], NULL);
    uint32_t jump = space_made_site(subject.object, "jumps_0", NULL);
    first_arrival(&subject, "jumps_3", mark(&subject, jump), 7);
    subject.object->patch->slab.stubs[jump] = 0;
    read_final(&subject);
    edge(&subject, frame(&subject, jump), entry(&subject, "jumps_3"), PROFILE_CALL_TAIL, 7);
    nothing_else(&subject);
    finish(&subject);
}

/* `switched` was called directly, and what it jumps to finds its caller's return address. */
static void stale_arrivals_are_the_jumps_that_were_counted(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t call = space_made_site(subject.object, "fixture_run", "switched");
    uint32_t jump = space_made_site(subject.object, "switched", "*");
    count(&subject, call, 30);
    first_arrival(&subject, "fixture_exported", space_made_return(subject.object, call), 6);
    count(&subject, jump, 4);
    bind(&subject); /* later than the stubs were made: they lead through the slot, to the hook */
    read_with(&subject, (struct space_reading){.replace = true});
    edge(&subject, frame(&subject, call), entry(&subject, "switched"), PROFILE_CALL_DIRECT, 30);
    edge(&subject, frame(&subject, jump), entry(&subject, "fixture_exported"), PROFILE_CALL_TAIL, 4);
    nothing_else(&subject);
    read_with(&subject, (struct space_reading){.replace = true, .final = true});
    edge(&subject, frame(&subject, call), entry(&subject, "switched"), PROFILE_CALL_DIRECT, 30);
    edge(&subject, frame(&subject, jump), entry(&subject, "fixture_exported"), PROFILE_CALL_TAIL, 4);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "fixture_exported"), PROFILE_CALL_TAIL, 2);
    nothing_else(&subject);
    subject.object->patch->past[jump] = 1; /* no hook saw what goes past it: all six came some other way */
    read_with(&subject, (struct space_reading){.replace = true, .final = true});
    edge(&subject, UNKNOWN_SITE, entry(&subject, "fixture_exported"), PROFILE_CALL_TAIL, 6);
    finish(&subject);
}

/* A direct site's stub goes past the hook of its callee: who comes to it from there has jumped, even when it
 * is the callee. */
static void a_direct_site_never_meets_its_callees_hook(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t call = space_made_site(subject.object, "three", "leaf");
    count(&subject, call, 3);
    first_arrival(&subject, "leaf", space_made_return(subject.object, call), 2);
    read_final(&subject);
    edge(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, 3);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "leaf"), PROFILE_CALL_TAIL, 2);
    nothing_else(&subject);
    finish(&subject);
}

/* --- names that were requested --- */

static void only_named_functions_are_reported(void **state)
{
    static const char *const names[] = {"one", NULL};
    (void)state;
    struct subject subject = begin(libraries[0], names);
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    uint64_t from = space_made_return(subject.object, site);
    const struct plan *plan = &subject.object->planned->plan;
    uint32_t direct = space_made_site(subject.object, "switched", "one");
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        if (i != direct)
            assert_int_equal(subject.object->wanted[i], 0);
    count(&subject, direct, 4);
    first_arrival(&subject, "one", from, 5);
    arrival(&subject, "one", 0x1234, 6);
    first_arrival(&subject, "two", from, 7); /* its hook is there, since `one` might call by address */
    overflow(&subject, "one", 8);
    overflow(&subject, "two", 9);
    arrival(&subject, "two", entry(&subject, "one") + 5 + subject.object->bias, 10);
    read_final(&subject);
    edge(&subject, frame(&subject, direct), entry(&subject, "one"), PROFILE_CALL_TAIL, 4);
    edge(&subject, frame(&subject, site), entry(&subject, "one"), PROFILE_CALL_INDIRECT, 5);
    edge(&subject, UNKNOWN_SITE, entry(&subject, "one"), PROFILE_CALL_ENTRY, 6 + 8);
    edge(&subject, entry(&subject, "one") + 4, entry(&subject, "two"), PROFILE_CALL_INDIRECT, 10);
    nothing_else(&subject);
    finish(&subject);
}

/* --- running totals --- */

static void totals_take_each_others_place(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    struct profile *profile = subject.calls->profile;
    uint32_t thread = profile_thread(profile, profile_process(profile, 7, 0), 7);
    uint32_t call = space_made_site(subject.object, "three", "leaf");
    uint32_t other = space_made_site(subject.object, "fixture_run", "sum");
    const struct space_reading many = {.replace = true}, one = {.replace = true, .thread = thread};
    count(&subject, call, 5);
    count(&subject, other, 50);
    read_with(&subject, many);
    read_with(&subject, many);
    edge(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, 5);
    edge(&subject, frame(&subject, other), entry(&subject, "sum"), PROFILE_CALL_DIRECT, 50);
    nothing_else(&subject);
    read_with(&subject, (struct space_reading){0}); /* the final counts: of a thread that has ended */
    count(&subject, call, 8);
    read_with(&subject, many);
    edge(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, 5 + 8);
    edge(&subject, frame(&subject, other), entry(&subject, "sum"), PROFILE_CALL_DIRECT, 50 + 50);
    nothing_else(&subject);
    count(&subject, other, 0);
    read_with(&subject, one);
    edge_of(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, thread, 8);
    edge(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, 5 + 8);
    edge(&subject, frame(&subject, other), entry(&subject, "sum"), PROFILE_CALL_DIRECT, 50 + 50);
    nothing_else(&subject);
    count(&subject, call, 0);
    count(&subject, other, 1);
    read_with(&subject, many); /* those of a thread stay; what is not published any more is none */
    edge_of(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, thread, 8);
    edge(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, 5);
    edge(&subject, frame(&subject, other), entry(&subject, "sum"), PROFILE_CALL_DIRECT, 50 + 1);
    nothing_else(&subject);
    finish(&subject);
}

/* First unknown, then known: the calls move from one edge to another. */
static void totals_move_to_callees_that_are_found(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    const struct space_reading final = {.replace = true, .final = true};
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    count(&subject, site, 10);
    read_with(&subject, final);
    edge(&subject, frame(&subject, site), UNKNOWN_CALLEE, PROFILE_CALL_INDIRECT, 10);
    nothing_else(&subject);
    first_arrival(&subject, "two", space_made_return(subject.object, site), 10);
    read_with(&subject, final);
    edge(&subject, frame(&subject, site), entry(&subject, "two"), PROFILE_CALL_INDIRECT, 10);
    nothing_else(&subject);
    finish(&subject);
}

/* --- objects that are gone --- */

static void closed_objects_keep_what_was_counted(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    struct space *space = subject.calls->space;
    uint32_t call = space_made_site(subject.object, "three", "leaf");
    uint32_t linked = space_made_site(subject.object, "fixture_run", "*");
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    bind(&subject);
    count(&subject, call, 5);
    count(&subject, linked, 6);
    count(&subject, site, 7);
    first_arrival(&subject, "one", space_made_return(subject.object, site), 7);
    arrival(&subject, "two", entry(&subject, "mixed") + 10 + subject.object->bias, 8);
    uint64_t low = subject.object->low, high = subject.object->high;
    dlclose(subject.handle);
    subject.handle = NULL;
    void *taken = mmap((void *)(uintptr_t)low, high - low, PROT_READ | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_int_equal(space_survey(space, &subject.calls->session, NULL), 0);
    subject.object = &space->objects[0];
    assert_false(subject.object->live);
    read_final(&subject);
    edge(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, 5);
    edge(&subject, frame(&subject, linked), entry(&subject, "fixture_exported"), PROFILE_CALL_DIRECT, 6);
    edge(&subject, frame(&subject, site), entry(&subject, "one"), PROFILE_CALL_INDIRECT, 7);
    edge(&subject, entry(&subject, "mixed") + 9, entry(&subject, "two"), PROFILE_CALL_INDIRECT, 8);
    nothing_else(&subject);
    if (taken != MAP_FAILED)
        munmap(taken, high - low);
    finish(&subject);
}

/* The same file again, elsewhere or in the same place, is another object with numbers of its own. */
static void who_comes_back_is_a_new_object(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    struct space *space = subject.calls->space;
    uint32_t call = space_made_site(subject.object, "three", "leaf");
    count(&subject, call, 5);
    dlclose(subject.handle);
    assert_int_equal(space_survey(space, &subject.calls->session, NULL), 0);
    subject.handle = dlopen(libraries[0], RTLD_LAZY | RTLD_LOCAL);
    assert_int_equal(space_made_build(subject.calls, NULL), BASE_OK);
    assert_int_equal(space->object_count, 2);
    subject.object = &space->objects[1];
    assert_true(subject.object->base > space->objects[0].base);
    count(&subject, call, 100);
    read_final(&subject);
    edge(&subject, frame(&subject, call), entry(&subject, "leaf"), PROFILE_CALL_DIRECT, 105);
    nothing_else(&subject);
    finish(&subject);
}

/* --- the rest --- */

static uint64_t random_word(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 16 ^ *seed << 20;
}

/* The target may write what it likes: no address, mark or number leads out of what is there. */
static void hostile_blocks_are_only_read(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[1], NULL);
    uint64_t words[4096], seed = 5;
    bind(&subject);
    for (unsigned round = 0; round < 60; round++) {
        for (size_t i = 0; i < sizeof words / 8; i++) {
            uint64_t value = random_word(&seed);
            switch (value % 5) {
            case 0:
                words[i] = value >> value % 61;
                break;
            case 1:
                words[i] = ~(value % 400);
                break;
            case 2:
                words[i] = value % 3000;
                break;
            case 3:
                words[i] = subject.object->low + value % 8192;
                break;
            default:
                words[i] = (value % 4) << SPACE_CLOSED_SHIFT | value % 8192;
            }
        }
        assert_int_equal(pwrite(subject.block->file, words, sizeof words, 0), sizeof words);
        assert_int_equal(pwrite(subject.block->file, words, sizeof words, SLAB_BLOCK_TABLES), sizeof words);
        read_with(&subject, (struct space_reading){.final = round % 2, .replace = round % 3 == 0});
    }
    finish(&subject);
}

/* A new patch of the object in code that begins at `address`. */
static uint64_t placed_at(const struct subject *subject, uint64_t address)
{
    struct base_error error = {0};
    subject->calls->space->arenas[0].code->address = address;
    assert_int_equal(space_make(subject->calls->space, true, &error), BASE_OK);
    uint64_t at = subject->object->next->regions[0].address;
    space_patch_release(subject->object->next);
    subject->object->next = NULL;
    return at;
}

/* In the same 16 MiB as the text, at either end of the code; where neither is, at its beginning. */
static void stubs_lie_near_their_text(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    const struct space_code *code = subject.calls->space->arenas[0].code;
    uint64_t used = code->used, near = subject.object->low & ~(uint64_t)0xffffff;
    uint64_t lower = near - (4u << 20), far = near - (256u << 20);
    assert_true(used > 0 && code->top == code->size);
    uint64_t at = placed_at(&subject, lower);
    assert_int_equal(at, lower + code->top);
    assert_int_equal(at & ~(uint64_t)0xffffff, near);
    assert_int_equal(code->used, used);
    uint64_t top = code->top;
    assert_true(placed_at(&subject, lower) < at); /* downwards */
    assert_true(code->top < top && code->used == used);
    top = code->top;
    at = placed_at(&subject, near);
    assert_true(at >= near + used && at < near + used + 64);
    assert_true(code->top == top && code->used > used);
    used = code->used;
    at = placed_at(&subject, far);
    assert_true(at >= far + used && at < far + used + 64);
    assert_true(code->top == top && code->used > used);
    finish(&subject);
}

static void coverage_is_the_plans(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    const struct plan_header *header = subject.object->planned->plan.header;
    const struct profile *profile = subject.calls->profile;
    unsigned seen = 0;
    subject.object->differing = 2;
    space_read_coverage(subject.calls->space, &subject.calls->session);
    for (size_t i = 1; i < profile->coverage_count; i++) {
        const struct profile_coverage *coverage = &profile->coverage[i];
        if (coverage->kind == PROFILE_COVERAGE_SITES) {
            assert_int_equal(coverage->found, header->found);
            assert_int_equal(coverage->counted, header->planned - 2);
        } else if (coverage->kind == PROFILE_COVERAGE_FUNCTIONS) {
            assert_int_equal(coverage->found, header->callable);
            assert_int_equal(coverage->counted, header->covered);
        } else {
            continue;
        }
        seen++;
    }
    assert_int_equal(seen, 2);
    finish(&subject);
}

/* --- guesses --- */

/* The site's stub tries the hook's function first; returns the word that such calls are counted in. */
static uint32_t guess(struct subject *subject, uint32_t site, const char *callee)
{
    struct space_object *object = subject->object;
    uint32_t hook = object->planned->plan.functions[space_made_function(object, callee)].hook;
    if (!object->guesses)
        object->guesses = calloc(SLAB_GUESSES, sizeof *object->guesses);
    assert_non_null(object->guesses);
    uint32_t word = subject->calls->space->word_end++;
    object->guesses[object->guess_count++] = (struct slab_guess){site, hook, word - object->base};
    return word;
}

static void right_guesses_are_calls_of_the_site(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    uint64_t from = space_made_return(subject.object, site);
    put_word(&subject, 8ull * guess(&subject, site, "one"), 1000);
    count(&subject, site, 100); /* wrong guesses, and what was called before there was one */
    first_arrival(&subject, "one", from, 40);
    arrival(&subject, "two", from, 50);
    for (int i = 0; i < 2; i++) {
        read_with(&subject, (struct space_reading){.replace = true, .final = true});
        edge(&subject, frame(&subject, site), entry(&subject, "one"), PROFILE_CALL_INDIRECT, 1040);
        edge(&subject, frame(&subject, site), entry(&subject, "two"), PROFILE_CALL_INDIRECT, 50);
        edge(&subject, frame(&subject, site), UNKNOWN_CALLEE, PROFILE_CALL_INDIRECT, 10);
        nothing_else(&subject);
    }
    finish(&subject);
}

static void right_guesses_of_jumps_are_their_marks(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[1], NULL);
    uint32_t jump = space_made_site(subject.object, "jumps_0", NULL);
    put_word(&subject, 8ull * guess(&subject, jump, "jumps_3"), 30);
    count(&subject, jump, 20);
    first_arrival(&subject, "jumps_3", mark(&subject, jump), 7);
    read_final(&subject);
    edge(&subject, frame(&subject, jump), entry(&subject, "jumps_3"), PROFILE_CALL_TAIL, 37);
    edge(&subject, frame(&subject, jump), UNKNOWN_CALLEE, PROFILE_CALL_TAIL, 13);
    nothing_else(&subject);
    finish(&subject);
}

/* Its stub is gone, what was guessed is not. */
static void closed_objects_keep_their_guesses(void **state)
{
    (void)state;
    struct subject subject = begin(libraries[0], NULL);
    uint32_t site = space_made_site(subject.object, "through_object", NULL);
    put_word(&subject, 8ull * guess(&subject, site, "one"), 1000);
    subject.object->live = false;
    space_read_close(subject.calls->space, 0);
    read_final(&subject);
    edge(&subject, frame(&subject, site), entry(&subject, "one"), PROFILE_CALL_INDIRECT, 1000);
    nothing_else(&subject);
    finish(&subject);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_sites_have_their_callees),
        cmocka_unit_test(a_filled_slot_names_the_callee),
        cmocka_unit_test(an_unfilled_slot_is_published_when_it_is_known),
        cmocka_unit_test(a_slot_that_nobody_knows_leads_to_its_stub),
        cmocka_unit_test(hooks_name_the_callees_of_indirect_calls),
        cmocka_unit_test(a_site_behind_its_hooks_is_no_underflow),
        cmocka_unit_test(arrivals_from_elsewhere_keep_their_address),
        cmocka_unit_test(calls_without_a_record_have_no_caller),
        cmocka_unit_test(marks_name_the_jump),
        cmocka_unit_test(marks_of_no_site_have_no_caller),
        cmocka_unit_test(marks_of_a_site_without_a_stub_keep_it),
        cmocka_unit_test(stale_arrivals_are_the_jumps_that_were_counted),
        cmocka_unit_test(a_direct_site_never_meets_its_callees_hook),
        cmocka_unit_test(only_named_functions_are_reported),
        cmocka_unit_test(totals_take_each_others_place),
        cmocka_unit_test(totals_move_to_callees_that_are_found),
        cmocka_unit_test(closed_objects_keep_what_was_counted),
        cmocka_unit_test(who_comes_back_is_a_new_object),
        cmocka_unit_test(hostile_blocks_are_only_read),
        cmocka_unit_test(stubs_lie_near_their_text),
        cmocka_unit_test(coverage_is_the_plans),
        cmocka_unit_test(right_guesses_are_calls_of_the_site),
        cmocka_unit_test(right_guesses_of_jumps_are_their_marks),
        cmocka_unit_test(closed_objects_keep_their_guesses),
    };
    if (argument_count < 3)
        return 2;
    libraries = arguments + 1;
    return cmocka_run_group_tests(tests, space_made_begin_tests, space_made_end_tests);
}
