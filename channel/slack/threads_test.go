package slack

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// sharedTexts are shared by the replicas of a test.
type sharedTexts struct {
	mu   sync.Mutex
	of   map[string][]byte
	away bool
}

var errAway = errors.New("away")

func (s *sharedTexts) Load(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errAway
	}
	return s.of[name], nil
}

func (s *sharedTexts) Change(_ context.Context, name string, do func([]byte) ([]byte, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return errAway
	}
	text, err := do(s.of[name])
	if err == nil {
		s.of[name] = text
	}
	return err
}

// CL-02: who answers in a thread in which the bot has written at one replica need not mention it at another.
func TestThreadsAreKnownToAllReplicas(t *testing.T) {
	s := &sharedTexts{of: map[string][]byte{}}
	open := func() *threads {
		t.Helper()
		c, err := openThreads(s, "slack")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := open(), open()
	learn := func(c *threads, thread string) {
		t.Helper()
		if err := c.learn("C1", thread); err != nil {
			t.Fatal(err)
		}
	}
	learn(a, "1")
	learn(b, "2")
	learn(b, "1")
	for name, c := range map[string]*threads{"the one": a, "the other": b, "one that starts later": open()} {
		if !c.has("C1", "1") || !c.has("C1", "2") || c.has("C1", "3") {
			t.Errorf("%s knows %v", name, c.known.Keys())
		}
	}
	if got := string(s.of["slack"]); got != `[["C1","1"],["C1","2"]]` {
		t.Errorf("shared is %s", got)
	}
	s.away = true
	if !a.has("C1", "1") || a.has("C1", "4") {
		t.Error("while nobody can be asked, something else is known here")
	}
	if err := a.learn("C1", "4"); !errors.Is(err, errAway) {
		t.Error(err)
	}
	s.away = false
	learn(a, "4") // what could not be told is told with the next message
	if !b.has("C1", "4") {
		t.Error("a thread that could not be told is never told")
	}
}
