#!/usr/bin/python3
"""build.py SOURCE DIRECTORY OUTPUT - builds the page in DIRECTORY and writes it to OUTPUT as C (src/tool/export/export_html.h).

npm installs what package-lock.json pins into DIRECTORY, once. Where node or npm is missing, too old or has no network, the page
is empty: tally is built all the same, and its export says that it has none. `ninja` tries again when the output is removed."""
import hashlib
import os
import re
import shutil
import subprocess
import sys

MARK = "<!--tally-data-->"
INSTALL = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]


class Missing(Exception):
    """Why there is no page; what a build can go on without."""


def find_tools():
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise Missing(f"{tool} is not installed (make setup installs it)")
    version = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    if int(re.match(r"v(\d+)", version)[1]) < 18:
        raise Missing(f"node is {version}; it takes 18")


def copy(source, directory):
    """Everything but what npm keeps there is as in the source."""
    os.makedirs(directory, exist_ok=True)
    shutil.rmtree(os.path.join(directory, "src"), ignore_errors=True)
    shutil.copytree(os.path.join(source, "src"), os.path.join(directory, "src"))
    for name in ("package.json", "package-lock.json", "tsconfig.json", "vite.config.js", "index.html"):
        shutil.copy(os.path.join(source, name), directory)


def install(directory):
    with open(os.path.join(directory, "package-lock.json"), "rb") as stream:
        wanted = hashlib.sha256(stream.read()).hexdigest()
    stamp = os.path.join(directory, "node_modules", ".tally-stamp")
    if os.path.exists(stamp) and open(stamp, encoding="ascii").read() == wanted:
        return
    try:
        done = subprocess.run(INSTALL, cwd=directory, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired as error:
        raise Missing("npm did not come to an end") from error
    if done.returncode:
        raise Missing("npm could not install it: " + done.stdout.decode(errors="replace").replace("npm error", " ").split("Run \"npm help")[0].strip()[-300:])
    with open(stamp, "w", encoding="ascii") as stream:
        stream.write(wanted)


def build(directory):
    """The document. A mistake in the page is an error of the build."""
    done = subprocess.run(["node", "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn"], cwd=directory, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit("build.py: the page does not build:\n" + done.stdout.decode(errors="replace"))
    with open(os.path.join(directory, "dist", "index.html"), "rb") as stream:
        page = stream.read()
    if page.count(MARK.encode()) != 1 or b"\0" in page:
        sys.exit(f"build.py: the page must have {MARK} once, and no NUL")
    return page


def write(page, output):
    """As numbers: string literals of this length are beyond what C promises."""
    lines = [",".join(str(byte if byte < 128 else byte - 256) for byte in page[i:i + 32]) for i in range(0, len(page), 32)]
    with open(output + ".new", "w", encoding="ascii") as stream:
        stream.write("/* Made by web/build.py. */\n#include \"export_html.h\"\n\nconst char export_html_page[] = {\n")
        stream.write("".join(line + ",\n" for line in lines) + "0};\n")
        stream.write(f"const size_t export_html_page_length = {len(page)};\n")
    os.replace(output + ".new", output)


def main():
    source, directory, output = map(os.path.abspath, sys.argv[1:4])
    try:
        find_tools()
        copy(source, directory)
        install(directory)
        page = build(directory)
    except Missing as why:
        print(f"tally export --format html will have no page: {why}", file=sys.stderr)
        page = b""
    write(page, output)


main()
