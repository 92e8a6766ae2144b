//go:build unix

package nats_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/tape"
)

func init() { roles["writer"] = writer }

// writer is a process that takes the lease of a tape and makes it; for each line that it is told it appends one entry.
func writer(arg string) error {
	var p tapesAt
	if err := json.Unmarshal([]byte(arg), &p); err != nil {
		return err
	}
	s, err := connectTapes(p)
	if err != nil {
		return err
	}
	ctx, cancel := longest()
	defer cancel()
	l, err := s.Lease(ctx, "a", true)
	if err != nil {
		return err
	}
	if _, err := s.Append(ctx, "a", tape.Batch{Create: true, Entries: say("writer")}); err != nil {
		return err
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		_, err := s.Append(ctx, "a", tape.Batch{Entries: say(in.Text())})
		switch {
		case err == nil:
			fmt.Println("appended")
		case errors.Is(err, tape.ErrLeased):
			<-l.Lost()
			fmt.Println("refused, and the lease is lost")
		default:
			fmt.Println(err)
		}
	}
	l.Release()
	return s.Close()
}

func TestAWriterThatWasPausedIsRefused(t *testing.T) { // CL-06
	t.Parallel()
	p := tapesAt{clustertest.One(t).URL(), clustertest.Prefix()}
	arg, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	w := clustertest.Start(t, "writer", string(arg))
	w.Expect("ready")
	w.Say("before")
	w.Expect("appended")
	s := openTapes(t, p)
	if _, err := leased(t.Context(), s, "a"); !errors.Is(err, tape.ErrLeased) {
		t.Fatalf("the lease that another process has: %v", err)
	}
	w.Signal(syscall.SIGSTOP)
	began := time.Now()
	l, err := s.Lease(t.Context(), "a", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	t.Logf("the lease of a process that is stopped is free after %v", time.Since(began))
	// Nothing was appended under the new lease when the writer comes back.
	w.Signal(syscall.SIGCONT)
	w.Say("after")
	w.Expect("refused, and the lease is lost")
	w.Say("again")
	w.Expect("refused, and the lease is lost")
	if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("other")}); err != nil {
		t.Fatal(err)
	}
	wantWords(t, s, "writer", "before", "other")
	w.Close()
}
