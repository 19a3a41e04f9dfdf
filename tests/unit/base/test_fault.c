/* A file is shortened while it is mapped, shared and private, and while it is read. */
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

#include "base_fault.h"

enum { PAGE = 4096, PAGES = 8 };

static int make_file(void)
{
    char name[] = "/tmp/tally-fault-XXXXXX";
    uint8_t page[PAGE];
    int file = mkstemp(name);
    assert_true(file >= 0);
    unlink(name);
    memset(page, 'x', sizeof page);
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(write(file, page, sizeof page), PAGE);
    return file;
}

static void check_shortened(int how)
{
    int file = make_file();
    const volatile uint8_t *bytes = mmap(NULL, PAGES * PAGE, PROT_READ, how, file, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    assert_int_equal(ftruncate(file, 2 * PAGE + 100), 0);
    unsigned found = 0, zeros = 0;
    for (size_t i = 0; i < PAGES * PAGE; i++) {
        found += bytes[i] == 'x';
        zeros += bytes[i] == 0;
    }
    assert_int_equal(found, 2 * PAGE + 100);
    assert_int_equal(zeros, PAGES * PAGE - found);
    munmap((void *)(uintptr_t)bytes, PAGES * PAGE);
    close(file);
}

static void what_is_gone_reads_as_zeros(void **state)
{
    (void)state;
    base_fault_survive(); /* cmocka has a handler of its own in each test */
    check_shortened(MAP_SHARED);
    check_shortened(MAP_PRIVATE);
}

static void other_errors_kill(void **state)
{
    int status = 0;
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        base_fault_survive();
        raise(SIGBUS); /* the default action from then on */
        raise(SIGBUS);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_gone_reads_as_zeros),
        cmocka_unit_test(other_errors_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
