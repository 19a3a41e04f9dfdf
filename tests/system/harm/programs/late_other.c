__attribute__((noipa)) int other_own(int x)
{
    return x + 2;
}
long run_other(int rounds)
{
    long sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += other_own(i);
    return sum;
}
