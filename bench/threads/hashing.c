/* hashing.c - makes words, hashes them, and looks them up in a table that is shared and only read: short
 * calls and scattered memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parallel.h"

enum { SLOTS = 1 << 18, WORDS = SLOTS / 2, LOOKUPS = 16000000, WORD_MAX = 24 };

struct dictionary {
    char words[SLOTS][WORD_MAX];
    size_t lookups;
    uint64_t found;
};

static __attribute__((noinline)) void make_word(uint64_t number, char *word)
{
    size_t length = 6 + number % 12;
    for (size_t i = 0; i < length; i++, number = number * 31 + 7)
        word[i] = (char)('a' + (number >> 7) % 26);
    word[length] = 0;
}

static __attribute__((noinline)) uint64_t hash_word(const char *word)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *word; word++)
        hash = (hash ^ (uint8_t)*word) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

static __attribute__((noinline)) size_t find(const struct dictionary *dictionary, const char *word)
{
    size_t slot = hash_word(word) % SLOTS;
    while (dictionary->words[slot][0] && strcmp(dictionary->words[slot], word) != 0)
        slot = (slot + 1) % SLOTS;
    return slot;
}

static void look_up_slice(void *argument, unsigned part, unsigned parts)
{
    struct dictionary *dictionary = argument;
    uint64_t found = 0;
    size_t from, to;
    parallel_range(dictionary->lookups, part, parts, &from, &to);
    for (size_t i = from; i < to; i++) {
        char word[WORD_MAX];
        make_word(parallel_number(i) % (2 * WORDS), word);
        found += dictionary->words[find(dictionary, word)][0] != 0;
    }
    __atomic_fetch_add(&dictionary->found, found, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
    struct parallel_request request = parallel_read(argc, argv);
    struct dictionary *dictionary = calloc(1, sizeof *dictionary);
    if (!dictionary)
        return 1;
    for (size_t i = 0; i < WORDS; i++) {
        char word[WORD_MAX];
        make_word(i, word);
        memcpy(dictionary->words[find(dictionary, word)], word, WORD_MAX);
    }
    dictionary->lookups = (size_t)LOOKUPS * request.scale;
    parallel_run(request.threads, look_up_slice, dictionary);
    printf("%llu\n", (unsigned long long)dictionary->found);
    free(dictionary);
    return 0;
}
