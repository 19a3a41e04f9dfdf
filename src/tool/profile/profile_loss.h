/* profile_loss.h - how a loss is called. Context: tool, any thread. */
#ifndef PROFILE_LOSS_H
#define PROFILE_LOSS_H

/* Of a number of src/safe/wire/wire_loss.h: its name there, "STACK_CUT", and its sentence. NULL: this
 * version does not know the number, or it is retired. */
const char *profile_loss_name(unsigned number);
const char *profile_loss_text(unsigned number);

#endif
