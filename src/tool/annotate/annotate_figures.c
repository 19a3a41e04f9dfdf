#include "annotate_figures.h"

enum { HOT_PERCENT = 10 };

struct view_figure annotate_self(const struct annotate *annotate, uint32_t place)
{
    return place <= annotate->places.last ? annotate->places.self[place] : (struct view_figure){0, 0};
}

struct view_figure annotate_total(const struct annotate *annotate, uint32_t place)
{
    return place <= annotate->places.last ? annotate->places.total[place] : (struct view_figure){0, 0};
}

uint64_t annotate_calls(const struct annotate *annotate, uint32_t place)
{
    return place <= annotate->places.last ? annotate->calls[place] : 0;
}

bool annotate_counts(const struct annotate *annotate, uint32_t place)
{
    double all = (double)annotate->subject.total.value,
           limit =
               annotate->context->options->limit_percent > 0 ? annotate->context->options->limit_percent : 0;
    double value = (double)annotate_total(annotate, place).value;
    if (all <= 0) /* calls alone: wherever one is made */
        return annotate_calls(annotate, place) > 0;
    return value > 0 && 100 * value >= limit * all;
}

bool annotate_hot(const struct annotate *annotate, uint32_t place)
{
    double self = (double)annotate_self(annotate, place).value, all = (double)annotate->subject.self.value;
    return self > 0 && 100 * self >= HOT_PERCENT * all;
}
