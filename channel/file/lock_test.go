//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/lingserve/lingserve/channel/file"
)

// holdFolder names the folder of the journal that a process is to hold which is this test's other half.
const holdFolder = "LINGSERVE_TEST_HOLD"

// CH-72: claims are good only where one process gives them.
func TestASecondProcessCannotOpenAJournalUntilTheFirstHasDied(t *testing.T) {
	if dir := os.Getenv(holdFolder); dir != "" { // the first process
		j, err := file.OpenJournal(dir, file.JournalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if isNew, err := j.Accept(t.Context(), key(1), []byte("hi")); err != nil || !isNew {
			t.Fatal(isNew, err)
		}
		fmt.Println("holds it")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		return
	}
	dir := t.TempDir()
	first := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	first.Env = append(os.Environ(), holdFolder+"="+dir)
	if _, err := first.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "holds it\n" {
		_ = first.Process.Kill()
		t.Fatalf("the first process says %q, %v", line, err)
	}
	if j, err := file.OpenJournal(dir, file.JournalOptions{}); !errors.Is(err, file.ErrInUse) {
		t.Errorf("a second process gets %v, %v; expected that the folder is in use", j, err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	j := open(t, dir, file.JournalOptions{}) // at once: what was held ends with its process
	for e, err := range j.Pending(t.Context()) {
		if err != nil || string(e.Raw) != "hi" {
			t.Errorf("got %q, %v", e.Raw, err)
		}
		return
	}
	t.Error("what the first has accepted is not there")
}

// CH-72
func TestAJournalIsOpenedOnceInOneProcess(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, file.JournalOptions{})
	for range 2 { // the second attempt does not let go of what the first one holds
		if _, err := file.OpenJournal(dir, file.JournalOptions{}); !errors.Is(err, file.ErrInUse) {
			t.Errorf("got %v, expected that it is in use", err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, file.JournalOptions{})
}
