package channeltest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/logtest"
)

// AgentFunc is an agent.
type AgentFunc func(context.Context, *channel.Turn) (channel.DispatchResult, error)

// Dispatch implements [channel.Agent].
func (f AgentFunc) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	t.Queued()
	return f(ctx, t)
}

// Says returns an agent that answers with a text and media.
func Says(text string, media ...channel.MediaFact) AgentFunc {
	return func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
		return channel.DispatchResult{}, t.Sink.Emit(ctx, channel.ReplyFinal, channel.Payload{Text: text, Media: media, Upto: t.Shown + len(text)})
	}
}

// Recorder is an agent and an observer of turns. It answers "say x" with x, and all else with "ok", unless it has another agent.
type Recorder struct {
	Agent channel.Agent // is set before the first turn, or with Answers

	mu     sync.Mutex
	told   []*channel.TurnContext
	traces []channel.Trace
}

// Answers lets f answer from now on.
func (r *Recorder) Answers(f AgentFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Agent = f
}

// Dispatch implements [channel.Agent].
func (r *Recorder) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	r.mu.Lock()
	r.told = append(r.told, t.Context)
	agent := r.Agent
	r.mu.Unlock()
	if agent != nil {
		return agent.Dispatch(ctx, t)
	}
	defer t.Queued() // the turns of a conversation answer one after the other, as those of an agent do
	text, ok := strings.CutPrefix(t.Context.BodyForAgent, "say ")
	return Says(map[bool]string{true: text, false: "ok"}[ok])(ctx, t)
}

// Decide implements [channel.Decider] with the agent, which has to be one.
func (r *Recorder) Decide(ctx context.Context, t *channel.Turn, p channel.Press) channel.Pressed {
	return r.Agent.(channel.Decider).Decide(ctx, t, p)
}

// Told returns the contexts of the turns that were dispatched.
func (r *Recorder) Told() []*channel.TurnContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// Observe implements [channel.Observer].
func (r *Recorder) Observe(_ context.Context, t channel.Trace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traces = append(r.traces, t)
}

// Traces returns those of the turns so far.
func (r *Recorder) Traces() []channel.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.traces)
}

// Outcomes returns those of the turns so far. The one of a blocked turn has its reason behind it.
func (r *Recorder) Outcomes() (list []string) {
	for _, t := range r.Traces() {
		if t.Outcome != "" {
			list = append(list, strings.TrimSpace(string(t.Outcome)+" "+string(t.Admission.Reason)))
		}
	}
	return list
}

// Configuration returns the settings of one channel, with the place for all of it. Everybody may talk unless the place says otherwise.
func Configuration(name string, place channel.Place) channel.Configuration {
	place.Agent = "assistant"
	place.DMPolicy, place.GroupPolicy = cmp.Or(place.DMPolicy, channel.PolicyOpen), cmp.Or(place.GroupPolicy, channel.PolicyOpen)
	return channel.Configuration{{Level: channel.OfChannel, Channel: name}: &place}
}

// Tree returns a tree of the settings that [Configuration] returns.
func Tree(t testing.TB, name string, place channel.Place) *channel.Tree {
	t.Helper()
	tree, err := channel.NewTree(Configuration(name, place))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Log is what was logged.
type Log = logtest.Buffer

// Wait lets virtual time pass, and waits until nothing happens any more at that moment.
func Wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
