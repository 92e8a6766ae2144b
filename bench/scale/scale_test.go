package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) {
	serveNode()
	longtest.Main(m)
}

// CL-13: what is measured can be measured again, with the code that replicas have.
func TestServersAreFilledLookedAtAndStartedAgain(t *testing.T) {
	m := &measurement{nodes: 1, batches: 2, turns: 1, dir: t.TempDir(), out: new(strings.Builder)}
	var err error
	if m.servers, err = nodes(m.nodes, m.dir); err != nil {
		t.Fatal(err)
	}
	defer m.servers[0].kill()
	if err := m.startAll(); err != nil {
		t.Fatal(err)
	}
	if m.replica, err = join(t.Context(), m.servers); err != nil {
		t.Fatal(err)
	}
	defer m.replica.leave()
	const n = 30
	for what, err := range map[string]error{
		"sessions": m.replica.makeSessions(t.Context(), 0, n, m.batches), "runs": m.replica.makeRuns(t.Context(), 0, n), "keys": m.replica.makeKeys(t.Context(), 0, n),
	} {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	look := func(when string) {
		t.Helper()
		for _, stream := range streams {
			state, err := m.state(t.Context(), stream)
			if err != nil || state.NumSubjects != n && state.NumSubjects != n+1 { // and that of barriers, if there was a doubt
				t.Errorf("%s: %s has %d subjects, %v, want %d", when, stream, state.NumSubjects, err, n)
			}
			// What is not of sessions is written some time after it was acknowledged, and until then a server that is killed loses it.
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				disk, err := m.disk(stream)
				if err == nil && disk >= state.Bytes {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%s: %s has %d B on disk, of %d, %v", when, stream, disk, state.Bytes, err)
				}
			}
		}
		if rss, inUse, err := m.servers[0].memory(); err != nil || inUse == 0 || rss < inUse/2 {
			t.Errorf("%s: %d B of memory, %d of it in use, %v", when, rss, inUse, err)
		}
	}
	look("filled")
	if err := m.restarts(t.Context()); err != nil {
		t.Fatal(err)
	}
	look("started again")
	if err := m.listings(t.Context(), n); err != nil {
		t.Error(err)
	}
}

// CL-13: sessions lie evenly on installations, and where there is one more, no session moves but to it.
func TestSessionsAreSpreadByTheirNames(t *testing.T) {
	for _, shards := range []int{2, 3, 16} {
		b := balanceOf(50_000, shards)
		if b.sessions > 1.1 || b.turns > 1.2 {
			t.Errorf("%d installations: the fullest has %.3f times the mean of sessions and %.3f of turns", shards, b.sessions, b.turns)
		}
		if want := 1 / float64(shards+1); math.Abs(b.moved-want) > want/10 || b.inPlace != 1 {
			t.Errorf("%d installations: with one more %.4f move, want %.4f; %.4f of them to it", shards, b.moved, want, b.inPlace)
		}
	}
}

// CL-13: the model says what more sessions take, and what ends first.
func TestTheModelGrowsWithSessions(t *testing.T) {
	use := usual
	one, hundred := use.of(1e6, measured), use.of(1e8, measured)
	for what, values := range map[string][2]float64{
		"messages": {one.runMessages, hundred.runMessages}, "memory": {one.memory, hundred.memory}, "disk": {one.disk, hundred.disk}, "cores": {one.cores, hundred.cores},
	} {
		if values[0] <= 0 || math.Abs(values[1]/values[0]-100) > 1e-6 {
			t.Errorf("%s: %g for a million, %g for a hundred", what, values[0], values[1])
		}
	}
	// By hand: 50 000 turns a day in the mean of a day, and three times that at the busiest time; 300 messages each.
	if want := 1e6 * 0.1 * 5 / 86400 * 3 * 300; math.Abs(one.runMessages-want) > 1 {
		t.Errorf("%g messages a second, want %g", one.runMessages, want)
	}
	use.pace = 200 // of which four are put together
	if fast := use.of(1e6, measured); math.Abs(fast.runMessages*4-one.runMessages) > 1 {
		t.Errorf("a fast model: %g messages a second, want a quarter of %g", fast.runMessages, one.runMessages)
	}
	slow := measured
	slow.restartKilled = 1e6
	if w := worst(use.bounds(use.of(1e6, slow), slow)); w.name != "the start after a crash" || w.need < 1000 {
		t.Errorf("a start of weeks: %q needs %g installations", w.name, w.need)
	}
	var out strings.Builder
	usual.print(&out, measured)
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) < 20 || !strings.Contains(lines[len(lines)-2], "what ends first") {
		t.Errorf("the table:\n%s", out.String())
	}
}

func TestWrongFlagsAreSaidToBeWrong(t *testing.T) {
	for args, want := range map[string]string{
		"-sessions 10,5": "expected numbers that rise", "-sessions x": "expected numbers that rise", "-nodes 2": "there are 1 or 3", "-batches 0": "at least 1", "-shards 1": "2 at least",
		"-model now": "is not expected",
	} {
		if err := run(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
