package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/tape"
)

// mustConfig returns the configuration of the environment.
func mustConfig(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load(nil, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// DC-11: one command takes all sessions from files to a database, whatever they are called, with their large results.
func TestAllSessionsAreCopiedFromFilesToADatabase(t *testing.T) {
	server := postgrestest.Run(t)
	t.Chdir(t.TempDir())
	d, err := openDatabase(mustConfig(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	files := d.tapes(nil, nil)
	names := []string{"a b  c", "webhook:it's \"me\"", "$(x)", "天气"}
	handle := ""
	for i, name := range names {
		tp, err := tape.Open(t.Context(), files, t.TempDir(), name) // each in a workspace of its own
		if err != nil {
			t.Fatal(err)
		}
		e := tape.NewMessage("user", "hello "+name)
		if i == 0 {
			if handle, err = tp.PutBlob(t.Context(), []byte("a large result")); err != nil {
				t.Fatal(err)
			}
			e = e.With(tape.Meta{Spill: []tape.Spill{{Handle: handle, Size: 14}}})
		}
		if _, err := tp.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := command(append([]string{"tape"}, args...), strings.NewReader(""), &stdout, &stderr); code != want {
			t.Fatalf("tape %q: %d: %s", args, code, stderr.String())
		}
		return stdout.String() + stderr.String()
	}
	if got := run(exitFailed, "copy", "sqlite:data/lingserve.db"); !strings.Contains(got, "cannot copy from data/lingserve.db to itself; choose the target with --database") {
		t.Errorf("to the same store: %s", got)
	}
	if got := run(exitFailed, "copy", "disk"); !strings.Contains(got, "no such database; expected sqlite:FILE") {
		t.Errorf("from no database: %s", got)
	}
	if got := run(exitFailed, "copy", "sqlite:no.db"); !strings.Contains(got, "cannot use no.db: the file does not exist") {
		t.Errorf("from no file: %s", got)
	}
	if got := run(exitOK, "copy", "sqlite:data/lingserve.db", "--database", server.URL()); got != "copied 4 sessions, skipped 0 existing ones\n" {
		t.Errorf("%s", got)
	}
	if got := run(exitOK, "copy", "sqlite:data/lingserve.db", "--database", server.URL()); got != "copied 0 sessions, skipped 4 existing ones\n" {
		t.Errorf("again: %s", got)
	}
	for _, name := range names {
		before, after := run(exitOK, "export", name), run(exitOK, "export", name, "--database", server.URL())
		if before != after || !strings.Contains(after, `"hello `) {
			t.Errorf("%s:\n%s\n%s", name, before, after)
		}
	}
	t.Setenv("LINGSERVE_DATABASE", server.URL())
	shared, err := openDatabase(mustConfig(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	store := shared.tapes(nil, nil)
	defer store.Close()
	for in, err := range store.Sessions(t.Context(), tape.SessionQuery{Prefix: names[0]}) {
		if err != nil {
			t.Fatal(err)
		}
		if data, _, err := store.ReadBlob(t.Context(), in.Tape, handle, 0, 100); string(data) != "a large result" || err != nil {
			t.Errorf("%q, %v", data, err)
		}
	}
}

// SE-06: what is wrong with an address is said without it.
func TestAnAddressOfADatabaseIsNotShown(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, tt := range map[string]struct{ url, want string }{
		"no such":  {"postgres://ling:s3cretword@/x?connect_timeout=banana", "database (environment LINGSERVE_DATABASE): cannot use postgres://ling:xxxxx@/x?connect_timeout=banana: invalid address"},
		"not ours": {"mysql://ling:s3cretword@127.0.0.1:1/x", "LINGSERVE_DATABASE: database: no such database; expected"},
		"away":     {"postgres://ling:s3cretword@127.0.0.1:1/x", "database (environment LINGSERVE_DATABASE): cannot use postgres://ling:xxxxx@127.0.0.1:1/x: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LINGSERVE_DATABASE", tt.url)
			var stderr bytes.Buffer
			if code := command([]string{"tape", "list"}, strings.NewReader(""), io.Discard, &stderr); code != exitFailed {
				t.Errorf("the status is %d", code)
			}
			if got := stderr.String(); !strings.Contains(got, tt.want) || strings.Contains(got, "s3cretword") {
				t.Errorf("it says %s, want %s", got, tt.want)
			}
		})
	}
}
