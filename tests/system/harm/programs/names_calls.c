/* Functions of the program's own, which others could bind to, that share only their names with those of the C library that map memory, make
 * threads, processes and timers, set masks, allocate or end: seven arguments, and a result that there means something else (0 that of a fork in
 * its child). All of them come back. */
int printf(const char *, ...);
#define OWN(name)                                                                                            \
    __attribute__((noinline, noclone)) long name(long a, long b, long c, long d, long e, long f, long g)     \
    {                                                                                                        \
        return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f + 1000000 * g;                       \
    }
#define ALL(each)                                                                                            \
    each(mmap) each(mmap64) each(munmap) each(mremap) each(mprotect) each(brk) each(sbrk) each(execve)       \
        each(execveat) each(prctl) each(syscall) each(sigaction) each(pthread_sigmask) each(sigprocmask)     \
            each(pthread_create) each(fork) each(vfork) each(sigaltstack) each(clone) each(setcontext)       \
                each(dlopen) each(dlclose) each(dl_iterate_phdr) SHARED(each)
#ifdef LINKED /* statically: the C library's exit comes to _exit, and who has memalign beside malloc is an allocator */
#define SHARED(each)
#else
#define SHARED(each)                                                                                         \
    each(_exit) each(_Exit) each(memalign) each(valloc) each(pvalloc) each(aligned_alloc)                    \
        each(posix_memalign) each(reallocarray) each(cfree) each(free_sized) each(free_aligned_sized)
#endif
ALL(OWN)

#define CALL(name)                                                                                           \
    printf(#name " %ld %ld %ld\n", name(1, 2, 3, 4, 5, 6, 7), name(0, 0, 0, 0, 0, 0, 0),                     \
           name(-1, 0, 0, 0, 0, 0, 0));

__attribute__((noinline)) static void call_all(void)
{
    ALL(CALL)
}

int main(void)
{
    for (int i = 0; i < 3; i++)
        call_all();
    return 3;
}
