/* space_imports.h - names of functions that an image takes from others, and that it offers (space_export.h
 * says what for). Pure. Context: tool, any thread. */
#ifndef SPACE_IMPORTS_H
#define SPACE_IMPORTS_H

#include "space_image.h"

/* Names of functions that an image takes from others and may use otherwise than by counted calls, hashed.
 * `calls`: calls through JUMP_SLOTs are counted in this image. BASE_ENOMEM. */
int space_imports_make(struct space_imports *imports, const struct elf_image *image, bool calls,
                       struct base_error *error);

/* Does a program take the function by which it may trace others, or have it linked in? Its libraries are not
 * searched: far more programs load one that could than ever use it. */
bool space_imports_ptrace(const struct elf_image *program);

/* The functions of an image that are only offered: the hashes of their names, and their hooks. */
int space_imports_offers(struct space_offers *offers, const struct elf_image *image, const struct plan *plan,
                         struct base_error *error);

#endif
