/* Functions of every kind that symbol tables and line tables know, for the tests of the symbol module:
 * inlined in each other across loops and a file of their own, local, weak, aliased, chosen at run time,
 * nested, split, and written in assembly with and without a type and a size. Works on x86-64 and AArch64. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture_inlined.h"

int fixture_loop(const int *values, int count);
int fixture_twice(int value);
int aliased(int value);
int chosen(int value);
int weak_function(int value);
void assembly_untyped(void);
void assembly_sized(void);
void assembly_around(void);

static __attribute__((noinline)) int local_function(int value)
{
    return inlined_outer(value) + 3;
}

__attribute__((noinline)) int fixture_loop(const int *values, int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++) {
        if (values[i] > 100)
            sum += inlined_outer(values[i]);
        else
            sum -= inlined_middle(values[i]);
    }
    return sum;
}

__attribute__((noinline)) int fixture_twice(int value)
{
    if (value == 12345) { /* unlikely: a part of its own, fixture_twice.cold */
        fprintf(stderr, "%d\n", inlined_middle(value));
        abort();
    }
    return inlined_outer(value) + inlined_outer(value * 2) + local_function(value);
}

__attribute__((noinline)) int __aliased_inside(int value)
{
    return inlined_middle(value) * 7;
}
int aliased(int value) __attribute__((alias("__aliased_inside")));
int _aliased_longer(int value) __attribute__((alias("__aliased_inside")));
int weak_alias(int value) __attribute__((weak, alias("__aliased_inside")));

__attribute__((weak, noinline)) int weak_function(int value)
{
    return value * 11 + (int)strlen(getenv("HOME") ? getenv("HOME") : "");
}

static int choice(int value)
{
    return value + 1;
}
static int (*choose(void))(int)
{
    return choice;
}
int chosen(int value) __attribute__((ifunc("choose")));

__asm__(".text\n"
        ".globl assembly_untyped\n"
        "assembly_untyped:\n"
        "nop\nnop\n"
        "assembly_label:\n"
        "nop\n"
        "ret\n"
        ".globl assembly_sized\n"
        ".type assembly_sized, %function\n"
        "assembly_sized:\n"
        "nop\n"
        "label_inside:\n"
        "nop\n"
        "ret\n"
        ".size assembly_sized, . - assembly_sized\n"
        "nop\nnop\n" /* belongs to nobody */
        ".globl assembly_around\n"
        ".type assembly_around, %function\n"
        "assembly_around:\n"
        "nop\n"
        ".type assembly_within, %function\n"
        "assembly_within:\n"
        "nop\nnop\n"
        ".size assembly_within, . - assembly_within\n"
        "nop\n"
        "ret\n"
        ".size assembly_around, . - assembly_around\n"
        ".type assembly_last, %function\n"
        "assembly_last:\n"
        "ret\n"
        ".size assembly_last, . - assembly_last\n");

int main(int argc, char **argv)
{
    int values[] = {1, 200, argc, 400};
    assembly_untyped();
    assembly_sized();
    assembly_around();
    printf("%d %d %d\n", fixture_loop(values, 4), fixture_twice(argc), aliased(argc) + chosen(argc));
    return weak_function((int)strlen(argv[0])) == 0;
}
