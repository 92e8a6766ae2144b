//go:build nightly

package faults

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/web"
)

// serveAt makes a product without sockets, whose clock is the one of the bubble. The function that is returned ends it.
func serveAt(t *testing.T, data string) (ask func(method, path, body string, header ...string) *answer, model *fakeproviders.Server, end func()) {
	t.Helper()
	model = &fakeproviders.Server{Script: always(fakeproviders.Answer{Text: "blue"})}
	provider, err := openai.New(openai.Options{BaseURL: "http://model.invalid/v1", Key: canary, Transport: model.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	models := &adapter.Registry{Default: "openai:m"}
	models.Register("openai", provider)
	registry, err := flow.OpenFS("test", workflows)
	if err != nil {
		t.Fatal(err)
	}
	s, err := web.New(web.Options{Workflows: registry, Models: models, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	ask = func(method, path, body string, header ...string) *answer {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return readAnswer(w.Result())
	}
	return ask, model, func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Drain(ctx)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		model.Close()
	}
}

// FT-27: what is kept stands a clock that has been set while the server was down, back or forth; nothing that was promised is
// lost earlier, and nothing is kept for ever. (While it runs, all waiting goes by the monotonic clock, which cannot be set.)
func TestAClockThatIsSetBetweenRestartsLosesNothing(t *testing.T) {
	for _, row := range []struct {
		name          string
		before, after time.Duration // of the clock when the first and the second server start
		plain         int           // the status of a run without a key
	}{
		{"not at all", 0, 0, 200},
		{"back by an hour", time.Hour, 0, 200},
		{"forth by an hour", 0, time.Hour, 410}, // its five minutes are over
	} {
		t.Run(row.name, func(t *testing.T) {
			data := t.TempDir()
			var plain, keyed *answer
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(row.before)
				ask, _, end := serveAt(t, data)
				plain = ask("POST", "/v1/runs", run("text"))
				keyed = ask("POST", "/v1/runs", run("text"), "Idempotency-Key: one")
				if plain.state != "completed" || keyed.state != "completed" {
					t.Errorf("%v %v", plain, keyed)
				}
				end()
				stamp(t, data, time.Now())
			})
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(row.after)
				ask, model, end := serveAt(t, data)
				defer end()
				check := func(when string) {
					t.Helper()
					if a := ask("POST", "/v1/runs", run("text"), "Idempotency-Key: one"); a.run != keyed.run || a.doc != keyed.doc || a.state != "completed" {
						t.Errorf("%s: the start again: %v", when, a)
					}
					if a := ask("GET", "/v1/runs/"+keyed.run, ""); a.status != 200 || a.doc != keyed.doc {
						t.Errorf("%s: %v", when, a)
					}
				}
				check("at once")
				time.Sleep(6 * time.Second) // after a sweep
				if a := ask("GET", "/v1/runs/"+plain.run, ""); a.status != row.plain {
					t.Errorf("without a key: %v", a)
				}
				time.Sleep(22 * time.Hour)
				check("after most of a day")
				if n := model.Requests(); n != 0 {
					t.Errorf("the model was asked %d times", n)
				}
				time.Sleep(4 * time.Hour)
				if a := ask("POST", "/v1/runs", run("text"), "Idempotency-Key: one"); a.run == keyed.run || a.state != "completed" {
					t.Errorf("after more than a day: %v", a)
				}
			})
		})
	}
}

// stamp gives all files the time of the bubble in which they were written: the file system knows nothing of it.
func stamp(t *testing.T, folder string, now time.Time) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, now, now)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FT-27: ids do not come from the clock: runs of one moment, and of the same moment on two servers, have different ones.
func TestIDsDoNotComeFromTheClock(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			ask, _, end := serveAt(t, "")
			defer end()
			now := time.Now()
			for range 100 {
				a := ask("POST", "/v1/runs", run("text"), "Prefer: respond-async")
				if a.status != http.StatusAccepted || seen[a.run] || len(a.run) < 22 {
					t.Errorf("%v", a)
				}
				seen[a.run] = true
			}
			if !time.Now().Equal(now) {
				t.Error("time has passed")
			}
			// And the events of a run that takes an hour are numbered as those of one that takes no time.
			a := ask("POST", "/v1/runs", run("text"), "Accept: application/x-ndjson")
			for i, e := range a.events {
				if want, _ := json.Marshal(i); !strings.HasSuffix(e.id, ":"+string(want)) {
					t.Errorf("event %d is %q", i, e.id)
				}
			}
		})
	}
}
