/* report_losses.c - what was not seen: one line for the header, everything for --losses. */
#include "report_losses.h"

#include <stdlib.h>
#include <string.h>

#include "profile_extent.h"
#include "profile_loss.h"
#include "report_coverage.h"
#include "report_views.h"
#include "view_text.h"
#include "wire_loss.h"

struct loss {
    const char *name, *text; /* of wire_loss.h */
    const char *one, *many;  /* in the header's line, after the count */
};

/* Columns of a terminal that the number, the count and the blanks around them may take. */
enum { BEFORE_REASON = 22 };

/* The words of the one line. ORDER wire_loss.h. */
static const struct {
    unsigned number;
    const char *one, *many;
} short_forms[] = {
    {WIRE_LOSS_RING_FULL, "sample dropped", "samples dropped"},
    {WIRE_LOSS_THROTTLED, "time throttled", "times throttled"},
    {WIRE_LOSS_STACK_CUT, "stack cut", "stacks cut"},
    {WIRE_LOSS_NO_ROWS, "stack without unwind information", "stacks without unwind information"},
    {WIRE_LOSS_ODD_RULE, "stack with an odd unwind rule", "stacks with odd unwind rules"},
    {WIRE_LOSS_BAD_READ, "stack ended by a bad read", "stacks ended by a bad read"},
    {WIRE_LOSS_NO_MAPPING, "stack ended outside any mapping", "stacks ended outside any mapping"},
    {WIRE_LOSS_FRAME_POINTER, "frame by frame pointer", "frames by frame pointer"},
    {WIRE_LOSS_NO_PROGRESS, "stack ended without progress", "stacks ended without progress"},
    {WIRE_LOSS_TOO_DEEP, "stack too deep", "stacks too deep"},
    {WIRE_LOSS_FOLDED, "sample folded", "samples folded"},
    {WIRE_LOSS_NO_USER_REGISTERS, "sample without user registers", "samples without user registers"},
    {WIRE_LOSS_IMAGE_UNREADABLE, "image unreadable", "images unreadable"},
    {WIRE_LOSS_IMAGE_CHANGED, "image changed", "images changed"},
    {WIRE_LOSS_NO_SYMBOL, "address without a name", "addresses without a name"},
    {WIRE_LOSS_NOT_YET_RESOLVED, "address not yet resolved", "addresses not yet resolved"},
    {WIRE_LOSS_JIT_UNKNOWN, "unknown frame in generated code", "unknown frames in generated code"},
    {WIRE_LOSS_THREAD_UNSEEN, "thread unseen", "threads unseen"},
    {WIRE_LOSS_PROCESS_GONE, "process gone too soon", "processes gone too soon"},
    {WIRE_LOSS_RATE_LOWERED, "lowering of the rate", "lowerings of the rate"},
    {WIRE_LOSS_OUT_OF_MEMORY, "sample dropped for want of memory", "samples dropped for want of memory"},
    {WIRE_LOSS_OVER_LIMIT, "thing past the limits", "things past the limits"},
    {WIRE_LOSS_CLOCK_DISORDER, "event out of order", "events out of order"},
    {WIRE_LOSS_READ_LATE, "stack read late", "stacks read late"},
    {WIRE_LOSS_SHORT_LIVED, "ms of CPU time in short-lived threads", "ms of CPU time in short-lived threads"},
    {WIRE_LOSS_NOT_PLANNED, "image without counted calls", "images without counted calls"},
    {WIRE_LOSS_CALLS_UNSEEN, "process whose calls were lost", "processes whose calls were lost"},
    {WIRE_LOSS_PRIVILEGES, "program without its privileges", "programs without their privileges"},
    {WIRE_LOSS_CALLS_SHARED, "thread created unseen", "threads created unseen"},
    {WIRE_LOSS_AGENT_INTERRUPTED, "allocation inside an allocation", "allocations inside allocations"},
    {WIRE_LOSS_AGENT_THREADS, "allocation of a thread too many", "allocations of threads too many"},
    {WIRE_LOSS_AGENT_STACKS, "allocation with part of its stack", "allocations with part of their stacks"},
    {WIRE_LOSS_AGENT_FULL, "allocation not counted", "allocations not counted"},
    {WIRE_LOSS_AGENT_RELEASES, "block whose release is unseen", "blocks whose releases are unseen"},
    {WIRE_LOSS_AGENT_UNANSWERED, "request unanswered", "requests unanswered"},
    {WIRE_LOSS_AGENT_INERT, "process without the agent's memory", "processes without the agent's memory"},
    {WIRE_LOSS_AGENT_REFUSED, "function not hooked", "functions not hooked"},
    {WIRE_LOSS_AGENT_ABSENT, "program without the agent", "programs without the agent"},
    {WIRE_LOSS_AGENT_NO_ROWS, "allocation's stack without unwind information",
     "allocations' stacks without unwind information"},
    {WIRE_LOSS_AGENT_ODD_RULE, "allocation's stack with an odd unwind rule",
     "allocations' stacks with odd unwind rules"},
    {WIRE_LOSS_AGENT_BAD_READ, "allocation's stack ended by a bad read",
     "allocations' stacks ended by a bad read"},
    {WIRE_LOSS_AGENT_NO_MAPPING, "allocation's stack ended outside any mapping",
     "allocations' stacks ended outside any mapping"},
    {WIRE_LOSS_AGENT_FRAME_POINTER, "allocation's frame by frame pointer",
     "allocations' frames by frame pointer"},
    {WIRE_LOSS_AGENT_NO_PROGRESS, "allocation's stack ended without progress",
     "allocations' stacks ended without progress"},
    {WIRE_LOSS_AGENT_TOO_DEEP, "allocation's stack too deep", "allocations' stacks too deep"},
    {WIRE_LOSS_AGENT_MAPPINGS, "mapping miscounted", "mappings miscounted"},
    {WIRE_LOSS_FUNCTION_UNTIMED, "call not timed", "calls not timed"},
    {WIRE_LOSS_FUNCTION_PUT_BACK, "call followed until unwinding", "calls followed until unwinding"},
    {WIRE_LOSS_FUNCTION_FORGOTTEN, "return of a forgotten call", "returns of forgotten calls"},
    {WIRE_LOSS_FUNCTION_ABSENT, "function not found", "functions not found"},
    {WIRE_LOSS_FUNCTION_REFUSED, "named function not hooked", "named functions not hooked"},
    {WIRE_LOSS_FUNCTION_INNER, "call inside an allocator", "calls inside an allocator"},
    {WIRE_LOSS_FUNCTION_RESTED, "call of a thread at rest", "calls of threads at rest"},
    {WIRE_LOSS_AGENT_NO_ROOM, "refusal of more memory for the agent",
     "refusals of more memory for the agent"},
    {WIRE_LOSS_FUNCTION_NO_HISTOGRAM, "call in no histogram", "calls in no histogram"},
    {WIRE_LOSS_AGENT_EMPTY_UNSEEN, "block not searched for empty pages",
     "blocks not searched for empty pages"},
    {WIRE_LOSS_AGENT_NAME_ABSENT, "named function not found", "named functions not found"},
    {WIRE_LOSS_DESCRIPTOR_UNSEEN, "descriptor opened unseen", "descriptors opened unseen"},
    {WIRE_LOSS_DESCRIPTOR_CLOSED, "descriptor closed unseen", "descriptors closed unseen"},
    {WIRE_LOSS_DESCRIPTOR_CALLS, "opening call without an outcome", "opening calls without an outcome"},
    {WIRE_LOSS_AGENT_SAMPLED, "block past the agent's memory", "blocks past the agent's memory"},
    {WIRE_LOSS_AGENT_UNTIMED, "ms of CPU time that no timer reached", "ms of CPU time that no timer reached"},
    {WIRE_LOSS_INSTRUMENTED_ABSENT, "recording without instrumented functions",
     "recordings without instrumented functions"},
    {WIRE_LOSS_INSTRUMENTED_DEEP, "instrumented call cut short", "instrumented calls cut short"},
    {WIRE_LOSS_WAIT_UNSEEN, "ms perhaps waited unseen", "ms perhaps waited unseen"},
    {WIRE_LOSS_WAIT_REFUSED, "ms waited without a stack", "ms waited without a stack"},
    {WIRE_LOSS_TEXT_ALTERED, "place changed by somebody else", "places changed by somebody else"},
};

