#include "perf_filter.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TABLE_SIZE = 1 << 18 };

/* Of the first pid namespace, in every kernel: include/linux/proc_ns.h. */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu

/* Helpers that look into the kernel's structures are only for programs under a licence it knows. */
static const char licence[] = "Dual BSD/GPL";

/* --- the programs: { operation, destination, source, offset, constant } --- */

enum {
    MOV = BPF_ALU64 | BPF_MOV | BPF_X,
    MOV_K = BPF_ALU64 | BPF_MOV | BPF_K,
    ADD_K = BPF_ALU64 | BPF_ADD | BPF_K,
    SHR_K = BPF_ALU64 | BPF_RSH | BPF_K,
    LOAD_64 = BPF_LDX | BPF_MEM | BPF_DW,
    STORE_32 = BPF_STX | BPF_MEM | BPF_W,
    STORE_32_K = BPF_ST | BPF_MEM | BPF_W,
    LOAD_MAP = BPF_LD | BPF_DW | BPF_IMM, /* two slots long */
    JUMP_IF_0 = BPF_JMP | BPF_JEQ | BPF_K,
    CALL = BPF_JMP | BPF_CALL,
    EXIT = BPF_JMP | BPF_EXIT,
};
enum { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FRAME };

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int load_program(enum bpf_prog_type type, const char *name, const struct bpf_insn *code, size_t count)
{
    return bpf_prog_load(type, name, licence, code, count, NULL);
}

/* An event's sample is kept if the program returns anything but 0. */
static int load_at_overflow(int table)
{
    const struct bpf_insn code[] = {
        {CALL, 0, 0, 0, BPF_FUNC_get_current_pid_tgid},
        {SHR_K, R0, 0, 0, 32}, /* the process */
        {STORE_32, FRAME, R0, -4, 0},
        {MOV, R2, FRAME, 0, 0},
        {ADD_K, R2, 0, 0, -4},
        {LOAD_MAP, R1, BPF_PSEUDO_MAP_FD, 0, table},
        {0, 0, 0, 0, 0},
        {CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem},
        {JUMP_IF_0, R0, 0, 1, 0}, /* another process: 0 */
        {MOV_K, R0, 0, 0, 1},
        {EXIT, 0, 0, 0, 0},
    };
    return load_program(BPF_PROG_TYPE_PERF_EVENT, "tally_overflow", code, COUNT(code));
}

/* sched_process_fork(parent, child): the parent is the one that runs. */
static int load_at_fork(int table, int offset_of_process)
{
    const struct bpf_insn code[] = {
        {MOV, R6, R1, 0, 0},
        {CALL, 0, 0, 0, BPF_FUNC_get_current_pid_tgid},
        {SHR_K, R0, 0, 0, 32},
        {STORE_32, FRAME, R0, -4, 0},
        {MOV, R2, FRAME, 0, 0},
        {ADD_K, R2, 0, 0, -4},
        {LOAD_MAP, R1, BPF_PSEUDO_MAP_FD, 0, table},
        {0, 0, 0, 0, 0},
        {CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem},
        {JUMP_IF_0, R0, 0, 15, 0}, /* child of another process: out */
        {MOV, R1, FRAME, 0, 0},
        {ADD_K, R1, 0, 0, -8},
        {MOV_K, R2, 0, 0, 4},
        {LOAD_64, R3, R6, 8, 0}, /* child */
        {ADD_K, R3, 0, 0, offset_of_process},
        {CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel},
        {STORE_32_K, FRAME, 0, -12, 1},
        {MOV, R2, FRAME, 0, 0},
        {ADD_K, R2, 0, 0, -8},
        {MOV, R3, FRAME, 0, 0},
        {ADD_K, R3, 0, 0, -12},
        {LOAD_MAP, R1, BPF_PSEUDO_MAP_FD, 0, table},
        {0, 0, 0, 0, 0},
        {MOV_K, R4, 0, 0, BPF_ANY},
        {CALL, 0, 0, 0, BPF_FUNC_map_update_elem},
        {MOV_K, R0, 0, 0, 0}, /* out */
        {EXIT, 0, 0, 0, 0},
    };
    return load_program(BPF_PROG_TYPE_RAW_TRACEPOINT, "tally_fork", code, COUNT(code));
}

