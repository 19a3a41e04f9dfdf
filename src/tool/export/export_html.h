/* export_html.h - the parts of the page: data as JSON, packed to text, between the two halves of the program
 * that shows it.
 *
 * The page is what web/ builds: one HTML document with its script and style in it. The build puts it into the
 * generated source behind the two names below; without npm it is empty. What a profile has goes where the
 * document says PAGE_MARK, as elements
 *
 *     <script type="text/plain" id="tally-NAME">base64 of gzip of JSON</script>
 *
 * which a browser neither runs nor shows. Base64 has no character that ends an element, so nothing needs to
 * be escaped. Context: tool; private to this module. */
#ifndef EXPORT_HTML_H
#define EXPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>

#include "export.h"
#include "export_output.h"

extern const char export_html_page[]; /* generated; ends in a 0 that does not count */
extern const size_t export_html_page_length;

/* The tree, its cells, calls, threads and all that is said of the recording, as one JSON object;
 * web/src/data.ts reads it. A name of a function is written as speedscope gets it. False when memory ran
 * out. */
bool export_html_data(struct export_output *output, const struct profile *profile,
                      const struct export_options *options);

#endif
