/* code_survey on the fixture, built position-independent (argv[1]), not (argv[2]), stripped (argv[3]), static
 * (argv[4]) and with packed relative relocations (argv[5]); and on code made by hand. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "code_by_file.h"
#include "code_by_hand.h"

static const char *const *paths; /* as in the comment above */
enum { PIE, NO_PIE, STRIPPED, STATIC, RELR };

static void open_file(int which, struct code_by_file *file)
{
    struct base_error error = {""};
    if (code_by_file_open(paths[which], file, &error) != BASE_OK)
        fail_msg("%s", error.text);
}

static uint32_t number_of(const struct code_by_file *file, const char *name)
{
    for (size_t i = 0; i < file->functions.entry_count; i++)
        if (strcmp(file->functions.entries[i].name, name) == 0)
            return file->functions.entries[i].function;
    fail_msg("no function %s", name);
    return CODE_NONE;
}

static const struct code_survey_function *item_of(const struct code_by_file *file, const char *name)
{
    return &file->survey->items[number_of(file, name)];
}

/* The only site in `name` with that flow. */
static const struct code_site *site_of(const struct code_by_file *file, const char *name, enum code_flow flow)
{
    const struct code_survey_function *item = item_of(file, name);
    const struct code_site *found = NULL;
    for (uint32_t i = 0; i < item->site_count; i++) {
        const struct code_site *site = &file->survey->sites[item->first_site + i];
        if (site->flow != flow)
            continue;
        assert_null(found);
        found = site;
    }
    if (found == NULL)
        fail_msg("%s has no site of flow %d", name, (int)flow);
    return found;
}

static void assert_goes_to(const struct code_by_file *file, const struct code_site *site, const char *name)
{
    uint32_t number = number_of(file, name);
    assert_int_equal(site->target_function, number);
    assert_int_equal(site->target, file->functions.items[number].start);
}

/* --- the fixture with symbols --- */

static void addresses_taken_are_found(void **state)
{
    struct code_by_file pie, no_pie;
    (void)state;
    open_file(PIE, &pie);
    open_file(NO_PIE, &no_pie);
    assert_true(item_of(&pie, "by_table_1")->taken & CODE_TAKEN_RELOCATION);
    assert_true(item_of(&pie, "by_table_2")->taken & CODE_TAKEN_RELOCATION);
    assert_true(item_of(&no_pie, "by_table_1")->taken & CODE_TAKEN_DATA);
    assert_true(item_of(&no_pie, "by_table_2")->taken & CODE_TAKEN_DATA);
    assert_int_equal(item_of(&pie, "by_lea")->taken, CODE_TAKEN_LEA);
    assert_int_equal(item_of(&no_pie, "by_lea")->taken, CODE_TAKEN_IMMEDIATE);
    assert_true(item_of(&pie, "resolve")->taken & CODE_TAKEN_LOADER);
    assert_true(item_of(&pie, "_start")->taken & CODE_TAKEN_LOADER);
    assert_true(item_of(&pie, "_init")->taken & CODE_TAKEN_LOADER);
    assert_true(item_of(&pie, "chosen")->taken & CODE_TAKEN_LEA);
    assert_true(item_of(&no_pie, "chosen")->taken & CODE_TAKEN_IMMEDIATE);
    static const char *const never[] = {"only_called", "never_used", "tail_jump", "by_switch", "recursive"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        assert_int_equal(item_of(&pie, never[i])->taken, 0);
        assert_int_equal(item_of(&no_pie, never[i])->taken, 0);
    }
    assert_true(item_of(&pie, "only_called")->facts & CODE_FACT_CALLED);
    assert_false(item_of(&pie, "by_table_1")->facts & CODE_FACT_CALLED);
    code_by_file_close(&pie);
    code_by_file_close(&no_pie);
}