/* What this version knows of a number; a later one may have written others. */
static struct loss losses_describe(unsigned number)
{
    struct loss loss = {NULL, "(a reason that this version of tally does not know)", NULL, NULL};
    if (profile_loss_name(number)) {
        loss.name = profile_loss_name(number);
        loss.text = profile_loss_text(number);
    }
    for (size_t i = 0; i < sizeof short_forms / sizeof *short_forms; i++)
        if (short_forms[i].number == number) {
            loss.one = short_forms[i].one;
            loss.many = short_forms[i].many;
        }
    return loss;
}

static void add_item(const struct profile *profile, unsigned number, struct base_text *out)
{
    uint64_t count = profile->losses[number];
    struct loss loss = losses_describe(number);
    view_text_count(out, count);
    if (loss.one)
        base_text_addf(out, " %s", count == 1 ? loss.one : loss.many);
    else
        base_text_addf(out, " of loss %u", number);
}

static void line_item(struct view_context *context, unsigned number, struct base_text *out)
{
    uint64_t count = context->profile->losses[number];
    if (number == WIRE_LOSS_STACK_CUT && !context->selection.exact && !context->selection.period &&
        context->selection.all.samples >= count && count) {
        view_text_count(out, count);
        base_text_add(out, " of ");
        view_text_count(out, context->selection.all.samples);
        base_text_add(out, " stacks cut");
    } else {
        add_item(context->profile, number, out);
    }
}

