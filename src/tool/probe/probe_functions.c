#include "probe_functions.h"

#include <stdlib.h>
#include <string.h>

#include "plan_image.h"
#include "wire_agent_descriptor.h"
#include "wire_agent_layer.h"

static const char *const entries[WIRE_AGENT_ENTRY_COUNT] = {
#define X(name, symbol) [WIRE_AGENT_ENTRY_##name] = symbol,
    WIRE_AGENT_ENTRIES(X)
#undef X
};

/* Entries that do next to nothing for blocks that only pass (agent_heap_x86_64_pass.S). */
static const char *const quick_entries[WIRE_AGENT_ENTRY_COUNT] = {
    [WIRE_AGENT_ENTRY_MALLOC] = "agent_entry_malloc_pass",
    [WIRE_AGENT_ENTRY_CALLOC] = "agent_entry_calloc_pass",
    [WIRE_AGENT_ENTRY_FREE] = "agent_entry_free_pass",
};

/* glibc's ld.so up to 2.31 has a malloc of these names for what it needs before there is a C library. It
 * is called before there is a thread pointer, which where rdfsbase may not be used the agent has to read
 * through; and what it gives out is never given back. */
#define NOT_LOADER "!(ld-linux*|ld-[0-9]*|ld.so*)"

/* Names of the C library, and of allocators that are linked under prefixes of their own. Functions with
 * several names are one: the first has it. */
static const struct {
    const char *name, *image; /* globs; NULL: any image */
    enum wire_agent_entry entry;
} allocators[] = {
    {"malloc", NOT_LOADER, WIRE_AGENT_ENTRY_MALLOC},
    {"calloc", NOT_LOADER, WIRE_AGENT_ENTRY_CALLOC},
    {"realloc", NOT_LOADER, WIRE_AGENT_ENTRY_REALLOC},
    {"reallocarray", NOT_LOADER, WIRE_AGENT_ENTRY_REALLOCARRAY},
    {"free", NOT_LOADER, WIRE_AGENT_ENTRY_FREE},
    {"cfree", NOT_LOADER, WIRE_AGENT_ENTRY_FREE},
    {"free_sized", NOT_LOADER, WIRE_AGENT_ENTRY_FREE},
    {"free_aligned_sized", NOT_LOADER, WIRE_AGENT_ENTRY_FREE},
    {"aligned_alloc", NOT_LOADER, WIRE_AGENT_ENTRY_ALIGNED},
    {"memalign", NOT_LOADER, WIRE_AGENT_ENTRY_ALIGNED},
    {"posix_memalign", NOT_LOADER, WIRE_AGENT_ENTRY_POSIX_MEMALIGN},
    {"valloc", NOT_LOADER, WIRE_AGENT_ENTRY_VALLOC},
    {"pvalloc", NOT_LOADER, WIRE_AGENT_ENTRY_VALLOC},
    {"je_malloc", NULL, WIRE_AGENT_ENTRY_MALLOC},
    {"je_calloc", NULL, WIRE_AGENT_ENTRY_CALLOC},
    {"je_realloc", NULL, WIRE_AGENT_ENTRY_REALLOC},
    {"je_free", NULL, WIRE_AGENT_ENTRY_FREE},
    {"je_aligned_alloc", NULL, WIRE_AGENT_ENTRY_ALIGNED},
    {"je_memalign", NULL, WIRE_AGENT_ENTRY_ALIGNED},
    {"je_posix_memalign", NULL, WIRE_AGENT_ENTRY_POSIX_MEMALIGN},
    {"je_valloc", NULL, WIRE_AGENT_ENTRY_VALLOC},
    {"mi_malloc", NULL, WIRE_AGENT_ENTRY_MALLOC},
    {"mi_calloc", NULL, WIRE_AGENT_ENTRY_CALLOC},
    {"mi_realloc", NULL, WIRE_AGENT_ENTRY_REALLOC},
    {"mi_free", NULL, WIRE_AGENT_ENTRY_FREE},
    {"mi_memalign", NULL, WIRE_AGENT_ENTRY_ALIGNED},
    {"mi_posix_memalign", NULL, WIRE_AGENT_ENTRY_POSIX_MEMALIGN},
    {"tc_malloc", NULL, WIRE_AGENT_ENTRY_MALLOC},
    {"tc_calloc", NULL, WIRE_AGENT_ENTRY_CALLOC},
    {"tc_realloc", NULL, WIRE_AGENT_ENTRY_REALLOC},
    {"tc_free", NULL, WIRE_AGENT_ENTRY_FREE},
    {"tc_memalign", NULL, WIRE_AGENT_ENTRY_ALIGNED},
    {"tc_posix_memalign", NULL, WIRE_AGENT_ENTRY_POSIX_MEMALIGN},
    {"tc_valloc", NULL, WIRE_AGENT_ENTRY_VALLOC},
    {"tc_new", NULL, WIRE_AGENT_ENTRY_NEW},
    {"tc_newarray", NULL, WIRE_AGENT_ENTRY_NEW},
    {"tc_new_nothrow", NULL, WIRE_AGENT_ENTRY_MALLOC},
    {"tc_newarray_nothrow", NULL, WIRE_AGENT_ENTRY_MALLOC},
    {"tc_delete", NULL, WIRE_AGENT_ENTRY_FREE},
    {"tc_deletearray", NULL, WIRE_AGENT_ENTRY_FREE},
    {"tc_delete_sized", NULL, WIRE_AGENT_ENTRY_FREE},
    {"tc_deletearray_sized", NULL, WIRE_AGENT_ENTRY_FREE},
    {"tc_delete_nothrow", NULL, WIRE_AGENT_ENTRY_FREE},
    {"tc_deletearray_nothrow", NULL, WIRE_AGENT_ENTRY_FREE},
    {"mi_new", NULL, WIRE_AGENT_ENTRY_NEW},
    {"mi_new_nothrow", NULL, WIRE_AGENT_ENTRY_MALLOC},
    {"mi_free_size", NULL, WIRE_AGENT_ENTRY_FREE},
};

