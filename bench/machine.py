"""The machine and the versions that figures belong to."""
import datetime
import os
import re
import subprocess


def output_of(command):
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip()


def field(path, pattern, missing="unknown"):
    try:
        with open(path, encoding="utf-8", errors="replace") as text:
            found = re.search(pattern, text.read(), re.MULTILINE)
    except OSError:
        return missing
    return found.group(1).strip().strip('"') if found else missing


def load():
    """How busy the machine is with other things, in processors: a figure measured on a busy machine says so."""
    return os.getloadavg()[0]


def is_virtual():
    return "hypervisor" in field("/proc/cpuinfo", r"^flags\s*: (.*)$", "")


def describe(build):
    """Lines for the head of RESULTS.md."""
    kernel = os.uname()
    memory = int(field("/proc/meminfo", r"^MemTotal:\s*(\d+)", "0")) / 2**20
    return {
        "machine": f"{os.cpu_count()} CPUs, {memory:.0f} GB, {kernel.machine}" + (", virtual" if is_virtual() else ""),
        "CPU": field("/proc/cpuinfo", r"^model name\s*: (.*)$"),
        "kernel": f"Linux {kernel.release}",
        "distribution": field("/etc/os-release", r"^PRETTY_NAME=(.*)$"),
        "compiler": output_of(["gcc", "--version"]).split("\n")[0],
        "tally": output_of([os.path.join(build, "tally"), "--version"]),
        "perf": output_of(["perf", "--version"]),
    }


def today():
    return datetime.date.today().isoformat()
