/* test_slab_prepared.c - a slab that was prepared and moved is the slab that would be made there, byte for
 * byte; nothing that does not fit, or is damaged, is used. Arguments: libraries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "slab_prepared.h"

#define CODE 0x7f3210000000u

static int library_count;
static char **libraries;

/* A library's plan, and what its slab is prepared from. */
struct subject {
    struct plan plan;
    uint8_t *wanted, *quiet;
    uint64_t *slots;
    size_t slot_count;
};

/* One process: where things lie, and what ld.so has done. */
struct process {
    const struct subject *subject;
    uint64_t bias;
    unsigned bound; /* of so many slots in a row all but the first are bound; 0: none is */
    struct slab_region region;
    struct slab slab;
};

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void list_slots(struct subject *subject)
{
    const struct plan_header *header = subject->plan.header;
    size_t kept = 0;
    subject->slots = calloc(header->site_count + 1u, sizeof *subject->slots);
    for (uint32_t i = 0; i < header->site_count; i++)
        if (subject->plan.sites[i].slot != 0)
            subject->slots[subject->slot_count++] = subject->plan.sites[i].slot;
    qsort(subject->slots, subject->slot_count, sizeof *subject->slots, by_value);
    for (size_t i = 0; i < subject->slot_count; i++)
        if (kept == 0 || subject->slots[kept - 1] != subject->slots[i])
            subject->slots[kept++] = subject->slots[i];
    subject->slot_count = kept;
}

/* `choice` 0: everything is wanted, but for hooks in windows; else every choice-th site and hook is not. */
static void open_subject(struct subject *subject, const char *path, unsigned choice)
{
    struct elf_image *image;
    *subject = (struct subject){0};
    assert_int_equal(elf_image_open(path, &image, NULL), BASE_OK);
    assert_int_equal(plan_make(image, NULL, &subject->plan, NULL), BASE_OK);
    elf_image_close(image);
    const struct plan_header *header = subject->plan.header;
    size_t choices = (size_t)header->site_count + header->hook_count;
    subject->wanted = malloc(choices + 1);
    subject->quiet = calloc(header->site_count + 1u, 1);
    for (size_t i = 0; i < choices; i++)
        subject->wanted[i] = choice == 0 || i % choice != 0;
    for (uint32_t i = 0; i < header->hook_count; i++)
        if (subject->plan.hooks[i].kind == STUB_ENTRY_ENDBR)
            subject->wanted[header->site_count + i] = 0;
    for (size_t i = 0; choice != 0 && i < header->site_count; i += 5)
        subject->quiet[i] = stub_x86_64_site_is_jump((enum stub_kind)subject->plan.sites[i].kind);
    list_slots(subject);
}

static void close_subject(struct subject *subject)
{
    plan_free(&subject->plan);
    free(subject->wanted);
    free(subject->quiet);
    free(subject->slots);
}

/* Slots lead nowhere yet, to functions of the image with and without hooks, near by, and far away. */
static uint64_t resolve(void *context, uint64_t slot)
{
    const struct process *process = context;
    const struct plan *plan = &process->subject->plan;
    uint64_t number = slot / 8;
    if (process->bound == 0 || number % process->bound == 0)
        return 0;
    switch (number % 4) {
    case 0:
        return process->bias + plan->functions[number % plan->header->function_count].start;
    case 1:
        if (plan->header->hook_count > 0)
            return process->bias + plan->hooks[number % plan->header->hook_count].address;
        return process->bias - 0x100000 - 16 * number;
    case 2:
        return 0x550000000000 + slot;
    default:
        return process->bias - 0x100000 - 16 * number;
    }
}

static void begin(struct process *process, const struct subject *subject, enum stub_form form, unsigned bound,
                  unsigned where)
{
    *process = (struct process){.subject = subject, .bound = bound};
    size_t size = slab_size(&subject->plan);
    process->bias = CODE - 0x4000000 - 0x1234000 * (uint64_t)where;
    process->region = (struct slab_region){
        .address = CODE + 0x1003450 * (uint64_t)where, .bytes = calloc(1, size), .size = size};
    process->slab = (struct slab){.plan = &subject->plan,
                                  .wanted = subject->wanted,
                                  .quiet = subject->quiet,
                                  .bias = process->bias,
                                  .counter = {form, CODE + 0x8000000 + 0x345678 * (uint64_t)where,
                                              0x20000000 + 0x10000 * where, STUB_BLOCK_WORDS + 777 * where},
                                  .regions = &process->region,
                                  .region_count = 1,
                                  .resolve = resolve,
                                  .context = process};
}

static void end(struct process *process)
{
    slab_free(&process->slab);
    free(process->region.bytes);
}

