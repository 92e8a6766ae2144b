package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/bench/peers/node"
)

// Job is what a client is to do.
type Job map[string]any

// Seen is what every client says beside what it has understood.
type Seen struct {
	Error *struct {
		Type, Message string
	} `json:"error"` // of its script
	Complaints []string `json:"complaints"` // on its console
}

// Game is a check that is played: its client, and what was found wrong.
type Game struct {
	*Stage
	Ctx    context.Context
	Script *node.Script
	Loud   bool // the client complains, and may

	wrong []string
}

// Play plays a check with a client of its own, and prints its line. The first argument of the client is the server's address, unless
// there are others.
func (s *Stage) Play(ctx context.Context, line, script string, play func(*Game), args ...string) (failed int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 4*node.Patience, errors.New("it did not end"))
	defer cancel()
	g := &Game{Stage: s, Ctx: ctx}
	if g.Script, err = node.Start(ctx, filepath.Join(s.Folder, script), append(args, s.Server.URL)...); err != nil {
		return 0, fmt.Errorf("%s: %w", line, err)
	}
	s.Requests()
	g.play(play)
	if len(g.wrong) == 0 {
		fmt.Printf("ok    %s\n", line)
		return 0, nil
	}
	fmt.Printf("FAIL  %s\n", line)
	for _, w := range g.wrong {
		fmt.Println("      " + strings.ReplaceAll(strings.TrimSpace(w), "\n", "\n      "))
	}
	return 1, nil
}

// play plays it to its end, or to the first thing without which it cannot go on.
func (g *Game) play(play func(*Game)) {
	defer func() {
		if cause := recover(); cause != nil {
			g.Script.Stop()
			err, ok := cause.(error)
			if !ok {
				panic(cause)
			}
			g.Fail("%v", err)
		}
	}()
	play(g)
	if err := g.Script.End(); err != nil {
		g.Fail("%v", err)
	}
}

// Do lets the client do something; what it has then goes to got, a part of which is common.
func (g *Game) Do(what string, common *Seen, got any, jobs ...Job) {
	j := Job{"do": what}
	for _, more := range jobs {
		maps.Copy(j, more)
	}
	if err := g.Script.Ask(g.Ctx, j, got); err != nil {
		panic(err)
	}
	if common.Error != nil {
		g.Fail("%s: the script throws %s: %s", what, common.Error.Type, common.Error.Message)
	}
	if len(common.Complaints) > 0 && !g.Loud {
		g.Fail("%s: the client complains: %q", what, common.Complaints)
	}
}

// Fail says what is wrong.
func (g *Game) Fail(format string, args ...any) {
	g.wrong = append(g.wrong, fmt.Sprintf(format, args...))
}

// Wrong says whether anything is.
func (g *Game) Wrong() bool { return len(g.wrong) > 0 }

// Is compares what is wanted with what there is.
func (g *Game) Is(what string, want, got any) {
	if diff := cmp.Diff(want, got); diff != "" {
		if len(diff) > 2000 {
			diff = diff[:2000] + "…"
		}
		g.Fail("%s: want (-), got (+)\n%s", what, diff)
	}
}

// Same compares JSON texts.
func (g *Game) Same(what, want, got string) {
	var a, b any
	if json.Unmarshal([]byte(want), &a) != nil || json.Unmarshal([]byte(got), &b) != nil {
		g.Fail("%s: want %.200s, got %.200s", what, want, got)
		return
	}
	g.Is(what, a, b)
}

// Document is a run's, as everybody else gets it.
type Document struct {
	Status string
	Result json.RawMessage
}

// Document asks for that of a run.
func (g *Game) Document(run string) (d Document) {
	_, text := g.Get("GET", "/v1/runs/"+run, "")
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		g.Fail("the document of the run %q: %.200s", run, text)
	}
	return d
}

// Get asks the server without the client.
func (g *Game) Get(method, path, body string) (status int, text string) {
	req, err := http.NewRequestWithContext(g.Ctx, method, g.Server.URL+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	return resp.StatusCode, string(all)
}

// Eventually waits for what the server does by itself.
func (g *Game) Eventually(what string, is func() bool) {
	for !is() {
		select {
		case <-g.Ctx.Done():
			g.Fail("never: %s", what)
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}
