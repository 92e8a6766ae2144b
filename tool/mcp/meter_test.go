package mcp

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatAServerSendsInAMinuteIsBounded(t *testing.T) { // AG-65
	for _, row := range []struct {
		name                   string
		bytes, messages, count int // count of them are allowed
	}{
		{"messages", 10, 1, maxMessages},
		{"bytes", maxPerMinute / 8, 1, 8},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMeter()
				for minute := range 3 {
					for i := range row.count {
						if err := m.count(row.bytes, row.messages); err != nil {
							t.Fatalf("minute %d, message %d: %v", minute, i, err)
						}
					}
					if err := m.count(row.bytes, row.messages); err != errFlood {
						t.Errorf("minute %d: one too many: %v", minute, err)
					}
					time.Sleep(time.Minute + time.Nanosecond)
				}
			})
		})
	}
}

func TestAnAnswerIsBounded(t *testing.T) { // AG-65
	read := func(text string) (string, error) {
		body := &metered{io.NopCloser(strings.NewReader(text)), newMeter(), func() {}}
		got, err := io.ReadAll(body)
		return string(got), errors.Join(err, body.Close())
	}
	for _, row := range []struct {
		name, text, want string
		err              error
	}{
		{"that ends before the bound", "abc", "abc", nil},
		{"of more events than are allowed", strings.Repeat("\n", 2*maxMessages+2), "", errFlood},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // no time passes
				got, err := read(row.text)
				if !errors.Is(err, row.err) || row.err != errFlood && got != row.want {
					t.Errorf("got %.20q, %v; want %q, %v", got, err, row.want, row.err)
				}
			})
		})
	}
}