/* operator new and delete of allocators that take their place call no malloc; libstdc++'s do, and are left
 * alone. Those with an alignment are not counted. */
static const struct {
    const char *name;
    enum wire_agent_entry entry;
} operators[] = {
    {"_Znwm", WIRE_AGENT_ENTRY_NEW},
    {"_Znam", WIRE_AGENT_ENTRY_NEW},
    {"_ZnwmRKSt9nothrow_t", WIRE_AGENT_ENTRY_MALLOC},
    {"_ZnamRKSt9nothrow_t", WIRE_AGENT_ENTRY_MALLOC},
    {"_ZdlPv", WIRE_AGENT_ENTRY_FREE},
    {"_ZdaPv", WIRE_AGENT_ENTRY_FREE},
    {"_ZdlPvm", WIRE_AGENT_ENTRY_FREE},
    {"_ZdaPvm", WIRE_AGENT_ENTRY_FREE},
    {"_ZdlPvRKSt9nothrow_t", WIRE_AGENT_ENTRY_FREE},
    {"_ZdaPvRKSt9nothrow_t", WIRE_AGENT_ENTRY_FREE},
};

/* Whose they are. jemalloc may be linked into a program: it is known by a function that only it has.
 * tcmalloc's and mimalloc's have other names beside, which are among those above. */
static const struct {
    const char *image, *beside;
} replacing[] = {{"libtcmalloc*", NULL}, {"libmimalloc*", NULL}, {NULL, "mallocx"}};

static const struct {
    const char *name, *image;
    enum wire_agent_entry entry;
} others[] = {
    {"_dl_debug_state", "ld-*", WIRE_AGENT_ENTRY_OBJECTS},
    {"_dl_debug_state", "ld.so*", WIRE_AGENT_ENTRY_OBJECTS},
    {"execve", NULL, WIRE_AGENT_ENTRY_EXECVE},
    {"execveat", NULL, WIRE_AGENT_ENTRY_EXECVEAT},
};

