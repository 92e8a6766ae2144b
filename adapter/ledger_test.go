package adapter

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

	"github.com/lingserve/lingserve/internal/backoff"
)

// tiny is a ledger with room for few answers: 1 MiB for small ones, 3 MiB for others, and 6 MiB for one alone.
func tiny() *Ledger {
	return &Ledger{small: 1 << 20, shared: 3 << 20, reserve: 6 << 20, wait: ledgerWait}
}

// writer is a model that writes so much text, 1 KiB at a time, and notes when it has written all.
type writer struct {
	kib   int
	pause time.Duration // between two
	wrote atomic.Int64  // KiB
}

var kib = strings.Repeat("x", 1<<10)

func (w *writer) Stream(ctx context.Context, _ Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for range w.kib {
			if err := backoff.Sleep(ctx, w.pause); err != nil {
				yield(Chunk{}, err)
				return
			}
			w.wrote.Add(1)
			if !yield(text(kib), nil) {
				return
			}
		}
		yield(Chunk{Finish: FinishStop}, nil)
	}
}

// writing is a run that asks a writer.
type writing struct {
	*Account
	*writer
	got int // KiB
	err error
}

// read asks the model under the account until its answer ends.
func (w *writing) read(ctx context.Context, timeouts Timeouts) {
	m := &guarded{model: w.writer, timeouts: timeouts}
	for chunk, err := range m.Stream(w.Within(ctx), Request{}) {
		if err != nil {
			w.err = err
			return
		}
		w.got += len(chunk.Text) >> 10
	}
}

// held is what all accounts hold, and what is kept free for them.
func (l *Ledger) held() int64 {
	h := l.Holdings()
	return h.Bytes + h.Kept
}

// FT-31: answers that do not fit together end one after the other, the run that began first before the others; and what they held is free.
func TestAnswersForWhichThereIsNoMemoryWaitAndEndOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		var ended []int
		var mu sync.Mutex
		var runs sync.WaitGroup
		for i := range 20 {
			w := &writing{Account: l.Open(), writer: &writer{kib: 900, pause: time.Millisecond}} // nearly 6 MiB of memory each
			runs.Go(func() {
				w.read(t.Context(), Timeouts{})
				if w.err != nil || w.got != 900 {
					t.Errorf("run %d: %d KiB, %v", i, w.got, w.err)
				}
				mu.Lock()
				ended = append(ended, i)
				mu.Unlock()
				w.Release()
			})
			synctest.Wait()
		}
		most, waiting := int64(0), 0
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			h := l.Holdings()
			most, waiting = max(most, h.Bytes), max(waiting, h.Waiting)
		}
		runs.Wait()
		if most > l.small+l.shared+l.reserve || most < l.shared || waiting < 10 {
			t.Errorf("%d bytes at most, %d waited", most, waiting)
		}
		older := 0 // which of those that want more at the same moment is seen to wait first, nobody says
		for _, run := range ended[:10] {
			if run < 10 {
				older++
			}
		}
		if older < 7 {
			t.Errorf("they have ended as %v", ended)
		}
		if h := l.Holdings(); h != (Holdings{}) || l.holder != nil {
			t.Errorf("afterwards: %+v", h)
		}
	})
}

// The memory's own waiting is nobody's silence, and takes nothing from the time that an answer may take.
func TestWaitingForMemoryIsNotTheModelsSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		first := l.Open()
		if err := first.Reserve(t.Context(), 9<<20); err != nil {
			t.Fatal(err)
		}
		w := &writing{Account: l.Open(), writer: &writer{kib: 512}}
		began := time.Now()
		time.AfterFunc(20*time.Second, first.Release)
		w.read(t.Context(), Timeouts{FirstToken: time.Second, Idle: time.Second, Total: 2 * time.Second})
		if took := time.Since(began); w.err != nil || w.got != 512 || took != 20*time.Second {
			t.Errorf("%d KiB after %v, %v", w.got, took, w.err)
		}
	})
}

