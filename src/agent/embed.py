"""embed.py IMAGE OUTPUT - the image's bytes as a C object: agent_blob, agent_blob_size (agent_blob.h)."""
import sys

bytes_of_image = open(sys.argv[1], "rb").read()
with open(sys.argv[2], "w", encoding="ascii") as output:
    output.write('#include "agent_blob.h"\n\nconst uint8_t agent_blob[] __attribute__((aligned(16))) = {\n')
    for start in range(0, len(bytes_of_image), 24):
        output.write(" ".join(f"{byte}," for byte in bytes_of_image[start:start + 24]) + "\n")
    output.write("};\nconst size_t agent_blob_size = sizeof agent_blob;\n")
