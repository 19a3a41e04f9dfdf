extern int asked(int);
int (*volatile late_table[2])(int) = {asked, asked};
__attribute__((noipa)) int taker_own(int x)
{
    return x + 1;
}
long run_taker(int rounds)
{
    long sum = 0;
    for (int i = 0; i < rounds; i++)
        sum += late_table[i & 1](i) + taker_own(i);
    return sum;
}
