/* symbol.h - names for addresses.
 *
 * A symbol_file answers for one image: function names from its symbol tables (.symtab, .dynsym,
 * .gnu_debugdata, a separate debug file by build-id or debuglink), bounds of nameless functions from FDEs,
 * and - slower, asked for separately - file, line and inlined frames from DWARF through libdw. The name of a
 * function is its ELF symbol, demangled, clone suffix kept, symbol version cut; DWARF names only inlined
 * frames. Of several symbols at one address the one is taken that symbol_table.h says. Entries of linkage
 * tables are NAME@plt. Everything is read when it is first asked for. Context: tool, one thread. */
#ifndef SYMBOL_H
#define SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "elf_image.h"

struct symbol_options {          /* its strings are copied */
    bool debuginfod;             /* ask debuginfod servers for a missing debug file */
    const char *root;            /* /proc/PID/root or "": where separate debug files are looked up as well */
    const char *debug_directory; /* NULL: /usr/lib/debug */
};

struct symbol_function {
    const char *name;     /* demangled; owned by the symbol_file */
    const char *raw_name; /* as in the ELF file */
    uint64_t start, end;  /* image addresses; end is exclusive */
    bool from_fde; /* no symbol: name is "FILE+0xSTART", the address being that of the function's start */
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

/* Levels of source at `address`, innermost first, at most `max`; 0 when there is no line information. The
 * last is always the outermost: where there are more than `max`, those just inside it are left out. */
size_t symbol_file_lines(struct symbol_file *file, uint64_t address, struct symbol_line *lines, size_t max);

/* True when DWARF line information was found (in the image or a separate file). Opens it if need be. */
bool symbol_file_has_lines(struct symbol_file *file);

/* C++ and Rust; returns malloc'd text, or NULL when `name` is not a mangled one (or one of more than 8 KiB,
 * or one that would become a text of more than 64 KiB). A clone suffix stays visible the way c++filt has it,
 * "f(int) [clone .cold]", in Rust names too; "@plt" stays at the end. */
char *symbol_demangle(const char *name);

/* --- kernel --- */
struct symbol_kernel;
/* BASE_EPERMISSION: the addresses are hidden from this user; the message names the remedy. */
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
/* /proc/PID/root/tmp/perf-NSPID.map, then /tmp/perf-PID.map; only a regular file of the target's own user (or
 * root's), no link. Reads what was added since the last call. Best called while the process lives, which
 * alone names its user. Absent: BASE_ENOTFOUND. */
int symbol_jit_read_map(struct symbol_jit *jit, pid_t pid, struct base_error *error);
/* A jitdump file the target has mapped (jit-PID.dump). Reads what was added since the last call. */
int symbol_jit_read_dump(struct symbol_jit *jit, int fd, struct base_error *error);
/* The function at a run-time address at `time` (ns, CLOCK_MONOTONIC; UINT64_MAX: the latest). Names from
 * maps, and from jitdump files with timestamps of another clock, hold at every time. `name` owned by jit;
 * *start, *end run-time addresses. */
bool symbol_jit_find(const struct symbol_jit *jit, uint64_t address, uint64_t time, const char **name,
                     uint64_t *start, uint64_t *end);

#endif
