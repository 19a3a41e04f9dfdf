/* What is open: the agent's table beside /proc, of which this process is the target; names of links and
 * sockets. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc_sockets.h"
#include "shared_descriptors.h"
#include "wire_loss.h"

enum { FIRST = 400, MEMORY = 1 << 20 };

static struct profile *profile;
static struct shared_descriptors descriptors;
static struct shared_descriptors_published published;
static struct shared_file file;
static struct shared_cookie cookie;
static struct wire_agent_node nodes[3];
static struct wire_agent_cell cells[2];
static uint32_t process, thread, unknown;
static pid_t target;

static int set_up(void **state)
{
    (void)state;
    profile = profile_new();
    process = profile_process(profile, getpid(), 0);
    thread = profile_thread(profile, process, 0);
    unknown = profile_address(profile, profile_image(profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0), 0);
    cookie.image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    nodes[1] = (struct wire_agent_node){.pc = WIRE_AGENT_FDS, .ready = 1};
    nodes[2] = (struct wire_agent_node){.pc = 0x101, .parent = 1, .cookie = 1, .cell = 1, .ready = 1};
    cells[1] = (struct wire_agent_cell){.node = 2};
    file = (struct shared_file){.file = -1, .layout = wire_agent_layout(MEMORY), .region_count = 1};
    file.size = file.layout.size;
    file.bytes =
        mmap(NULL, file.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(file.bytes, MAP_FAILED);
    published = (struct shared_descriptors_published){0};
    target = getpid();
    return shared_descriptors_init(&descriptors, profile, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    shared_descriptors_published_free(&published);
    profile_free(profile);
    munmap(file.bytes, file.size);
    return 0;
}

static struct shared_descriptors_place place(void)
{
    return (struct shared_descriptors_place){&file, 0, target};
}

/* As the agent does. */
static void note(uint32_t number, uint32_t how, uint32_t event)
{
    struct wire_agent_process *it = shared_file_process(&file, 0);
    struct wire_agent_descriptor *table = (void *)(file.bytes + file.layout.descriptors);
    table[number] = (struct wire_agent_descriptor){WIRE_AGENT_WORD(1, how, event), 1000 * event};
    it->descriptor_end = it->descriptor_end > number ? it->descriptor_end : number + 1;
    cells[1].count++;
}

static void forget(uint32_t number)
{
    struct wire_agent_descriptor *table = (void *)(file.bytes + file.layout.descriptors);
    table[number].word = 0;
}

static void look(enum shared_descriptors_look which)
{
    const struct shared_descriptors_place at = place();
    shared_descriptors_look(&descriptors, &at, &published, which);
}

static void publish(bool final)
{
    const struct shared_descriptors_place at = place();
    const struct shared_tree tree = {.nodes = nodes, .cells = cells, .node_count = 2, .cell_count = 1};
    struct shared_nodes view = {
        .profile = profile, .tree = &tree, .cookies = &cookie, .cookie_count = 1, .special_unknown = unknown};
    const struct shared_descriptors_whose whose = {process, thread, 9000, final};
    assert_int_equal(shared_descriptors_publish(&descriptors, &at, &view, &published, &whose, NULL), BASE_OK);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
}

static int64_t sum_of(const char *name)
{
    uint32_t counter = profile_counter_named(profile, name);
    int64_t sum = 0;
    for (size_t i = 0; i < profile->cell_count; i++)
        sum += profile->cells[i].counter == counter ? profile->cells[i].value : 0;
    return sum;
}

static const struct profile_descriptor *row_of(uint32_t number)
{
    for (size_t i = 1; i < profile->descriptor_count; i++)
        if (profile->descriptors[i].origin && profile->descriptors[i].number == number)
            return &profile->descriptors[i];
    return NULL;
}

static void begin(void)
{
    const struct shared_descriptors_place at = place();
    shared_descriptors_begin(&at);
}

static int open_at(int number)
{
    int low = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(dup2(low, number), number);
    close(low);
    return number;
}

