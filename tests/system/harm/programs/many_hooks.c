/* Calls every function of its tables, alone and once more in a second thread: the stubs of all are needed twice. */
#include <pthread.h>
#include <stdio.h>
typedef long function(long);
extern function *table_0[], *table_1[], *table_2[], *table_3[];
static function **const tables[] = {table_0, table_1, table_2, table_3};
static long sum;
__attribute__((noipa)) void *call_all(void *unused)
{
    for (int i = 0; i < 4; i++)
        for (function **at = tables[i]; *at; at++)
            sum += (*at)(i);
    return unused;
}
int main(void)
{
    pthread_t thread;
    call_all(0);
    pthread_create(&thread, 0, call_all, 0);
    pthread_join(thread, 0);
    printf("%ld\n", sum);
    return 0;
}
