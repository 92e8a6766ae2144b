package flow

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/ling"
)

// witness is a model that answers at random and notes when which bot was asked and had its answer.
type witness struct {
	mu      sync.Mutex
	random  *rand.Rand
	asked   []string // "+name" when a bot begins, "-name" when it has its answer
	failed  map[string]bool
	running map[string]int
	most    map[string]int
}

func (w *witness) Model(string) (adapter.Model, error) { return w, nil }

func (w *witness) note(sign, name string, change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, sign+name)
	w.running[name] += change
	w.most[name] = max(w.most[name], w.running[name])
}

func (w *witness) answer() (chunks []string, wait []time.Duration, fails bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	chunks = []string{"{"}
	for i := range w.random.IntN(4) {
		chunks = append(chunks, fmt.Sprintf(`"k%d":"v",`, i))
	}
	chunks = append(chunks, `"end":1}`)
	for range chunks {
		wait = append(wait, time.Duration(w.random.IntN(3000))*time.Millisecond)
	}
	return chunks, wait, w.random.IntN(6) == 0
}

func (w *witness) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		name := req.Messages[len(req.Messages)-1].Content
		w.note("+", name, 1)
		defer w.note("-", name, -1)
		chunks, wait, fails := w.answer()
		for i, text := range chunks {
			time.Sleep(wait[i])
			if fails && i == len(chunks)-1 {
				w.mu.Lock()
				w.failed[name] = true
				w.mu.Unlock()
				yield(adapter.Chunk{}, &adapter.Error{Code: adapter.CodeUnavailable, Message: "away"})
				return
			}
			if !yield(adapter.Chunk{Text: text}, nil) {
				return
			}
		}
		yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

// randomWorkflow writes a workflow of some bots that start each other in random ways.
func randomWorkflow(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("bots:\n  b0: {message: b0, root: r0}\n")
	n := 2 + r.IntN(5)
	for i := 1; i < n; i++ {
		source := r.IntN(n)
		if r.IntN(3) > 0 {
			source = r.IntN(i) // mostly one that is there already, so that most graphs can be run
		}
		fmt.Fprintf(&b, "  b%d: {message: b%d, max: %d, ", i, i, 1+r.IntN(6))
		if c := r.IntN(3); c > 0 {
			fmt.Fprintf(&b, "concurrency: %d, ", c)
		}
		switch r.IntN(8) {
		case 0, 1:
			fmt.Fprintf(&b, "on: {done: b%d}, root: r%d}\n", source, i)
		case 2:
			fmt.Fprintf(&b, "on: {%s: [b0, b%d]}, root: r%d}\n", []string{"done", "completed"}[r.IntN(2)], max(source, 1), i)
		case 3:
			fmt.Fprintf(&b, "on: {completed: b%d}, root: r%d}\n", source, i)
		case 4:
			fmt.Fprintf(&b, "on: [{error: b%d}, {completed: b%d}, {done: b0}], root: r%d}\n", source, source, i)
		case 5:
			fmt.Fprintf(&b, "on: {error: b%d}, root: r%d}\n", source, i)
		default:
			fmt.Fprintf(&b, "on: \"r%d/**\", root: \"r%d/{{ event.match.0 }}\"}\n", source, i)
		}
	}
	return b.String()
}

// DW-02, DW-03: whatever starts what, every run ends, {done: …} and {completed: …} fire once at most and only when all of those
// names have ended and none comes any more, the first always and the second where none has failed, and the bounds hold.
func TestEndsAreToldOnceInAnyGraph(t *testing.T) {
	ran, waited := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := randomWorkflow(r)
		parsed, err := ParseSpec("w.yaml", []byte(text), nil)
		if err != nil {
			continue
		}
		ran++
		s := parsed.(*spec)
		synctest.Test(t, func(t *testing.T) {
			w := &witness{random: r, running: map[string]int{}, most: map[string]int{}, failed: map[string]bool{}}
			m := ling.New(t.Context(), bot.Config{}, &ling.Options{Models: w})
			if err := s.Run(t.Context(), m, map[string]any{}); err != nil {
				t.Fatal(err)
			}
			m.Close()
			first, last, starts := map[string]int{}, map[string]int{}, map[string]int{}
			for i, line := range w.asked {
				name := line[1:]
				if last[name] = i; line[0] == '+' {
					starts[name]++
					if starts[name] == 1 {
						first[name] = i
					}
				}
			}
			for _, b := range s.bots {
				if starts[b.name] > b.max || b.concurrency > 0 && w.most[b.name] > b.concurrency {
					t.Errorf("seed %d: %s was started %d times, %d at once\n%s", seed, b.name, starts[b.name], w.most[b.name], text)
				}
				if len(b.on) != 1 || !b.on[0].ends() {
					continue
				}
				waited++
				want := 1
				for _, n := range b.on[0].names {
					target := n.Text
					if b.on[0].kind == onCompleted && (starts[target] == 0 || w.failed[target]) {
						want = 0
					}
					if starts[b.name] > 0 && starts[target] > 0 && last[target] > first[b.name] {
						t.Errorf("seed %d: %s was started before %s had ended\n%s%q", seed, b.name, target, text, w.asked)
					}
				}
				if starts[b.name] != want {
					t.Errorf("seed %d: %s waits for an end, and was started %d times, expected %d\n%s%q", seed, b.name, starts[b.name], want, text, w.asked)
				}
			}
		})
	}
	if ran < 100 || waited < 50 {
		t.Errorf("only %d graphs were run, with %d that wait", ran, waited)
	}
}
