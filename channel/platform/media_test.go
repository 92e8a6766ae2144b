package platform_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// newStore returns a store of a folder that does not exist yet. The content of a file is its Source.
func newStore(t *testing.T) *platform.MediaStore {
	t.Helper()
	return &platform.MediaStore{
		Dir: filepath.Join(t.TempDir(), "media"), Prefix: "x-", Limit: 10, Log: slog.New(slog.DiscardHandler),
		Fetch: func(_ context.Context, a platform.Attachment, w io.Writer) error {
			_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{strings.NewReader(a.Source)}, make([]byte, 3))
			return err
		},
	}
}

// load loads one file and returns its path; "" if it is not loaded.
func load(t *testing.T, s *platform.MediaStore, a platform.Attachment) (path string) {
	t.Helper()
	facts, notes := s.Load(t.Context(), []platform.Attachment{a})
	if len(facts) != 1 || (facts[0].Path == "") == (len(notes) == 0) {
		t.Fatalf("facts %+v, notes %q", facts, notes)
	}
	if facts[0].Path != "" && facts[0].Size != int64(len(a.Source)) {
		t.Errorf("its size is %d", facts[0].Size)
	}
	return facts[0].Path
}

// names returns the files of a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func TestAFileIsLoadedOnce(t *testing.T) {
	s := newStore(t)
	a := platform.Attachment{ID: "1", Name: "a.PNG", Source: "0123456789"}
	path := load(t, s, a)
	if path != filepath.Join(s.Dir, "x-1.png") {
		t.Fatal(path)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != a.Source {
		t.Errorf("%q %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	s.Fetch = func(context.Context, platform.Attachment, io.Writer) error { return errors.New("fetched again") }
	if again := load(t, s, a); again != path {
		t.Errorf("the second time, %q", again)
	}
}

func TestAFileIsStoredInFullOrNotAtAll(t *testing.T) {
	s := newStore(t)
	if path := load(t, s, platform.Attachment{ID: "1", Source: "0123456789a"}); path != "" {
		t.Errorf("too large a file is stored: %s", path)
	}
	fetch := s.Fetch
	s.Fetch = func(ctx context.Context, a platform.Attachment, w io.Writer) error {
		return errors.Join(fetch(ctx, a, w), errors.New("the connection broke"))
	}
	if path := load(t, s, platform.Attachment{ID: "1", Source: "012"}); path != "" {
		t.Errorf("a part of a file is stored: %s", path)
	}
	if got := names(t, s.Dir); got != "" {
		t.Errorf("%q is left", got)
	}
}

func TestTheFilesThatWereUsedLongestAgoAreRemoved(t *testing.T) {
	s := newStore(t)
	s.Total = 25
	file := func(id string) platform.Attachment { return platform.Attachment{ID: id, Source: "0123456789"} }
	begin := time.Now().Add(-time.Hour)
	for i, id := range []string{"1", "2"} {
		if err := os.Chtimes(load(t, s, file(id)), time.Time{}, begin.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "other"), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	load(t, s, file("1")) // it is used, so that 2 is the oldest
	load(t, s, file("3"))
	if got := names(t, s.Dir); got != "other x-1 x-3" {
		t.Errorf("%s is there", got)
	}
	s.Total = 5
	load(t, s, file("4"))
	if got := names(t, s.Dir); got != "other x-4" { // what was loaded just now stays, however large
		t.Errorf("%s is there", got)
	}
}

func TestOnlyTheMediaFolderIsRead(t *testing.T) {
	s := newStore(t)
	path := load(t, s, platform.Attachment{ID: "1", Source: "words"})
	outside := filepath.Join(filepath.Dir(s.Dir), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, "x-1"} {
		if got, err := s.Read(name, 5); err != nil || string(got) != "words" {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	for _, name := range []string{outside, "../secret", "x-2", "", s.Dir} {
		if got, err := s.Read(name, 10); err == nil {
			t.Errorf("%s is read: %q", name, got)
		}
	}
	if _, err := s.Read(path, 4); err == nil {
		t.Error("a file that is too large is read")
	}
	_, err := new(platform.MediaStore).Read(path, 10)
	if _, ok := errors.AsType[*channel.NotSentError](err); !ok {
		t.Errorf("without a folder: %v", err)
	}
}

func TestNoSenderChoosesAName(t *testing.T) {
	s := newStore(t)
	for name, tt := range map[string]struct{ id, called, ending, want string }{
		"as it is":                   {"Ab_9-", "Report.PDF", "", "x-Ab_9-.pdf"},
		"without an ending":          {"7", "report", ".jpg", "x-7.jpg"},
		"without any":                {"7", "", "", "x-7"},
		"an ending with a slash":     {"7", "a.p/df", "", "x-7"},
		"an empty ending":            {"7", "a.", ".ogg", "x-7.ogg"},
		"a long ending":              {"7", "a.abcdefg", "", "x-7"},
		"a path for an id":           {"../../etc/passwd", "", "", "x-etcpasswd"},
		"no id":                      {"", "a.pdf", "", "."},
		"an id without safe letters": {"灵/..", "a.pdf", "", "."},
		"a long id":                  {strings.Repeat("a", 65), "", "", "."},
	} {
		if got := filepath.Base(load(t, s, platform.Attachment{ID: tt.id, Name: tt.called, Ending: tt.ending})); got != tt.want {
			t.Errorf("%s: %q, expected %q", name, got, tt.want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		path := load(t, s, platform.Attachment{ID: rapid.String().Draw(rt, "id"), Name: rapid.String().Draw(rt, "called")})
		if path != "" && (filepath.Dir(path) != s.Dir || len(filepath.Base(path)) > 72 || !strings.HasPrefix(filepath.Base(path), "x-")) {
			rt.Errorf("%q", path)
		}
	})
}
