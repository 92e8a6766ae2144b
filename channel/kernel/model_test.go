package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/store/db"
)

// incident happens to the senders, processes, platform or database of the model.
type incident struct {
	What string
	Who  int // the sender, or the process
	N    int // which earlier message is sent again; how long it takes; how often
}

// CH-05, CH-53, CH-56, CH-58, CH-63, CH-70, CH-73: each accepted message is answered once and in order, or its sender gets a notice; nothing is shown twice.
func TestEachMessageIsAnsweredOnceWhateverFails(t *testing.T) {
	incidents := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) incident {
		return incident{
			rapid.SampledFrom([]string{"send", "send", "send", "copy", "wait", "wait", "kill", "restart", "pause", "away", "refuse", "cut", "fail"}).Draw(t, "what"),
			rapid.IntRange(0, 1).Draw(t, "who"), rapid.IntRange(0, 40).Draw(t, "n"),
		}
	}), 1, 30)
	rapid.Check(t, func(rt *rapid.T) {
		list, durable := incidents.Draw(rt, "incidents"), rapid.Bool().Draw(rt, "durable")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			d := memory(t)
			wrong = (&world{t: t, d: d, durable: durable, chat: &platform{}}).play(list)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		if len(wrong) > 0 {
			t.Log(wrong, durable, list) // goroutines run in another order when the same is drawn again
			rt.Fatal(strings.Join(wrong, "; "))
		}
	})
}

// world has two processes that share a database, a platform, and two senders.
type world struct {
	t       *testing.T
	d       *db.DB
	durable bool
	chat    *platform
	servers [2]*process // nil: it does not run
	names   [2]string
	started int
	sent    [2][]string // accepted texts
	fails   int         // turns that fail
	refuses int         // sends that are refused for a while
	cuts    int         // sends whose answer is lost
	ordered bool        // no turn is tried again
}

func (w *world) play(list []incident) (wrong []string) {
	w.chat.fail = func(string) error {
		if w.refuses > 0 {
			w.refuses--
			return later(time.Duration(w.refuses) * time.Second)
		}
		return nil
	}
	w.chat.cut = func(string) error {
		if w.cuts > 0 {
			w.cuts--
			return errors.New("connection reset")
		}
		return nil
	}
	w.start(0)
	w.ordered = !slices.ContainsFunc(list, func(h incident) bool { return h.What == "fail" || h.What == "away" })
	for _, h := range list {
		time.Sleep(time.Millisecond) // events of two processes that arrive at once have no order
		switch s := w.servers[h.Who]; h.What {
		case "send":
			w.send(h.Who, fmt.Sprintf("<%d.%d>", h.Who, len(w.sent[h.Who])), true)
		case "copy":
			if n := len(w.sent[h.Who]); n > 0 {
				w.send(h.Who, w.sent[h.Who][h.N%n], false)
			}
		case "wait":
			time.Sleep(time.Duration(h.N*h.N) * 10 * time.Millisecond)
		case "kill":
			if s != nil {
				s.store.mu.Lock()
				s.store.last = s.store.steps + 1 + h.N%8
				s.store.mu.Unlock()
				time.Sleep(300 * time.Millisecond)
				w.end(h.Who, true)
			}
		case "restart":
			if s != nil {
				w.end(h.Who, false)
			}
			w.start(h.Who)
		case "pause": // the others take it for dead, and it comes back
			if s != nil {
				name := w.names[h.Who]
				w.setName(h.Who, "")
				s.store.setAway(true)
				time.Sleep(time.Duration(h.N) * 100 * time.Millisecond)
				s.store.setAway(false)
				w.setName(h.Who, name)
			}
		case "away":
			for _, s := range w.servers {
				if s != nil {
					s.store.setAway(true)
				}
			}
			time.Sleep(time.Duration(h.N) * 200 * time.Millisecond)
			for _, s := range w.servers {
				if s != nil {
					s.store.setAway(false)
				}
			}
		case "refuse":
			w.chat.mu.Lock()
			if w.durable { // else there is nothing that tries it again
				w.refuses = h.N % 5
			}
			w.chat.mu.Unlock()
		case "cut":
			w.chat.mu.Lock()
			w.cuts = 1
			w.chat.mu.Unlock()
		case "fail":
			w.chat.mu.Lock()
			w.fails = h.N % 3
			w.chat.mu.Unlock()
		}
	}
	for i := range w.servers {
		if w.servers[i] == nil || w.servers[i].store.isDead() {
			w.end(i, true)
			w.start(i)
		}
	}
	for began := time.Now(); ; time.Sleep(5 * time.Second) {
		events, replies, err := w.servers[0].kernel.Store.Pending(w.t.Context())
		if len(events)+len(replies) == 0 && err == nil {
			break
		}
		if time.Since(began) > 10*time.Minute {
			wrong = append(wrong, fmt.Sprintf("%v and %v are left, %v", events, replies, err))
			break
		}
	}
	w.end(0, false)
	w.end(1, false)
	return append(wrong, w.judge()...)
}

