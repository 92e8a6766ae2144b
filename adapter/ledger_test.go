package adapter_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
)

// tiny returns a ledger of 20 MiB: 5 MiB are for requests, 4 MiB for the answers of all, 8 MiB for those of one run.
func tiny() *adapter.Ledger { return adapter.NewLedger(20 << 20) }

const wait = 30 * time.Second // for memory

var kib = strings.Repeat("x", 1<<10)

// writer is a model, and its provider. It writes so much text, 1 KiB at a time.
type writer struct {
	kib   int
	pause time.Duration // between two
	wrote atomic.Int64  // KiB
}

func (w *writer) Model(string) (adapter.Model, error) { return w, nil }
func (w *writer) Names() []string                     { return nil }

func (w *writer) Stream(ctx context.Context, _ adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		for range w.kib {
			time.Sleep(w.pause)
			if ctx.Err() != nil {
				yield(adapter.Chunk{}, context.Cause(ctx))
				return
			}
			w.wrote.Add(1)
			if !yield(adapter.Chunk{Text: kib}, nil) {
				return
			}
		}
		yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

// reader is a run that asks a writer.
type reader struct {
	*adapter.Account
	*writer
	got int // KiB
	err error
}

// read asks the model under the account until its answer ends.
func (r *reader) read(t testing.TB, ctx context.Context, timeouts adapter.Timeouts) {
	registry := adapter.Registry{Timeouts: timeouts}
	registry.Register("w", r.writer)
	m, err := registry.Model("w:w")
	if err != nil {
		t.Fatal(err)
	}
	for chunk, err := range m.Stream(r.Within(ctx), adapter.Request{}) {
		if err != nil {
			r.err = err
			return
		}
		r.got += len(chunk.Text) >> 10
	}
}

func open(l *adapter.Ledger, kib int) *reader {
	return &reader{Account: l.Open(), writer: &writer{kib: kib}}
}

// full opens two accounts that hold all memory for large answers.
func full(t *testing.T, l *adapter.Ledger) (shared, reserve *adapter.Account) {
	t.Helper()
	shared, reserve = l.Open(), l.Open()
	if err := shared.Reserve(t.Context(), 3000<<10); err != nil {
		t.Fatal(err)
	}
	if err := reserve.Reserve(t.Context(), 8<<20); err != nil {
		t.Fatal(err)
	}
	return shared, reserve
}

// FT-31.
func TestLargeAnswersWaitAndEndOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		var runs sync.WaitGroup
		for i := range 20 {
			w := open(l, 900) // more than 5 MiB of memory each
			w.pause = time.Millisecond
			runs.Go(func() {
				if w.read(t, t.Context(), adapter.Timeouts{}); w.err != nil || w.got != 900 {
					t.Errorf("run %d: %d KiB, %v", i, w.got, w.err)
				}
				w.Release()
			})
		}
		most, waiting := int64(0), 0
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			h := l.Holdings()
			most, waiting = max(most, h.Bytes), max(waiting, h.Waiting)
		}
		if runs.Wait(); most > 12<<20 || most < 4<<20 || waiting < 10 {
			t.Errorf("%d bytes at most, %d waited", most, waiting)
		}
		if h := l.Holdings(); h != (adapter.Holdings{}) {
			t.Errorf("afterwards: %+v", h)
		}
	})
}

func TestWaitingForMemoryIsNotTheModelsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		_, reserve := full(t, l)
		w := open(l, 512)
		began := time.Now()
		time.AfterFunc(20*time.Second, reserve.Release)
		w.read(t, t.Context(), adapter.Timeouts{FirstToken: time.Second, Idle: time.Second, Total: 2 * time.Second})
		if took := time.Since(began); w.err != nil || w.got != 512 || took < 20*time.Second || took > 21*time.Second {
			t.Errorf("%d KiB after %v, %v", w.got, took, w.err)
		}
	})
}

func TestAnAnswerThatWaitsTooLongForMemoryFailsAndLeavesItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		full(t, l)
		w := open(l, 512)
		began := time.Now()
		w.read(t, t.Context(), adapter.Timeouts{})
		e, ok := errors.AsType[*adapter.Error](w.err)
		if took := time.Since(began); !ok || e.Code != adapter.CodeOverloaded || !e.Retryable || e.RetryAfter != 10*time.Second || took != wait {
			t.Errorf("%+v after %v", w.err, took)
		}
		if w.got == 0 || w.got > 64 || w.wrote.Load() != int64(w.got)+1 {
			t.Errorf("%d KiB were passed on of %d", w.got, w.wrote.Load())
		}
		if h := l.Holdings(); h.Refused != 1 || h.Waiting != 0 {
			t.Errorf("%+v", h)
		}
	})
}

func TestACancellationEndsTheWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		full(t, l)
		why := errors.New("nobody wants it")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		w := open(l, 512)
		began := time.Now()
		w.read(t, ctx, adapter.Timeouts{})
		if took := time.Since(began); !errors.Is(w.err, why) || took != time.Second {
			t.Errorf("%v after %v", w.err, took)
		}
		if h := l.Holdings(); h.Waiting != 0 || h.Refused != 0 {
			t.Errorf("%+v", h)
		}
	})
}

func TestAnAnswerThatNeverFitsFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(tiny(), 2<<10) // 8 MiB hold 1365 KiB of text
		began := time.Now()
		w.read(t, t.Context(), adapter.Timeouts{})
		e, ok := errors.AsType[*adapter.Error](w.err)
		if !ok || e.Code != adapter.CodeTooLarge || e.Retryable || !strings.Contains(e.Message, " 7 MiB") || time.Since(began) != 0 {
			t.Errorf("%v", w.err)
		}
		if w.got < 1200 || w.got > 1365 {
			t.Errorf("%d KiB were passed on", w.got)
		}
	})
}

func TestSmallAnswersGoOnWhileLargeOnesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		_, reserve := full(t, l)
		large := open(l, 512)
		var runs sync.WaitGroup
		runs.Go(func() { large.read(t, t.Context(), adapter.Timeouts{}) })
		synctest.Wait()
		for range 100 { // more than fit together
			small := open(l, 40)
			if small.read(t, t.Context(), adapter.Timeouts{}); small.err != nil {
				t.Fatal(small.err)
			}
			small.Release()
		}
		reserve.Release()
		if runs.Wait(); large.err != nil {
			t.Error(large.err)
		}
	})
}

func TestARequestWithoutMemoryIsRefusedAtOnce(t *testing.T) {
	l := tiny()
	first, second := l.Open(), l.Open()
	for _, step := range []struct {
		account *adapter.Account
		bytes   int64
		want    adapter.Admission
	}{
		{first, 1 << 20, adapter.Admitted}, // 4 of 5 MiB
		{second, 512 << 10, adapter.Refused},
		{second, 16 << 10, adapter.Admitted},
		{second, 3 << 20, adapter.Impossible},
		{second, 1 << 62, adapter.Impossible},
	} {
		if got := step.account.Admit(step.bytes); got != step.want {
			t.Errorf("%d bytes: %v; expected %v", step.bytes, got, step.want)
		}
	}
	if release, ok := l.Hold(1 << 20); ok {
		release()
		t.Error("a file was held for which there is no memory")
	}
	first.Release()
	if got := second.Admit(512 << 10); got != adapter.Admitted {
		t.Errorf("%v afterwards", got)
	}
	second.Release()
	alone := l.Open()
	if got := alone.Admit(2 << 20); got != adapter.Admitted {
		t.Errorf("%v alone", got)
	}
	if alone.Release(); l.Holdings().Bytes != 0 {
		t.Errorf("%+v are held at last", l.Holdings())
	}
}

func TestAnEndedRunCountsWhileItIsFollowed(t *testing.T) {
	l := tiny()
	a := l.Open()
	if err := a.Reserve(t.Context(), 5<<20); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		do   func()
		want int64
	}{
		{a.Retain, 5 << 20}, // a client
		{func() { a.Settle(2 << 20) }, 2 << 20},
		{a.Release, 0},
		{a.Retain, 2 << 20},
		{a.Release, 0},
		{a.Release, 0},
	} {
		if step.do(); l.Holdings().Bytes != step.want {
			t.Errorf("step %d: %d bytes; expected %d", i, l.Holdings().Bytes, step.want)
		}
	}
}

// Clients that do not read cannot let one large document after the other pile up: the next one waits for them.
func TestAnEndedRunKeepsTheReserveUntilItsClientsFitBesideTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		reserve := func(a *adapter.Account) error { return a.Reserve(t.Context(), 5<<20) }
		first, second := l.Open(), l.Open()
		if err := reserve(first); err != nil {
			t.Fatal(err)
		}
		first.Retain() // a client
		first.Settle(5 << 20)
		waited := make(chan error, 1)
		go func() { waited <- reserve(second) }()
		time.Sleep(time.Second)
		if h := l.Holdings(); h.Bytes != 5<<20 || h.Waiting != 1 {
			t.Errorf("got %+v; expected that the second run waits", h)
		}
		first.Release() // the client has read it
		if err := <-waited; err != nil || l.Holdings().Bytes != 5<<20 {
			t.Error(err, l.Holdings())
		}
		second.Release()
		first.Release()
		if h := l.Holdings(); h.Bytes != 0 {
			t.Errorf("%+v", h)
		}
	})
}

func TestARunPaysForWhatItHoldsIfThatIsMoreThanItsText(t *testing.T) {
	l := tiny()
	w := open(l, 100)
	w.Measure(func() int64 { return 20 * w.wrote.Load() << 10 })
	w.read(t, t.Context(), adapter.Timeouts{})
	if held := l.Holdings().Bytes; w.err != nil || held < 20*100<<10 || held > 30*200<<10 {
		t.Errorf("%d, %v", held, w.err)
	}
}

func TestBotsOfARunPayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		a := l.Open()
		var bots sync.WaitGroup
		for range 8 {
			w := &reader{Account: a, writer: &writer{kib: 100, pause: time.Millisecond}}
			bots.Go(func() {
				if w.read(t, t.Context(), adapter.Timeouts{}); w.err != nil {
					t.Error(w.err)
				}
			})
		}
		bots.Wait()
		if held := l.Holdings().Bytes; held < 800<<10*6 || held > (800<<10+8*64<<10)*6 {
			t.Errorf("%d", held)
		}
	})
}

func TestATurnPaysFromTheAccountThatItHas(t *testing.T) {
	l := tiny()
	for _, own := range []bool{false, true} {
		ctx := t.Context()
		a := l.Open()
		if !own {
			ctx = a.Within(ctx)
		}
		within, release := l.Within(ctx)
		if (within != ctx) != own {
			t.Errorf("own account %v: the context has changed: %v", own, within != ctx)
		}
		release()
		a.Release()
	}
}

// All that may happen, from many goroutines: what is held never exceeds what there is, nobody waits forever, and nothing is left.
func TestALedgerAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		var runs sync.WaitGroup
		var right, overloaded atomic.Int64
		for i := range 200 {
			runs.Go(func() {
				time.Sleep(time.Duration(i%17) * 10 * time.Millisecond)
				ctx := t.Context()
				if i%5 == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*10*time.Millisecond)
					defer cancel()
				}
				w := open(l, 1+i*4)
				w.pause = time.Duration(i%3) * time.Millisecond
				if i%7 == 0 {
					w.Admit(int64(i) << 10)
				}
				w.read(t, ctx, adapter.Timeouts{})
				switch e, ok := errors.AsType[*adapter.Error](w.err); {
				case w.err == nil && w.got == w.kib:
					right.Add(1)
				case ok && e.Code == adapter.CodeOverloaded:
					overloaded.Add(1)
				case ctx.Err() == nil:
					t.Errorf("%d KiB of %d, %v", w.got, w.kib, w.err)
				}
				if i%3 == 0 {
					w.Retain()
					w.Settle(int64(w.got) << 10)
					time.Sleep(time.Second)
					w.Release()
				}
				w.Release()
			})
		}
		done := make(chan struct{})
		go func() { runs.Wait(); close(done) }()
		for watching := true; watching; {
			select {
			case <-done:
				watching = false
			case <-time.After(time.Millisecond):
				if h := l.Holdings(); h.Bytes > 5<<20+4<<20+8<<20 {
					t.Fatalf("%+v", h)
				}
			}
		}
		if h := l.Holdings(); h.Bytes != 0 || h.Waiting != 0 {
			t.Errorf("afterwards: %+v", h)
		}
		// How many of each there are depends on who comes first.
		if right.Load() == 0 || overloaded.Load() == 0 {
			t.Errorf("%d right, %d overloaded", right.Load(), overloaded.Load())
		}
	})
}

// tokens is a model that writes so many.
type tokens int

func (n tokens) Model(string) (adapter.Model, error) { return n, nil }
func (n tokens) Names() []string                     { return nil }

func (n tokens) Stream(context.Context, adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		for range n {
			if !yield(adapter.Chunk{Text: " word"}, nil) {
				return
			}
		}
		yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

// read reads a stream of many small chunks.
func (n tokens) read(t testing.TB, ctx context.Context) {
	registry := adapter.Registry{Timeouts: adapter.Timeouts{FirstToken: -1, Idle: -1, Total: -1}}
	registry.Register("t", n)
	m, err := registry.Model("t:t")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range m.Stream(ctx, adapter.Request{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkReading(b *testing.B) {
	b.Run("without", func(b *testing.B) { b.ReportAllocs(); tokens(b.N).read(b, b.Context()) })
	b.Run("with", func(b *testing.B) {
		b.ReportAllocs()
		tokens(b.N).read(b, adapter.NewLedger(1<<50).Open().Within(b.Context()))
	})
}

func TestPayingForTokensAllocatesNothing(t *testing.T) {
	var none *adapter.Ledger
	if a := none.Open(); a.Within(t.Context()) != t.Context() || adapter.NewLedger(0) != nil {
		t.Error("without a limit there is an account")
	}
	allocations := func(n int, ctx context.Context) float64 {
		return testing.AllocsPerRun(10, func() { tokens(n).read(t, ctx) })
	}
	ctx := adapter.NewLedger(1 << 50).Open().Within(t.Context())
	if few, many := allocations(10, ctx), allocations(10_000, ctx); many > few+100 {
		t.Errorf("%v allocations for 10 tokens, %v for 10 000", few, many)
	}
}
