/* import_perf.h - a perf.data file taken apart: its events, what it says of the recording, where its records
 * are.
 *
 * Sources: tools/perf/Documentation/perf.data-file-format.txt of Linux; linux/perf_event.h.
 * Context: tool; private to this module. */
#ifndef IMPORT_PERF_H
#define IMPORT_PERF_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "base_map.h"
#include "base_text.h"
#include "elf_image.h"
#include "perf_record.h"

struct import_perf_event {
    struct perf_event_attr attr; /* what the file does not have of it is 0 */
    char *name;                  /* NULL: the file does not tell */
    uint16_t counter;            /* of the profile */
    bool timed;                  /* it counts ns of CPU time */
};

struct import_perf_build_id {
    char *path;
    struct elf_build_id id;
};

/* Where a record is, in the file or in what was unpacked of it. */
struct import_perf_place {
    uint64_t time, offset;
    bool unpacked;
};

/* Room for any record: those of a file may lie anywhere, and are read where a number may lie. */
union import_perf_room {
    struct perf_event_header header;
    uint64_t words[(UINT16_MAX + 1) / 8];
    uint8_t bytes[UINT16_MAX + 1];
};

struct import_perf {
    const uint8_t *bytes;
    size_t size;
    struct import_perf_event *events;
    size_t event_count, event_capacity;
    struct base_map event_of; /* id -> index */
    struct import_perf_build_id *build_ids;
    size_t build_id_count, build_id_capacity;
    char *hostname, *release, *machine, *command; /* NULL: not known */
    struct import_perf_place *places;             /* in order of time when all are read */
    size_t place_count, place_capacity;
    struct base_text unpacked; /* records that were compressed */
    union import_perf_room record;
    bool no_memory;
    bool cut;       /* the file ends early, or has no end: it was still being written */
    bool corrupt;   /* something in it does not fit; what comes behind is left out */
    bool too_large; /* it unpacks to more than is taken */
};

/* Reads all but what records mean. BASE_EFORMAT, BASE_EUNSUPPORTED, BASE_ENOMEM; import_perf_close is right
 * in any case. */
int import_perf_open(const uint8_t *bytes, size_t size, struct import_perf *perf, struct base_error *error);
void import_perf_close(struct import_perf *perf);

/* --- import_perf_header.c: what the file says of itself --- */
bool import_perf_add_event(struct import_perf *perf, const uint8_t *attr, size_t attr_size,
                           const uint8_t *ids, size_t id_count);
/* One feature, by its number (HEADER_... of perf). What does not fit is left out. */
void import_perf_feature(struct import_perf *perf, unsigned number, const uint8_t *bytes, size_t size);
void import_perf_add_build_id(struct import_perf *perf, const struct perf_event_header *header);
void import_perf_name_event(struct import_perf *perf, uint64_t id, const char *name, size_t size);
/* The build-id of a path, as the file has it; NULL: none. */
const struct elf_build_id *import_perf_build_id(const struct import_perf *perf, const char *path);

/* --- import_perf_record.c: how records are laid out --- */

/* Valid until the next call. */
const struct perf_event_header *import_perf_record(struct import_perf *perf,
                                                   const struct import_perf_place *place);
/* When it was; `otherwise` where the record does not tell. */
uint64_t import_perf_time(const struct import_perf *perf, const struct perf_event_header *header,
                          uint64_t otherwise);

struct import_perf_sample {
    struct perf_sample sample;
    struct import_perf_event *event;
    uint64_t period;
    uint64_t registers[64]; /* what sample.registers points to */
};
/* False: it does not fit, or is of no event of the file. */
bool import_perf_read_sample(struct import_perf *perf, const struct perf_event_header *header,
                             struct import_perf_sample *sample);
bool import_perf_read_mmap(const struct import_perf *perf, const struct perf_event_header *header,
                           struct perf_mmap *mapping);
bool import_perf_read_comm(const struct import_perf *perf, const struct perf_event_header *header,
                           struct perf_comm *comm);

#endif
