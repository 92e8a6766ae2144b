//go:build nightly

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/turn"
)

// turnsEnv tells the test's binary to be a process that answers messages: a [job] in JSON.
const turnsEnv = "LINGSERVE_FAULTS_TURNS"

// job is what such a process has to do.
type job struct {
	Dir   string // the folder of tapes
	Name  string // of the process, in its batches
	Seed  uint64
	Turns int    // of each session; 0 is until it is killed
	Guard string // a folder in which each turn has its own file; "" for none
}

// turnsChild is that process. Beside what [answering] says it says "ready" when it begins and "done" when it ends; it also ends when
// its input does, so that it does not outlive the test.
func turnsChild() int {
	var mu sync.Mutex
	say := func(format string, args ...any) { // one write each: what was said before a kill is read
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, format+"\n", args...)
	}
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(turnsEnv)), &j); err != nil {
		say("bad job: %v", err)
		return 1
	}
	a, err := newAnswering(j.Dir, j.Name, say)
	if err == nil && j.Guard != "" {
		err = a.framework.Register("guard", &guard{j.Guard, say})
	}
	if err != nil {
		say("bad start: %v", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	say("ready")
	var all sync.WaitGroup
	for i, session := range sessions {
		all.Go(func() {
			r := rand.New(rand.NewPCG(j.Seed, uint64(i)))
			for n := 0; ctx.Err() == nil && (j.Turns == 0 || n < j.Turns); n++ {
				if _, err := a.take(ctx, session, r.IntN(40)); err != nil && ctx.Err() == nil {
					say("bad turn of %s: %v", session, err)
				}
			}
		})
	}
	all.Wait()
	if err := a.close(); err != nil {
		say("bad end: %v", err)
	}
	say("done")
	return 0
}

// guard is a plugin that sees whether two turns of one session run at once, whatever process they are in: from load_state to
// save_state each has the session's file.
type guard struct {
	dir string
	say func(string, ...any)
}

func (g *guard) path(session string) string { return filepath.Join(g.dir, fmt.Sprintf("%x", session)) }

func (g *guard) LoadState(_ context.Context, _ *turn.Envelope, id turn.SessionID) (turn.State, error) {
	f, err := os.OpenFile(g.path(id), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		g.say("bad: two turns of %s at once: %v", id, err)
		return nil, nil
	}
	return turn.State{"guard": true}, f.Close()
}

func (g *guard) SaveState(_ context.Context, o *turn.Outcome) error {
	if o.State["guard"] == nil {
		return nil
	}
	return os.Remove(g.path(o.Session))
}

// process is a turnsChild, as its parent sees it.
type process struct {
	cmd   *exec.Cmd
	lines chan string // closed when it is over
	log   *text
}

func startProcess(t testing.TB, j job) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe), lines: make(chan string, 1<<16), log: new(text)}
	p.cmd.Env = append(os.Environ(), turnsEnv+"="+string(said))
	p.cmd.Stderr = p.log
	if _, err := p.cmd.StdinPipe(); err != nil { // which stays open for as long as this process lives
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process, which the test waits for
		defer close(p.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if err != nil { // what has no end was cut off while it was said
				return
			}
			p.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		for range p.lines {
		}
		p.cmd.Wait()
	})
	return p
}

// until reads lines until one is the last; false where the process ended before.
func (p *process) until(t testing.TB, l *ledger, last func(line string) bool) bool {
	t.Helper()
	limit := time.NewTimer(3 * patience)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return false
			}
			if err := l.note(line); err != nil {
				t.Fatal(err)
			}
			if last(line) {
				return true
			}
		case <-limit.C:
			t.Fatalf("the process says nothing any more: %s", p.log)
		}
	}
}

// kill ends the process with SIGKILL and takes in what it said before.
func (p *process) kill(t testing.TB, l *ledger) {
	t.Helper()
	p.cmd.Process.Kill()
	p.until(t, l, func(string) bool { return false })
	p.cmd.Wait()
	if said := p.log.String(); said != "" {
		t.Fatalf("the process said: %s", clip(said))
	}
}

