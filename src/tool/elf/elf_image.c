/* One ELF file through libelf. The file is mapped by libelf as it needs it; sections are decompressed when
 * asked for, and what was decompressed belongs to libelf. Every offset that comes out of the file is checked
 * against its size, since profiled programs may be truncated, packed or hostile. */
#include "elf_image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_map.h"

struct elf_image {
    char *name;
    int fd;
    Elf *elf;
    char *memory; /* of an image from memory */
    GElf_Ehdr header;
    struct elf_build_id build_id;
    struct elf_segment *segments;
    size_t segment_count;
    const uint8_t *bytes;
    size_t size;
    size_t name_section, section_count;
};

/* --- opening --- */

static void free_image(struct elf_image *image)
{
    if (image->elf)
        elf_end(image->elf);
    if (image->fd >= 0)
        close(image->fd);
    free(image->segments);
    free(image->memory);
    free(image->name);
    free(image);
}

static int read_segments(struct elf_image *image, struct base_error *error)
{
    size_t count;
    if (elf_getphdrnum(image->elf, &count))
        return base_fail(error, BASE_EFORMAT, "%s: %s", image->name, elf_errmsg(-1));
    image->segments = calloc(count + 1, sizeof *image->segments);
    if (!image->segments)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr program;
        if (!gelf_getphdr(image->elf, (int)i, &program) || program.p_type != PT_LOAD)
            continue;
        image->segments[image->segment_count++] = (struct elf_segment){.address = program.p_vaddr,
                                                                       .offset = program.p_offset,
                                                                       .file_size = program.p_filesz,
                                                                       .memory_size = program.p_memsz,
                                                                       .executable = program.p_flags & PF_X};
    }
    return BASE_OK;
}

/* A run of notes; descriptors are 4-byte aligned in the notes that matter here. */
static bool find_build_id(Elf_Data *data, struct elf_build_id *id)
{
    size_t at = 0, name, descriptor;
    GElf_Nhdr note;
    while (data && (at = gelf_getnote(data, at, &note, &name, &descriptor)) > 0) {
        const uint8_t *bytes = data->d_buf;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(bytes + name, "GNU", 4))
            continue;
        id->size = note.n_descsz < ELF_BUILD_ID_MAX ? (uint8_t)note.n_descsz : ELF_BUILD_ID_MAX;
        memcpy(id->bytes, bytes + descriptor, id->size);
        return true;
    }
    return false;
}

static void read_build_id(struct elf_image *image)
{
    size_t count = 0;
    elf_getphdrnum(image->elf, &count);
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr program;
        if (!gelf_getphdr(image->elf, (int)i, &program) || program.p_type != PT_NOTE ||
            program.p_offset > image->size || program.p_filesz > image->size - program.p_offset)
            continue;
        Elf_Data *data = elf_getdata_rawchunk(image->elf, (int64_t)program.p_offset, program.p_filesz,
                                              program.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        if (find_build_id(data, &image->build_id))
            return;
    }
    struct elf_section section;
    for (size_t i = 0; i < image->section_count; i++) {
        if (!elf_image_section_header(image, i, &section) || section.type != SHT_NOTE)
            continue;
        if (find_build_id(elf_getdata(elf_getscn(image->elf, i), NULL), &image->build_id))
            return;
    }
}

static int read_headers(struct elf_image *image, struct base_error *error)
{
    if (!image->elf)
        return base_fail(error, BASE_EFORMAT, "%s: %s", image->name, elf_errmsg(-1));
    if (elf_kind(image->elf) != ELF_K_ELF || !gelf_getehdr(image->elf, &image->header))
        return base_fail(error, BASE_EFORMAT, "%s is not an ELF file", image->name);
    if (gelf_getclass(image->elf) != ELFCLASS64)
        return base_fail(error, BASE_EUNSUPPORTED, "%s is a 32-bit program", image->name);
    if (image->header.e_ident[EI_DATA] != ELFDATA2LSB)
        return base_fail(error, BASE_EUNSUPPORTED, "%s is a big-endian program", image->name);
    image->bytes = (const uint8_t *)elf_rawfile(image->elf, &image->size);
    if (!image->bytes)
        return base_fail(error, BASE_EFORMAT, "%s: %s", image->name, elf_errmsg(-1));
    if (elf_getshdrnum(image->elf, &image->section_count) ||
        elf_getshdrstrndx(image->elf, &image->name_section))
        image->section_count = 0; /* a stripped section table is no error */
    int result = read_segments(image, error);
    if (result == BASE_OK)
        read_build_id(image);
    return result;
}