/* Of the program. The loader's own, of the same names in its file, are not. */
static const struct {
    const char *name;
    enum wire_agent_entry entry;
} mappers[] = {
    {"mmap", WIRE_AGENT_ENTRY_MMAP},     {"mmap64", WIRE_AGENT_ENTRY_MMAP},
    {"munmap", WIRE_AGENT_ENTRY_MUNMAP}, {"mremap", WIRE_AGENT_ENTRY_MREMAP},
    {"brk", WIRE_AGENT_ENTRY_BRK},       {"sbrk", WIRE_AGENT_ENTRY_SBRK},
};

/* What takes memory away that may have been a stack. Where mappings are counted all but the last are among
 * the functions above. */
static const struct {
    const char *name;
    enum wire_agent_entry entry;
} unmappers[] = {
    {"munmap", WIRE_AGENT_ENTRY_UNMAP},     {"mremap", WIRE_AGENT_ENTRY_UNMAP},
    {"mmap", WIRE_AGENT_ENTRY_PROTECT},     {"mmap64", WIRE_AGENT_ENTRY_PROTECT},
    {"mprotect", WIRE_AGENT_ENTRY_PROTECT},
};

/* Of the C library: what all its ways to end by itself come to. */
static const char *const enders[] = {"_exit", "_Exit"};
/* Of every copy of the C library: what the program forbids itself, in every mode. Where exact calls are
 * counted too, their doorbell goes over the second one. */
static const struct {
    const char *name;
    enum wire_agent_entry entry;
} filters[] = {{"prctl", WIRE_AGENT_ENTRY_PRCTL}, {"syscall", WIRE_AGENT_ENTRY_SYSCALL}};

/* Of every copy of the C library: thread creation, and what becomes of the timers' signal. */
static const struct {
    const char *name;
    enum wire_agent_entry entry;
} timers[] = {
    {"sigaction", WIRE_AGENT_ENTRY_ACTION}, {"pthread_sigmask", WIRE_AGENT_ENTRY_MASK},
    {"sigprocmask", WIRE_AGENT_ENTRY_MASK}, {"pthread_create", WIRE_AGENT_ENTRY_THREAD},
    {"fork", WIRE_AGENT_ENTRY_PROCESS},     {"sigaltstack", WIRE_AGENT_ENTRY_STACK},
};
/* Of liburing: what begins a ring, whose threads have timers as others do. */
static const char *const rings[] = {"io_uring_setup", "io_uring_queue_init", "io_uring_queue_init_params",
                                    "io_uring_queue_init_mem"};

/* Of every copy of the C++ runtime; the last is std::rethrow_exception, which throws by itself. */
static const char *const throwers[] = {"__cxa_throw", "__cxa_rethrow",
                                       "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE"};

/* Functions that open descriptors, each with its enum wire_agent_how, or close them; fork, before which what
 * is open is noted. The last is what fork comes to: where exact calls are counted it is left to their
 * doorbell, as above. The loader's own, of the same names, are not: it closes what it opens. What checks its
 * arguments first (__open_2) goes on into one of these. */