/* The same relocations, in another form. */
static void packed_relocations_are_understood(void **state)
{
    struct code_by_file plain, packed;
    (void)state;
    open_file(PIE, &plain);
    open_file(RELR, &packed);
    static const char *const names[] = {"by_table_1", "by_table_2", "frame_dummy", "by_labels", "never_used"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(item_of(&plain, names[i])->taken, item_of(&packed, names[i])->taken);
        assert_int_equal(item_of(&plain, names[i])->facts, item_of(&packed, names[i])->facts);
    }
    assert_true(item_of(&packed, "by_table_2")->taken & CODE_TAKEN_RELOCATION);
    code_by_file_close(&plain);
    code_by_file_close(&packed);
}

static void direct_sites_know_their_targets(void **state)
{
    (void)state;
    for (int which = PIE; which <= NO_PIE; which++) {
        struct code_by_file file;
        open_file(which, &file);
        const struct code_site *tail = site_of(&file, "tail_jump", CODE_JUMP);
        assert_goes_to(&file, tail, "only_called");
        assert_int_equal(tail->facts, CODE_SITE_ENTRY | CODE_SITE_PROVEN);
        const struct code_site *own = site_of(&file, "reads_pc", CODE_CALL);
        assert_true(own->facts & CODE_SITE_NEXT);
        assert_int_equal(own->target, own->address + own->length);
        const struct code_site *thunk = site_of(&file, "__x86_indirect_thunk_rax", CODE_CALL);
        assert_true(thunk->facts & CODE_SITE_OWN);
        assert_false(thunk->facts & CODE_SITE_NEXT);
        assert_true(site_of(&file, "thunk_user", CODE_CALL)->facts & CODE_SITE_THUNK);
        const struct code_site *cold = site_of(&file, "with_cold_part", CODE_BRANCH);
        assert_goes_to(&file, cold, "with_cold_part.cold");
        assert_int_equal(cold->facts, CODE_SITE_ENTRY | CODE_SITE_FRAGMENT);
        code_by_file_close(&file);
    }
}

static void short_jumps_to_other_functions_are_sites(void **state)
{
    struct code_by_file file;
    (void)state;
    open_file(PIE, &file);
    const struct code_site *branch = site_of(&file, "jumps_short", CODE_BRANCH);
    assert_goes_to(&file, branch, "reads_pc");
    assert_int_equal(branch->displacement_size, 1);
    const struct code_site *jump = site_of(&file, "jumps_short", CODE_JUMP);
    assert_goes_to(&file, jump, "runs_off");
    assert_int_equal(jump->length, 2);
    assert_true(item_of(&file, "runs_on")->facts & CODE_FACT_FALLS_THROUGH);
    assert_false(item_of(&file, "jumps_short")->facts & CODE_FACT_FALLS_THROUGH);
    code_by_file_close(&file);
}

static void calls_of_profilers_are_known(void **state)
{
    (void)state;
    for (int which = PIE; which <= NO_PIE; which++) {
        struct code_by_file file;
        open_file(which, &file);
        assert_true(site_of(&file, "profiled", CODE_CALL)->facts & CODE_SITE_MCOUNT);
        const struct code_survey_function *item = item_of(&file, "profiled_slot");
        assert_int_equal(item->site_count, 1);
        assert_true(file.survey->sites[item->first_site].facts & CODE_SITE_MCOUNT);
        assert_false(site_of(&file, "tail_jump", CODE_JUMP)->facts & CODE_SITE_MCOUNT);
        code_by_file_close(&file);
    }
}

static void linkage_stubs_lead_to_slots(void **state)
{
    struct code_by_file file;
    unsigned found = 0;
    (void)state;
    open_file(PIE, &file);
    const struct code_survey_function *main_item = item_of(&file, "main");
    for (uint32_t i = 0; i < main_item->site_count; i++) {
        const struct code_site *site = &file.survey->sites[main_item->first_site + i];
        uint64_t slot;
        if (!(site->facts & CODE_SITE_PLT))
            continue;
        assert_true(code_survey_slot(file.survey, site->target, &slot));
        const char *name = code_survey_slot_name(file.survey, slot);
        assert_non_null(name);
        found += strcmp(name, "puts") == 0 || strncmp(name, "putc", 4) == 0; /* putchar, or what it became */
        assert_true(site->facts & CODE_SITE_PROVEN);
    }
    assert_true(found >= 2);
    assert_null(code_survey_slot_name(file.survey, 1));
    uint64_t slot;
    assert_false(code_survey_slot(file.survey, file.functions.items[number_of(&file, "main")].start, &slot));
    assert_false(code_survey_slot(file.survey, 1, &slot));
    code_by_file_close(&file);
}

