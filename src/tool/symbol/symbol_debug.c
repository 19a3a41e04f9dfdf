#include "symbol_debug.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_text.h"

/* --- is it the one? --- */

static struct elf_image *open_readable(const char *path)
{
    struct elf_image *image = NULL;
    if (path && !access(path, R_OK))
        elf_image_open(path, &image, NULL);
    return image;
}

/* A stripped file has its own build-id too, and so may be the one that it was split off. */
static bool has_debug(const struct elf_image *image)
{
    struct elf_section section;
    return elf_image_section(image, ".symtab", &section) || elf_image_section(image, ".debug_info", &section);
}

static bool has_same_build_id(const struct elf_image *image, const struct elf_image *debug)
{
    const struct elf_build_id *id = elf_image_build_id(image);
    return id->size && elf_build_id_equal(id, elf_image_build_id(debug));
}

/* Takes over `debug`; NULL unless it is the right one. */
static struct elf_image *only_if_right(const struct elf_image *image, struct elf_image *debug)
{
    if (!debug || (has_same_build_id(image, debug) && has_debug(debug)))
        return debug;
    elf_image_close(debug);
    return NULL;
}

/* The checksum of .gnu_debuglink: CRC-32 with polynomial 0xedb88320. */
static uint32_t crc_of(const uint8_t *bytes, size_t size)
{
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? value >> 1 ^ 0xedb88320 : value >> 1;
        table[i] = value;
    }
    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
    return ~crc;
}

/* The checksum is read only where build-ids do not decide: it takes the whole file. */
static struct elf_image *only_if_linked(const struct elf_image *image, struct elf_image *debug, uint32_t crc)
{
    if (!debug || (elf_image_build_id(image)->size && elf_image_build_id(debug)->size))
        return only_if_right(image, debug);
    size_t size;
    const uint8_t *bytes = elf_image_bytes(debug, &size);
    if (has_debug(debug) && crc_of(bytes, size) == crc)
        return debug;
    elf_image_close(debug);
    return NULL;
}

/* --- by build-id --- */

static struct elf_image *by_build_id(const struct elf_image *image, const char *root, const char *directory)
{
    const struct elf_build_id *id = elf_image_build_id(image);
    char text[2 * ELF_BUILD_ID_MAX + 1], *path;
    if (id->size < 2)
        return NULL;
    elf_build_id_format(id, text);
    if (asprintf(&path, "%s%s/.build-id/%.2s/%s.debug", root, directory, text, text + 2) < 0)
        return NULL;
    struct elf_image *debug = only_if_right(image, open_readable(path));
    free(path);
    return debug;
}

/* --- by debuglink --- */

/* The name that .gnu_debuglink holds, without directories, and the checksum behind its padding. */
static const char *read_link(const struct elf_image *image, uint32_t *crc)
{
    struct elf_section section;
    if (!elf_image_section(image, ".gnu_debuglink", &section) || section.size < 8 ||
        !memchr(section.bytes, 0, section.size - 4))
        return NULL;
    const char *name = (const char *)section.bytes;
    memcpy(crc, section.bytes + section.size - 4, sizeof *crc);
    return *name && !strchr(name, '/') ? name : NULL;
}

static struct elf_image *by_link(const struct elf_image *image, const char *root, const char *directory)
{
    uint32_t crc;
    const char *name = read_link(image, &crc), *own = elf_image_name(image), *slash = strrchr(own, '/');
    const struct {
        const char *under, *inside;
    } places[] = {{"", ""}, {"", "/.debug"}, {directory, ""}};
    struct elf_image *debug = NULL;
    if (!name || !slash)
        return NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !debug; i++) {
        char *path;
        if (asprintf(&path, "%s%s%.*s%s/%s", root, places[i].under, (int)(slash - own), own, places[i].inside,
                     name) < 0)
            return NULL;
        debug = only_if_linked(image, open_readable(path), crc);
        free(path);
    }
    return debug;
}

/* --- by debuginfod --- */

/* The client library is loaded when asked for alone: it brings a network stack along. */
static char *by_debuginfod(const struct elf_image *image)
{
    const struct elf_build_id *id = elf_image_build_id(image);
    void *library = id->size ? dlopen("libdebuginfod.so.1", RTLD_NOW) : NULL;
    if (!library)
        return NULL;
    void *(*begin)(void);
    int (*find)(void *client, const unsigned char *build_id, int length, char **path);
    void (*end)(void *client);
    *(void **)&begin = dlsym(library, "debuginfod_begin");
    *(void **)&find = dlsym(library, "debuginfod_find_debuginfo");
    *(void **)&end = dlsym(library, "debuginfod_end");
    char *path = NULL;
    void *client = begin && find && end ? begin() : NULL;
    if (client) {
        int fd = find(client, id->bytes, id->size, &path);
        if (fd >= 0)
            close(fd);
        else
            path = NULL;
        end(client);
    }
    return path;
}

struct elf_image *symbol_debug_open(const struct elf_image *image, const struct symbol_options *options)
{
    const char *directory = options->debug_directory ? options->debug_directory : "/usr/lib/debug";
    const char *roots[] = {options->root ? options->root : "", ""};
    size_t root_count = *roots[0] ? 2 : 1;
    struct elf_image *debug = NULL;
    for (size_t i = 0; i < root_count && !debug; i++)
        debug = by_build_id(image, roots[i], directory);
    for (size_t i = 0; i < root_count && !debug; i++)
        debug = by_link(image, roots[i], directory);
    if (!debug && options->debuginfod) {
        char *path = by_debuginfod(image);
        debug = only_if_right(image, open_readable(path));
        free(path);
    }
    return debug;
}

/* --- .gnu_debugdata --- */

struct elf_image *symbol_debug_mini(const struct elf_image *image)
{
    enum { LARGEST = 256 << 20 };
    struct elf_section section;
    struct base_text text = {0};
    struct elf_image *mini = NULL;
    lzma_stream stream = LZMA_STREAM_INIT;
    if (!elf_image_section(image, ".gnu_debugdata", &section) ||
        lzma_stream_decoder(&stream, LARGEST, 0) != LZMA_OK)
        return NULL;
    stream.next_in = section.bytes;
    stream.avail_in = section.size;
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK && text.length < LARGEST && !text.failed) {
        uint8_t bytes[16384];
        stream.next_out = bytes;
        stream.avail_out = sizeof bytes;
        result = lzma_code(&stream, LZMA_FINISH);
        base_text_add_bytes(&text, bytes, sizeof bytes - stream.avail_out);
    }
    lzma_end(&stream);
    if (result == LZMA_STREAM_END && !text.failed)
        elf_image_open_memory(text.data, text.length, elf_image_name(image), &mini, NULL);
    base_text_free(&text);
    return mini;
}