static const struct {
    const char *name;
    enum wire_agent_entry entry;
    enum wire_agent_how how;
} descriptors[] = {
#define OPENS(name, how)                                                                                     \
    {                                                                                                        \
        name, WIRE_AGENT_ENTRY_DESCRIPTOR, WIRE_AGENT_##how                                                  \
    }
    OPENS("open", OPENED),
    OPENS("open64", OPENED),
    OPENS("__open", OPENED),
    OPENS("__open64", OPENED),
    OPENS("__open_nocancel", OPENED),
    OPENS("__open64_nocancel", OPENED),
    OPENS("openat", OPENED),
    OPENS("openat64", OPENED),
    OPENS("__openat", OPENED),
    OPENS("__openat64", OPENED),
    OPENS("__openat_nocancel", OPENED),
    OPENS("__openat64_nocancel", OPENED),
    OPENS("open_by_handle_at", OPENED),
    OPENS("creat", OPENED),
    OPENS("creat64", OPENED),
    OPENS("dup", DUPLICATED),
    OPENS("__dup", DUPLICATED),
    OPENS("dup2", DUPLICATED_TO),
    OPENS("__dup2", DUPLICATED_TO),
    OPENS("dup3", DUPLICATED_TO),
    OPENS("__dup3", DUPLICATED_TO),
    OPENS("fcntl", FCNTL),
    OPENS("fcntl64", FCNTL),
    OPENS("__fcntl", FCNTL),
    OPENS("__libc_fcntl64", FCNTL),
    OPENS("socket", SOCKET),
    OPENS("__socket", SOCKET),
    OPENS("socketpair", SOCKETPAIR),
    OPENS("__socketpair", SOCKETPAIR),
    OPENS("accept", ACCEPTED),
    OPENS("__libc_accept", ACCEPTED),
    OPENS("accept4", ACCEPTED),
    OPENS("pipe", PIPE),
    OPENS("__pipe", PIPE),
    OPENS("pipe2", PIPE),
    OPENS("__pipe2", PIPE),
    OPENS("eventfd", EVENT),
    OPENS("timerfd_create", TIMER),
    OPENS("epoll_create", EPOLL),
    OPENS("epoll_create1", EPOLL),
    OPENS("signalfd", SIGNAL),
    OPENS("memfd_create", MEMORY),
    OPENS("inotify_init", NOTIFY),
    OPENS("inotify_init1", NOTIFY),
    OPENS("fanotify_init", NOTIFY),
    OPENS("pidfd_open", PIDFD),
    OPENS("recvmsg", RECEIVED),
    OPENS("__libc_recvmsg", RECEIVED),
    OPENS("recvmmsg", RECEIVED_MANY),
#undef OPENS
    {"close", WIRE_AGENT_ENTRY_CLOSE, 0},
    {"__close", WIRE_AGENT_ENTRY_CLOSE, 0},
    {"__close_nocancel", WIRE_AGENT_ENTRY_CLOSE, 0},
    {"__close_nocancel_nostatus", WIRE_AGENT_ENTRY_CLOSE, 0},
    {"close_range", WIRE_AGENT_ENTRY_CLOSE_RANGE, 0},
    {"fork", WIRE_AGENT_ENTRY_FORK, 0},
    {"__libc_fork", WIRE_AGENT_ENTRY_FORK, 0},
    {"_Fork", WIRE_AGENT_ENTRY_FORK, 0},
};

/* What instrumented functions call. The stubs distinguish enter from exit; a definition only where there
 * are two: glibc's are one function, which does nothing. */
#define NOT_GLIBC "!(libc.so*|libc-[0-9]*)"
static const struct {
    const char *name, *image;
    enum wire_agent_entry entry;
} instrumented[] = {
    {"__cyg_profile_func_enter@plt", NULL, WIRE_AGENT_ENTRY_ENTER},
    {"__cyg_profile_func_exit@plt", NULL, WIRE_AGENT_ENTRY_EXIT},
    {"__cyg_profile_func_enter", NOT_GLIBC, WIRE_AGENT_ENTRY_ENTER_DEFINED},
    {"__cyg_profile_func_exit", NOT_GLIBC, WIRE_AGENT_ENTRY_EXIT_DEFINED},
};

/* Everything that reads return addresses, in every copy of it: libgcc's, which C++ exceptions, cancellation
 * and backtrace come down to, LLVM's libunwind, and the other libunwind. */
static const char *const unwinders[] = {
    "_Unwind_RaiseException", "_Unwind_ForcedUnwind", "_Unwind_Resume",        "_Unwind_Resume_or_Rethrow",
    "_Unwind_Backtrace",      "unw_init_local",       "__unw_init_local",      "unw_backtrace",
    "_Ux86_64_init_local",    "_ULx86_64_init_local", "_ULx86_64_init_local2", "_ULx86_64_step",
};

