/* import.h - what other profilers wrote in, a profile out. doc/import.md says what becomes of what.
 *
 *   perf.data     as perf record leaves it, or writes it to a pipe
 *   pprof         profile.proto, packed by gzip or not
 *   gperftools    CPU profiles of libprofiler
 *   folded        one line a stack: `a;b;c 12`
 *
 * A profile that was imported is like one that was recorded: reports need not know. What the file does not
 * say is not made up: a counter without numbers of samples has no intervals (`exact`, and the profile's
 * meta `imported` says how that is meant), and whatever was left out is said in its meta `import_notice`.
 *
 * Files come from untrusted sources: every number in them is checked. A file that ends early gives what
 * was read until then, with a notice, where the format allows it (perf.data, gperftools), an error
 * otherwise. Context: tool, one thread. */
#ifndef IMPORT_H
#define IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "profile.h"

enum import_format {
    IMPORT_UNKNOWN,
    IMPORT_FOLDED,
    IMPORT_PPROF,
    IMPORT_GPERFTOOLS,
    IMPORT_PERF,
};

/* All of them, for people. */
#define IMPORT_FORMAT_LIST "perf.data, pprof files, CPU profiles of gperftools and folded stacks"

struct import_options {
    enum import_format format; /* IMPORT_UNKNOWN: what the file looks like */
    const char *file;          /* its name, for messages */
    double rate_hz;            /* IMPORT_FOLDED: weights are numbers of samples at this rate; 0: not known */
    bool debuginfod;           /* names may be asked of debuginfod servers */
    bool processes;            /* IMPORT_FOLDED: the outermost frame is the name of a process */
};

/* What the bytes look like. A file that is packed by gzip is unpacked first: import_file.h. */
enum import_format import_recognise(const uint8_t *bytes, size_t size);

/* The caller frees the profile; there is none on failure. BASE_EFORMAT: it is of no such format, or corrupt;
 * BASE_ENOMEM. */
int import_profile(const uint8_t *bytes, size_t size, const struct import_options *options,
                   struct profile **profile, struct base_error *error);

#endif
