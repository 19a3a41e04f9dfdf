#include "symbol_debug.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_text.h"

/* --- by build-id --- */

static bool has_build_id(const char *path, const struct elf_build_id *id)
{
    struct elf_image *image;
    if (access(path, R_OK) || elf_image_open(path, &image, NULL) < 0)
        return false;
    bool same = elf_build_id_equal(elf_image_build_id(image), id);
    elf_image_close(image);
    return same;
}

static char *by_build_id(const struct elf_image *image, const char *root, const char *directory)
{
    const struct elf_build_id *id = elf_image_build_id(image);
    char text[2 * ELF_BUILD_ID_MAX + 1], *path;
    if (id->size < 2)
        return NULL;
    elf_build_id_format(id, text);
    if (asprintf(&path, "%s%s/.build-id/%.2s/%s.debug", root, directory, text, text + 2) < 0)
        return NULL;
    if (has_build_id(path, id))
        return path;
    free(path);
    return NULL;
}

/* --- by debuglink --- */

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

static bool has_crc(const char *path, uint32_t crc)
{
    struct elf_image *image;
    size_t size;
    if (access(path, R_OK) || elf_image_open(path, &image, NULL) < 0)
        return false;
    const uint8_t *bytes = elf_image_bytes(image, &size);
    bool same = crc_of(bytes, size) == crc;
    elf_image_close(image);
    return same;
}

static char *by_link(const struct elf_image *image, const char *root, const char *directory)
{
    struct elf_section section;
    uint32_t crc;
    if (!elf_image_section(image, ".gnu_debuglink", &section) || section.size < 8 ||
        !memchr(section.bytes, 0, section.size - 4))
        return NULL;
    const char *name = (const char *)section.bytes, *own = elf_image_name(image);
    memcpy(&crc, section.bytes + section.size - 4, sizeof crc);
    const char *slash = strrchr(own, '/');
    int folder = slash ? (int)(slash - own) : 0;
    const struct {
        const char *under, *inside;
    } places[] = {{"", ""}, {"", "/.debug"}, {directory, ""}};
    if (!slash || strchr(name, '/'))
        return NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path;
        if (asprintf(&path, "%s%s%.*s%s/%s", root, places[i].under, folder, own, places[i].inside, name) < 0)
            return NULL;
        if (strcmp(path, own) && has_crc(path, crc))
            return path;
        free(path);
    }
    return NULL;
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

char *symbol_debug_path(const struct elf_image *image, const struct symbol_options *options)
{
    const char *directory = options->debug_directory ? options->debug_directory : "/usr/lib/debug";
    const char *root = options->root ? options->root : "";
    char *path = by_build_id(image, root, directory);
    if (!path)
        path = by_link(image, root, directory);
    if (!path && *root)
        path = by_build_id(image, "", directory);
    if (!path && options->debuginfod)
        path = by_debuginfod(image);
    return path;
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