/* Before, opened, closed unseen, opened unseen, closed since the last look. */
static void test_each_origin(void **state)
{
    (void)state;
    open_at(FIRST);
    begin();
    assert_int_equal(shared_file_process(&file, 0)->pid_inside, getpid());
    open_at(FIRST + 1), note(FIRST + 1, WIRE_AGENT_OPENED, 1);
    note(FIRST + 2, WIRE_AGENT_OPENED, 2);
    open_at(FIRST + 3);
    open_at(FIRST + 4), note(FIRST + 4, WIRE_AGENT_OPENED, 3);
    publish(false);
    assert_int_equal(sum_of("fd.live"), 3);
    look(SHARED_DESCRIPTORS_ENDING);
    close(FIRST + 4), forget(FIRST + 4);
    note(FIRST + 5, WIRE_AGENT_SOCKET, 4); /* since then: the table is believed */
    publish(true);
    assert_int_equal(sum_of("fd.used"), 4);
    assert_int_equal(sum_of("fd.live"), 2);
    assert_int_equal(row_of(FIRST)->origin, PROFILE_DESCRIPTOR_BEFORE);
    const struct profile_descriptor *ours = row_of(FIRST + 1);
    assert_int_equal(ours->origin, PROFILE_DESCRIPTOR_OPENED);
    assert_string_equal(profile_text(profile, ours->kind), "device");
    assert_string_equal(profile_text(profile, ours->name), "/dev/null");
    assert_int_equal(ours->opened_ns, 1000);
    assert_int_equal(ours->age_ns, 8000);
    assert_int_not_equal(ours->node, 0);
    assert_null(row_of(FIRST + 2));
    assert_int_equal(row_of(FIRST + 3)->origin, PROFILE_DESCRIPTOR_UNSEEN);
    assert_null(row_of(FIRST + 4));
    assert_string_equal(profile_text(profile, row_of(FIRST + 5)->kind), "socket");
    assert_int_equal(row_of(FIRST + 5)->name, 0);
    assert_int_equal(profile->losses[WIRE_LOSS_DESCRIPTOR_UNSEEN], 1);
    assert_int_equal(profile->losses[WIRE_LOSS_DESCRIPTOR_CLOSED], 1);
    for (int i = 0; i < 4; i++)
        close(FIRST + i);
}

/* No look was made: the table is all there is, with the names of before. */
static void test_killed(void **state)
{
    (void)state;
    begin();
    open_at(FIRST), note(FIRST, WIRE_AGENT_OPENED, 1);
    look(SHARED_DESCRIPTORS_NAMES);
    close(FIRST);
    note(FIRST + 1, WIRE_AGENT_OPENED, 2);
    publish(true);
    assert_int_equal(sum_of("fd.live"), 2);
    assert_string_equal(profile_text(profile, row_of(FIRST)->name), "/dev/null");
    assert_int_equal(row_of(FIRST + 1)->name, 0);
    assert_string_equal(profile_text(profile, row_of(FIRST + 1)->kind), "file");
    assert_int_equal(profile->losses[WIRE_LOSS_DESCRIPTOR_UNSEEN], 0);
}

/* A process that has ended has closed everything: that it is not open says nothing. */
static void test_gone(void **state)
{
    (void)state;
    siginfo_t ended;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    note(FIRST, WIRE_AGENT_OPENED, 1);
    target = child;
    look(SHARED_DESCRIPTORS_ENDING);
    publish(true);
    waitpid(child, NULL, 0);
    assert_int_equal(sum_of("fd.live"), 1);
    assert_int_equal(row_of(FIRST)->origin, PROFILE_DESCRIPTOR_OPENED);
    assert_int_equal(profile->losses[WIRE_LOSS_DESCRIPTOR_CLOSED], 0);
}

/* What an exec closed is no loss; what the new program closes is not open. */
static void test_over_an_exec(void **state)
{
    (void)state;
    struct shared_descriptors_published next = {0};
    begin();
    for (int i = 0; i < 2; i++)
        open_at(FIRST + i), note((uint32_t)(FIRST + i), WIRE_AGENT_OPENED, 1 + (uint32_t)i);
    note(FIRST + 2, WIRE_AGENT_OPENED, 3); /* the exec closed it */
    look(SHARED_DESCRIPTORS_EXECED);
    publish(true);
    assert_int_equal(sum_of("fd.live"), 2);
    assert_int_equal(profile->losses[WIRE_LOSS_DESCRIPTOR_CLOSED], 0);
    shared_descriptors_carry(&next, &published);
    shared_descriptors_published_free(&published);
    published = next;
    memset(file.bytes, 0, file.layout.modules[0]);
    madvise(file.bytes, file.size, MADV_DONTNEED);
    cells[1].count = 0;
    begin();
    close(FIRST + 1), forget(FIRST + 1);
    look(SHARED_DESCRIPTORS_ENDING);
    publish(true);
    assert_int_equal(sum_of("fd.live"), 1);
    assert_int_equal(row_of(FIRST)->origin, PROFILE_DESCRIPTOR_OPENED);
    assert_null(row_of(FIRST + 1));
    close(FIRST);
}

