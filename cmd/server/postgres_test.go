package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// TA-40, TA-41: what is said of "lingserve tape" holds for a database, too, and no file is written.
func TestSessionsInADatabase(t *testing.T) {
	server := postgrestest.Run(t)
	t.Chdir(t.TempDir())
	t.Setenv("LINGSERVE_TAPE_STORE", "postgres")
	t.Setenv("LINGSERVE_TAPE_POSTGRES_URL", server.URL())
	t.Setenv("LINGSERVE_DATA", "data")
	run := func(want int, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := tapeCommand(args, strings.NewReader(""), &stdout, &stderr); code != want {
			t.Fatalf("tape %q: %d: %s", args, code, stderr.String())
		}
		return stdout.String() + stderr.String()
	}
	if got := run(exitOK, "list"); !strings.Contains(got, "there are no sessions in the database of tape.postgres.url (environment LINGSERVE_TAPE_POSTGRES_URL), schema lingserve") {
		t.Errorf("an empty list: %s", got)
	}
	line := `{"id":1,"kind":"message","payload":{"role":"user","content":"今天天气很好"},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}` + "\n"
	if err := os.WriteFile("trip.jsonl", []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	run(exitOK, "import", "s-42", "trip.jsonl")
	if got := run(exitFailed, "import", "s-42", "trip.jsonl"); !strings.Contains(got, "already exists") {
		t.Errorf("imported again: %s", got)
	}
	for want, args := range map[string][]string{
		"s-42":        {"list"},
		"user: 今天":    {"show", "s-42"},
		"天气很":         {"search", "s-42", "天气"},
		line:          {"export", "s-42"},
		`"entries":1`: {"list", "--json"},
	} {
		if got := run(exitOK, args...); !strings.Contains(got, want) {
			t.Errorf("tape %q: %s", args, got)
		}
	}
	t.Setenv("LINGSERVE_TAPE_POSTGRES_SCHEMA", "another")
	if got := run(exitOK, "list"); !strings.Contains(got, "there are no sessions") {
		t.Errorf("another schema: %s", got)
	}
	t.Setenv("LINGSERVE_TAPE_POSTGRES_SCHEMA", "lingserve")
	run(exitOK, "delete", "s-42", "--yes")
	run(exitFailed, "show", "s-42")
	if _, err := os.Stat(filepath.Join("data", "tapes")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a folder of tapes: %v", err)
	}

	// The server's own way, with its bound.
	t.Setenv("LINGSERVE_LIMIT_SESSIONS", "1")
	c, err := config.Load(nil, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	store, err := openTapes(c, nil, slog.New(slog.NewTextHandler(io.Discard, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	bounded, ok := store.(*tape.Bounded)
	if !ok {
		t.Fatalf("the store is a %T", store)
	}
	if _, ok := bounded.Whole.(*postgresTapes); !ok {
		t.Errorf("within its bound it is a %T", bounded.Whole)
	}
	if _, err := tape.Open(t.Context(), store, c.Workspace, "one"); err != nil {
		t.Error(err)
	}
	if _, err := tape.Open(t.Context(), store, c.Workspace, "two"); !errors.Is(err, tape.ErrTooMany) {
		t.Errorf("beyond the bound: %v", err)
	}
}

// DC-11: one command takes all sessions from files to a database, whatever they are called, with their large results.
func TestAllSessionsAreCopiedFromFilesToADatabase(t *testing.T) {
	server := postgrestest.Run(t)
	t.Chdir(t.TempDir())
	t.Setenv("LINGSERVE_DATA", "data")
	t.Setenv("LINGSERVE_TAPE_POSTGRES_URL", server.URL())
	files, err := logs.OpenFolder(filepath.Join("data", "tapes"), logs.FolderOptions{})
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
