/* filter.h - what a seccomp filter answers to a system call, found out without making it.
 *
 * Filters are classic BPF programs over struct seccomp_data, which only jump forward. What the kernel would
 * not take as a program (an unknown instruction, a load outside of the data, an end without an answer) is
 * answered with SECCOMP_RET_KILL_PROCESS, the worst; so a program that somebody changes meanwhile does no
 * harm. Pure: bytes in, a word out. Context: anywhere, signal handlers included. Source: seccomp(2), bpf(4),
 * kernel/seccomp.c, net/core/filter.c. */
#ifndef FILTER_H
#define FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SECCOMP_RET_*, with its data. */
uint32_t filter_run(const struct sock_filter *items, size_t count, const struct seccomp_data *data);

/* Is the call made as if there were no filter? */
bool filter_allows(uint32_t answer);

#endif
