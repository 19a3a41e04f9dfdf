/* base_fault.h - files that are shortened while they are mapped.
 *
 * Programs, debug files and imported files are read where they are mapped, by this code and by libraries.
 * Whoever owns one may truncate it meanwhile; reading past its new end is then a SIGBUS, which would end a
 * recording. From base_fault_survive on such a page holds zeros instead, as the rest of a file's last page
 * does. Who reads a file that way bears any bytes in it; that it is cut is found by who knows its size
 * (elf_image_is_cut, import_file_check). Context: tool, once, at the start. Source: mmap(2), SIGBUS;
 * sigaction(2), BUS_ADRERR. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

/* Sets the process's handler of SIGBUS, which an exec takes away; one that ignores the signal keeps
 * ignoring it, for what it executes. */
void base_fault_survive(void);

#endif
