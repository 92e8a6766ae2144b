package nats_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// DO-06: a message of a tape that the servers have lost costs the entries of its batch from there on, and nothing else. The log names it.
func TestDO_06_ALostMessageCostsItsBatchAndNothingElse(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := openTapes(t, tapesAt{clustertest.One(t).URL(), clustertest.Prefix()}, func(o *logs.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s.SetSizes(400)
	ctx := t.Context()
	for i := range 3 {
		var entries []tape.Entry
		for j := range []int{1, 5, 2}[i] {
			entries = append(entries, say(fmt.Sprint(i, j, strings.Repeat("x", 300)))...)
		}
		if _, err := s.Append(ctx, "a", tape.Batch{Create: i == 0, Entries: entries}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(q tape.Query) (ids []int64) {
		t.Helper()
		for e, err := range s.Read(ctx, "a", q) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, e.ID)
		}
		return ids
	}
	whole := read(tape.Query{})
	if len(whole) != 8 {
		t.Fatalf("the tape has the entries %v; expected 8", whole)
	}
	st, err := s.cluster.JetStream().Stream(ctx, s.Stream())
	if err != nil {
		t.Fatal(err)
	}
	last, messages, err := s.Batches(ctx, "a")
	if err != nil || len(last) != 3 || messages[1] < 3 {
		t.Fatalf("the batches have %v messages, %v; expected several in the second one of three", messages, err)
	}
	lost := last[1] - 2
	if err := st.DeleteMsg(ctx, lost); err != nil {
		t.Fatal(err)
	}
	left := read(tape.Query{})
	if len(left) < 3 || len(left) >= len(whole) || left[0] != 1 || left[len(left)-2] != 7 || left[len(left)-1] != 8 {
		t.Errorf("left are %v; expected the first batch, the last one, and what is before the message in the second one", left)
	}
	for i := range left {
		if newest := read(tape.Query{Newest: true}); newest[len(left)-1-i] != left[i] {
			t.Fatalf("newest first: %v; expected %v the other way round", newest, left)
		}
	}
	for id := int64(1); id <= 8; id++ {
		want := fmt.Sprintf("entry %d: damaged", id)
		if named := strings.Contains(log.String(), want) && strings.Contains(log.String(), "tape=a"); named == slices.Contains(left, id) {
			t.Errorf("left are %v; the log says of tape a and %q: %v: %s", left, want, named, log.String())
		}
	}
}
