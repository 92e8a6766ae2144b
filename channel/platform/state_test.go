package platform_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// texts are shared in memory, unless the database is away.
type texts struct {
	channel.Texts
	away error
}

func (s *texts) Load(ctx context.Context, name string) ([]byte, error) {
	if s.away != nil {
		return nil, s.away
	}
	return s.Texts.Load(ctx, name)
}

func (s *texts) Change(ctx context.Context, name string, do func([]byte) ([]byte, error)) error {
	if s.away != nil {
		return s.away
	}
	return s.Texts.Change(ctx, name, do)
}

// CL-02: what several add at the same time is all there.
func TestWhatIsSharedHasAllThatWasAdded(t *testing.T) {
	s := &texts{Texts: channel.NewTexts()}
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
	_ = s.Change(t.Context(), "a", func([]byte) ([]byte, error) { return []byte("{"), nil })
	if err := platform.ReadState(s, "a", &got); err == nil || !strings.HasPrefix(err.Error(), `what was learned as "a" is not what was written: `) {
		t.Error(err)
	}
	if err := add(11); err == nil {
		t.Error("a number is added to what is no list")
	}
	s.away = errors.New("away")
	if err := platform.ReadState(s, "a", &got); !errors.Is(err, s.away) {
		t.Error(err)
	}
}