/* What unwinders ask: those without a name are known by it. */
static const struct {
    const char *name;
    enum wire_agent_unwinder how;
    unsigned answers;            /* enum plan_image_unwinder */
    enum wire_agent_entry entry; /* that reports the agent to them */
} finders[] = {
    {"dl_iterate_phdr", WIRE_AGENT_BY_HEADERS, PLAN_IMAGE_BY_HEADERS, WIRE_AGENT_ENTRY_HEADERS},
    {"_dl_find_object", WIRE_AGENT_BY_OBJECT, PLAN_IMAGE_BY_OBJECT, WIRE_AGENT_ENTRY_OBJECT},
};

/* What loads an unwinder when it is first called, perhaps unseen: tally may be gone by then. The stack is
 * to be as it was before. If they are requested to be timed, they are. */
static const char *const loads_unwinder[] = {"backtrace", "__backtrace"};

/* Those that return twice, or to where they were not called from, and those that look for their caller: an
 * unwinder begins at its own return address. */
static const char *const odd[] = {
    "setjmp",
    "_setjmp",
    "sigsetjmp",
    "__sigsetjmp",
    "__sigsetjmp_cancel",
    "getcontext",
    "__getcontext",
    "swapcontext",
    "__swapcontext",
    "vfork",
    "__vfork",
    "__libc_vfork",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "_start",
    "_dl_start_user",
    "__restore_rt",
    "__start_context",
    "dlopen",
    "dlmopen",
    "dlsym",
    "dlvsym",
    "__dlopen",
    "__dlsym",
    "mcount",
    "_mcount",
    "__fentry__",
    "uw_init_context*",
    "unw_getcontext",
    "__unw_getcontext",
    "_Ux86_64_getcontext",
};

bool probe_functions_is_odd(const char *name)
{
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (plan_function_means(&(struct plan_function_request){.name = odd[i]}, name))
            return true;
    return false;
}

/* What returns how large a block really is, by enum wire_agent_family; the last one identifies glibc. */
static const char *const sizes[] = {[WIRE_AGENT_PLAIN] = "malloc_usable_size",
                                    [WIRE_AGENT_JE] = "je_malloc_usable_size",
                                    [WIRE_AGENT_MI] = "mi_usable_size",
                                    [WIRE_AGENT_TC] = "tc_malloc_size",
                                    [WIRE_AGENT_FAMILIES] = PROBE_GLIBC};

enum {
    ALLOCATORS = sizeof allocators / sizeof *allocators,
    OPERATORS = sizeof operators / sizeof *operators,
    REPLACING = sizeof replacing / sizeof *replacing,
    MAPPERS = sizeof mappers / sizeof *mappers,
    UNMAPPERS = sizeof unmappers / sizeof *unmappers,
    UNMAPPERS_COUNTED = 4,
    FILTERS = sizeof filters / sizeof *filters,
    TIMERS = sizeof timers / sizeof *timers,
    RINGS = sizeof rings / sizeof *rings,
    THROWERS = sizeof throwers / sizeof *throwers,
    OTHERS = sizeof others / sizeof *others,
    INSTRUMENTED = sizeof instrumented / sizeof *instrumented,
    ENDERS = sizeof enders / sizeof *enders,
    DESCRIPTORS = sizeof descriptors / sizeof *descriptors,
    DESCRIPTORS_SHARED = DESCRIPTORS - 1,
    SIZES = sizeof sizes / sizeof *sizes,
    UNWINDERS = sizeof unwinders / sizeof *unwinders,
    FINDERS = sizeof finders / sizeof *finders,
    LOADS_UNWINDER = sizeof loads_unwinder / sizeof *loads_unwinder,
    ODD = sizeof odd / sizeof *odd
};

const char *probe_functions_usable_size(uint32_t family)
{
    return family < WIRE_AGENT_FAMILIES ? sizes[family] : NULL;
}

