#include "proc_sockets.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"

enum { LISTENING = 10 /* TCP_LISTEN */, WORD_DIGITS = 8, LINE = 512, SOCKETS_MOST = 1 << 20 };

/* --- lines --- */

/* Words of an address are in the machine's byte order, each of eight digits; then ":port". */
static bool read_socket_address(const char *text, bool six, char *out, size_t size, bool *any)
{
    uint32_t words[4] = {0};
    char shown[INET6_ADDRSTRLEN];
    size_t count = six ? 4 : 1;
    for (size_t i = 0; i < count; i++) {
        char digits[WORD_DIGITS + 1] = "";
        if (strlen(text) < WORD_DIGITS)
            return false;
        memcpy(digits, text, WORD_DIGITS);
        words[i] = (uint32_t)strtoul(digits, NULL, 16);
        text += WORD_DIGITS;
    }
    if (*text != ':' || !inet_ntop(six ? AF_INET6 : AF_INET, words, shown, sizeof shown))
        return false;
    unsigned long port = strtoul(text + 1, NULL, 16);
    *any = !port && !(words[0] | words[1] | words[2] | words[3]);
    snprintf(out, size, six ? "[%s]:%lu" : "%s:%lu", shown, port);
    return true;
}

bool proc_sockets_line(const char *line, const char *kind, bool six, struct proc_socket *found)
{
    char local[48], remote[48], here[INET6_ADDRSTRLEN + 16], there[INET6_ADDRSTRLEN + 16];
    unsigned state;
    unsigned long long inode;
    bool none, unconnected;
    if (sscanf(line, " %*u: %47s %47s %x %*s %*s %*s %*u %*u %llu", local, remote, &state, &inode) != 4 ||
        !inode || !read_socket_address(local, six, here, sizeof here, &none) ||
        !read_socket_address(remote, six, there, sizeof there, &unconnected))
        return false;
    *found = (struct proc_socket){.inode = inode, .kind = kind};
    if (!strcmp(kind, "tcp") && state == LISTENING)
        snprintf(found->name, sizeof found->name, "%s listening", here);
    else if (unconnected)
        snprintf(found->name, sizeof found->name, "%s", here);
    else
        snprintf(found->name, sizeof found->name, "%s <-> %s", here, there);
    return true;
}

bool proc_sockets_line_unix(const char *line, struct proc_socket *found)
{
    unsigned long long inode;
    char path[sizeof found->name - 16] = "";
    unsigned flags;
    const unsigned accepts = 1 << 16; /* __SO_ACCEPTCON */
    int read = sscanf(line, "%*x: %*x %*x %x %*x %*x %llu %143[^\n]", &flags, &inode, path);
    _Static_assert(sizeof path == 144, "as many as sscanf may write");
    if (read < 2 || !inode)
        return false;
    *found = (struct proc_socket){.inode = inode, .kind = "unix"};
    snprintf(found->name, sizeof found->name, "%s%s", path, flags & accepts ? " listening" : "");
    return true;
}

/* --- tables --- */

static int by_inode(const void *a, const void *b)
{
    uint64_t x = ((const struct proc_socket *)a)->inode, y = ((const struct proc_socket *)b)->inode;
    return (x > y) - (x < y);
}

static void read_socket_table(struct proc_sockets *sockets, pid_t pid, const char *table, const char *kind,
                              bool six)
{
    char path[64], line[LINE];
    snprintf(path, sizeof path, "/proc/%d/net/%s", (int)pid, table);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file) && sockets->count < SOCKETS_MOST) {
        struct proc_socket found;
        if (!(*kind == 'u' && kind[1] == 'n' ? proc_sockets_line_unix(line, &found)
                                             : proc_sockets_line(line, kind, six, &found)))
            continue;
        if (!base_array_room(sockets->items, sockets->count, sockets->capacity))
            break;
        sockets->items[sockets->count++] = found;
    }
    if (file)
        fclose(file);
}

void proc_sockets_read(struct proc_sockets *sockets, pid_t pid)
{
    static const struct {
        const char *table, *kind;
        bool six;
    } tables[] = {{"tcp", "tcp", false}, {"tcp6", "tcp", true}, {"udp", "udp", false},
                  {"udp6", "udp", true}, {"raw", "raw", false}, {"unix", "unix", false}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        read_socket_table(sockets, pid, tables[i].table, tables[i].kind, tables[i].six);
    if (sockets->count)
        qsort(sockets->items, sockets->count, sizeof *sockets->items, by_inode);
}

const struct proc_socket *proc_sockets_find(const struct proc_sockets *sockets, uint64_t inode)
{
    const struct proc_socket key = {.inode = inode};
    return sockets->count ? bsearch(&key, sockets->items, sockets->count, sizeof *sockets->items, by_inode)
                          : NULL;
}

void proc_sockets_free(struct proc_sockets *sockets)
{
    free(sockets->items);
    *sockets = (struct proc_sockets){0};
}
