/* An arena with functions that only share their names with the C library's; the file includes no stdlib.h.
 * Prints a sum that does not depend on anything outside. */
int printf(const char *, ...);
typedef unsigned long size;
struct arena {
    char *at, *end;
    size given;
};
static char room[1 << 20];
#define N __attribute__((noinline, noclone))
N static void *malloc(struct arena *a, size n, size align)
{
    a->at = (char *)(((size)a->at + align - 1) & -align);
    void *p = a->at;
    a->at += n;
    a->given += n;
    return p;
}
N static void *calloc(struct arena *a, size n, size each)
{
    char *p = malloc(a, n * each, 16);
    for (size i = 0; i < n * each; i++)
        p[i] = 0;
    return p;
}
N static void *realloc(struct arena *a, void *old, size n)
{
    char *p = malloc(a, n, 16);
    for (size i = 0; old && i < n; i++)
        p[i] = ((char *)old)[i];
    return p;
}
N static void *memalign(struct arena *a, size n, size align, size before, size after)
{
    a->at += before;
    void *p = malloc(a, n, align);
    a->at += after;
    a->given += before + after;
    return p;
}
int main(void)
{
    struct arena a = {room, room + sizeof room, 0};
    for (size i = 0; i < 100; i++) {
        void *p = malloc(&a, 10, 8);
        p = realloc(&a, p, 20);
        calloc(&a, 3, 7);
        memalign(&a, 30, 64, 5, 6);
    }
    printf("given %lu bytes, used %lu\n", a.given, (size)(a.at - room));
    return 0;
}
