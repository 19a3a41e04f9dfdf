#!/bin/sh
# Makes all captures again: tests/captures/make.sh BUILD
set -eu
cd "$(dirname "$0")"
build=$1/tests/unit/unwind
for what in signal alternate plt epilogue realigned binding vdso odd; do
    "$build/make_capture" "$build/stepped" $what > $what.capture
done
"$build/make_capture" "$build/stepped" deep > o2-deep.capture
"$build/make_capture" "$build/stepped_o1" deep > o1-deep.capture
