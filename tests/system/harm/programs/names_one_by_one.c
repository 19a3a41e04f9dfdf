/* Functions of the program's own, local to its file, that share only their names with the C library's: other arguments, other results. */
int printf(const char *, ...);
#define N __attribute__((noinline, noclone))
N static long realloc(long a, long b, long c)
{
    return a + 10 * b + 100 * c;
}
N static long calloc(long a, long b, long c)
{
    return a + 10 * b + 100 * c;
}
N static long malloc(long a, long b, long c, long d, long e)
{
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e;
}
N static long free(long a, long b, long c, long d, long e)
{
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e;
}
N static int posix_memalign(long a, long b, long c)
{
    return 5;
}
N static double sbrk(double x)
{
    return x * 2;
}
N static long brk(long a, long b)
{
    return a + 10 * b;
}
N static long munmap(long a, long b, long c)
{
    return a + 10 * b + 100 * c;
}
N static long mremap(long a, long b, long c, long d, long e, long f, long g)
{
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f + 1000000 * g;
}
N static long mmap(long a, long b, long c, long d, long e, long f, long g)
{
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f + 1000000 * g;
}
N static long execve(long a, long b, long c, long d)
{
    return a + 10 * b + 100 * c + 1000 * d;
}
N static long prctl(long a, long b)
{
    return a + b;
}
N static double reallocarray(double a, double b)
{
    return a * b;
}
int main(void)
{
    printf("realloc %ld calloc %ld malloc %ld free %ld posix_memalign %d sbrk %g brk %ld munmap %ld mremap "
           "%ld mmap %ld prctl %ld reallocarray %g\n",
           realloc(1, 2, 3), calloc(1, 2, 3), malloc(1, 2, 3, 4, 5), free(1, 2, 3, 4, 5),
           posix_memalign(16, 2, 3), sbrk(1.5), brk(1, 2), munmap(1, 2, 3), mremap(1, 2, 3, 4, 5, 6, 7),
           mmap(1, 2, 3, 4, 5, 6, 7), prctl(3, 4), reallocarray(2.5, 4));
    printf("execve %ld\n", execve(1, 2, 3, 4));
    return 0;
}