static enum wire_agent_family family_of(const char *name)
{
    return !strncmp(name, "je_", 3)            ? WIRE_AGENT_JE
           : !strncmp(name, "mi_", 3)          ? WIRE_AGENT_MI
           : !strncmp(name, "tc_newarray", 11) ? WIRE_AGENT_TC_ARRAYS
           : !strncmp(name, "tc_", 3)          ? WIRE_AGENT_TC
           : !strncmp(name, "_Zna", 4)         ? WIRE_AGENT_ARRAYS
                                               : WIRE_AGENT_PLAIN;
}

/* Is it a name that a program may use for something else? The prefixes of allocators and what the
 * compiler's run-time libraries are called are nobody else's, and are hidden where those are linked into
 * an image. */
static bool is_interposable_name(const char *name)
{
    static const char *const others_have_not[] = {"je_",    "mi_",  "tc_",    "_Z",    "_U",
                                                  "__cxa_", "unw_", "__unw_", "__cyg_"};
    for (size_t i = 0; i < sizeof others_have_not / sizeof *others_have_not; i++)
        if (!strncmp(name, others_have_not[i], strlen(others_have_not[i])))
            return false;
    return true;
}

/* NULL, and the function is not kept, when the image has not its entry. */
static struct loader_function *add_function(struct probe_functions *functions,
                                            const struct loader_image *image, const char *name,
                                            const char *where, enum wire_agent_entry entry)
{
    struct loader_function *function = &functions->items[functions->count];
    *function = (struct loader_function){.request = {name, where, .interposes = is_interposable_name(name)},
                                         .cookie = WIRE_AGENT_COOKIE(entry, family_of(name))};
    if (!loader_image_symbol(image, entries[entry], &function->handler))
        return NULL;
    functions->count++;
    return function;
}

/* Of the C library: another function of that name may have other arguments and results. */
static struct loader_function *add_own(struct probe_functions *functions, const struct loader_image *image,
                                       const char *name, const char *where, enum wire_agent_entry entry)
{
    struct loader_function *function = add_function(functions, image, name, where, entry);
    if (function)
        function->request.own = true;
    return function;
}

static void add_allocators(struct probe_functions *functions, const struct loader_image *image)
{
    for (size_t i = 0; i < ALLOCATORS; i++) {
        struct loader_function *function =
            add_function(functions, image, allocators[i].name, allocators[i].image, allocators[i].entry);
        if (function && function->request.interposes &&
            i > 0) /* what stands in for memalign does for malloc */
            function->request.beside = allocators[0].name;
    }
    for (size_t i = 0; i < REPLACING; i++)
        for (size_t j = 0; j < OPERATORS; j++) {
            struct loader_function *function =
                add_function(functions, image, operators[j].name, replacing[i].image, operators[j].entry);
            if (function)
                function->request.beside = replacing[i].beside;
        }
}

/* It is not timed: what it puts back is what that would have replaced. */
static void add_unwinder(struct probe_functions *functions, const struct loader_image *image,
                         const char *name, const char *where, enum wire_agent_unwinder how)
{
    struct loader_function *function = add_function(functions, image, name, where, WIRE_AGENT_ENTRY_UNWIND);
    if (!function)
        return;
    function->whole = function->alone = function->stays = true;
    function->cookie = WIRE_AGENT_COOKIE(WIRE_AGENT_ENTRY_UNWIND, how);
}

/* Functions that allocate or map call on with the agent on the stack. */
static bool stands_on_stack(const struct probe_functions_request *request)
{
    return request->heap || request->maps;
}

/* Beneath those that put return addresses back. */
static void add_reporters(struct probe_functions *functions, const struct loader_image *image)
{
    for (size_t i = 0; i < FINDERS; i++)
        add_function(functions, image, finders[i].name, NULL, finders[i].entry);
}

static void add_finders(struct probe_functions *functions, const struct loader_image *image, bool over)
{
    size_t first = functions->count;
    for (size_t i = 0; i < FINDERS; i++)
        add_unwinder(functions, image, finders[i].name, NULL, finders[i].how);
    for (size_t i = first; i < functions->count; i++)
        functions->items[i].request.over = over;
}

