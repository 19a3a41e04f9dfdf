/* base_error.h - the one error idiom of the tool.
 *
 * A function that can fail returns 0 or a positive result, or one of the negative codes below, and
 * appends a sentence for people to the buffer that its caller supplied. Nothing below src/tool/cli
 * prints or exits. A NULL buffer is allowed everywhere: then only the code comes back.
 * Context: tool. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

enum base_code {
    BASE_OK = 0,
    BASE_EIO = -1,          /* the system refused: the message holds its reason */
    BASE_EFORMAT = -2,      /* a file is not what it should be: foreign, truncated, newer */
    BASE_ENOTFOUND = -3,    /* no such process, file, function ... */
    BASE_EPERMISSION = -4,  /* not permitted: the message names the setting and the remedy */
    BASE_EUSAGE = -5,       /* the user asked for something that makes no sense */
    BASE_EUNSUPPORTED = -6, /* this kernel, machine or file cannot do it */
    BASE_ENOMEM = -7,
    BASE_EBUSY = -8, /* locked by another tally */
    BASE_EINTERRUPTED = -9,
};

struct base_error {
    char text[768]; /* always terminated; empty while nothing went wrong */
};

/* Sets the message (printf rules) unless one is there already, and returns `code`: the first reason
 * is the one that helps. */
int base_fail(struct base_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with ": strerror(number)" appended. EPERM and EACCES turn into BASE_EPERMISSION, ENOENT and
 * ESRCH into BASE_ENOTFOUND, ENOMEM into BASE_ENOMEM, everything else into BASE_EIO. */
int base_fail_errno(struct base_error *error, int number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " in front of a message that a callee left. Returns `code`. */
int base_fail_context(struct base_error *error, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void base_error_clear(struct base_error *error);

/* Is it the errno with which a seccomp filter refuses a call, as those of containers and services do? */
static inline bool base_error_is_refusal(int number)
{
    return number == EPERM || number == ENOSYS;
}

#endif