static struct elf_image *new_image(const char *name, int fd)
{
    struct elf_image *image = calloc(1, sizeof *image);
    if (!image)
        return NULL;
    image->fd = -1;
    image->name = strdup(name);
    if (!image->name || elf_version(EV_CURRENT) == EV_NONE) {
        free_image(image);
        return NULL;
    }
    image->fd = fd;
    return image;
}

static int finish_opening(struct elf_image *image, struct elf_image **opened, struct base_error *error)
{
    int result = read_headers(image, error);
    if (result < 0)
        free_image(image);
    else
        *opened = image;
    return result;
}

/* The kernel writes the breakpoints of uprobes into every private mapping of a file, ours among them; a
 * shared one shows the file. So libelf's mapping is replaced by such a one, at the same place. */
static void map_shared(Elf *elf, int fd)
{
    size_t size = 0;
    char *bytes = elf ? elf_rawfile(elf, &size) : NULL;
    if (!bytes || (uintptr_t)bytes % (uintptr_t)sysconf(_SC_PAGESIZE) || !size)
        return;
    void *shared = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (shared != MAP_FAILED)
        mremap(shared, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, bytes);
}

int elf_image_open_fd(int fd, const char *name, struct elf_image **opened, struct base_error *error)
{
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        close(fd);
        return base_fail(error, BASE_EFORMAT, "%s is not a regular file", name);
    }
    struct elf_image *image = new_image(name, fd);
    if (!image) {
        close(fd);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    image->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    map_shared(image->elf, fd);
    return finish_opening(image, opened, error);
}

int elf_image_open(const char *path, struct elf_image **image, struct base_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return base_fail_errno(error, errno, "%s", path);
    return elf_image_open_fd(fd, path, image, error);
}

