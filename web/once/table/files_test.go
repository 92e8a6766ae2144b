package table_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/internal/vfs/vfstest"
	"github.com/lingserve/lingserve/store/storetest/file"
	"github.com/lingserve/lingserve/web/once"
	"github.com/lingserve/lingserve/web/once/oncetest"
	"github.com/lingserve/lingserve/web/once/table"
)

func onDisk(t *testing.T, d *vfstest.Disk) (*table.Keys, func() error) {
	t.Helper()
	e, err := file.Open(d.Dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := table.Open(t.Context(), e, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return k, func() error { return errors.Join(k.Close(), e.Close()) }
}

// FT-24, FT-26, FT-28: a key that was claimed outlasts the process at once and the machine a second later, also if a sync has failed meanwhile:
// then claims are refused until the keys are in another file, and each that was not refused is kept.
func TestKeysInFilesOutlastTheMachine(t *testing.T) {
	for name, fault := range map[string]vfstest.Fault{
		"a disk that is well": {}, "a sync that fails": {Count: 1}, "syncs that fail": {Count: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := vfstest.New()
				k, done := onDisk(t, d)
				claimed := map[string]time.Time{}
				claim := func(n int) {
					key := fmt.Sprint("key ", n)
					_, ok, err := k.Claim(t.Context(), once.Claim{Owner: "ada", Key: key, Run: oncetest.Run(n)})
					switch {
					case err == nil && ok:
						claimed[key] = time.Now()
					case !errors.Is(err, once.ErrAway):
						t.Fatal(ok, err)
					}
				}
				claim(0)
				for n := 1; n <= 20; n++ {
					time.Sleep(300 * time.Millisecond)
					synctest.Wait()
					if n == 4 && fault.Count > 0 && !strings.Contains(d.Hit(), "sync") {
						t.Fatalf("%q has failed, and no sync", d.Hit())
					}
					claim(n)
					if n == 3 && fault.Count > 0 {
						fault.First = d.Calls() + 1 // the sync, a second after the first key
						d.Fail(fault)
					}
					for power, left := range map[bool]*vfstest.Disk{false: d.Crash(false), true: d.Crash(true)} {
						after, closed := onDisk(t, left)
						for key, at := range claimed {
							if power && (time.Since(at) <= 1300*time.Millisecond || fault.Count > 0 && n < 19) {
								continue
							}
							if _, ok, err := after.Find(t.Context(), "ada", key); !ok || err != nil {
								t.Errorf("power lost %v: %s was claimed %v ago, and is lost: %v", power, key, time.Since(at), err)
							}
						}
						if err := closed(); err != nil {
							t.Error(err)
						}
					}
				}
				d.Mend()
				if len(claimed) < 15 {
					t.Errorf("%d claims of 21 were not refused", len(claimed))
				}
				if err := done(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
