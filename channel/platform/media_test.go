package platform_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel/platform"
)

// store is one of a folder that is not there yet.
func store(t *testing.T) *platform.MediaStore {
	t.Helper()
	return &platform.MediaStore{Dir: filepath.Join(t.TempDir(), "media"), Prefix: "x-", Limit: 10}
}

// writes fills a file, a few bytes at a time.
func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{strings.NewReader(text)}, make([]byte, 3))
		return err
	}
}

// names are the files of a folder.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestAFileIsKeptAndFound(t *testing.T) {
	s := store(t)
	if _, _, ok := s.Find("x-1.png"); ok {
		t.Error("it is found before it is there")
	}
	path, n, err := s.Put("x-1.png", writes("0123456789"))
	if err != nil || n != 10 || path != filepath.Join(s.Dir, "x-1.png") {
		t.Fatalf("%s %d %v", path, n, err)
	}
	found, n, ok := s.Find("x-1.png")
	if !ok || found != path || n != 10 {
		t.Errorf("%s %d %t", found, n, ok)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "0123456789" {
		t.Errorf("%q %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, _, ok := s.Find(""); ok {
		t.Error("the folder is found as a file")
	}
}

func TestAFileIsThereWholeOrNotAtAll(t *testing.T) {
	broken := errors.New("the connection broke")
	for name, tt := range map[string]struct {
		name string
		fill func(io.Writer) error
		want error
	}{
		"too large":      {"x-1", writes("0123456789a"), platform.ErrTooLarge},
		"broken off":     {"x-1", func(w io.Writer) error { return errors.Join(writes("012")(w), broken) }, broken},
		"no name":        {"", writes("1"), platform.ErrNoName},
		"a name outside": {"../x-1", writes("1"), platform.ErrNoName},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			if path, n, err := s.Put(tt.name, tt.fill); !errors.Is(err, tt.want) || path != "" || n != 0 {
				t.Errorf("%q %d %v", path, n, err)
			}
			if got := names(t, s.Dir); len(got) != 0 {
				t.Errorf("%q is left", got)
			}
			if got := names(t, filepath.Dir(s.Dir)); len(got) > 1 {
				t.Errorf("%q is there", got)
			}
		})
	}
}

func TestTheOldestFilesGoWhereThereAreTooMany(t *testing.T) {
	s := store(t)
	s.Total = 25
	begin := time.Now().Add(-time.Hour)
	for i, name := range []string{"x-1", "x-2"} {
		path, _, err := s.Put(name, writes("0123456789"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, begin.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(s.Dir, "other")
	if err := os.WriteFile(other, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := s.Find("x-1"); !ok { // it is in use, so that x-2 is the oldest
		t.Fatal("x-1 is not there")
	}
	if _, _, err := s.Put("x-3", writes("0123456789")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(t, s.Dir), " "); got != "other x-1 x-3" {
		t.Errorf("%s is there", got)
	}
	s.Total = 5
	if _, _, err := s.Put("x-4", writes("0123456789")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names(t, s.Dir), " "); got != "other x-4" { // what was put just now stays, however large
		t.Errorf("%s is there", got)
	}
}

func TestNothingButTheFolderIsRead(t *testing.T) {
	s := store(t)
	path, _, err := s.Put("x-1", writes("words"))
	if err != nil {
		t.Fatal(err)
	}
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
		t.Error("what is too large is read")
	}
	if _, err := new(platform.MediaStore).Read(path, 10); err == nil {
		t.Error("there is no folder, and a file is read")
	}
}

func TestNoSenderChoosesAName(t *testing.T) {
	s := &platform.MediaStore{Prefix: "x-"}
	for name, tt := range map[string]struct{ id, called, otherwise, want string }{
		"as it is":               {"Ab_9-", "Report.PDF", "", "x-Ab_9-.pdf"},
		"without an end":         {"7", "report", ".jpg", "x-7.jpg"},
		"without any":            {"7", "", "", "x-7"},
		"an end that is none":    {"7", "a.p/df", "", "x-7"},
		"an end that is a dot":   {"7", "a.", ".ogg", "x-7.ogg"},
		"an end that is long":    {"7", "a.abcdefg", "", "x-7"},
		"a path for an id":       {"../../etc/passwd", "", "", "x-etcpasswd"},
		"no id":                  {"", "a.pdf", "", ""},
		"an id with none in it":  {"灵/..", "a.pdf", "", ""},
		"an id that is too long": {strings.Repeat("a", 65), "", "", ""},
	} {
		if got := s.Name(tt.id, tt.called, tt.otherwise); got != tt.want {
			t.Errorf("%s: %q, expected %q", name, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := s.Name(rapid.String().Draw(t, "id"), rapid.String().Draw(t, "called"), "")
		if got != "" && (!filepath.IsLocal(got) || strings.ContainsAny(got, `/\`) || len(got) > 72 || !strings.HasPrefix(got, "x-")) {
			t.Errorf("%q", got)
		}
	})
}
