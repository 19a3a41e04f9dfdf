#include "profile_loss.h"

#include <stddef.h>

#include "wire_loss.h"

static const struct {
    const char *name, *text;
} losses[WIRE_LOSS_END] = {
#define X(number, name, text) [number] = {#name, (text)},
    WIRE_LOSSES(X)
#undef X
};

const char *profile_loss_name(unsigned number)
{
    return number < WIRE_LOSS_END ? losses[number].name : NULL;
}

const char *profile_loss_text(unsigned number)
{
    return number < WIRE_LOSS_END ? losses[number].text : NULL;
}
