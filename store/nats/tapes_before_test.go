package nats_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// writeBefore writes the stream that an earlier version has written: testdata/tapes.jsonl has its messages with their sequences. That
// version was told to put 600 bytes of a batch into a message.
func writeBefore(t *testing.T, p tapesAt) {
	t.Helper()
	c, err := cluster.Open(t.Context(), cluster.Options{Servers: p.URL, Prefix: p.Prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := c.Stream(t.Context(), jetstream.StreamConfig{
		Name: "TAPES", Subjects: []string{c.Subject("tapes", ">")}, Description: "tapes: what sessions remember",
		Discard: jetstream.DiscardNew, AllowDirect: true, AllowAtomicPublish: true, AllowRollup: true, AllowMsgTTL: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open("testdata/tapes.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	next := uint64(1)
	publish := func(m *client.Msg) (seq uint64) {
		t.Helper()
		ack, err := c.JetStream().PublishMsg(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		next = ack.Sequence + 1
		return ack.Sequence
	}
	filler := c.Subject("tapes", "filler")
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m struct {
			Seq           uint64
			Subject, Data string
			Header        client.Header
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		for next < m.Seq { // in the place of what was removed
			publish(&client.Msg{Subject: filler})
		}
		publish(&client.Msg{Subject: c.Subject(strings.Split(m.Subject, ".")...), Header: m.Header, Data: []byte(m.Data)})
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(filler)); err != nil {
		t.Fatal(err)
	}
	// A blob of several messages.
	const part = 300_000
	record := fmt.Sprintf(`{"size":%d,"part":%d,"parts":[`, len(largeBlob), part)
	subject := c.Subject("tapes", "short", "b", hashOf(largeBlob))
	for i, data := 0, largeBlob; len(data) > 0; i++ {
		n := min(part, len(data))
		record += strings.Repeat(",", min(i, 1)) + fmt.Sprint(publish(&client.Msg{Subject: fmt.Sprint(subject, ".", i), Data: data[:n]}))
		data = data[n:]
	}
	publish(&client.Msg{Subject: subject, Header: client.Header{"Tape-Blob": {record + "]}"}}})
}

var largeBlob = bytes.Repeat([]byte("a large blob"), 100_000)

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// textsOf are the texts of entries, or the names of anchors.
func textsOf(t testing.TB, s tape.Store, name string, q tape.Query) (texts []string) {
	t.Helper()
	for e, err := range s.Read(t.Context(), name, q) {
		if err != nil {
			t.Fatalf("%s %+v: %v", name, q, err)
		}
		var p struct{ Content, Name string }
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, p.Content+p.Name)
	}
	return texts
}

// longBefore are the texts of the tape "long" of an earlier version.
func longBefore() (texts []string) {
	texts = []string{"Grüße an alle"}
	for i := range 100 {
		switch i {
		case 20, 80:
			texts = append(texts, fmt.Sprint("phase", i))
		case 40:
			texts = append(texts, "leased")
		case 60:
			texts = append(texts, strings.Repeat("large", 300), "behind", strings.Repeat("x", 590), "end")
		default:
			texts = append(texts, fmt.Sprint("m", i))
		}
	}
	return texts
}

// The tapes that an earlier version has written are read, and appended to, as others.
func TestTapesOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	p := tapesAt{clustertest.One(t).URL(), clustertest.Prefix()}
	writeBefore(t, p)
	a, b := openTapes(t, p), openTapes(t, p)
	want := longBefore()
	day := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	check := func(name string, want []string) {
		t.Helper()
		for _, s := range []tape.Store{a, b} {
			if got := textsOf(t, s, name, tape.Query{}); !slices.Equal(got, want) {
				t.Errorf("%s: %.400q, want %.400q", name, got, want)
			}
			got := textsOf(t, s, name, tape.Query{Newest: true})
			if slices.Reverse(got); !slices.Equal(got, want) {
				t.Errorf("%s backward: %.400q, want %.400q", name, got, want)
			}
		}
	}
	check("long", want)
	check("short", []string{"short"})
	check("short.fork", []string{"in a fork"})
	check("short.fork.deep", []string{"in a fork of a fork"})
	check("again", []string{"first"})
	info, err := a.Info(t.Context(), "long")
	wantInfo := tape.Info{
		Tape: "long", Session: "web:owner#long", Workspace: "/srv", Title: "Grüße an alle", Created: day.Add(time.Second), Updated: info.Updated,
		Entries: 104, LastID: 104, Anchors: 2, LastAnchor: tape.AnchorRef{ID: 85, Name: "phase80", Date: info.LastAnchor.Date}, Bytes: info.Bytes,
	}
	if err != nil || info != wantInfo || info.Bytes < 10_000 || info.Updated.Sub(day) != 104*time.Second || info.LastAnchor.Date.Sub(day) != 85*time.Second {
		t.Errorf("%+v, %v, want %+v", info, err, wantInfo)
	}
	var listed []string
	for info, err := range b.Sessions(t.Context(), tape.SessionQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, info.Tape)
	}
	if !slices.Equal(listed, []string{"again", "imported", "short", "long"}) {
		t.Errorf("%q", listed)
	}
	if n, err := b.Count(t.Context()); n != 4 || err != nil {
		t.Errorf("%d tapes, %v", n, err)
	}
	if _, err := a.Info(t.Context(), "erased"); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("an erased tape: %v", err)
	}
	for _, data := range [][]byte{[]byte("a small blob"), largeBlob} {
		for _, from := range []int64{0, 5, 600_000, 1_100_000} {
			got, size, err := a.ReadBlob(t.Context(), "short", hashOf(data), from, 200_000)
			low := min(from, int64(len(data)))
			if err != nil || size != int64(len(data)) || !bytes.Equal(got, data[low:min(low+200_000, size)]) {
				t.Errorf("%d bytes of a blob of %d from %d, %v", len(got), size, from, err)
			}
		}
	}

	// What is appended comes behind it.
	if got := textsOf(t, a, "long", tape.Query{FromLast: true}); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "m99") || len(got) > 20 {
		t.Errorf("from the last anchor: %q", got)
	}
	for i := range 51 {
		s := []*replica{a, b}[i%2]
		e := tape.NewMessage("user", fmt.Sprint("new", i))
		if i == 30 {
			e = tape.NewAnchor("new30", "summary")
		}
		if i == 50 {
			l, err := s.Lease(t.Context(), "long", true)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
		}
		if first, err := s.Append(t.Context(), "long", tape.Batch{Entries: []tape.Entry{e}}); err != nil || first != int64(105+i) {
			t.Fatalf("entry %d is %d: %v", i, first, err)
		}
		want = append(want, fmt.Sprint("new", i))
	}
	check("long", want)
	if info, err := b.Info(t.Context(), "long"); err != nil || info.Entries != 155 || info.Anchors != 3 || info.Created != wantInfo.Created {
		t.Errorf("%+v, %v", info, err)
	}
	marks := func() (names []string) {
		for e, err := range a.space().Read(t.Context(), "long", store.Range{Marks: true}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, fmt.Sprint(e.N))
		}
		return names
	}
	if got := marks(); !slices.Equal(got, []string{"22", "85", "135"}) {
		t.Errorf("anchors are %q", got)
	}
	if _, err := a.Append(t.Context(), "erased", tape.Batch{Create: true, Entries: []tape.Entry{tape.NewMessage("user", "anew")}}); err != nil {
		t.Fatal(err)
	}
	check("erased", []string{"anew"})
	if err := b.Delete(t.Context(), "short"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"short", "short.fork", "short.fork.deep"} {
		if _, err := a.Info(t.Context(), name); !errors.Is(err, tape.ErrNotFound) {
			t.Errorf("%s is erased: %v", name, err)
		}
	}
}