/* Does it concern what was counted, not sampled, or what the program did? */
static bool concerns_counts(const struct profile *profile, unsigned number)
{
    const unsigned time = PROFILE_EXTENT_SAMPLES | PROFILE_EXTENT_TIMERS | PROFILE_EXTENT_WAITS;
    unsigned kinds;
    if (profile_extent_effect(number, &kinds) == PROFILE_EXTENT_HARMLESS)
        return number == WIRE_LOSS_PRIVILEGES;
    for (uint32_t i = 1; i < profile->counter_count; i++)
        if (profile_extent_kinds(profile, i) & kinds & ~time)
            return true;
    return false;
}

void report_losses_of_counts(const struct profile *profile, struct base_text *out)
{
    size_t before = out->length;
    for (unsigned i = 0; i < PROFILE_LOSSES; i++)
        if (profile->losses[i] && concerns_counts(profile, i)) {
            base_text_add(out, out->length > before ? ", " : "");
            add_item(profile, i, out);
        }
}

bool report_losses_any(const struct view_context *context)
{
    struct base_text lost = {0};
    bool any = false;
    for (unsigned i = 0; i < PROFILE_LOSSES; i++)
        any = any || context->profile->losses[i];
    profile_extent_lost(context->profile, &lost);
    any = any || strcmp(base_text_string(&lost), PROFILE_EXTENT_NOTHING) != 0;
    base_text_free(&lost);
    return any;
}

/* What makes a count wrong comes first, then the most frequent; last what this version does not know. */
static int compare_losses(const void *a, const void *b, void *context)
{
    const struct profile *profile = context;
    unsigned one = *(const unsigned *)a, two = *(const unsigned *)b;
    bool counts = concerns_counts(profile, one);
    bool known = profile_loss_name(one) != NULL;
    uint64_t here = profile->losses[one], there = profile->losses[two];
    if (known != (profile_loss_name(two) != NULL))
        return known ? -1 : 1;
    if (counts != concerns_counts(profile, two))
        return counts ? -1 : 1;
    if (here != there)
        return here > there ? -1 : 1;
    return one < two ? -1 : 1;
}

