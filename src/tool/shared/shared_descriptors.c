#include "shared_descriptors.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "proc_sockets.h"
#include "shared_proc.h"
#include "wire_loss.h"

enum {
    NAME_MOST = 4096 + 32,
    KIND_MOST = 32,
    OTHERS_MOST =
        /* rows of what was open before, or inherited: they serve to distinguish them from the rest */
    10000,
    REST_NS = 2000000, /* for a call that has its descriptor, and has not published it yet */
};

struct shared_descriptors_known {
    uint64_t word;       /* what follows is of it */
    uint32_t kind, name; /* strings of the profile */
    bool named, open;    /* open: when it was compared */
};

struct shared_descriptors_row {
    uint32_t number, row, thread;
};

#define OUR_MEMORY "/memfd:tally-agent"

int shared_descriptors_init(struct shared_descriptors *descriptors, struct profile *profile,
                            struct base_error *error)
{
    *descriptors = (struct shared_descriptors){.profile = profile};
    descriptors->used = (uint16_t)profile_counter(profile, "fd.used", "descriptors", true, PROFILE_SUM);
    descriptors->live = (uint16_t)profile_counter(profile, "fd.live", "descriptors", true, PROFILE_LIVE);
    return descriptors->used && descriptors->live ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

void shared_descriptors_published_free(struct shared_descriptors_published *published)
{
    free(published->known);
    free(published->used);
    free(published->live);
    free(published->rows);
    *published = (struct shared_descriptors_published){0};
}

/* --- the table --- */

static struct wire_agent_descriptor *table_of(const struct shared_descriptors_place *place)
{
    return (void *)(place->file->bytes + shared_file_region(place->file, place->region) +
                    place->file->layout.descriptors);
}

static uint32_t end_of(const struct shared_descriptors_place *place)
{
    uint32_t end =
        __atomic_load_n(&shared_file_process(place->file, place->region)->descriptor_end, __ATOMIC_ACQUIRE);
    return end < WIRE_AGENT_DESCRIPTORS ? end : WIRE_AGENT_DESCRIPTORS;
}

static uint64_t word_of(const struct shared_descriptors_place *place, uint32_t number)
{
    return number < end_of(place) ? __atomic_load_n(&table_of(place)[number].word, __ATOMIC_ACQUIRE) : 0;
}

static bool room_for(struct shared_descriptors_published *published, size_t count)
{
    if (count <= published->known_count)
        return true;
    count = count < 2 * published->known_count ? 2 * published->known_count : count;
    return base_array_extend(published->known, published->known_count, count);
}

/* --- what is open at the start --- */

static DIR *open_list(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return opendir(path);
}

/* The next number of a list; false at its end. */
static bool next_number(DIR *list, uint32_t *number)
{
    const struct dirent *entry;
    while ((entry = readdir(list))) {
        char *end;
        unsigned long value = strtoul(entry->d_name, &end, 10);
        if (*end || end == entry->d_name || value >= WIRE_AGENT_DESCRIPTORS)
            continue;
        *number = (uint32_t)value;
        return true;
    }
    return false;
}

static bool read_link(pid_t pid, uint32_t number, char *link, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%u", (int)pid, number);
    ssize_t length = readlink(path, link, size - 1);
    link[length > 0 ? length : 0] = '\0';
    return length > 0;
}

void shared_descriptors_begin(const struct shared_descriptors_place *place)
{
    struct wire_agent_process *process = shared_file_process(place->file, place->region);
    DIR *list = open_list(place->pid);
    uint32_t number;
    char link[NAME_MOST];
    process->pid_inside = (uint32_t)shared_proc_inside(place->pid, place->pid);
    while (list && next_number(list, &number)) {
        if (!read_link(place->pid, number, link, sizeof link) ||
            !strncmp(link, OUR_MEMORY, strlen(OUR_MEMORY)))
            continue;
        table_of(place)[number].word = WIRE_AGENT_WORD(0, WIRE_AGENT_BEFORE, 0);
        if (number >= process->descriptor_end)
            process->descriptor_end = number + 1;
    }
    if (list)
        closedir(list);
}

/* --- names --- */

/* "anon_inode:[eventpoll]", "anon_inode:inotify" */
static const char *anonymous_kind(const char *what, char *name, size_t size)
{
    static const char *const kinds[][2] = {{"eventpoll", "epoll"}, {"perf_event", "perf event"}};
    size_t length = strcspn(what + (*what == '['), "]");
    snprintf(name, size, "%.*s", (int)(length < KIND_MOST ? length : KIND_MOST), what + (*what == '['));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i][0])) {
            *name = '\0';
            return kinds[i][1];
        }
    return NULL;
}

