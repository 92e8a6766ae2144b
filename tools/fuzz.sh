#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, some of them at the same time: fuzz.sh 5s [how many].
set -euo pipefail
export time=${1:-5s}
jobs=${2:-2}
export go=${GO:-go}
list=$(mktemp)
trap 'rm -f "$list"' EXIT

# One target. Each has a worker of its own: building and starting one takes as long as some seconds of it, and uses one core.
target() {
	log=$(mktemp)
	status=0
	# The output of a target that passes says nothing that anybody reads. On a busy machine the end of the time itself is taken
	# for a failure at times: one that has found no input is none.
	# Making an interesting input small takes a minute where nobody says otherwise, which would be all of the time.
	$go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x -parallel 1 "$1" >"$log" 2>&1 </dev/null || {
		if grep -q 'Failing input' "$log" || ! grep -q 'context deadline exceeded' "$log"; then
			cat "$log"
			status=255 # which ends xargs
		fi
	}
	echo "fuzz $1 $2 $time"
	rm -f "$log"
	return $status
}
export -f target

# `go test -list` prints the targets of a package and then its "ok" line.
$go test -list '^Fuzz' ./... | awk '/^Fuzz/ { names = names " " $1 } /^ok/ { n = split(names, t); for (i = 1; i <= n; i++) print $2, t[i]; names = "" }' >"$list"
xargs -P "$jobs" -n 2 bash -c 'target "$@"' bash <"$list"