static void switches_stay_and_tail_jumps_leave(void **state)
{
    (void)state;
    for (int which = PIE; which <= NO_PIE; which++) {
        struct code_by_file file;
        open_file(which, &file);
        assert_true(site_of(&file, "by_switch", CODE_JUMP_INDIRECT)->facts & CODE_SITE_TABLE);
        assert_false(site_of(&file, "indirect_tail_jump", CODE_JUMP_INDIRECT)->facts & CODE_SITE_TABLE);
        static const char *const names[] = {"by_switch", "by_labels"};
        for (size_t i = 0; i < 2; i++) {
            assert_true(item_of(&file, names[i])->facts & CODE_FACT_TABLES);
            assert_false(item_of(&file, names[i])->facts & CODE_FACT_UNRESOLVED);
        }
        const struct code_survey_function *labels = item_of(&file, "by_labels");
        assert_true(labels->site_count >= 1);
        for (uint32_t i = 0; i < labels->site_count; i++)
            assert_true(file.survey->sites[labels->first_site + i].facts & CODE_SITE_TABLE);
        code_by_file_close(&file);
    }
}

static void odd_functions_are_left_alone(void **state)
{
    struct code_by_file file;
    (void)state;
    open_file(PIE, &file);
    assert_int_equal(item_of(&file, "holds_data")->verdict, CODE_VERDICT_DATA_IN_TEXT);
    assert_int_equal(item_of(&file, "holds_data")->where,
                     file.functions.items[number_of(&file, "holds_data")].start);
    assert_int_equal(item_of(&file, "holds_data")->site_count, 0);
    assert_int_equal(file.survey->verdicts[CODE_VERDICT_DATA_IN_TEXT], 1);
    assert_int_equal(item_of(&file, "main")->verdict, CODE_VERDICT_FINE);
    assert_int_equal(file.survey->gs_users, 2); /* and sets_gs, by its constants */
    assert_int_equal(file.survey->first_gs, file.functions.items[number_of(&file, "uses_gs")].start + 1);
    code_by_file_close(&file);
}

static void sites_lie_in_order_and_in_their_functions(void **state)
{
    (void)state;
    for (int which = PIE; which <= RELR; which++) {
        struct code_by_file file;
        open_file(which, &file);
        size_t number = 0;
        for (size_t f = 0; f < file.functions.count; f++) {
            const struct code_survey_function *item = &file.survey->items[f];
            assert_int_equal(item->first_site, number);
            for (uint32_t i = 0; i < item->site_count; i++, number++) {
                const struct code_site *site = &file.survey->sites[number];
                assert_int_equal(site->function, f);
                assert_true(number == 0 || site->address > site[-1].address);
                assert_true(site->address >= file.functions.items[f].start);
                assert_true(site->address + site->length <= file.functions.items[f].end);
                assert_int_equal(code_by_file_site(file.survey, site->address), number);
                assert_int_equal(code_by_file_site(file.survey, site->address + 1), number + 1);
                assert_true(code_survey_marked(file.survey, CODE_MAP_START, site->address));
                assert_int_equal(site->target_function,
                                 site->operand == CODE_OPERAND_NONE
                                     ? code_functions_find(&file.functions, site->target)
                                     : CODE_NONE);
            }
        }
        assert_int_equal(number, file.survey->site_count);
        code_by_file_close(&file);
    }
}

static void instructions_are_walked_backwards(void **state)
{
    struct code_by_file file;
    struct code_instructions all = {NULL, 0, 0};
    uint64_t where;
    (void)state;
    open_file(PIE, &file);
    const struct code_function *function = &file.functions.items[number_of(&file, "by_switch")];
    assert_int_equal(
        code_instructions_decode(&file.survey->text, function->start, function->end, &all, &where),
        CODE_VERDICT_FINE);
    assert_int_equal(code_survey_previous(file.survey, function->start), 0);
    for (size_t i = 1; i < all.count; i++)
        assert_int_equal(code_survey_previous(file.survey, all.items[i].address), all.items[i - 1].address);
    assert_int_equal(code_survey_previous(file.survey, 1), 0);
    code_instructions_free(&all);
    code_by_file_close(&file);
}

