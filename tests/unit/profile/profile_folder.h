/* profile_folder.h - a folder for the profile that a test writes: `path`, and `old_path`, which recording
 * anew moves it to. Made before the tests of a program and removed behind them; both files go after each test
 * that has profile_folder_clean. */
#ifndef PROFILE_FOLDER_H
#define PROFILE_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char profile_folder[] = "/tmp/tally-profile-XXXXXX";
static char path[128], old_path[160];

static inline int profile_folder_make(void **state)
{
    (void)state;
    if (!mkdtemp(profile_folder))
        return -1;
    snprintf(path, sizeof path, "%s/p", profile_folder);
    snprintf(old_path, sizeof old_path, "%s.old", path);
    return 0;
}

static inline int profile_folder_clean(void **state)
{
    (void)state;
    unlink(path);
    unlink(old_path);
    return 0;
}

static inline int profile_folder_remove(void **state)
{
    profile_folder_clean(state);
    return rmdir(profile_folder);
}

#endif
