package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/db"
	"github.com/lingserve/lingserve/web/wire"
)

// memoryDB is a database in memory that ends with the test.
func memoryDB(t testing.TB) *db.DB {
	t.Helper()
	d, err := db.Open(context.Background(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// unlisted is a store of runs that cannot list them.
type unlisted struct {
	run.Store
	err error
}

func (u unlisted) List(context.Context, store.RunQuery) ([]store.Run, string, error) {
	return nil, "", u.err
}

// unlistedBench is a server whose store of runs cannot list them.
func unlistedBench(t testing.TB, err error) *bench {
	t.Helper()
	return newBench(t, func(o *Options) { o.Runs = unlisted{memoryDB(t).Runs(), err} }).serve()
}

// history is an answer of GET /v1/history.
type history struct {
	Runs []listedRun
	Next string
}

func (h history) ids() (list []string) {
	for _, r := range h.Runs {
		list = append(list, r.ID)
	}
	return list
}

// listRuns asks for runs.
func (b *bench) listRuns(query string, header ...string) (h history) {
	b.t.Helper()
	resp := b.do("GET", "/v1/history"+query, "", header...)
	body := text(b.t, resp)
	if err := json.Unmarshal([]byte(body), &h); err != nil || resp.StatusCode != 200 {
		b.t.Fatalf("%s: %d %s", query, resp.StatusCode, body)
	}
	return h
}

// startRun starts a run of the stepper that nobody waits for, for the caller of a header.
func (b *bench) startRun(header ...string) string {
	b.t.Helper()
	id, _ := b.startAsync(header...)
	return id
}

// AU-12
func TestARunIsListedWhileItGoesOnAndAfterItsEnd(t *testing.T) {
	b := newBench(t, nil).serve()
	before := time.Now()
	id, st := b.startAsync()
	got := b.listRuns("")
	if len(got.Runs) != 1 || got.Next != "" {
		t.Fatalf("%+v", got)
	}
	created := got.Runs[0].Created
	want := listedRun{ID: id, Workflow: "steps", Owner: "local", Status: "running", Created: created}
	if diff := cmp.Diff(want, got.Runs[0]); diff != "" || created.Before(before.Add(-time.Second)) || created.After(time.Now()) {
		t.Errorf("%s %v", diff, created)
	}
	st.finish()
	<-b.runOf(id).Done()
	got = b.listRuns("?status=completed")
	if len(got.Runs) != 1 || got.Runs[0].Status != "completed" || got.Runs[0].Ended.Before(created.Truncate(time.Microsecond)) {
		t.Errorf("%+v", got)
	}
	if body := text(t, b.do("GET", "/v1/history?workflow=chat", "")); body != "{\"runs\":[]}\n" {
		t.Errorf("no run: %s", body)
	}
	if resp := b.do("HEAD", "/v1/history", ""); resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || resp.ContentLength < 10 {
		t.Errorf("HEAD: %d %v", resp.StatusCode, resp.Header)
	}
}

// AU-12, SE-09
func TestCallersListTheirRunsAndAdminsAll(t *testing.T) {
	k := newKeyring(t, "ann:user", "bob:operator", "root:admin", "less:admin workflows", "mute:user workflows+agents")
	a := keyedBench(t, k, nil)
	id := map[string]string{}
	for _, name := range []string{"ann", "bob", "mute"} {
		id[name] = a.startRun(k.bearer[name])
	}
	said := readDocument(t, a.do("POST", "/v1/runs", `{"agent":"assistant","session":"s 42","input":"hello"}`, k.bearer["ann"])).Run
	for name, want := range map[string][]string{
		"ann": {said, id["ann"]}, "bob": {id["bob"]}, "root": {said, id["mute"], id["bob"], id["ann"]}, "less": nil, "mute": {id["mute"]},
	} {
		got := a.listRuns("", k.bearer[name])
		if diff := cmp.Diff(want, got.ids()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, r := range got.Runs {
			if (r.Owner != "") != (name == "root") {
				t.Errorf("%s sees the owner %q", name, r.Owner)
			}
		}
	}
	hers := a.listRuns("?owner=ann&session=s+42", k.bearer["root"])
	if diff := cmp.Diff([]string{said}, hers.ids()); diff != "" || hers.Runs[0].Owner != "ann" || hers.Runs[0].Session != "s 42" || hers.Runs[0].Agent != "assistant" {
		t.Errorf("%s %+v", diff, hers)
	}
	for _, query := range []string{"?session=s+42", "?agent=assistant"} {
		if mine := a.listRuns(query, k.bearer["ann"]); !slices.Equal(mine.ids(), []string{said}) || mine.Runs[0].Session != "s 42" {
			t.Errorf("%s: %+v", query, mine)
		}
		if his := a.listRuns(query, k.bearer["bob"]); len(his.Runs) > 0 {
			t.Errorf("%s: %+v", query, his)
		}
	}
	for _, tt := range [][2]string{{"ann", "?owner=ann"}, {"bob", "?owner=ann"}, {"less", "?owner=ann"}, {"mute", "?session=s"}} {
		if p := readProblem(t, a.do("GET", "/v1/history"+tt[1], "", k.bearer[tt[0]])); p.Status != 403 || p.Code != wire.CodeForbidden {
			t.Errorf("%s %s: %+v", tt[0], tt[1], p)
		}
	}
}

// A key that has lost the scope sessions sees its runs without their sessions.
func TestWithoutTheScopeSessionsRunsAreListedWithoutTheirSessions(t *testing.T) {
	d := memoryDB(t)
	k := newKeyring(t, "ann:user agents")
	a := keyedBench(t, k, func(o *Options) { o.Runs = d.Runs() })
	if _, err := d.Runs().Start(t.Context(), store.Run{
		ID: run.NewID(), Agent: "assistant", Owner: "ann", Session: "web:ann#s", Replica: "other", Attempt: 1, State: store.RunRunning,
	}, nil); err != nil {
		t.Fatal(err)
	}
	if got := a.listRuns("", k.bearer["ann"]); len(got.Runs) != 1 || got.Runs[0].Agent != "assistant" || got.Runs[0].Session != "" {
		t.Errorf("%+v", got)
	}
}

// AU-12
func TestThePagesOfAListOfRunsHaveEachRunOnceTheNewestFirst(t *testing.T) {
	b := newBench(t, nil).serve()
	var want []string
	for range 7 {
		want = append(want, b.startRun())
	}
	slices.Reverse(want)
	var got []string
	pages, after := 0, ""
	for ; pages == 0 || after != ""; pages++ {
		page := b.listRuns("?limit=3&after=" + after)
		got, after = append(got, page.ids()...), page.Next
		if pages == 0 {
			b.startRun() // is no part of the pages behind
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
		t.Errorf("%d pages: %s", pages, diff)
	}
}

// AU-12
func TestAListOfRunsIsFiltered(t *testing.T) {
	d := memoryDB(t)
	b := newBench(t, func(o *Options) { o.Runs = d.Runs() }).serve()
	day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id := map[string]string{}
	for i, r := range []store.Run{
		{Workflow: "chat", State: store.RunQueued}, {Workflow: "chat", State: store.RunWaiting}, {Agent: "chat", State: store.RunRunning, Session: "chat#7"},
	} {
		r.ID, r.Replica, r.Attempt, r.Created = run.NewID(), "other", 1, day.Add(time.Duration(i)*time.Hour)
		if _, err := d.Runs().Start(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		id[r.ID] = r.State
	}
	for query, want := range map[string]string{
		"":                            "running waiting queued",
		"workflow=chat":               "waiting queued",
		"agent=chat":                  "running",
		"status=queued,running":       "running queued",
		"status=waiting, waiting":     "waiting",
		"status=failed":               "",
		"session=chat#7":              "running",
		"session=chat":                "",
		"owner=local":                 "running waiting queued",
		"owner=ann":                   "",
		"from=2026-03-01T13:00:00Z":   "running waiting",
		"to=2026-03-01T14:00:00Z":     "waiting queued",
		"to=2026-03-01T14:00:00.001Z": "running waiting queued",
		"from=2026-03-01T14:00:00+01:00&to=2026-03-01T09:00:00-05:00": "waiting",
		"workflow=chat&status=running":                                "",
	} {
		values, err := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range b.listRuns("?" + values.Encode()).ids() {
			got = append(got, id[one])
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %q, want %q", query, s, want)
		}
	}
}

func TestWhatIsWrongInARequestForRunsIsNamed(t *testing.T) {
	b := newBench(t, nil).serve()
	for query, want := range map[string]string{
		"limit=0":               "limit: expected a whole number from 1 to 200",
		"limit=201":             "limit: expected a whole number from 1 to 200",
		"status=done":           `status: expected running, queued, waiting, completed, failed, canceled or interrupted, found "done"`,
		"status=":               "status: expected running",
		"from=yesterday":        "from: expected a time as in RFC 3339, such as 2026-01-31T15:04:05Z, found \"yesterday\"",
		"to=2026-01-31":         "to: expected a time as in RFC 3339",
		"after=nonsense":        "after: expected the value of next from an earlier answer",
		"workflow=":             "workflow: expected a string of 1 to 256 bytes",
		"state=running":         "state: unknown; ",
		"limit=1&limit=2":       "limit: occurs twice",
		"owner=a%00b":           "owner: contains a NUL character",
		"session=" + long(2000): "session: expected a string of 1 to 1024 bytes, found 2000",
	} {
		p := readProblem(t, b.do("GET", "/v1/history?"+query, ""))
		if p.Status != 400 || p.Code != wire.CodeInvalid || len(p.Errors) == 0 || !strings.Contains(p.Detail, want) || p.Errors[0].Parameter == "" {
			t.Errorf("%s: %+v", query, p)
		}
	}
	for body, want := range map[string]string{
		`{}`: "/owner: missing", `{"owner":""}`: "/owner: expected a string of 1 to 64 bytes", `{"owner":7}`: "/owner: expected a string",
		`{"owner":"a","runs":1}`: "/runs: unknown field", ``: "the body is empty",
	} {
		if p := readProblem(t, b.do("POST", "/v1/history/cancel", body, "Content-Type: application/json")); p.Status != 400 || !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	for err, status := range map[error]int{store.ErrAway: 503, errors.New("broken"): 500} {
		broken := unlistedBench(t, err)
		for _, p := range []wire.Problem{
			readProblem(t, broken.do("GET", "/v1/history", "")), readProblem(t, broken.do("POST", "/v1/history/cancel", `{"owner":"ann"}`)),
		} {
			if p.Status != status {
				t.Errorf("%v: %+v", err, p)
			}
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// DS-02
func TestAnAdminCancelsTheRunsOfAnOwner(t *testing.T) {
	d := memoryDB(t)
	k := newKeyring(t, "ann:user", "bob:operator", "root:admin")
	a := keyedBench(t, k, func(o *Options) { o.Runs = d.Runs() })
	first, second, his := a.startRun(k.bearer["ann"]), a.startRun(k.bearer["ann"]), a.startRun(k.bearer["bob"])
	const cancel, ofAnn = "/v1/history/cancel", `{"owner":"ann"}`
	for _, name := range []string{"ann", "bob"} {
		if got := a.whole("POST", cancel, ofAnn, k.bearer[name]); got.Status != 403 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	elsewhere := run.NewID()
	if _, err := d.Runs().Start(t.Context(), store.Run{ID: elsewhere, Workflow: "steps", Owner: "ann", Replica: "other", Attempt: 1, State: store.RunRunning}, nil); err != nil {
		t.Fatal(err)
	}
	if got := a.whole("POST", cancel, ofAnn, k.bearer["root"]); got.Status != 202 || got.Body != `{"canceled":2,"elsewhere":["`+elsewhere+"\"]}\n" {
		t.Errorf("%+v", got)
	}
	for _, id := range []string{first, second} {
		<-a.runOf(id).Done()
	}
	if diff := cmp.Diff([]string{second, first}, a.listRuns("?status=canceled&owner=ann", k.bearer["root"]).ids()); diff != "" {
		t.Error(diff)
	}
	if got := a.listRuns("?status=running", k.bearer["bob"]).ids(); !slices.Equal(got, []string{his}) {
		t.Errorf("runs of another owner: %v", got)
	}
	if got := a.whole("POST", cancel, `{"owner":"nobody"}`, k.bearer["root"]); got.Status != 202 || got.Body != "{\"canceled\":0}\n" {
		t.Errorf("%+v", got)
	}
	if log := a.log.String(); !strings.Contains(log, `msg="canceled the runs of an owner" owner=ann runs=2`) || !strings.Contains(log, "principal=root by=key") {
		t.Error(log)
	}
}

// DS-01: no run of an erased session can be read or listed, also if it went on when the session was erased.
func TestErasingASessionErasesItsRuns(t *testing.T) {
	d := memoryDB(t)
	a := newAgentBench(t, func(o *Options, ao *agent.Options) {
		tapes := d.Tapes(nil)
		o.Runs, o.Tapes, ao.Store = d.Runs(), tapes, tapes
	})
	a.serve()
	ended := readDocument(t, a.say("hello", "", "Idempotency-Key: first")).Run
	going := readDocument(t, a.say("wait", "", "Prefer: respond-async")).Run
	<-a.talk.waits
	waits := readDocument(t, a.say("hello again", "", "Prefer: respond-async")).Run
	other := readDocument(t, a.do("POST", "/v1/runs", `{"agent":"assistant","session":"other","input":"hello"}`)).Run
	if got := a.listRuns("?session=s"); !slices.Equal(got.ids(), []string{waits, going, ended}) {
		t.Fatalf("%+v", got)
	}
	if r := a.do("DELETE", "/v1/sessions/s", ""); r.StatusCode != 204 {
		t.Fatalf("%d %s", r.StatusCode, text(t, r))
	}
	for name, id := range map[string]string{"ended": ended, "going on": going, "waiting": waits} {
		for _, path := range []string{"/v1/runs/" + id, "/v1/runs/" + id + "/events"} {
			if p := readProblem(t, a.do("GET", path, "")); p.Status != 404 {
				t.Errorf("the run that was %s: %+v", name, p)
			}
		}
	}
	if got := a.listRuns(""); !slices.Equal(got.ids(), []string{other}) {
		t.Errorf("%+v", got)
	}
	// Its Idempotency-Key is free.
	if again := readDocument(t, a.say("hello", "", "Idempotency-Key: first")).Run; again == ended {
		t.Error("the key leads to the erased run")
	}
}

// A run that waits for somebody's answer is listed so until it has one.
func TestARunThatWaitsForAnApprovalIsListedSo(t *testing.T) {
	a := newAgentBench(t, nil)
	a.serve()
	resp := a.say("use danger", "", asEvents)
	question, _, stop := a.question(resp)
	defer stop()
	status := func() string {
		t.Helper()
		a.s.runs.Flush(t.Context())
		var list struct{ Runs []struct{ Status string } }
		if err := json.Unmarshal([]byte(text(t, a.do("GET", "/v1/history", ""))), &list); err != nil || len(list.Runs) != 1 {
			t.Fatal(list, err)
		}
		return list.Runs[0].Status
	}
	if got := status(); got != "waiting" {
		t.Errorf("it is %s", got)
	}
	if r := a.do("POST", resp.Header.Get("Location")+"/approvals/"+question, `{"decision":"approve"}`); r.StatusCode != 204 {
		t.Fatalf("%d: %s", r.StatusCode, text(t, r))
	}
	<-a.ran
	readDocument(t, a.do("GET", resp.Header.Get("Location")+"/events?format=json", ""))
	if got := status(); got != "completed" {
		t.Errorf("it is %s", got)
	}
}
