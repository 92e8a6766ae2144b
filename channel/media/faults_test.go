package media

import (
	"errors"
	"io"
	"testing"

	"github.com/lingserve/lingserve/internal/vfs"
	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// Each call of a store to its disk fails once, and with all calls after it. A file is there whole or not at all, one that is reported as kept
// is there, and keeping goes on when the disk does.
func TestEachCallToTheDiskMayFail(t *testing.T) {
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		s := &Store{Prefix: "x-", Limit: 10, Total: 12, folder: d.Dir}
		put := func(name, text string) error {
			_, size, err := s.Put(name, func(to io.Writer) error {
				_, err := io.WriteString(to, text)
				return err
			})
			if err == nil && size != int64(len(text)) {
				t.Errorf("%s is said to have %d bytes", name, size)
			}
			return err
		}
		look := func(name, text string, must bool) {
			got, err := []byte(nil), error(nil)
			folder, err := d.Crash(false).Dir(true)
			if err == nil {
				got, err = vfs.ReadFile(folder, name)
				_ = folder.Close()
			}
			if err == nil && string(got) != text || err != nil && must {
				t.Errorf("%s: %q, %v; expected %q", name, got, err, text)
			}
		}
		for _, name := range []string{"x-a", "x-b", "x-c"} { // the third one makes the first one go
			err := put(name, "text "+name)
			look(name, "text "+name, err == nil)
			if _, _, ok := s.Find(name); ok && err != nil && d.Once() {
				look(name, "text "+name, true)
			}
		}
		d.Mend()
		if err := put("x-d", "last"); err != nil {
			t.Errorf("keeping does not go on: %v", err)
		}
		look("x-d", "last", true)
		if err := put("x-e", "more than ten bytes"); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a file that is too large: %v", err)
		}
		if open := d.Open(); len(open) > 0 {
			t.Errorf("open after the last use: %q", open)
		}
	})
}
