package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/internal/trail"
)

// A token of "dear" costs a thousandth of a dollar, one of "cheap" a millionth.
func testPrices(_, model string) (Price, bool) {
	rates := map[string]float64{"dear": 1000, "cheap": 1}
	r, ok := rates[model]
	return Price{Input: r, Cached: r, CacheWrite: r, Output: r, Reasoning: r}, ok
}

// priced is a registry with the models "x:dear", "x:cheap" and "x:unknown", which do the same.
func priced(t testing.TB, m Model, o BudgetOptions) *Registry {
	t.Helper()
	r := &Registry{Prices: testPrices, Budget: NewBudget(o), Retries: Retries{Attempts: 2, Base: time.Millisecond, Max: time.Millisecond}}
	r.Register("x", provider{"dear": m, "cheap": m, "unknown": m})
	return r
}

// asks asks a model for a run, with 40 bytes of prompt and a bound of tokens for the answer.
func asks(t testing.TB, r *Registry, model string, work trail.Trail, tokens int) (said string, usage Usage, err error) {
	t.Helper()
	m, err := r.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	req := Request{Messages: []Message{{Role: User, Content: strings.Repeat("x", 40)}}}
	req.MaxTokens = &tokens
	for c, e := range m.Stream(trail.With(t.Context(), work), req) {
		if said += c.Text; c.Usage != nil {
			usage = *c.Usage
		}
		err = e
	}
	return said, usage, err
}

// answer is an answer of so many tokens, in pieces of one each, with the counts at its end.
func answer(tokens int) (steps []step) {
	for range tokens {
		steps = append(steps, step{chunk: text("abcd")})
	}
	u := Usage{PromptTokens: 10, CompletionTokens: tokens, TotalTokens: 10 + tokens}
	return append(steps, step{chunk: Chunk{Finish: FinishStop, Usage: &u}})
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return fmt.Sprint(err)
}

// MO-40: the cost stands beside the counts, for all that come behind; a provider's own is kept.
func TestCostStandsBesideTheCounts(t *testing.T) {
	u := Usage{PromptTokens: 10, CompletionTokens: 20, TotalTokens: 30}
	theirs := u
	theirs.Cost = 7
	for name, row := range map[string]struct {
		model string
		usage Usage
		want  int64
	}{
		"a price":           {"x:dear", u, 30_000},
		"no price":          {"x:unknown", u, 0},
		"the provider's":    {"x:dear", theirs, 7},
		"only the provider": {"x:unknown", theirs, 7},
	} {
		t.Run(name, func(t *testing.T) {
			r := priced(t, newFake([]step{{chunk: text("a")}, {chunk: Chunk{Finish: FinishStop, Usage: &row.usage}}}), BudgetOptions{})
			if _, got, err := asks(t, r, row.model, trail.Trail{Caller: "me"}, 1); got.Cost != row.want || err != nil {
				t.Errorf("%+v, %v; expected a cost of %d", got, err, row.want)
			}
			callers := map[string]int64{}
			if row.want > 0 {
				callers["me"] = row.want
			}
			if got := r.Budget.Today(); got.Cost != row.want || cmp.Diff(callers, got.Callers) != "" {
				t.Errorf("%+v; expected %d", got, row.want)
			}
		})
	}
	if u.Cost != 0 {
		t.Error("the adapter's own counts are changed")
	}
}

