#include "report_candidates_inside.h"

#include <math.h>

#include "view_json.h"

static void json_bound(struct base_json *json, const struct report_bound *bound)
{
    base_json_begin(json, "bound", '{');
    base_json_number(json, "value", bound->value);
    base_json_number(json, "low", bound->low);
    base_json_number(json, "high", bound->high);
    base_json_end(json, '}');
}

static void json_callers(struct candidates *self, const struct candidate *candidate)
{
    const struct view_calls *calls = &self->calls;
    struct base_json *json = self->context->json;
    base_json_begin(json, "callers", '[');
    for (uint32_t i = calls->first[candidate->entity]; i < calls->first[candidate->entity + 1]; i++) {
        const struct view_pair *pair = &calls->pairs[i];
        if (!candidates_is_entering(candidate, pair))
            continue;
        base_json_begin(json, NULL, '{');
        view_json_entity(self->context, &self->entities, pair->caller);
        base_json_unsigned(json, "calls", pair->calls);
        base_json_number(json, "share", (double)pair->calls / (double)candidate->entering);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
}

static void json_calls(struct candidates *self, const struct candidate *candidate)
{
    static const char *const verdicts[] = {"gains", "may cost", "costs"};
    struct base_json *json = self->context->json;
    struct view_mean mean = candidates_mean(self, candidate);
    struct view_mean pays = candidates_break_even(self, candidate);
    view_calls_json(json, &candidate->called);
    view_calls_mean_json(json, "ns_per_call", &mean);
    base_json_string(json, "verdict", verdicts[report_candidates_verdict(&candidate->bound)]);
    view_calls_mean_json(json, "break_even_ns", &pays);
    json_callers(self, candidate);
}

static void json_list(struct candidates *self, const char *key, const struct candidate_list *list)
{
    struct base_json *json = self->context->json;
    base_json_begin(json, key, '[');
    for (size_t i = 0; i < list->shown; i++) {
        const struct candidate *candidate = &list->items[i];
        base_json_begin(json, NULL, '{');
        view_json_entity(self->context, &self->entities, candidate->entity);
        view_json_figure(self->context, "self", &candidate->self);
        view_json_figure(self->context, "total", &candidate->total);
        json_bound(json, &candidate->bound);
        if (candidate->entering)
            json_calls(self, candidate);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
}

void candidates_print_json(struct candidates *self)
{
    struct base_json *json = self->context->json;
    const struct report_assumption *assumption = &self->assumption;
    base_json_begin(json, "assumed", '{');
    base_json_number(json, "speedup",
                     assumption->speedup > 0 && !assumption->parallel ? assumption->speedup : NAN);
    base_json_number(json, "invoke_cost_ns", assumption->invoke_ns);
    if (assumption->parallel)
        base_json_unsigned(json, "threads", assumption->parallel);
    else
        base_json_string(json, "threads", NULL);
    base_json_end(json, '}');
    base_json_bool(json, "calls_counted", self->calls.counted);
    base_json_number(json, "busy_cpus", candidates_busy_cpus(self) > 0 ? candidates_busy_cpus(self) : NAN);
    json_list(self, "rows", &self->known);
    json_list(self, "calls_unknown", &self->unknown);
    json_list(self, "roots", &self->roots);
    base_json_unsigned(json, "rows_below_limit", self->known.count - self->known.shown);
    base_json_unsigned(json, "calls_unknown_below_limit", self->unknown.count - self->unknown.shown);
}
