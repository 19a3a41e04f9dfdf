"""The little statistics the tests need. Bounds are chosen for false alarms below one in ten thousand."""
import math

Z_95 = 1.959964


def two_shares_differ(hits_a, samples_a, hits_b, samples_b, z=4.3):
    """Whether two sampled shares differ by more than chance allows (two-sided, 2e-5)."""
    p, q = hits_a / samples_a, hits_b / samples_b
    pooled = min(1.0, (hits_a + hits_b) / (samples_a + samples_b))
    deviation = math.sqrt(pooled * (1 - pooled) * (1 / samples_a + 1 / samples_b))
    return abs(p - q) > z * deviation + 1e-9


def chi_square_bounds(degrees, false_alarm=1e-5):
    """(low, high) that a chi-square value leaves with this probability on each side (Wilson and Hilferty's cube root)."""
    z = inverse_normal(1 - false_alarm)
    term = 2 / (9 * degrees)
    return (degrees * max(0.0, 1 - term - z * math.sqrt(term)) ** 3, degrees * (1 - term + z * math.sqrt(term)) ** 3)


def inverse_normal(probability):
    """By bisection; speed does not matter."""
    low, high = -10.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        if 0.5 * math.erfc(-middle / math.sqrt(2)) < probability:
            low = middle
        else:
            high = middle
    return low