/* --- the stripped fixture: FDEs alone --- */

static void stripped_images_are_surveyed_by_fdes(void **state)
{
    struct code_by_file full, stripped;
    (void)state;
    open_file(PIE, &full);
    open_file(STRIPPED, &stripped);
    const struct code_function *tail = &full.functions.items[number_of(&full, "tail_jump")];
    const struct code_site *site = &full.survey->sites[code_by_file_site(full.survey, tail->start)];
    const struct code_site *same = &stripped.survey->sites[code_by_file_site(stripped.survey, site->address)];
    assert_int_equal(same->address, site->address);
    assert_int_equal(same->target, site->target);
    assert_true(same->facts & CODE_SITE_PROVEN); /* something calls only_called */
    const struct code_function *cold = &full.functions.items[number_of(&full, "with_cold_part")];
    const struct code_site *branch = &stripped.survey->sites[code_by_file_site(stripped.survey, cold->start)];
    assert_int_equal(branch->flow, CODE_BRANCH);
    assert_true(branch->facts & CODE_SITE_ENTRY); /* of an FDE's: nothing proves it */
    assert_false(branch->facts & (CODE_SITE_PROVEN | CODE_SITE_FRAGMENT));
    code_by_file_close(&full);
    code_by_file_close(&stripped);
}

/* --- by hand --- */

static const uint8_t code[] = {
    0x48, 0x8d, 0x05, 0x19, 0x00, 0x00, 0x00, /* 401000 f:  lea 401020,%rax   g */
    0xe8, 0x14, 0x00, 0x00, 0x00,             /* 401007     call 401020       g */
    0x74, 0x02,                               /* 40100c     je 401010 */
    0xff, 0xd0,                               /* 40100e     call *%rax */
    0xeb, 0x10,                               /* 401010     jmp 401022        inside of g */
    0x74, 0xec,                               /* 401012     je 401000 */
    0xe8, 0x67, 0x00, 0x00, 0x00,             /* 401014     call 401080       nowhere */
    0xf3, 0xc3,                               /* 401019     repz ret */
    0x66, 0x0f, 0x1f, 0x44, 0x00,             /* 40101b     nopw 0(%rax,%rax,1), cut by the next */
    0xf3, 0x0f, 0x1e, 0xfa,                   /* 401020 g:  endbr64 */
    0xc3,                                     /* 401024     ret */
};

static void survey_by_hand(struct code_by_file *file, const struct code_survey_options *options)
{
    memset(file, 0, sizeof *file);
    file->image = code_by_hand(ET_DYN, code, sizeof code);
    assert_non_null(file->image);
    static const struct code_bound claims[] = {{0x401000, 0x40101b, "f", CODE_FROM_SYMBOL, false},
                                               {0x401020, 0x401025, NULL, CODE_FROM_FDE, false}};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(code_bounds_add(&file->bounds, &claims[i], NULL), BASE_OK);
    assert_int_equal(code_functions_make(&file->bounds, file->image, &file->functions, NULL), BASE_OK);
    assert_int_equal(code_survey_make(file->image, &file->functions, options, &file->survey, NULL), BASE_OK);
}

