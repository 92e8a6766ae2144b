package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/lingserve/lingserve/tape"
)

// envLease makes the test binary a process that holds the lease of tape a in that folder until its input ends.
const envLease = "FILE_TEST_LEASE"

func holdLease(dir string) {
	s, err := OpenFolder(dir, FolderOptions{})
	if err == nil {
		_, err = s.Lease(context.Background(), "a", false)
	}
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// TU-68
func TestTheLeaseOfADeadProcessIsFree(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), envLease+"="+dir)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "<nil>\n" {
		t.Fatalf("the child says %q, %v", said, err)
	}
	s := open(t, dir, FolderOptions{})
	if _, err := s.Lease(t.Context(), "a", false); !errors.Is(err, tape.ErrLeased) {
		t.Fatalf("the lease of a living process: %v", err)
	}
	other, err := s.Lease(t.Context(), "b", false)
	if err != nil {
		t.Fatal(err)
	}
	other.Release()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	// At once, which is within the time that the statement gives.
	l, err := s.Lease(t.Context(), "a", false)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	l.Release()
	if names := files(t, dir); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
}

// TA-41: erasing a session does not let two hold its lease.
func TestErasingATapeLeavesItsLease(t *testing.T) {
	s := open(t, t.TempDir(), FolderOptions{})
	create(t, s, "a")
	l, err := s.Lease(t.Context(), "a", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lease(t.Context(), "a", false); !errors.Is(err, tape.ErrLeased) {
		t.Error(err)
	}
	l.Release()
}
