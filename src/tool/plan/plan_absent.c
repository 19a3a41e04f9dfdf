#include "plan_absent.h"

#include "plan_function.h"

static void add_near_name(void *context, const char *name)
{
    symbol_near_add(context, name);
}

void plan_absent_look(void *near, const struct elf_image *elf)
{
    plan_function_names(elf, add_near_name, near);
}

void plan_absent_explain(const struct symbol_near *near, const char *name, const char *where,
                         const char *place, struct base_error *why)
{
    const char *nearest = symbol_near_find(near, name);
    base_fail(why, BASE_ENOTFOUND, "%sno function %s was found in %s%s%s%s", place, name, where,
              nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}
