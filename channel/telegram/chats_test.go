package telegram

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// sharedTexts are shared by the replicas of a test.
type sharedTexts struct {
	mu    sync.Mutex
	of    map[string][]byte
	loads int
	away  bool
}

var errAway = errors.New("away")

func (s *sharedTexts) Load(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
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

// CH-173: what one replica has learned of a group, the others know.
func TestAGroupThatHasGrownIsKnownToAllReplicas(t *testing.T) {
	s := &sharedTexts{of: map[string][]byte{}}
	open := func() *chats {
		t.Helper()
		c, err := openChats(s, "telegram")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const group, super, other, otherSuper = -5, -1000000000042, -6, -1000000000043
	a, b := open(), open()
	if err := a.learn(group, super); err != nil {
		t.Fatal(err)
	}
	b.looked = b.looked.Add(-lookAgain)
	if got := b.conversation(super); got != "-5" {
		t.Errorf("the other replica has conversation %s, expected -5", got)
	}
	if got := b.now(group); got != super {
		t.Errorf("and sends to %d", got)
	}
	if err := b.learn(other, otherSuper); err != nil {
		t.Fatal(err)
	}
	if c := open(); c.now(group) != super || c.now(other) != otherSuper {
		t.Errorf("one that starts later knows %v", c.grown)
	}
	loads := s.loads
	for _, id := range []int64{42, -7, super} { // nobody is asked for those that cannot have grown, or are known
		b.looked = b.looked.Add(-lookAgain)
		_ = b.conversation(id)
	}
	if s.loads != loads {
		t.Errorf("asked %d times for nothing", s.loads-loads)
	}
	s.away = true
	b.looked = b.looked.Add(-lookAgain)
	if got := b.conversation(-1000000000099); got != "-1000000000099" {
		t.Errorf("while nobody can be asked, it is %s", got)
	}
	if err := b.learn(-8, -1000000000044); !errors.Is(err, errAway) || b.conversation(-1000000000044) != "-8" {
		t.Errorf("%v; what was learned is known here all the same", err)
	}
	if _, err := openChats(s, "telegram"); !errors.Is(err, errAway) {
		t.Errorf("opened: %v", err)
	}
}
