#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, some packages at the same time: fuzz.sh 5s [how many].
#
# `go test -fuzz` takes one target of one package, and builds and links everything for each. Here one `go test` builds the
# packages that have targets, and calls this script as what runs a test binary, which then runs its targets one after the other.
set -euo pipefail

# Runs the targets of one test binary, in the folder of its package, where inputs that fail are written to testdata.
targets() {
	local package=$module/${PWD#"$root/"} list target log failed=0
	list=$("$@" -test.list '^Fuzz')
	log=$(mktemp)
	for target in $list; do
		# One worker: it uses one core, and the next package uses another one. Making an interesting input small takes a minute
		# where nobody says otherwise, which would be all of the time. What a target that passes says, nobody reads. On a busy
		# machine the end of the time itself is taken for a failure at times: one that has found no input is none.
		if "$@" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x -test.parallel 1 \
			-test.fuzzcachedir "$inputs/$package" >"$log" 2>&1 </dev/null ||
			{ ! grep -q 'Failing input' "$log" && grep -qx ' *context deadline exceeded' "$log"; }; then
			echo "fuzz $package $target $time"
			# How many inputs that were: go test keeps to itself what a package says that passes.
			echo "$package $target $(grep -o 'execs: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)" >>"${FUZZLOG:-/dev/null}"
		else
			failed=1
			echo "FAIL $package $target"
			cat "$log"
		fi
	done
	rm -f "$log"
	return $failed
}

if [ "${1:-}" = -exec ]; then
	shift
	targets "$@"
	exit
fi

go=${GO:-go}
jobs=${2:-2}
export time=${1:-5s}
root=$(pwd)
module=$($go list -m)
inputs=$($go env GOCACHE)/fuzz # where `go test -fuzz` keeps them, too
export root module inputs

packages=$($go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r package folder; do
	! grep -qs '^func Fuzz' "$folder"/*_test.go || echo "$package"
done)

# What guides a fuzzer are counters in the code that it runs: in this module and in the modules that parse for it. Those of the
# standard library tell it little, and would have it all compiled once more.
$go test -vet=off -count=1 -timeout 0 -p "$jobs" -gcflags=all=-d=libfuzzer -gcflags=std= -exec "'$root/tools/fuzz.sh' -exec" $packages
