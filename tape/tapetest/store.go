package tapetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
)

const name = "99f5e6effb96d7b9__bd8cdd776d6ba381"

var tests = []test{
	{"TA-02: an entry keeps its bytes and gets a date", entriesKeepTheirBytes},
	{"TA-03: ids rise by one from 1, whatever the clock and the caller say", idsRiseByOne},
	{"TA-04: an unknown kind is kept", unknownKinds},
	{"TA-07: a session is begun once, also by many at once", begunOnce},
	{"TA-07: reading makes no tape", readingMakesNone},
	{"TA-08: sessions are listed, newest first, page by page", sessions},
	{"TA-08: sessions are counted without being listed", counted},
	{"TA-10: batches of many writers lie one behind another", concurrentBatches},
	{"TA-10: what is no entry is refused and changes nothing", refused},
	{"TA-10: an entry of 8 MiB is taken, a larger one is not", largest},
	{"TA-10: a batch is appended only where the tape is as it wants", conditions},
	{"TA-13: an anchor carries the settings, also those of a moment ago", handoff},
	{"TA-20: a read sees the tape as it was when it began", snapshots},
	{"TA-21: a query for an anchor that is not there", missingAnchor},
	{"TA-01, TA-21: any query after any writes gives what a plain list gives, which only grows", againstModel},
	{"TA-22: what is known without reading", info},
	{"TA-24: search", search},
	{"TA-30: a fork is merged as one batch, or dropped", forks},
	{"TA-31: a fork sees what its parent was", forkSees},
	{"TA-32: a merge gives new ids and happens once", mergeOnce},
	{"TA-33: a session is forked at an entry", forkSession},
	{"TA-40: what is exported is imported, byte for byte", exportImport},
	{"MO-01: what a model's provider wants to have back is kept, byte for byte", madeIsKept},
	{"TA-40: an import happens whole or not at all", importRefused},
	{"TA-41: what is erased is gone and does not come back", erased},
	{"TA-41: an erasure meets readers and writers", erasedMeanwhile},
	{"TU-68: a lease is held by one", leases},
	{"AG-29: blobs are read in parts", blobs},
	{"a canceled context ends a read and keeps an append from happening", canceled},
	{"a closed store says so", closed},
}

func entriesKeepTheirBytes(t *testing.T, b *bench) {
	s := b.open()
	date := time.Date(2026, 3, 1, 10, 0, 0, 123456789, time.FixedZone("", 3600))
	given := []tape.Entry{
		{Kind: "message", Payload: json.RawMessage(`{"role":"user","content":"天气? \u5929 <&> \/"}`), Date: date},
		{Kind: "message", Payload: json.RawMessage(`{ "b" : 1.50, "a":1e2 , "b":2 }`), Meta: json.RawMessage(`{"z": [1, 2]}`), Date: date},
		{Kind: "message", Payload: json.RawMessage("{\"a\":\n1,\r\n\"b\":2}"), Meta: json.RawMessage("{}"), Date: date},
		{Kind: `a "kind" 天`, Payload: json.RawMessage("{\"u\":\"\u2028\u2029\U0001F600\"}"), Date: date},
	}
	want := []string{
		`{"id":2,"kind":"message","payload":{"role":"user","content":"天气? \u5929 <&> \/"},"meta":{},"date":"2026-03-01T09:00:00.123456Z"}`,
		`{"id":3,"kind":"message","payload":{ "b" : 1.50, "a":1e2 , "b":2 },"meta":{"z": [1, 2]},"date":"2026-03-01T09:00:00.123456Z"}`,
		`{"id":4,"kind":"message","payload":{"a":1,"b":2},"meta":{},"date":"2026-03-01T09:00:00.123456Z"}`,
		"{\"id\":5,\"kind\":\"a \\\"kind\\\" 天\",\"payload\":{\"u\":\"\u2028\u2029\U0001F600\"},\"meta\":{},\"date\":\"2026-03-01T09:00:00.123456Z\"}",
	}
	b.create(s, name)
	b.append(s, name, given...)
	if diff := cmp.Diff(want, lines(b.read(s, name, tape.Query{After: 1}))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}

	before := time.Now().Truncate(time.Microsecond)
	id := b.append(s, name, tape.NewMessage("user", "now"))
	got := b.read(s, name, tape.Query{After: id - 1})[0].Date
	if got.Before(before) || got.After(time.Now()) || got.Location() != time.UTC || got.Nanosecond()%1000 != 0 {
		t.Errorf("an entry without a date got %v, want now in UTC with microseconds", got)
	}

	// The store keeps nothing that the caller may change.
	payload := []byte(`{"a":"unchanged"}`)
	id = b.append(s, name, tape.Entry{Kind: "x", Payload: payload})
	copy(payload, `{"a":"CHANGED.."}`)
	if got := b.read(s, name, tape.Query{After: id - 1})[0].Payload; string(got) != `{"a":"unchanged"}` {
		t.Errorf("the payload is %s after the caller used its bytes again", got)
	}
}

func idsRiseByOne(t *testing.T, b *bench) {
	s := b.open()
	if first, err := s.Append(t.Context(), name, tape.Batch{Create: true, Entries: []tape.Entry{{ID: 77, Kind: "x", Payload: json.RawMessage(`{}`)}}}); first != 1 || err != nil {
		t.Fatalf("the first id is %d, %v, want 1", first, err)
	}
	back := tape.NewEvent("clock", nil)
	for i, date := range []time.Time{time.Now().Add(time.Hour), time.Now().Add(-time.Hour), time.Unix(0, 0)} {
		back.ID, back.Date = 1, date
		if first := b.append(s, name, back, back); first != int64(2+2*i) {
			t.Errorf("batch %d begins with id %d, want %d", i, first, 2+2*i)
		}
	}
	if got := ids(b.read(s, name, tape.Query{})); !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("ids are %v, want 1 to 7 in order, whatever the dates are", got)
	}
	b.create(s, "other")
	if first := b.append(s, "other", back); first != 2 {
		t.Errorf("another tape's second id is %d, want 2: ids are per tape", first)
	}
}

