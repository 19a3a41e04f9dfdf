"""What exact calls are to do and do not yet: not listed in meson.build. A case that passes moves to where it belongs."""
import calls
import tally
import tap


@tap.case
def text_pages_are_given_back(context):
    """Pages of text that equal the file again are the file's, not copies: no private dirty memory stays in them."""
    process = tally.start_busy(context, "threads", "2", "--together", "--forever")
    result = tally.run(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "--duration", "0.2", "-p", str(process.pid)])
    context.equal(result.status, 0, f"status ({result.text()})")
    with open(f"/proc/{process.pid}/smaps", encoding="utf-8") as smaps:
        dirty, inside = 0, False
        for line in smaps:
            words = line.split()
            if "-" in words[0] and len(words) >= 5:
                inside = "x" in words[1] and len(words) > 5 and words[5].startswith("/")
            elif inside and words[0] == "Private_Dirty:":
                dirty += int(words[1])
    context.equal(dirty, 0, "KB of text that are copies")
    process.kill()


tap.run()