// MO-40: what came of an attempt that failed, or that nobody wanted to the end, has cost something too.
func TestAnAnswerThatIsCutOffCosts(t *testing.T) {
	counted := Usage{PromptTokens: 100, CompletionTokens: 1, TotalTokens: 101}
	broken := &Error{Code: CodeUnavailable, Message: "gone", Retryable: true}
	for name, row := range map[string]struct {
		script []step
		want   int64
	}{
		"fails at once":            {[]step{{err: broken}}, 0},
		"breaks off":               {[]step{{chunk: text("abcdabcd")}, {err: broken}}, 12_000},
		"breaks off, counted":      {[]step{{chunk: Chunk{Usage: &counted}}, {err: broken}}, 101_000},
		"breaks off, counted half": {[]step{{chunk: Chunk{Usage: &counted}}, {chunk: text("abcdabcd")}, {err: broken}}, 102_000},
	} {
		t.Run(name, func(t *testing.T) {
			r := priced(t, newFake(row.script), BudgetOptions{})
			r.Retries.Attempts = 1
			if _, _, err := asks(t, r, "x:dear", trail.Trail{}, 5); codeOf(err) != CodeUnavailable {
				t.Error(err)
			}
			if got := r.Budget.Today().Cost; got != row.want {
				t.Errorf("it costs %d, expected %d", got, row.want)
			}
		})
	}
	t.Run("is left", func(t *testing.T) {
		r := priced(t, newFake(answer(100)), BudgetOptions{})
		m, _ := r.Model("x:dear")
		for range m.Stream(t.Context(), Request{Messages: []Message{{Content: "four"}}}) {
			break
		}
		if got := r.Budget.Today().Cost; got != 2000 {
			t.Errorf("it costs %d", got)
		}
	})
}

// MO-41: a call that may cost more than what is left is not made, and the next model of the chain is asked.
func TestACallForWhichThereIsNoBudgetIsNotMade(t *testing.T) {
	f := newFake(answer(20))
	r := priced(t, f, BudgetOptions{Run: 50_000})
	run := trail.Trail{Run: "r"}
	for _, row := range []struct {
		model string
		most  int
		want  string
		asked int
	}{
		{"x:dear", 40, "<nil>", 1}, // it reserves all and pays 30
		{"x:dear", 20, CodeBudget, 1},
		{"x:cheap", 20, "<nil>", 2},
		{"x:dear,x:cheap", 20, "<nil>", 3},
		{"x:dear,x:dear", 20, CodeBudget, 3},
		{"x:dear", 5, "<nil>", 4}, // it takes longer than it should, as far as there is room
	} {
		said, _, err := asks(t, r, row.model, run, row.most)
		if row.most == 5 && codeOf(err) == CodeBudget { // cut off after 9 of 20
			err = nil
			if len(said) != 36 {
				t.Errorf("%d bytes before it was cut off", len(said))
			}
		}
		if codeOf(err) != row.want || len(f.asked) != row.asked || f.open != 0 {
			t.Errorf("%s, %d tokens: %v, asked %d times; expected %s, %d", row.model, row.most, err, len(f.asked), row.want, row.asked)
		}
	}
	_, _, err := asks(t, r, "x:dear", run, 20)
	want := "this run reached its cost limit, $0.05: the next answer can cost $0.03"
	if err.Error() != want {
		t.Errorf("%q; expected %q", err, want)
	}
	if _, _, err := asks(t, r, "x:dear", trail.Trail{Run: "another"}, 20); err != nil {
		t.Errorf("another run: %v", err)
	}
}

// MO-41: an answer that goes on too long is cut off, and the provider left.
func TestAnAnswerIsCutOffWhereTheBudgetEnds(t *testing.T) {
	f := newFake(answer(1000))
	r := priced(t, f, BudgetOptions{Run: 100_000})
	said, _, err := asks(t, r, "x:dear", trail.Trail{Run: "r"}, 1)
	if codeOf(err) != CodeBudget || !strings.Contains(err.Error(), "cut off") || f.open != 0 || len(f.asked) != 1 {
		t.Errorf("%v, open %d, asked %d", err, f.open, len(f.asked))
	}
	if len(said) != 4*90 {
		t.Errorf("%d bytes were passed on, expected 360", len(said))
	}
	if got := r.Budget.Today().Cost; got != 101_000 { // with the token that was one too many
		t.Errorf("it has cost %d", got)
	}
}

