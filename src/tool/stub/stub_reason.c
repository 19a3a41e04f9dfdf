/* Sentences of the reasons. */
#include "stub_reason.h"

const char *stub_reason_text(enum stub_reason reason)
{
    switch ((int)reason) {
#define X(number, name, text)                                                                                \
    case number:                                                                                             \
        return text;
        STUB_REASONS(X)
#undef X
    }
    return "?";
}