/* The target may have written anything. */
static void test_hostile(void **state)
{
    (void)state;
    struct wire_agent_descriptor *table = (void *)(file.bytes + file.layout.descriptors);
    begin();
    shared_file_process(&file, 0)->descriptor_end = UINT32_MAX;
    table[WIRE_AGENT_DESCRIPTORS - 1] =
        (struct wire_agent_descriptor){WIRE_AGENT_WORD(0xfffffff, 63, 7), UINT64_MAX};
    table[FIRST] = (struct wire_agent_descriptor){WIRE_AGENT_WORD(1, 63, 7), UINT64_MAX};
    table[FIRST + 1] = (struct wire_agent_descriptor){WIRE_AGENT_WORD(0, 63, 7), 0};
    cells[1].count = UINT64_MAX;
    cells[1].node = UINT64_C(1) << 40;
    publish(false);
    cells[1].node = 2;
    publish(true);
    assert_int_equal(row_of(FIRST)->age_ns, 0);
    assert_null(row_of(WIRE_AGENT_DESCRIPTORS - 1));
}

static void is_kind(const char *link, const char *kind, const char *name, uint64_t inode)
{
    char found[64];
    uint64_t number;
    const char *as = shared_descriptors_kind(link, found, sizeof found, &number);
    assert_string_equal(as ? as : found, kind);
    assert_string_equal(as ? found : "", name);
    assert_int_equal(number, inode);
}

static void test_kinds(void **state)
{
    (void)state;
    is_kind("/etc/passwd", "file", "/etc/passwd", 0);
    is_kind("/dev/null", "device", "/dev/null", 0);
    is_kind("/memfd:a b (deleted)", "memfd", "a b (deleted)", 0);
    is_kind("pipe:[12]", "pipe", "", 0);
    is_kind("socket:[4711]", "socket", "", 4711);
    is_kind("anon_inode:[eventpoll]", "epoll", "", 0);
    is_kind("anon_inode:[eventfd]", "eventfd", "", 0);
    is_kind("anon_inode:inotify", "inotify", "", 0);
    is_kind("anon_inode:[", "", "", 0);
    is_kind("anon_inode:", "", "", 0);
    is_kind("anon_inode:[aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd]", "aaaaaaaaaabbbbbbbbbbccccccccccdd", "",
            0);
}

static void test_sockets(void **state)
{
    (void)state;
    struct proc_socket found;
    assert_true(proc_sockets_line("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 "
                                  "00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0\n",
                                  "tcp", false, &found));
    assert_int_equal(found.inode, 4711);
    assert_string_equal(found.name, "127.0.0.1:8080 listening");
    assert_true(proc_sockets_line("   1: 0100007F:1F90 0200007F:0050 01 00000000:00000000 00:00000000 "
                                  "00000000  1000        0 4712 1 0 100 0 0 10 0\n",
                                  "tcp", false, &found));
    assert_string_equal(found.name, "127.0.0.1:8080 <-> 127.0.0.2:80");
    assert_true(proc_sockets_line("   2: 00000000000000000000000001000000:0016 "
                                  "00000000000000000000000000000000:0000 07 0:0 0:0 0 0 0 9\n",
                                  "udp", true, &found));
    assert_string_equal(found.name, "[::1]:22");
    assert_true(proc_sockets_line_unix(
        "0000000000000000: 00000002 00000000 00010000 0001 01 33 /run/a socket\n", &found));
    assert_string_equal(found.name, "/run/a socket listening");
    assert_true(proc_sockets_line_unix("0000000000000000: 00000003 00000000 00000000 0001 03 34\n", &found));
    assert_string_equal(found.name, "");
    static const char *const none[] = {"  sl  local_address rem_address   st tx_queue\n", "", "  0: zz zz\n",
                                       "   0: 0100007F 00000000:0000 0A 0:0 0:0 0 0 0 4711\n",
                                       "   0: 0100007F:1 00000000:0000 0A 0:0 0:0 0 0 0 0\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(proc_sockets_line(none[i], "tcp", false, &found));
    assert_false(proc_sockets_line_unix("Num       RefCount Protocol Flags    Type St Inode Path\n", &found));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_each_origin), TEST(test_killed), TEST(test_gone),    TEST(test_over_an_exec),
        TEST(test_hostile),     TEST(test_kinds),  TEST(test_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
