package tape_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// refusing is a store whose next appends to a tape fail.
type refusing struct {
	*tapetest.Memory
	name  string
	times int
	err   error
	lost  bool // the append happens, and the answer is lost
}

func (s *refusing) Append(ctx context.Context, name string, b tape.Batch) (int64, error) {
	if name != s.name || s.times == 0 {
		return s.Memory.Append(ctx, name, b)
	}
	s.times--
	if s.lost {
		if id, err := s.Memory.Append(ctx, name, b); err != nil {
			return id, err
		}
	}
	return 0, s.err
}

func TestAMergeThatFailedIsTriedAgainAndHappensOnce(t *testing.T) { // TA-30, TA-32
	for _, lost := range []bool{false, true} {
		bang, broken := errors.New("bang"), errors.New("the disk is full")
		s := &refusing{Memory: tapetest.NewMemory(nil), err: broken, lost: lost}
		tp, err := tape.Open(t.Context(), s, t.TempDir(), "s")
		if err != nil {
			t.Fatal(err)
		}
		count := func() int64 {
			info, err := tp.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return info.Entries
		}
		var f *tape.Fork
		err = tape.WithFork(t.Context(), tp, true, func(ctx context.Context, fork *tape.Fork) error {
			f = fork
			s.name, s.times = tp.Name(), 1
			if _, err := f.Append(ctx, tape.NewMessage("user", "one"), tape.NewMessage("user", "two")); err != nil {
				t.Error(err)
			}
			return bang
		})
		if !errors.Is(err, bang) || !errors.Is(err, broken) {
			t.Errorf("lost=%v: the error is %v, want that of fn joined with the merge's", lost, err)
		}
		if want := map[bool]int64{false: 1, true: 3}[lost]; count() != want {
			t.Errorf("lost=%v: after the failed merge the parent has %d entries, want %d", lost, count(), want)
		}
		for range 2 {
			if err := f.Merge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if count() != 3 {
			t.Errorf("lost=%v: after it was tried again the parent has %d entries, want 3", lost, count())
		}
	}
}

func TestSettingsAreReadHoweverTheyAreWritten(t *testing.T) { // AG-30
	tp := open(t)
	for _, payload := range []string{
		`{"name":"setting","data":{"name":"model","value":"demo:a"}}`,
		` { "data" : { "value" : { "a" : [ 1 ] } , "name" : "limits" } , "name" : "setting" } `,
		`{"name":"s\u0065tting","data":{"n\u0061me":"esc\u0061ped","value":null}}`,
		`{"name":"other","data":{"name":"model","value":"demo:b"}}`,
		`{"name":"setting","data":{"name":"","value":1}}`,
		`{"name":"setting","data":{"name":"valueless"}}`,
		`{"name":"setting","data":"model"}`,
		`{"name":"setting"}`,
		`{"name":["setting"]}`,
		`{}`,
	} {
		put(t, tp, raw(tape.KindEvent, payload))
	}
	got, err := tp.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]json.RawMessage{"model": json.RawMessage(`"demo:a"`), "limits": json.RawMessage(`{ "a" : [ 1 ] }`), "escaped": json.RawMessage("null")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
