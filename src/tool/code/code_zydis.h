/* code_zydis.h - how this module sets up the decoder. Private to the module.
 *
 * The structure is filled in here, as ZydisDecoderInit would do it, so that it is a constant: no
 * initialisation per call, no mutable global. Branches are decoded the way of Intel's processors
 * (AMD_BRANCHES stays off). */
#ifndef CODE_ZYDIS_H
#define CODE_ZYDIS_H

#include <Zydis/Zydis.h>

#define CODE_ZYDIS_DECODER(minimal)                                                                          \
    {                                                                                                        \
        .machine_mode = ZYDIS_MACHINE_MODE_LONG_64, .stack_width = ZYDIS_STACK_WIDTH_64,                     \
        .decoder_mode = {                                                                                    \
            [ZYDIS_DECODER_MODE_MINIMAL] = (minimal), [ZYDIS_DECODER_MODE_MPX] = ZYAN_TRUE,                  \
            [ZYDIS_DECODER_MODE_CET] = ZYAN_TRUE,     [ZYDIS_DECODER_MODE_LZCNT] = ZYAN_TRUE,                \
            [ZYDIS_DECODER_MODE_TZCNT] = ZYAN_TRUE,   [ZYDIS_DECODER_MODE_WBNOINVD] = ZYAN_TRUE,             \
            [ZYDIS_DECODER_MODE_CLDEMOTE] = ZYAN_TRUE},                                                      \
    }

#endif
