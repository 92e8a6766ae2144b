// Package longtest gives tests two forms: a short one, which every change has to pass, and a long one with more of everything, which
// "make long" has. Both show the same; the long one meets it more often, on more servers and with larger counts. The flag -long asks
// for it, in every package whose tests import this one.
package longtest

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"
)

var long = flag.Bool("long", false, "run tests in their long form")

// Asked says whether the long form is wanted.
func Asked() bool { return *long }

// Times is how often something is done, or how much of it.
func Times(short, most int) int {
	if Asked() {
		return most
	}
	return short
}

// busy is how much longer something may take in the short form, which runs where much else does.
const busy = 30 * time.Second

// Within fails a test in which something took longer than it may. Only the long form, which has the machine for itself, takes that at its
// word.
func Within(t testing.TB, what string, took, most time.Duration) {
	t.Helper()
	switch {
	case took > most && (Asked() || took > most+busy):
		t.Errorf("%s: %v, expected %v at most", what, took, most)
	default:
		t.Logf("%s: %v", what, took)
	}
}

// Only skips a test in the short form, and says what it is that has to wait.
func Only(t testing.TB, what string) {
	t.Helper()
	if !Asked() {
		t.Skip(what + ": in the long form, which -args -long asks for")
	}
}

// Checks says how often rapid draws, unless the command line does. It is for TestMain, before it runs the tests.
func Checks(short, most int) {
	parse()
	set("rapid.checks", Times(short, most))
}

// Parallel says how many tests run at once, unless the command line does: more than there are processors where tests wait. It is for
// TestMain, too.
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
