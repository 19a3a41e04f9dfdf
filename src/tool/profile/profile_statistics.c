#include "profile_statistics.h"

#include <math.h>

struct profile_interval profile_wilson(uint64_t hits, uint64_t samples)
{
    static const double Z = 1.959963984540054; /* 97.5 % quantile of the normal distribution */
    if (!samples)
        return (struct profile_interval){0, 1};
    double n = (double)samples, share = (double)hits / n, scale = 1 + Z * Z / n;
    double centre = (share + Z * Z / (2 * n)) / scale;
    double half = Z / scale * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n));
    double low = hits ? centre - half : 0, high = hits < samples ? centre + half : 1;
    return (struct profile_interval){low > 0 ? low : 0, high < 1 ? high : 1};
}

double profile_maximum_margin(uint64_t samples)
{
    double margin = samples ? 0.98 / sqrt((double)samples) : 1;
    return margin < 1 ? margin : 1;
}
