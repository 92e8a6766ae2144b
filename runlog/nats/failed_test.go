package nats_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/runlog/nats"
)

// pageSubjects are those that pages are on, or a seal.
func pageSubjects(t testing.TB, c *cluster.Cluster) map[string]bool {
	t.Helper()
	stream, err := c.JetStream().Stream(t.Context(), c.Name("PAGES"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for subject := range info.State.Subjects {
		if subject != c.Subject("pages", cluster.BarrierToken) {
			all[subject] = true
		}
	}
	return all
}

// CL-06, CL-12: a replica whose page was refused, or of whose page it does not know what became of it, goes on with pages on another subject:
// there they are stored, and who takes its runs over has them.
func TestCL_12_WhoHasLostAPageGoesOnWithPages(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"refused, since somebody has sealed its subject": true, "its answer is lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clustertest.One(t)
			a, ca := open(t, s, "failed")
			b, cb := open(t, s, "failed")
			defer crash(t, b, cb)
			var losing atomic.Bool
			if !refused {
				nats.Lose(a, time.Second, func(m *client.Msg) bool {
					return strings.Contains(m.Subject, ".0.") && losing.CompareAndSwap(true, false)
				})
			}
			trouble := make(chan error, 10)
			other, _ := pagedRun(t, a, ca, "other", func(err error) { trouble <- err })
			kept, _ := pagedRun(t, a, ca, "kept", untroubled(t, "kept"))
			first := len(pageSubjects(t, ca)) // more than one where an answer was too late
			if first == 0 {
				t.Fatal("there are no pages")
			}
			if refused {
				if _, err := adopted(b, "other", ca.Replica()); err != nil {
					t.Fatal(err)
				}
				token(t, other, "not stored ")
				fenced(t, trouble)
			} else {
				for losing.Store(true); losing.Load(); {
					n := int(other.Len()) + 1
					token(t, other, "stored, and nobody says so ")
					shows(t, other, n)
				}
			}
			// What comes next names the other subject, and what follows that is in pages there, unless it is time for a message once more.
			for tries := 0; len(pageSubjects(t, ca)) == first; tries++ {
				if tries == 10 {
					t.Fatal("no page is stored any more")
				}
				n := int(kept.Len()) + 1
				token(t, kept, "more ")
				shows(t, kept, n)
			}
			want := lines(kept)
			crash(t, a, ca)
			left, err := adopted(b, "kept", ca.Replica())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, lines(left.Tube)); d != "" {
				t.Error(d)
			}
		})
	}
}
