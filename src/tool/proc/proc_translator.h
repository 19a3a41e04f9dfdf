/* proc_translator.h - processes whose code is run by a binary translator.
 *
 * Valgrind, DynamoRIO, Pin, rr and the user-mode emulators (QEMU, box64, FEX) run a translation of a
 * program's code, and keep track of its memory, signals and system calls themselves. What is patched there is
 * not what runs, and memory that they have not mapped they take for free. So nothing is written into such a
 * process. They are recognized by their files among its mappings. Context: tool. */
#ifndef PROC_TRANSLATOR_H
#define PROC_TRANSLATOR_H

#include <sys/types.h>

#include "base_error.h"

/* BASE_EUNSUPPORTED, with its name: the process is run by one. BASE_OK: it is not, or is gone. */
int proc_translator_refuse(pid_t pid, struct base_error *error);

#endif
