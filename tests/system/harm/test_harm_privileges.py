"""Programs that have more privileges than who starts them, recorded by a plain user: the kernel takes them away from who is traced. Each
mode of recording tells that, and one that does not trace leaves them alone."""
import os
import shutil
import subprocess

import harm
import tally
import tap

MODES = {**harm.TIME, **harm.CALLS, **harm.AGENT, "all": harm.BOTH["all"]}
PLAIN = ["time"]  # traces nobody
NOBODY_WITHOUT_RIGHTS = b"user 65534 group 65534 binds 0\n"


def give_user(path):
    os.chmod(path, 0o4755)


def give_user_unread(path):
    os.chmod(path, 0o4711)


def give_group(path):
    os.chown(path, -1, 1)
    os.chmod(path, 0o2755)


def give_capability(path):
    tap.need("setcap")
    subprocess.run(["setcap", "cap_net_bind_service+ep", path], check=True)


KINDS = {"user": give_user, "unread": give_user_unread, "group": give_group, "capability": give_capability}


def programs(context, give):
    """(one that starts others, one that has privileges), which a plain user can reach."""
    tap.need_root()
    if not tally.reachable_by_nobody(context):
        raise tap.Skip("a plain user cannot run the command under test")
    plain, has = harm.Row("credentials", source="credentials.c").prepare(context)[0], context.path("has")
    os.chmod(context.directory, 0o777)
    shutil.copy(plain, has)
    give(has)
    if tally.run(context, [has], **tally.as_nobody()).output == NOBODY_WITHOUT_RIGHTS:
        raise tap.Skip("this file system, or this container, gives no privileges")
    return plain, has


def without(kind, name):
    def run(context):
        """Launched and started by another: what the program prints tells whether it has its privileges, and so does the profile."""
        plain, has = programs(context, KINDS[kind])
        row = harm.Row("credentials")
        for number, command in enumerate(([has], [plain, has])):
            alone = tally.run(context, command, **tally.as_nobody())
            result = tally.record(context, command, row.mode_options(MODES[name]), f"profile{number}", **tally.as_nobody())
            context.equal(result.status, alone.status, f"status ({result.text()})")
            lost = result.output != alone.output
            if name in PLAIN:
                context.check(not lost, f"it lost its privileges ({result.text()})")
            profile = tally.Profile(context, result.profile)
            context.equal(profile.losses().get(28, 0), int(lost), f"losses of {command} ({result.text()})")
            context.equal(b"without the privileges that its file gives" in result.errors, lost, f"the end tells it ({result.text()})")
            context.equal("without its privileges" in profile.report("-v"), lost, "the header tells it")
    run.__name__ = f"{kind}_{name}"
    tap.case(run)


for key in KINDS:
    for mode in MODES if harm.LONG or key == "user" else ["heap", "calls"]:
        without(key, mode)


@tap.case
def kept_under_root(context):
    """A tally that is root takes nothing from a program that a plain user starts."""
    plain, has = programs(context, give_user)
    start = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", plain, has]
    tap.need("setpriv")
    alone = tally.run(context, start)
    for name in ("calls", "heap", "all"):
        result = tally.record(context, start, [*MODES[name], "--no-time"], name)
        context.equal((result.status, result.output), (alone.status, alone.output), f"outcome in mode {name}")
        context.equal(tally.Profile(context, result.profile).losses().get(28, 0), 0, f"losses in mode {name}")


tap.run()
