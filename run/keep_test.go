package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// writer writes as many letters as its input says, and ends.
var writer = flow.Func(work, "", nil, func(_ context.Context, m *ling.Manager, input map[string]any) error {
	var n int
	if _, err := fmt.Sscan(fmt.Sprint(input["n"]), &n); err != nil {
		return err
	}
	_, err := m.Tube().Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte(strings.Repeat("x", n))})
	return err
})

func writeRun(t *testing.T, s *Service, n int, key string) (*Run, Outcome) {
	t.Helper()
	r, out, err := s.Start(t.Context(), &Request{Who: access.Local, Subject: Subject{Workflow: work}, Key: key, Input: json.RawMessage(fmt.Sprintf(`{"n":"%d"}`, n))})
	if err != nil {
		t.Fatal(err)
	}
	<-r.Done()
	synctest.Wait()
	return r, out
}

// FT-28: an ended run is known for its time, and a run with a key for that of its key.
func TestEndedRunIsKeptForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := startOn(t, openDB(t), writer, nil)
		began := time.Now()
		r, _ := writeRun(t, s, 1, "")
		keyed, _ := writeRun(t, s, 1, "k")
		for _, at := range []time.Duration{0, time.Minute, 5*time.Minute - 30*time.Second} {
			time.Sleep(at - time.Since(began))
			if found := findRun(t, s, r.ID); resultText(found) != resultText(r) {
				t.Errorf("after %v it is %s", at, resultText(found))
			}
			if time.Sleep(KeepInMemory + SweepEvery + 1); len(s.runsInMemory()) != 0 {
				t.Errorf("%d runs are in memory", len(s.runsInMemory()))
			}
		}
		time.Sleep(7*time.Minute - time.Since(began))
		if _, err := s.Find(t.Context(), access.Local, r.ID); !errors.Is(err, ErrExpired) {
			t.Errorf("it is found when its time is over: %v", err)
		}
		time.Sleep(23 * time.Hour)
		if again, out := writeRun(t, s, 1, "k"); again.ID != keyed.ID || !out.Replayed {
			t.Errorf("its key leads to %s, %v", again.ID, out)
		}
		time.Sleep(2 * time.Hour)
		if again, out := writeRun(t, s, 1, "k"); again.ID == keyed.ID || out != (Outcome{}) {
			t.Errorf("when the time of the key is over, it leads to %s, %v", again.ID, out)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Ended runs take a bounded part of the memory.
func TestEndedRunsTakeNoMoreMemoryThanTheyMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, size = 1 << 20, 100_000
		s, _ := startOn(t, openDB(t), writer, func(o *Options) { o.MemoryOfEnded = limit })
		var ids []string
		for range 30 {
			r, _ := writeRun(t, s, size, "")
			ids = append(ids, r.ID)
			if n := s.Load().MemoryBytes; n > limit {
				t.Errorf("%d bytes", n)
			}
		}
		for i, id := range ids {
			if r, err := s.Find(t.Context(), access.Local, id); err != nil || len(resultText(r)) < size {
				t.Errorf("run %d: %v", i, err)
			}
		}
		s.mu.Lock()
		sum := int64(0)
		for _, r := range s.kept {
			sum += r.size
		}
		if sum != s.keptBytes || sum > limit {
			t.Errorf("%d bytes are kept, %d are counted", sum, s.keptBytes)
		}
		s.mu.Unlock()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