// MO-41: a session's limit counts what it has cost in earlier runs, wherever that was.
func TestASessionGoesOnFromWhatItHasCost(t *testing.T) {
	before, asked := int64(0), 0
	f := newFake(answer(10))
	r := priced(t, f, BudgetOptions{Session: 100_000, Spent: func(_ context.Context, session string) (int64, error) {
		if asked++; session != "s" {
			return 0, errors.New("no such session")
		}
		return before, nil
	}})
	ask := func(session, run string) string {
		_, _, err := asks(t, r, "x:dear", trail.Trail{Session: session, Run: run}, 10)
		return codeOf(err)
	}
	if got := ask("s", "1") + ask("s", "1"); got != "<nil><nil>" || asked != 1 {
		t.Errorf("%s, the tape was read %d times", got, asked)
	}
	before = 90_000 // 40 here, and 50 on another replica
	if got := ask("s", "2"); got != CodeBudget || asked != 2 {
		t.Errorf("%s, read %d times", got, asked)
	}
	if got := ask("another", "3"); got != "<nil>" {
		t.Error(got)
	}
}

// MO-41: limits of a day end with it, at midnight UTC.
func TestADayEndsAtMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newFake([]step{{chunk: text("abcd")}, {wait: time.Hour, chunk: text("abcd")}, {chunk: Chunk{Finish: FinishStop, Usage: &Usage{PromptTokens: 10, CompletionTokens: 2, TotalTokens: 12}}}})
		r := priced(t, slow, BudgetOptions{Caller: 20_000, Day: 50_000})
		r.Timeouts = Timeouts{Idle: -1, Total: -1}
		ask := func(caller string) error {
			_, _, err := asks(t, r, "x:dear", trail.Trail{Caller: caller}, 2)
			return err
		}
		if err := ask("a"); err != nil {
			t.Error(err)
		}
		err := ask("a")
		e, _ := errors.AsType[*Error](err)
		if e == nil || e.Code != CodeBudget || e.RetryAfter != 23*time.Hour || e.Retryable || !strings.HasPrefix(e.Message, "you reached your cost limit for today, $0.02") {
			t.Errorf("%+v", e)
		}
		for _, caller := range []string{"b", "c", "d"} {
			err = ask(caller)
		}
		if err != nil {
			t.Errorf("the last of the day: %v", err)
		}
		if err := ask("e"); codeOf(err) != CodeBudget || !strings.Contains(err.Error(), "the server reached") || strings.Contains(err.Error(), "$0.05") {
			t.Errorf("%v; expected that the server has reached its limit, without how much it is", err)
		}
		time.Sleep(19*time.Hour + 30*time.Minute) // half an hour before midnight
		if err := ask("f"); codeOf(err) != CodeBudget {
			t.Errorf("%v; the day has no room before midnight", err)
		}
		time.Sleep(30 * time.Minute)
		if err := ask("a"); err != nil {
			t.Errorf("on the next day: %v", err)
		}
		if got := r.Budget.Today(); got.Day != "2000-01-02" || got.Cost != 12_000 || got.Callers["a"] != 12_000 || len(got.Callers) != 1 {
			t.Errorf("%+v", got)
		}
		time.Sleep(22*time.Hour + 30*time.Minute)
		if err := ask("a"); codeOf(err) != CodeBudget {
			t.Error(err)
		}
		if err := ask("b"); err != nil { // which ends on the third day, and belongs to the second
			t.Error(err)
		}
		if got := r.Budget.Today(); got.Day != "2000-01-03" || got.Cost != 0 || len(got.Callers) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// spendings is a store in memory.
type spendings struct {
	fail error
	mu   sync.Mutex
	rows map[spentKey]Usage
}

func (s *spendings) Add(ctx context.Context, day string, spent []Spent) (Spending, error) {
	if s.fail != nil {
		return Spending{}, s.fail
	}
	s.mu.Lock()
	for _, one := range spent {
		key := spentKey{day, one.Caller, one.Model}
		sum := s.rows[key]
		sum.Add(one.Usage)
		s.rows[key] = sum
	}
	s.mu.Unlock()
	return s.On(ctx, day)
}

func (s *spendings) On(_ context.Context, day string) (Spending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := Spending{Day: day, Callers: map[string]int64{}}
	for key, usage := range s.rows {
		if key.day == day {
			total.Cost += usage.Cost
			total.Callers[key.caller] += usage.Cost
		}
	}
	return total, s.fail
}

