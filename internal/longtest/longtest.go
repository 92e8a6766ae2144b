// Package longtest gives tests two forms: the short one, which every change has to pass and which judges by no clock, and the long one
// of "make nightly", with more draws, rounds and servers, and with bounds of time. The environment variable LINGSERVE_NIGHTLY=1 asks for
// the long form.
package longtest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// Nightly reports whether tests run in their long form.
func Nightly() bool { return os.Getenv("LINGSERVE_NIGHTLY") == "1" }

// Times returns how often a test repeats something: short, or long in the long form.
func Times(short, long int) int {
	if Nightly() {
		return long
	}
	return short
}

// Within logs how long something took. In the long form the test fails if that is more than four times the limit, which a busy machine does not
// make of it.
func Within(t testing.TB, what string, took, limit time.Duration) {
	t.Helper()
	if Nightly() && took > 4*limit {
		t.Errorf("%s: %v, expected at most %v, and four times that on a busy machine", what, took, limit)
		return
	}
	t.Logf("%s: %v", what, took)
}

// Only skips a test in the short form. The reason says what makes the test long.
func Only(t testing.TB, reason string) {
	t.Helper()
	if !Nightly() {
		t.Skipf("%s: only with LINGSERVE_NIGHTLY=1, which make nightly sets", reason)
	}
}

// Checks sets how many draws rapid makes, unless the command line does. TestMain calls it before it runs the tests.
func Checks(short, long int) {
	parse()
	set("rapid.checks", Times(short, long))
}

// Parallel sets how many tests run at the same time, unless the command line does. Tests that wait can be more than there are processors.
// TestMain calls it before it runs the tests.
func Parallel(n int) {
	parse()
	set("test.parallel", n)
}

func parse() {
	if !flag.Parsed() {
		flag.Parse()
	}
}

func set(name string, n int) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, strconv.Itoa(n)); err != nil {
		panic(fmt.Sprintf("longtest: the flag %s: %v", name, err))
	}
}