const char *shared_descriptors_kind(const char *link, char *name, size_t size, uint64_t *inode)
{
    *inode = 0;
    *name = '\0';
    if (!strncmp(link, "anon_inode:", 11))
        return anonymous_kind(link + 11, name, size);
    if (!strncmp(link, "socket:[", 8)) {
        *inode = strtoull(link + 8, NULL, 10);
        return "socket";
    }
    if (!strncmp(link, "pipe:[", 6))
        return "pipe";
    bool memory = !strncmp(link, "/memfd:", 7);
    snprintf(name, size, "%s", link + (memory ? 7 : 0));
    return memory ? "memfd" : !strncmp(link, "/dev/", 5) ? "device" : "file";
}

struct looking {
    const struct shared_descriptors *descriptors;
    const struct shared_descriptors_place *place;
    struct shared_descriptors_published *published;
    struct proc_sockets sockets;
    bool sockets_read;
};

static const struct proc_socket *socket_of(struct looking *looking, uint64_t inode)
{
    if (!looking->sockets_read)
        proc_sockets_read(&looking->sockets, looking->place->pid);
    looking->sockets_read = true;
    return proc_sockets_find(&looking->sockets, inode);
}

/* False: it is not open any more, or changed meanwhile. */
static bool name_one(struct looking *looking, uint32_t number)
{
    struct shared_descriptors_known *known = &looking->published->known[number];
    struct profile *profile = looking->descriptors->profile;
    char link[NAME_MOST], name[NAME_MOST];
    uint64_t inode, word = word_of(looking->place, number);
    if (!read_link(looking->place->pid, number, link, sizeof link) || word_of(looking->place, number) != word)
        return false;
    const char *kind = shared_descriptors_kind(link, name, sizeof name, &inode);
    const struct proc_socket *socket = inode ? socket_of(looking, inode) : NULL;
    known->word = word;
    known->kind = profile_string(profile, socket ? socket->kind : kind ? kind : name);
    known->name = profile_string(profile, socket ? socket->name : kind ? name : "");
    known->named = true;
    return true;
}

static void name_the_nameless(struct looking *looking)
{
    uint32_t end = end_of(looking->place);
    for (uint32_t i = 0; i < end && room_for(looking->published, end); i++) {
        const struct shared_descriptors_known *known = &looking->published->known[i];
        uint64_t word = word_of(looking->place, i);
        if (wire_agent_word_cell(word) && (known->word != word || !known->named))
            name_one(looking, i);
    }
}

/* --- comparing --- */

/* Open, and in no table: perhaps its opening has not been published yet. Then it is looked at once more. */
static bool is_unseen(const struct shared_descriptors_known *known)
{
    return known->open && !known->word;
}

/* Files are closed after memory is gone, of each thread: while the first one has a program, its list is all
 * there is. Of a process that ends meanwhile, or whose first thread has ended, it is not. */
static bool has_program(pid_t pid)
{
    char path[64], name[8];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return readlink(path, name, sizeof name) > 0;
}

