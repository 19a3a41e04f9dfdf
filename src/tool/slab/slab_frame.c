/* Frames of slabs. What lies in a slab was emitted by this module, so its code is decoded again instead of
 * being recorded: the counting parts are decoded from their first instruction on, adding up pushes and pops
 * (their branches go forward but for three, which return to a place of the same height); moved instructions
 * are moved once more, to see how long each has become. */
#include "slab_frame.h"
#include "base_search.h"
#include "code_instruction.h"
#include "stub_x86_64_move.h"

#define AHEAD_MOST 16   /* branches whose target is still to come */
#define CALL_OVER  0xe8 /* what a moved call begins with, and nothing else that was moved */

/* --- heights: words that the slab's code has pushed --- */

struct heights {
    unsigned now, count;
    struct {
        uint64_t address;
        unsigned height;
    } ahead[AHEAD_MOST];
};

static int pushed_by(const struct code_instruction *in)
{
    if (in->opcode_map != 0)
        return 0;
    return (in->opcode & 0xf8) == 0x50 ? 1 : (in->opcode & 0xf8) == 0x58 ? -1 : 0;
}

static bool note_branch(struct heights *heights, uint64_t target)
{
    if (heights->count == AHEAD_MOST)
        return false;
    heights->ahead[heights->count].address = target;
    heights->ahead[heights->count++].height = heights->now;
    return true;
}

/* After an instruction that does not go on: does a branch come here? */
static bool height_of_branch(struct heights *heights, uint64_t address)
{
    for (unsigned i = 0; i < heights->count; i++)
        if (heights->ahead[i].address == address) {
            heights->now = heights->ahead[i].height;
            return true;
        }
    return false;
}

/* The bytes from `address` on to the end of their region; NULL: in none. */
static const uint8_t *bytes_at(const struct slab *slab, uint64_t address, size_t *available)
{
    for (size_t i = 0; i < slab->region_count; i++) {
        const struct slab_region *region = &slab->regions[i];
        if (address - region->address < region->used) {
            *available = region->used - (size_t)(address - region->address);
            return region->bytes + (address - region->address);
        }
    }
    return NULL;
}

/* Goes on from `start` to `pc`; false: no instruction begins there. */
static bool track_heights(const struct slab *slab, uint64_t start, uint64_t pc, struct heights *heights)
{
    size_t available = 0;
    const uint8_t *bytes = bytes_at(slab, start, &available);
    uint64_t at = start;
    while (bytes != NULL && at < pc) {
        struct code_instruction in;
        size_t offset = (size_t)(at - start);
        if (offset >= available || !code_instruction_decode(bytes + offset, available - offset, at, &in))
            return false;
        heights->now += (unsigned)pushed_by(&in);
        at += in.length;
        if ((in.flow == CODE_BRANCH || in.flow == CODE_JUMP) && in.target >= at &&
            !note_branch(heights, in.target))
            return false;
        if (code_instruction_ends(&in) && !height_of_branch(heights, at))
            return false;
    }
    return bytes != NULL && at == pc;
}

/* The height at `pc` in the code that begins at `start`, with nothing pushed there; false: no instruction
 * begins there. */
static bool height_at(const struct slab *slab, uint64_t start, uint64_t pc, uint32_t *height)
{
    struct heights heights = {0};
    bool found = track_heights(slab, start, pc, &heights);
    *height = heights.now;
    return found;
}

/* The same in a hook's slow part, which is reached from its quick part, past the body. */
static bool slow_height_at(const struct slab *slab, uint32_t hook, uint64_t body, uint64_t pc,
                           uint32_t *height)
{
    struct heights heights = {0};
    bool found = track_heights(slab, slab->entries[hook], body, &heights) &&
                 height_of_branch(&heights, slab->hooks[hook].slow) &&
                 track_heights(slab, slab->hooks[hook].slow, pc, &heights);
    *height = heights.now;
    return found;
}

/* --- moved instructions --- */

struct moved {
    const uint8_t *old;
    unsigned length, count_to; /* bytes of `old`; those before `count_to` were moved */
    uint64_t from, to;         /* where the first one was, and where it lies now */
    unsigned pushed;           /* bytes, as stub_x86_64_move was given */
    uint64_t hole, hole_end;
};

/* Of a moved call (stub_x86_64_move.c): call over, a byte, lea rsp (6), push (11), jump (17). */
static bool inside_call(size_t offset, uint32_t *pushed)
{
    *pushed = offset == 6 || offset == 17;
    return offset == 0 || offset == 6 || offset == 11 || offset == 17;
}

/* Is the distance `offset` into one moved instruction's bytes a boundary, and how much has it pushed until
 * there? */
static bool inside_moved(const struct stub_x86_64_code *code, size_t offset, uint32_t *pushed)
{
    size_t at = 0;
    if (code->bytes[0] == CALL_OVER)
        return inside_call(offset, pushed);
    while (at < offset) {
        struct code_instruction in;
        if (!code_instruction_decode(code->bytes + at, code->size - at, code->address + at, &in))
            return false;
        at += in.length;
    }
    *pushed = 0;
    return at == offset;
}

