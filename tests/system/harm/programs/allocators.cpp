/* Every way to a block and back, with the function that belongs to it: debugging allocators end a program that mixes them. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <poll.h>
#include <string>

static unsigned long round_of_all(void)
{
    unsigned long sum = 0;
    std::string *one = new std::string(1000, 'x');
    std::string *many = new std::string[3];
    char *quiet = new (std::nothrow) char;
    char *quiet_many = new (std::nothrow) char[50];
    char *grown = static_cast<char *>(realloc(malloc(10), 1000));
    void *aligned = nullptr;
    char *text = nullptr, *copy = strdup("copy");
    struct alignas(128) wide {
        char bytes[256];
    } *over = new wide;
    sum += one->size() + many[2].size() + strlen(copy) + (posix_memalign(&aligned, 256, 100) == 0);
    sum += static_cast<unsigned long>(asprintf(&text, "%d", 12345));
    delete one;
    delete[] many;
    delete quiet;
    delete[] quiet_many;
    delete over;
    free(grown);
    free(aligned);
    free(text);
    free(copy);
    free(reallocarray(nullptr, 3, 30));
    free(calloc(3, 30));
    return sum;
}

int main()
{
    struct pollfd input = {0, POLLIN, 0};
    unsigned long sum = round_of_all();
    for (int i = 0; i < 200; i++)
        sum = round_of_all();
    printf("begun %lu\n", sum);
    fflush(stdout);
    while (poll(&input, 1, 1) == 0)
        sum = round_of_all();
    printf("done %lu\n", sum);
    return 0;
}
