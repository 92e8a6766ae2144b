package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/nats"
	"github.com/lingserve/lingserve/store/storetest"
)

var indexed, plain = store.LogOptions{Space: "indexed", Indexed: true}, store.LogOptions{Space: "plain"}

func openLog(t testing.TB, e store.Engine, o store.LogOptions) store.Log {
	t.Helper()
	l, err := e.(store.LogEngine).Log(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// twoLogs are two processes that have a space.
func twoLogs(t testing.TB, s *clustertest.Servers, o store.LogOptions) (a, b store.Log, c *cluster.Cluster) {
	t.Helper()
	p := newPlace(s)
	ea, c := p.open(t)
	return openLog(t, ea, o), openLog(t, p.Open(t), o), c
}

func entriesOf(data ...string) (entries []store.Entry) {
	for _, d := range data {
		entries = append(entries, store.Entry{Data: []byte(d)})
	}
	return entries
}

func tryAppend(t testing.TB, l store.Log, name string, b store.Batch) (store.Info, error) {
	if b.ID == [16]byte{} {
		b.ID = storetest.NewID()
	}
	return l.Append(t.Context(), name, b)
}

func mustAppend(t testing.TB, l store.Log, name string, b store.Batch) store.Info {
	t.Helper()
	info, err := tryAppend(t, l, name, b)
	if err != nil {
		t.Fatalf("append to %s: %v", name, err)
	}
	return info
}

func readAll(l store.Log, ctx context.Context, name string, r store.Range) (data []string, err error) {
	for e, err := range l.Read(ctx, name, r) {
		if err != nil {
			return data, err
		}
		data = append(data, string(e.Data))
	}
	return data, nil
}

// hasEntries reads a log in both directions.
func hasEntries(t testing.TB, l store.Log, name string, want ...string) {
	t.Helper()
	got, err := readAll(l, t.Context(), name, store.Range{})
	back, backErr := readAll(l, t.Context(), name, store.Range{Newest: true})
	slices.Reverse(back)
	if err != nil || backErr != nil || !slices.Equal(got, want) || !slices.Equal(back, want) {
		t.Errorf("%s has %.200q, %v, and backward %.200q, %v, want %.200q", name, got, err, back, backErr, want)
	}
}

// loseLog loses the answer of the next n publishes.
func loseLog(l store.Log) (next func(n int)) {
	var mu sync.Mutex
	left := 0
	nats.PublishLog(l, func(_ *client.Msg, send func() (*client.Msg, error)) (*client.Msg, error) {
		answer, err := send()
		mu.Lock()
		defer mu.Unlock()
		if left > 0 {
			left--
			return nil, context.DeadlineExceeded
		}
		return answer, err
	})
	return func(n int) {
		mu.Lock()
		defer mu.Unlock()
		left = n
	}
}

// ST-05, ST-30: what the servers have stored is found out when their answer is lost.
func TestLostAnswersOfLogs(t *testing.T) {
	t.Parallel()
	for _, o := range []store.LogOptions{indexed, plain} {
		a, b, _ := twoLogs(t, clustertest.One(t), o)
		losing := loseLog(a)
		losing(1)
		one := mustAppend(t, a, "k", store.Batch{Label: "l", Entries: entriesOf("1")})
		losing(2)
		two := mustAppend(t, a, "k", store.Batch{After: one.Rev, Entries: entriesOf("2", "3"), Head: []byte("h")})
		losing(1)
		three := mustAppend(t, a, "k", store.Batch{After: store.Any, Entries: entriesOf("4")})
		losing(1)
		fence := mustAppend(t, a, "k", store.Batch{After: three.Rev})
		large := strings.Repeat("large", 500_000)
		for n := range 5 { // each of its messages, and all
			losing(n + 1)
			fence = mustAppend(t, a, "large", store.Batch{After: store.Any, Entries: entriesOf(large, fmt.Sprint(n))})
		}
		losing(1)
		if err := a.Trim(t.Context(), "k", 2); err != nil {
			t.Error(err)
		}
		info, err := b.Info(t.Context(), "k")
		if err != nil || info.Rev == one.Rev || info.Rev == two.Rev || info.Last != 4 || info.Label != "l" || info.First != 2 {
			t.Errorf("%s: %+v, %v", o.Space, info, err)
		}
		if info, err := b.Info(t.Context(), "large"); err != nil || info.Rev != fence.Rev || info.Entries != 10 {
			t.Errorf("%s: %+v, %v", o.Space, info, err)
		}
		hasEntries(t, b, "k", "2", "3", "4")
		losing(1)
		if err := a.Delete(t.Context(), "k"); err != nil {
			t.Error(err)
		}
		if _, err := b.Info(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", o.Space, err)
		}
	}
}

// ST-05, ST-26: who cannot wait is told that nobody knows, and may send the same batch again, from another process too, even if others were
// written since.
func TestUnsureBatches(t *testing.T) {
	t.Parallel()
	for _, o := range []store.LogOptions{indexed, plain} {
		a, b, _ := twoLogs(t, clustertest.One(t), o)
		why := errors.New("the caller has left")
		unsure := func(l store.Log, name string, batch store.Batch) {
			t.Helper()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			nats.PublishLog(l, func(_ *client.Msg, send func() (*client.Msg, error)) (*client.Msg, error) {
				answer, err := send()
				if ctx.Err() != nil {
					return answer, err
				}
				cancel(why)
				return nil, context.DeadlineExceeded
			})
			if _, err := l.Append(ctx, name, batch); !errors.Is(err, store.ErrUnsure) || !errors.Is(err, why) || errors.Is(err, store.ErrAway) {
				t.Fatalf("%v", err)
			}
		}
		first := store.Batch{ID: storetest.NewID(), Entries: entriesOf("1")}
		unsure(a, "k", first)
		one := mustAppend(t, b, "k", first)
		second := store.Batch{ID: storetest.NewID(), After: one.Rev, Entries: entriesOf("2")}
		unsure(b, "k", second)
		two := mustAppend(t, a, "k", second)
		fence := store.Batch{ID: storetest.NewID(), After: two.Rev}
		unsure(a, "k", fence)
		mustAppend(t, b, "k", store.Batch{After: store.Any, Entries: entriesOf("3")})
		for _, l := range []store.Log{a, b} {
			for _, sent := range []struct {
				batch store.Batch
				last  uint64
			}{{first, 1}, {second, 2}, {fence, 2}} {
				if info := mustAppend(t, l, "k", sent.batch); info.Last != sent.last {
					t.Errorf("%+v, want %d entries", info, sent.last)
				}
			}
		}
		hasEntries(t, b, "k", "1", "2", "3")
		// What was not sent is no doubt.
		ctx, cancel := context.WithCancelCause(t.Context())
		nats.PublishLog(a, func(*client.Msg, func() (*client.Msg, error)) (*client.Msg, error) {
			cancel(why)
			return nil, client.ErrReconnectBufExceeded
		})
		if _, err := a.Append(ctx, "new", store.Batch{ID: storetest.NewID()}); !errors.Is(err, why) || errors.Is(err, store.ErrUnsure) {
			t.Errorf("what was not sent: %v", err)
		}
	}
}

// ST-03, ST-30: of a batch of several messages whose writer ends between them nobody sees anything, and others write on.
func TestABatchWithoutAnEnd(t *testing.T) {
	t.Parallel()
	for _, o := range []store.LogOptions{indexed, plain} {
		a, b, _ := twoLogs(t, clustertest.One(t), o)
		large := []string{strings.Repeat("x", 900_000), strings.Repeat("y", 3_000_000), "end"}
		torn := func(l store.Log, name string, after store.Rev, sent int) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			nats.PublishLog(l, func(_ *client.Msg, send func() (*client.Msg, error)) (*client.Msg, error) {
				if sent--; sent < 0 {
					cancel()
					return nil, client.ErrReconnectBufExceeded
				}
				return send()
			})
			if _, err := l.Append(ctx, name, store.Batch{ID: storetest.NewID(), After: after, Entries: entriesOf(large...)}); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			nats.PublishLog(l, func(_ *client.Msg, send func() (*client.Msg, error)) (*client.Msg, error) { return send() })
		}
		torn(a, "k", store.New, 2)
		for _, l := range []store.Log{a, b} {
			if _, err := l.Info(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%v", err)
			}
		}
		one := mustAppend(t, b, "k", store.Batch{Entries: entriesOf("first")})
		torn(a, "k", one.Rev, 3)
		hasEntries(t, b, "k", "first")
		two := mustAppend(t, b, "k", store.Batch{After: one.Rev, Entries: entriesOf(large...)})
		torn(b, "k", two.Rev, 1)
		torn(a, "k", two.Rev, 3)
		mustAppend(t, a, "k", store.Batch{After: two.Rev, Entries: entriesOf("last")})
		hasEntries(t, b, "k", slices.Concat([]string{"first"}, large, []string{"last"})...)
		if err := a.Trim(t.Context(), "k", 4); err != nil {
			t.Fatal(err)
		}
		hasEntries(t, b, "k", slices.Concat(large, []string{"last"})...)
		if err := a.Trim(t.Context(), "k", 5); err != nil {
			t.Fatal(err)
		}
		hasEntries(t, b, "k", "last")
	}
}

// ST-10, ST-11: a former leader does not know that a log exists, or how far it has come.
func TestAFormerLeaderOfLogs(t *testing.T) {
	t.Parallel()
	for _, o := range []store.LogOptions{indexed, plain} {
		s := clustertest.One(t)
		a, b, _ := twoLogs(t, s, o)
		one := mustAppend(t, a, "k", store.Batch{Entries: entriesOf("1"), Head: []byte("h")})
		ask := "$JS.API.STREAM.MSG.GET." + nats.LogStream(a)
		asked := 0
		whole := s.Divert(ask, func(m *client.Msg) *client.Msg { asked++; return clustertest.NoMessage(m) })
		for _, l := range []store.Log{a, b} {
			if info, err := l.Info(t.Context(), "k"); err != nil || info.Rev != one.Rev || string(info.Head) != "h" {
				t.Errorf("%s: %+v, %v", o.Space, info, err)
			}
		}
		if _, err := tryAppend(t, b, "k", store.Batch{}); !errors.Is(err, store.ErrMoved) {
			t.Errorf("%s: made twice: %v", o.Space, err)
		}
		nats.ForgetLogs(b)
		two := mustAppend(t, b, "k", store.Batch{After: one.Rev, Entries: entriesOf("2")})
		if _, err := a.Info(t.Context(), "other"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", o.Space, err)
		}
		hasEntries(t, b, "k", "1", "2")
		whole()
		if asked == 0 {
			t.Error("nobody has asked the leader")
		}
		// It answers with the batch of before.
		old := oldMessage(t, a, "k", one.Rev)
		whole = s.Divert(ask, func(*client.Msg) *client.Msg { return &client.Msg{Data: old} })
		if info, err := b.Info(t.Context(), "k"); err != nil || info.Rev != two.Rev { // b has written it
			t.Errorf("%s: %+v, %v", o.Space, info, err)
		}
		nats.ForgetLogs(b)
		whole()
		three := mustAppend(t, b, "k", store.Batch{After: two.Rev, Entries: entriesOf("3")})
		if info, err := a.Info(t.Context(), "k"); err != nil || info.Rev != three.Rev {
			t.Errorf("%s: %+v, %v", o.Space, info, err)
		}
		hasEntries(t, a, "k", "1", "2", "3")
	}
}

// oldMessage is what a leader answers that has a message as the last of a log.
func oldMessage(t testing.TB, l store.Log, name string, rev store.Rev) []byte {
	t.Helper()
	c := nats.Cluster(l)
	answer, err := c.Conn().RequestWithContext(t.Context(), "$JS.API.STREAM.MSG.GET."+nats.LogStream(l), fmt.Appendf(nil, `{"seq":%s}`, rev))
	if err != nil || !json.Valid(answer.Data) || !strings.Contains(string(answer.Data), nats.LogSubject(l, name)) {
		t.Fatalf("%s, %v", answer.Data, err)
	}
	return answer.Data
}

// ST-11: a copy that lags behind lacks batches, of which the leader has all.
func TestALaggingCopyOfLogs(t *testing.T) {
	t.Parallel()
	for _, o := range []store.LogOptions{indexed, plain} {
		s := clustertest.One(t)
		a, b, _ := twoLogs(t, s, o)
		for i := range 10 {
			mustAppend(t, a, "k", store.Batch{After: store.Any, Entries: []store.Entry{{Data: fmt.Append(nil, i), Mark: i%3 == 0}}})
		}
		none := func(*client.Msg) *client.Msg { return &client.Msg{Header: client.Header{"Status": {"404"}}} }
		asked := 0
		s.Divert("$JS.API.DIRECT.GET."+nats.LogStream(a), func(m *client.Msg) *client.Msg { asked++; return none(m) })
		hasEntries(t, b, "k", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
		if got, err := readAll(b, t.Context(), "k", store.Range{Marks: true}); err != nil || !slices.Equal(got, []string{"0", "3", "6", "9"}) {
			t.Errorf("%q, %v", got, err)
		}
		if asked == 0 {
			t.Error("no copy was asked")
		}
	}
}

// logTail is what a follower gets.
type logTail struct {
	t       testing.TB
	entries chan store.Entry
	ended   chan error
}

func followLog(t testing.TB, l store.Log, name string, from uint64) *logTail {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	f := &logTail{t, make(chan store.Entry, 10_000), make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range l.Follow(ctx, name, from) {
			if err != nil {
				f.ended <- err
				return
			}
			f.entries <- e
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

func (f *logTail) next(want string) {
	f.t.Helper()
	select {
	case e := <-f.entries:
		if string(e.Data) != want {
			f.t.Fatalf("entry %d is %.40q, want %.40q", e.N, e.Data, want)
		}
	case err := <-f.ended:
		f.t.Fatalf("the follower ends with %v", err)
	case <-time.After(time.Minute):
		f.t.Fatal("the follower gets nothing")
	}
}

func (f *logTail) end(want error) {
	f.t.Helper()
	select {
	case err := <-f.ended:
		if !errors.Is(err, want) {
			f.t.Fatalf("the follower ends with %v, want %v", err, want)
		}
	case e := <-f.entries:
		f.t.Fatalf("the follower gets entry %d", e.N)
	case <-time.After(time.Minute):
		f.t.Fatal("the follower does not end")
	}
}

// ST-12: a follower gets what it is not told of, be it the last or not, and hears of a deletion.
func TestAFollowerIsNotTold(t *testing.T) {
	t.Parallel()
	for _, o := range []store.LogOptions{indexed, plain} {
		a, b, c := twoLogs(t, clustertest.One(t), o)
		rev := mustAppend(t, a, "k/x", store.Batch{Entries: entriesOf("1")}).Rev
		f := followLog(t, b, "k/x", 0)
		f.next("1")
		s, err := c.JetStream().Stream(t.Context(), nats.LogStream(a))
		if err != nil {
			t.Fatal(err)
		}
		config := s.CachedInfo().Config
		tell := func(on bool) {
			t.Helper()
			changed := config
			if !on {
				changed.RePublish = nil
			}
			if _, err := c.JetStream().UpdateStream(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
		}
		add := func(data ...string) {
			t.Helper()
			rev = mustAppend(t, a, "k/x", store.Batch{After: rev, Entries: entriesOf(data...)}).Rev
		}
		tell(false)
		add("2", "3")
		tell(true)
		add("4") // which says that something is missing
		for _, want := range []string{"2", "3", "4"} {
			f.next(want)
		}
		tell(false)
		add("5") // nothing says that
		f.next("5")
		tell(true)
		large := strings.Repeat("large", 400_000)
		add(large, "6")
		f.next(large)
		f.next("6")
		if err := a.Trim(t.Context(), "k/x", 8); err != nil {
			t.Fatal(err)
		}
		add("7")
		f.next("7")
		followLog(t, b, "k/x", 2).end(store.ErrExpired)
		if err := a.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		f.end(store.ErrDeleted)
	}
}

// ST-12, ST-26: while the servers are away that is said soon; when they are back, followers get what they have missed, and lists have what
// there is.
func TestTheServersOfLogsAreAway(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	p := newPlace(s)
	ea, c := p.open(t)
	a, b := openLog(t, ea, indexed), openLog(t, p.Open(t), indexed)
	one := mustAppend(t, a, "k", store.Batch{Entries: entriesOf("1")})
	f := followLog(t, b, "k", 0)
	f.next("1")
	count := func() error {
		_, err := b.Count(t.Context(), "")
		return err
	}
	if err := count(); err != nil {
		t.Fatal(err)
	}
	s.Kill(0)
	clustertest.Eventually(t, "the connection to be lost", func() bool { return !c.Conn().IsConnected() })
	began := time.Now()
	if _, err := tryAppend(t, a, "k", store.Batch{After: one.Rev, Entries: entriesOf("lost")}); !errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrUnsure) {
		t.Errorf("append: %v", err)
	}
	longtest.Within(t, "until it is said", time.Since(began), 5*time.Second+attempt)
	var wait sync.WaitGroup
	for name, call := range map[string]func() error{
		"new":    func() error { return second(tryAppend(t, a, "new", store.Batch{})) },
		"info":   func() error { return second(a.Info(t.Context(), "k")) },
		"read":   func() error { return second(readAll(a, t.Context(), "k", store.Range{})) },
		"trim":   func() error { return a.Trim(t.Context(), "k", 1) },
		"delete": func() error { return a.Delete(t.Context(), "k") },
		"count":  count,
	} {
		wait.Go(func() {
			if err := call(); !errors.Is(err, store.ErrAway) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wait.Wait()
	s.Restart(0)
	clustertest.Eventually(t, "the servers to be back", func() bool {
		_, err := tryAppend(t, a, "k", store.Batch{After: one.Rev, Entries: entriesOf("2")})
		return err == nil || errors.Is(err, store.ErrMoved)
	})
	f.next("2")
	mustAppend(t, a, "new", store.Batch{Entries: entriesOf("1")})
	clustertest.Eventually(t, "lists", func() bool { return count() == nil })
	if n, err := b.Count(t.Context(), ""); n != 2 || err != nil {
		t.Errorf("%d logs, %v", n, err)
	}
}

// ST-16: a stream that an operator has deleted is made again; revisions of before fit no more.
func TestTheStreamOfLogsIsErased(t *testing.T) {
	t.Parallel()
	for _, o := range []store.LogOptions{indexed, plain} {
		a, b, c := twoLogs(t, clustertest.One(t), o)
		old := mustAppend(t, a, "k", store.Batch{Entries: entriesOf("1")})
		mustAppend(t, a, "other", store.Batch{Entries: entriesOf("1")})
		f := followLog(t, b, "k", 0)
		f.next("1")
		list := func(l store.Log) (names []string) {
			t.Helper()
			if !o.Indexed {
				return nil
			}
			for info, err := range l.List(t.Context(), store.Listing{}) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, info.Name)
			}
			return names
		}
		list(b)
		erase := func() {
			t.Helper()
			if err := c.JetStream().DeleteStream(t.Context(), nats.LogStream(a)); err != nil {
				t.Fatal(err)
			}
		}
		erase()
		if _, err := a.Info(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v", err)
		}
		f.end(store.ErrDeleted)
		if got := list(b); len(got) > 0 {
			t.Errorf("%q", got)
		}
		erase()
		var moved *store.MovedLog
		if _, err := tryAppend(t, a, "k", store.Batch{After: old.Rev, Entries: entriesOf("late")}); !errors.As(err, &moved) || moved.Rev != store.New {
			t.Errorf("behind what was erased: %v", err)
		}
		erase()
		made := mustAppend(t, a, "k", store.Batch{Entries: entriesOf("2")})
		if made.Rev == old.Rev || made.Last != 1 {
			t.Errorf("%+v", made)
		}
		hasEntries(t, b, "k", "2")
		if got := list(b); o.Indexed && !slices.Equal(got, []string{"k"}) {
			t.Errorf("%q", got)
		}
	}
}

// ST-30: the leader is killed while two processes append. Nothing is written twice, nothing that was acknowledged is lost, and a follower
// gets all.
func TestTheLeaderOfLogsIsKilled(t *testing.T) {
	t.Parallel()
	s := clustertest.ThreeCrashing(t)
	a, b, _ := twoLogs(t, s, indexed)
	rev := mustAppend(t, a, "k", store.Batch{}).Rev
	f := followLog(t, b, "k", 0)
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		s.Kill(s.Leader(nats.LogStream(a)))
	}()
	var want []string
	for n, done := 0, false; n < 60 || !done; n++ {
		l := []store.Log{a, b}[n%2]
		batch := store.Batch{ID: storetest.NewID(), After: rev, Entries: entriesOf(fmt.Sprint(n), fmt.Sprint(n, "!"))}
		if n%10 == 9 {
			batch.Entries[0].Data = []byte(strings.Repeat(fmt.Sprint(n), 200_000))
		}
		for end := time.Now().Add(time.Minute); ; {
			info, err := l.Append(t.Context(), "k", batch)
			if (errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrUnsure)) && time.Now().Before(end) {
				continue
			}
			if err != nil {
				t.Fatalf("batch %d: %v", n, err)
			}
			rev = info.Rev
			break
		}
		want = append(want, string(batch.Entries[0].Data), string(batch.Entries[1].Data))
		select {
		case <-lost:
			done = true
		default:
		}
	}
	hasEntries(t, b, "k", want...)
	for _, data := range want {
		f.next(data)
	}
}

// ST-09: what a batch's message says leads to any number and to the last mark of a long log, in a few requests.
func TestALongLogIsNotRead(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	a, b, _ := twoLogs(t, s, indexed)
	rev := store.New
	for i := range 1000 {
		rev = mustAppend(t, a, "k", store.Batch{After: rev, Entries: []store.Entry{{Data: fmt.Append(nil, i+1), Mark: i == 700}}}).Rev
	}
	var mu sync.Mutex
	asked := 0
	for _, subject := range []string{"$JS.API.STREAM.MSG.GET." + nats.LogStream(a), "$JS.API.DIRECT.GET." + nats.LogStream(a)} {
		if _, err := nats.Cluster(b).Conn().Subscribe(subject, func(*client.Msg) {
			mu.Lock()
			defer mu.Unlock()
			asked++
		}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(r store.Range, most int, want ...string) {
		t.Helper()
		mu.Lock()
		before := asked
		mu.Unlock()
		if got, err := readAll(b, t.Context(), "k", r); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %q, %v", r, got, err)
		}
		if err := nats.Cluster(b).Conn().FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if n := asked - before; n > most || n == 0 {
			t.Errorf("%+v: %d requests, want at most %d", r, n, most)
		}
	}
	read(store.Range{Marks: true, Newest: true, Limit: 1}, 2, "701")
	read(store.Range{From: 999}, 3, "999", "1000")
	read(store.Range{From: 5, Limit: 2}, 20, "5", "6")
}

var _ = jetstream.JSErrCodeMessageNotFound
