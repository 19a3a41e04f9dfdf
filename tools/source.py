"""What the checks share: the files of the tree, C text without comments and strings, and TAP output."""
import os
import re
import subprocess

NOISE = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
COMMENTS = re.compile(r"""/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL)


def files(root, directory, endings):
    """Paths below root/directory with one of the endings, relative to root, sorted; build directories are left out."""
    found = []
    for where, directories, names in os.walk(os.path.join(root, directory)):
        directories[:] = [name for name in directories if not name.startswith(("build", "."))]
        found += [os.path.relpath(os.path.join(where, name), root) for name in names if name.endswith(endings)]
    return sorted(found)


def tracked(root, endings):
    """Paths that git knows or would add, relative to root; every file below src, tests and bench where git is not."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return [path for directory in ("src", "tests", "bench") for path in files(root, directory, endings)]
    paths = [path for path in listing.split("\0") if path.endswith(endings)]
    return sorted(path for path in paths if os.path.exists(os.path.join(root, path)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as source:
        return source.read()


def without_comments(text):
    """The text with comments blanked and strings kept; line numbers stay."""
    return COMMENTS.sub(lambda match: match.group(1) or re.sub(r"[^\n]", " ", match.group(0)), text)


def bare(text):
    """The text with comments, strings and character constants blanked; line numbers stay."""
    return NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def print_tap(rules, root):
    """Runs rules, (description, function(root) -> list of complaints), as TAP; 0 if none complained."""
    print(f"1..{len(rules)}")
    failed = 0
    for number, (description, rule) in enumerate(rules, 1):
        complaints = rule(root)
        failed += bool(complaints)
        print(f"{'not ok' if complaints else 'ok'} {number} - {description}")
        for complaint in complaints:
            print(f"# {complaint}")
    return 1 if failed else 0