static void add_descriptors(struct probe_functions *functions, const struct loader_image *image, bool shared)
{
    for (size_t i = 0; i < (shared ? DESCRIPTORS_SHARED : DESCRIPTORS); i++) {
        struct loader_function *function = &functions->items[functions->count];
        *function = (struct loader_function){
            .request = {descriptors[i].name, NOT_LOADER, .interposes = true, .own = true},
            .cookie = WIRE_AGENT_COOKIE(descriptors[i].entry, descriptors[i].how),
            .whole = descriptors[i].entry == WIRE_AGENT_ENTRY_DESCRIPTOR};
        functions->count += loader_image_symbol(image, entries[descriptors[i].entry], &function->handler);
    }
}

/* They are not timed: their hooks know the place that they were called from by their own return address. */
static void add_instrumented(struct probe_functions *functions, const struct loader_image *image)
{
    for (size_t i = 0; i < INSTRUMENTED; i++) {
        struct loader_function *function = add_function(functions, image, instrumented[i].name,
                                                        instrumented[i].image, instrumented[i].entry);
        if (function)
            function->alone = true;
    }
    for (size_t i = functions->count - 2; i < functions->count; i++) { /* the definitions */
        functions->items[i].whole = true;
        functions->items[i].distinct_from = (uint32_t)(2 * functions->count - 3 - i) + 1;
    }
}

/* The functions that are timed, behind those that must be hooked for it and those that must not be. What is
 * hooked for something else is timed as well: that hook is over the other. */
static void add_timed(struct probe_functions *functions, const struct loader_image *image,
                      const struct probe_functions_request *request)
{
    bool replaces = request->timed_count || request->descriptors;
    for (size_t i = 0; i < UNWINDERS && replaces; i++)
        add_unwinder(functions, image, unwinders[i], NULL, WIRE_AGENT_UNWINDER);
    if (replaces)
        add_finders(functions, image, stands_on_stack(request));
    if (request->descriptors)
        add_descriptors(functions, image, request->shared);
    for (size_t i = 0; i < ODD && request->timed_count; i++)
        functions->items[functions->count++] =
            (struct loader_function){.request = {odd[i], NULL}, .only_found = true, .alone = true};
    functions->timed = functions->count;
    for (size_t i = 0; i < request->timed_count; i++) {
        struct loader_function *function = add_function(functions, image, request->timed[i].name,
                                                        request->timed[i].image, WIRE_AGENT_ENTRY_FUNCTION);
        if (!function)
            continue;
        function->request.interposes = false; /* the name means any function that has it */
        function->whole = function->request.over = true;
        function->request.written = request->timed[i].written;
    }
    for (size_t i = 0; i < LOADS_UNWINDER && replaces; i++)
        add_unwinder(functions, image, loads_unwinder[i], "@(libc.so*|libc-[0-9]*)", WIRE_AGENT_UNWINDER);
}

bool probe_functions_reports(const struct loader_function *function)
{
    uint64_t entry = function->cookie & 255;
    return entry == WIRE_AGENT_ENTRY_OBJECT || entry == WIRE_AGENT_ENTRY_HEADERS;
}

bool probe_functions_unwinds(const struct probe_functions *functions, size_t function)
{
    return function < functions->timed && functions->items[function].cookie ==
                                              WIRE_AGENT_COOKIE(WIRE_AGENT_ENTRY_UNWIND, WIRE_AGENT_UNWINDER);
}

unsigned probe_functions_answers(const struct probe_functions *functions, size_t function)
{
    for (size_t i = 0; i < FINDERS; i++)
        if (functions->items[function].cookie == WIRE_AGENT_COOKIE(WIRE_AGENT_ENTRY_UNWIND, finders[i].how))
            return finders[i].answers;
    return 0;
}

static size_t named_count(const struct probe_functions_request *request)
{
    return request->heap && request->named ? request->named->count : 0;
}

