/* import_formats.h - a reader a format: bytes in, a fresh profile filled. What is left half filled on failure
 * is thrown away. Context: tool; private to this module. */
#ifndef IMPORT_FORMATS_H
#define IMPORT_FORMATS_H

#include "import.h"

typedef int import_reader(const uint8_t *bytes, size_t size, const struct import_options *options,
                          struct profile *profile, struct base_error *error);
typedef bool import_test(const uint8_t *bytes, size_t size); /* does it look like one? */

import_reader import_folded, import_pprof, import_gperftools, import_perf;
import_test import_folded_is, import_pprof_is, import_gperftools_is, import_perf_is;

#endif
