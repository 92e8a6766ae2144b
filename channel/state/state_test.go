package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/channel/state"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "chats.json")
	got := map[int64]int64{1: 2}
	if err := state.Read(path, &got); err != nil || len(got) != 1 {
		t.Errorf("there is no file yet: %v %v", got, err)
	}
	for _, want := range []map[int64]int64{{-5: -1005}, {-5: -1005, -6: -1006}} {
		if err := state.Write(path, want); err != nil {
			t.Fatal(err)
		}
		got = nil
		if err := state.Read(path, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
}

func TestWithoutAPathNothingIsKept(t *testing.T) {
	t.Chdir(t.TempDir())
	got := []string{"as it was"}
	if err := state.Write("", []string{"x"}); err != nil {
		t.Error(err)
	}
	if err := state.Read("", &got); err != nil || got[0] != "as it was" {
		t.Errorf("%q %v", got, err)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
}

func TestAFileThatCannotBeReadOrWrittenIsAnError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "chats.json")
	if err := os.WriteFile(path, []byte(`{"1":`), 0o600); err != nil {
		t.Fatal(err)
	}
	var got map[string]int
	if err := state.Read(path, &got); err == nil || !strings.HasPrefix(err.Error(), "chats.json is not what was written: ") {
		t.Errorf("%v", err)
	}
	if err := state.Read(dir, &got); err == nil {
		t.Error("a folder is read")
	}
	if err := state.Write(filepath.Join(path, "below", "x"), got); err == nil {
		t.Error("a folder is made below a file")
	}
	if err := state.Write(path, func() {}); err == nil {
		t.Error("what is no JSON is written")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != `{"1":` {
		t.Errorf("what failed has changed the file: %q %v", text, err)
	}
}