static struct slab_prepared_input input_of(const struct process *process,
                                           const struct slab_prepared_way *ways)
{
    struct slab_prepared_input input = {.plan = process->slab.plan,
                                        .wanted = process->slab.wanted,
                                        .quiet = process->slab.quiet,
                                        .form = process->slab.counter.form,
                                        .ways = ways,
                                        .way_count = process->subject->slot_count};
    input.key = slab_prepared_key(&input);
    return input;
}

/* Prepared in one process. */
static int prepare(const struct subject *subject, enum stub_form form, unsigned bound,
                   struct slab_prepared *prepared)
{
    struct process process;
    struct slab_prepared_way *ways = calloc(subject->slot_count + 1, sizeof *ways);
    begin(&process, subject, form, bound, 1);
    assert_true(slab_prepared_ways(&process.slab, subject->slots, subject->slot_count, ways));
    struct slab_prepared_input input = input_of(&process, ways);
    int result = slab_prepared_make(&input, prepared, NULL);
    end(&process);
    free(ways);
    return result;
}

/* Placed in another. */
static bool place(const struct slab_prepared *prepared, struct process *process)
{
    const struct subject *subject = process->subject;
    struct slab_prepared_way *ways = calloc(subject->slot_count + 1, sizeof *ways);
    struct slab_prepared_input input = input_of(process, ways);
    bool fits = slab_prepared_ways(&process->slab, subject->slots, subject->slot_count, ways) &&
                slab_prepared_place(prepared, &input, &process->slab);
    free(ways);
    return fits;
}

static void same_write(const struct slab_write *a, const struct slab_write *b)
{
    assert_int_equal(a->address, b->address);
    assert_int_equal(a->length, b->length);
    assert_int_equal(a->site, b->site);
    assert_int_equal(a->hook, b->hook);
    assert_memory_equal(a->old, b->old, a->length);
    assert_memory_equal(a->fresh, b->fresh, a->length);
}

static void same_hook(const struct stub_x86_64_hook *a, const struct stub_x86_64_hook *b)
{
    assert_int_equal(a->body, b->body);
    assert_int_equal(a->slow, b->slow);
    assert_int_equal(a->copied, b->copied);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->from, b->from, a->count);
    assert_memory_equal(a->to, b->to, a->count);
}

static void same_slab(const struct process *one, const struct process *other)
{
    const struct slab *a = &one->slab, *b = &other->slab;
    const struct plan_header *header = a->plan->header;
    assert_int_equal(one->region.used, other->region.used);
    assert_memory_equal(one->region.bytes, other->region.bytes, one->region.used);
    assert_int_equal(a->write_count, b->write_count);
    for (size_t i = 0; i < a->write_count; i++)
        same_write(&a->writes[i], &b->writes[i]);
    assert_memory_equal(a->stubs, b->stubs, header->site_count * sizeof *a->stubs);
    assert_int_equal(a->by_slot_count, b->by_slot_count);
    for (size_t i = 0; i < a->by_slot_count; i++) {
        assert_int_equal(a->by_slot[i], b->by_slot[i]);
        assert_int_equal(a->ends[a->by_slot[i]], b->ends[b->by_slot[i]]);
    }
    assert_memory_equal(a->inlined, b->inlined, header->site_count * sizeof *a->inlined);
    assert_memory_equal(a->bodies, b->bodies, header->hook_count);
    assert_memory_equal(a->entries, b->entries, header->hook_count * sizeof *a->entries);
    for (uint32_t i = 0; i < header->hook_count; i++)
        same_hook(&a->hooks[i], &b->hooks[i]);
    assert_int_equal(a->stubs_end, b->stubs_end);
    assert_int_equal(a->recorder, b->recorder);
    assert_int_equal(a->piece_count, b->piece_count);
    for (size_t i = 0; i < a->piece_count; i++) {
        assert_int_equal(a->pieces[i].address, b->pieces[i].address);
        assert_int_equal(a->pieces[i].site, b->pieces[i].site);
        assert_int_equal(a->pieces[i].hook, b->pieces[i].hook);
    }
    assert_memory_equal(a->reasons, b->reasons, sizeof a->reasons);
}

static void moves_to(const struct subject *subject, const struct slab_prepared *prepared, enum stub_form form,
                     unsigned bound, unsigned where)
{
    struct process made, placed;
    begin(&made, subject, form, bound, where);
    begin(&placed, subject, form, bound, where);
    assert_int_equal(slab_make(&made.slab, NULL), BASE_OK);
    assert_true(place(prepared, &placed));
    same_slab(&made, &placed);
    slab_stub_bind(&made.slab); /* once more changes nothing */
    slab_stub_bind(&placed.slab);
    same_slab(&made, &placed);
    end(&made);
    end(&placed);
}

