/* Descriptors: which numbers are open, and by which stack each was opened.
 *
 * A table with one word for each number (wire_agent_descriptor.h), in the region that the process's threads
 * share as they share their descriptors.
 *
 * Opening. Many of these functions are points where a thread may be cancelled, and so unwound: nothing of the
 * agent may lie on the stack while they wait. So their return address is replaced (agent_call_function.c),
 * and what they return is written down when they come back: first the kernel gives the number, then the table
 * has it. Where one such function calls another (creat, open) both come back with one number: the inner one
 * has it, which the outer one knows by the number of its event being later than its own beginning.
 *
 * Closing. The number is taken out before the system call, and the function is jumped to: from the call on
 * another thread may be given the number. Linux frees it even where close fails, with EINTR or EIO. A close
 * that is cancelled before it began, or a kernel without close_range, leaves a number open that is in no
 * table: tally finds it at the end, as any that was opened by a bare system call. dup2 to a number that is
 * open replaces its word, as it does its file.
 *
 * Whose table it is. A child of vfork runs in its parent's memory, but with descriptors of its own: it is
 * known by its process number, and changes nothing. A child of fork begins with a copy: before each fork what
 * is open is noted (the part `forked`), since what the parent closes right after it stays open in the child.
 * Those count as inherited, not as opened. What was open before the agent came tally writes into the
 * table. */
#include "agent_call_descriptor.h"

#include <sys/syscall.h>

#include "agent_call_await.h"
#include "agent_cell.h"
#include "agent_may.h"
#include "agent_memory.h"
#include "agent_pending.h"
#include "agent_readable.h"
#include "agent_stack.h"
#include "wire_agent_descriptor.h"
#include "wire_agent_entry.h"

#define FCNTL_DUP         0
#define FCNTL_DUP_CLOEXEC 1030
#define RANGE_UNSHARE     2
#define RANGE_CLOEXEC     4
#define SOCKET_LEVEL      1                   /* SOL_SOCKET */
#define RIGHTS            1                   /* SCM_RIGHTS */
#define CONTROLS_MOST     64                  /* parts of a message's control data */
#define MESSAGES_MOST     1024                /* of one recvmmsg: the kernel's own limit */
#define READ_MOST         (UINT64_C(1) << 20) /* bytes: no control data are longer */
#define PAGE              UINT64_C(4096)

struct message { /* struct msghdr */
    uint64_t name, name_size, parts, part_count, control, control_size, flags;
};
struct messages { /* struct mmsghdr */
    struct message message;
    uint64_t received;
};
struct control { /* struct cmsghdr */
    uint64_t size;
    int32_t level, type;
    int32_t data[];
};

/* NULL: there is no room for the number. */
static struct wire_agent_descriptor *descriptor_at(uint32_t number)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    struct wire_agent_descriptor *all = agent_part(layout.descriptors);
    uint64_t end = layout.descriptors - layout.forked + (number + UINT64_C(1)) * sizeof *all;
    return number < WIRE_AGENT_DESCRIPTORS && agent_memory_has(WIRE_AGENT_PART_DESCRIPTORS, end)
               ? all + number
               : NULL;
}