/* A function that loads its return address, and calls one that is named; another one only calls it. */
static uint16_t facts_of_a_reader_that_calls(const char *name)
{
    static const uint8_t reader[] = {
        0x48, 0x8b, 0x3c, 0x24,       /* 401000 reader: mov (%rsp),%rdi */
        0xe8, 0x0b, 0x00, 0x00, 0x00, /* 401004         call 401014 */
        0xc3,                         /* 401009         ret */
        0xe8, 0x05, 0x00, 0x00, 0x00, /* 40100a plain:  call 401014 */
        0xc3,                         /* 40100f         ret */
        0x0f, 0x1f, 0x40, 0x00,       /* 401010         nopl 0(%rax) */
        0xc3,                         /* 401014 NAME:   ret */
    };
    const struct code_bound claims[] = {{0x401000, 0x40100a, "reader", CODE_FROM_SYMBOL, false},
                                        {0x40100a, 0x401010, "plain", CODE_FROM_SYMBOL, false},
                                        {0x401014, 0x401015, name, CODE_FROM_SYMBOL, false}};
    struct code_by_file file = {.image = code_by_hand(ET_DYN, reader, sizeof reader)};
    assert_non_null(file.image);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(code_bounds_add(&file.bounds, &claims[i], NULL), BASE_OK);
    assert_int_equal(code_functions_make(&file.bounds, file.image, &file.functions, NULL), BASE_OK);
    assert_int_equal(code_survey_make(file.image, &file.functions, NULL, &file.survey, NULL), BASE_OK);
    assert_int_equal(file.survey->site_count, 2);
    assert_int_equal(file.survey->sites[0].target_function, 2);
    assert_int_equal(file.survey->items[1].facts & CODE_FACT_READS_RETURN, 0);
    uint16_t facts = file.survey->items[0].facts;
    code_by_file_close(&file);
    return facts;
}

static void instrumented_functions_may_read_their_return_address(void **state)
{
    (void)state;
    assert_true(facts_of_a_reader_that_calls("other") & CODE_FACT_READS_RETURN);
    assert_true(facts_of_a_reader_that_calls(NULL) & CODE_FACT_READS_RETURN);
    assert_false(facts_of_a_reader_that_calls("__cyg_profile_func_enter") & CODE_FACT_READS_RETURN);
    assert_false(facts_of_a_reader_that_calls("__cyg_profile_func_exit") & CODE_FACT_READS_RETURN);
    assert_false(facts_of_a_reader_that_calls("__tsan_func_entry@VERSION") & CODE_FACT_READS_RETURN);
}

static void sites_by_hand_are_exact(void **state)
{
    static const struct {
        uint64_t address, target;
        uint32_t target_function;
        uint8_t flow;
        uint16_t facts;
    } wanted[] = {
        {0x401007, 0x401020, 1, CODE_CALL, CODE_SITE_ENTRY | CODE_SITE_PROVEN},
        {0x40100e, 0, CODE_NONE, CODE_CALL_INDIRECT, 0},
        {0x401010, 0x401022, 1, CODE_JUMP, CODE_SITE_INSIDE},
        {0x401014, 0x401080, CODE_NONE, CODE_CALL, CODE_SITE_NOWHERE},
    };
    struct code_by_file file;
    (void)state;
    survey_by_hand(&file, NULL);
    assert_int_equal(file.survey->items[0].verdict, CODE_VERDICT_FINE);
    assert_int_equal(file.survey->site_count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < file.survey->site_count; i++) {
        const struct code_site *site = &file.survey->sites[i];
        assert_int_equal(site->address, wanted[i].address);
        assert_int_equal(site->target, wanted[i].target);
        assert_int_equal(site->target_function, wanted[i].target_function);
        assert_int_equal(site->flow, wanted[i].flow);
        assert_int_equal(site->facts, wanted[i].facts);
    }
    assert_int_equal(file.survey->items[0].facts, CODE_FACT_LOOPS_TO_START);
    assert_int_equal(file.survey->items[1].facts, CODE_FACT_CALLED | CODE_FACT_ENDBR);
    assert_int_equal(file.survey->items[0].taken, 0);
    assert_int_equal(file.survey->items[1].taken, CODE_TAKEN_LEA);
    code_by_file_close(&file);
}

