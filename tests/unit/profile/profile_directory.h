/* profile_directory.h - a directory for the profile that a test writes: `path`, and `old_path`, which
 * recording anew moves it to. Made before the tests of a program and removed behind them; both files go after
 * each test that has profile_directory_clean. */
#ifndef PROFILE_DIRECTORY_H
#define PROFILE_DIRECTORY_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char profile_directory[] = "/tmp/tally-profile-XXXXXX";
static char path[128], old_path[160];

static inline int profile_directory_make(void **state)
{
    (void)state;
    if (!mkdtemp(profile_directory))
        return -1;
    snprintf(path, sizeof path, "%s/p", profile_directory);
    snprintf(old_path, sizeof old_path, "%s.old", path);
    return 0;
}

static inline int profile_directory_clean(void **state)
{
    (void)state;
    unlink(path);
    unlink(old_path);
    return 0;
}

static inline int profile_directory_remove(void **state)
{
    profile_directory_clean(state);
    return rmdir(profile_directory);
}

#endif
