/* page_picture.c - what tools/page-picture records: draws spheres by tracing rays, checks the picture, and counts its colours. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KEEP __attribute__((noinline, noipa))

enum { WIDTH = 480, HEIGHT = 360, SPHERES = 24, DEPTH = 4, COLOURS = 1 << 19 };

typedef struct {
    double x, y, z;
} vector;

typedef struct {
    vector centre, colour;
    double radius;
} sphere;

static sphere spheres[SPHERES];
static uint8_t image[HEIGHT][WIDTH][3];
static uint32_t colours[COLOURS];

static vector add(vector a, vector b, double times)
{
    return (vector){a.x + b.x * times, a.y + b.y * times, a.z + b.z * times};
}

static double dot(vector a, vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static vector unit(vector a)
{
    return add((vector){0, 0, 0}, a, 1 / sqrt(dot(a, a)));
}

KEEP static double intersect(const sphere *it, vector from, vector way)
{
    vector to = add(it->centre, from, -1);
    double middle = dot(to, way), inside = middle * middle - dot(to, to) + it->radius * it->radius;
    double near = inside < 0 ? -1 : middle - sqrt(inside);
    return near > 1e-6 ? near : INFINITY;
}

KEEP static const sphere *nearest(vector from, vector way, double *distance)
{
    const sphere *found = NULL;
    *distance = INFINITY;
    for (int i = 0; i < SPHERES; i++) {
        double here = intersect(&spheres[i], from, way);
        if (here < *distance) {
            *distance = here;
            found = &spheres[i];
        }
    }
    return found;
}

KEEP static int in_shadow(vector point, vector light)
{
    double distance;
    return nearest(point, light, &distance) != NULL;
}

KEEP static double highlight(vector normal, vector light, vector way)
{
    vector mirrored = add(light, normal, -2 * dot(light, normal));
    double angle = dot(mirrored, way);
    return angle > 0 ? pow(angle, 24.5) : 0;
}

static vector trace(vector from, vector way, int depth);

KEEP static vector shade(const sphere *it, vector point, vector way, int depth)
{
    vector light = unit((vector){-1, 2, -1.5}), normal = unit(add(point, it->centre, -1));
    double bright = dot(normal, light) > 0 && !in_shadow(point, light) ? dot(normal, light) : 0;
    vector colour = add((vector){0, 0, 0}, it->colour, 0.15 + 0.7 * bright);
    vector back = trace(point, add(way, normal, -2 * dot(way, normal)), depth + 1);
    return add(add(colour, back, 0.3), (vector){1, 1, 1}, bright > 0 ? highlight(normal, light, way) : 0);
}

KEEP static vector sky(vector way)
{
    double high = pow(0.5 + 0.5 * way.y, 1.5);
    return (vector){0.5 + 0.3 * high, 0.6 + 0.3 * high, 0.9};
}

KEEP static vector trace(vector from, vector way, int depth)
{
    double distance;
    const sphere *it = depth < DEPTH ? nearest(from, way, &distance) : NULL;
    return it ? shade(it, add(from, way, distance), way, depth) : sky(way);
}

KEEP static uint8_t gamma_of(double light)
{
    return (uint8_t)(255 * pow(fmin(fmax(light, 0), 1), 1 / 2.2));
}

KEEP static void render_row(int y)
{
    for (int x = 0; x < WIDTH; x++) {
        vector way = unit((vector){(x - WIDTH / 2.0) / HEIGHT, (HEIGHT / 2.0 - y) / HEIGHT, 1});
        vector colour = trace((vector){0, 0, -4}, way, 0);
        image[y][x][0] = gamma_of(colour.x);
        image[y][x][1] = gamma_of(colour.y);
        image[y][x][2] = gamma_of(colour.z);
    }
}

KEEP static void render(void)
{
    for (int y = 0; y < HEIGHT; y++)
        render_row(y);
}

KEEP static uint32_t checksum(const uint8_t *bytes, size_t length)
{
    uint32_t sum = ~0u;
    for (size_t i = 0; i < length; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
}

/* Whether the colour is new. */
KEEP static int keep_colour(uint32_t colour)
{
    uint32_t at = colour * 2654435761u >> 13;
    while (colours[at] && colours[at] != colour + 1)
        at = (at + 1) % COLOURS;
    int fresh = !colours[at];
    colours[at] = colour + 1;
    return fresh;
}

KEEP static size_t count_colours(void)
{
    size_t count = 0;
    memset(colours, 0, sizeof colours);
    for (int i = 0; i < HEIGHT * WIDTH; i++) {
        const uint8_t *pixel = image[i / WIDTH][i % WIDTH];
        count += (size_t)keep_colour((uint32_t)(pixel[0] << 16 | pixel[1] << 8 | pixel[2]));
    }
    return count;
}

KEEP static void move_spheres(int frame)
{
    for (int i = 0; i < SPHERES; i++) {
        double at = i * 2.4 + frame * 0.1;
        spheres[i] = (sphere){{cos(at) * (1 + i * 0.06), sin(at * 1.3), 2 + sin(at)},
                              {0.5 + 0.5 * sin(i), 0.5 + 0.5 * sin(i + 2), 0.5 + 0.5 * sin(i + 4)},
                              0.25 + 0.01 * i};
    }
}

int main(void)
{
    size_t seen = 0;
    uint32_t sum = 0;
    for (int frame = 0; frame < 40; frame++) {
        move_spheres(frame);
        render();
        sum ^= checksum(image[0][0], sizeof image);
        seen += count_colours();
    }
    printf("%08x, %zu colours\n", sum, seen);
    return 0;
}
