/* plt_callee - the empty function that plt calls. */
long plt_callee(long value);

long plt_callee(long value)
{
    return value;
}