// judge says what the senders miss, or got twice.
func (w *world) judge() (wrong []string) {
	for who, sent := range w.sent {
		var answers []string
		told := 0
		got := w.chat.shownTo(fmt.Sprint(who))
		for _, text := range got {
			switch {
			case strings.HasPrefix(text, "echo "):
				answers = append(answers, strings.TrimPrefix(text, "echo "))
			case strings.HasPrefix(text, missing), strings.Contains(text, "reference"), text == "The answer that began here was cut off.", strings.HasSuffix(text, "[…]"):
				told++
			case text == "ec": // a preview whose receipt was lost
			default:
				wrong = append(wrong, fmt.Sprintf("%d got %q", who, text))
			}
		}
		unanswered := 0
		for _, text := range sent {
			switch n := strings.Count(strings.Join(answers, " "), text); {
			case n > 1:
				wrong = append(wrong, fmt.Sprintf("%d got the answer to %s %d times", who, text, n))
			case n == 0:
				unanswered++
			}
		}
		if unanswered > told {
			wrong = append(wrong, fmt.Sprintf("%d got %q for %q", who, got, sent))
		}
		if w.ordered && !slices.Equal(answers, sorted(answers)) {
			wrong = append(wrong, fmt.Sprintf("%d got %q in this order", who, got))
		}
	}
	return wrong
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b)*boolInt(len(a) == len(b)) })
	return list
}

func (w *world) setName(i int, name string) {
	w.chat.mu.Lock()
	defer w.chat.mu.Unlock()
	w.names[i] = name
}

func (w *world) alive() (names []string) {
	w.chat.mu.Lock()
	defer w.chat.mu.Unlock()
	for _, name := range w.names {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (w *world) start(i int) {
	w.started++
	w.setName(i, fmt.Sprint("r", w.started))
	w.servers[i] = start(w.t, w.d, w.names[i], w.chat, nil, inLanes(w.answer), func(s *process, o *kernel.QueueOptions) {
		o.Alive = w.alive
		if !w.durable {
			s.handler.Sender = kernel.Sender{}
		}
	})
}

func (w *world) end(i int, dies bool) {
	s := w.servers[i]
	if s == nil {
		return
	}
	if dies {
		s.store.kill()
		w.setName(i, "")
	}
	s.close()
	w.setName(i, "")
	w.servers[i] = nil
}

func (w *world) send(who int, text string, isNew bool) {
	for i, s := range w.servers {
		if s == nil || s.store.isDead() {
			continue
		}
		if _, err := s.queue.Accept(w.t.Context(), arrival(fmt.Sprint(who), slices.Index(append(w.sent[who], text), text), text)); err != nil {
			w.t.Errorf("process %d: %v", i, err)
		}
		if isNew {
			w.sent[who] = append(w.sent[who], text)
		}
		return
	}
}

// answer is an agent that says nothing of its answer twice.
func (w *world) answer(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	w.chat.mu.Lock()
	fails := w.fails > 0
	if fails {
		w.fails--
	}
	w.chat.mu.Unlock()
	text := "echo " + t.Context.BodyForAgent
	if fails {
		return channel.DispatchResult{}, errTest
	}
	if t.Shown >= len(text) {
		return channel.DispatchResult{}, nil
	}
	t.Sink.Preview(channel.Payload{Text: text[:2]})
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
		return channel.DispatchResult{}, context.Cause(ctx)
	}
	return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text, Upto: len(text)})
}