/* 1: `pc` is in a moved instruction, *frame says which; 0: behind them all, at or after *behind; -1: at no
 * boundary. */
static int moved_at(const struct moved *moved, uint64_t pc, struct slab_frame *frame, uint64_t *behind)
{
    uint64_t to = moved->to;
    unsigned at = 0;
    while (at < moved->count_to) {
        struct stub_x86_64_code code;
        stub_x86_64_code_begin(&code, to);
        unsigned length = stub_x86_64_move(&code, &(struct stub_x86_64_move){.bytes = moved->old + at,
                                                                             .available = moved->length - at,
                                                                             .from = moved->from + at,
                                                                             .pushed = moved->pushed,
                                                                             .hole = moved->hole,
                                                                             .hole_end = moved->hole_end});
        if (length == 0)
            return -1;
        if (pc < to + code.size) {
            *frame = (struct slab_frame){.pc = moved->from + at, .kind = SLAB_FRAME_MOVED};
            if (!inside_moved(&code, (size_t)(pc - to), &frame->pushed))
                return -1;
            frame->pushed += moved->pushed / 8;
            return 1;
        }
        at += length;
        to += code.size;
    }
    *behind = to;
    return 0;
}

/* --- hooks --- */

/* At or behind `to`, where instructions of the hooked function were moved to. */
static bool body_frame(const struct slab *slab, uint32_t hook, uint64_t to, uint64_t pc,
                       struct slab_frame *frame)
{
    uint8_t bytes[20];
    uint64_t behind = 0;
    const struct plan_hook *planned = &slab->plan->hooks[hook];
    uint64_t from = planned->address + slab->bias, end = from + planned->length;
    slab_hook_bytes(slab, hook, bytes);
    struct moved moved = {bytes, planned->length, planned->length, from, to, 0, from + 1, end};
    int found = moved_at(&moved, pc, frame, &behind);
    if (found != 0)
        return found > 0;
    *frame = (struct slab_frame){.pc = end, .kind = SLAB_FRAME_MOVED, .own = true};
    return pc == behind;
}

static bool hook_frame(const struct slab *slab, uint32_t index, uint64_t pc, struct slab_frame *frame)
{
    const struct plan_hook *hook = &slab->plan->hooks[index];
    bool slow = pc >= slab->hooks[index].slow;
    bool moved = hook->kind != STUB_ENTRY_ENDBR;
    uint64_t body = moved ? slab->hooks[index].body : slab->hooks[index].slow - 5;
    if (moved && pc >= body && !slow)
        return body_frame(slab, index, body, pc, frame);
    *frame = (struct slab_frame){.pc = hook->address + slab->bias, .kind = SLAB_FRAME_ENTRY, .own = true};
    if (slow)
        return slow_height_at(slab, index, body, pc, &frame->pushed);
    return height_at(slab, slab->entries[index], pc, &frame->pushed);
}

/* --- stubs --- */

/* A function's address, where `address` may be the place in or behind its hook that direct calls go to. */
static uint64_t before_hook(const struct slab *slab, uint64_t address);

/* Where the direct stub at `start` jumps to; 0: it does not. */
static uint64_t end_of(const struct slab *slab, uint64_t start)
{
    size_t available = 0, at = 0;
    const uint8_t *bytes = bytes_at(slab, start, &available);
    struct code_instruction in;
    while (bytes != NULL && at < available &&
           code_instruction_decode(bytes + at, available - at, start + at, &in)) {
        if (in.flow == CODE_JUMP)
            return in.target;
        at += in.length;
    }
    return 0;
}

static uint64_t callee_of(const struct slab *slab, uint32_t site)
{
    const struct plan_site *planned = &slab->plan->sites[site];
    if (slab->inlined[site] != PLAN_NONE)
        return slab->plan->hooks[slab->inlined[site]].address + slab->bias;
    return planned->slot == 0 ? planned->target + slab->bias
                              : before_hook(slab, end_of(slab, slab->stubs[site]));
}

/* Where the callee's instructions begin in the stub: behind the increment. */
static uint64_t inlined_at(const struct slab *slab, uint32_t site)
{
    struct stub_x86_64_counter counter = slab->counter;
    struct stub_x86_64_code count;
    counter.index += plan_site_word(site);
    stub_x86_64_code_begin(&count, slab->stubs[site]);
    stub_x86_64_site_count(&count, &counter,
                           stub_x86_64_site_is_jump((enum stub_kind)slab->plan->sites[site].kind));
    return stub_x86_64_code_here(&count);
}

/* The length of the group's last instruction, which was not moved but made into a jump. */
static unsigned last_of_group(const struct stub_x86_64_request *site)
{
    unsigned at = 0;
    struct code_instruction in;
    while (code_instruction_decode(site->old + at, site->length - at, site->address + at, &in) &&
           at + in.length < site->length)
        at += in.length;
    return at;
}

