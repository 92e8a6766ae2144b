#!/usr/bin/env bash
# Runs a test binary for "go test -exec": without what the compiler was told of its own memory, and once more where the race detector
# itself has come to an end, which it does about once in some hundred packages whose tests have their own time (golang/go#78156). That
# says nothing of what is tested; a race that it finds, or a test that fails, is what it is.
set -u
unset GOGC
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$@" >"$said" 2>&1
code=$?
if ((code != 0)) && grep -q '^ThreadSanitizer: CHECK failed' "$said"; then
	cat "$said"
	echo "ONCE MORE: the race detector itself has failed, see above"
	"$@" >"$said" 2>&1
	code=$?
fi
cat "$said"
exit "$code"
