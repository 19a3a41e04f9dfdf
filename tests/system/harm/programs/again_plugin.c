/* Functions that are counted, which lie where they lay the last time they were loaded. */
#define AGAIN(name)                                                                                          \
    __attribute__((noinline)) int name(int value);                                                           \
    int name(int value)                                                                                      \
    {                                                                                                        \
        __asm__ volatile("add $0x12345678, %0\n sub $0x12345678, %0" : "+r"(value) : : "memory");            \
        return value + 1;                                                                                    \
    }
AGAIN(again_0)
AGAIN(again_1)
AGAIN(again_2)
AGAIN(again_3)
