/* stub_bytes.h - byte-exact expectations with the disassembly in the margin.
 *
 *     stub_bytes_are(code.bytes, code.size, "48 ff 05 f9 0f 00 00  ; inc qword [rip+0xff9]\n"
 *                                            "e9 d4 0f 00 00        ; jmp 0x2000\n");
 * What follows a ';' on a line is for the reader. */
#ifndef STUB_BYTES_H
#define STUB_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The bytes that `text` spells, at most `max`; returns how many. */
static inline size_t stub_bytes_read(const char *text, uint8_t *bytes, size_t max)
{
    size_t count = 0;
    while (*text != '\0' && count < max) {
        char *end;
        unsigned long value = strtoul(text, &end, 16);
        if (end != text)
            bytes[count++] = (uint8_t)value;
        text = end;
        text += strspn(text, " ");
        if (*text == ';')
            text += strcspn(text, "\n");
        text += strspn(text, "\n ");
    }
    return count;
}

#define stub_bytes_are(bytes, size, text)                                                                    \
    do {                                                                                                     \
        uint8_t wanted_[256];                                                                                \
        size_t count_ = stub_bytes_read(text, wanted_, sizeof wanted_);                                      \
        assert_int_equal(size, count_);                                                                      \
        assert_memory_equal(bytes, wanted_, count_);                                                         \
    } while (0)

#endif
