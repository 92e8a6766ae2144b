package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/tape"
)

// CH-76: by the command, as by the server.
func TestATapeThatIsDeletedGoesFromTheChannelsToo(t *testing.T) {
	for _, inUse := range []bool{false, true} {
		data := t.TempDir()
		c := &config.Config{Data: data, Database: "sqlite:" + filepath.Join(data, "lingserve.db"), Workspace: t.TempDir()}
		opened, err := openDatabase(c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		tapes := opened.tapes(nil, nil)
		export := `{"id":1,"kind":"message","payload":{"role":"user","content":"hi"},"meta":{},"date":"2026-01-01T00:00:00Z"}` + "\n"
		if err := tape.Import(t.Context(), tapes, c.Workspace, "fake:42", strings.NewReader(export)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(tapes.Close(), opened.Close()); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(channelsFolder(c), 0o700); err != nil {
			t.Fatal(err)
		}
		d, err := db.Open(t.Context(), c.Database, nil) // as a server has it
		if err != nil {
			t.Fatal(err)
		}
		key := channel.EventKey{Channel: "fake", Conversation: "42", ID: "1"}
		lane := channel.EventKey{Channel: "fake", Conversation: "42"}
		if _, err := d.Events().Accept(t.Context(), []store.Event{{Key: key.String(), Login: "fake", Lane: lane.String(), Raw: []byte("canary")}}); err != nil {
			t.Fatal(err)
		}
		if !inUse {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var stdout, stderr strings.Builder
		args := []string{"delete", "fake:42", "--yes", "--data", data, "--workspace", c.Workspace}
		if code := command(append([]string{"tape"}, args...), strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Fatalf("got %d: %s", code, stderr.String())
		}
		if inUse {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		files, _ := filepath.Glob(c.DatabaseFile() + "*")
		if len(files) == 0 {
			t.Fatal("there is no database")
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "canary") {
				t.Errorf("in use: %t, %s has the text of an event", inUse, filepath.Base(f))
			}
		}
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
	stored, err := openDatabase(c, log)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openChannels(c, stored, log)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Kernel.Window.Record(t.Context(), channel.Recording{HistoryHint: channel.HistoryHint{Key: channel.WindowKey{Channel: "fake", Conversation: "42"}}, Message: channel.MessageFacts{RawBody: "canary"}})
	if err := errors.Join(err, d.Close(), stored.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		var stdout, stderr strings.Builder
		code := command([]string{"tape", "delete", "fake:42", "--yes", "--data", c.Data, "--workspace", c.Workspace}, strings.NewReader(""), &stdout, &stderr)
		if (code == exitOK) != want {
			t.Errorf("got %d: %s", code, stderr.String())
		}
	}
}
