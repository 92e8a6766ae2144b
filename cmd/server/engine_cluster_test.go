package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/program"
)

// CL-01: three replicas whose embedded servers are a cluster. One of them is killed, and the others have all that was said; when it comes back
// it is one of them again.
func TestThreeEmbeddedServersAreACluster(t *testing.T) {
	longtest.Only(t, "three whole servers, and an election by silence")
	workspace, names, dirs := t.TempDir(), replicaNames, []string{t.TempDir(), t.TempDir(), t.TempDir()}
	listen := clustertest.Addresses(t, 3)
	routes := "nats://" + strings.Join(listen, ",nats://")
	start := func(i int) (*program.Process, error) {
		return program.Start(t.Context(), "lingserve", dirs[i], &program.Options{Env: cleanEnvironment(), Args: []string{
			"--engine", "nats", "--nats", "embedded", "--nats-name", names[i], "--cluster", routes, "--nats-cluster-listen", listen[i],
			"--workspace", workspace,
		}})
	}
	shareSessions(t, start)
}

// replicaNames are those of the replicas of a test.
var replicaNames = []string{"one", "two", "three"}

// shareSessions starts three replicas, and has each of them continue a session, also when one is killed and starts again.
func shareSessions(t *testing.T, start func(i int) (*program.Process, error)) {
	t.Helper()
	names := replicaNames
	replicas := make([]*program.Process, 3)
	t.Cleanup(func() {
		for i, p := range replicas {
			if p == nil {
				continue
			}
			p.Kill()
			if t.Failed() {
				t.Logf("%s says:\n%s", names[i], p.Log)
			}
		}
	})
	var wg sync.WaitGroup
	for i := range names { // each waits for another one
		wg.Go(func() {
			var err error
			if replicas[i], err = start(i); err != nil {
				t.Errorf("%s: %v", names[i], err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	say := func(i int, text string) (run string) {
		t.Helper()
		for end := time.Now().Add(patient); ; time.Sleep(20 * time.Millisecond) {
			got := askOnce(t, "POST", replicas[i].URL+"/v1/runs?format=json", `{"agent":"assistant","session":"s","input":"`+text+`"}`)
			if got.status == http.StatusOK {
				return got.header.Get("X-Run-Id")
			}
			if got.status != http.StatusServiceUnavailable || time.Now().After(end) {
				t.Fatalf("said %q to %s: %d %s", text, names[i], got.status, got.body)
			}
		}
	}
	has := func(i int, run string, texts ...string) {
		t.Helper()
		eventually(t, replicas[i].URL+"/readyz", func(a asked) bool { return a.status == http.StatusOK })
		if got := askOnce(t, "GET", replicas[i].URL+"/v1/runs/"+run, ""); got.status != http.StatusOK {
			t.Errorf("the run at %s: %d %s", names[i], got.status, got.body)
		}
		got := askOnce(t, "GET", replicas[i].URL+"/v1/sessions/s/tape", "")
		for _, text := range texts {
			if got.status != http.StatusOK || strings.Count(got.body, `"`+text+`"`) != 1 {
				t.Errorf("the tape at %s has not %q once: %d %s", names[i], text, got.status, got.body)
			}
		}
	}
	first := say(0, "first words")
	has(2, first, "first words")
	replicas[0].Kill()
	second := say(1, "second words")
	has(2, first, "first words")
	has(2, second, "first words", "second words")
	p, err := start(0)
	if err != nil {
		t.Fatal(err)
	}
	replicas[0] = p
	has(0, second, "first words", "second words")
	third := say(0, "third words")
	has(1, third, "first words", "second words", "third words")
}
