"""Targets that are not where their paths say: other mount and pid namespaces, deleted and replaced files."""
import os
import re
import shutil
import subprocess
import time

import tap
import tally
import truth


def attach(context, pid, seconds="1"):
    path = context.path("profile")
    result = tally.run(context, [context.tally, "record", "-o", path, "--duration", seconds, "-p", str(pid)])
    context.equal(result.status, 0, f"status ({result.errors.decode()})")
    return tally.Profile(context, path)


def check_recursion(context, profile, arguments=("30",)):
    truth.check_stacks(context, profile, truth.claims(context.program("recursion"), arguments), floor=20)


def started_copy(context, name="copy"):
    """A copy of the program, working; its path."""
    path = context.path(name)
    shutil.copy(context.program("recursion"), path)
    process = tally.start(context, [path, "--seconds", "60", "30"])
    tally.wait_for(lambda: os.path.basename(os.readlink(f"/proc/{process.pid}/exe")) == name)
    time.sleep(0.05)
    return process, path


@tap.case
def deleted_program(context):
    process, path = started_copy(context)
    os.unlink(path)
    try:
        os.listdir(f"/proc/{process.pid}/map_files")
        os.stat(os.path.join(f"/proc/{process.pid}/map_files", os.listdir(f"/proc/{process.pid}/map_files")[0]))
    except OSError:
        raise tap.Skip("map_files of a process cannot be followed (needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE)") from None
    check_recursion(context, attach(context, process.pid))


@tap.case
def deleted_while_recording(context):
    path = context.path("copy")
    shutil.copy(context.program("recursion"), path)
    profile = tally.recorded(context, ["sh", "-c", f"{path} --seconds 1.2 30 & sleep 0.4; rm {path}; wait"])
    check_recursion(context, profile)


@tap.case
def replaced_program(context):
    """Another program now lies at the path: its names must not be used."""
    tap.need_root()
    process, path = started_copy(context)
    shutil.copy(context.program("chain"), path + ".new")
    os.rename(path + ".new", path)
    profile = attach(context, process.pid)
    check_recursion(context, profile)
    context.check(not any(name.startswith("chain_") for name in profile.functions()), "names of the wrong program")


@tap.case
def replaced_while_recording(context):
    """Replaced between the recording's start and its end, when names are looked up."""
    path, other = context.path("copy"), context.program("chain")
    shutil.copy(context.program("recursion"), path)
    script = f"{path} --seconds 1.2 30 & sleep 0.4; cp {other} {path}.new; mv {path}.new {path}; wait"
    profile = tally.recorded(context, ["sh", "-c", script])
    check_recursion(context, profile)
    context.check(not any(name.startswith("chain_") for name in profile.functions()), "names of the wrong program")


CONTAINER = """
mount -t tmpfs tally-test "$1" || exit 77
cp "$2" "$1/inside" || exit 1
exec "$1/inside" --seconds "$3" 30
"""


def container(context, seconds):
    tap.need_root()
    tap.need("unshare", "mount")
    private = context.path("private")
    os.makedirs(private, exist_ok=True)
    probe = subprocess.run(["unshare", "-m", "-p", "-f", "--mount-proc", "true"], check=False, stderr=subprocess.PIPE)
    if probe.returncode != 0:
        raise tap.Skip("no namespaces can be made: " + probe.stderr.decode().strip())
    return ["unshare", "-m", "-p", "-f", "--mount-proc", "--propagation", "private", "--kill-child", "sh", "-c", CONTAINER, "sh", private,
            context.program("recursion"), seconds]


@tap.case
def launched_in_other_namespaces(context):
    profile = tally.recorded(context, container(context, "1"))
    check_recursion(context, profile)


@tap.case
def attached_in_other_namespaces(context):
    """The program is in a file system that only it can see, and has another pid there."""
    process = tally.start(context, container(context, "60"))

    def child():
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            return file.read().split()

    def inside():
        return [pid for pid in child() if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "inside"]

    if not tally.wait_for(inside, 10):
        raise AssertionError("the target did not begin")
    context.check(not os.path.exists(context.path("private/inside")), "its file can be seen from outside")
    check_recursion(context, attach(context, int(inside()[0])))


def copy_into(root, path):
    """A file at the same place below another root."""
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    shutil.copy(path, root + path)


@tap.case
def debug_files_below_another_root(context):
    """A stripped program in a chroot: its functions have the names that its debug file there gives them."""
    tap.need_root()
    tap.need("objcopy", "readelf", "ldd", "chroot")
    root, program = context.path("root"), context.program("recursion")
    os.makedirs(root)
    stripped, debug = context.path("stripped"), context.path("debug")
    build_id = re.search("Build ID: ([0-9a-f]+)", tally.run(context, ["readelf", "-n", program]).output.decode())
    if not build_id:
        raise tap.Skip("the compiler gives no build-id")
    tally.run(context, ["objcopy", "--strip-all", program, stripped])
    tally.run(context, ["objcopy", "--only-keep-debug", program, debug])
    directory = f"{root}/usr/lib/debug/.build-id/{build_id.group(1)[:2]}"
    os.makedirs(directory)
    shutil.copy(debug, f"{directory}/{build_id.group(1)[2:]}.debug")
    shutil.copy(stripped, root + "/program")
    for library in re.findall(r"(/\S+) \(0x", tally.run(context, ["ldd", program]).output.decode()):
        copy_into(root, library)
    profile = tally.recorded(context, ["chroot", root, "/program", "--seconds", "1", "30"])
    check_recursion(context, profile)


@tap.case
def working_directory_and_relative_path(context):
    """A program started by a relative path from a directory that tally is not in."""
    directory = context.path("directory")
    os.mkdir(directory)
    shutil.copy(context.program("recursion"), os.path.join(directory, "copy"))
    check_recursion(context, tally.recorded(context, ["sh", "-c", "cd directory && ./copy --seconds 0.5 30"]))


@tap.case
def odd_names(context):
    """Spaces, quotes, semicolons and a line's end in the name of a program."""
    for number, name in enumerate(("a b 'c' \"d\"", "semi;colon", "line\nend", "(deleted)")):
        path = context.path(name)
        shutil.copy(context.program("recursion"), path)
        profile = tally.recorded(context, [path, "--seconds", "0.3", "30"], name=f"profile{number}")
        check = profile.share_containing("recursion_leaf")
        context.check(check > 0.9, f"{name!r}: {check:.2f} of the samples are named")
        profile.report()
        profile.report("--json")


tap.run()
