#include "cfi_pointer.h"

/* DW_EH_PE_: the low four bits say how a value is written, the next three what it is relative to. */
enum {
    PE_ULEB128 = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB128 = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_FORMAT = 0x0f,
    PE_PC_RELATIVE = 0x10,
    PE_TEXT_RELATIVE = 0x20,
    PE_DATA_RELATIVE = 0x30,
    PE_RELATION = 0x70,
    PE_INDIRECT = 0x80,
    PE_OMIT = 0xff,
};

uint64_t cfi_pointer_value(struct cfi_reader *reader, uint8_t encoding)
{
    switch (encoding & PE_FORMAT) {
    case CFI_POINTER_ABSOLUTE:
    case PE_UDATA8:
    case PE_SDATA8:
        return cfi_reader_fixed(reader, 8);
    case PE_ULEB128:
        return cfi_reader_uleb(reader);
    case PE_UDATA2:
        return cfi_reader_fixed(reader, 2);
    case PE_UDATA4:
        return cfi_reader_fixed(reader, 4);
    case PE_SLEB128:
        return (uint64_t)cfi_reader_sleb(reader);
    case PE_SDATA2:
        return (uint64_t)(int64_t)(int16_t)cfi_reader_fixed(reader, 2);
    case PE_SDATA4:
        return (uint64_t)(int64_t)(int32_t)cfi_reader_fixed(reader, 4);
    default:
        cfi_reader_fail(reader);
        return 0;
    }
}

uint64_t cfi_pointer_read(struct cfi_reader *reader, const struct cfi_section *section, uint8_t encoding)
{
    uint64_t here = section->address + (uint64_t)(reader->at - section->bytes);
    if (encoding == PE_OMIT || (encoding & PE_INDIRECT)) {
        cfi_reader_fail(reader);
        return 0;
    }
    uint64_t value = cfi_pointer_value(reader, encoding);
    switch (encoding & PE_RELATION) {
    case CFI_POINTER_ABSOLUTE:
        return value;
    case PE_PC_RELATIVE:
        return value + here;
    case PE_TEXT_RELATIVE:
        return value + section->text_base;
    case PE_DATA_RELATIVE:
        return value + section->data_base;
    default: /* relative to the function makes no sense for its own start; aligned is never used */
        cfi_reader_fail(reader);
        return 0;
    }
}
