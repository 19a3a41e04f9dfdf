#include "collect_absent.h"

#include "patch_function.h"

static void add_name(void *context, const char *name)
{
    symbol_near_add(context, name);
}

void collect_absent_look(struct symbol_near *near, const struct collect_image *image)
{
    struct elf_image *own = image->elf ? NULL : collect_image_reopen(image);
    if (image->elf || own)
        patch_function_names(image->elf ? image->elf : own, add_name, near);
    if (own)
        elf_image_close(own);
}

void collect_absent_tell(const struct symbol_near *near, const char *name, const char *where,
                         const char *place, struct base_error *why)
{
    const char *nearest = symbol_near_find(near, name);
    base_fail(why, BASE_ENOTFOUND, "%sno function %s was found in %s%s%s%s", place, name, where,
              nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}