static void it_is_what_would_be_made(void **state)
{
    (void)state;
    size_t stubs = 0, inlined = 0;
    for (int i = 0; i < library_count; i++)
        for (unsigned choice = 0; choice < 4; choice += 3) {
            struct subject subject;
            open_subject(&subject, libraries[i], choice);
            for (enum stub_form form = STUB_PLAIN; form <= STUB_LOCK; form++)
                for (unsigned bound = 0; bound < 8; bound += 7) {
                    struct slab_prepared prepared;
                    assert_int_equal(prepare(&subject, form, bound, &prepared), BASE_OK);
                    for (unsigned where = 0; where < 4; where++)
                        moves_to(&subject, &prepared, form, bound, where);
                    for (uint32_t j = 0; j < prepared.header->site_count; j++) {
                        stubs += prepared.stubs[j] != PLAN_NONE;
                        inlined += prepared.inlined[j] != PLAN_NONE;
                    }
                    slab_prepared_free(&prepared);
                }
            close_subject(&subject);
        }
    assert_true(stubs > 1000);
    assert_true(inlined > 10);
}

/* Whether they are within reach of the stubs' region changes with its address. */
static void hooks_in_windows_are_not_prepared(void **state)
{
    (void)state;
    uint32_t windows = 0;
    for (int i = 0; i < library_count; i++) {
        struct subject subject;
        struct slab_prepared prepared;
        open_subject(&subject, libraries[i], 0);
        const struct plan_header *header = subject.plan.header;
        for (uint32_t j = 0; j < header->hook_count; j++) {
            if (subject.plan.hooks[j].kind != STUB_ENTRY_ENDBR)
                continue;
            windows++;
            subject.wanted[header->site_count + j] = 1;
            assert_int_equal(prepare(&subject, STUB_PLAIN, 0, &prepared), BASE_EUNSUPPORTED);
            subject.wanted[header->site_count + j] = 0;
        }
        close_subject(&subject);
    }
    assert_true(windows > 0);
}

/* --- what does not fit --- */

/* Refused, with nothing left behind: the slab can be made there. */
static void is_refused(const struct slab_prepared *prepared, struct process *process)
{
    assert_false(place(prepared, process));
    assert_null(process->slab.writes);
    assert_null(process->slab.stubs);
    assert_int_equal(process->region.used, 0);
    end(process);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct subject subject, other;
    struct process process;
    struct slab_prepared prepared;
    open_subject(&subject, libraries[0], 0);
    open_subject(&other, libraries[0], 3);
    assert_int_equal(prepare(&subject, STUB_PLAIN, 7, &prepared), BASE_OK);
    begin(&process, &subject, STUB_LOCK, 7, 2); /* another form */
    is_refused(&prepared, &process);
    begin(&process, &other, STUB_PLAIN, 7, 2); /* other sites */
    is_refused(&prepared, &process);
    begin(&process, &subject, STUB_PLAIN, 0, 2); /* other ways */
    is_refused(&prepared, &process);
    begin(&process, &subject, STUB_PLAIN, 7, 2); /* text, block out of reach; too many counters */
    process.slab.bias = process.bias -= 0x80000000;
    is_refused(&prepared, &process);
    begin(&process, &subject, STUB_PLAIN, 7, 2);
    process.slab.counter.block += 0x80000000;
    is_refused(&prepared, &process);
    begin(&process, &subject, STUB_PLAIN, 7, 2);
    process.slab.counter.index = 0x10000000;
    is_refused(&prepared, &process);
    begin(&process, &subject, STUB_PLAIN, 7, 2); /* too little room, or used already */
    process.region.size = prepared.header->code_size - 1;
    is_refused(&prepared, &process);
    begin(&process, &subject, STUB_PLAIN, 7, 2);
    process.region.used = 16;
    assert_false(place(&prepared, &process));
    end(&process);
    begin(&process, &subject, STUB_PLAIN, 7, 2);
    assert_true(place(&prepared, &process));
    end(&process);
    slab_prepared_free(&prepared);
    close_subject(&subject);
    close_subject(&other);
}

/* Some stubs reach the slot's function, others do not. */
static uint64_t at_the_edge(void *context, uint64_t slot)
{
    const struct process *process = context;
    (void)slot;
    return process->region.address + process->region.size / 2 + INT32_MAX;
}

