package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/tape"
)

// DC-11: one command takes all sessions from files to a database, whatever they are called, with their large results.
func TestAllSessionsAreCopiedFromFilesToADatabase(t *testing.T) {
	server := postgrestest.Run(t)
	t.Chdir(t.TempDir())
	t.Setenv("LINGSERVE_DATA", "data")
	t.Setenv("LINGSERVE_TAPE_POSTGRES_URL", server.URL())
	files, err := openStore(&config.Config{Data: "data"}, nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := tapeCommand(args, strings.NewReader(""), &stdout, &stderr); code != want {
			t.Fatalf("tape %q: %d: %s", args, code, stderr.String())
		}
		return stdout.String() + stderr.String()
	}
	if got := run(exitFailed, "copy", "file"); !strings.Contains(got, "the source and the target are both the store file; choose the target with --tape-store") {
		t.Errorf("to the same store: %s", got)
	}
	if got := run(exitFailed, "copy", "disk"); !strings.Contains(got, `unknown store "disk"`) {
		t.Errorf("from no store: %s", got)
	}
	if got := run(exitOK, "copy", "file", "--tape-store", "postgres"); got != "copied 4 sessions, skipped 0 existing ones\n" {
		t.Errorf("%s", got)
	}
	if got := run(exitOK, "copy", "file", "--tape-store", "postgres"); got != "copied 0 sessions, skipped 4 existing ones\n" {
		t.Errorf("again: %s", got)
	}
	for _, name := range names {
		before, after := run(exitOK, "export", name), run(exitOK, "export", name, "--tape-store", "postgres")
		if before != after || !strings.Contains(after, `"hello `) {
			t.Errorf("%s:\n%s\n%s", name, before, after)
		}
	}
	t.Setenv("LINGSERVE_TAPE_STORE", "postgres")
	c, err := config.Load(nil, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	store, err := openPostgres(c, nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
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
	t.Setenv("LINGSERVE_TAPE_STORE", "postgres")
	for name, tt := range map[string]struct{ url, want string }{
		"none":     {"", "LINGSERVE_TAPE_STORE: tape.store: store postgres needs tape.postgres.url"},
		"no such":  {"postgres://ling:s3cretword@/x?connect_timeout=banana", "tape.postgres.url (environment LINGSERVE_TAPE_POSTGRES_URL): cannot use the database of sessions: invalid address; expected one such as postgres://"},
		"not ours": {"mysql://ling:s3cretword@127.0.0.1:1/x", "invalid address; expected one such as postgres://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LINGSERVE_TAPE_POSTGRES_URL", tt.url)
			var stderr bytes.Buffer
			if code := tapeCommand([]string{"list"}, strings.NewReader(""), io.Discard, &stderr); code != exitFailed {
				t.Errorf("the status is %d", code)
			}
			if got := stderr.String(); !strings.Contains(got, tt.want) || strings.Contains(got, "s3cretword") {
				t.Errorf("it says %s, want %s", got, tt.want)
			}
		})
	}
}
