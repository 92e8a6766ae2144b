package nats_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel/nats"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/cluster/clustertest"
)

var _ webhook.Results = (*nats.Results)(nil)

// CH-182, CL-09: what was answered at one replica is known at another, whatever its size, until its session is erased.
func TestAnswersAreKnownToAllReplicas(t *testing.T) {
	t.Parallel()
	s := clustertest.One(t)
	var all []*nats.Results
	for range 2 {
		r, err := nats.OpenResults(t.Context(), s.Open(t), nats.ResultsOptions{Bytes: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	a, b := all[0], all[1]
	save := func(r *nats.Results, message, session string, answer []byte) {
		t.Helper()
		if err := r.Save(t.Context(), message, session, answer); err != nil {
			t.Fatal(err)
		}
	}
	large := bytes.Repeat([]byte(`{"text":"words"}`), 100_000) // more than a message has
	save(a, "hook/1", "one", []byte("first"))
	save(a, "hook/2", "two", large)
	save(b, "hook/1", "one", []byte("newer"))
	for message, want := range map[string]string{"hook/1": "newer", "hook/2": string(large), "hook/3": ""} {
		for i, r := range all {
			if got, err := r.Load(t.Context(), message); err != nil || string(got) != want || (got == nil) != (want == "") {
				t.Errorf("%s at replica %d has %d bytes, %v, expected %d", message, i, len(got), err, len(want))
			}
		}
	}
	if err := a.Save(t.Context(), "hook/4", "one", random(3<<20)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("one that no message has room for is %v", err)
	}
	if err := b.Erase(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	for message, there := range map[string]bool{"hook/1": false, "hook/2": true} {
		if got, err := a.Load(t.Context(), message); err != nil || (got != nil) != there {
			t.Errorf("%s is there: %v, %v", message, got != nil, err)
		}
	}
}
