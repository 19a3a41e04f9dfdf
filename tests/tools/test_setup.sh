#!/bin/sh
# tools/setup against invented machines: what it does where nothing is missing, where something is and nobody can be
# asked, and where there is no apt. The machine's own apt is never called: PATH holds stand-ins only. TAP.
set -u
setup=$(cd "$(dirname "$0")/../../tools" && pwd)/setup
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
number=0

point() { # point WHAT STATUS(0 = it holds)
    number=$((number + 1))
    if [ "$2" = 0 ]; then echo "ok $number - $1"; else
        echo "not ok $number - $1"
        sed 's/^/# /' "$directory/said"
    fi
}

# A PATH with the few tools setup needs, and the stand-ins named by a test.
machine() {
    rm -rf "$directory/bin" "$directory/ran"
    mkdir "$directory/bin"
    for tool in sh sed sort tr dirname grep env cat; do ln -s "$(command -v $tool)" "$directory/bin/$tool"; done
    stand_in id 'echo 1000'
}
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$directory/bin/$1" && chmod +x "$directory/bin/$1"; }
run() { env -i PATH="$directory/bin" ${ci:+CI=true} "$setup" build </dev/null >"$directory/said" 2>&1; }

echo 1..10
ci=
all='shift 2; for package; do echo "$package installed"; done'

machine
stand_in apt-get "echo apt-get \"\$@\" >>$directory/ran"
stand_in apt-cache 'echo "Package: $2"'
stand_in dpkg-query "$all"
run && [ ! -e "$directory/ran" ] && [ ! -s "$directory/said" ]
point "nothing missing: nothing said, nothing done" $?

stand_in dpkg-query "$all | grep -v meson"
stand_in sudo "echo sudo \"\$@\" >>$directory/ran"
! run && grep -q 'apt-get install -y --no-install-recommends meson' "$directory/said" && [ ! -e "$directory/ran" ]
point "a plain user whom nobody can ask: the command, and an error" $?

stand_in id 'echo 0'
run && grep -q 'apt-get install .*meson' "$directory/ran" && ! grep -q gcc "$directory/ran"
point "root: installs what is missing, and only that" $?

stand_in dpkg-query "$all | grep -v npm"
stand_in npm 'exit 0'
rm -f "$directory/ran"
env -i PATH="$directory/bin" "$setup" check </dev/null >"$directory/said" 2>&1 && [ ! -e "$directory/ran" ]
point "an optional command from elsewhere is not replaced" $?

rm "$directory/bin/npm"
env -i PATH="$directory/bin" "$setup" check </dev/null >"$directory/said" 2>&1 && grep -q 'apt-get install .*npm' "$directory/ran"
point "an optional command that is nowhere is installed" $?
stand_in dpkg-query "$all | grep -v meson"

rm -f "$directory/ran"
stand_in apt-cache 'exit 1'
run
grep -q 'apt-get update' "$directory/ran" && grep -q 'apt-get install .*meson' "$directory/ran"
point "without package lists they are fetched first" $?

rm -f "$directory/ran"
stand_in apt-cache 'echo "Package: $2"'
stand_in id 'echo 1000'
ci=yes
run && grep -q '^sudo -n env .*apt-get install .*meson' "$directory/ran"
point "CI without root: sudo, straight away" $?
ci=

machine
! run && grep -q 'no apt-get' "$directory/said" && grep -q meson "$directory/said"
point "no apt, everything missing: names, and an error" $?

for tool in make gcc cc pkg-config python3 meson ninja; do stand_in $tool 'exit 0'; done
run && [ ! -s "$directory/said" ]
point "no apt, nothing missing: fine" $?

stand_in pkg-config '[ "$2" != libdw ]'
! run && grep -q libdw-dev "$directory/said" && ! grep -q meson "$directory/said"
point "no apt, one library missing: its name alone" $?
