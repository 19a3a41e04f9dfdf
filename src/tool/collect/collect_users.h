/* collect_users.h - who has a mapping that one looks for: all processes of the machine that can be read. Context: tool. */
#ifndef COLLECT_USERS_H
#define COLLECT_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "elf_maps.h"

typedef bool collect_users_wanted(const void *context, const struct elf_mapping *mapping);

bool collect_users_is(pid_t pid, collect_users_wanted *wanted, const void *context);

/* Without ourselves; `born`: only those that were born after us, which is told without their mappings. *pids is the caller's. */
size_t collect_users_list(collect_users_wanted *wanted, const void *context, bool born, pid_t **pids);

#endif