func TestWhoWaitsForMemoryForTooLongFailsAndLeavesItsModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		first := l.Open()
		if err := first.Reserve(t.Context(), 9<<20); err != nil {
			t.Fatal(err)
		}
		w := &writing{Account: l.Open(), writer: &writer{kib: 512}}
		began := time.Now()
		w.read(t.Context(), Timeouts{})
		e, ok := errors.AsType[*Error](w.err)
		if took := time.Since(began); !ok || e.Code != CodeOverloaded || !e.Retryable || e.RetryAfter != ledgerRetry || took != ledgerWait {
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

func TestACancellationEndsTheWaitingForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		first := l.Open()
		if err := first.Reserve(t.Context(), 9<<20); err != nil {
			t.Fatal(err)
		}
		why := errors.New("nobody wants it")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		w := &writing{Account: l.Open(), writer: &writer{kib: 512}}
		began := time.Now()
		w.read(ctx, Timeouts{})
		if took := time.Since(began); !errors.Is(w.err, why) || took != time.Second {
			t.Errorf("%v after %v", w.err, took)
		}
		if h := l.Holdings(); h.Waiting != 0 || h.Refused != 0 {
			t.Errorf("%+v", h)
		}
		// Nobody stands in the way of those behind it.
		first.Release()
		next := &writing{Account: l.Open(), writer: &writer{kib: 512}}
		if next.read(t.Context(), Timeouts{}); next.err != nil {
			t.Error(next.err)
		}
	})
}

func TestAnAnswerThatNeverFitsIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny() // 9 MiB, at 6 bytes for each
		w := &writing{Account: l.Open(), writer: &writer{kib: 2 << 10}}
		began := time.Now()
		w.read(t.Context(), Timeouts{})
		e, ok := errors.AsType[*Error](w.err)
		if !ok || e.Code != CodeTooLarge || e.Retryable || !strings.Contains(e.Message, "9 MiB") || time.Since(began) != 0 {
			t.Errorf("%v", w.err)
		}
		if w.got < 1024 || w.got > 1536 {
			t.Errorf("%d KiB were passed on", w.got)
		}
	})
}

// A run with a small answer goes on while large ones wait.
func TestSmallAnswersGoOnBesideLargeOnesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		first, second := l.Open(), l.Open()
		if err := first.Reserve(t.Context(), 9<<20); err != nil {
			t.Fatal(err)
		}
		large := &writing{Account: second, writer: &writer{kib: 512}}
		var runs sync.WaitGroup
		runs.Go(func() { large.read(t.Context(), Timeouts{}) })
		synctest.Wait()
		for range 100 { // more than fit together
			small := &writing{Account: l.Open(), writer: &writer{kib: 40}}
			if small.read(t.Context(), Timeouts{}); small.err != nil {
				t.Fatal(small.err)
			}
			small.Release()
		}
		first.Release()
		if runs.Wait(); large.err != nil {
			t.Error(large.err)
		}
	})
}

func TestWhileTheProcessIsShortOfMemoryOneLargeAnswerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		l.Tight(true)
		var all [3]*writing
		var runs sync.WaitGroup
		for i := range all {
			all[i] = &writing{Account: l.Open(), writer: &writer{kib: 150}}
			runs.Go(func() { all[i].read(t.Context(), Timeouts{}) })
			synctest.Wait()
		}
		if all[0].got != 150 || all[1].got == 150 || all[2].got == 150 {
			t.Errorf("%d, %d and %d KiB", all[0].got, all[1].got, all[2].got)
		}
		all[0].Release()
		synctest.Wait()
		if all[1].got != 150 || all[2].got == 150 {
			t.Errorf("then %d and %d KiB", all[1].got, all[2].got)
		}
		l.Tight(false)
		runs.Wait()
		if all[2].got != 150 {
			t.Errorf("at last %d KiB", all[2].got)
		}
	})
}

// What a run holds that has ended counts until it is let go of.
func TestAnEndedRunCountsUntilNobodyHoldsIt(t *testing.T) {
	l := tiny()
	a := l.Open()
	if err := a.Reserve(t.Context(), 5<<20); err != nil {
		t.Fatal(err)
	}
	a.Retain() // a client
	a.Settle(2<<20, 4<<20)
	// DO-01: the gauge tells what is there, and what is kept free beside it.
	for _, sent := range []bool{false, true, false} {
		a.Sent(sent)
		want := Holdings{Bytes: 2 << 20, Kept: 2 << 20}
		if sent {
			want = Holdings{Bytes: 4 << 20}
		}
		if got := l.Holdings(); got != want || l.held() != 4<<20 {
			t.Errorf("with a client, sent %v: %+v, %d held", sent, got, l.held())
		}
	}
	a.Release()
	if held := l.held(); held != 2<<20 {
		t.Errorf("without: %d", held)
	}
	a.Retain()
	a.Release() // it left memory
	a.Release()
	if held := l.held(); held != 0 {
		t.Errorf("at last: %d", held)
	}
}

