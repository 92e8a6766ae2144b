package nats_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// subjects are those that the stream has messages of tapes of.
func subjects(t *testing.T, r *replica) map[string]uint64 {
	t.Helper()
	st, err := r.cluster.JetStream().Stream(t.Context(), r.Stream())
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(info.State.Subjects, func(subject string, _ uint64) bool { return strings.HasSuffix(subject, cluster.BarrierToken) })
	return info.State.Subjects
}

func TestOfAnErasedSessionAMarkerIsLeftForAWhile(t *testing.T) { // CL-03, TA-41
	t.Parallel()
	s := openTapes(t, tapesAt{clustertest.One(t).URL(), clustertest.Prefix()})
	ctx := t.Context()
	tp, err := tape.Open(ctx, s, t.TempDir(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tp.Append(ctx, say("secret", strings.Repeat("secret ", 50_000))...); err != nil {
		t.Fatal(err)
	}
	if _, err := tp.PutBlob(ctx, make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	f, err := tp.Fork(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append(ctx, say("secret")...); err != nil {
		t.Fatal(err)
	}
	if n := len(subjects(t, s)); n != 1+1+1 {
		t.Errorf("a tape, a blob and a fork have %d subjects: %v", n, subjects(t, s))
	}
	if err := tp.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	left := subjects(t, s)
	if len(left) != 1 || left[s.Subject(tp.Name())] != 1 {
		t.Errorf("left are %v, want one message", left)
	}
	st, err := s.cluster.JetStream().Stream(ctx, s.Stream())
	if err != nil {
		t.Fatal(err)
	}
	m, err := st.GetLastMsgForSubject(ctx, s.Subject(tp.Name()))
	if err != nil {
		t.Fatal(err)
	}
	if life, err := time.ParseDuration(m.Header.Get(jetstream.MsgTTLHeader)); err != nil || life != time.Hour || strings.Contains(fmt.Sprint(m.Header), "secret") || len(m.Data) > 0 {
		t.Errorf("the marker is %v with %d bytes, want one for an hour that says nothing", m.Header, len(m.Data))
	}
	// The marker goes away: it is as if the session had never been.
	if err := st.DeleteMsg(ctx, m.Sequence); err != nil {
		t.Fatal(err)
	}
	again, err := tape.Open(ctx, s, tp.Workspace(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := again.Info(ctx); err != nil || info.Entries != 1 {
		t.Errorf("begun again, it is %+v, %v", info, err)
	}
	if err := s.Delete(ctx, "never-there"); err != nil {
		t.Error(err)
	}
	if n := len(subjects(t, s)); n != 1 {
		t.Errorf("erasing what is not there leaves %v", subjects(t, s))
	}
}

// TestWhatAnErasureLeftIsNotTheNextTapes cuts an erasure off between its steps.
func TestWhatAnErasureLeftIsNotTheNextTapes(t *testing.T) { // TA-41
	t.Parallel()
	s := openTapes(t, tapesAt{clustertest.One(t).URL(), clustertest.Prefix()})
	ctx := t.Context()
	if _, err := s.Append(ctx, "a", tape.Batch{Create: true, Entries: say("old")}); err != nil {
		t.Fatal(err)
	}
	handle, err := s.PutBlob(ctx, "a", []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(ctx, "a.1-fork", tape.Batch{Create: true, Entries: say("old")}); err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: s.Subject("a"), Header: nats.Header{"Tape": {`{"state":"erased","tape":"a","born":0,"first":0,"n":0}`}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}}}
	if _, err := s.cluster.JetStream().PublishMsg(ctx, m); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Info(ctx, "a"); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("an erased tape: %v", err)
	}
	if _, _, err := s.ReadBlob(ctx, "a", handle, 0, 10); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("its blob: %v", err)
	}
	if _, err := s.Append(ctx, "a", tape.Batch{Create: true, Entries: say("new")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.ReadBlob(ctx, "a", handle, 0, 10); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("its blob beside the new tape: %v", err)
	}
	if _, err := s.Info(ctx, "a.1-fork"); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("its fork: %v", err)
	}
	wantWords(t, s, "new")
}

func TestAReplicaThatWasNotToldListsNoErasedSession(t *testing.T) { // CL-02
	t.Parallel()
	p := tapesAt{clustertest.One(t).URL(), clustertest.Prefix()}
	one := openTapes(t, p)
	ctx := t.Context()
	for _, name := range []string{"a", "b", "c"} {
		if _, err := one.Append(ctx, name, tape.Batch{Create: true, Entries: say(name)}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(limit int) (names []string) {
		t.Helper()
		all, err := collect(one.Sessions(ctx, tape.SessionQuery{Limit: limit}))
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range all {
			names = append(names, info.Tape)
		}
		return names
	}
	if got := fmt.Sprint(list(0)); got != "[c b a]" {
		t.Fatalf("the list is %s", got)
	}
	// The marker of an erasure is forgotten before this replica could be told of it.
	st, err := one.cluster.JetStream().Stream(ctx, one.Stream())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Purge(ctx, jetstream.WithPurgeSubject(one.Subject("c"))); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(list(2)); got != "[b a]" {
		t.Errorf("a page of two is %s, want [b a]", got)
	}
	if got := one.Rows(); got != 2 {
		t.Errorf("%d sessions are remembered, want 2", got)
	}
}

type counter struct {
	entries, refused int
	bytes            int64
}

func (c *counter) Appended(entries int, bytes int64, err error) {
	if err != nil {
		c.refused++
		return
	}
	c.entries += entries
	c.bytes += bytes
}

func (c *counter) Synced(time.Duration, error) { panic("the servers sync") }

func TestAnObserverIsToldWhatIsAppended(t *testing.T) {
	t.Parallel()
	var c counter
	s, err := connectTapes(tapesAt{clustertest.One(t).URL(), clustertest.Prefix()}, func(o *logs.Options) { o.Observer = &c })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	for i := range 5 {
		_, err := s.Append(ctx, "a", tape.Batch{Create: i < 2, Entries: say("hello", "world")})
		if refused := i == 1; refused != (err != nil) {
			t.Errorf("append %d: %v", i, err)
		}
	}
	info, err := s.Info(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if c.refused != 1 || int64(c.entries) != info.Entries || c.bytes != info.Bytes || c.bytes == 0 {
		t.Errorf("told are %+v of %+v", c, info)
	}
}

func TestWhatIsKnownOfATapeHasABound(t *testing.T) {
	t.Parallel()
	s := openTapes(t, tapesAt{clustertest.One(t).URL(), clustertest.Prefix()})
	ctx := t.Context()
	if _, err := s.Append(ctx, "a", tape.Batch{Create: true, Entries: say("start")}); err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", 40_000)
	if _, err := s.Append(ctx, "a", tape.Batch{Entries: []tape.Entry{tape.NewAnchor(name, nil)}}); err != nil {
		t.Errorf("an anchor whose name has 40 kB: %v", err)
	}
	if _, err := s.Append(ctx, "a", tape.Batch{Entries: say("on")}); err != nil {
		t.Error(err)
	}
	if info, err := s.Info(ctx, "a"); err != nil || info.LastAnchor.Name != name {
		t.Errorf("the last anchor has a name of %d bytes, %v", len(info.LastAnchor.Name), err)
	}
	st, err := s.cluster.JetStream().Stream(ctx, s.Stream())
	if err != nil {
		t.Fatal(err)
	}
	if m, err := st.GetLastMsgForSubject(ctx, s.Subject("a")); err != nil || len(fmt.Sprint(m.Header)) > 1000 {
		t.Errorf("the headers of the last message have %d bytes, %v", len(fmt.Sprint(m.Header)), err)
	}
	wantWords(t, s, "start", "", "on")
}

func TestAnAppendWithoutTimeSaysSo(t *testing.T) {
	t.Parallel()
	servers := clustertest.One(t)
	s := openTapes(t, tapesAt{servers.URL(), clustertest.Prefix()})
	if _, err := s.Append(t.Context(), "a", tape.Batch{Create: true, Entries: say("start")}); err != nil {
		t.Fatal(err)
	}
	servers.Kill(0)
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, enough)
	defer cancel()
	if _, err := s.Append(ctx, "a", tape.Batch{Entries: say("never")}); !errors.Is(err, enough) {
		t.Errorf("an append while the servers are away, with 50 ms: %v, want the context's cause", err)
	}
	servers.Restart(0)
	wantWords(t, s, "start")
}
