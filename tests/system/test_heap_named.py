"""Functions that allocate under other names: what a program has from pools of its own, each block once."""
import tally
import tap

NAMES = """# the shop's own
shop_alloc = malloc
shop_zeros=calloc
  shop_resize@pool_* = realloc

shop_release = free
shop_aligned = posix_memalign
arena_g?t = pool-malloc
arena_zeros = pool-calloc
arena_resize = pool-realloc
arena_put = pool-free
Store::get(unsigned long) = pool-malloc
Store::put(*)@pool_truth* = pool-free
"""
COUNTERS = ("heap.total", "heap.count", "heap.live", "heap.live.count")
ABSENT = "SELECT coalesce(sum(count), 0) FROM losses WHERE number = 54"


def own(profile, counter):
    """What the functions own_* have of a counter with all below them, but for the pools' own calls."""
    return profile.rows(
        "SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
        " JOIN data_strings s ON s.id = k.name JOIN data_frames f ON f.node = c.node"
        f" WHERE s.text = '{counter}' AND f.function GLOB 'own_*'")[0][0]


def names(context, text=NAMES):
    path = context.path("names")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def counted(context, program="pool_truth", options=()):
    path = names(context)
    profile = tally.recorded(context, [context.program(program)], ["--no-time", "--alloc-functions", path, *options])
    truth = tuple(int(word) for word in profile.output.split())
    context.equal(tuple(own(profile, name) for name in COUNTERS), truth, "bytes, blocks, live bytes and blocks")
    context.equal(profile.rows(ABSENT), [(0,)], "names that nothing has")
    others = profile.rows("SELECT count(*) FROM data_frames f JOIN data_cells c ON c.node = f.node WHERE f.function = 'take'")[0][0]
    context.equal(others, 0, "what pools have from malloc")
    return profile


@tap.case
def pools(context):
    counted(context, options=["--heap"])


@tap.case
def static_program(context):
    counted(context, "pool_truth_static", ["--heap"])


@tap.case
def with_everything(context):
    counted(context, options=["--heap", "--calls", "--throws"])


@tap.case
def timed_inside(context):
    """What a pool has from malloc is not counted among the calls of a malloc that is timed, which is a loss."""
    calls, losses = [], []
    for options in ([], ["--heap", "--alloc-functions", names(context)]):
        profile = tally.recorded(context, [context.program("pool_truth")], ["--no-time", "--function", "malloc", *options])
        calls.append(sum(row["self"] for row in profile.flat("function.calls").values()))
        losses.append(profile.losses().get(62, 0))
    context.check(losses[0] == 0 and losses[1] > 0 and calls[1] > 0, f"losses {losses}, calls {calls}")
    context.equal(calls[0], calls[1] + losses[1], "calls of malloc")


@tap.case
def with_overhead(context):
    """A pool cannot be asked what its blocks take: they count as requested, which is said."""
    path = names(context)
    for kind, part in (("include", 1), ("delta", 0)):
        profile = tally.recorded(context, [context.program("pool_truth_static")],
                                 ["--no-time", "--heap", f"--heap-overhead={kind}", "--alloc-functions", path])
        live = int(profile.output.split()[2])
        context.equal(own(profile, "heap.live"), live * part, f"{kind}: live bytes")
        context.check("pool_truth_static has no malloc_usable_size" in profile.errors, profile.errors)


@tap.case
def names_that_nothing_has(context):
    """Reported with file and line, and counted; what else is named counts."""
    path = names(context, NAMES + "nobody_has_it = malloc\nshop_alloc@libnone.so* = free\n")
    profile = tally.recorded(context, [context.program("pool_truth")], ["--no-time", "--heap", "--alloc-functions", path])
    context.equal(profile.rows(ABSENT), [(2,)], "names that nothing has")
    context.equal(own(profile, "heap.count"), int(profile.output.split()[1]), "blocks")
    line = NAMES.count("\n") + 1
    context.check(f"names:{line}: no function nobody_has_it was found in any image" in profile.errors, profile.errors)


tap.run()
