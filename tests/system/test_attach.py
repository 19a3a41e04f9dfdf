"""Attaching to what runs: all threads, detaching by time or Ctrl-C, no trace left; whom it may not attach to; whom it follows."""
import os
import resource
import signal
import time

import tap
import tally
import truth
from terminal import Terminal


def threads_with_samples(profile):
    """Thread numbers that have samples, through the report by thread."""
    return {int(word) for line in profile.report("--flat", "--by", "thread", "--limit", "100000").splitlines()
            for word in line.replace("(", " ").replace(")", " ").split() if word.isdigit()}


def state(pid):
    """What a profiler could leave behind in a process."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        maps = file.read()
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        status = {line.split(":")[0]: line.split(":")[1].strip() for line in file if ":" in line}
    descriptors = sorted((name, os.readlink(f"/proc/{pid}/fd/{name}")) for name in os.listdir(f"/proc/{pid}/fd"))
    kept = {key: status[key] for key in ("TracerPid", "SigBlk", "SigIgn", "SigCgt", "Threads", "Seccomp") if key in status}
    return {"maps": maps, "status": kept, "descriptors": descriptors}


def attach(context, pids, options, name="profile", **extra):
    path = context.path(name)
    result = tally.run(context, [context.tally, "record", "-o", path, *options, "-p", ",".join(map(str, pids))], **extra)
    profile = tally.Profile(context, path)
    profile.errors = result.errors.decode()
    return result, profile


@tap.case
def all_threads_for_a_duration(context):
    process = tally.start_busy(context, "threads", "8", "--together", "--forever")
    before = state(process.pid)
    result, profile = attach(context, [process.pid], ["--duration", "1.5"])
    context.equal(result.status, 0, f"status ({profile.errors})")
    context.check(int(profile.meta()["duration_ns"]) >= 1.5e9, f"--duration 1.5 recorded {profile.meta()['duration_ns']} ns")
    context.equal(state(process.pid), before, "state of the target afterwards")
    context.check(process.poll() is None, "the target has ended")
    truth.check_stacks(context, profile, truth.claims(context.program("threads")), floor=20)
    working = {int(name) for name in os.listdir(f"/proc/{process.pid}/task")} - {process.pid}
    recorded = {row[0] for row in profile.rows("select tid from threads where pid = ?", (process.pid,))}
    context.check(working <= recorded, f"threads not in the profile: {working - recorded}")
    context.check(working <= threads_with_samples(profile), "threads without samples")


def has_no_first_thread(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return not file.read()


@tap.case
def first_thread_has_ended(context):
    """A zombie shows no mappings; the threads that outlive it do."""
    process = tally.start_busy(context, "threads", "2", "--together", "--forever", "--headless")
    context.check(tally.wait_for(lambda: has_no_first_thread(process.pid)), "the first thread lives")
    result, profile = attach(context, [process.pid], ["--duration", "1"])
    context.equal(result.status, 0, f"status ({profile.errors})")
    context.check(process.poll() is None, "the target has ended")
    truth.check_stacks(context, profile, truth.claims(context.program("threads")))


@tap.case
def several_processes(context):
    processes = [tally.start_busy(context) for _ in range(2)]
    result, profile = attach(context, [process.pid for process in processes], ["--duration", "0.8"])
    context.equal(result.status, 0, f"status ({profile.errors})")
    pids = {row[0] for row in profile.rows("select pid from threads")}
    context.check({process.pid for process in processes} <= pids, f"processes in the profile: {pids}")


@tap.case
def interrupt_detaches(context):
    process = tally.start_busy(context)
    before = state(process.pid)
    path = context.path("profile")
    terminal = Terminal([context.tally, "record", "-o", path, "-p", str(process.pid)], context.directory)
    time.sleep(1.0)
    terminal.type("\x03")
    context.equal(terminal.wait(10), 0, f"status ({terminal.seen!r})")
    terminal.close()
    context.check(process.poll() is None, "the target has ended")
    context.equal(state(process.pid), before, "state of the target afterwards")
    context.check("thread_busy" in tally.Profile(context, path).functions(), "thread_busy is not in the profile")


@tap.case
def terminate_detaches(context):
    process = tally.start_busy(context)
    recorder = tally.start(context, [context.tally, "record", "-o", context.path("profile"), "-p", str(process.pid)])
    time.sleep(1.0)
    recorder.send_signal(signal.SIGTERM)
    tally.finish(recorder, 10)
    context.check(process.poll() is None, "the target has ended")
    context.check("thread_busy" in tally.Profile(context, context.path("profile")).functions(), "thread_busy is not in the profile")


@tap.case
def killed_recorder_leaves_the_target(context):
    process = tally.start_busy(context)
    before = state(process.pid)
    recorder = tally.start(context, [context.tally, "record", "-o", context.path("profile"), "-p", str(process.pid)])
    time.sleep(1.3)
    recorder.kill()
    recorder.wait()
    context.check(process.poll() is None, "the target has ended")
    context.equal(state(process.pid), before, "state of the target afterwards")


@tap.case
def target_that_ends_by_itself(context):
    """Gone half-way: the recording ends with it, and what was seen is there."""
    process = tally.start(context, [context.program("ending"), "--seconds", "1.2", "exit", "3"])
    time.sleep(0.1)
    recorder = tally.start(context, [context.tally, "record", "-o", context.path("profile"), "-p", str(process.pid)])
    context.equal(process.wait(), 3, "status of the target")
    result = tally.finish(recorder)  # it has no --duration: it goes on until it sees that the target has ended
    context.equal(result.status, 0, f"status ({result.errors.decode()})")
    context.check("ending_busy" in tally.Profile(context, context.path("profile")).functions(), "ending_busy is not in the profile")


def cpu_seconds(pid):
    """What a process has used of the CPUs so far: whatever else runs here."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@tap.case