// MO-41: a restart does not forget what was spent today; the next day does. CL-11: servers with one store count together.
func TestSpendingOutlivesRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &spendings{rows: map[spentKey]Usage{}}
		o := BudgetOptions{Caller: 100_000, Store: store, Log: slog.New(slog.NewTextHandler(&log, nil))}
		start := func() *Registry { return priced(t, newFake(answer(10)), o) }
		spent := func(r *Registry) string {
			s := r.Budget.Today()
			return fmt.Sprint(s.Cost, s.Callers)
		}
		ask := func(r *Registry, caller string) {
			t.Helper()
			if _, _, err := asks(t, r, "x:dear", trail.Trail{Caller: caller}, 10); err != nil {
				t.Error(err)
			}
		}
		first, other := start(), start()
		ask(first, "a")
		if got := spent(start()); got != "0 map[]" {
			t.Errorf("%s is stored at once", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := spent(start()); got != "20000 map[a:20000]" { // as after a crash
			t.Errorf("after a second: %s", got)
		}
		if usage := store.rows[spentKey{"2000-01-01", "a", "x:dear"}]; usage.CompletionTokens != 10 || usage.Cost != 20_000 {
			t.Errorf("stored: %+v", usage)
		}
		ask(other, "b")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := spent(other); got != "40000 map[a:20000 b:20000]" {
			t.Errorf("at another server: %s", got)
		}
		store.fail = errors.New("away")
		ask(first, "a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := spent(first); got != "40000 map[a:40000]" || !strings.Contains(log.String(), "cannot store what calls of models cost") {
			t.Errorf("while the store is away: %s, %s", got, log.String())
		}
		store.fail = nil
		first.Budget.Close()
		if got := spent(start()); got != "60000 map[a:40000 b:20000]" {
			t.Errorf("after an orderly end: %s", got)
		}
		time.Sleep(24 * time.Hour)
		if got := spent(start()); got != "0 map[]" {
			t.Errorf("on the next day: %s", got)
		}
	})
}

func TestATokensPriceIsGuessedByWhatIsSent(t *testing.T) {
	scan := "data:application/pdf;base64," + strings.Repeat("A", 3200)
	for name, row := range map[string]struct {
		req  Request
		want int
	}{
		"text":   {Request{Messages: []Message{{Content: strings.Repeat("x", 41)}}}, 11},
		"a part": {Request{Messages: []Message{{Parts: []Part{{Text: "12345678"}}}}}, 2},
		"image":  {Request{Messages: []Message{{Parts: []Part{{Image: "data:image/png;base64," + strings.Repeat("A", 1<<20)}}}}}, 1500},
		"a file": {Request{Messages: []Message{{Parts: []Part{{File: scan}}}}}, len(scan) / 32},
		"tools":  {Request{Tools: []Tool{{Name: "look", Parameters: []byte(`{"a":1}x`)}}}, 3},
		"a call": {Request{Messages: []Message{{ToolCalls: []ToolCall{{Name: "look", Arguments: "1234"}}}}}, 2},
		"what it thought": {Request{Messages: []Message{{Content: "1234", Made: &Made{Parts: []MadePart{
			{Type: PartText, Text: "1234"}, {Type: PartReasoning, Text: "12345678"},
		}}}}}, 3},
	} {
		if got := row.req.Tokens(); got != row.want {
			t.Errorf("%s: %d tokens, expected %d", name, got, row.want)
		}
	}
	for micro, want := range map[int64]string{0: "$0.00", 500_000: "$0.50", 20_000_000: "$20.00", 213: "$0.000213", 1_234_500: "$1.2345"} {
		if got := dollars(micro); got != want {
			t.Errorf("%d is %s, expected %s", micro, got, want)
		}
	}
}

// wrongly answers with so many pieces of a token, and counts others; sometimes it fails.
type wrongly struct {
	mu    sync.Mutex
	draws []drawn
}

type drawn struct {
	pieces, counted int
	fails           bool
}

