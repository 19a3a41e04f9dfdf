/* matrix.c - multiplies two matrices, a band of rows a thread, in blocks that fit the cache. */
#include <stdio.h>
#include <stdlib.h>

#include "parallel.h"

enum { BLOCK = 32 };

struct matrices {
    size_t size;
    const float *left, *right;
    float *product;
};

static __attribute__((noinline)) void multiply_block(const struct matrices *work, size_t row, size_t inner,
                                                     size_t column)
{
    size_t size = work->size;
    for (size_t k = inner; k < inner + BLOCK; k++) {
        float factor = work->left[row * size + k];
        for (size_t j = column; j < column + BLOCK; j++)
            work->product[row * size + j] += factor * work->right[k * size + j];
    }
}

static __attribute__((noinline)) void multiply_row(const struct matrices *work, size_t row)
{
    for (size_t inner = 0; inner < work->size; inner += BLOCK)
        for (size_t column = 0; column < work->size; column += BLOCK)
            multiply_block(work, row, inner, column);
}

static void multiply_band(void *argument, unsigned part, unsigned parts)
{
    const struct matrices *work = argument;
    size_t from, to;
    parallel_range(work->size, part, parts, &from, &to);
    for (size_t row = from; row < to; row++)
        multiply_row(work, row);
}

static float *make(size_t count, uint64_t seed)
{
    float *values = calloc(count, sizeof *values);
    if (!values)
        exit(1);
    for (size_t i = 0; seed && i < count; i++)
        values[i] = (float)(parallel_number(seed + i) % 16);
    return values;
}

int main(int argc, char **argv)
{
    struct parallel_request request = parallel_read(argc, argv);
    size_t size = 1024, count = size * size;
    struct matrices work = {size, make(count, 1), make(count, 1u << 30), make(count, 0)};
    for (unsigned round = 0; round < request.scale * 3; round++)
        parallel_run(request.threads, multiply_band, &work);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += work.product[i];
    printf("%.0f\n", sum);
    return 0;
}