def one_of_two_is_killed(context):
    first, second = (tally.start_busy(context) for _ in range(2))
    recorder = tally.start(context, [context.tally, "record", "-o", context.path("profile"), "--duration", "1.6", "-p", f"{first.pid},{second.pid}"])
    time.sleep(0.6)
    first.kill()
    used = cpu_seconds(second.pid)
    time.sleep(0.5)  # well inside what is recorded after the death
    used = cpu_seconds(second.pid) - used
    result = tally.finish(recorder)
    context.equal(result.status, 0, f"status ({result.errors.decode()})")
    profile = tally.Profile(context, context.path("profile"))
    seconds = dict(profile.rows("select p.pid, sum(c.value) / 1e9 from data_cells c join data_threads t on t.id = c.thread "
                                "join data_processes p on p.id = t.process group by p.pid"))
    context.check(seconds.get(first.pid, 0) > 0, "no samples of the one that was killed")
    context.check(seconds.get(second.pid, 0) > used, f"{seconds} s of samples; the other used {used} s after the death alone")


@tap.case
def no_such_process(context):
    process = tally.start(context, ["true"])
    process.wait()
    other = tally.start_busy(context)
    for pids in ([process.pid], [4194000], [other.pid, 4194000]):
        result, _ = attach(context, pids, [])
        context.equal(result.status, 2, f"status ({result.errors.decode()})")
        context.equal(len(result.errors.splitlines()), 1, f"lines on stderr: {result.errors}")
        context.check(str(pids[-1]).encode() in result.errors, f"the pid is not named: {result.errors}")
        context.equal(os.listdir(context.directory), [], "left behind")


