/* Linked with a known build-id and with debug information, for test_image. */
static int zeroed[1000];

int fixture_answer(int question);

int fixture_answer(int question)
{
    return zeroed[question % 1000] + 42;
}

int main(void)
{
    return fixture_answer(0) - 42;
}
