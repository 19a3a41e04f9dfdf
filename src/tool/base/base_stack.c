#include "base_stack.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

struct call {
    base_stack_work *work;
    void *context;
    int result;
};

/* makecontext passes numbers of type int. */
static void enter_stack_call(unsigned high, unsigned low)
{
    struct call *call = (struct call *)(uintptr_t)((uint64_t)high << 32 | low);
    call->result = call->work(call->context);
}

static bool is_limited(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < BASE_STACK_SIZE;
}

static bool run_on_stack(void *stack, struct call *call)
{
    ucontext_t here, there;
    uint64_t address = (uintptr_t)call;
    if (getcontext(&there))
        return false;
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = BASE_STACK_SIZE;
    there.uc_link = &here;
    makecontext(&there, (void (*)(void))enter_stack_call, 2, (unsigned)(address >> 32), (unsigned)address);
    return swapcontext(&here, &there) == 0;
}

int base_stack_run(base_stack_work *work, void *context)
{
    struct call call = {work, context, 0};
    size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = is_limited() ? mmap(NULL, BASE_STACK_SIZE + guard, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0)
                                : MAP_FAILED;
    if (memory == MAP_FAILED)
        return work(context);
    bool done = mprotect(memory, guard, PROT_NONE) == 0 && run_on_stack(memory + guard, &call);
    munmap(memory, BASE_STACK_SIZE + guard);
    return done ? call.result : work(context);
}

int base_stack_thread(pthread_t *thread, void *(*work)(void *), void *context)
{
    pthread_attr_t attributes;
    size_t size;
    int result = pthread_attr_init(&attributes);
    if (result)
        return result;
    if (!pthread_attr_getstacksize(&attributes, &size) && size < BASE_STACK_SIZE)
        pthread_attr_setstacksize(&attributes, BASE_STACK_SIZE);
    result = pthread_create(thread, &attributes, work, context);
    pthread_attr_destroy(&attributes);
    return result;
}