static void compare_open(struct looking *looking)
{
    DIR *list = open_list(looking->place->pid);
    uint32_t number;
    bool unseen = false;
    if (!list || !room_for(looking->published, end_of(looking->place)))
        goto out;
    for (uint32_t i = 0; i < looking->published->known_count; i++) {
        struct shared_descriptors_known *known = &looking->published->known[i];
        uint64_t word = word_of(looking->place, i);
        known->named &= known->word == word;
        known->word = word;
        known->open = false;
    }
    while (next_number(list, &number) && room_for(looking->published, number + 1)) {
        looking->published->known[number].open = name_one(looking, number);
        unseen |= is_unseen(&looking->published->known[number]);
    }
    if (unseen)
        base_clock_sleep(REST_NS);
    for (uint32_t i = 0; unseen && i < looking->published->known_count; i++)
        if (is_unseen(&looking->published->known[i]))
            looking->published->known[i].open = name_one(looking, i);
    looking->published->compared = has_program(looking->place->pid);
out:
    if (list)
        closedir(list);
}

void shared_descriptors_look(const struct shared_descriptors *descriptors,
                             const struct shared_descriptors_place *place,
                             struct shared_descriptors_published *published,
                             enum shared_descriptors_look which)
{
    struct looking looking = {.descriptors = descriptors, .place = place, .published = published};
    if (!descriptors->used)
        return;
    if (which == SHARED_DESCRIPTORS_NAMES)
        name_the_nameless(&looking);
    else
        compare_open(&looking);
    published->by_exec = which == SHARED_DESCRIPTORS_EXECED;
    proc_sockets_free(&looking.sockets);
}

/* --- publication --- */

struct publication {
    struct shared_descriptors *descriptors;
    const struct shared_descriptors_place *place;
    struct shared_nodes *nodes;
    struct shared_descriptors_published *published;
    const struct shared_descriptors_whose *whose;
    int64_t *live; /* by cell */
    uint64_t closed, unseen;
};

/* What was seen of the number when it was compared, if it is still the same. */
static const struct shared_descriptors_known *seen_descriptor(const struct publication *publication,
                                                              uint32_t number, uint64_t word)
{
    const struct shared_descriptors_published *published = publication->published;
    return number < published->known_count && published->known[number].word == word
               ? &published->known[number]
               : NULL;
}

/* Is it in the table, but was not open? */
static bool is_gone(const struct publication *publication, uint32_t number, uint64_t word)
{
    const struct shared_descriptors_published *published = publication->published;
    if (!published->compared || !publication->whose->final)
        return false;
    if (published->by_exec) /* nothing changes any more: the table is the old program's */
        return number >= published->known_count || !published->known[number].open;
    const struct shared_descriptors_known *known = seen_descriptor(publication, number, word);
    return known && !known->open;
}

static const char *kind_of(uint32_t how)
{
    static const char *const kinds[WIRE_AGENT_HOWS] = {
        [WIRE_AGENT_OPENED] = "file",     [WIRE_AGENT_SOCKET] = "socket",  [WIRE_AGENT_SOCKETPAIR] = "unix",
        [WIRE_AGENT_ACCEPTED] = "socket", [WIRE_AGENT_PIPE] = "pipe",      [WIRE_AGENT_EVENT] = "eventfd",
        [WIRE_AGENT_TIMER] = "timerfd",   [WIRE_AGENT_EPOLL] = "epoll",    [WIRE_AGENT_SIGNAL] = "signalfd",
        [WIRE_AGENT_MEMORY] = "memfd",    [WIRE_AGENT_NOTIFY] = "inotify", [WIRE_AGENT_PIDFD] = "pidfd"};
    return how < WIRE_AGENT_HOWS && kinds[how] ? kinds[how] : "";
}

static struct profile_descriptor describe_descriptor(const struct publication *publication, uint32_t number,
                                                     uint64_t word)
{
    const struct shared_descriptors_known *known = seen_descriptor(publication, number, word);
    struct profile *profile = publication->descriptors->profile;
    bool named = known && known->named;
    return (struct profile_descriptor){
        .process = publication->whose->process,
        .number = number,
        .kind = named ? known->kind : profile_string(profile, kind_of(wire_agent_word_how(word))),
        .name = named ? known->name : 0};
}

