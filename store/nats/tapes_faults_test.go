package nats_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// lossy is a way to a server on which acknowledgements get lost, and connections break when one has been sent.
type lossy struct {
	listener     net.Listener
	server       string
	lose, breaks atomic.Int64 // in a hundred
	lost, broken atomic.Int64
	hold         atomic.Bool // the next batch comes late: when the replica has asked whether it is there, and asks or sends again

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func newLossy(t *testing.T, url string) *lossy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{listener: l, server: strings.TrimPrefix(url, "nats://")}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *lossy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *lossy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, c, s)
		p.mu.Unlock()
		end := func() { _, _ = c.Close(), s.Close() }
		p.wg.Go(func() { p.requests(s, c); end() })
		p.wg.Go(func() { p.answers(c, s); end() })
	}
}

// requests copies what a replica says, a message at a time.
func (p *lossy) requests(to io.Writer, from io.Reader) {
	in := bufio.NewReader(from)
	var held []byte
	since := 0 // questions about messages
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		fields := strings.Fields(string(line))
		if len(fields) > 2 && (fields[0] == "PUB" || fields[0] == "HPUB") {
			size, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return
			}
			body := make([]byte, size+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			line = append(line, body...)
			if strings.HasPrefix(fields[1], "$JS.API.STREAM.MSG.GET.") {
				since++
			}
			switch {
			case strings.HasSuffix(fields[1], ".e") && p.hold.CompareAndSwap(true, false):
				held, since = line, 0
				continue
			case held != nil && (since == 2 || strings.HasSuffix(fields[1], ".e")):
				if _, err := to.Write(held); err != nil {
					return
				}
				held = nil
				time.Sleep(100 * time.Millisecond) // it is stored when what follows comes
			}
		}
		if _, err := to.Write(line); err != nil {
			return
		}
	}
}

// discovered are other ways to the servers.
var discovered = regexp.MustCompile(`"connect_urls":\[[^\]]*\],?`)

// happens says whether something happens that has so many chances in a hundred, and counts it. Where it has any, the first one is taken.
func happens(chances, times *atomic.Int64) bool {
	n := chances.Load()
	if n == 0 || times.Load() > 0 && rand.Int64N(100) >= n {
		return false
	}
	times.Add(1)
	return true
}

// answers copies what a server says, a message at a time.
func (p *lossy) answers(to io.Writer, from io.Reader) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		fields := strings.Fields(string(line))
		if len(fields) > 0 && fields[0] == "INFO" {
			line = discovered.ReplaceAll(line, nil)
		}
		if len(fields) > 3 && (fields[0] == "MSG" || fields[0] == "HMSG") {
			size, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return
			}
			body := make([]byte, size+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			if bytes.HasPrefix(body, []byte(`{"stream":`)) { // an acknowledgement
				if happens(&p.lose, &p.lost) {
					continue
				}
				if happens(&p.breaks, &p.broken) {
					return
				}
			}
			line = append(line, body...)
		}
		if _, err := to.Write(line); err != nil {
			return
		}
	}
}

