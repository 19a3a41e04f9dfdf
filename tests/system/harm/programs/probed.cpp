/* What other tools like to probe: functions called by name and by address, malloc, descriptors, exceptions. It knows what each has to
 * return. With an argument it works until its standard input ends, else 1,000 rounds; says how many results were wrong. At SIGUSR1 it
 * has a second thread for a moment; from one SIGUSR2 to the next it calls nothing of all that. */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define NAKED(name, text) asm(".text\n.p2align 4\n.globl " name "\n.type " name ", @function\n" name ":\n.cfi_startproc\n" text \
                              "\n.cfi_endproc\n.size " name ", . - " name "\n")

/* First instructions of one, four and five bytes. */
NAKED("push_first", "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\nlea (%rdi,%rdi,2), %rbx\nlea 1(%rbx), %rax\npop %rbx\n"
                    ".cfi_adjust_cfa_offset -8\nret");
NAKED("sub_first", "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\nlea 1(%rdi,%rdi,2), %rax\nadd $8, %rsp\n.cfi_adjust_cfa_offset -8\nret");
NAKED("lea_first", "lea 1(%rdi,%rdi,2), %rax\nret");
extern "C" long push_first(long), sub_first(long), lea_first(long);

static long (*volatile by_address[])(long) = {push_first, sub_first, lea_first};
static volatile long wrong;
static volatile sig_atomic_t reported, quiet;

__attribute__((noinline)) static void calls(long i)
{
    long right = 3 * i + 1;
    wrong += push_first(i) != right;
    wrong += sub_first(i) != right;
    wrong += lea_first(i) != right;
    for (int j = 0; j < 3; j++)
        wrong += by_address[j](i) != right;
}

__attribute__((noinline)) static void others(long i)
{
    auto block = static_cast<volatile char *>(malloc(static_cast<size_t>(i % 100 + 1)));
    wrong += block == nullptr;
    block[0] = 1;
    free(const_cast<char *>(block));
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    wrong += file < 0;
    close(file);
    try {
        throw i;
    } catch (long caught) {
        wrong += caught != i;
    }
}

__attribute__((noinline)) static void round_of(long i)
{
    calls(i);
    if (i % 10 == 0)
        others(i);
}

static void *second(void *)
{
    for (long i = 0; i < 1000; i++)
        calls(i);
    return nullptr;
}

static void have_second()
{
    pthread_t thread;
    reported = 0;
    wrong += pthread_create(&thread, nullptr, second, nullptr) != 0;
    wrong += pthread_join(thread, nullptr) != 0;
}

int main(int count, char **)
{
    struct pollfd input = {0, POLLIN, 0};
    long i = 0;
    signal(SIGUSR1, [](int) { reported = 1; });
    signal(SIGUSR2, [](int) { quiet = !quiet; });
    have_second(); // what the C library sets up once
    puts("begun");
    fflush(stdout);
    if (count > 1)
        while (poll(&input, 1, i % 100 && !quiet ? 0 : 1) <= 0)
            if (!quiet)
                reported ? have_second() : round_of(i++);
    while (i < 1000)
        round_of(i++);
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}
