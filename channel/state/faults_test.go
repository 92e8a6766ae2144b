package state

import (
	"slices"
	"testing"

	"github.com/lingserve/lingserve/internal/vfs/vfstest"
)

// Each call of a file of state to its disk fails once, and with all calls after it. What was written stays, also after a loss of power,
// what is read is what was written, and writing goes on when the disk does.
func TestEachCallToTheDiskMayFail(t *testing.T) {
	vfstest.Each(t, func(t *testing.T, d *vfstest.Disk) {
		const name = "chats.json"
		may := []int{0} // the last value that was reported as written, and those that were reported as failed since
		look := func(d *vfstest.Disk, when string) {
			var got int
			if err := read(d.Dir, name, &got); err == nil && !slices.Contains(may, got) || err != nil && when != "" {
				t.Errorf("%s: %d, %v, expected one of %v", when, got, err, may)
			}
		}
		save := func(v int) bool {
			err := write(d.Dir, name, v)
			if err == nil {
				may = nil
			}
			may = append(may, v)
			look(d, "")
			look(d.Crash(false), "after the process died")
			look(d.Crash(true), "after the power went")
			return err == nil
		}
		for v := 1; v < 4; v++ {
			save(v)
		}
		d.Mend()
		if !save(4) {
			t.Error("writing does not go on")
		}
		look(d, "with the disk back")
		if open := d.Open(); len(open) > 0 {
			t.Errorf("open after the last use: %q", open)
		}
		if files := d.Files(); d.Once() && len(files) != 1 {
			t.Errorf("%q is left", files)
		}
	})
}