/* --- what the kernel calls task_struct.tgid --- */

static int discard_message(enum libbpf_print_level level, const char *format, va_list arguments)
{
    (void)level;
    (void)format;
    (void)arguments;
    return 0;
}

/* Bytes from a task's start to its process' number; negative when the kernel does not say. */
static int offset_of_process(void)
{
    struct btf *btf = btf__load_vmlinux_btf();
    int found = -1;
    int id = btf ? btf__find_by_name_kind(btf, "task_struct", BTF_KIND_STRUCT) : -1;
    const struct btf_type *task = id > 0 ? btf__type_by_id(btf, (__u32)id) : NULL;
    for (__u32 i = 0; task && found < 0 && i < btf_vlen(task); i++) {
        const struct btf_member *member = btf_members(task) + i;
        if (!strcmp(btf__name_by_offset(btf, member->name_off), "tgid"))
            found = (int)btf_member_bit_offset(task, i) / 8;
    }
    btf__free(btf);
    return found;
}

static bool in_first_pid_namespace(void)
{
    struct stat own;
    return !stat("/proc/self/ns/pid", &own) && own.st_ino == FIRST_PID_NAMESPACE;
}

/* --- begin and end --- */

static int hook_forks(struct perf_filter *filter, struct base_error *error)
{
    int offset = offset_of_process();
    if (offset < 0)
        return base_fail(error, BASE_EUNSUPPORTED, "this kernel has no type information (BTF)");
    filter->at_fork = load_at_fork(filter->table, offset);
    if (filter->at_fork >= 0)
        filter->fork_link = bpf_raw_tracepoint_open("sched_process_fork", filter->at_fork);
    return filter->fork_link >= 0 ? BASE_OK : base_fail_errno(error, errno, "BPF program at forks");
}

static int open_filter(struct perf_filter *filter, bool follow, struct base_error *error)
{
    LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
    if (!in_first_pid_namespace())
        return base_fail(error, BASE_EUNSUPPORTED,
                         "BPF does not know processes by the numbers of this pid namespace");
    filter->table = bpf_map_create(BPF_MAP_TYPE_HASH, "tally_processes", 4, 4, TABLE_SIZE, &options);
    if (filter->table >= 0)
        filter->at_overflow = load_at_overflow(filter->table);
    if (filter->at_overflow < 0) {
        int number = errno;
        base_fail_errno(error, number, "BPF program at samples");
        return number == EPERM || number == EACCES ? BASE_EPERMISSION : BASE_EUNSUPPORTED;
    }
    return follow ? hook_forks(filter, error) : BASE_OK;
}

int perf_filter_open(struct perf_filter *filter, bool follow, struct base_error *error)
{
    libbpf_print_fn_t before = libbpf_set_print(discard_message);
    *filter = (struct perf_filter){-1, -1, -1, -1};
    int result = open_filter(filter, follow, error);
    libbpf_set_print(before);
    if (result < 0)
        perf_filter_close(filter);
    return result;
}

void perf_filter_close(struct perf_filter *filter)
{
    int all[] = {filter->fork_link, filter->at_fork, filter->at_overflow, filter->table};
    for (size_t i = 0; i < COUNT(all); i++) {
        if (all[i] >= 0)
            close(all[i]);
    }
    *filter = (struct perf_filter){-1, -1, -1, -1};
}

bool perf_filter_add(struct perf_filter *filter, pid_t pid)
{
    const __u32 one = 1;
    return !bpf_map_update_elem(filter->table, &pid, &one, BPF_ANY);
}

void perf_filter_remove(struct perf_filter *filter, pid_t pid)
{
    bpf_map_delete_elem(filter->table, &pid);
}

int perf_filter_apply(const struct perf_filter *filter, int event, struct base_error *error)
{
    if (ioctl(event, PERF_EVENT_IOC_SET_BPF, filter->at_overflow))
        return base_fail_errno(error, errno, "BPF program of an event");
    return BASE_OK;
}
