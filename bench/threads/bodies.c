/* bodies.c - a cloud of bodies that attract each other: every step reads all positions and writes a slice of
 * them, with square roots in the innermost function and threads made anew at every step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "parallel.h"

enum { BODIES = 3072, STEPS = 30 };

struct body {
    double place[3], speed[3], mass;
};

struct cloud {
    struct body now[BODIES], next[BODIES];
};

static __attribute__((noinline)) void attract(const struct body *body, const struct body *other,
                                              double *force)
{
    double distance[3], square = 0.01;
    for (unsigned axis = 0; axis < 3; axis++) {
        distance[axis] = other->place[axis] - body->place[axis];
        square += distance[axis] * distance[axis];
    }
    double pull = other->mass / (square * sqrt(square));
    for (unsigned axis = 0; axis < 3; axis++)
        force[axis] += pull * distance[axis];
}

static __attribute__((noinline)) void move(struct cloud *cloud, size_t which)
{
    double force[3] = {0};
    for (size_t other = 0; other < BODIES; other++)
        attract(&cloud->now[which], &cloud->now[other], force);
    struct body *body = &cloud->next[which];
    *body = cloud->now[which];
    for (unsigned axis = 0; axis < 3; axis++) {
        body->speed[axis] += 1e-4 * force[axis];
        body->place[axis] += 1e-2 * body->speed[axis];
    }
}

static void move_slice(void *argument, unsigned part, unsigned parts)
{
    size_t from, to;
    parallel_range(BODIES, part, parts, &from, &to);
    for (size_t which = from; which < to; which++)
        move(argument, which);
}

static void place_all(struct cloud *cloud)
{
    for (size_t i = 0; i < BODIES; i++) {
        for (unsigned axis = 0; axis < 3; axis++)
            cloud->now[i].place[axis] = (double)(parallel_number(i * 4 + axis) % 1000) / 1000;
        cloud->now[i].mass = 1 + (double)(parallel_number(i * 4 + 3) % 8);
    }
}

int main(int argc, char **argv)
{
    struct parallel_request request = parallel_read(argc, argv);
    struct cloud *cloud = calloc(1, sizeof *cloud);
    if (!cloud)
        return 1;
    place_all(cloud);
    for (unsigned step = 0; step < request.scale * STEPS; step++) {
        parallel_run(request.threads, move_slice, cloud);
        for (size_t i = 0; i < BODIES; i++)
            cloud->now[i] = cloud->next[i];
    }
    double sum = 0;
    for (size_t i = 0; i < BODIES; i++)
        sum += cloud->now[i].place[0];
    printf("%.9f\n", sum);
    free(cloud);
    return 0;
}