static void ways_are_all_or_none(void **state)
{
    (void)state;
    struct subject subject;
    struct process process;
    open_subject(&subject, libraries[0], 0);
    struct slab_prepared_way *ways = calloc(subject.slot_count + 1, sizeof *ways);
    assert_true(subject.slot_count > 0);
    begin(&process, &subject, STUB_PLAIN, 0, 0);
    assert_true(slab_prepared_ways(&process.slab, subject.slots, subject.slot_count, ways));
    process.slab.resolve = at_the_edge;
    assert_false(slab_prepared_ways(&process.slab, subject.slots, subject.slot_count, ways));
    end(&process);
    free(ways);
    close_subject(&subject);
}

/* A later tally makes other stubs: the code is not used, though its checksum is right. */
static void other_stubs_are_refused(void **state)
{
    (void)state;
    struct subject subject;
    struct process process;
    struct slab_prepared prepared, changed;
    open_subject(&subject, libraries[0], 0);
    assert_int_equal(prepare(&subject, STUB_PLAIN, 0, &prepared), BASE_OK);
    uint8_t *copy = malloc(prepared.size);
    memcpy(copy, prepared.blob, prepared.size);
    struct slab_prepared_header *header = (void *)copy;
    size_t code = (size_t)(prepared.code - (const uint8_t *)prepared.blob);
    copy[code + prepared.stubs[0]] ^= 1;
    header->checksum = slab_prepared_sum(copy, prepared.size);
    assert_true(slab_prepared_open(&changed, &subject.plan, copy, prepared.size));
    begin(&process, &subject, STUB_PLAIN, 0, 1);
    is_refused(&changed, &process);
    free(copy);
    slab_prepared_free(&prepared);
    close_subject(&subject);
}

/* --- damage --- */

static void damage_is_found(void **state)
{
    (void)state;
    struct subject subject, other;
    struct slab_prepared prepared, read;
    open_subject(&subject, libraries[0], 0);
    assert_int_equal(prepare(&subject, STUB_PLAIN, 7, &prepared), BASE_OK);
    uint8_t *copy = malloc(prepared.size);
    memcpy(copy, prepared.blob, prepared.size);
    assert_true(slab_prepared_open(&read, &subject.plan, copy, prepared.size));
    for (size_t i = 0; i < prepared.size; i++) {
        copy[i] ^= (uint8_t)(1 + i % 255);
        assert_false(slab_prepared_open(&read, &subject.plan, copy, prepared.size));
        copy[i] ^= (uint8_t)(1 + i % 255);
    }
    free(copy);
    for (size_t size = 0; size < prepared.size; size += 1 + size / 16) {
        copy = malloc(size + 1);
        memcpy(copy, prepared.blob, size);
        assert_false(slab_prepared_open(&read, &subject.plan, copy, size));
        free(copy);
    }
    open_subject(&other, libraries[1], 0);
    assert_false(slab_prepared_open(&read, &other.plan, prepared.blob, prepared.size));
    close_subject(&other);
    slab_prepared_free(&prepared);
    close_subject(&subject);
}

/* Every byte changed in turn, and the sum made right again: used or refused, but within bounds. */
static void no_damage_leads_out_of_bounds(void **state)
{
    (void)state;
    struct subject subject;
    struct slab_prepared prepared, read;
    unsigned opened = 0, used = 0;
    open_subject(&subject, libraries[0], 0);
    assert_int_equal(prepare(&subject, STUB_PLAIN, 7, &prepared), BASE_OK);
    uint8_t *copy = malloc(prepared.size);
    memcpy(copy, prepared.blob, prepared.size);
    struct slab_prepared_header *header = (void *)copy;
    for (size_t i = 0; i < prepared.size; i += 1 + prepared.size / 6000) {
        struct process process;
        uint8_t was = copy[i];
        copy[i] ^= (uint8_t)(1 + i % 255);
        header->checksum = slab_prepared_sum(copy, prepared.size);
        begin(&process, &subject, STUB_PLAIN, 7, 3);
        if (slab_prepared_open(&read, &subject.plan, copy, prepared.size)) {
            opened++;
            used += place(&read, &process);
        }
        end(&process);
        copy[i] = was;
    }
    assert_true(opened > 10);
    assert_true(used < opened);
    free(copy);
    slab_prepared_free(&prepared);
    close_subject(&subject);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_would_be_made),      cmocka_unit_test(hooks_in_windows_are_not_prepared),
        cmocka_unit_test(what_does_not_fit_is_refused),  cmocka_unit_test(ways_are_all_or_none),
        cmocka_unit_test(other_stubs_are_refused),       cmocka_unit_test(damage_is_found),
        cmocka_unit_test(no_damage_leads_out_of_bounds),
    };
    library_count = argc - 1;
    libraries = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
