//go:build nightly

package faults

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

// seen is a line of the table that a long run prints at its end: a fault, what was done, and what was seen.
type seen struct{ id, done, saw, test string }

var (
	seenMu sync.Mutex
	seens  []seen
)

// saw notes what a test has seen of a fault; a test that has failed has seen nothing.
func saw(t testing.TB, id, done, format string, args ...any) {
	if t.Failed() {
		return
	}
	seenMu.Lock()
	defer seenMu.Unlock()
	what := fmt.Sprintf(format, args...)
	t.Logf("%s: %s: %s", id, done, what)
	seens = append(seens, seen{id, done, what, t.Name()})
}

// printSeen prints the table.
func printSeen(w io.Writer) {
	if len(seens) == 0 {
		return
	}
	fmt.Fprint(w, "\n| fault | what was done | what was seen | test |\n|---|---|---|---|\n")
	for _, s := range seens {
		fmt.Fprintf(w, "| %s | %s | %s | `%s` |\n", s.id, s.done, strings.ReplaceAll(s.saw, "|", "\\|"), s.test)
	}
}

// size is a number of the short form or of the long one.
func size(short, long int) int {
	if *soakTime > 0 {
		return long
	}
	return short
}
