#include "code_disassembly.h"

#include <capstone.h>
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code_aarch64.h"
#include "code_zydis.h"

enum { NAME_MAX_BYTES = 160 };

struct code_disassembly {
    bool aarch64;
    ZydisFormatter formatter;
    csh capstone; /* of AArch64 */
    cs_insn *instruction;
};

static void name_target(const struct code_disassembly_source *source, uint64_t target, char *text,
                        size_t size)
{
    if (source->name)
        source->name(source->context, target, text, size);
    else
        snprintf(text, size, "0x%" PRIx64, target);
}

/* --- x86-64 --- */

/* Zydis' string counts its terminator. (Its own functions for this are in a second library.) */
static ZyanStatus append_text(ZyanString *string, const char *text)
{
    ZyanVector *vector = &string->vector;
    size_t used = vector->size - 1, length = strlen(text);
    if (used + length + 1 > vector->capacity)
        return ZYAN_STATUS_INSUFFICIENT_BUFFER_SIZE;
    memcpy((char *)vector->data + used, text, length + 1);
    vector->size += length;
    return ZYAN_STATUS_SUCCESS;
}

/* Zydis calls this for the operand of a direct branch (memory is shown relative, see configure_formatter). */
static ZyanStatus print_target(const ZydisFormatter *formatter, ZydisFormatterBuffer *buffer,
                               ZydisFormatterContext *context)
{
    char text[NAME_MAX_BYTES];
    ZyanU64 target;
    ZyanString *string;
    (void)formatter;
    ZYAN_CHECK(
        ZydisCalcAbsoluteAddress(context->instruction, context->operand, context->runtime_address, &target));
    name_target(context->user_data, target, text, sizeof text);
    ZYAN_CHECK(ZydisFormatterBufferAppend(buffer, ZYDIS_TOKEN_SYMBOL));
    ZYAN_CHECK(ZydisFormatterBufferGetString(buffer, &string));
    return append_text(string, text);
}

/* Short numbers in lower case. */
static bool configure_formatter(ZydisFormatter *formatter, enum code_syntax syntax)
{
    static const struct {
        ZydisFormatterProperty property;
        ZyanUPointer value;
    } settings[] = {
        {ZYDIS_FORMATTER_PROP_FORCE_RELATIVE_RIPREL, ZYAN_TRUE},
        {ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE},
        {ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_PADDING_DISABLED},
        {ZYDIS_FORMATTER_PROP_IMM_PADDING, ZYDIS_PADDING_DISABLED},
        {ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, ZYDIS_PADDING_DISABLED},
        {ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE, ZYDIS_PADDING_DISABLED},
    };
    ZydisFormatterStyle style = syntax == CODE_ATT ? ZYDIS_FORMATTER_STYLE_ATT : ZYDIS_FORMATTER_STYLE_INTEL;
    if (!ZYAN_SUCCESS(ZydisFormatterInit(formatter, style)))
        return false;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (!ZYAN_SUCCESS(ZydisFormatterSetProperty(formatter, settings[i].property, settings[i].value)))
            return false;
    ZydisFormatterFunc hook = print_target;
    const void *previous;
    memcpy(&previous, &hook, sizeof previous);
    return ZYAN_SUCCESS(ZydisFormatterSetHook(formatter, ZYDIS_FORMATTER_FUNC_PRINT_ADDRESS_ABS, &previous));
}

static size_t text_of_x86_64(const struct code_disassembly *disassembly,
                             const struct code_disassembly_source *source, char *text, size_t size)
{
    static const ZydisDecoder decoder = CODE_ZYDIS_DECODER(ZYAN_FALSE);
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    char whole[CODE_DISASSEMBLY_MAX + NAME_MAX_BYTES];
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeFull(&decoder, source->bytes, source->available, &instruction, operands)) ||
        !ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&disassembly->formatter, &instruction, operands,
                                                      instruction.operand_count_visible, whole, sizeof whole,
                                                      source->address, (void *)(uintptr_t)source)))
        return 0;
    snprintf(text, size, "%s", whole);
    return instruction.length;
}

/* --- AArch64 --- */

/* Capstone writes a target as the last operand, a number. */
static size_t text_of_aarch64(const struct code_disassembly *disassembly,
                              const struct code_disassembly_source *source, char *text, size_t size)
{
    const uint8_t *bytes = source->bytes;
    uint64_t at = source->address;
    uint32_t word;
    struct code_instruction decoded;
    const cs_insn *instruction = disassembly->instruction;
    if (source->available < sizeof word)
        return 0;
    memcpy(&word, bytes, sizeof word);
    size_t left = sizeof word;
    if (!cs_disasm_iter(disassembly->capstone, &bytes, &left, &at, disassembly->instruction))
        return 0;
    code_aarch64_decode(word, source->address, &decoded);
    const char *operands = instruction->op_str, *number = strrchr(operands, '#');
    const char *blank = *operands ? " " : "";
    if (!decoded.target || !number) {
        snprintf(text, size, "%s%s%s", instruction->mnemonic, blank, operands);
        return sizeof word;
    }
    char target[NAME_MAX_BYTES];
    name_target(source, decoded.target, target, sizeof target);
    snprintf(text, size, "%s %.*s%s", instruction->mnemonic, (int)(number - operands), operands, target);
    return sizeof word;
}

static bool open_capstone(struct code_disassembly *disassembly)
{
    if (cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, &disassembly->capstone) != CS_ERR_OK)
        return false;
    disassembly->instruction = cs_malloc(disassembly->capstone);
    return disassembly->instruction;
}

/* --- both --- */

int code_disassembly_new(uint16_t machine, enum code_syntax syntax, struct code_disassembly **made,
                         struct base_error *error)
{
    *made = NULL;
    if (machine != EM_X86_64 && machine != EM_AARCH64)
        return base_fail(error, BASE_EUNSUPPORTED, "code of ELF machine %u cannot be shown", machine);
    struct code_disassembly *disassembly = calloc(1, sizeof *disassembly);
    if (!disassembly)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    disassembly->aarch64 = machine == EM_AARCH64;
    bool done = disassembly->aarch64 ? open_capstone(disassembly)
                                     : configure_formatter(&disassembly->formatter, syntax);
    if (!done) {
        code_disassembly_free(disassembly);
        return base_fail(error, BASE_EUNSUPPORTED, "the disassembler's library refuses to start");
    }
    *made = disassembly;
    return BASE_OK;
}

void code_disassembly_free(struct code_disassembly *disassembly)
{
    if (!disassembly)
        return;
    if (disassembly->instruction)
        cs_free(disassembly->instruction, 1);
    if (disassembly->capstone)
        cs_close(&disassembly->capstone);
    free(disassembly);
}

size_t code_disassembly_text(struct code_disassembly *disassembly,
                             const struct code_disassembly_source *source, char *text, size_t size)
{
    size_t length = disassembly->aarch64 ? text_of_aarch64(disassembly, source, text, size)
                                         : text_of_x86_64(disassembly, source, text, size);
    if (!length)
        snprintf(text, size, "(bad)");
    return length;
}