func unknownKinds(t *testing.T, b *bench) {
	s := b.open()
	tp, err := tape.Open(t.Context(), s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	alien := tape.Entry{Kind: "x.alien", Payload: json.RawMessage(`{"role":"user","content":"hi"}`), Meta: json.RawMessage(`{"own":true}`)}
	if _, err := tp.Append(t.Context(), alien); err != nil {
		t.Fatal(err)
	}
	got := b.read(s, tp.Name(), tape.Query{Kinds: []tape.Kind{"x.alien"}})
	if len(got) != 1 || string(got[0].Payload) != string(alien.Payload) || string(got[0].Meta) != string(alien.Meta) {
		t.Errorf("read %v, want the entry as it was", lines(got))
	}
	if v, err := tp.View(t.Context(), nil); err != nil || len(v.Messages) != 1 {
		t.Errorf("the view has %d messages, %v, want the anchor alone", len(v.Messages), err)
	}
}

func begunOnce(t *testing.T, b *bench) {
	const openers = 8
	stores := []tape.Store{b.open()}
	if b.f.Durable {
		stores = append(stores, b.open())
	}
	var wg sync.WaitGroup
	for i := range openers {
		wg.Go(func() {
			tp, err := tape.Open(t.Context(), stores[i%len(stores)], b.dir, "telegram:42")
			if err != nil {
				t.Errorf("opener %d: %v", i, err)
				return
			}
			if _, err := tp.Append(t.Context(), tape.NewEvent("opened", i)); err != nil {
				t.Errorf("opener %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	all := b.read(stores[0], tape.Name(b.dir, "telegram:42"), tape.Query{})
	if len(all) != 1+openers {
		t.Fatalf("the tape has %d entries, want one anchor and %d events:\n%s", len(all), openers, strings.Join(lines(all), "\n"))
	}
	if a := all[0]; a.Kind != tape.KindAnchor || string(a.Payload) != `{"name":"session/start","state":{"owner":"human"}}` {
		t.Errorf("the tape begins with %s", lines(all[:1]))
	}
	if m := tape.MetaOf(all[0]); m.Session != "telegram:42" || m.Workspace != tape.ResolveWorkspace(b.dir) {
		t.Errorf("its meta is %s, want the session and its workspace", all[0].Meta)
	}
}

func readingMakesNone(t *testing.T, b *bench) {
	s := b.open()
	_, err := collect(s.Read(t.Context(), name, tape.Query{}))
	b.wantErr("read", err, tape.ErrNotFound)
	_, err = s.Info(t.Context(), name)
	b.wantErr("info", err, tape.ErrNotFound)
	_, err = tape.Lookup(t.Context(), s, b.dir, "s")
	b.wantErr("look up", err, tape.ErrNotFound)
	_, err = s.Append(t.Context(), name, tape.Batch{Entries: batch("me", 1)})
	b.wantErr("append", err, tape.ErrNotFound)
	if all, err := collect(s.Sessions(t.Context(), tape.SessionQuery{})); err != nil || len(all) != 0 {
		t.Errorf("sessions are %v, %v, want none", all, err)
	}
}

func sessions(t *testing.T, b *bench) {
	s := b.open()
	base := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	open := func(session string) *tape.Tape {
		tp, err := tape.Open(t.Context(), s, b.dir, session)
		if err != nil {
			t.Fatal(err)
		}
		return tp
	}
	at := func(e tape.Entry, minutes int) tape.Entry {
		e.Date = base.Add(time.Duration(minutes) * time.Minute)
		return e
	}
	long := strings.Repeat("很长 ", 50)
	for i := range 7 {
		tp := open(fmt.Sprintf("s-%d", i))
		if _, err := tp.Append(t.Context(), at(tape.NewMessage("user", fmt.Sprintf("title\n %d %s", i, long)), 1), at(tape.NewMessage("user", "later"), 10-i)); err != nil {
			t.Fatal(err)
		}
		if err := tape.WithFork(t.Context(), tp, false, func(ctx context.Context, f *tape.Fork) error {
			_, err := f.Append(ctx, tape.NewMessage("user", "in a fork"))
			if all, err := collect(s.Sessions(ctx, tape.SessionQuery{})); err != nil || len(all) != i+1 {
				t.Errorf("with a fork, there are %d sessions, %v, want %d", len(all), err, i+1)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	q := tape.SessionQuery{Limit: 3}
	for pages := 0; ; pages++ {
		page, err := collect(s.Sessions(t.Context(), q))
		if err != nil || pages > 3 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, i := range page {
			got = append(got, i.Session)
		}
		if len(page) < q.Limit {
			break
		}
		q.After = page[len(page)-1].Cursor()
	}
	if diff := cmp.Diff([]string{"s-0", "s-1", "s-2", "s-3", "s-4", "s-5", "s-6"}, got); diff != "" {
		t.Errorf("sessions, the one with the newest entry first (-want +got):\n%s", diff)
	}
	all, _ := collect(s.Sessions(t.Context(), tape.SessionQuery{}))
	first := all[0]
	if want := string([]rune("title 0 " + strings.TrimSpace(long))[:60]); first.Title != want {
		t.Errorf("title %q, want the beginning of the first user message on one line, %q", first.Title, want)
	}
	if first.Entries != 3 || first.Anchors != 1 || first.LastID != 3 || first.Tape != open("s-0").Name() ||
		first.Workspace != tape.ResolveWorkspace(b.dir) || !first.Updated.Equal(base.Add(10*time.Minute)) || first.Created.IsZero() {
		t.Errorf("the session is listed as %+v", first)
	}
	// DP-03: a session knows the agent of its newest turn, also after the store is opened again.
	for _, agent := range []string{"first", "second", ""} {
		start := tape.NewEvent("turn.start", nil).With(tape.Meta{Turn: "t", Agent: agent})
		if _, err := open("s-3").Append(t.Context(), at(start, 8), at(tape.NewMessage("user", "hi"), 8)); err != nil {
			t.Fatal(err)
		}
	}
	stores := map[string]tape.Store{"now": s}
	if b.f.Durable {
		stores["when opened again"] = b.open()
	}
	for when, s := range stores {
		all, err := collect(s.Sessions(t.Context(), tape.SessionQuery{}))
		for _, i := range all {
			if want := map[string]string{"s-3": "second"}[i.Session]; i.Agent != want {
				t.Errorf("%s the agent of %s is %q, want %q", when, i.Session, i.Agent, want)
			}
		}
		if info, infoErr := s.Info(t.Context(), open("s-3").Name()); len(all) != 7 || info.Agent != "second" || err != nil || infoErr != nil {
			t.Errorf("%s the tape's agent is %q, %d sessions, %v, %v", when, info.Agent, len(all), err, infoErr)
		}
	}
	if all, err := collect(s.Sessions(t.Context(), tape.SessionQuery{Workspace: "/elsewhere"})); err != nil || len(all) != 0 {
		t.Errorf("another workspace has %d sessions, %v", len(all), err)
	}
	for prefix, want := range map[string]int{"s-": 7, "s-3": 1, "-": 0, "S-": 0} {
		for _, workspace := range []string{"", tape.ResolveWorkspace(b.dir)} {
			if some, err := collect(s.Sessions(t.Context(), tape.SessionQuery{Prefix: prefix, Workspace: workspace})); err != nil || len(some) != want {
				t.Errorf("of %q, %d sessions begin with %q, want %d; %v", workspace, len(some), prefix, want, err)
			}
		}
	}
	_, err := collect(s.Sessions(t.Context(), tape.SessionQuery{After: "?"}))
	b.wantErr("a bad cursor", err, tape.ErrInvalid)
}

func counted(t *testing.T, b *bench) {
	s := b.open()
	count := func(when string, want int) {
		t.Helper()
		if n, err := s.Count(t.Context(), ""); n != want || err != nil {
			t.Errorf("%s: %d sessions, %v, want %d", when, n, err, want)
		}
	}
	count("an empty store", 0)
	var all []*tape.Tape
	for i := range 5 {
		tp, err := tape.Open(t.Context(), s, b.dir, fmt.Sprint("s-", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tp.Append(t.Context(), tape.NewMessage("user", "hi")); err != nil {
			t.Fatal(err)
		}
		all = append(all, tp)
	}
	count("five that were appended to", 5)
	if _, err := s.PutBlob(t.Context(), all[0].Name(), []byte("large")); err != nil {
		t.Fatal(err)
	}
	if err := tape.WithFork(t.Context(), all[0], false, func(ctx context.Context, f *tape.Fork) error {
		_, err := f.Append(ctx, tape.NewMessage("user", "in a fork"))
		count("a fork and a blob are none", 5)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := tape.Import(t.Context(), s, b.dir, "damaged", strings.NewReader("{")); err == nil {
		t.Error("what cannot be read is imported")
	}
	count("an import that was given up is none", 5)
	for range 2 {
		if err := all[1].Delete(t.Context()); err != nil && !errors.Is(err, tape.ErrDeleted) {
			t.Fatal(err)
		}
		count("one was erased", 4)
	}
	if _, err := tape.Open(t.Context(), s, b.dir, "s-1"); err != nil {
		t.Fatal(err)
	}
	count("and begun again", 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.Count(ctx, ""); err == nil && n != 5 {
		t.Errorf("a canceled count says %d and no error", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Count(t.Context(), "")
	b.wantErr("a closed store", err, tape.ErrClosed)
}

// checkBatches says what is wrong with a tape that writers of batch filled: each is whole, and each writer's are in order.
func checkBatches(entries []tape.Entry) error {
	type place struct {
		By      string
		N, Part int
	}
	next := map[string]int{}
	var open *place
	for i, e := range entries {
		if i > 0 && e.ID != entries[i-1].ID+1 {
			return fmt.Errorf("id %d follows %d", e.ID, entries[i-1].ID)
		}
		if e.Kind != tape.KindEvent {
			continue
		}
		var p struct{ Data place }
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return err
		}
		switch at := p.Data; {
		case open == nil && at.Part == 0 && at.N == next[at.By]:
			open = &at
		case open != nil && at == place{open.By, open.N, open.Part + 1}:
			open.Part++
			if at.Part == 2 {
				next[at.By]++
				open = nil
			}
		default:
			return fmt.Errorf("entry %d is part %d of batch %d by %q, which does not belong there", e.ID, at.Part, at.N, at.By)
		}
	}
	if open != nil {
		return fmt.Errorf("of batch %d by %q there are %d parts of 3", open.N, open.By, open.Part+1)
	}
	return nil
}

func concurrentBatches(t *testing.T, b *bench) {
	const writers = 6
	batches := 25
	stores := []tape.Store{b.open()}
	if b.f.Durable {
		stores = append(stores, b.open())
	}
	b.create(stores[0], name)
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for i := range 2 {
		reading.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				q := tape.Query{Newest: n%2 == 1}
				all, err := collect(stores[i%len(stores)].Read(t.Context(), name, q))
				if q.Newest {
					slices.Reverse(all)
				}
				if err == nil {
					err = checkBatches(all)
				}
				if err != nil {
					t.Errorf("a reader beside the writers: %v", err)
					return
				}
			}
		})
	}
	var mu sync.Mutex
	firsts := map[int64]bool{}
	for w := range writers {
		writing.Go(func() {
			for i := range batches {
				first, err := stores[w%len(stores)].Append(t.Context(), name, tape.Batch{Entries: batch(fmt.Sprint(w), i)})
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				mu.Lock()
				if firsts[first] {
					t.Errorf("id %d was given twice", first)
				}
				firsts[first] = true
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	for i, s := range stores {
		all := b.read(s, name, tape.Query{})
		if err := checkBatches(all); err != nil || len(all) != 1+3*writers*batches {
			t.Errorf("store %d: %d entries, %v, want %d", i, len(all), err, 1+3*writers*batches)
		}
		for _, e := range all[1:] {
			if (e.ID-2)%3 == 0 && !firsts[e.ID] {
				t.Errorf("entry %d begins a batch that no writer was told of", e.ID)
			}
		}
	}
}

func refused(t *testing.T, b *bench) {
	s := b.open()
	b.create(s, name)
	good := tape.NewMessage("user", "hi")
	object := json.RawMessage(`{}`)
	for what, bad := range map[string]tape.Entry{
		"no kind":                {Payload: object},
		"a long kind":            {Kind: tape.Kind(strings.Repeat("k", 65)), Payload: object},
		"a kind not in UTF-8":    {Kind: "\xff", Payload: object},
		"no payload":             {Kind: "x"},
		"an array as payload":    {Kind: "x", Payload: json.RawMessage(`[]`)},
		"a string as payload":    {Kind: "x", Payload: json.RawMessage(`"{}"`)},
		"a payload that is cut":  {Kind: "x", Payload: json.RawMessage(`{"a":`)},
		"two payloads":           {Kind: "x", Payload: json.RawMessage(`{}{}`)},
		"a payload with more":    {Kind: "x", Payload: json.RawMessage(`{},"id":7`)},
		"a payload not in UTF-8": {Kind: "x", Payload: json.RawMessage("{\"a\":\"\xff\"}")},
		"an array as meta":       {Kind: "x", Payload: object, Meta: json.RawMessage(`[]`)},
		"null as meta":           {Kind: "x", Payload: object, Meta: json.RawMessage(`null`)},
		"a year of five digits":  {Kind: "x", Payload: object, Date: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		_, err := s.Append(t.Context(), name, tape.Batch{Entries: []tape.Entry{good, bad}})
		b.wantErr(what, err, tape.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), "entry 2 of the batch") {
			t.Errorf("%s: the error %q does not say which entry it is", what, err)
		}
	}
	_, err := s.Append(t.Context(), name, tape.Batch{})
	b.wantErr("an empty batch", err, tape.ErrInvalid)
	for _, bad := range []string{"", "../up", "a/b", "A", ".hidden", "a\x00", "天", strings.Repeat("n", 241)} {
		_, err := s.Append(t.Context(), bad, tape.Batch{Create: true, Entries: []tape.Entry{good}})
		b.wantErr(fmt.Sprintf("the name %.10q", bad), err, tape.ErrInvalid)
	}
	if all := b.read(s, name, tape.Query{}); len(all) != 1 {
		t.Errorf("after refusals the tape has %d entries, want 1", len(all))
	}
	if id := b.append(s, name, good); id != 2 {
		t.Errorf("the next id is %d, want 2", id)
	}
}

func largest(t *testing.T, b *bench) {
	s := b.open()
	b.create(s, name)
	entry := func(size int) tape.Entry {
		e := tape.Entry{ID: math.MaxInt64, Kind: "message", Date: time.Now()}
		frame := len(`{"a":""}`)
		e.Payload = json.RawMessage(`{"a":"` + strings.Repeat("x", size-frame-len(e.AppendJSON(nil))) + `"}`)
		return e
	}
	fits := entry(tape.MaxEntry - 1024) // a store may count a few bytes for itself
	b.append(s, name, fits)
	_, err := s.Append(t.Context(), name, tape.Batch{Entries: []tape.Entry{entry(tape.MaxEntry + 1)}})
	b.wantErr("an entry that is too large", err, tape.ErrTooLarge)
	got := b.read(s, name, tape.Query{After: 1})
	if len(got) != 1 || !bytes.Equal(got[0].Payload, fits.Payload) {
		t.Errorf("read %d entries, want the large one as it was", len(got))
	}
	if id := b.append(s, name, tape.NewMessage("user", "after")); id != 3 {
		t.Errorf("the next id is %d, want 3", id)
	}
}

func conditions(t *testing.T, b *bench) {
	s := b.open()
	b.create(s, name)
	e := []tape.Entry{tape.NewMessage("user", "hi")}
	in, err := s.Info(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		b    tape.Batch
		want error
	}{
		{"a new tape where there is one", tape.Batch{Entries: e, Create: true}, tape.ErrNotEmpty},
		{"the last id is another", tape.Batch{Entries: e, IfLast: 7}, tape.ErrMoved},
		{"the tape was born at another time", tape.Batch{Entries: e, Born: in.Created.Add(1000)}, tape.ErrDeleted},
		{"an id that does not rise", tape.Batch{Entries: []tape.Entry{{ID: 1, Kind: "x", Payload: json.RawMessage(`{}`)}}, KeepIDs: true}, tape.ErrInvalid},
	} {
		_, err := s.Append(t.Context(), name, row.b)
		b.wantErr(row.name, err, row.want)
	}
	kept := []tape.Entry{e[0], e[0]}
	kept[0].ID, kept[1].ID = 10, 20
	if first, err := s.Append(t.Context(), name, tape.Batch{Entries: kept, KeepIDs: true, IfLast: 1, Born: in.Created}); first != 10 || err != nil {
		t.Errorf("a batch that keeps ids: %d, %v, want 10", first, err)
	}
	if id := b.append(s, name, e...); id != 21 {
		t.Errorf("the next id is %d, want 21", id)
	}
	if got := ids(b.read(s, name, tape.Query{After: 5, Before: 21})); !slices.Equal(got, []int64{10, 20}) {
		t.Errorf("ids between 5 and 21 are %v, want 10 and 20", got)
	}
}

func handoff(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	tp, err := tape.Open(ctx, s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	put := func(e ...tape.Entry) {
		t.Helper()
		if _, err := tp.Append(ctx, e...); err != nil {
			t.Fatal(err)
		}
	}
	put(tape.NewSetting("model", "demo:a"), tape.NewSetting("grant.web", true), tape.NewSetting("model", "demo:b"))
	a, err := tp.HandoffWith(ctx, tape.NewAnchor("one", map[string]int{"n": 1}).With(tape.Meta{Turn: "t-1"}), tape.NewMessage("user", "again"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"id":5,"kind":"anchor","payload":{"name":"one","state":{"n":1}},"meta":{"turn":"t-1","settings":{"grant.web":true,"model":"demo:b"}}`,
		`{"id":6,"kind":"message","payload":{"role":"user","content":"again"},"meta":{}`,
	}
	got := lines(b.read(s, tp.Name(), tape.Query{FromLast: true}))
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], `,"date"`)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("from the anchor on (-want +got):\n%s", diff)
	}
	if stored := b.read(s, tp.Name(), tape.Query{FromAnchor: "one", Limit: 1}); len(stored) != 1 || string(stored[0].AppendJSON(nil)) != string(a.AppendJSON(nil)) {
		t.Errorf("Handoff returned %s, and wrote %v", a.AppendJSON(nil), lines(stored))
	}

	// Settings and anchors written at once: at the end each setting has its last value, wherever the anchors came.
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 10 {
				if _, err := tp.Append(ctx, tape.NewSetting(fmt.Sprint("w", w), i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 10 {
			if _, err := tp.Handoff(ctx, fmt.Sprint("a", i), nil); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	settings, err := tp.Settings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]json.RawMessage{
		"grant.web": json.RawMessage("true"), "model": json.RawMessage(`"demo:b"`),
		"w0": json.RawMessage("9"), "w1": json.RawMessage("9"), "w2": json.RawMessage("9"),
	}, settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "two\nlines", "two\u2028lines", strings.Repeat("n", 129), "\xff"} {
		_, err := tp.Handoff(ctx, bad, nil)
		b.wantErr(fmt.Sprintf("an anchor named %.10q", bad), err, tape.ErrInvalid)
	}
	_, err = tp.Handoff(ctx, "state", func() {})
	b.wantErr("a state without a JSON form", err, tape.ErrInvalid)
	_, err = tp.Append(ctx, tape.NewAnchor("aside", nil))
	b.wantErr("an anchor beside Handoff", err, tape.ErrInvalid)
}

func snapshots(t *testing.T, b *bench) {
	s := b.open()
	b.create(s, name, batch("me", 0)...)
	for _, newest := range []bool{false, true} {
		last := b.append(s, name, batch("me", 1)...) + 2
		var got []int64
		for e, err := range s.Read(t.Context(), name, tape.Query{Newest: newest}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(got) < 3 {
				b.append(s, name, batch("me", 2)...)
				b.append(s, name, tape.NewAnchor("late", nil))
			}
			got = append(got, e.ID)
		}
		if newest {
			slices.Reverse(got)
		}
		if len(got) != int(last) || got[0] != 1 || got[len(got)-1] != last {
			t.Errorf("newest=%v: a read that others append beside sees ids %v, want 1 to %d", newest, got, last)
		}
	}
}

func missingAnchor(t *testing.T, b *bench) {
	s := b.open()
	b.create(s, name, tape.NewAnchor("a", nil), tape.NewAnchor("b", nil))
	_, err := collect(s.Read(t.Context(), name, tape.Query{FromAnchor: "no"}))
	b.wantErr("from", err, tape.ErrAnchorNotFound)
	for what, q := range map[string]tape.Query{
		"two starts":       {FromAnchor: "a", FromLast: true},
		"a negative limit": {Limit: -1},
		"a negative id":    {After: -1},
	} {
		_, err := collect(s.Read(t.Context(), name, q))
		b.wantErr(what, err, tape.ErrInvalid)
	}
}

func info(t *testing.T, b *bench) {
	s := b.open()
	b.create(s, name, batch("me", 0)...)
	anchor := tape.NewAnchor("phase/two", nil)
	anchor.Date = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	id := b.append(s, name, anchor)
	b.append(s, name, batch("me", 1)...)
	check := func(s tape.Store) {
		t.Helper()
		in, err := s.Info(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if in.Tape != name || in.Entries != 8 || in.LastID != 8 || in.Anchors != 2 || in.Bytes <= 0 {
			t.Errorf("info is %+v", in)
		}
		if want := (tape.AnchorRef{ID: id, Name: "phase/two", Date: anchor.Date}); in.LastAnchor != want {
			t.Errorf("the last anchor is %+v, want %+v", in.LastAnchor, want)
		}
	}
	check(s)
	if b.f.Durable {
		check(b.open())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		check(b.open())
	}
}

func search(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	tp, err := tape.Open(ctx, s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	call := func(id, fn, args string) tape.Call {
		return tape.Call{ID: id, Function: tape.FunctionCall{Name: fn, Arguments: args}}
	}
	entries := []tape.Entry{ // from id 2
		tape.NewMessage("user", "今天天气很好"),
		tape.NewToolCall("", call("c1", "tape.search", `{"query":"needle"}`), call("c2", "weather", `{"city":"\u5317\u4eac"}`)),
		tape.NewToolResult([]string{"c2"}, map[string]any{"sky": "NEEDLE blue"}),
		tape.NewSystem("needle"),
		tape.NewReasoning("needle"),
		tape.NewEvent("needle", "needle"),
		tape.NewError("upstream_timeout", "the needle broke"),
		{Kind: "message", Payload: json.RawMessage(`{"role":"assistant","content":[{"type":"text","text":"Stra\u00dfe ＮＥＥＤＬＥ"},{"type":"image_url","image_url":{"url":"data:needlework"}}]}`)},
		tape.NewToolResult([]string{"c1"}, "needle found before").With(tape.Meta{SearchHidden: true}),
	}
	if _, err := tp.Append(ctx, entries...); err != nil {
		t.Fatal(err)
	}
	if _, err := tp.Handoff(ctx, "haystack", map[string]string{"summary": "a NeEdLe was sought"}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		q    tape.Query
		want []int64
	}{
		{tape.Query{Text: "天气"}, []int64{2}},
		{tape.Query{Text: "北京"}, []int64{3}},
		{tape.Query{Text: "needle"}, []int64{11, 9, 8, 4, 3}},
		{tape.Query{Text: "needle", Limit: 2}, []int64{11, 9}},
		{tape.Query{Text: "BROKE needle"}, []int64{8}},
		{tape.Query{Text: "needle", Kinds: []tape.Kind{tape.KindToolResult, tape.KindError}}, []int64{8, 4}},
		{tape.Query{Text: "strasse"}, []int64{9}},
		{tape.Query{Text: "needlework"}, []int64{}},
		{tape.Query{Text: `\u`}, []int64{}},
	} {
		hits, err := collect(tp.Search(ctx, row.q))
		if err != nil {
			t.Errorf("search %q: %v", row.q.Text, err)
		}
		got := []int64{}
		for _, h := range hits {
			got = append(got, h.ID)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("search %q finds %v, want %v", row.q.Text, got, row.want)
		}
		// Oldest first, a query finds the same.
		if row.q.Limit == 0 {
			found := ids(b.read(s, tp.Name(), row.q))
			slices.Reverse(found)
			if !slices.Equal(found, row.want) {
				t.Errorf("query %q, oldest first, finds %v, want %v", row.q.Text, found, row.want)
			}
		}
	}
	_, err = collect(tp.Search(ctx, tape.Query{Text: " \n"}))
	b.wantErr("a search without a word", err, tape.ErrInvalid)
	hits, err := collect(tp.Search(ctx, tape.Query{Text: "needle"}))
	if err != nil || len(hits) == 0 || hits[0].Kind != tape.KindAnchor || hits[0].Date.IsZero() || !strings.Contains(hits[0].Text, "a NeEdLe was sought") {
		t.Errorf("the first hit is %+v, %v", hits, err)
	}
}

func forks(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	tp, err := tape.Open(ctx, s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	bang := errors.New("bang")
	count := func() int { return len(b.read(s, tp.Name(), tape.Query{})) }
	for _, merge := range []bool{true, false} {
		for what, end := range map[string]func(cancel context.CancelFunc) error{
			"no error":       func(context.CancelFunc) error { return nil },
			"an error":       func(context.CancelFunc) error { return bang },
			"a cancellation": func(cancel context.CancelFunc) error { cancel(); return bang },
			"a panic":        func(context.CancelFunc) error { panic(bang) },
		} {
			before, want := count(), 0
			if merge {
				want = 6
			}
			ctx, cancel := context.WithCancel(ctx)
			var got error
			func() {
				defer func() {
					if r := recover(); r != nil {
						got = r.(error)
					}
				}()
				got = tape.WithFork(ctx, tp, merge, func(ctx context.Context, f *tape.Fork) error {
					for i := range 2 {
						if _, err := f.Append(ctx, batch(what, i)...); err != nil {
							t.Error(err)
						}
					}
					if n := count(); n != before {
						t.Errorf("%s: the parent has %d entries before the merge, want %d", what, n, before)
					}
					return end(cancel)
				})
			}()
			cancel()
			if wantErr := what != "no error"; (got != nil) != wantErr || wantErr && !errors.Is(got, bang) {
				t.Errorf("%s, merge=%v: the error is %v", what, merge, got)
			}
			if n := count(); n != before+want {
				t.Errorf("%s, merge=%v: the parent has %d entries more, want %d", what, merge, n-before, want)
			}
		}
	}

	// Nested: the inner one is merged into the outer one, and is gone where that is dropped.
	for _, outer := range []bool{true, false} {
		before := count()
		if err := tape.WithFork(ctx, tp, outer, func(ctx context.Context, f *tape.Fork) error {
			_, err := f.Append(ctx, tape.NewMessage("user", "outer"))
			return errors.Join(err, tape.WithFork(ctx, f.Tape, true, func(ctx context.Context, g *tape.Fork) error {
				id, err := g.Append(ctx, tape.NewMessage("user", "inner"))
				if want := f.At + 2; id != want {
					t.Errorf("an id in the inner fork is %d, want %d", id, want)
				}
				return err
			}))
		}); err != nil {
			t.Fatal(err)
		}
		if n, want := count()-before, map[bool]int{true: 2, false: 0}[outer]; n != want {
			t.Errorf("nested, merge=%v: %d entries more, want %d", outer, n, want)
		}
	}

	// A fork that writes nothing merges nothing; one that has ended takes nothing.
	before := count()
	var late *tape.Fork
	if err := tape.WithFork(ctx, tp, true, func(_ context.Context, f *tape.Fork) error { late = f; return nil }); err != nil || count() != before {
		t.Errorf("an empty fork: %v, %d entries more", err, count()-before)
	}
	_, err = late.Append(ctx, tape.NewMessage("user", "late"))
	b.wantErr("an append to a fork that has ended", err, tape.ErrDeleted)
	_, err = late.View(ctx, nil)
	b.wantErr("a view of a fork that has ended", err, tape.ErrDeleted)
}

func forkSees(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	open := func(session string) *tape.Tape {
		tp, err := tape.Open(ctx, s, b.dir, session)
		if err != nil {
			t.Fatal(err)
		}
		return tp
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tp, plain := open("s"), open("plain") // what goes to the fork goes to plain as well
	say := func(i int) tape.Entry { return tape.NewMessage("user", fmt.Sprint("word ", i)) }
	for _, to := range []*tape.Tape{tp, plain} {
		must(to.Append(ctx, say(1), tape.NewSetting("model", "demo:a")))
		must(to.Handoff(ctx, "a", nil))
		must(to.Append(ctx, say(2)))
		must(to.Handoff(ctx, "b", nil))
		must(to.Append(ctx, say(3)))
	}
	check := func(f *tape.Fork, when string) {
		t.Helper()
		for _, q := range []tape.Query{
			{},
			{Newest: true},
			{Newest: true, Limit: 3},
			{After: f.At},
			{After: f.At - 2, Before: f.At + 2},
			{Before: f.At + 1},
			{FromLast: true},
			{FromAnchor: "b"},
			{FromAnchor: "a", Newest: true},
			{Kinds: []tape.Kind{tape.KindAnchor}},
			{Text: "word", Newest: true},
			{Text: "word 3"},
		} {
			want, wantErr := collect(plain.Read(ctx, q))
			got, err := collect(f.Read(ctx, q))
			if !errors.Is(err, wantErr) && (err == nil) != (wantErr == nil) {
				t.Errorf("%s, %+v: %v, want %v", when, q, err, wantErr)
			}
			if diff := cmp.Diff(ids(want), ids(got)); diff != "" {
				t.Errorf("%s, %+v (-want +got):\n%s", when, q, diff)
			}
		}
		want, err := plain.View(ctx, nil)
		must(nil, err)
		got, err := f.View(ctx, nil)
		must(nil, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the view (-want +got):\n%s", when, diff)
		}
		wantInfo, err := plain.Info(ctx)
		must(nil, err)
		gotInfo, err := f.Info(ctx)
		must(nil, err)
		wantInfo.LastAnchor.Date, gotInfo.LastAnchor.Date = time.Time{}, time.Time{}
		if gotInfo.Entries != wantInfo.Entries || gotInfo.LastID != wantInfo.LastID || gotInfo.Anchors != wantInfo.Anchors || gotInfo.LastAnchor != wantInfo.LastAnchor || gotInfo.Title != wantInfo.Title {
			t.Errorf("%s: info is %+v, want as %+v", when, gotInfo, wantInfo)
		}
		settings, err := f.Settings(ctx)
		must(nil, err)
		if string(settings["model"]) != `"demo:a"` {
			t.Errorf("%s: the settings are %s", when, settings)
		}
	}
	must(nil, tape.WithFork(ctx, tp, false, func(ctx context.Context, f *tape.Fork) error {
		check(f, "at the beginning")
		must(tp.Append(ctx, tape.NewMessage("user", "word of the parent"))) // which the fork does not see
		must(tp.Handoff(ctx, "parent", nil))
		check(f, "after the parent went on")
		for _, to := range []*tape.Tape{f.Tape, plain} {
			must(to.Append(ctx, say(4), say(5)))
		}
		check(f, "with entries of its own")
		for _, to := range []*tape.Tape{f.Tape, plain} {
			must(to.Handoff(ctx, "c", "fork"))
			must(to.Append(ctx, say(6)))
		}
		check(f, "with an anchor of its own")
		return nil
	}))
}

func mergeOnce(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	tp, err := tape.Open(ctx, s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	must := func(id int64, err error) int64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	before := must(tp.Append(ctx, tape.NewMessage("user", "before"))) // 2
	f, err := tp.Fork(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := must(f.Append(ctx, tape.NewMessage("user", "in the fork"))) // 3
	must(f.Append(ctx, tape.NewMessage("user", "refers").With(tape.Meta{Turn: "t", Refs: []int64{before, first}, Source: []int64{before, first}})))
	must(tp.Append(ctx, batch("parent", 0)...)) // 3, 4, 5

	if n := len(b.read(s, tp.Name(), tape.Query{})); n != 5 {
		t.Fatalf("before the merge the parent has %d entries, want 5", n)
	}
	for range 2 {
		if err := f.Merge(ctx); err != nil {
			t.Fatal(err)
		}
	}
	got := lines(b.read(s, tp.Name(), tape.Query{After: 5}))
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], `,"date"`)
	}
	want := []string{
		`{"id":6,"kind":"message","payload":{"role":"user","content":"in the fork"},"meta":{"fork":"` + f.ID() + `"}`,
		`{"id":7,"kind":"message","payload":{"role":"user","content":"refers"},"meta":{"turn":"t","refs":[2,6],"source":[2,6],"fork":"` + f.ID() + `"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func forkSession(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	tp, err := tape.Open(ctx, s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	e := tape.NewMessage("user", "first")
	handle, err := tp.PutBlob(ctx, []byte("large"))
	if err != nil {
		t.Fatal(err)
	}
	e = e.With(tape.Meta{Spill: []tape.Spill{{Handle: handle, Size: 5}}})
	if _, err := tp.Append(ctx, e, tape.NewMessage("user", "second")); err != nil {
		t.Fatal(err)
	}
	source := b.read(s, tp.Name(), tape.Query{})
	for session, at := range map[string]int64{"whole": 0, "half": 2} {
		f, err := tp.ForkSession(ctx, session, at)
		if err != nil {
			t.Fatal(err)
		}
		n := len(source)
		if at > 0 {
			n = int(at)
		}
		all := b.read(s, f.Name(), tape.Query{})
		if len(all) != n+1 {
			t.Fatalf("%s: %d entries, want %d and an event", session, len(all), n)
		}
		if diff := cmp.Diff(lines(source[:n]), lines(all[:n])); diff != "" {
			t.Errorf("%s (-source +fork):\n%s", session, diff)
		}
		if last := all[n]; last.ID != int64(n+1) || last.Kind != tape.KindEvent || string(last.Payload) != fmt.Sprintf(`{"name":"session.forked","data":{"at":%d,"session":"s"}}`, n) {
			t.Errorf("%s: the event is %s", session, lines(all[n:]))
		}
		if in, err := s.Info(ctx, f.Name()); err != nil || in.Session != session {
			t.Errorf("%s is listed as %q, %v", session, in.Session, err)
		}
		if _, err := f.Append(ctx, tape.NewMessage("user", "on")); err != nil {
			t.Errorf("%s: append: %v", session, err)
		}
		if again, err := tape.Open(ctx, s, b.dir, session); err != nil || len(b.read(s, again.Name(), tape.Query{})) != n+2 {
			t.Errorf("%s, opened: %v, want nothing new in it", session, err)
		}
	}
	_, err = tp.ForkSession(ctx, "half", 0)
	b.wantErr("into a session that exists", err, tape.ErrNotEmpty)
	_, err = tp.ForkSession(ctx, "beyond", 99)
	b.wantErr("at an entry that is not there", err, tape.ErrInvalid)
	if now := b.read(s, tp.Name(), tape.Query{}); len(now) != len(source) {
		t.Errorf("the source has %d entries now, want %d", len(now), len(source))
	}
	if err := tp.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	half, err := tape.Open(ctx, s, b.dir, "half")
	if err != nil {
		t.Fatal(err)
	}
	m := tape.MetaOf(b.read(s, half.Name(), tape.Query{After: 1})[0])
	if data, _, err := half.ReadBlob(ctx, m.Spill[0].Handle, 0, 100); string(data) != "large" || err != nil {
		t.Errorf("the blob in the fork, its source erased, is %q, %v", data, err)
	}
}

// madeIsKept holds what stands beside a model's message and its calls to be the same in a view, in a fork, in a copy of the session, and behind export
// and import, and in another process where there is one.
func madeIsKept(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	made := json.RawMessage(`{"model":"p:m","parts":[{"type":"reasoning","text":"a<b & \/天","data":{"signature":"EqQB+/==","n":1.50}},{"type":"tool_call","call":"c1"}]}`)
	tp, err := tape.Open(ctx, s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tp.Append(ctx, tape.NewMessage("user", "go"),
		tape.NewToolCall("well", tape.Call{ID: "c1", Function: tape.FunctionCall{Name: "f", Arguments: "{}"}}).WithMade(made), tape.NewToolResult([]string{"c1"}, "x"),
		tape.NewMessage("assistant", "done").WithMade(made),
	); err != nil {
		t.Fatal(err)
	}
	check := func(where string, tp interface {
		View(context.Context, tape.Selector) (tape.View, error)
	},
	) {
		t.Helper()
		v, err := tp.View(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, m := range v.Messages {
			if strings.Contains(string(m.JSON), `"made":`+string(made)) {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%s has it in %d of 2 messages: %s", where, n, v.Messages)
		}
	}
	check("the tape", tp)
	if other, err := tape.Lookup(ctx, b.open(), b.dir, "s"); err == nil {
		check("another process", other)
	} else if !errors.Is(err, tape.ErrNotFound) { // a store in memory shares nothing
		t.Fatal(err)
	}
	f, err := tp.Fork(ctx)
	if err != nil {
		t.Fatal(err)
	}
	check("a fork", f)
	copied, err := tp.ForkSession(ctx, "copy", 0)
	if err != nil {
		t.Fatal(err)
	}
	check("a copy", copied)
	var text bytes.Buffer
	if err := tp.Export(ctx, &text); err != nil {
		t.Fatal(err)
	}
	if err := tape.Import(ctx, s, b.dir, "imported", &text); err != nil {
		t.Fatal(err)
	}
	imported, err := tape.Lookup(ctx, s, b.dir, "imported")
	if err != nil {
		t.Fatal(err)
	}
	check("an import", imported)
}

func exportImport(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	tp, err := tape.Open(ctx, s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	odd := tape.Entry{Kind: "odd", Payload: json.RawMessage(`{"a" : 1.0}`), Meta: json.RawMessage(`{"refs":[1],"own":{ }}`), Date: time.Unix(7, 8000)}
	if _, err := tp.Append(ctx, append(batch("me", 0), odd, tape.NewMessage("user", "天气"))...); err != nil {
		t.Fatal(err)
	}
	export := func(tp *tape.Tape) string {
		t.Helper()
		var w strings.Builder
		if err := tp.Export(ctx, &w); err != nil {
			t.Fatal(err)
		}
		return w.String()
	}
	lookup := func(session string) *tape.Tape {
		t.Helper()
		tp, err := tape.Lookup(ctx, s, b.dir, session)
		if err != nil {
			t.Fatal(err)
		}
		return tp
	}
	text := export(tp)
	if n := strings.Count(text, "\n"); n != 6 || strings.Contains(text, `"more"`) || !strings.HasSuffix(text, "}\n") {
		t.Errorf("the export is\n%s", text)
	}
	if err := tape.Import(ctx, s, b.dir, "copy", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, export(lookup("copy"))); diff != "" {
		t.Errorf("export, import, export (-first +second):\n%s", diff)
	}
	if in, err := lookup("copy").Info(ctx); err != nil || in.Session != "copy" || in.Workspace != tape.ResolveWorkspace(b.dir) {
		t.Errorf("the copy is listed as %q of %q, %v", in.Session, in.Workspace, err)
	}
	if err := tp.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if err := tape.Import(ctx, s, b.dir, "s", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	back, err := tape.Open(ctx, s, b.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, export(back)); diff != "" {
		t.Errorf("taken back under its own name and opened (-export +now):\n%s", diff)
	}

	foreign := ` {"date":"2026-03-01T10:00:00.5+01:00" , "payload": {"role": "user", "content": "a"}, "kind":"message", "id": 5}` + "\r\n\n" +
		`{"kind":"message","payload":{},"meta":null,"timestamp":1772355600.25}` + "\n" +
		`{"id":9,"kind":"message","payload":{},"meta":{},"date":"2026-03-01T09:00:00+00:00"}`
	want := `{"id":5,"kind":"message","payload":{"role": "user", "content": "a"},"meta":{},"date":"2026-03-01T09:00:00.500000Z"}
{"id":6,"kind":"message","payload":{},"meta":{},"date":"2026-03-01T09:00:00.250000Z"}
{"id":9,"kind":"message","payload":{},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}
`
	if err := tape.Import(ctx, s, b.dir, "foreign", strings.NewReader(foreign)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, export(lookup("foreign"))); diff != "" {
		t.Errorf("of another program (-want +got):\n%s", diff)
	}
	opened, err := tape.Open(ctx, s, b.dir, "foreign")
	if err != nil {
		t.Fatal(err)
	}
	if in, err := opened.Info(ctx); err != nil || in.LastAnchor.Name != tape.AnchorStart || in.LastID != 10 {
		t.Errorf("a tape without an anchor, opened, is %+v, %v, want one with the first anchor at 10", in, err)
	}
}

func importRefused(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	good := `{"id":1,"kind":"x","payload":{},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}` + "\n"
	for what, bad := range map[string]string{
		"no JSON":             `{"id":2,`,
		"no object":           `[]`,
		"no kind":             `{"id":2,"payload":{}}`,
		"no payload":          `{"id":2,"kind":"x"}`,
		"a payload of text":   `{"id":2,"kind":"x","payload":"{}"}`,
		"a meta of text":      `{"id":2,"kind":"x","payload":{},"meta":"{}"}`,
		"an id that is text":  `{"id":"2","kind":"x","payload":{}}`,
		"an id of a fraction": `{"id":2.5,"kind":"x","payload":{}}`,
		"an id that falls":    `{"id":1,"kind":"x","payload":{}}`,
		"an unknown member":   `{"id":2,"kind":"x","payload":{},"more":true}`,
		"a bad date":          `{"id":2,"kind":"x","payload":{},"date":"yesterday"}`,
		"a bad timestamp":     `{"id":2,"kind":"x","payload":{},"timestamp":"now"}`,
		"not UTF-8":           "{\"id\":2,\"kind\":\"x\",\"payload\":{\"a\":\"\xff\"}}",
	} {
		err := tape.Import(ctx, s, b.dir, "s", strings.NewReader(good+bad+"\n"+strings.Replace(good, "1", "3", 1)))
		b.wantErr(what, err, tape.ErrInvalid)
		if err != nil && !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: the error %q does not say that it is line 2", what, err)
		}
	}
	err := tape.Import(ctx, s, b.dir, "s", strings.NewReader("\n"))
	b.wantErr("nothing", err, tape.ErrInvalid)
	broken := errors.New("broken")
	err = tape.Import(ctx, s, b.dir, "s", io.MultiReader(strings.NewReader(good), &failingReader{broken}))
	b.wantErr("a reader that fails", err, broken)
	if _, err := tape.Lookup(ctx, s, b.dir, "s"); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("after refused imports the session is there: %v", err)
	}
	if _, err := tape.Open(ctx, s, b.dir, "s"); err != nil {
		t.Fatal(err)
	}
	err = tape.Import(ctx, s, b.dir, "s", strings.NewReader(good))
	b.wantErr("into a session that exists", err, tape.ErrNotEmpty)
	if all := b.read(s, tape.Name(b.dir, "s"), tape.Query{}); len(all) != 1 {
		t.Errorf("the session has %d entries, want its anchor alone", len(all))
	}
}

type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

func erased(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	open := func() *tape.Tape {
		t.Helper()
		tp, err := tape.Open(ctx, s, b.dir, "s")
		if err != nil {
			t.Fatal(err)
		}
		return tp
	}
	old := open()
	f, err := old.Fork(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append(ctx, tape.NewMessage("user", "in the fork")); err != nil {
		t.Fatal(err)
	}
	unborn, err := old.Fork(ctx)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := old.PutBlob(ctx, []byte("large"))
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	check := func(when string, entries int) {
		t.Helper()
		for what, call := range map[string]func() error{
			"append":           func() error { _, err := old.Append(ctx, tape.NewMessage("user", "hi")); return err },
			"handoff":          func() error { _, err := old.Handoff(ctx, "a", nil); return err },
			"read":             func() error { _, err := collect(old.Read(ctx, tape.Query{})); return err },
			"view":             func() error { _, err := old.View(ctx, nil); return err },
			"info":             func() error { _, err := old.Info(ctx); return err },
			"fork":             func() error { _, err := old.Fork(ctx); return err },
			"session fork":     func() error { _, err := old.ForkSession(ctx, "t", 0); return err },
			"append to a fork": func() error { _, err := f.Append(ctx, tape.NewMessage("user", "hi")); return err },
			"begin a fork":     func() error { _, err := unborn.Append(ctx, tape.NewMessage("user", "hi")); return err },
			"read a fork":      func() error { _, err := collect(f.Read(ctx, tape.Query{})); return err },
			"merge":            func() error { return f.Merge(ctx) },
			"delete":           func() error { return old.Delete(ctx) },
		} {
			b.wantErr(when+": "+what, call(), tape.ErrDeleted)
		}
		all, err := collect(s.Sessions(ctx, tape.SessionQuery{}))
		if want := min(entries, 1); err != nil || len(all) != want {
			t.Errorf("%s: %d sessions are listed, %v, want %d", when, len(all), err, want)
		}
		if entries == 0 {
			_, err := s.Info(ctx, old.Name())
			b.wantErr(when, err, tape.ErrNotFound)
		} else if got := len(b.read(s, old.Name(), tape.Query{})); got != entries {
			t.Errorf("%s: the tape has %d entries, want %d", when, got, entries)
		}
	}
	check("erased", 0)
	time.Sleep(2 * time.Microsecond) // the next tape is told from this one by the date of its first entry
	again := open()
	if id, err := again.Append(ctx, tape.NewMessage("user", "anew")); id != 2 || err != nil {
		t.Errorf("the new tape's second id is %d, %v, want 2", id, err)
	}
	check("begun again", 2)
	_, _, err = again.ReadBlob(ctx, handle, 0, 10)
	b.wantErr("a blob of the erased session", err, tape.ErrNotFound)
	if err := s.Delete(ctx, "not-there"); err != nil {
		t.Errorf("erasing what is not there: %v", err)
	}
}

func erasedMeanwhile(t *testing.T, b *bench) {
	stores := []tape.Store{b.open()}
	if b.f.Durable {
		stores = append(stores, b.open())
	}
	other := stores[len(stores)-1]
	b.create(stores[0], name)
	for i := range 200 {
		b.append(stores[0], name, batch("me", i)...)
	}
	// A read that is under way ends with ErrDeleted or, where it had all of it in hand, with what was there: never with
	// a part as if it were the whole.
	n := 0
	var end error
	for _, err := range stores[0].Read(t.Context(), name, tape.Query{}) {
		if err != nil {
			end = err
			break
		}
		if n++; n == 3 {
			if err := other.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !errors.Is(end, tape.ErrDeleted) && (end != nil || n != 601) {
		t.Errorf("the read ended after %d of 601 entries with %v, want ErrDeleted or all of them", n, end)
	}
	_, err := stores[0].Append(t.Context(), name, tape.Batch{Entries: batch("me", 0)})
	b.wantErr("append after another erased it", err, tape.ErrNotFound)

	// Writers, readers, and one that erases and begins anew.
	b.create(stores[0], name)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for range 100 {
				s := stores[i%len(stores)]
				if _, err := s.Append(t.Context(), name, tape.Batch{Entries: batch("me", 0)}); err != nil && !errors.Is(err, tape.ErrNotFound) && !errors.Is(err, tape.ErrDeleted) {
					t.Errorf("append: %v", err)
				}
				all, err := collect(s.Read(t.Context(), name, tape.Query{}))
				if err != nil && !errors.Is(err, tape.ErrNotFound) && !errors.Is(err, tape.ErrDeleted) {
					t.Errorf("read: %v", err)
				}
				if err == nil && (len(all)%3 != 1 || all[len(all)-1].ID != int64(len(all))) {
					t.Errorf("read %d entries, the last of which is %d", len(all), all[len(all)-1].ID)
				}
			}
		})
	}
	for range 25 {
		if err := other.Delete(t.Context(), name); err != nil {
			t.Errorf("delete: %v", err)
		}
		if _, err := other.Append(t.Context(), name, tape.Batch{Create: true, Entries: batch("me", 0)[:1]}); err != nil {
			t.Errorf("begin anew: %v", err)
		}
	}
	wg.Wait()
	if all := b.read(stores[0], name, tape.Query{}); len(all)%3 != 1 {
		t.Errorf("at the end there are %d entries, want one and whole batches", len(all))
	}
}

// leased takes a lease without waiting for it. A store may say that its servers do not answer in time, or that one that was given back just
// now is not free yet: it is asked again, as long as the answer is none of wanted.
func leased(ctx context.Context, h tape.Leaser, name string, wanted ...error) (l tape.Lease, err error) {
	for end := time.Now().Add(time.Hour); time.Now().Before(end); time.Sleep(time.Millisecond) {
		l, err = h.Lease(ctx, name, false)
		if err == nil || slices.ContainsFunc(wanted, func(w error) bool { return errors.Is(err, w) }) {
			break
		}
	}
	return l, err
}

func leases(t *testing.T, b *bench) {
	s := b.open()
	holders := []tape.Leaser{s}
	if b.f.Durable {
		holders = append(holders, b.open())
	}
	ctx := t.Context()
	l, err := leased(ctx, holders[0], name)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range holders {
		_, err := leased(ctx, h, name, tape.ErrLeased)
		b.wantErr(fmt.Sprint("a second lease, store ", i), err, tape.ErrLeased)
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		_, err = h.Lease(short, name, true)
		cancel()
		b.wantErr(fmt.Sprint("waiting for it, store ", i), err, context.DeadlineExceeded)
		if free, err := leased(ctx, h, "other"); err != nil {
			t.Errorf("another tape's lease: %v", err)
		} else {
			free.Release()
		}
	}
	select {
	case <-l.Lost():
		t.Error("the lease is lost")
	default:
	}
	got := make(chan error)
	go func() {
		l, err := holders[len(holders)-1].Lease(ctx, name, true)
		if err == nil {
			l.Release()
		}
		got <- err
	}()
	l.Release()
	l.Release()
	if err := <-got; err != nil {
		t.Errorf("waiting for a lease that is given back: %v", err)
	}
}

func blobs(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	b.create(s, name)
	b.create(s, "other")
	data := []byte(strings.Repeat("0123456789", 1000))
	handle, err := s.PutBlob(ctx, name, data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.PutBlob(ctx, name, data); again != handle || err != nil {
		t.Errorf("the same data again has handle %q, %v, want %q", again, err, handle)
	}
	for _, row := range []struct {
		offset, limit int64
		want          string
	}{
		{0, 5, "01234"}, {9995, 100, "56789"}, {10000, 5, ""}, {20000, 5, ""}, {3, 0, ""}, {math.MaxInt64, math.MaxInt64, ""}, {9999, math.MaxInt64, "9"},
	} {
		got, size, err := s.ReadBlob(ctx, name, handle, row.offset, row.limit)
		if string(got) != row.want || size != int64(len(data)) || err != nil {
			t.Errorf("%d bytes from %d: %q of %d, %v, want %q of %d", row.limit, row.offset, got, size, err, row.want, len(data))
		}
	}
	empty, err := s.PutBlob(ctx, name, nil)
	if err != nil {
		t.Errorf("an empty blob: %v", err)
	}
	if got, size, err := s.ReadBlob(ctx, name, empty, 0, 10); len(got) != 0 || size != 0 || err != nil {
		t.Errorf("an empty blob: %q of %d, %v", got, size, err)
	}
	for _, bad := range []string{"", "x", "../" + handle, "/etc/passwd", strings.Repeat("0", len(handle))} {
		_, _, err := s.ReadBlob(ctx, name, bad, 0, 10)
		b.wantErr(fmt.Sprintf("handle %.20q", bad), err, tape.ErrNotFound)
	}
	_, _, err = s.ReadBlob(ctx, "other", handle, 0, 10)
	b.wantErr("another tape's blob", err, tape.ErrNotFound)
	_, err = s.PutBlob(ctx, "not-there", data)
	b.wantErr("a blob of a tape that is not there", err, tape.ErrNotFound)
	if b.f.Durable {
		if got, _, err := b.open().ReadBlob(ctx, name, handle, 0, 3); string(got) != "012" || err != nil {
			t.Errorf("another store on the folder reads %q, %v", got, err)
		}
	}
}

func canceled(t *testing.T, b *bench) {
	s := b.open()
	b.create(s, name, batch("me", 0)...)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	for _, err := range s.Read(ctx, name, tape.Query{}) {
		if err != nil {
			b.wantErr("a read that is canceled", err, cause)
			break
		}
		if n++; n == 2 {
			cancel(cause)
		}
	}
	if n != 2 {
		t.Errorf("a read went on for %d entries after it was canceled", n-2)
	}
	_, err := s.Append(ctx, name, tape.Batch{Entries: batch("me", 1)})
	b.wantErr("an append", err, cause)
	if all := b.read(s, name, tape.Query{}); len(all) != 4 {
		t.Errorf("the tape has %d entries, want 4", len(all))
	}
}

func closed(t *testing.T, b *bench) {
	s := b.open()
	ctx := t.Context()
	b.create(s, name)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Append(ctx, name, tape.Batch{Entries: batch("me", 1)})
	b.wantErr("append", err, tape.ErrClosed)
	_, err = collect(s.Read(ctx, name, tape.Query{}))
	b.wantErr("read", err, tape.ErrClosed)
	_, err = s.Info(ctx, name)
	b.wantErr("info", err, tape.ErrClosed)
	_, err = collect(s.Sessions(ctx, tape.SessionQuery{}))
	b.wantErr("sessions", err, tape.ErrClosed)
	b.wantErr("delete", s.Delete(ctx, name), tape.ErrClosed)
	if err := s.Close(); err != nil {
		t.Errorf("closing it again: %v", err)
	}
}
