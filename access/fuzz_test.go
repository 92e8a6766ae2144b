package access_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
)

// Whatever a file of keys holds, each mistake is said with its line, and what was read is read again from the entries as they are written.
func FuzzKeyFile(f *testing.F) {
	key, text := access.NewKey(ann, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	f.Add("# those who may\n\n" + key.Entry() + "\r\nbob:" + text + ":admin scopes=chat:* revoked\n")
	f.Add("\ufeffann:" + foreign + ":user expires=2027-01-31\nann:" + foreign + ":user scopes=admin")
	f.Add("bob:lsk_aaaaaaaa_sha256_00:user\r \t#\n:::")
	path := filepath.Join(f.TempDir(), "keys%d.txt")
	read := func(t *testing.T, text string) ([]access.Key, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return access.ReadKeys(path)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := read(t, text)
		lines := strings.Count(text, "\n") + 1
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				var n int
				if _, err := fmt.Sscanf(line, "keys%%d.txt:%d: ", &n); err != nil || n < 1 || n > lines {
					t.Errorf("a mistake at no place: %q", line)
				}
			}
		}
		var again strings.Builder
		for i := range keys {
			again.WriteString(keys[i].Entry() + "\n")
		}
		back, err := read(t, again.String())
		if err != nil || len(back) != len(keys) {
			t.Fatalf("%v of\n%s", err, again.String())
		}
		for i := range keys {
			if back[i].Entry() != keys[i].Entry() {
				t.Errorf("%s", cmp.Diff(keys[i].Entry(), back[i].Entry()))
			}
		}
	})
}