/* Before all others: the user that names a function says what it is. */
static void add_named(struct probe_functions *functions, const struct loader_image *image,
                      const struct probe_functions_request *request)
{
    for (size_t i = 0; i < named_count(request); i++) {
        const struct probe_named_function *named = &request->named->items[i];
        struct loader_function *function = &functions->items[functions->count++];
        *function = (struct loader_function){.request = named->request,
                                             .cookie = WIRE_AGENT_COOKIE(named->entry, WIRE_AGENT_NAMED)};
        loader_image_symbol(image, entries[named->entry], &function->handler);
    }
    functions->named = functions->count;
}

static void add_only_found(struct probe_functions *functions, const char *name)
{
    functions->items[functions->count++] = (struct loader_function){
        .request = {name, NULL, .interposes = is_interposable_name(name)}, .only_found = true};
}

/* Allocators' functions by their quick entries. */
static void let_pass(struct probe_functions *functions, const struct loader_image *image)
{
    for (size_t i = 0; i < functions->allocators; i++) {
        const char *entry = quick_entries[functions->items[i].cookie & 255];
        if (entry)
            loader_image_symbol(image, entry, &functions->items[i].handler);
    }
}

int probe_functions_make(struct probe_functions *functions, const struct loader_image *image,
                         const struct probe_functions_request *request, struct base_error *error)
{
    *functions = (struct probe_functions){
        .items = calloc(named_count(request) + ALLOCATORS + OPERATORS * REPLACING + THROWERS + MAPPERS +
                            UNMAPPERS + FILTERS + TIMERS + RINGS + OTHERS + ENDERS + SIZES + UNWINDERS +
                            2 * FINDERS + LOADS_UNWINDER + 1 + ODD + DESCRIPTORS + INSTRUMENTED +
                            request->timed_count,
                        sizeof *functions->items)};
    if (!functions->items)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    add_named(functions, image, request);
    if (request->heap)
        add_allocators(functions, image);
    functions->allocators = functions->count;
    if (request->passes)
        let_pass(functions, image);
    for (size_t i = 0; i < THROWERS && request->throws; i++)
        add_function(functions, image, throwers[i], NULL, WIRE_AGENT_ENTRY_THROW);
    functions->throwers = functions->count - functions->allocators;
    for (size_t i = 0; i < MAPPERS && request->maps; i++)
        add_own(functions, image, mappers[i].name, NOT_LOADER, mappers[i].entry);
    for (size_t i = request->maps ? UNMAPPERS_COUNTED : 0; i < UNMAPPERS; i++)
        add_own(functions, image, unmappers[i].name, NOT_LOADER, unmappers[i].entry);
    functions->first_timer = functions->count;
    for (size_t i = 0; i < FILTERS; i++)
        add_own(functions, image, filters[i].name, NOT_LOADER, filters[i].entry);
    for (size_t i = 0; i < TIMERS && request->timers; i++)
        add_own(functions, image, timers[i].name, NOT_LOADER, timers[i].entry);
    for (size_t i = 0; i < RINGS && request->timers; i++)
        add_function(functions, image, rings[i], NOT_LOADER, WIRE_AGENT_ENTRY_RING);
    functions->timers = request->timers ? functions->count - functions->first_timer : 0;
    for (size_t i = 0; i < OTHERS && !request->shared; i++)
        (others[i].image ? add_function : add_own)(functions, image, others[i].name, others[i].image,
                                                   others[i].entry);
    for (size_t i = 0; i < ENDERS && request->ends; i++)
        add_own(functions, image, enders[i], NOT_LOADER, WIRE_AGENT_ENTRY_END);
    if (stands_on_stack(request))
        add_reporters(functions, image);
    for (size_t i = 0; i < SIZES && request->sizes; i++)
        if (sizes[i])
            add_only_found(functions, sizes[i]);
    if (request->heap)
        add_only_found(functions, PROBE_REMEMBERS);
    if (request->instrumented)
        add_instrumented(functions, image);
    add_timed(functions, image, request);
    return BASE_OK;
}
