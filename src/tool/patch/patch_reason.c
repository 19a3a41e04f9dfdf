/* Names and sentences of the reasons. */
#include "patch_reason.h"

const char *patch_reason_name(enum patch_reason reason)
{
    switch ((int)reason) {
#define X(number, name, text)                                                                                \
    case number:                                                                                             \
        return #name;
        PATCH_REASONS(X)
#undef X
    }
    return "?";
}

const char *patch_reason_text(enum patch_reason reason)
{
    switch ((int)reason) {
#define X(number, name, text)                                                                                \
    case number:                                                                                             \
        return text;
        PATCH_REASONS(X)
#undef X
    }
    return "?";
}
