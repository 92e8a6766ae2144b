package platform_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/channel/platform"
)

// texts are shared in memory; away says that nobody can be reached.
type texts struct {
	mu   sync.Mutex
	of   map[string][]byte
	away error
}

func (s *texts) Load(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[name], s.away
}

func (s *texts) Change(_ context.Context, name string, do func([]byte) ([]byte, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return s.away
	}
	text, err := do(s.of[name])
	if err == nil {
		s.of[name] = text
	}
	return err
}

// CL-02: what several add at the same time is all there.
func TestWhatIsSharedHasAllThatWasAdded(t *testing.T) {
	s := &texts{of: map[string][]byte{}}
	add := func(n int) error {
		return platform.ChangeState(s, "a", func(was []int) ([]int, bool) { return append(was, n), n > 0 })
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if err := add(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := []int{-1}
	if err := platform.ReadState(s, "b", &got); err != nil || len(got) != 1 || got[0] != -1 {
		t.Errorf("where nothing is, %v, %v", got, err)
	}
	if err := platform.ReadState(s, "a", &got); err != nil || len(got) != 9 {
		t.Errorf("%v, %v, expected nine numbers", got, err)
	}
	s.of["a"] = []byte("{")
	if err := platform.ReadState(s, "a", &got); err == nil || !strings.HasPrefix(err.Error(), `what was learned as "a" is not what was written: `) {
		t.Error(err)
	}
	if err := add(11); err == nil || string(s.of["a"]) != "{" {
		t.Errorf("%v, and there is %s", err, s.of["a"])
	}
	s.away = errors.New("away")
	if err := platform.ReadState(s, "a", &got); !errors.Is(err, s.away) {
		t.Error(err)
	}
}