func TestAcknowledgementsGetLost(t *testing.T) { // CL-06
	for servers, start := range map[string]func(testing.TB) *clustertest.Servers{"one": clustertest.One, "three": clustertest.Three} {
		t.Run(servers, func(t *testing.T) {
			if servers != "one" {
				longtest.Only(t, "three servers")
			}
			t.Parallel()
			s := start(t)
			url, _, _ := strings.Cut(s.URL(), ",")
			prefix := clustertest.Prefix()
			way := newLossy(t, url)
			good := openTapes(t, tapesAt{url, prefix})
			if _, err := good.Append(t.Context(), "a", tape.Batch{Create: true, Entries: say("start")}); err != nil {
				t.Fatal(err)
			}
			const writers, batches = 3, 8
			var mu sync.Mutex
			acknowledged := map[int64]string{}
			var stores []*replica
			for range writers {
				r := openTapes(t, tapesAt{way.url(), prefix})
				r.SetWaits(300*time.Millisecond, 3*time.Minute) // on a busy machine what is not lost takes its time, too
				stores = append(stores, r)
			}
			way.lose.Store(40)
			way.breaks.Store(20)
			var wg sync.WaitGroup
			for w, r := range stores {
				wg.Go(func() {
					for i := range batches {
						word := fmt.Sprintf("%d-%d", w, i)
						entries := say(word, word)
						if i%4 == 3 { // of several messages
							entries = say(word+strings.Repeat(" long", 30_000), word)
						}
						first, err := r.Append(t.Context(), "a", tape.Batch{Entries: entries})
						if err != nil {
							t.Errorf("%s: %v", word, err)
							return
						}
						mu.Lock()
						if other, twice := acknowledged[first]; twice {
							t.Errorf("id %d is that of %s and of %s", first, other, word)
						}
						acknowledged[first] = word
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			way.lose.Store(0)
			way.breaks.Store(0)
			t.Logf("%d acknowledgements were lost, %d connections broken", way.lost.Load(), way.broken.Load())
			if way.lost.Load() == 0 || way.broken.Load() == 0 {
				t.Error("no acknowledgement was lost, or no connection broken")
			}
			words := wordsOf(t, good, "a")
			if len(words) != 1+2*writers*batches {
				t.Errorf("the tape has %d entries, want %d", len(words), 1+2*writers*batches)
			}
			for first, word := range acknowledged {
				got := words[first-1 : first+1]
				if head, _, _ := strings.Cut(got[0], " "); head != word || got[1] != word {
					t.Errorf("at %d are %.20q, and %s was acknowledged", first, got, word)
				}
			}
		})
	}
}

// TestABatchThatComesLateIsThereOnce has a batch come when the store has seen that it is not there: in a cluster a message and a
// question go different ways.
func TestABatchThatComesLateIsThereOnce(t *testing.T) { // CL-06
	t.Parallel()
	url, prefix := clustertest.One(t).URL(), clustertest.Prefix()
	way := newLossy(t, url)
	s := openTapes(t, tapesAt{way.url(), prefix})
	s.SetWaits(300*time.Millisecond, time.Minute)
	if _, err := s.Append(t.Context(), "a", tape.Batch{Create: true, Entries: say("start")}); err != nil {
		t.Fatal(err)
	}
	want := []string{"start"}
	for i := range 3 {
		way.hold.Store(true)
		word := fmt.Sprint("late ", i)
		if first, err := s.Append(t.Context(), "a", tape.Batch{Entries: say(word)}); err != nil || first != int64(2+i) {
			t.Errorf("append %d gives id %d, %v", i, first, err)
		}
		if way.hold.Load() {
			t.Error("the batch did not come late")
		}
		want = append(want, word)
	}
	wantWords(t, s, want...)
}

// TestTheConnectionIsClosedUnderAnAppend that is on its way: it may be stored, and what is tried afterwards is not.
func TestTheConnectionIsClosedUnderAnAppend(t *testing.T) { // CL-06
	t.Parallel()
	way := newLossy(t, clustertest.One(t).URL())
	s := openTapes(t, tapesAt{way.url(), clustertest.Prefix()})
	if _, err := s.Append(t.Context(), "a", tape.Batch{Create: true, Entries: say("start")}); err != nil {
		t.Fatal(err)
	}
	s.SetWaits(time.Minute, time.Minute)
	way.lose.Store(100)
	onItsWay := make(chan error, 1)
	go func() {
		_, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("more")})
		onItsWay <- err
	}()
	clustertest.Eventually(t, "an answer to be lost", func() bool { return way.lost.Load() > 0 })
	if err := s.cluster.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-onItsWay; !errors.Is(err, tape.ErrUnsure) || !strings.Contains(err.Error(), "it may or may not be stored") {
		t.Errorf("the append that was on its way: %v", err)
	}
	if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: say("later")}); !errors.Is(err, tape.ErrAway) || errors.Is(err, tape.ErrUnsure) || !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("the append after it: %v", err)
	}
}

