#!/usr/bin/env bash
# Runs every fuzz target of the module for a while: fuzz.sh 5s [workers].
set -euo pipefail
time=${1:-5s}
workers=${2:-2}
go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# `go test -list` prints the targets of a package and then its "ok" line.
$go test -list '^Fuzz' ./... | awk '/^Fuzz/ { names = names " " $1 } /^ok/ { if (names) print $2 names; names = "" }' |
	while read -r package targets; do
		for target in $targets; do
			echo "fuzz $package $target $time"
			# The output of a target that passes says nothing that anybody reads. On a busy machine the end of the time
			# itself is taken for a failure at times: one that has found no input is none.
			# Making an interesting input small takes a minute where nobody says otherwise, which would be all of the time.
			$go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x -parallel "$workers" "$package" >"$log" 2>&1 </dev/null || {
				if grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"; then
					continue
				fi
				cat "$log"
				exit 1
			}
		done
	done
