/* Words that a shell reads back as they were: known answers, and /bin/sh as the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_quote.h"

static void known_words(void **state)
{
    (void)state;
    static const struct {
        const char *word, *quoted;
    } cases[] = {{"plain", "plain"}, {"a/b_c-d.e=f:g,+@%^", "a/b_c-d.e=f:g,+@%^"},
                 {"", "''"},         {"two words", "'two words'"},
                 {"$x", "'$x'"},     {"it's", "'it'\\''s'"},
                 {"'", "''\\'''"},   {"~", "'~'"},
                 {"a\nb", "'a\nb'"}, {"\xc3\xa9", "'\xc3\xa9'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_text line = {0};
        base_quote_word(&line, cases[i].word);
        assert_string_equal(base_text_string(&line), cases[i].quoted);
        base_text_free(&line);
    }
}

static void blanks_between(void **state)
{
    (void)state;
    struct base_text line = {0};
    base_quote_word(&line, "echo");
    base_quote_word(&line, "");
    base_quote_word(&line, "x y");
    assert_string_equal(base_text_string(&line), "echo '' 'x y'");
    base_text_free(&line);
}

static void special_characters(void **state)
{
    (void)state;
    struct base_text text = {0};
    base_quote_inside(&text, "a:b'c\\", ":\\");
    assert_string_equal(base_text_string(&text), "a\\:b'\\''c\\\\");
    base_text_free(&text);
}

/* Every byte but zero, and each pair with a quote. */
static void a_shell_reads_them_back(void **state)
{
    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        const char word[] = {'a', (char)byte, '\'', (char)byte, 0};
        struct base_text line = {0};
        char got[16] = "";
        base_quote_word(&line, "printf");
        base_quote_word(&line, "%s.");
        base_quote_word(&line, word);
        FILE *shell = popen(base_text_string(&line), "r");
        assert_non_null(shell);
        size_t length = fread(got, 1, sizeof got - 1, shell);
        assert_int_equal(pclose(shell), 0);
        assert_int_equal(length, strlen(word) + 1);
        assert_memory_equal(got, word, strlen(word));
        base_text_free(&line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_words), cmocka_unit_test(blanks_between),
                                       cmocka_unit_test(special_characters),
                                       cmocka_unit_test(a_shell_reads_them_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
