package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/agent"
	webchannel "github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/turn"
)

// conversations are three replicas whose clients talk to an agent in sessions.
type conversations struct {
	cluster
	said   []*message
	count  int
	stormy bool // the store was away, or a replica paused
}

// message is what a client said, and what it was told of it.
type message struct {
	req      *Request
	text     string
	refused  bool
	run      string // its own, or its host
	followUp string // of a steered message
	steered  bool
	place    string // where it was queued when it was said first; "" if its order means nothing
	sent     int    // times
}

// slowModel says a word a second, as many as the last message asks for.
type slowModel struct{}

func (slowModel) Model(string) (adapter.Model, error) { return slowModel{}, nil }

func (slowModel) Stream(ctx context.Context, req adapter.Request) iter.Seq2[adapter.Chunk, error] {
	return func(yield func(adapter.Chunk, error) bool) {
		var words int
		last := req.Messages[len(req.Messages)-1].Content
		_, _ = fmt.Sscanf(last[strings.LastIndex(last, "<"):], "<"+marked, new(int), &words)
		for range words {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				yield(adapter.Chunk{}, context.Cause(ctx))
				return
			}
			if !yield(adapter.Chunk{Text: "word "}, nil) {
				return
			}
		}
		_ = yield(adapter.Chunk{Text: "."}, nil) && yield(adapter.Chunk{Finish: adapter.FinishStop}, nil)
	}
}

const (
	marked   = "%d %d>" // the number of a message, and how many words it asks for
	answerer = "assistant"
)

type soleAgent struct{ *agent.Agent }

func (soleAgent) Names() []string { return []string{answerer} }

func (soleAgent) Workflow(string) string { return "" }

func (s soleAgent) Remembered(ctx context.Context, _ string, t *tape.Tape) ([]string, error) {
	return s.Agent.Remembered(ctx, t)
}

// addSessions lets a replica have sessions.
func (c *cluster) addSessions(o *Options, n *node) (tape.Store, error) {
	tapes := memoryTapes{c.net.db.SharedTapes(nodeLeases{n}, nil), n}
	a, err := agent.New(agent.Options{Name: answerer, Models: slowModel{}, Model: "m:m", Bare: true, Store: tapes})
	if err != nil {
		return nil, err
	}
	o.Tapes, o.Workspace, o.Agents = tapes, c.workspace, soleAgent{a}
	o.Turns = turn.New(turn.Options{Workspace: c.workspace})
	o.Kernel = webchannel.NewKernel(o.Log)
	return tapes, errors.Join(o.Turns.Register(agent.Name, a), o.Turns.Register("http", plugin{}))
}

// say says something to the agent in a session.
func (c *conversations) say(t *rapid.T) {
	time.Sleep(time.Millisecond) // runs that begin at the same time have no order
	c.count++
	m := &message{text: fmt.Sprintf("<"+marked, c.count, rapid.IntRange(0, 6).Draw(t, "words"))}
	m.req = &Request{
		Who: access.Local, Subject: Subject{Agent: answerer}, Session: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "session"),
		OnBusy: string(rapid.SampledFrom([]turn.Policy{turn.Queue, turn.Steer, turn.Steer, turn.Interrupt, turn.Reject}).Draw(t, "policy")),
		Input:  mustJSON(m.text),
	}
	if rapid.Bool().Draw(t, "keyed") {
		m.req.Key = m.text
	}
	c.said = append(c.said, m)
	c.send(t, m)
}

// repeat says something with a key once more.
func (c *conversations) repeat(t *rapid.T) {
	var keyed []*message
	for _, m := range c.said {
		if m.req.Key != "" {
			keyed = append(keyed, m)
		}
	}
	if len(keyed) == 0 {
		t.Skip("there is none")
	}
	c.send(t, rapid.SampledFrom(keyed).Draw(t, "message"))
}

func (c *conversations) send(t *rapid.T, m *message) {
	c.pick(t)
	r, out, err := c.begin(t.Context(), m.req)
	synctest.Wait()
	known := m.run != ""
	m.sent++
	switch {
	case err == nil:
	case errors.Is(err, ErrAway), errors.Is(err, ErrExpired), errors.Is(err, ErrDraining):
		m.refused = !known && errors.Is(err, ErrDraining) || errors.Is(err, ErrAway) && m.req.Key == ""
		return
	case errors.Is(err, ErrBusy), errors.Is(err, ErrOverloaded):
		if known {
			t.Fatalf("RU-61: the key of %s is free: %v", m.text, err)
		}
		m.refused = true
		return
	default:
		t.Fatalf("RU-68: %v", err)
	}
	if known && r.ID != m.run && r.ID != m.followUp && m.followUp != "" {
		t.Fatalf("RU-61: the key of %s leads to %s (%v), expected %s or %s", m.text, r.ID, out, m.run, m.followUp)
	}
	m.refused = false
	c.know(r.ID)
	if known {
		return
	}
	m.run, m.followUp = r.ID, out.FollowUp
	if m.steered = out.Steered; m.sent == 1 && !m.steered && m.req.OnBusy != string(turn.Interrupt) {
		if own := c.placeOf(r.ID); own != nil {
			m.place = own.node.id
		}
	}
}

// know has a run among those that clients were told of.
func (c *conversations) know(id string) {
	if c.runs[id] == nil {
		c.runs[id] = &told{workflow: answerer, events: map[uint64]string{}}
	}
}

