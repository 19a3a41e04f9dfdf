/* symbol.h - names for addresses.
 *
 * A symbol_file answers for one image: function names from its symbol tables (.symtab, .dynsym, .gnu_debugdata, a separate
 * debug file by build-id or debuglink), bounds of nameless functions from FDEs, and - slower, asked for
 * separately - file, line and inlined frames from DWARF through libdw. The name of a function is its ELF
 * symbol, demangled, clone suffix kept; DWARF names only inlined frames.
 * Context: tool, one thread. */
#ifndef SYMBOL_H
#define SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "elf_image.h"

struct symbol_options {
    bool debuginfod;             /* ask debuginfod servers for a missing debug file */
    const char *root;            /* /proc/PID/root or "": where separate debug files are looked up as well */
    const char *debug_directory; /* NULL: /usr/lib/debug */
};

struct symbol_function {
    const char *name;     /* demangled; owned by the symbol_file */
    const char *raw_name; /* as in the ELF file */
    uint64_t start, end;  /* image addresses; end is exclusive */
    bool from_fde;        /* no symbol: name is "file+0xoffset" */
};

/* One level of source at an address. Level 0 is the innermost. */
struct symbol_line {
    const char
        *function; /* of an inlined frame, demangled; NULL at the outermost level (the ELF symbol counts) */
    const char *file; /* NULL when unknown; owned by the symbol_file */
    uint32_t line;    /* 0 when unknown */
};

struct symbol_file;

/* `image` must outlive the result. */
int symbol_file_open(const struct elf_image *image, const struct symbol_options *options,
                     struct symbol_file **file, struct base_error *error);
void symbol_file_close(struct symbol_file *file);

/* False: nothing covers the address (neither symbol nor FDE). */
bool symbol_file_function(struct symbol_file *file, uint64_t address, struct symbol_function *function);

/* Levels of source at `address`, innermost first, at most `max`; 0 when there is no line information. */
size_t symbol_file_lines(struct symbol_file *file, uint64_t address, struct symbol_line *lines, size_t max);

/* True when DWARF line information was found (in the image or a separate file). Opens it if need be. */
bool symbol_file_has_lines(struct symbol_file *file);

/* C++ and Rust; returns malloc'd text, or NULL when `name` is not a mangled one. */
char *symbol_demangle(const char *name);

/* --- kernel --- */
struct symbol_kernel;
int symbol_kernel_open(const char *path, struct symbol_kernel **kernel,
                       struct base_error *error); /* NULL: /proc/kallsyms */
void symbol_kernel_close(struct symbol_kernel *kernel);
/* Name and start of the function (module as "[module]" or "[kernel]"); strings owned by kernel. */
bool symbol_kernel_find(const struct symbol_kernel *kernel, uint64_t address, const char **name,
                        const char **module, uint64_t *start);

/* --- generated code: perf-PID.map (text) and jitdump (binary, timed) --- */
struct symbol_jit;
struct symbol_jit *symbol_jit_new(void);
void symbol_jit_free(struct symbol_jit *jit);
/* /proc/PID/root/tmp/perf-NSPID.map, then /tmp/perf-PID.map; only a regular file of the target's own user (or root's). Reads what was added since the last call. Absent: BASE_ENOTFOUND. */
int symbol_jit_read_map(struct symbol_jit *jit, pid_t pid, struct base_error *error);
/* A jitdump file the target has mapped (jit-PID.dump). Reads what was added since the last call. */
int symbol_jit_read_dump(struct symbol_jit *jit, int fd, struct base_error *error);
/* The function at a run-time address at `time` (ns, CLOCK_MONOTONIC; UINT64_MAX: the latest).
 * `name` owned by jit; *start, *end run-time addresses. */
bool symbol_jit_find(const struct symbol_jit *jit, uint64_t address, uint64_t time, const char **name,
                     uint64_t *start, uint64_t *end);

#endif
