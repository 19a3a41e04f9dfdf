#!/usr/bin/python3
"""make_mini.py - a program whose symbols are in .gnu_debugdata alone, for fuzz_elf.

    make_mini.py PROGRAM OUTPUT

Packed without a checksum, so that damage reaches the symbols inside rather than being noticed at once.
"""
import lzma
import os
import subprocess
import sys
import tempfile

program, output = sys.argv[1:]
with tempfile.TemporaryDirectory() as directory:
    debug, packed = os.path.join(directory, "debug"), os.path.join(directory, "debug.xz")
    subprocess.run(["objcopy", "--only-keep-debug", "--strip-debug", program, debug], check=True)
    with open(debug, "rb") as plain, open(packed, "wb") as file:
        file.write(lzma.compress(plain.read(), check=lzma.CHECK_NONE))
    subprocess.run(["strip", "-o", output, program], check=True)
    subprocess.run(["objcopy", "--add-section", f".gnu_debugdata={packed}", output], check=True)