int elf_image_open_memory(const void *bytes, size_t size, const char *name, struct elf_image **opened,
                          struct base_error *error)
{
    struct elf_image *image = new_image(name, -1);
    if (image)
        image->memory = malloc(size ? size : 1);
    if (!image || !image->memory) {
        if (image)
            free_image(image);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    memcpy(image->memory, bytes, size);
    image->elf = elf_memory(image->memory, size);
    return finish_opening(image, opened, error);
}

void elf_image_close(struct elf_image *image)
{
    if (image)
        free_image(image);
}

/* --- what is in it --- */

const char *elf_image_name(const struct elf_image *image)
{
    return image->name;
}

uint16_t elf_image_machine(const struct elf_image *image)
{
    return image->header.e_machine;
}

uint16_t elf_image_type(const struct elf_image *image)
{
    return image->header.e_type;
}

const struct elf_build_id *elf_image_build_id(const struct elf_image *image)
{
    return &image->build_id;
}

size_t elf_image_segments(const struct elf_image *image, const struct elf_segment **segments)
{
    *segments = image->segments;
    return image->segment_count;
}

void *elf_image_handle(const struct elf_image *image)
{
    return image->elf;
}

int elf_image_fd(const struct elf_image *image)
{
    return image->fd;
}

bool elf_image_is_cut(const struct elf_image *image)
{
    struct stat status;
    return image->fd >= 0 && (fstat(image->fd, &status) || (uint64_t)status.st_size < image->size);
}

const uint8_t *elf_image_bytes(const struct elf_image *image, size_t *size)
{
    *size = image->size;
    return image->bytes;
}

/* --- sections --- */

size_t elf_image_section_count(const struct elf_image *image)
{
    return image->section_count;
}

static bool read_header(const struct elf_image *image, size_t index, GElf_Shdr *header, Elf_Scn **section)
{
    *section = elf_getscn(image->elf, index);
    return *section && gelf_getshdr(*section, header);
}

static const char *section_name(const struct elf_image *image, const GElf_Shdr *header)
{
    const char *name = elf_strptr(image->elf, image->name_section, header->sh_name);
    return name ? name : "";
}

static struct elf_section section_without_bytes(const struct elf_image *image, const GElf_Shdr *header,
                                                size_t index)
{
    return (struct elf_section){.name = section_name(image, header),
                                .address = header->sh_addr,
                                .type = header->sh_type,
                                .index = (uint32_t)index,
                                .flags = header->sh_flags,
                                .memory_size = header->sh_size,
                                .link = header->sh_link};
}

bool elf_image_section_header(const struct elf_image *image, size_t index, struct elf_section *section)
{
    GElf_Shdr header;
    Elf_Scn *from;
    if (!read_header(image, index, &header, &from))
        return false;
    *section = section_without_bytes(image, &header, index);
    return true;
}

bool elf_image_section_at(const struct elf_image *image, size_t index, struct elf_section *section)
{
    GElf_Shdr header;
    Elf_Scn *from;
    if (!read_header(image, index, &header, &from))
        return false;
    *section = section_without_bytes(image, &header, index);
    if (header.sh_type == SHT_NOBITS || header.sh_type == SHT_NULL)
        return true;
    if (header.sh_flags & SHF_COMPRESSED && elf_compress(from, 0, 0) < 0)
        return true; /* corrupt, or compressed in a way libelf does not know */
    const Elf_Data *data = elf_rawdata(from, NULL);
    if (data && data->d_buf) {
        section->bytes = data->d_buf;
        section->size = data->d_size;
    }
    return true;
}

bool elf_image_section(const struct elf_image *image, const char *name, struct elf_section *section)
{
    for (size_t i = 1; i < image->section_count; i++) {
        GElf_Shdr header;
        Elf_Scn *from;
        if (read_header(image, i, &header, &from) && !strcmp(section_name(image, &header), name))
            return elf_image_section_at(image, i, section) && section->bytes;
    }
    return false;
}

/* --- addresses --- */

/* The segment an offset belongs to when mappings begin at multiples of `page`. A page that two segments share
 * goes to the executable one: code is what frames are in. */
static const struct elf_segment *segment_of(const struct elf_image *image, uint64_t offset, uint64_t page)
{
    const struct elf_segment *best = NULL;
    for (size_t i = 0; i < image->segment_count; i++) {
        const struct elf_segment *segment = &image->segments[i];
        uint64_t first = segment->offset & ~(page - 1);
        if (offset < first || offset - first >= segment->file_size + (segment->offset - first))
            continue;
        if (!best || segment->executable)
            best = segment;
    }
    return best;
}

bool elf_image_address_of_offset(const struct elf_image *image, uint64_t offset, uint64_t *address)
{
    enum { SMALL_PAGE = 4096, LARGE_PAGE = 65536 }; /* AArch64 kernels may have the large ones */
    const struct elf_segment *segment = segment_of(image, offset, SMALL_PAGE);
    if (!segment)
        segment = segment_of(image, offset, LARGE_PAGE);
    if (!segment)
        return false;
    *address = segment->address - segment->offset + offset;
    return true;
}

const uint8_t *elf_image_at(const struct elf_image *image, uint64_t address, size_t *available)
{
    for (size_t i = 0; i < image->segment_count; i++) {
        const struct elf_segment *segment = &image->segments[i];
        if (address < segment->address || address - segment->address >= segment->file_size)
            continue;
        uint64_t inside = address - segment->address;
        if (segment->offset > image->size || inside >= image->size - segment->offset)
            return NULL;
        uint64_t in_file = image->size - segment->offset - inside, in_segment = segment->file_size - inside;
        *available = (size_t)(in_file < in_segment ? in_file : in_segment);
        return image->bytes + segment->offset + inside;
    }
    return NULL;
}

void elf_image_text_check(const struct elf_image *image, uint64_t *size, uint64_t *hash)
{
    enum { PIECES = 64, PIECE = 1024 };
    *size = *hash = 0;
    for (size_t i = 0; i < image->segment_count; i++) {
        const struct elf_segment *segment = &image->segments[i];
        size_t available;
        const uint8_t *bytes = segment->executable ? elf_image_at(image, segment->address, &available) : NULL;
        if (!bytes)
            continue;
        *size += segment->file_size;
        size_t step = available / PIECES > PIECE ? available / PIECES : PIECE;
        for (size_t at = 0; at < available; at += step)
            *hash = base_hash(*hash ^
                              base_hash_bytes(bytes + at, available - at < PIECE ? available - at : PIECE));
    }
}

/* --- build-ids --- */

void elf_build_id_format(const struct elf_build_id *id, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < id->size; i++) {
        *text++ = digits[id->bytes[i] >> 4];
        *text++ = digits[id->bytes[i] & 15];
    }
    *text = '\0';
}

bool elf_build_id_equal(const struct elf_build_id *a, const struct elf_build_id *b)
{
    return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}
