package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/inbox"
	"github.com/lingserve/lingserve/channel/manager"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// CH-76: by the command, as by the server.
func TestATapeThatIsDeletedGoesFromTheChannelsToo(t *testing.T) {
	for _, inUse := range []bool{false, true} {
		data := t.TempDir()
		c := &config.Config{Data: data, Database: "sqlite:" + filepath.Join(data, "lingserve.db"), Workspace: t.TempDir()}
		tapes, err := openStore(c, nil, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		export := `{"id":1,"kind":"message","payload":{"role":"user","content":"hi"},"meta":{},"date":"2026-01-01T00:00:00Z"}` + "\n"
		if err := tape.Import(t.Context(), tapes, c.Workspace, "fake:42", strings.NewReader(export)); err != nil {
			t.Fatal(err)
		}
		if err := tapes.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(channelsFolder(c), 0o700); err != nil {
			t.Fatal(err)
		}
		d, err := db.Open(t.Context(), c.Database, nil) // as another process has it
		if err != nil {
			t.Fatal(err)
		}
		tables := d.Tables()
		j, err := inbox.Open(t.Context(), tables, inbox.Options{Shown: true})
		if err != nil {
			t.Fatal(err)
		}
		end := func() {
			if err := errors.Join(j.Close(), tables.Close(), d.Close()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := j.Accept(t.Context(), channel.EventKey{Channel: "fake", Conversation: "42", ID: "1"}, []byte("canary")); err != nil {
			t.Fatal(err)
		}
		if !inUse {
			end()
		}
		var stdout, stderr strings.Builder
		args := []string{"delete", "fake:42", "--yes", "--data", data, "--workspace", c.Workspace}
		if code := tapeCommand(args, strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Fatalf("got %d: %s", code, stderr.String())
		}
		if told := strings.Contains(stderr.String(), "a server uses the data folder"); told != inUse {
			t.Errorf("in use: %t, said %q", inUse, stderr.String())
		}
		if inUse {
			end()
		}
		files, _ := filepath.Glob(c.DatabaseFile() + "*")
		if len(files) == 0 {
			t.Fatal("there is no database")
		}
		kept := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			kept = kept || strings.Contains(string(text), "canary")
		}
		if kept != inUse {
			t.Errorf("in use: %t, its events are kept: %t", inUse, kept)
		}
	}
}

// CH-56, CH-72: what channels keep belongs to one server.
func TestASecondServerDoesNotTouchTheOutbox(t *testing.T) {
	data := t.TempDir()
	c := &config.Config{Data: data, Database: "sqlite:" + filepath.Join(data, "lingserve.db")}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	first := &channels{Manager: manager.New(&channel.Kernel{}, log)}
	tables, err := openTables(c, log)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	stored, err := openDatabase(c, log)
	if err != nil {
		t.Fatal(err)
	}
	defer stored.close()
	if err := first.open(t.Context(), c, nil, stored, tables, log); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.CloseStores() }()
	if _, err := openTables(c, log); err == nil || !strings.Contains(err.Error(), "another server uses it") {
		t.Errorf("got %v, expected that another server uses the folder", err)
	}
}

// DS-09: by the command, too.
func TestTheWordsOfAGroupWithoutATapeAreDeleted(t *testing.T) {
	data := t.TempDir()
	c := &config.Config{Data: data, Database: "sqlite:" + filepath.Join(data, "lingserve.db"), Workspace: t.TempDir()}
	if err := os.MkdirAll(channelsFolder(c), 0o700); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	tables, err := openTables(c, log)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := openDatabase(c, log)
	if err != nil {
		t.Fatal(err)
	}
	d := &channels{Manager: manager.New(&channel.Kernel{Log: log}, log)}
	err = d.open(t.Context(), c, nil, stored, tables, log)
	if err == nil {
		err = d.Kernel.Window.Record(t.Context(), channel.Recording{Key: channel.WindowKey{Channel: "fake", Conversation: "42"}, Message: channel.MessageFacts{RawBody: "canary"}})
	}
	if err := errors.Join(err, d.CloseStores(), stored.close(), tables.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		var stdout, stderr strings.Builder
		code := tapeCommand([]string{"delete", "fake:42", "--yes", "--data", c.Data, "--workspace", c.Workspace}, strings.NewReader(""), &stdout, &stderr)
		if (code == exitOK) != want {
			t.Errorf("got %d: %s", code, stderr.String())
		}
	}
}