func TestTheLeaderIsKilledWhileTapesAreAppendedTo(t *testing.T) { // CL-06, CL-11
	t.Parallel()
	s := clustertest.ThreeCrashing(t)
	p := tapesAt{s.URL(), clustertest.Prefix()}
	stores := []*replica{openTapes(t, p), openTapes(t, p)}
	if _, err := stores[0].Append(t.Context(), "a", tape.Batch{Create: true, Entries: say("start")}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	counts := make([]int, 2*len(stores))
	var longest, total atomic.Int64
	for w := range counts {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				word := fmt.Sprintf("%d-%d", w, counts[w])
				if _, err := stores[w%len(stores)].Append(t.Context(), "a", tape.Batch{Entries: say(word, word)}); err != nil {
					t.Errorf("%s: %v", word, err)
					return
				}
				counts[w]++
				total.Add(1)
				longest.Store(max(longest.Load(), int64(time.Since(began))))
				if in, err := stores[(w+1)%len(stores)].Info(t.Context(), "a"); err != nil || in.Entries < int64(2*counts[w]) {
					t.Errorf("the other replica sees %d entries, %v", in.Entries, err)
				}
			}
		})
	}
	appended := func(more int64) {
		for want := total.Load() + more; total.Load() < want && t.Context().Err() == nil && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	appended(20)
	leader := s.Leader(stores[0].Stream())
	s.Kill(leader)
	appended(20)
	s.Restart(leader)
	s.WaitReady()
	appended(20)
	close(stop)
	wg.Wait()
	words := wordsOf(t, stores[1], "a")[1:]
	next := make([]int, len(counts))
	for pair := range slices.Chunk(words, 2) {
		var w, i int
		if _, err := fmt.Sscanf(pair[0], "%d-%d", &w, &i); err != nil || len(pair) != 2 || pair[0] != pair[1] || next[w] != i {
			t.Fatalf("%q follows number %d of the writer; %v", pair, next[w], err)
		}
		next[w]++
	}
	if !slices.Equal(next, counts) {
		t.Errorf("of the writers %v batches are there, and %v were acknowledged", next, counts)
	}
	t.Logf("%v batches, the slowest in %v", counts, time.Duration(longest.Load()))
}

func TestTheServersOfTapesAreAway(t *testing.T) { // CL-10
	t.Parallel()
	servers := clustertest.One(t)
	s := openTapes(t, tapesAt{servers.URL(), clustertest.Prefix()})
	ctx := t.Context()
	if _, err := s.Append(ctx, "a", tape.Batch{Create: true, Entries: say("before")}); err != nil {
		t.Fatal(err)
	}
	sessions := func() (n int, err error) {
		for _, err = range s.Sessions(ctx, tape.SessionQuery{}) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	if n, err := sessions(); n != 1 || err != nil {
		t.Fatalf("%d sessions, %v", n, err)
	}
	servers.Kill(0)
	s.SetWaits(100*time.Millisecond, 400*time.Millisecond)
	for what, call := range map[string]func() error{
		"append":     func() error { _, err := s.Append(ctx, "a", tape.Batch{Entries: say("away")}); return err },
		"create":     func() error { _, err := s.Append(ctx, "b", tape.Batch{Create: true, Entries: say("away")}); return err },
		"info":       func() error { _, err := s.Info(ctx, "a"); return err },
		"delete":     func() error { return s.Delete(ctx, "a") },
		"list":       func() error { _, err := sessions(); return err },
		"put a blob": func() error { _, err := s.PutBlob(ctx, "a", []byte("data")); return err },
		"read": func() error {
			for _, err := range s.Read(ctx, "a", tape.Query{}) {
				return err
			}
			return nil
		},
	} {
		began := time.Now()
		err := call()
		e, ok := errors.AsType[*logs.Error](err)
		if !ok || e.ErrorCode() != adapter.CodeOverloaded || !strings.Contains(err.Error(), "the store of sessions") {
			t.Errorf("%s: %v, want an error with the code %q", what, err, adapter.CodeOverloaded)
		}
		longtest.Within(t, what, time.Since(began), 10*time.Second)
	}
	servers.Restart(0)
	s.SetWaits(time.Second, time.Minute)
	if _, err := s.Append(ctx, "a", tape.Batch{Entries: say("after")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(ctx, "b", tape.Batch{Create: true, Entries: say("after")}); err != nil {
		t.Fatal(err)
	}
	wantWords(t, s, "before", "after")
	if n, err := sessions(); n != 2 || err != nil {
		t.Errorf("%d sessions are listed, %v, want 2", n, err)
	}
}