@tap.case
def not_permitted(context):
    """An unprivileged user and root's process: one line that names what forbids it, and the remedy; nothing is left."""
    tap.need_root()
    if not tally.reachable_by_nobody(context):
        raise tap.Skip("an unprivileged user cannot reach " + context.tally)
    process = tally.start_busy(context)
    os.chmod(context.directory, 0o777)
    result, _ = attach(context, [process.pid], [], **tally.as_nobody())
    context.equal(result.status, 2, f"status ({result.errors.decode()})")
    text = result.errors.decode()
    context.equal(len(text.splitlines()), 1, f"lines on stderr: {text}")
    context.check(any(word in text for word in ("perf_event_paranoid", "CAP_PERFMON", "CAP_SYS_PTRACE", "ptrace", "root")),
                  f"no setting is named: {text}")
    context.equal(os.listdir(context.directory), [], "left behind")
    context.check(process.poll() is None, "the target has ended")


@tap.case
def system_wide_not_permitted(context):
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="utf-8") as file:
        paranoid = int(file.read())
    if paranoid < 1:
        raise tap.Skip(f"perf_event_paranoid is {paranoid}: everybody may")
    options = {}
    if os.geteuid() == 0:
        if not tally.reachable_by_nobody(context):
            raise tap.Skip("an unprivileged user cannot reach " + context.tally)
        os.chmod(context.directory, 0o777)
        options = tally.as_nobody()
    result = tally.run(context, [context.tally, "record", "-o", context.path("profile"), "--duration", "0.5", "-a"], **options)
    context.equal(result.status, 2, f"status ({result.errors.decode()})")
    context.check(b"perf_event_paranoid" in result.errors, f"the setting is not named: {result.errors}")
    context.equal(os.listdir(context.directory), [], "left behind")


@tap.case
def children_are_followed(context):
    """A tree of 13 processes by fork and exec: every kind has its share."""
    path = context.program("tree")
    profile = tally.recorded(context, [path, "--seconds", "0.2", "2", "3"])
    seconds, whole = truth.shares(profile.output)
    for function, spent in seconds.items():
        share = profile.share_containing(function)
        context.check(abs(share - spent / whole) < 0.06, f"{function}: share {share:.3f}, truth {spent / whole:.3f}")
    context.check("processes 13" in profile.output, "the tree is not of 13 processes")
    pids = {row[0] for row in profile.rows("select pid from threads")}
    context.check(len(pids) >= 13, f"{len(pids)} processes in the profile")


@tap.case
def children_are_not_followed(context):
    profile = tally.recorded(context, [context.program("tree"), "--seconds", "0.3", "1", "2"], ["--no-follow"])
    functions = profile.functions()
    context.check("tree_root_busy" in functions, "the first process is not in the profile")
    context.check(not functions & {"tree_forked_busy", "tree_executed_busy"}, "children are in the profile")
    pids = {row[0] for row in profile.rows("select pid from threads")}
    context.equal(len(pids), 1, "processes in the profile")


@tap.case
def children_of_an_attached_process_are_followed(context):
    command = f"read line; '{context.program('ending')}' --seconds 0.8 exit 0"
    process = tally.start(context, ["sh", "-c", command + "; true"], stdin=-1)
    recorder = tally.start(context, [context.tally, "record", "-o", context.path("profile"), "-p", str(process.pid)])
    time.sleep(0.7)
    process.stdin.write(b"\n")
    process.stdin.close()
    process.stdin = None
    result = tally.finish(recorder)
    context.equal(result.status, 0, f"status ({result.errors.decode()})")
    context.check("ending_busy" in tally.Profile(context, context.path("profile")).functions(), "the child is not in the profile")


@tap.case
def threads_made_after_attaching(context):
    """Attached to a shell, which becomes another program, which makes threads."""
    command = f"read line; exec '{context.program('threads')}' --seconds 1.2 4 --together"
    process = tally.start(context, ["sh", "-c", command], stdin=-1)
    recorder = tally.start(context, [context.tally, "record", "-o", context.path("profile"), "-p", str(process.pid)])
    time.sleep(0.7)
    process.stdin.write(b"\n")
    process.stdin.close()
    process.stdin = None
    result = tally.finish(recorder)
    context.equal(result.status, 0, f"status ({result.errors.decode()})")
    profile = tally.Profile(context, context.path("profile"))
    truth.check_stacks(context, profile, truth.claims(context.program("threads")), floor=20)
    threads = profile.rows("select count(distinct tid) from threads where pid = ?", (process.pid,))[0][0]
    context.check(threads >= 4, f"{threads} of at least 4 threads are in the profile")