/* Is a group's jump, which names its target, what comes next? */
static bool is_jump_at(const struct slab *slab, uint64_t pc)
{
    size_t available = 0;
    const uint8_t *bytes = bytes_at(slab, pc, &available);
    struct code_instruction in;
    return bytes != NULL && code_instruction_decode(bytes, available, pc, &in) && in.flow == CODE_JUMP;
}

static bool stub_frame(const struct slab *slab, uint32_t index, uint64_t pc, struct slab_frame *frame)
{
    struct stub_x86_64_request site = slab_site(slab, index);
    bool is_jump = stub_x86_64_site_is_jump(site.kind);
    uint64_t start = slab->stubs[index];
    unsigned last = 0;
    if (slab->inlined[index] != PLAN_NONE && pc > inlined_at(slab, index))
        return body_frame(slab, slab->inlined[index], inlined_at(slab, index), pc, frame);
    if (stub_x86_64_site_is_group(site.kind)) {
        last = last_of_group(&site);
        struct moved moved = {site.old, site.length,     last,         site.address,
                              start,    is_jump ? 0 : 8, site.address, site.address + site.length};
        int found = moved_at(&moved, pc, frame, &start);
        if (found != 0)
            return found > 0;
    }
    *frame = (struct slab_frame){.kind = is_jump ? SLAB_FRAME_MOVED : SLAB_FRAME_CALL,
                                 .pc = is_jump ? site.address + last : 0,
                                 .own = true};
    if (stub_x86_64_site_is_direct(site.kind) && (last == 0 || is_jump_at(slab, pc))) {
        frame->kind = SLAB_FRAME_ENTRY;
        frame->pc = callee_of(slab, index);
    }
    return height_at(slab, start, pc, &frame->pushed);
}

/* --- which of them --- */

/* The piece that begins last at or before `pc`; NULL: none. */
static const struct slab_piece *piece_at(const struct slab *slab, uint64_t pc)
{
    size_t count = base_search_up_to(slab->pieces, slab->piece_count, address, pc);
    return count > 0 ? &slab->pieces[count - 1] : NULL;
}

static uint64_t before_hook(const struct slab *slab, uint64_t address)
{
    const struct slab_piece *piece = piece_at(slab, address);
    uint32_t function = plan_function_at(slab->plan, address - slab->bias);
    uint32_t hook = function != PLAN_NONE ? slab->plan->functions[function].hook : PLAN_NONE;
    size_t available;
    if (piece != NULL && bytes_at(slab, address, &available) != NULL)
        hook = piece->hook;
    bool past = hook != PLAN_NONE && slab->entries[hook] != 0 && slab->hooks[hook].body == address;
    return past ? slab->plan->hooks[hook].address + slab->bias : address;
}

static bool hook_island_frame(const struct slab *slab, uint32_t index, uint64_t pc, struct slab_frame *frame)
{
    const struct plan_hook *hook = &slab->plan->hooks[index];
    *frame = (struct slab_frame){.kind = SLAB_FRAME_ENTRY, .pc = hook->address + slab->bias, .own = true};
    return hook->kind == STUB_ENTRY_SHORT && plan_hook_island(hook) + slab->bias == pc;
}

/* The jump that was written into padding for a two-byte one. */
static bool island_frame(const struct slab *slab, uint64_t pc, struct slab_frame *frame)
{
    size_t at = base_search_below(slab->writes, slab->write_count, address, pc);
    if (at == slab->write_count || slab->writes[at].address != pc)
        return false;
    if (slab->writes[at].site == PLAN_NONE)
        return hook_island_frame(slab, slab->writes[at].hook, pc, frame);
    uint32_t site = slab->writes[at].site;
    if (slab->plan->sites[site].island == 0 || slab->plan->sites[site].island + slab->bias != pc)
        return false;
    const struct plan_site *planned = &slab->plan->sites[site];
    *frame =
        stub_x86_64_site_is_direct((enum stub_kind)planned->kind)
            ? (struct slab_frame){.kind = SLAB_FRAME_ENTRY, .pc = callee_of(slab, site), .own = true}
            : (struct slab_frame){.kind = SLAB_FRAME_MOVED, .pc = planned->address + slab->bias, .own = true};
    return true;
}

bool slab_frame(const struct slab *slab, uint64_t pc, struct slab_frame *frame)
{
    size_t available;
    if (bytes_at(slab, pc, &available) == NULL)
        return island_frame(slab, pc, frame);
    const struct slab_piece *piece = piece_at(slab, pc);
    if (piece == NULL || bytes_at(slab, piece->address, &available) == NULL)
        return false;
    if (piece->site != PLAN_NONE)
        return stub_frame(slab, piece->site, pc, frame);
    if (piece->hook != PLAN_NONE)
        return hook_frame(slab, piece->hook, pc, frame);
    *frame = (struct slab_frame){.kind = SLAB_FRAME_RECORDER, .own = true};
    return height_at(slab, piece->address, pc, &frame->pushed);
}