// placeOf is the place of a run; nil is none.
func (c *cluster) placeOf(id string) *modelReplica {
	for _, r := range c.replicas {
		if own := r.s.runsInMemory()[id]; own != nil && own.manager.Load() != nil {
			return r
		}
	}
	return nil
}

// taped is a message of a user on a tape.
type taped struct {
	text string
	tape.Meta
}

// tape reads the messages of a session, and the names of its other entries.
func (c *cluster) tape(session string) (list []taped, all string) {
	lane := webchannel.SessionKey(access.Local.Owner(), session)
	for e, err := range c.replicas[0].s.o.Tapes.Read(context.Background(), tape.Name(c.workspace, lane), tape.Query{}) {
		if errors.Is(err, tape.ErrNotFound) {
			return nil, ""
		}
		if err != nil {
			c.t.Fatal(err)
		}
		all += fmt.Sprintf("%s %s %s\n", e.Kind, e.Payload, e.Meta)
		var p struct{ Role, Content string }
		if e.Kind == tape.KindMessage && json.Unmarshal(e.Payload, &p) == nil && p.Role == adapter.User {
			list = append(list, taped{p.Content, tape.MetaOf(e)})
		}
	}
	return list, all
}

// follows are the runs that the events of a run name as follow-ups.
func (m *told) follows(id string) bool {
	for _, e := range m.events {
		if strings.Contains(e, "follow_up") && strings.Contains(e, id) {
			return true
		}
	}
	return false
}

func (c *conversations) pause(t *rapid.T) {
	c.stormy = true
	c.cluster.pause(t)
}

func (c *conversations) away(t *rapid.T) {
	c.stormy = true
	c.cluster.away(t)
}

// check checks the tapes against what clients were told.
func (c *conversations) check(t *rapid.T) {
	for _, session := range []string{"s", "t"} {
		list, all := c.tape(session)
		last := map[string]int{} // the number of the last message in order, by its place
		for _, e := range list {
			n := slices.IndexFunc(c.said, func(m *message) bool { return m.text == e.text })
			if n < 0 {
				t.Fatalf("nobody said %s:\n%s", e.text, all)
			}
			m := c.said[n]
			if strings.Count(all, m.text) > 1 {
				t.Fatalf("RU-70: %s is on the tape more than once:\n%s", m.text, all)
			}
			if m.refused {
				t.Fatalf("RU-67: %s was refused and is on the tape:\n%s", m.text, all)
			}
			if m.place != "" {
				if before, ok := last[m.place]; ok && before > n {
					t.Fatalf("RU-70: %s is on the tape behind %s:\n%s", m.text, c.said[before].text, all)
				}
				last[m.place] = n
			}
		}
		for _, m := range c.said {
			if m.steered && m.req.Session == session {
				c.checkSteered(t, m, list, all)
			}
		}
	}
}

// checkSteered checks what became of a message that a turn took.
func (c *conversations) checkSteered(t *rapid.T, m *message, list []taped, all string) {
	host := c.runs[m.run]
	used := slices.ContainsFunc(list, func(e taped) bool { return e.text == m.text && e.Turn == m.run })
	follows := host.follows(m.followUp)
	interrupted := host.status == StatusInterrupted
	for _, e := range host.events {
		interrupted = interrupted || strings.Contains(e, "arrived too late")
	}
	if c.runs[m.followUp] != nil { // the host went on at another replica, and the message was stored
		follows = follows || !used
	}
	if used && follows || !used && !follows && !interrupted {
		t.Fatalf("RU-71: %s, steered to %s, was used: %v, has a follow-up %s: %v; the host ended %s\n%v\n%s",
			m.text, m.run, used, m.followUp, follows, host.status, host.events, all)
	}
}

// Three replicas, whose clients talk in sessions, and faults: RU-61 to RU-64, RU-67 to RU-69, RU-70, RU-71 and RU-72.
func TestRU_SessionsOfThreeReplicasKeepTheirPromises(t *testing.T) {
	longtest.Only(t, "a model of three replicas with random faults")
	setChecks(t, 100)
	workspace := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(noDeadline{t}, func(rt *rapid.T) {
			c := &conversations{cluster: *newCluster(rt, workspace)}
			defer c.close()
			rt.Repeat(map[string]func(*rapid.T){
				"say": c.say, "say more": c.say, "say much": c.say, "say on": c.say, "say this": c.say, "say that": c.say,
				"repeat": c.repeat, "read": c.look, "cancel": c.cancel, "sleep": c.sleep,
				"drain": c.drain, "kill": c.kill, "pause": c.pause, "store away": c.away,
			})
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			for _, m := range c.said {
				if m.steered && m.followUp != "" {
					c.s = c.replicas[0].s
					if _, err := c.s.Find(t.Context(), access.Local, m.followUp); err == nil {
						c.know(m.followUp)
					}
				}
			}
			for _, id := range slices.Sorted(maps.Keys(c.runs)) {
				m := c.runs[id]
				for _, r := range c.replicas {
					c.s = r.s
					c.read(id, m, 0)
				}
				if m.status == "" {
					rt.Fatalf("RU-69: %s does not end", id)
				}
			}
			c.check(rt)
			for _, r := range c.replicas {
				if l, h := r.s.Load(), r.s.o.Ledger.Holdings(); l.Running != 0 || h.Waiting != 0 {
					rt.Fatalf("RU-72: %+v %+v", l, h)
				}
			}
		})
	})
}