static bool is_carried(const struct shared_descriptors_published *published, uint32_t number)
{
    for (size_t i = 0; i < published->row_count; i++)
        if (published->rows[i].number == number)
            return true;
    return false;
}

static void keep_row(struct publication *publication, uint32_t number, uint32_t row)
{
    struct shared_descriptors_published *published = publication->published;
    if (row && published->by_exec &&
        base_array_room(published->rows, published->row_count, published->row_capacity))
        published->rows[published->row_count++] =
            (struct shared_descriptors_row){number, row, publication->whose->thread};
}

static void publish_opened(struct publication *publication, uint32_t number, uint64_t word)
{
    const struct shared_tree *tree = publication->nodes->tree;
    struct profile *profile = publication->descriptors->profile;
    struct profile_descriptor it = describe_descriptor(publication, number, word);
    uint64_t since = table_of(publication->place)[number].since_ns, now = publication->whose->now_ns;
    it.node =
        shared_nodes_find(publication->nodes, tree->cells[wire_agent_word_cell(word)].node, WIRE_AGENT_FDS);
    it.origin = PROFILE_DESCRIPTOR_OPENED;
    it.opened_ns = since < now ? since : now;
    it.age_ns = now - it.opened_ns;
    keep_row(publication, number, profile_add_descriptor(profile, &it));
}

static void publish_other(struct publication *publication, uint32_t number, uint64_t word)
{
    static const uint32_t origins[WIRE_AGENT_HOWS] = {
        PROFILE_DESCRIPTOR_UNSEEN, [WIRE_AGENT_BEFORE] = PROFILE_DESCRIPTOR_BEFORE,
        [WIRE_AGENT_INHERITED] = PROFILE_DESCRIPTOR_INHERITED};
    struct shared_descriptors *descriptors = publication->descriptors;
    const struct shared_descriptors_known *known = seen_descriptor(publication, number, word);
    uint32_t how = wire_agent_word_how(word);
    struct profile_descriptor it = describe_descriptor(publication, number, word);
    if (!known || !known->open || !publication->published->compared ||
        is_carried(publication->published, number))
        return;
    it.origin = how < WIRE_AGENT_HOWS ? origins[how] : 0;
    publication->unseen += it.origin == PROFILE_DESCRIPTOR_UNSEEN;
    if (it.origin != PROFILE_DESCRIPTOR_UNSEEN && publication->published->by_exec)
        return; /* the new program has it */
    if (it.origin && descriptors->others < OTHERS_MOST)
        descriptors->others += profile_add_descriptor(descriptors->profile, &it) != 0;
}

/* What an earlier program of the process left open: closed meanwhile, or older now. */
static void publish_carried(struct publication *publication)
{
    struct profile *profile = publication->descriptors->profile;
    struct shared_descriptors_published *published = publication->published;
    size_t kept = 0;
    for (size_t i = 0; i < published->row_count; i++) {
        struct shared_descriptors_row row = published->rows[i];
        struct profile_descriptor it = profile->descriptors[row.row];
        uint64_t word = word_of(publication->place, row.number);
        bool open =
            word == WIRE_AGENT_WORD(0, WIRE_AGENT_BEFORE, 0) && !is_gone(publication, row.number, word);
        it.origin = open ? it.origin : 0;
        it.age_ns = publication->whose->now_ns > it.opened_ns ? publication->whose->now_ns - it.opened_ns : 0;
        it.process = publication->whose->process;
        profile_set_descriptor(profile, row.row, &it);
        if (open)
            published->rows[kept++] = row;
        else
            profile_count(
                profile,
                (struct profile_key){it.node, row.thread, PROFILE_NO_CPU, publication->descriptors->live}, -1,
                0);
    }
    published->row_count = kept;
}

