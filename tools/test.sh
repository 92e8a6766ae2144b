#!/usr/bin/env bash
# Runs a test binary for "go test -exec": without what the compiler was told of its own memory, and once more where the race detector
# itself has come to an end, which it does about once in some hundred packages whose tests have their own time (golang/go#78156). That
# says nothing of what is tested; a race that it finds, or a test that fails, is what it is.
#
# When all tests of a package have passed, it runs those once more with -test.short that read it, so that "go test -short ./..." keeps
# passing (DW-18). The binary is linked already, and they do less than before.
set -u
unset GOGC
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# run runs a binary with its arguments.
run() {
	"$@" >"$said" 2>&1
	code=$?
	if ((code != 0)) && grep -q '^ThreadSanitizer: CHECK failed' "$said"; then
		cat "$said"
		echo "ONCE MORE: the race detector itself has failed, see above"
		"$@" >"$said" 2>&1
		code=$?
	fi
}

# short prints the names of the tests in this folder that read -test.short, themselves or through rapid, separated by |.
short() {
	awk '
		FNR == 1 || /^func / { name = "" }
		match($0, /^func Test[A-Za-z0-9_]*/) { name = substr($0, 6, RLENGTH - 5) }
		name != "" && /rapid\.(Check|MakeCheck)\(|testing\.Short\(\)/ { printf "%s%s", sep, name; sep = "|"; name = "" }
	' ./*_test.go
}

run "$@"
case " $*" in
*" -test.run="*) ;; # a choice of tests
*)
	if ((code == 0)) && tests=$(short) && [ -n "$tests" ]; then
		cat "$said"
		run "$@" -test.short -test.run "^($tests)\$"
		((code != 0)) || : >"$said"
		((code == 0)) || echo "WITH -short: these tests passed without"
	fi
	;;
esac
cat "$said"
exit "$code"