// What must never happen, 4, 5 and 7: a process that answers messages is killed at any moment, again and again. After each time
// its tapes open, nothing that was acknowledged is missing, no batch is there in part, and the next message is answered, by a model
// that refuses what providers refuse. With -soak it is killed a hundred times.
func TestSoakOfTurnsWhoseProcessIsKilled(t *testing.T) {
	kills := 8
	if *soakTime > 0 {
		kills = 100
	}
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	var l ledger
	cut := 0 // turns that were cut off
	for round := range kills {
		p := startProcess(t, job{Dir: dir, Name: "p" + strconv.Itoa(round), Seed: uint64(round)})
		if !p.until(t, &l, func(line string) bool { return line == "ready" }) {
			t.Fatalf("it has not started: %s", p.log)
		}
		// Now and then in the very beginning, else after so many lines, and in all the moments between two.
		if acks := r.IntN(60); round%5 > 0 {
			p.until(t, &l, func(string) bool { acks--; return acks < 0 })
		}
		time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond) // the moment is what is random here
		p.kill(t, &l)

		for session, s := range l.checkAll(t, dir) {
			if n := len(s.order); n > 0 && s.ended[s.order[n-1]] == "" {
				cut++
				t.Logf("kill %d has cut off a turn of %s", round, session)
			}
		}
		inProcess(t, &l, dir, "after"+strconv.Itoa(round), func(a *answering) {
			for _, session := range sessions {
				if _, err := a.take(t.Context(), session, 3*round); err != nil {
					t.Errorf("%s after kill %d: %v", session, round, err)
				}
			}
		})
		l.checkAll(t, dir)
		if t.Failed() {
			t.Fatalf("kill %d of the seed %d", round, seed)
		}
	}
	ended := 0
	for _, ids := range l.turns {
		ended += len(ids)
	}
	t.Logf("%d kills have cut off %d turns; %d have ended", kills, cut, ended)
	saw(t, "FT-23", fmt.Sprintf("a process that answers messages is killed %d times, at any moment", kills),
		"%d turns were cut off, and named by the next; %d have ended; nothing that was acknowledged is missing, no batch is there in part", cut, ended)
	if cut < kills/2 {
		t.Errorf("of %d kills only %d were in a turn", kills, cut)
	}
}

// What must never happen, 1, and TU-68: two processes answer messages of the same sessions on one folder; never are two turns of one
// session on at once, and all of it is on the tapes. When one of them is killed the other one goes on with all sessions.
func TestTwoProcessesOnOneFolderNeverRunOneSessionAtOnce(t *testing.T) {
	turns := 4
	if *soakTime > 0 {
		turns = 60
	}
	dir, guard := t.TempDir(), t.TempDir()
	var l ledger
	done := func(line string) bool { return line == "done" }
	a := startProcess(t, job{Dir: dir, Name: "a", Seed: 1, Turns: turns, Guard: guard})
	b := startProcess(t, job{Dir: dir, Name: "b", Seed: 2, Turns: turns, Guard: guard})
	for _, p := range []*process{a, b} {
		if !p.until(t, &l, done) {
			t.Fatalf("it has ended before it was done: %s", p.log)
		}
		p.kill(t, &l)
	}
	for session, s := range l.checkAll(t, dir) {
		if len(s.ended) != 2*turns || len(l.turns[session]) != 2*turns {
			t.Errorf("%s: %d turns have ended, of %d", session, len(s.ended), 2*turns)
		}
	}

	a = startProcess(t, job{Dir: dir, Name: "c", Seed: 3})
	b = startProcess(t, job{Dir: dir, Name: "d", Seed: 4})
	acks := 20
	a.until(t, &l, func(string) bool { acks--; return acks == 0 })
	a.kill(t, &l)
	waiting := map[string]int{}
	for _, session := range sessions {
		waiting[session] = 2 // the first of them may have ended before the kill
	}
	if !b.until(t, &l, func(line string) bool {
		if rest, ok := strings.CutPrefix(line, "turn "); ok {
			session, _, _ := strings.Cut(rest, " ")
			if waiting[session]--; waiting[session] <= 0 {
				delete(waiting, session)
			}
		}
		return len(waiting) == 0
	}) {
		t.Errorf("the other process has ended: %s", b.log)
	}
	b.kill(t, &l)
	l.checkAll(t, dir)
}
