#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_stack.h"

enum { DEEP = 2 << 20, SMALL = 160 << 10 };

/* Uses DEEP bytes of stack. */
static __attribute__((noinline)) int deep(void *context)
{
    volatile char bytes[DEEP];
    for (size_t i = 0; i < sizeof bytes; i += 1024)
        bytes[i] = *(char *)context;
    return bytes[DEEP - 1024] + bytes[0];
}

static int limit_of_child(void *context)
{
    struct rlimit limit;
    return deep(context) == 14 && getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur == SMALL ? 21 : 1;
}

static void *in_thread(void *context)
{
    return deep(context) == 14 ? context : NULL;
}

/* In a child with a limit of `bytes`: its exit status, which is the work's result. */
static int status_under(rlim_t bytes, base_stack_work *work)
{
    char seven = 7;
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {bytes, bytes};
        pthread_t thread;
        void *got = NULL;
        if (setrlimit(RLIMIT_STACK, &limit) || base_stack_thread(&thread, in_thread, &seven) ||
            pthread_join(thread, &got) || got != &seven)
            _exit(2);
        _exit(base_stack_run(work, &seven));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_small_limit_does_not_limit_us(void **state)
{
    (void)state;
    assert_int_equal(status_under(SMALL, limit_of_child), 21);
    assert_int_equal(status_under(SMALL, deep), 14);
}

static void a_large_one_is_used(void **state)
{
    (void)state;
    assert_int_equal(status_under(BASE_STACK_SIZE, deep), 14);
}

static int run_again(void *context)
{
    return base_stack_run(deep, context) + 1;
}

static void work_may_call_it_too(void **state)
{
    (void)state;
    assert_int_equal(status_under(SMALL, run_again), 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_limit_does_not_limit_us),
        cmocka_unit_test(a_large_one_is_used),
        cmocka_unit_test(work_may_call_it_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
