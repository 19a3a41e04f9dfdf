#include "cfi_entry.h"

#include <stdlib.h>

#include "base_array.h"
#include "cfi_program.h"

/* An entry's head, cut off its body. */
struct head {
    uint64_t offset; /* of the entry in the section */
    uint64_t id_offset;
    uint64_t id; /* of a CIE: the section's mark; of an FDE: where its CIE is */
    bool cie;
    struct cfi_reader body;
};

/* False at the end of the section. A zero length is passed over: in .eh_frame it closes one object file's
 * share. An entry that reaches past the section has a failed body. */
static bool read_head(struct cfi_reader *reader, const struct cfi_section *section, struct head *head)
{
    uint64_t length = 0;
    while (length == 0) {
        if (cfi_reader_left(reader) < 4)
            return false;
        head->offset = (uint64_t)(reader->at - section->bytes);
        length = cfi_reader_fixed(reader, 4);
        if (length == 0 && section->terminated)
            return false;
    }
    bool wide = length == UINT32_MAX;
    if (wide)
        length = cfi_reader_fixed(reader, 8);
    head->body = cfi_reader_sub(reader, length);
    head->id_offset = (uint64_t)(head->body.at - section->bytes);
    head->id = cfi_reader_fixed(&head->body, wide && !section->eh ? 8 : 4);
    head->cie = head->id == (section->eh ? 0 : wide ? UINT64_MAX : UINT32_MAX);
    return true;
}

/* The letters of a 'z' augmentation, in their order; an unknown one hides what follows it. */
static void read_augmentation(struct cfi_cie *cie, const char *letters, struct cfi_reader data)
{
    for (; *letters != '\0' && !data.failed; letters++) {
        if (*letters == 'R')
            cie->address_encoding = cfi_reader_u8(&data);
        else if (*letters == 'L')
            cfi_reader_u8(&data); /* where exception tables are: of no interest */
        else if (*letters == 'P')
            cfi_pointer_value(&data, cfi_reader_u8(&data));
        else if (*letters == 'S')
            cie->signal = true;
        else if (*letters != 'B' && *letters != 'G') /* B: addresses signed with key B; G: memory tagging */
            return;
    }
}

static bool read_cie_body(struct cfi_cie *cie, struct cfi_reader *body)
{
    uint8_t version = cfi_reader_u8(body);
    const char *letters = (const char *)body->at;
    while (cfi_reader_u8(body) != '\0')
        continue;
    if (body->failed || (version != 1 && version != 3 && version != 4))
        return false;
    if (strcmp(letters, "eh") == 0) /* gcc 2: a pointer nobody reads any more */
        cfi_reader_skip(body, 8);
    else if (letters[0] != '\0' && letters[0] != 'z')
        return false; /* without 'z' the size of what is unknown is unknown */
    if (version == 4) {
        uint8_t address_size = cfi_reader_u8(body), segment_size = cfi_reader_u8(body);
        if (address_size != 8 || segment_size != 0)
            return false;
    }
    cie->code_alignment = cfi_reader_uleb(body);
    cie->data_alignment = cfi_reader_sleb(body);
    cie->return_column = version == 1 ? cfi_reader_u8(body) : cfi_reader_uleb(body);
    cie->augmented = letters[0] == 'z';
    if (cie->augmented) {
        uint64_t size = cfi_reader_uleb(body);
        read_augmentation(cie, letters + 1, cfi_reader_sub(body, size));
    }
    cie->program = *body;
    return !body->failed;
}

static bool add_cie(struct cfi_entries *entries, struct head *head)
{
    if (!base_array_room(entries->cies, entries->cie_count, entries->cie_capacity) ||
        !base_map_set(&entries->cie_of_offset, head->offset, (uint32_t)entries->cie_count))
        return false;
    struct cfi_cie *cie = &entries->cies[entries->cie_count++];
    *cie = (struct cfi_cie){.address_encoding = CFI_POINTER_ABSOLUTE};
    cie->valid =
        read_cie_body(cie, &head->body) && cfi_program_initial(entries->arch, &entries->section, cie);
    return true;
}

bool cfi_entries_start(struct cfi_entries *entries, const struct arch *arch,
                       const struct cfi_section *section)
{
    *entries = (struct cfi_entries){.arch = arch, .section = *section, .last_offset = UINT64_MAX};
    entries->reader = (struct cfi_reader){section->bytes, section->bytes + section->size, false};
    struct cfi_reader reader = entries->reader;
    struct head head;
    while (read_head(&reader, section, &head))
        if (head.cie && !head.body.failed && !add_cie(entries, &head)) {
            cfi_entries_free(entries);
            return false;
        }
    return true;
}

void cfi_entries_free(struct cfi_entries *entries)
{
    free(entries->cies);
    base_map_free(&entries->cie_of_offset);
    entries->cies = NULL;
}

/* The number of the CIE that an FDE names; BASE_MAP_NONE when there is none. */
static uint32_t find_cie(struct cfi_entries *entries, const struct head *head)
{
    uint64_t offset = entries->section.eh ? head->id_offset - head->id : head->id;
    if (offset != entries->last_offset) {
        entries->last_cie = base_map_find(&entries->cie_of_offset, offset);
        entries->last_offset = offset;
    }
    return entries->last_cie;
}

static bool read_fde(struct cfi_entries *entries, struct head *head, struct cfi_fde *fde)
{
    struct cfi_reader *body = &head->body;
    fde->cie = body->failed ? BASE_MAP_NONE : find_cie(entries, head);
    if (fde->cie == BASE_MAP_NONE || !entries->cies[fde->cie].valid)
        return false;
    const struct cfi_cie *cie = &entries->cies[fde->cie];
    fde->start = cfi_pointer_read(body, &entries->section, cie->address_encoding);
    fde->end = fde->start + cfi_pointer_value(body, cie->address_encoding & CFI_POINTER_UNSIGNED);
    if (cie->augmented)
        cfi_reader_skip(body, cfi_reader_uleb(body));
    fde->program = *body;
    return !body->failed && fde->end > fde->start;
}

enum cfi_entry_kind cfi_entries_next(struct cfi_entries *entries, struct cfi_fde *fde)
{
    struct head head;
    do {
        if (!read_head(&entries->reader, &entries->section, &head))
            return CFI_ENTRY_END;
    } while (head.cie && !head.body.failed);
    return read_fde(entries, &head, fde) ? CFI_ENTRY_FDE : CFI_ENTRY_BROKEN;
}