static void publish_rows(struct publication *publication)
{
    uint32_t end = end_of(publication->place);
    size_t known = publication->published->known_count;
    publish_carried(publication);
    for (uint32_t i = 0; i < (known > end ? known : end); i++) {
        uint64_t word = word_of(publication->place, i);
        uint32_t cell = wire_agent_word_cell(word);
        if (!cell)
            publish_other(publication, i, word);
        else if (cell <= publication->nodes->tree->cell_count && !is_gone(publication, i, word))
            publish_opened(publication, i, word);
    }
    profile_lose(publication->descriptors->profile, WIRE_LOSS_DESCRIPTOR_UNSEEN, publication->unseen);
    profile_lose(publication->descriptors->profile, WIRE_LOSS_DESCRIPTOR_CLOSED, publication->closed);
}

static void count_live_descriptors(struct publication *publication)
{
    uint32_t end = end_of(publication->place);
    for (uint32_t i = 0; i < end; i++) {
        uint64_t word = word_of(publication->place, i);
        uint32_t cell = wire_agent_word_cell(word);
        if (!cell || cell > publication->nodes->tree->cell_count)
            continue;
        if (!is_gone(publication, i, word))
            publication->live[cell]++;
        else
            publication->closed += !publication->published->by_exec;
    }
}

static void publish_cells(struct publication *publication)
{
    const struct shared_descriptors *descriptors = publication->descriptors;
    const struct shared_tree *tree = publication->nodes->tree;
    struct shared_descriptors_published *published = publication->published;
    for (uint32_t i = 1; i <= tree->cell_count; i++) {
        int64_t used = shared_tree_figure(tree->cells[i].count);
        int64_t more = used - published->used[i], longer = publication->live[i] - published->live[i];
        if (!more && !longer)
            continue;
        uint32_t node = shared_nodes_find(publication->nodes, tree->cells[i].node, WIRE_AGENT_FDS);
        published->used[i] = used;
        published->live[i] = publication->live[i];
        if (node && more)
            profile_count(
                descriptors->profile,
                (struct profile_key){node, publication->whose->thread, PROFILE_NO_CPU, descriptors->used},
                more, more > 0 ? (uint64_t)more : 0);
        if (node && longer)
            profile_count(
                descriptors->profile,
                (struct profile_key){node, publication->whose->thread, PROFILE_NO_CPU, descriptors->live},
                longer, longer > 0 ? (uint64_t)longer : 0);
    }
}

static bool make_room(struct publication *publication)
{
    struct shared_descriptors_published *published = publication->published;
    size_t cells = (size_t)publication->nodes->tree->cell_count + 1;
    size_t used_count = published->cell_count;
    if (!base_array_extend(published->used, used_count, cells) ||
        !base_array_extend(published->live, published->cell_count, cells))
        return false;
    publication->live = calloc(cells, sizeof *publication->live);
    return publication->live && shared_nodes_begin(publication->nodes);
}

int shared_descriptors_publish(struct shared_descriptors *descriptors,
                               const struct shared_descriptors_place *place, struct shared_nodes *nodes,
                               struct shared_descriptors_published *published,
                               const struct shared_descriptors_whose *whose, struct base_error *error)
{
    struct publication publication = {descriptors, place, nodes, published, whose, NULL, 0, 0};
    if (!descriptors->used)
        return BASE_OK;
    bool room = make_room(&publication);
    if (room) {
        count_live_descriptors(&publication);
        publish_cells(&publication);
        if (whose->final)
            publish_rows(&publication);
    }
    shared_nodes_end(nodes);
    free(publication.live);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory for what the agent counted");
}

void shared_descriptors_carry(struct shared_descriptors_published *to,
                              struct shared_descriptors_published *from)
{
    free(to->rows);
    to->rows = from->rows;
    to->row_count = from->row_count;
    to->row_capacity = from->row_capacity;
    from->rows = NULL;
    from->row_count = from->row_capacity = 0;
}