static void maps_by_hand_are_exact(void **state)
{
    static const uint64_t starts[] = {0x401000, 0x401007, 0x40100c, 0x40100e, 0x401010,
                                      0x401012, 0x401014, 0x401019, 0x401020, 0x401024};
    static const uint64_t branches[] = {0x401000, 0x401010, 0x401022};
    struct code_by_file file;
    size_t start = 0, branch = 0;
    (void)state;
    survey_by_hand(&file, NULL);
    for (uint64_t at = 0x400fff; at < 0x401030; at++) {
        bool is_start = start < 10 && starts[start] == at, is_branch = branch < 3 && branches[branch] == at;
        assert_int_equal(code_survey_marked(file.survey, CODE_MAP_START, at), is_start);
        assert_int_equal(code_survey_marked(file.survey, CODE_MAP_BRANCH, at), is_branch);
        assert_int_equal(code_survey_marked(file.survey, CODE_MAP_CALL, at), at == 0x401020);
        assert_int_equal(code_survey_marked(file.survey, CODE_MAP_TAKEN, at), at == 0x401020);
        assert_false(code_survey_marked(file.survey, CODE_MAP_LANDING, at));
        start += is_start;
        branch += is_branch;
    }
    assert_false(code_survey_entered(file.survey, 0x401000, 0x401010)); /* targets at its ends do not count */
    assert_true(code_survey_entered(file.survey, 0x40100e, 0x401012));
    assert_true(code_survey_entered(file.survey, 0x401020, 0x401024)); /* 401022 */
    assert_false(code_survey_entered(file.survey, 0x401012, 0x40101b));
    code_by_file_close(&file);
}

static void given_addresses_are_taken(void **state)
{
    static const uint64_t given[] = {0x401000, 0x401012, 0x40101d, 0x40101d, 0x40101f, 0, UINT64_MAX};
    const struct code_survey_options options = {.taken = given, .taken_count = 7};
    struct code_by_file file;
    (void)state;
    survey_by_hand(&file, &options);
    assert_int_equal(file.survey->items[0].taken, CODE_TAKEN_GIVEN);
    assert_true(code_survey_entered(file.survey, 0x401010, 0x401014));
    assert_int_equal(file.survey->taken_nowhere, 2); /* between the two functions, each once */
    for (uint64_t at = 0x400fff; at < 0x401030; at++)
        assert_int_equal(code_survey_marked(file.survey, CODE_MAP_NOWHERE, at),
                         at == 0x40101d || at == 0x40101f);
    assert_false(code_survey_marked(file.survey, CODE_MAP_TAKEN, 0x40101d));
    code_by_file_close(&file);
}

static void other_machines_are_refused(void **state)
{
    struct base_error error = {""};
    struct code_functions functions = {.count = 0};
    struct code_survey *survey;
    struct elf_image *image = NULL;
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_DYN,
                         .e_machine = EM_AARCH64,
                         .e_version = EV_CURRENT,
                         .e_ehsize = sizeof header};
    (void)state;
    assert_int_equal(elf_image_open_memory(&header, sizeof header, "by hand", &image, &error), BASE_OK);
    assert_int_equal(code_survey_make(image, &functions, NULL, &survey, &error), BASE_EUNSUPPORTED);
    assert_string_equal(error.text, "by hand: only x86-64 code is understood");
    assert_null(survey);
    code_survey_free(NULL);
    elf_image_close(image);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_taken_are_found),
        cmocka_unit_test(packed_relocations_are_understood),
        cmocka_unit_test(direct_sites_know_their_targets),
        cmocka_unit_test(short_jumps_to_other_functions_are_sites),
        cmocka_unit_test(calls_of_profilers_are_known),
        cmocka_unit_test(linkage_stubs_lead_to_slots),
        cmocka_unit_test(switches_stay_and_tail_jumps_leave),
        cmocka_unit_test(odd_functions_are_left_alone),
        cmocka_unit_test(sites_lie_in_order_and_in_their_functions),
        cmocka_unit_test(instructions_are_walked_backwards),
        cmocka_unit_test(stripped_images_are_surveyed_by_fdes),
        cmocka_unit_test(sites_by_hand_are_exact),
        cmocka_unit_test(instrumented_functions_may_read_their_return_address),
        cmocka_unit_test(maps_by_hand_are_exact),
        cmocka_unit_test(given_addresses_are_taken),
        cmocka_unit_test(other_machines_are_refused),
    };
    if (argc < 6)
        return 2;
    paths = (const char *const *)&argv[1];
    return cmocka_run_group_tests_name("code_survey", tests, NULL, NULL);
}
