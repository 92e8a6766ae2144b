package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func TestALineIsFoundWhereverItComes(t *testing.T) {
	for name, pieces := range map[string][]string{
		"before":             {"a\nport 80\n"},
		"later":              {"a\n", "port 80\n"},
		"in pieces":          {"a\npo", "rt 8", "0\n"},
		"as Windows ends it": {"a\r\nport 80\r\nb"},
		"as the last word":   {"a\nport 80", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l Log
				go func() {
					for _, p := range pieces {
						io.WriteString(&l, p)
						synctest.Wait() // whoever waits has seen that
					}
					l.end()
				}()
				m, err := l.Find(t.Context(), regexp.MustCompile(`^port (\d+)$`))
				if err != nil || m[1] != "80" {
					t.Errorf("got %q, %v", m, err)
				}
			})
		})
	}
}

func TestALineThatDoesNotComeIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := regexp.MustCompile("never")
		var l Log
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("enough")
		go func() {
			io.WriteString(&l, "neve\n")
			synctest.Wait()
			cancel(reason)
		}()
		if m, err := l.Find(ctx, never); !errors.Is(err, reason) {
			t.Errorf("when the time is over: %q, %v", m, err)
		}
		go func() {
			synctest.Wait()
			l.end()
		}()
		if m, err := l.Find(t.Context(), never); !errors.Is(err, ErrEnded) {
			t.Errorf("at the end: %q, %v", m, err)
		}
	})
}

func TestLinesAreWhole(t *testing.T) {
	var l Log
	io.WriteString(&l, "a\n\nb\r\nhalf")
	if got, want := l.Lines(), []string{"a", "", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	l.end()
	if got, want := l.Lines(), []string{"a", "", "b", "half"}; !slices.Equal(got, want) {
		t.Errorf("at the end got %q, want %q", got, want)
	}
}

func TestTheTailIsTheEnd(t *testing.T) {
	var l Log
	for i := range 10_000 {
		fmt.Fprintln(&l, i)
	}
	if tail := l.Tail(); !strings.HasSuffix(tail, "9998\n9999\n") || len(tail) != 4000 || len(l.String()) < 40_000 {
		t.Errorf("of %d bytes, the tail has %d: %.20q…", len(l.String()), len(tail), tail)
	}
}
