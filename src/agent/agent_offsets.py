"""agent_offsets.py INPUT OUTPUT DEPFILE COMPILER... - compiles agent_offsets.c to assembly, and writes the numbers
that are marked there as a header of #defines."""
import re
import subprocess
import sys

source, header, depfile, *compiler = sys.argv[1:]
assembly = header + ".s"
subprocess.run(compiler + ["-S", source, "-o", assembly, "-MD", "-MF", depfile, "-MT", header], check=True)
with open(assembly, encoding="utf-8") as text:
    numbers = re.findall(r'^\s*\.ascii\s+"-> (\w+) (-?\d+)"', text.read(), re.MULTILINE)
if not numbers:
    sys.exit(f"{assembly}: no number is marked")
with open(header, "w", encoding="ascii") as output:
    output.write("/* Made from agent_offsets.c. */\n" + "".join(f"#define {name} {number}\n" for name, number in numbers))