// Many small values take more than their text says.
func TestWhatTheRunHoldsIsPaidForWhereItIsMoreThanItsText(t *testing.T) {
	l := tiny()
	w := &writing{Account: l.Open(), writer: &writer{kib: 100}}
	w.Measure(func() int64 { return 20 * w.given.Load() })
	w.read(t.Context(), Timeouts{})
	if held := l.held(); w.err != nil || held < 20*100<<10 || held > 30*200<<10 {
		t.Errorf("%d, %v", held, w.err)
	}
}

func TestBotsOfARunPayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tiny()
		a := l.Open()
		var bots sync.WaitGroup
		for range 8 {
			w := &writing{Account: a, writer: &writer{kib: 100, pause: time.Millisecond}}
			bots.Go(func() {
				if w.read(t.Context(), Timeouts{}); w.err != nil {
					t.Error(w.err)
				}
			})
		}
		bots.Wait()
		if held := l.held(); held < 800<<10*costOfLarge || held > (800<<10+8*lastStep)*costOfLarge {
			t.Errorf("%d", held)
		}
	})
}

func TestATurnPaysFromTheAccountThatItHas(t *testing.T) {
	l := tiny()
	a := l.Open()
	ctx, release := l.Within(a.Within(t.Context()))
	if accountOf(ctx) != a {
		t.Error("it has got another one")
	}
	release()
	if a.users != 1 {
		t.Errorf("%d users", a.users)
	}
	ctx, release = l.Within(t.Context())
	own := accountOf(ctx)
	if own == nil || own == a {
		t.Fatal("it has got none")
	}
	if err := own.Reserve(ctx, 100); err != nil {
		t.Error(err)
	}
	if release(); l.held() != 0 {
		t.Errorf("%d bytes are held", l.held())
	}
}

// All that may happen, from many goroutines: whatever is held never exceeds what there is, nobody waits for ever, and nothing is left.
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
				w := &writing{Account: l.Open(), writer: &writer{kib: 1 + i*4, pause: time.Duration(i%3) * time.Millisecond}}
				w.read(ctx, Timeouts{})
				switch e, ok := errors.AsType[*Error](w.err); {
				case w.err == nil && w.got == w.kib:
					right.Add(1)
				case ok && e.Code == CodeOverloaded:
					overloaded.Add(1)
				case ctx.Err() == nil:
					t.Errorf("%d KiB of %d, %v", w.got, w.kib, w.err)
				}
				if i%3 == 0 {
					w.Retain()
					w.Settle(int64(w.got)<<10, int64(w.got)<<11)
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
				if h := l.Holdings(); h.Bytes > l.small+l.shared+l.reserve {
					t.Fatalf("%+v", h)
				}
			}
		}
		if h := l.Holdings(); h.Bytes != 0 || h.Waiting != 0 || l.holder != nil || l.smallHeld != 0 || l.largeHeld != 0 {
			t.Errorf("afterwards: %+v", h)
		}
		if right.Load() < 100 {
			t.Errorf("%d right, %d overloaded", right.Load(), overloaded.Load())
		}
	})
}

// reading is what a stream of many small chunks costs.
func reading(b *testing.B, ctx context.Context) {
	m := &guarded{model: tokens(b.N), timeouts: Timeouts{FirstToken: -1, Idle: -1, Total: -1}}
	b.ReportAllocs()
	b.ResetTimer()
	for _, err := range m.Stream(ctx, Request{}) {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// tokens is a model that says so many.
type tokens int

func (n tokens) Stream(context.Context, Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for range n {
			if !yield(Chunk{Text: " word"}, nil) {
				return
			}
		}
	}
}

func BenchmarkReading(b *testing.B) {
	b.Run("without", func(b *testing.B) { reading(b, b.Context()) })
	b.Run("with", func(b *testing.B) { reading(b, NewLedger(1<<50).Open().Within(b.Context())) })
}

func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	for l := NewLedger(1 << 40); b.Loop(); {
		a := l.Open()
		_ = a.take(b.Context(), 100)
		a.Release()
	}
}

// Without a limit nothing is counted, and with one a token that is paid for costs no memory.
func TestCountingAllocatesNothing(t *testing.T) {
	var none *Ledger
	a := none.Open()
	ctx := t.Context()
	if a.Within(ctx) != ctx || NewLedger(0) != nil {
		t.Error("without a limit there is an account")
	}
	if n := testing.AllocsPerRun(100, func() {
		a := none.Open()
		a.Measure(nil)
		a.Retain()
		a.Settle(1, 2)
		a.Release()
		a.Release()
		_, release := none.Within(ctx)
		release()
	}); n != 0 {
		t.Errorf("without a limit there are %v allocations", n)
	}
	a = NewLedger(1 << 50).Open()
	if err := a.take(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if err := a.take(ctx, 4); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a token takes %v allocations", n)
	}
}