/* How many kinds there are. */
static unsigned order_losses(const struct profile *profile, unsigned numbers[PROFILE_LOSSES])
{
    unsigned kinds = 0;
    for (unsigned i = 0; i < PROFILE_LOSSES; i++)
        if (profile->losses[i])
            numbers[kinds++] = i;
    qsort_r(numbers, kinds, sizeof *numbers, compare_losses, (void *)(uintptr_t)profile);
    return kinds;
}

void report_losses_line(struct view_context *context, unsigned most, bool where, struct base_text *out)
{
    unsigned numbers[PROFILE_LOSSES], kinds = order_losses(context->profile, numbers);
    base_text_add(out, "lost: ");
    for (unsigned i = 0; i < kinds && i < most; i++) {
        base_text_add(out, i ? ", " : "");
        line_item(context, numbers[i], out);
    }
    if (!kinds) {
        profile_extent_lost(context->profile, out);
        return;
    }
    if (kinds > most)
        base_text_addf(out, "%s%u %s%s", most ? ", " : "", kinds - most, most ? "more " : "",
                       kinds - most == 1 ? "kind" : "kinds");
    if (where && context->options->view != VIEW_LOSSES)
        base_text_add(out, " (tally report --losses)");
}

/* "lost": what is lost though no number tells it; "nothing". With numbers: null. */
static void unnumbered_json(struct view_context *context)
{
    struct base_text lost = {0};
    bool numbered = false;
    for (unsigned i = 0; i < PROFILE_LOSSES; i++)
        numbered = numbered || context->profile->losses[i];
    if (!numbered)
        profile_extent_lost(context->profile, &lost);
    base_json_string(context->json, "lost", numbered ? NULL : base_text_string(&lost));
    context->out->failed |= lost.failed;
    base_text_free(&lost);
}

void report_losses_json(struct view_context *context)
{
    unnumbered_json(context);
    base_json_begin(context->json, "losses", '[');
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        struct loss loss = losses_describe(i);
        if (!context->profile->losses[i])
            continue;
        base_json_begin(context->json, NULL, '{');
        base_json_unsigned(context->json, "number", i);
        base_json_string(context->json, "name", loss.name);
        base_json_string(context->json, "reason", loss.text);
        base_json_unsigned(context->json, "count", context->profile->losses[i]);
        base_json_end(context->json, '}');
    }
    base_json_end(context->json, ']');
}

static void losses_add_row(struct view_context *context, struct view_table *table, unsigned number)
{
    struct base_text text = {0}, count = {0};
    base_text_addf(&text, "%u", number);
    view_text_count(&count, context->profile->losses[number]);
    view_sentence_rows(context, table, BEFORE_REASON, base_text_string(&text), base_text_string(&count),
                       losses_describe(number).text);
    table->failed |= text.failed | count.failed;
    base_text_free(&text);
    base_text_free(&count);
}

static void print_losses_table(struct view_context *context)
{
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    view_table_add_column(&table, "number", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "count", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "reason", VIEW_LEFT, VIEW_FIXED);
    for (unsigned i = 0; i < PROFILE_LOSSES; i++)
        if (context->profile->losses[i])
            losses_add_row(context, &table, i);
    if (table.row_count) {
        view_table_print(&table, &form, context->out);
    } else {
        base_text_add(context->out, "  lost: ");
        profile_extent_lost(context->profile, context->out);
        base_text_add(context->out, "\n");
    }
    view_table_free(&table);
}

int report_losses(struct view_context *context)
{
    if (context->json)
        report_losses_json(context);
    else
        print_losses_table(context);
    return report_coverage(context);
}
