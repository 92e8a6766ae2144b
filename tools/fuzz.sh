#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, some packages at the same time: fuzz.sh 5s [how many [packages]].
# Keeps of the inputs that were found those that reach what no other one reaches: fuzz.sh keep [how many [packages]].
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

# Puts inputs of the targets of one test binary, which counts what it runs of its package, from where fuzzing has left them into testdata,
# where every "go test" has them: few, small, and named after the function of which they reach something that no seed and no input that is
# kept already does. A target that all is reached of keeps none.
keep() {
	local package=$module/${PWD#"$root/"} list target folder name input line tried
	work=$(mktemp -d)
	trap 'rm -rf "$work"; rm -f testdata/fuzz/*/candidate' EXIT
	list=$("$@" -test.list '^Fuzz')
	for target in $list; do
		[ -d "$inputs/$package/$target" ] || continue
		folder=testdata/fuzz/$target
		rm -f "$work"/*
		"$@" -test.run "^$target\$" -test.coverprofile "$work/.before" >/dev/null </dev/null || return 1
		mkdir -p "$folder"
		tried=()
		while read -r _ name; do
			cp "$inputs/$package/$target/$name" "$folder/candidate"
			timeout 10 "$@" -test.run "^$target\$/^candidate\$" -test.coverprofile "$work/$name" >"$work/.log" 2>&1 </dev/null && tried+=("$name") || {
				{
					echo "FAIL $package $target $inputs/$package/$target/$name"
					cat "$work/.log"
				} >>"$said"
			}
		done < <(find "$inputs/$package/$target" -type f -size -1025c -printf '%s %f\n' | sort -n | head -n 250)
		rm -f "$folder/candidate"
		(cd "$work" && "$corpus" -root "$root" -module "$module" .before "${tried[@]}") | while read -r input name line; do
			cp "$inputs/$package/$target/$input" "$folder/$name-${input:0:4}"
			echo "keep $package $target $name-${input:0:4} $line" >>"$said"
		done
		rmdir "$folder" 2>/dev/null || true
	done
}

if [ "${1:-}" = -exec ]; then
	shift
	unset GOGC # which is the compiler's
	if [ "$time" = keep ]; then keep "$@"; else targets "$@"; fi
	exit
fi

go=${GO:-go}
jobs=${2:-2}
export time=${1:-5s}
[ $# -le 2 ] && wanted=./... || wanted=${*:3}
root=$(pwd)
module=$($go list -m)
inputs=$($go env GOCACHE)/fuzz # where `go test -fuzz` keeps them, too
export root module inputs

packages=$($go list -f '{{.ImportPath}} {{.Dir}}' $wanted | while read -r package folder; do
	! grep -qs '^func Fuzz' "$folder"/*_test.go || echo "$package"
done)

if [ "$time" = keep ]; then
	scratch=$(mktemp -d)
	export corpus=$scratch/corpus said=$scratch/said
	# What the binary of a test says go test keeps to itself, where it passes.
	trap 'cat "$said"; rm -r "$scratch"' EXIT
	: >"$said"
	$go build -o "$corpus" ./internal/corpus
fi

# What guides a fuzzer are counters in the code that it runs: in this module and in the modules that parse for it. Those of the
# standard library tell it little, and would have it all compiled once more; so would those of what only talks to servers and counts.
# Some thousand inputs are too few for a guide to lead anywhere that the seeds do not: they are for what was compiled before.
case $time in
keep) how=-cover ;;
*x) how= ;;
*) how='-gcflags=all=-d=libfuzzer -gcflags=std= -gcflags=github.com/jackc/...= -gcflags=github.com/klauspost/...= -gcflags=github.com/prometheus/...= -gcflags=go.opentelemetry.io/...= -gcflags=google.golang.org/...=' ;;
esac
$go test -vet=off -count=1 -timeout 0 -p "$jobs" $how -exec "'$root/tools/fuzz.sh' -exec" $packages
