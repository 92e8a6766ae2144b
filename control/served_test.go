package control

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// CL-08: what is known of requests is bounded, by time, by number and by bytes; what is still served stays known.
func TestAnswersAreKnownForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLocal("self", nil)
		served := 0
		release := make(chan struct{})
		stop, err := l.Serve(func(_ context.Context, r Request) ([]byte, error) {
			served++
			if r.Command == "wait" {
				<-release
			}
			return bytes.Repeat([]byte("x"), len(r.Body)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		ask := func(id string, size int) {
			t.Helper()
			if answer, err := l.Ask(t.Context(), "self", Request{ID: id, Command: "say", Body: make([]byte, size)}); err != nil || len(answer) != size {
				t.Fatalf("%d bytes, %v", len(answer), err)
			}
		}
		times := func(want int) {
			t.Helper()
			if served != want {
				t.Fatalf("%d were served, want %d", served, want)
			}
		}
		waits := make(chan error)
		patient, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() {
			_, err := l.Ask(patient, "self", Request{ID: "w", Command: "wait"})
			waits <- err
		}()
		synctest.Wait()
		served = 0

		ask("a", 1)
		time.Sleep(Remembered - time.Nanosecond)
		ask("a", 1)
		times(1)
		time.Sleep(time.Nanosecond)
		ask("a", 1)
		times(2)

		for i := range mostServed { // the one before is the one too many
			ask(fmt.Sprint(i), 1)
		}
		ask("1", 1)
		times(2 + mostServed)
		ask("a", 1)
		times(3 + mostServed)

		ask("large", mostServedBytes)
		if n := len(l.desk.served.over); n != 1 || l.desk.served.bytes != mostServedBytes {
			t.Errorf("%d answers of %d bytes are known", n, l.desk.served.bytes)
		}
		ask("more", 1)
		if n := len(l.desk.served.over); n != 1 || len(l.desk.served.known) != 2 {
			t.Errorf("%d answers are known, and %d requests", n, len(l.desk.served.known))
		}
		times(5 + mostServed)
		close(release)
		if err := <-waits; err != nil {
			t.Error(err)
		}
		if _, err := l.Ask(t.Context(), "self", Request{ID: "w", Command: "wait"}); err != nil {
			t.Error(err)
		}
		times(5 + mostServed)
	})
}
