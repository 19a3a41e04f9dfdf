/* view_json.h - what views have in common as members of the object that context->json has open.
 * Context: tool. */
#ifndef VIEW_JSON_H
#define VIEW_JSON_H

#include "view.h"

void view_json_figure(struct view_context *context, const char *key, const struct view_figure *figure);
/* "function", "image", "inlined" and, where it has them, "file", "line", "address" of an entity. */
void view_json_entity(struct view_context *context, const struct view_entities *entities, uint32_t entity);
/* "tid", "thread", "pid", "process". */
void view_json_thread(struct view_context *context, uint32_t thread);
void view_json_below(struct view_context *context, const char *key, size_t rows,
                     const struct view_figure *sum);

#endif
