/* wire_agent_entry.h - functions that can be hooked: a number for each, and the image's symbol that handles
 * it.
 *
 * Stubs call an entry with r11 = struct wire_hook (wire_hook.h). A name that is not in the image
 * (loader_image_symbol false) is not built: leave the function alone.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_ENTRY_H
#define WIRE_AGENT_ENTRY_H

#include <stdint.h>

#define WIRE_AGENT_ENTRIES(X)                                                                                \
    X(MALLOC, "agent_entry_malloc")             /* (size, ...): malloc, new(nothrow) */                      \
    X(CALLOC, "agent_entry_calloc")             /* (count, size) */                                          \
    X(REALLOC, "agent_entry_realloc")           /* (block, size) */                                          \
    X(REALLOCARRAY, "agent_entry_reallocarray") /* (block, count, size) */                                   \
    X(FREE, "agent_entry_free") /* (block, ...): free cfree free_sized free_aligned_sized, every delete */   \
    X(ALIGNED, "agent_entry_aligned")               /* (alignment, size): aligned_alloc memalign */          \
    X(POSIX_MEMALIGN, "agent_entry_posix_memalign") /* (result, alignment, size) */                          \
    X(VALLOC, "agent_entry_malloc")                 /* (size): valloc pvalloc */                             \
    X(POOL_CALLOC, "agent_entry_pool_calloc")       /* (pool, count, size); ALIGNED is (pool, size) too */   \
    X(POOL_REALLOC, "agent_entry_pool_realloc")     /* (pool, block, size) */                                \
    X(POOL_FREE, "agent_entry_pool_free")           /* (pool, block, ...) */                                 \
    X(NEW, "agent_entry_new")                       /* (size, ...): may throw; needs layer.plain_new */      \
    X(MMAP, "agent_entry_mmap")                     /* (address, size, protection, flags, file, offset) */   \
    X(MUNMAP, "agent_entry_munmap")                 /* (address, size) */                                    \
    X(MREMAP, "agent_entry_mremap")                 /* (old, old size, size, flags, address) */              \
    X(UNMAP, "agent_entry_unmap")                   /* any: unmaps; noted, then jumped to */                 \
    X(PROTECT, "agent_entry_protect")               /* (address, size, protection, ...): the same */         \
    X(BRK, "agent_entry_brk")                       /* (address) */                                          \
    X(SBRK, "agent_entry_sbrk")                     /* (increment) */                                        \
    X(THROW, "agent_entry_throw")                   /* any: counted, then jumped to */                       \
    X(OBJECTS, "agent_entry_objects")               /* _dl_debug_state of ld.so */                           \
    X(END, "agent_entry_end")                       /* (status): _exit */                                    \
    X(EXECVE, "agent_entry_execve")                 /* (path, argv, envp) */                                 \
    X(EXECVEAT, "agent_entry_execveat")     /* (fd, path, argv, envp, flags); fexecve does not need it */    \
    X(FUNCTION, "agent_entry_function")     /* any: timed. These two are `whole` hooks (wire_hook.h) */      \
    X(UNWIND, "agent_entry_unwind")         /* any: reads the stack of its caller */                         \
    X(DESCRIPTOR, "agent_entry_descriptor") /* `whole`; wire_hook.cookie: enum wire_agent_how */             \
    X(ENTER, "agent_entry_enter")           /* (function, call site): at a linkage stub */                   \
    X(EXIT, "agent_entry_exit")             /* the same */                                                   \
    X(ENTER_DEFINED, "agent_entry_enter_defined") /* the same, of the program's own; `whole`, too */         \
    X(EXIT_DEFINED, "agent_entry_exit_defined")   /* the same */                                             \
    X(CLOSE, "agent_entry_close")                 /* (descriptor) */                                         \
    X(CLOSE_RANGE, "agent_entry_close_range")     /* (first, last, flags) */                                 \
    X(FORK, "agent_entry_fork")                   /* () */                                                   \
    X(THREAD, "agent_entry_thread")   /* (result, attributes, routine, argument): pthread_create */          \
    X(PROCESS, "agent_entry_process") /* (): not vfork, which returns twice from one frame */                \
    X(MASK, "agent_entry_mask")       /* (how, set, old): pthread_sigmask sigprocmask */                     \
    X(ACTION, "agent_entry_action")   /* (signal, action, old): sigaction */                                 \
    X(PRCTL, "agent_entry_prctl")     /* (option, ...) */                                                    \
    X(STACK, "agent_entry_stack")     /* (stack, old): sigaltstack */                                        \
    X(RING, "agent_entry_ring")       /* any: makes an io_uring */                                           \
    X(SYSCALL, "agent_entry_syscall") /* (number, ...): of libc, for any system call */                      \
    X(OBJECT, "agent_entry_object")   /* (address, found): _dl_find_object */                                \
    X(HEADERS, "agent_entry_headers") /* (callback, data): dl_iterate_phdr */

enum wire_agent_entry {
#define X(name, symbol) WIRE_AGENT_ENTRY_##name,
    WIRE_AGENT_ENTRIES(X)
#undef X
        WIRE_AGENT_ENTRY_COUNT
};

/* wire_hook.cookie: what was hooked. */
#define WIRE_AGENT_COOKIE(entry, family) ((uint64_t)(family) << 8 | (uint64_t)(entry))
static inline uint32_t wire_agent_cookie_family(uint64_t cookie)
{
    return (uint32_t)(cookie >> 8 & 255);
}

/* The family of WIRE_AGENT_ENTRY_UNWIND: what is hooked. */
enum wire_agent_unwinder {
    WIRE_AGENT_UNWINDER,   /* it reads the stack */
    WIRE_AGENT_BY_HEADERS, /* it is asked for program headers, by unwinders and others */
    WIRE_AGENT_BY_OBJECT   /* it is asked for the object of an address */
};

#endif