/* Not a child of vfork, whose descriptors are others. */
static bool is_own_process(void)
{
    uint32_t pid = agent_process()->pid_inside;
    return pid == 0 || !agent_may(WIRE_AGENT_CALL_GETPID) ||
           pid == (uint32_t)arch_host_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* The function's arguments: agent_call_x86_64_return.S saves them below the frame. */
static uint64_t saved_argument(const struct agent_frame *frame, unsigned number)
{
    return ((const uint64_t *)frame)[-3 - (int)number];
}

/* --- what is open --- */

static void note_open(struct agent_thread *thread, const struct wire_agent_pending *call, uint32_t number)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_descriptor *it = descriptor_at(number);
    if (it == NULL) {
        agent_lose(WIRE_AGENT_LOSS_NO_RESULT);
        return;
    }
    uint64_t word = __atomic_load_n(&it->word, __ATOMIC_RELAXED);
    if (wire_agent_word_cell(word) != 0 && wire_agent_word_is_after(word, (uint32_t)call->start))
        return;
    uint32_t event = __atomic_add_fetch(&process->descriptor_events, 1, __ATOMIC_RELAXED);
    agent_cell_count(thread, call->cell);
    it->since_ns = agent_control()->now_ns;
    __atomic_store_n(&it->word, WIRE_AGENT_WORD(call->cell, call->how, event), __ATOMIC_RELEASE);
    uint32_t end = __atomic_load_n(&process->descriptor_end, __ATOMIC_RELAXED);
    while (end <= number && !__atomic_compare_exchange_n(&process->descriptor_end, &end, number + 1, false,
                                                         __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

static bool is_open(uint32_t number)
{
    struct wire_agent_descriptor *it =
        number < agent_process()->descriptor_end ? descriptor_at(number) : NULL;
    return it != NULL && __atomic_load_n(&it->word, __ATOMIC_RELAXED) != 0;
}

/* Of one that is open. */
static void note_closed(uint32_t number)
{
    struct wire_agent_descriptor *it = descriptor_at(number);
    if (it != NULL)
        __atomic_store_n(&it->word, 0, __ATOMIC_RELEASE);
}

/* --- opening --- */

/* Nothing is in the first page, and the call that tries says nothing of address 0. */
static bool can_read(uint64_t address, uint64_t size)
{
    if (address < PAGE || size > READ_MOST || address + size < address)
        return false;
    for (uint64_t at = address; at < address + size; at = (at & ~(PAGE - 1)) + PAGE)
        if (!agent_readable(at))
            return false;
    return true;
}

static bool has_room_for_rights(const struct message *message)
{
    return message->control != 0 && message->control_size >= sizeof(struct control) + sizeof(int32_t);
}

static const struct messages *messages_at(uint64_t address, uint32_t *count)
{
    *count = *count < MESSAGES_MOST ? *count : MESSAGES_MOST;
    return can_read(address, *count * sizeof(struct messages)) ? (const void *)address : NULL;
}

/* May the message that is received bring descriptors? */
static bool may_bring(uint64_t address)
{
    return can_read(address, sizeof(struct message)) && has_room_for_rights((const void *)address);
}

/* ... or any of several? */
static bool may_any_bring(uint64_t address, uint32_t count)
{
    const struct messages *messages = messages_at(address, &count);
    for (uint32_t i = 0; messages != NULL && i < count; i++)
        if (has_room_for_rights(&messages[i].message))
            return true;
    return false;
}

/* 0: the call opens nothing. */
static uint32_t how_of_call(const struct agent_frame *frame)
{
    uint32_t how = wire_agent_cookie_family(frame->hook->cookie), second = (uint32_t)saved_argument(frame, 1);
    switch (how) {
    case WIRE_AGENT_FCNTL:
        return second == FCNTL_DUP || second == FCNTL_DUP_CLOEXEC ? WIRE_AGENT_DUPLICATED : 0;
    case WIRE_AGENT_DUPLICATED_TO:
        return (uint32_t)saved_argument(frame, 0) != second ? how : 0;
    case WIRE_AGENT_SIGNAL: /* else it changes one that is open */
        return (uint32_t)saved_argument(frame, 0) == UINT32_MAX ? how : 0;
    case WIRE_AGENT_RECEIVED:
        return may_bring(saved_argument(frame, 1)) ? how : 0;
    case WIRE_AGENT_RECEIVED_MANY:
        return may_any_bring(saved_argument(frame, 1), (uint32_t)saved_argument(frame, 2)) ? how : 0;
    default:
        return how;
    }
}

/* Which argument says where the call writes its descriptors, if they are not its result. */
static unsigned result_argument(uint32_t how)
{
    return how == WIRE_AGENT_SOCKETPAIR                                    ? 3
           : how == WIRE_AGENT_RECEIVED || how == WIRE_AGENT_RECEIVED_MANY ? 1
                                                                           : 0;
}

static uint64_t await_descriptor(struct agent_thread *thread, const struct agent_frame *frame, uint32_t how)
{
    bool seen = false;
    uint64_t block = 0;
    const struct wire_agent_pending call = {
        .start = __atomic_load_n(&agent_process()->descriptor_events, __ATOMIC_RELAXED),
        .inner = saved_argument(frame, result_argument(how)),
        .cell = agent_stack_cell(thread, frame, WIRE_AGENT_FDS),
        .how = how};
    if (call.cell != 0)
        block = agent_call_await(thread, frame, &call, &seen);
    if (!seen)
        agent_lose(WIRE_AGENT_LOSS_NO_RESULT);
    return block;
}

uint64_t agent_wrap_descriptor(const struct agent_frame *frame);

uint64_t agent_wrap_descriptor(const struct agent_frame *frame)
{
    uint32_t how = how_of_call(frame);
    if (how == 0 || !agent_process_is_counted() || !is_own_process())
        return 0;
    if (frame->thread == 0) { /* a static program's start */
        agent_lose(WIRE_AGENT_LOSS_NO_RESULT);
        return 0;
    }
    struct agent_thread *thread = agent_thread_enter(frame);
    if (thread == NULL)
        return 0;
    agent_pending_pause(thread);
    uint64_t block = await_descriptor(thread, frame, how);
    agent_pending_resume(thread);
    agent_thread_leave(thread);
    return block;
}

/* All of a message's control data that bring descriptors. */
static void note_rights(struct agent_thread *thread, const struct wire_agent_pending *call,
                        const struct message *message)
{
    if (!has_room_for_rights(message) || !can_read(message->control, message->control_size))
        return;
    uint64_t at = 0, end = message->control_size;
    for (unsigned i = 0; i < CONTROLS_MOST && at < end && end - at >= sizeof(struct control); i++) {
        const struct control *control = (const void *)(message->control + at);
        uint64_t size = control->size;
        if (size < sizeof *control || size > end - at)
            return;
        if (control->level == SOCKET_LEVEL && control->type == RIGHTS)
            for (uint64_t k = 0; k < (size - sizeof *control) / sizeof *control->data; k++)
                note_open(thread, call, (uint32_t)control->data[k]);
        at += (size + 7) & ~UINT64_C(7);
    }
}

static void note_received(struct agent_thread *thread, const struct wire_agent_pending *call)
{
    if (can_read(call->inner, sizeof(struct message)))
        note_rights(thread, call, (const void *)call->inner);
}

static void note_received_many(struct agent_thread *thread, const struct wire_agent_pending *call,
                               uint32_t count)
{
    const struct messages *messages = messages_at(call->inner, &count);
    for (uint32_t i = 0; messages != NULL && i < count; i++)
        note_rights(thread, call, &messages[i].message);
}

static void note_pair(struct agent_thread *thread, const struct wire_agent_pending *call)
{
    const int32_t *pair = (const void *)call->inner;
    if (!can_read(call->inner, 2 * sizeof *pair))
        return;
    note_open(thread, call, (uint32_t)pair[0]);
    note_open(thread, call, (uint32_t)pair[1]);
}

void agent_call_descriptor_returned(struct agent_thread *thread, const struct wire_agent_pending *call,
                                    uint64_t result)
{
    if ((int32_t)result < 0 || !is_own_process())
        return;
    if (call->how == WIRE_AGENT_RECEIVED)
        note_received(thread, call);
    else if (call->how == WIRE_AGENT_RECEIVED_MANY)
        note_received_many(thread, call, (uint32_t)result);
    else if (call->how == WIRE_AGENT_PIPE || call->how == WIRE_AGENT_SOCKETPAIR)
        note_pair(thread, call);
    else
        note_open(thread, call, (uint32_t)result);
}

/* --- closing; always 0: the body is jumped to --- */

uint64_t agent_wrap_close(const struct agent_frame *frame, uint64_t number);
uint64_t agent_wrap_close_range(const struct agent_frame *frame, uint64_t first, uint64_t last,
                                uint64_t flags);
uint64_t agent_wrap_fork(const struct agent_frame *frame);

uint64_t agent_wrap_close(const struct agent_frame *frame, uint64_t number)
{
    (void)frame;
    if (agent_process_is_counted() && is_open((uint32_t)number) && is_own_process())
        note_closed((uint32_t)number);
    return 0;
}

uint64_t agent_wrap_close_range(const struct agent_frame *frame, uint64_t first, uint64_t last,
                                uint64_t flags)
{
    (void)frame;
    uint32_t from = (uint32_t)first, to = (uint32_t)last;
    if ((flags & ~(uint64_t)RANGE_UNSHARE) != 0 || !agent_process_is_counted() || !is_own_process())
        return 0; /* it marks them only, or fails */
    for (uint32_t number = from; number <= to && number < agent_process()->descriptor_end; number++)
        if (is_open(number))
            note_closed(number);
    return 0;
}

/* --- forks --- */

/* Two threads that fork at once write nearly the same; a bit too many harms nobody. */
uint64_t agent_wrap_fork(const struct agent_frame *frame)
{
    (void)frame;
    if (!agent_process_is_counted() || !is_own_process())
        return 0;
    struct wire_agent_process *process = agent_process();
    uint8_t *forked = agent_part(wire_agent_layout(agent_control()->memory).forked);
    uint32_t end =
        process->descriptor_end < WIRE_AGENT_DESCRIPTORS ? process->descriptor_end : WIRE_AGENT_DESCRIPTORS;
    for (uint32_t at = 0; at < end; at += 8) {
        uint8_t bits = 0;
        for (uint32_t bit = 0; bit < 8; bit++)
            bits |= (uint8_t)(is_open(at + bit) << bit);
        forked[at / 8] = bits;
    }
    process->forked_end = end;
    return 0;
}

uint64_t agent_call_descriptor_mapped(void)
{
    uint32_t end = agent_process()->descriptor_end;
    if (end != 0)
        descriptor_at(end - 1);
    return agent_parameters.mapped[WIRE_AGENT_PART_DESCRIPTORS];
}

void agent_call_descriptor_inherit(struct wire_agent_process *child, const struct wire_agent_process *parent,
                                   const void *descriptors)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    const uint8_t *forked = descriptors; /* the part begins with it */
    uint64_t before = layout.descriptors - layout.forked;
    uint64_t mapped = agent_parameters.mapped[WIRE_AGENT_PART_DESCRIPTORS];
    if (descriptors == NULL)
        return;
    const struct wire_agent_descriptor *from = (const void *)(forked + before);
    struct wire_agent_descriptor *to = agent_part(layout.descriptors);
    uint32_t end = parent->descriptor_end, most = (uint32_t)((mapped - before) / sizeof *to);
    end = end < most ? end : most; /* as many as both have mapped */
    for (uint32_t i = 0; i < end; i++)
        if (from[i].word != 0 || (i < parent->forked_end && (forked[i / 8] >> i % 8 & 1) != 0))
            to[i].word = WIRE_AGENT_WORD(0, WIRE_AGENT_INHERITED, 0);
    child->descriptor_end = end;
}
