/* jit --perf-map | --jitdump DIRECTORY | --none - copies two functions into anonymous executable memory and
 * runs them from there, a third of the time in the first. Their names are only in the file that is announced:
 * /tmp/perf-PID.map or DIRECTORY/jit-PID.dump (format: Linux,
 * tools/perf/Documentation/jitdump-specification.txt). Built with frame pointers, as generated code has no
 * call-frame information. */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "truth.h"

#define JIT_FUNCTION __attribute__((noipa, used, section("jit_code"), aligned(64)))

/* The compiler makes no frame in a function that does not need one; this needs one. */
#define JIT_FRAME() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

/* The linker gives every section with such a name these two symbols. */
extern const char __start_jit_code[], __stop_jit_code[];

struct jit {
    char *code; /* where the copy lies */
    size_t bytes;
    FILE *dump;      /* of --jitdump */
    char path[4200]; /* of the file of names */
};

JIT_FUNCTION void template_hot(unsigned long rounds)
{
    JIT_FRAME();
    TRUTH_WORK(rounds);
}

JIT_FUNCTION void template_warm(unsigned long rounds)
{
    JIT_FRAME();
    TRUTH_WORK(rounds);
}

typedef void (*jit_function)(unsigned long);

static jit_function in_copy(const struct jit *jit, jit_function template)
{
    uintptr_t offset = (uintptr_t) template - (uintptr_t)__start_jit_code;

    return (jit_function)(uintptr_t)(jit->code + offset);
}

static int make_code(struct jit *jit)
{
    jit->bytes = (size_t)(__stop_jit_code - __start_jit_code);
    jit->code = mmap(NULL, jit->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (jit->code == MAP_FAILED)
        return -1;
    memcpy(jit->code, __start_jit_code, jit->bytes);
    return mprotect(jit->code, jit->bytes, PROT_READ | PROT_EXEC);
}

/* The functions lie in the order of their addresses; each ends where the next begins. */
static size_t size_of(const struct jit *jit, jit_function function)
{
    uintptr_t start = (uintptr_t)function, end = (uintptr_t)jit->code + jit->bytes;
    uintptr_t other =
        (uintptr_t)in_copy(jit, function == in_copy(jit, template_hot) ? template_warm : template_hot);

    return (other > start ? other : end) - start;
}

static int announce_map(struct jit *jit)
{
    static const char *const names[] = {"jit_hot(int)", "jit_warm"};
    const jit_function functions[] = {in_copy(jit, template_hot), in_copy(jit, template_warm)};
    FILE *map;

    snprintf(jit->path, sizeof jit->path, "/tmp/perf-%d.map", (int)getpid());
    map = fopen(jit->path, "w");
    if (map == NULL)
        return -1;
    for (int i = 0; i < 2; i++)
        fprintf(map, "%lx %zx %s\n", (unsigned long)(uintptr_t)functions[i], size_of(jit, functions[i]),
                names[i]);
    return fclose(map);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static unsigned machine(void)
{
    Elf64_Ehdr header = {0};
    FILE *file = fopen("/proc/self/exe", "r");

    if (file == NULL || fread(&header, sizeof header, 1, file) != 1)
        header.e_machine = 0;
    if (file != NULL)
        fclose(file);
    return header.e_machine;
}

static int start_dump(struct jit *jit, const char *directory)
{
    struct {
        uint32_t magic, version, total_size, machine, pad, pid;
        uint64_t time, flags;
    } header = {0x4A695444u, 1, sizeof header, machine(), 0, (uint32_t)getpid(), now_ns(), 0};
    int file;

    snprintf(jit->path, sizeof jit->path, "%s/jit-%d.dump", directory, (int)getpid());
    file = open(jit->path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        return -1;
    /* The executable mapping is how a profiler learns of the file. */
    if (mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED)
        return -1;
    jit->dump = fdopen(file, "w");
    return jit->dump != NULL && fwrite(&header, sizeof header, 1, jit->dump) == 1 ? 0 : -1;
}

static void dump_load(const struct jit *jit, jit_function function, const char *name, uint64_t index)
{
    size_t size = size_of(jit, function);
    struct {
        uint32_t id, total_size;
        uint64_t time;
        uint32_t pid, tid;
        uint64_t vma, code_address, code_size, code_index;
    } record = {0,
                (uint32_t)(sizeof record + strlen(name) + 1 + size),
                now_ns(),
                (uint32_t)getpid(),
                (uint32_t)syscall(SYS_gettid),
                (uint64_t)(uintptr_t)function,
                (uint64_t)(uintptr_t)function,
                size,
                index};

    fwrite(&record, sizeof record, 1, jit->dump);
    fwrite(name, strlen(name) + 1, 1, jit->dump);
    fwrite((const void *)(uintptr_t)function, size, 1, jit->dump);
}

static int announce_dump(struct jit *jit, const char *directory)
{
    if (start_dump(jit, directory) != 0)
        return -1;
    dump_load(jit, in_copy(jit, template_hot), "jit_hot(int)", 0);
    dump_load(jit, in_copy(jit, template_warm), "jit_warm", 1);
    return fflush(jit->dump);
}

TRUTH_FUNCTION void jit_drive(jit_function function, unsigned long rounds)
{
    TRUTH_CALL(function(rounds));
}

TRUTH_FUNCTION double jit_timed(jit_function function, unsigned long rounds)
{
    double began = truth_clock(CLOCK_THREAD_CPUTIME_ID);

    TRUTH_CALL(jit_drive(function, rounds));
    return truth_clock(CLOCK_THREAD_CPUTIME_ID) - began;
}

TRUTH_FUNCTION void jit_work(const struct truth *truth, const struct jit *jit)
{
    double hot = 0, warm = 0;

    while (truth_more(truth)) {
        hot += jit_timed(in_copy(jit, template_hot), 2 * TRUTH_CHUNK);
        warm += jit_timed(in_copy(jit, template_warm), TRUTH_CHUNK);
    }
    truth_share("jit_hot(int)", hot);
    truth_share("jit_warm", warm);
    truth_process();
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    struct jit jit = {.dump = NULL};
    int result;

    if (truth.asked) {
        printf("contains jit_hot(int)\nstack main;jit_work;jit_timed;jit_drive;jit_hot(int)\norigin start\n"
               "contains jit_warm\nstack main;jit_work;jit_timed;jit_drive;jit_warm\norigin start\n"
               "contains jit_drive\nstack main;jit_work;jit_timed;jit_drive;**\norigin start\n");
        return 0;
    }
    if (make_code(&jit) != 0)
        return 1;
    if (truth_flag(&truth, "--perf-map"))
        result = announce_map(&jit);
    else if (truth.argument_count == 2 && truth_flag(&truth, "--jitdump"))
        result = announce_dump(&jit, truth.arguments[1]);
    else
        result = 0;
    if (result != 0) {
        perror("jit");
        return 1;
    }
    TRUTH_CALL(jit_work(&truth, &jit));
    printf("file %s\n", jit.path);
    return 0;
}