@tap.case
def whole_machine(context):
    tap.need_root()
    process = tally.start_busy(context)
    path = context.path("profile")
    result = tally.run(context, [context.tally, "record", "-o", path, "-a", "--duration", "3"])
    context.equal(result.status, 0, f"status ({result.errors.decode()})")
    profile = tally.Profile(context, path)
    truth.check_stacks(context, profile, truth.claims(context.program("threads")), floor=20)
    context.check(process.poll() is None, "the target has ended")


def cgroup_mount():
    with open("/proc/mounts", encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words[2] == "cgroup2":
                return words[1]
    raise tap.Skip("cgroup2 is not mounted")


@tap.case
def control_group(context):
    """Only what is in the group is recorded."""
    tap.need_root()
    group = os.path.join(cgroup_mount(), f"tally-test-{os.getpid()}")
    try:
        os.mkdir(group)
    except OSError as error:
        raise tap.Skip(f"no control group can be made: {error}") from None
    inside = tally.start_busy(context)
    outside = tally.start(context, [context.program("ending"), "--seconds", "4", "exit", "0"])
    try:
        with open(os.path.join(group, "cgroup.procs"), "w", encoding="utf-8") as file:
            file.write(str(inside.pid))
        path = context.path("profile")
        result = tally.run(context, [context.tally, "record", "-o", path, "--cgroup", group, "--duration", "1"])
        context.equal(result.status, 0, f"status ({result.errors.decode()})")
        profile = tally.Profile(context, path)
        truth.check_stacks(context, profile, truth.claims(context.program("threads")), floor=20)
        context.check("ending_busy" not in profile.functions(), "a process outside the group is in the profile")
    finally:
        inside.kill()
        inside.wait()
        outside.kill()
        tally.wait_for(lambda: remove_group(group), 5)


def remove_group(group):
    try:
        os.rmdir(group)
        return True
    except OSError:
        return False


def limited(soft, hard):
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))}


@tap.case
def many_threads_and_few_descriptors(context):
    """300 threads with a soft limit of 64 descriptors: it is raised, and every thread is seen."""
    process = tally.start_busy(context, "threads", "300", "--together", "--forever")
    result, profile = attach(context, [process.pid], ["--duration", "2"], **limited(64, 4096))
    context.equal(result.status, 0, f"status ({profile.errors})")
    truth.check_stacks(context, profile, truth.claims(context.program("threads")), floor=20)  # others run here too
    context.equal(profile.losses().get(18, 0), 0, "threads that could not be opened")


@tap.case
def more_threads_than_descriptors(context):
    """A hard limit of 200: what cannot be opened is counted, or it is refused with the reason; never silent."""
    process = tally.start_busy(context, "threads", "300", "--together", "--forever")
    result, profile = attach(context, [process.pid], ["--duration", "1"], **limited(64, 200))
    if result.status == 0:
        context.check("thread_busy" in profile.functions(), "no samples")
        seen = profile.losses().get(18, 0)
        context.note(f"{seen} threads could not be opened")
        tids = len(profile.rows("select distinct tid from threads"))
        context.check(seen > 0 or tids >= 300, f"{tids} threads in the profile, none counted as lost")
    else:
        context.equal(result.status, 2, "status")
        named = any(word in result.errors for word in (b"descriptor", b"RLIMIT_NOFILE", b"open files", b"mlock"))
        context.check(named, f"the limit is not named: {result.errors}")


@tap.case
def limits_of_a_launched_program(context):
    """Tally raises its own limit of descriptors, not the target's."""
    result = tally.record(context, ["sh", "-c", "ulimit -Sn; ulimit -Hn"], **limited(77, 999))
    context.equal(result.output.split(), [b"77", b"999"], "limits in the target")


tap.run()