func (w *wrongly) Stream(context.Context, Request) iter.Seq2[Chunk, error] {
	w.mu.Lock()
	d := w.draws[0]
	w.draws = append(w.draws[1:], d)
	w.mu.Unlock()
	return func(yield func(Chunk, error) bool) {
		for range d.pieces {
			if !yield(text("abcd"), nil) {
				return
			}
		}
		if d.fails {
			yield(Chunk{}, &Error{Code: CodeUnavailable})
			return
		}
		u := Usage{PromptTokens: 10, CompletionTokens: d.counted, TotalTokens: 10 + d.counted}
		yield(Chunk{Finish: FinishStop, Usage: &u}, nil)
	}
}

// MO-41: however many runs there are at once, no limit is passed by more than what the calls under way cost beyond what was guessed of them;
// and when all have ended, nothing is reserved any more.
func TestNoLimitIsPassedByMoreThanTheErrorOfTheCallsUnderWay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := func(name string) int64 { return rapid.Int64Range(0, 300).Draw(rt, name) * 1000 }
		o := BudgetOptions{Run: limit("run"), Session: limit("session"), Caller: limit("caller"), Day: limit("day")}
		w := &wrongly{draws: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) drawn {
			n := rapid.IntRange(0, 60).Draw(t, "pieces")
			return drawn{n, max(0, n+rapid.IntRange(-20, 20).Draw(t, "error")), rapid.IntRange(0, 9).Draw(t, "fails") == 0}
		}), 1, 20).Draw(rt, "answers")}
		r := priced(t, w, o)
		atOnce := rapid.IntRange(1, 8).Draw(rt, "at once")
		var wg sync.WaitGroup
		for i := range atOnce {
			wg.Go(func() {
				for n := range 5 {
					_, _, _ = asks(t, r, "x:dear", trail.Trail{Run: fmt.Sprint(i, n/2), Session: fmt.Sprint(i % 3), Caller: fmt.Sprint(i % 2)}, 1+(i+n)%30)
				}
			})
		}
		wg.Wait()
		each := int64(21 * 1000) // of a call: what it counts beyond its text, and a piece that was one too many
		for _, p := range r.Budget.purses.Values() {
			if p.reserved != 0 {
				rt.Errorf("%d is reserved when all have ended: %s", p.reserved, p.full)
			}
			under := int64(atOnce)
			if strings.HasPrefix(p.full, "this run") {
				under = 1
			}
			if p.limit > 0 && p.spent > p.limit+under*each {
				rt.Errorf("%d is spent of %d: %s", p.spent, p.limit, p.full)
			}
		}
	})
}

// Callers, sessions and runs without number take bounded memory: those that were used last are kept.
func TestABudgetDoesNotGrowWithoutEnd(t *testing.T) {
	b := NewBudget(BudgetOptions{Run: 1, Session: 1, Caller: 1})
	for i := range maxPurses {
		name := fmt.Sprint(i)
		l, err := b.reserve(trail.With(t.Context(), trail.Trail{Run: name, Session: name, Caller: name}), "demo:demo", nil, &Request{})
		if err != nil {
			t.Fatal(err)
		}
		l.pay()
	}
	if n := b.purses.Len(); n > maxPurses {
		t.Errorf("%d purses", n)
	}
}

// DH-08
func TestAModelWithoutAPriceIsRefusedWhereTheCostIsLimited(t *testing.T) {
	say := []step{{chunk: text("a")}, {chunk: Chunk{Finish: FinishStop}}}
	for _, row := range []struct {
		limit   int64
		refused bool
	}{{0, false}, {1_000_000, true}} {
		r := priced(t, newFake(say), BudgetOptions{Day: row.limit})
		_, _, err := asks(t, r, "x:unknown", trail.Trail{Caller: "me"}, 1)
		if e, ok := errors.AsType[*Error](err); row.refused != (ok && e.Code == CodeBudget && strings.Contains(e.Message, "x:unknown has no price")) {
			t.Errorf("limit %d: %v", row.limit, err)
		}
	}
}
