"""Real programs that Debian ships, with real work for a few seconds; every input is made here, from a fixed seed."""
import os
import random
import subprocess

import tap

LUA = """
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local words = {}
for i = 1, 60000 do words[i] = string.format("%07d", (i * 7919) % 1000003) end
for round = 1, ROUNDS do
    table.sort(words, function(a, b) if round % 2 == 0 then return a < b end return a > b end)
    local text = table.concat(words, " ", 1, 20000)
    text = text:gsub("%d(%d)", "%1x")
    print(round, fib(24), #text, words[1])
end
"""

SQL = """
pragma cache_size = 5000;
create table item(id integer primary key, kind integer, name text, price real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < ROWS)
  insert into item select i, i % 97, 'item ' || (i * 7919 % 100003), i * 1.25 from n;
create index by_name on item(name);
create index by_kind on item(kind, price);
select kind, count(*), sum(price), max(name) from item group by kind order by 3 desc limit 7;
select count(*) from item a join item b on a.name = b.name where a.kind < 40;
update item set price = price * 1.1 where kind % 3 = 0;
select total(price), avg(length(name)) from item where name like '%9%';
delete from item where kind in (select kind from item group by kind order by max(price) limit 30);
select count(*), sum(id) from item;
"""

PYTHON = """
import json, re
class Point:
    def __init__(self, x, y): self.x, self.y = x, y
    def __add__(self, other): return Point(self.x + other.x, self.y + other.y)
    def key(self): return (self.x * 31 + self.y) % 1009
for turn in range(ROUNDS):
    points = [Point(i * 7919 % 1000, i) for i in range(20000)]
    points.sort(key=Point.key)
    total = Point(0, 0)
    for point in points: total = total + point
    text = json.dumps([[p.x, p.y] for p in points[:5000]])
    numbers = sum(int(n) for n in re.findall(r"\\d+", text)) + len(json.loads(text))
    print(turn, total.x, total.y, numbers)
"""

HEADERS = ("stdio.h", "stdlib.h", "string.h", "math.h", "unistd.h", "signal.h", "pthread.h", "time.h", "sys/socket.h", "sys/stat.h")


def write(context, name, data):
    path = context.path(name)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def text_file(context, megabytes, name="text"):
    """Text-like bytes: words of a small vocabulary, so that compressors have real work."""
    source = random.Random(20261122)
    vocabulary = ["".join(source.choice("etaoinshrdlucm") for _ in range(source.randint(2, 9))) for _ in range(4000)]
    block = " ".join(source.choice(vocabulary) for _ in range(170000)).encode()[: 1 << 20]
    blocks = []
    for number in range(megabytes):
        start = (number * 337331) % len(block)
        blocks.append(b"%d " % number + block[start:] + block[:start][::-1])
    return write(context, name, b"".join(blocks))


C_FUNCTIONS = """
struct item_{i} {{ struct item_{i} *next; char *name; int kind, count; double weight; }};
static struct item_{i} *find_{i}(struct item_{i} *list, const char *name) {{
    for (; list; list = list->next) if (list->kind == {k} && !strcmp(list->name, name)) return list;
    return NULL;
}}
int add_{i}(struct item_{i} **list, const char *name, int count) {{
    struct item_{i} *item = find_{i}(*list, name);
    if (!item) {{
        item = calloc(1, sizeof *item);
        if (!item || !(item->name = strdup(name))) {{ free(item); return -{i}; }}
        item->kind = {k}; item->next = *list; *list = item;
    }}
    item->count += count; item->weight = item->weight * 0.5 + count / {i}.25;
    return item->count;
}}
char *show_{i}(const struct item_{i} *list, char *out, size_t size) {{
    size_t used = 0;
    out[0] = 0;
    while (list && used < size) {{
        int n = snprintf(out + used, size - used, "%s=%d:%g\\n", list->name, list->count, sqrt(list->weight));
        if (n < 0) return NULL;
        used += (size_t)n; list = list->next;
    }}
    return out;
}}
int scan_{i}(const char *s, struct item_{i} **list) {{
    char word[{w}]; int n = 0, total = 0;
    for (;; s++) {{
        if (*s == ',' || !*s) {{
            word[n] = 0;
            if (n) total += add_{i}(list, word, n * {k});
            n = 0;
            if (!*s) return total;
        }} else if (n < {w} - 1 && *s > ' ') word[n++] = *s;
    }}
}}"""


def c_file(context, functions, name="big.c"):
    """A C file that takes a compiler a while, of plain functions, preprocessed by gcc."""
    lines = [f"#include <{header}>" for header in HEADERS]
    lines += [C_FUNCTIONS.format(i=i, k=i % 7 + 1, w=i % 50 + 14) for i in range(functions)]
    source = write(context, "source_" + name, "\n".join(lines) + "\n")
    path = context.path(name)
    subprocess.run(["gcc", "-E", "-P", "-o", path, source], check=True)
    return path


def cc1():
    tap.need("gcc")
    found = subprocess.run(["gcc", "-print-prog-name=cc1"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    if not os.path.isabs(found):
        raise tap.Skip("gcc has no cc1")
    return found


def bzip2(context, size=18):
    tap.need("bzip2")
    return ["/usr/bin/bzip2", "-k", "-c", "-9", text_file(context, size)]


def xz(context, size=6):
    tap.need("xz")
    return ["/usr/bin/xz", "-k", "-c", "-T2", "--block-size=1MiB", "-4", text_file(context, size)]


def lua(context, rounds=24):
    tap.need("lua5.4")
    return ["/usr/bin/lua5.4", write(context, "work.lua", LUA.replace("ROUNDS", str(rounds)))]


def sqlite(context, rows=450000):
    tap.need("sqlite3")
    return ["/usr/bin/sqlite3", ":memory:", ".read " + write(context, "work.sql", SQL.replace("ROWS", str(rows)))]


def python(context, rounds=80):
    if not os.path.exists("/usr/bin/python3"):
        raise tap.Skip("no /usr/bin/python3")
    return ["/usr/bin/python3", "-I", write(context, "work.py", PYTHON.replace("ROUNDS", str(rounds)))]


def compiler(context, functions=300):
    """At -O1: at -O2 some 0.5 % of cc1's stacks are larger than the 64 KB that the kernel can copy, and change too fast
    to be read from the process a moment later."""
    return [cc1(), "-quiet", "-O1", "-fpreprocessed", c_file(context, functions), "-o", context.path("big.s")]


REAL = {"bzip2": bzip2, "lua5.4": lua, "sqlite3": sqlite, "python3": python, "xz": xz, "cc1": compiler}
