package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/runlog"
	"github.com/lingserve/lingserve/tube"
)

// behind is a log with one run of another replica, as far as this replica knows of it: it is both the log and whoever follows the run.
type behind struct {
	logAway
	tube *tube.Tube
	gone chan struct{}
	head atomic.Pointer[[]byte]
}

func newBehind() *behind {
	o := run.TubeOptions(0)
	o.Held = true
	return &behind{tube: tube.New(run.NewID(), o), gone: make(chan struct{})}
}

func (b *behind) Follow(_ context.Context, id string) (runlog.Tail, error) {
	if id != b.tube.Run() {
		return nil, runlog.ErrUnknown
	}
	return b, nil
}

func (b *behind) Tube() *tube.Tube      { return b.tube }
func (b *behind) Opening() []byte       { return mustJSON(map[string]string{"run": b.tube.Run()}) }
func (b *behind) Gone() <-chan struct{} { return b.gone }
func (b *behind) Leave()                {}

func (b *behind) Head() []byte {
	if head := b.head.Load(); head != nil {
		return *head
	}
	return nil
}

// learns has this replica know of events that have the words one by one.
func (b *behind) learns(t testing.TB, words ...string) {
	t.Helper()
	for _, word := range words {
		if _, err := b.tube.Send(tube.Event{Kind: tube.Append, URI: []byte("a"), Value: []byte(word)}); err != nil {
			t.Fatal(err)
		}
	}
	b.tube.Show(b.tube.Len() + b.tube.Unshown())
}

// ends has it know of the end.
func (b *behind) ends(t testing.TB) {
	t.Helper()
	if err := b.tube.Close(run.StatusCompleted); err != nil {
		t.Fatal(err)
	}
	b.tube.Show(b.tube.Len() + b.tube.Unshown())
	head := mustJSON(map[string]string{"run": b.tube.Run(), "status": run.StatusCompleted})
	b.head.Store(&head)
}

// CL-05, CL-09, FT-29: a client has had events of a run that the replica which it comes back to does not know of yet. It has each of the others
// once, and is told of an end only where there is one.
func TestCL_09_WhoComesBackToAReplicaThatIsBehind(t *testing.T) {
	const known = 2 // events
	for name, row := range map[string]struct {
		seen  uint64 // what the client has had last
		learn func(*testing.T, *behind)
		want  string // the numbers of the events that come, or another answer
		after string // what comes at the next try, where this one was broken off
	}{
		"it learns of what was seen, and of more": {3, func(t *testing.T, l *behind) {
			l.learns(t, "c", "d")
			time.Sleep(time.Second)
			l.learns(t, "e")
			time.Sleep(time.Minute)
			l.ends(t)
		}, "4 5 ended", ""},
		"it learns of all that there was, with its end": {4, func(t *testing.T, l *behind) {
			l.learns(t, "c", "d")
			l.ends(t)
		}, "204", ""},
		"it learns too late": {3, func(t *testing.T, l *behind) {
			time.Sleep(2 * run.SharedWait)
			l.learns(t, "c", "d", "e")
			l.ends(t)
		}, "broken off", "4 5 ended"},
	} {
		for _, by := range []string{"the header", "the query", "a start", "after"} {
			t.Run(name+", by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newBehind()
					b := newBench(t, func(o *Options) {
						o.Shared = sharedAway()
						o.Shared.Runs = l
					}).servePipes()
					defer b.down()
					l.learns(t, "a", "b")
					if n := l.tube.Len(); n != known {
						t.Fatalf("%d events", n)
					}
					id := fmt.Sprint(l.tube.Run(), ":", row.seen)
					ask := func() string {
						events := "/v1/runs/" + l.tube.Run() + "/events"
						switch by {
						case "the header":
							return got(b.try(t.Context(), "GET", events, "", asEvents, "Last-Event-ID: "+id))
						case "the query":
							return got(b.try(t.Context(), "GET", events+"?last_event_id="+id, "", asEvents))
						case "a start":
							return got(b.try(t.Context(), "POST", "/v1/runs", `{"workflow":"steps"}`, asEvents, "Last-Event-ID: "+id))
						}
						return got(b.try(t.Context(), "GET", fmt.Sprint(events, "?after=", row.seen), "", asEvents))
					}
					learned := make(chan struct{})
					go func() {
						defer close(learned)
						time.Sleep(time.Second)
						row.learn(t, l)
					}()
					want := row.want
					if by == "after" && want == "204" {
						want = "200" // it has asked for the events, and there are no more
					}
					if g := ask(); g != want {
						t.Errorf("it gets %q, expected %q", g, want)
					}
					<-learned
					if row.after != "" {
						if g := ask(); g != row.after {
							t.Errorf("coming back it gets %q, expected %q", g, row.after)
						}
					}
				})
			})
		}
	}
}

// got says what a client gets: the numbers of events, and whether the last one ends the run; another status; or nothing.
func got(resp *http.Response, err error) string {
	if err != nil {
		return "broken off"
	}
	defer resp.Body.Close()
	list, broken := events(resp.Body)
	if resp.StatusCode != 200 || len(list) == 0 && !broken {
		return fmt.Sprint(resp.StatusCode)
	}
	var all []string
	for _, e := range list {
		_, n, _ := strings.Cut(e.LastEventID, ":")
		all = append(all, n)
		if e.Type == "finished" {
			all = append(all, "ended")
		}
	}
	if broken {
		all = append(all, "broken off")
	}
	return strings.Join(all, " ")
}
