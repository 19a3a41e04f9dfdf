/* kernels ROUNDS - what embedded benchmarks are made of: a linked list that is sorted and searched through pointers to comparisons,
 * products of small matrices, a state machine that reads numbers, and a checksum over each result. Stands in the
 * table for coremark, which Debian does not have. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 400
#define SIDE  10
#define KEEP  __attribute__((noinline))

struct item {
    struct item *next;
    int16_t value, index;
};

typedef int compare(const struct item *, const struct item *);

/* --- checksum --- */

KEEP static uint16_t sum_byte(uint8_t byte, uint16_t sum)
{
    for (int bit = 0; bit < 8; bit++) {
        unsigned carry = (sum ^ byte) & 1u;

        byte = (uint8_t)(byte >> 1);
        sum = (uint16_t)((sum >> 1) ^ (carry ? 0xa001u : 0u));
    }
    return sum;
}

KEEP static uint16_t sum_word(uint16_t word, uint16_t sum)
{
    return sum_byte((uint8_t)(word >> 8), sum_byte((uint8_t)word, sum));
}

/* --- the list --- */

KEEP static int by_value(const struct item *left, const struct item *right)
{
    return left->value - right->value;
}

KEEP static int by_index(const struct item *left, const struct item *right)
{
    return left->index - right->index;
}

KEEP static struct item *merge(struct item *left, struct item *right, compare *order)
{
    struct item head, *last = &head;

    while (left != NULL && right != NULL) {
        struct item **from = order(left, right) <= 0 ? &left : &right;

        last->next = *from;
        last = *from;
        *from = last->next;
    }
    last->next = left != NULL ? left : right;
    return head.next;
}

KEEP static struct item *sort(struct item *list, compare *order)
{
    struct item *slow = list, *fast = list, *right;

    if (list == NULL || list->next == NULL)
        return list;
    while (fast->next != NULL && fast->next->next != NULL) {
        slow = slow->next;
        fast = fast->next->next;
    }
    right = slow->next;
    slow->next = NULL;
    return merge(sort(list, order), sort(right, order), order);
}

KEEP static struct item *find(struct item *list, int value)
{
    while (list != NULL && list->value != value)
        list = list->next;
    return list;
}

KEEP static uint16_t list_round(struct item *items, unsigned seed)
{
    struct item *list = NULL;
    uint16_t sum = 0;

    for (int i = 0; i < ITEMS; i++) {
        seed = seed * 1103515245u + 12345u;
        items[i] = (struct item){list, (int16_t)(seed >> 18 & 511), (int16_t)i};
        list = &items[i];
    }
    list = sort(list, by_value);
    for (int value = 0; value < 40; value++) {
        struct item *found = find(list, value * 12);

        sum = sum_word((uint16_t)(found != NULL ? found->index : -1), sum);
    }
    list = sort(list, by_index);
    return sum_word((uint16_t)list->value, sum);
}

/* --- matrices --- */

KEEP static void product(int *out, const int16_t *a, const int16_t *b)
{
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            int sum = 0;

            for (int i = 0; i < SIDE; i++)
                sum += a[row * SIDE + i] * b[i * SIDE + column];
            out[row * SIDE + column] = sum;
        }
}

KEEP static uint16_t matrix_round(unsigned seed)
{
    int16_t a[SIDE * SIDE], b[SIDE * SIDE];
    int out[SIDE * SIDE];
    uint16_t sum = 0;

    for (int i = 0; i < SIDE * SIDE; i++) {
        seed = seed * 1103515245u + 12345u;
        a[i] = (int16_t)(seed >> 20 & 255);
        b[i] = (int16_t)(seed >> 12 & 255);
    }
    product(out, a, b);
    for (int i = 0; i < SIDE * SIDE; i += 7)
        sum = sum_word((uint16_t)out[i], sum);
    return sum;
}

/* --- the state machine --- */

enum state { START, SIGN, INTEGER, POINT, FRACTION, EXPONENT, BAD, STATES };

KEEP static enum state next_state(enum state state, char letter)
{
    int digit = letter >= '0' && letter <= '9';

    switch (state) {
    case START:
        return digit ? INTEGER : letter == '-' || letter == '+' ? SIGN : letter == '.' ? POINT : BAD;
    case SIGN:
        return digit ? INTEGER : letter == '.' ? POINT : BAD;
    case INTEGER:
        return digit ? INTEGER : letter == '.' ? FRACTION : letter == 'e' ? EXPONENT : BAD;
    case POINT:
    case FRACTION:
        return digit ? FRACTION : letter == 'e' ? EXPONENT : BAD;
    case EXPONENT:
        return digit ? EXPONENT : BAD;
    default:
        return BAD;
    }
}

KEEP static uint16_t state_round(unsigned seed)
{
    static const char *const words[] = {"5012",  "-374",    ".1250", "+110.700",
                                        "5.5e3", "-.123e2", "T0.3e", "3+44"};
    unsigned ends[STATES] = {0};
    uint16_t sum = 0;

    for (int i = 0; i < 60; i++) {
        enum state state = START;

        seed = seed * 1103515245u + 12345u;
        for (const char *letter = words[seed >> 20 & 7]; *letter != 0 && state != BAD; letter++)
            state = next_state(state, *letter);
        ends[state]++;
    }
    for (int i = 0; i < STATES; i++)
        sum = sum_word((uint16_t)ends[i], sum);
    return sum;
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
    static struct item items[ITEMS];
    uint16_t sum = 0;

    for (unsigned i = 0; i < rounds; i++) {
        sum = sum_word(list_round(items, i), sum);
        for (unsigned j = 0; j < 8; j++) {
            sum = sum_word(matrix_round(i + j), sum);
            sum = sum_word(state_round(i * 8 + j), sum);
        }
    }
    printf("%04x\n", sum);
    return 0;
}
