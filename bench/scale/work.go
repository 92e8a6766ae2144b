package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/turn"
)

// leases is the stream of the table of leases.
const leases = "TABLE_leases"

// work counts what turns and runs send to the servers and have them keep.
func (m *measurement) work(ctx context.Context) error {
	fmt.Fprintf(m.out, "\n%d turns of the built-in agent, one after the other\n", m.turns)
	if err := m.count(ctx, m.turns, "turn", []string{"TAPES", leases}, func() error { return m.converse(ctx) }); err != nil {
		return err
	}
	fmt.Fprintf(m.out, "\n%d runs at once at %d tokens a second, %d tokens each, with a reader at another replica\n", m.turns, pace, tokens)
	return m.count(ctx, m.turns*tokens, "token", []string{"LOG_runs", "LOG_pages"}, func() error { return m.stream(ctx) })
}

// count says what of something each has cost.
func (m *measurement) count(ctx context.Context, n int, each string, streams []string, do func() error) error {
	type figures struct{ messages, bytes uint64 }
	look := func() (stored []figures, work time.Duration, err error) {
		for _, name := range streams {
			s, err := m.state(ctx, name)
			if err != nil {
				return nil, 0, err
			}
			stored = append(stored, figures{s.LastSeq, s.Bytes})
		}
		for _, s := range m.servers {
			w, err := worked(s.cmd.Process.Pid)
			if err != nil {
				return nil, 0, err
			}
			work += w
		}
		return stored, work, nil
	}
	before, had, err := look()
	if err != nil {
		return err
	}
	requests := m.replica.cluster.Conn().Stats()
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	took := time.Since(began)
	now := m.replica.cluster.Conn().Stats()
	after, has, err := look()
	if err != nil {
		return err
	}
	per := func(a, b uint64) float64 { return (float64(b) - float64(a)) / float64(n) }
	for i, name := range streams {
		fmt.Fprintf(m.out, "  %-22s %6.2f messages and %.0f B a %s\n", name, per(before[i].messages, after[i].messages), per(before[i].bytes, after[i].bytes), each)
	}
	fmt.Fprintf(m.out, "  %-22s %6.2f messages to the servers and %.2f from them a %s, by the replica that works\n", "the connection", per(requests.OutMsgs, now.OutMsgs), per(requests.InMsgs, now.InMsgs), each)
	fmt.Fprintf(m.out, "  %-22s %6.0f µs of processor time a %s, all of them together; %.2f s in all\n", "the servers", float64((has-had).Microseconds())/float64(n), each, took.Seconds())
	return nil
}

// answerer is a model that has its answer ready.
type answerer struct{}

func (answerer) Model(string) (adapter.Model, error) { return answerer{}, nil }

func (answerer) Stream(context.Context, adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		_ = yield(adapter.Chunk{Text: answer}, nil) && yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

// converse has a turn in each of some sessions that are there.
func (m *measurement) converse(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "scale")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	builtin, err := agent.New(agent.Options{Models: answerer{}, Model: "test:m", Store: m.replica.tapes, Workspace: dir})
	if err != nil {
		return err
	}
	f := turn.New(turn.Options{Workspace: dir})
	if err := f.Register(agent.Name, builtin); err != nil {
		return err
	}
	for i := range m.turns {
		if _, err := f.Process(ctx, &turn.Envelope{SessionID: fmt.Sprint("talk:", i/10), Channel: "test", ChatID: "1", Content: question}); err != nil {
			return err
		}
	}
	return nil
}

// stream has runs whose tokens come as models write, spread over the time between two tokens, and reads them at another replica.
func (m *measurement) stream(ctx context.Context) error {
	other, err := join(ctx, m.servers)
	if err != nil {
		return err
	}
	defer other.leave()
	late, errs := make([][]time.Duration, m.turns), make([]error, m.turns)
	var wg sync.WaitGroup
	for i := range m.turns {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * time.Second / pace / time.Duration(m.turns))
			late[i], errs[i] = m.one(ctx, other, i)
		})
	}
	wg.Wait()
	all := slices.Concat(late...)
	slices.Sort(all)
	if len(all) > 0 {
		fmt.Fprintf(m.out, "  %-22s %6.2f ms after it was written, 99 of 100 within %.1f ms\n", "a reader sees a token", ms(all[len(all)/2]), ms(all[len(all)*99/100]))
	}
	return errors.Join(errs...)
}

// one is a run. It returns how long each token has taken to the reader.
func (m *measurement) one(ctx context.Context, other *replica, i int) (late []time.Duration, err error) {
	t := tube.New(fmt.Sprintf("paced%021d", i), tubeOptions())
	e := m.replica.runs.Keep(runlog.Run{ID: t.Run(), Opening: opening(i), Tube: t})
	var sent [tokens]time.Time
	write := func(n int) error {
		sent[n] = time.Now()
		_, err := t.Send(tube.Event{URI: []byte("answer/text"), Value: []byte("word ")})
		return err
	}
	if err := errors.Join(write(0), m.replica.runs.Flush(ctx)); err != nil {
		return nil, err
	}
	tail, err := other.runs.Follow(ctx, t.Run())
	if err != nil {
		return nil, fmt.Errorf("follow a run: %w", err)
	}
	defer tail.Leave()
	var wg sync.WaitGroup
	defer wg.Wait()
	came := make(chan time.Time, tokens+1) // and the end
	wg.Go(func() {
		defer close(came)
		for r := tail.Tube().NewReader(0); !r.Ended(); {
			select {
			case <-r.More():
			case <-tail.Gone():
				return
			case <-ctx.Done():
				return
			}
			now := time.Now()
			for range r.Waiting() {
				came <- now
			}
		}
	})
	tick := time.NewTicker(time.Second / pace)
	defer tick.Stop()
	for n := 1; n < tokens && err == nil; n++ {
		<-tick.C
		err = write(n)
	}
	if err := errors.Join(err, t.Close("completed")); err != nil {
		return nil, err
	}
	e.End([]byte(`{"status":"completed"}`))
	n := 0
	for at := range came {
		if n > 0 && n < tokens { // before the first it was not followed
			late = append(late, at.Sub(sent[n]))
		}
		n++
	}
	if n < tokens {
		return nil, fmt.Errorf("the reader of a run has seen %d of %d tokens", n, tokens)
	}
	return late, nil
}
