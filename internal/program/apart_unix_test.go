//go:build unix

package program

import (
	"syscall"
	"testing"
)

func TestAServerApartIsInAGroupOfItsOwn(t *testing.T) {
	p, err := Start(t.Context(), path(t), t.TempDir(), &Options{Apart: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if group, err := syscall.Getpgid(p.Pid()); err != nil || group != p.Pid() {
		t.Errorf("its group is %d (%v), and it is %d", group, err, p.Pid())
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
