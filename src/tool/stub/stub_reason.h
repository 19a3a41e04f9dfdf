/* stub_reason.h - the one table of why a call is not counted.
 *
 * Like wire_loss.h: a number is never reused, each reason has a name and a sentence that says what is
 * counted, and whoever leaves something alone counts it here. Context: anywhere. */
#ifndef STUB_REASON_H
#define STUB_REASON_H

#define STUB_REASONS(X)                                                                                      \
    X(1, UNDECODABLE, "functions that do not decode exactly to their end")                                   \
    X(2, NO_CFI, "functions without call-frame information (hand-written assembly)")                         \
    X(3, GET_PC, "calls of the next instruction, made to learn the program counter")                         \
    X(4, OWN_FUNCTION, "calls to the middle of the function they stand in")                                  \
    X(5, RETPOLINE, "calls and jumps to retpoline thunks")                                                   \
    X(6, PROFILING_HOOK, "calls of mcount or __fentry__")                                                    \
    X(7, FLAGS_LIVE, "jumps to a function that may read the flags it is entered with")                       \
    X(8, OUT_OF_REACH, "sites more than 2 GiB from what their stub must reach")                              \
    X(9, TEXT_DIFFERS, "sites whose bytes in memory are not those of the file")                              \
    X(10, TOO_SHORT, "short indirect calls with nothing movable before them")                                \
    X(11, FRAGMENT, "jumps to what may be a fragment of the same function")                                  \
    X(12, NO_ISLAND, "two-byte jumps without unused bytes within reach")                                     \
    X(13, BRANCH_INTO, "sites with a branch into the bytes that would be moved")                             \
    X(14, IMMOVABLE, "indirect calls and jumps that would not survive being moved")                          \
    X(15, NOT_AN_ENTRY, "calls to the middle of another function")                                           \
    X(16, OUTSIDE, "calls and jumps to where the image has no code")                                         \
    X(17, JUMP_UNKNOWN, "indirect jumps that may be a switch of the same function")                          \
    X(18, INDIRECT_SHORT_JUMP, "short indirect tail jumps with nothing movable before them")                 \
    X(19, FAULTING, "indirect calls not moved because the program handles faults at their address")          \
    X(20, TOO_MANY, "sites past what one plan holds")                                                        \
    X(21, READS_RETURN,                                                                                      \
      "calls of functions that read their return address: left as they are, counted by the callee's hook")   \
    X(30, ENTRY_SHORT, "functions called by address, shorter than a jump")                                   \
    X(31, ENTRY_BRANCH, "functions called by address, with a branch back to their first bytes")              \
    X(32, ENTRY_IMMOVABLE, "functions called by address, whose first instructions cannot be moved")          \
    X(33, ENTRY_NOT_DECODED,                                                                                 \
      "functions called by address that do not decode or have no call-frame information")                    \
    X(34, ENTRY_SHARED, "functions called by address, with another function's entry in their first bytes")   \
    X(35, ENTRY_RESOLVER, "functions that are chosen when the program is loaded, and not known yet")         \
    X(36, ENTRY_OCCUPIED, "functions in whose first bytes a thread stands that cannot be moved")             \
    X(37, ENTRY_UNKNOWN, "addresses taken, of code that no symbol and no call-frame information covers")     \
    X(38, OWN_STACKS, "functions of a runtime that looks through its stacks in its own way (Go, OCaml)")     \
    X(39, ENTRY_SAME,                                                                                        \
      "hooks of enter and exit that are one function (static glibc): link dynamically, or define both")      \
    X(40, LEFT_OUT, "functions of images that are to be left as they are (--skip-image)")

enum stub_reason {
    STUB_FINE = 0,
#define X(number, name, text) STUB_REASON_##name = number,
    STUB_REASONS(X)
#undef X
        STUB_REASON_END /* one past the highest number */
};

/* The reason's sentence; "?" for a number that is not in the table. */
const char *stub_reason_text(enum stub_reason reason);

#endif
