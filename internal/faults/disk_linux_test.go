//go:build nightly

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// FT-25: the disk of the data folder is full, below a server that runs. Runs go on and give the right document to those who wait for
// it; where room is watched, what must be kept is refused with the time to come back. When there is room again, all is as before, and
// what ended since outlives a restart. Mounting a small file system wants root.
func TestTheServerOutlivesAFullDisk(t *testing.T) {
	for _, row := range []struct {
		name string
		free string // --limit-disk-free
	}{
		{"where room is watched", "1MiB"},
		{"where it is not", "0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			data := t.TempDir()
			if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=8m"); err != nil {
				t.Skipf("no file system can be mounted here: %v", err)
			}
			t.Cleanup(func() { syscall.Unmount(data, syscall.MNT_DETACH) })
			o := serving{data: data, args: []string{"--limit-disk-free", row.free, "--run-ended-memory", "64KiB"}}
			s := serve(t, o)
			start := func(i int) (*answer, error) {
				return s.do("POST", "/v1/runs", runOf("size-30000", strconv.Itoa(i)), "Accept: application/json", "Idempotency-Key: "+strconv.Itoa(i))
			}
			right := func(a *answer, i int) bool {
				return a.status == 200 && a.state == "completed" && a.doc == docOf("size-30000", strconv.Itoa(i))
			}
			if a, err := start(0); err != nil || !right(a, 0) {
				t.Fatalf("%v, %v", a, err)
			}
			ballast := filepath.Join(data, "ballast")
			f, err := os.Create(ballast)
			if err != nil {
				t.Fatal(err)
			}
			for _, err = f.Write(make([]byte, 64<<10)); err == nil; {
				_, err = f.Write(make([]byte, 4<<10))
			}
			f.Close()
			served, refused := 0, 0
			for i := 1; i <= 40; i++ {
				a, err := start(i)
				switch {
				case err != nil:
					t.Errorf("run %d: %v", i, err)
				case right(a, i):
					served++
				case (a.status == 503 || a.status == 507) && a.header.Get("Retry-After") != "" && a.says() != "":
					refused++
				default:
					t.Errorf("run %d: %v", i, a)
				}
				s.served("m", "without a key "+strconv.Itoa(i))
			}
			s.alive()
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			eventuallySlowly(t, "there is room", func() bool { a, err := start(100); return err == nil && right(a, 100) })
			if a, err := start(0); err != nil || !right(a, 0) { // what was there before
				t.Errorf("%v, %v", a, err)
			}
			s.stop()
			s = serve(t, o)
			for _, i := range []int{0, 100} {
				if a, err := start(i); err != nil || !right(a, i) {
					t.Errorf("after a restart, run %d: %v, %v", i, a, err)
				}
				if s.model.Requests() != 0 {
					t.Errorf("run %d, which was kept, was run again", i)
				}
			}
			s.stop()
			saw(t, "FT-25", fmt.Sprintf("the data folder's disk full under a running server, 80 runs (--limit-disk-free %s)", row.free),
				"of 40 with an Idempotency-Key %d right, %d refused with the time to come back; 40 without a key right; with room again, and after a restart, as before", served, refused)
		})
	}
}
