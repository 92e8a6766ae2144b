package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/web/wire"
)

// failing is a store whose tapes cannot be used.
type failing struct{ tape.Store }

var errDisk = errors.New("secret-path: input/output error")

func (failing) Info(context.Context, string) (tape.Info, error) { return tape.Info{}, errDisk }
func (failing) Sessions(context.Context, tape.SessionQuery) iter.Seq2[tape.Info, error] {
	return func(yield func(tape.Info, error) bool) { yield(tape.Info{}, errDisk) }
}

// torn is a store whose reads end with an error after some entries.
type torn struct {
	tape.Store
	after int
}

func (s torn) Read(ctx context.Context, name string, q tape.Query) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		n := 0
		for e, err := range s.Store.Read(ctx, name, q) {
			if n == s.after {
				yield(tape.Entry{}, errDisk)
				return
			}
			if !yield(e, err) {
				return
			}
			n++
		}
	}
}

// sessionsBench is a server with a store of sessions.
func sessionsBench(t testing.TB, wrap func(tape.Store) tape.Store) *bench {
	t.Helper()
	store := tapetest.NewMemory(nil)
	t.Cleanup(func() { store.Close() })
	return newBench(t, func(o *Options) {
		o.Tapes, o.Workspace = store, t.TempDir()
		if wrap != nil {
			o.Tapes = wrap(store)
		}
	})
}

// session puts a session with these messages on the server.
func (b *bench) session(id string, messages ...string) *tape.Tape {
	b.t.Helper()
	t, err := tape.Open(b.t.Context(), b.s.o.Tapes, b.s.o.Workspace, id)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range messages {
		if _, err := t.Append(b.t.Context(), tape.NewMessage("user", m)); err != nil {
			b.t.Fatal(err)
		}
	}
	return t
}

// get reads an answer that is JSON.
func get[T any](b *bench, path string) (v T) {
	b.t.Helper()
	resp := b.do("GET", path, "")
	body := text(b.t, resp)
	if resp.StatusCode != 200 {
		b.t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		b.t.Fatal(err)
	}
	return v
}

type sessionList struct {
	Sessions []session
	Next     string
}

type entryPage struct {
	Entries []struct {
		ID      int64
		Kind    string
		Payload json.RawMessage
	}
	Next int64
}

// TA-08
func TestSessionsAreListedNewestFirstByPages(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	if got := get[sessionList](b, "/v1/sessions"); got.Sessions == nil || len(got.Sessions) != 0 || got.Next != "" {
		t.Errorf("%+v", got)
	}
	ids := []string{"first", "telegram:42", "a/b c", "天气?#", "last"}
	for _, id := range ids {
		b.session(id, "  I am "+id+"\nand "+strings.Repeat("é", 100))
	}
	// One of another workspace is not this server's.
	if _, err := tape.Open(t.Context(), b.s.o.Tapes, t.TempDir(), "elsewhere"); err != nil {
		t.Fatal(err)
	}
	var got []string
	path := "/v1/sessions?limit=2"
	for range 10 {
		page := get[sessionList](b, path)
		for _, s := range page.Sessions {
			got = append(got, s.ID)
			if len([]rune(s.Title)) != 60 || !strings.HasPrefix(s.Title, "I am "+s.ID+" and é") || s.Counts.Entries != 2 || s.LastID != 2 || s.Updated.Before(s.Created) || s.Anchors != nil {
				t.Errorf("%+v", s)
			}
			one := get[session](b, sessionPath(s.ID))
			if len(one.Anchors) != 1 || one.Anchors[0].Name != tape.AnchorStart || string(one.Anchors[0].State) != `{"owner":"human"}` {
				t.Errorf("%+v", one)
			}
			one.Anchors = nil
			if diff := cmp.Diff(s, one); diff != "" {
				t.Error(diff)
			}
		}
		if page.Next == "" {
			break
		}
		path = "/v1/sessions?limit=2&after=" + url.QueryEscape(page.Next)
	}
	if diff := cmp.Diff([]string{"last", "天气?#", "a/b c", "telegram:42", "first"}, got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(b.log.String(), "telegram") {
		t.Error("the log holds the id of a session")
	}
}

func TestSessionsThatCannotBeAreNotThere(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	for name, id := range map[string]string{
		"unknown": "nobody", "too long": strings.Repeat("x", 513), "a control character": "%0A", "not UTF-8": "%ff", "a path": "..%2f..%2fetc",
	} {
		t.Run(name, func(t *testing.T) {
			for method, path := range map[string]string{"GET": "", "DELETE": "", "POST": "/handoff"} {
				if p := readProblem(t, b.do(method, "/v1/sessions/"+id+path, "{}")); p.Status != 404 || p.Code != wire.CodeNotFound || !strings.HasPrefix(p.Detail, "unknown session") {
					t.Errorf("%s: %+v", method, p)
				}
			}
		})
	}
	if got := get[sessionList](b, "/v1/sessions"); len(got.Sessions) != 0 {
		t.Errorf("asking has made %+v", got)
	}
}

// TA-21
func TestATapeIsReadByPages(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	tp := b.session("s", "one", "two", "three", "four")
	if _, err := tp.Handoff(t.Context(), "next", map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	path := "/v1/sessions/s/tape?limit=4"
	for range 5 {
		page := get[entryPage](b, path)
		for _, e := range page.Entries {
			ids = append(ids, e.ID)
		}
		if page.Next == 0 {
			break
		}
		path = "/v1/sessions/s/tape?limit=4&after=" + strconv.Itoa(int(page.Next))
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 6}, ids); diff != "" {
		t.Error(diff)
	}
	for query, want := range map[string]int{
		"":                              6,
		"?kinds=anchor":                 2,
		"?kinds=anchor,message&after=3": 3,
		"?after=6":                      0,
		"?after=99":                     0,
	} {
		if page := get[entryPage](b, "/v1/sessions/s/tape"+query); len(page.Entries) != want || page.Entries == nil || page.Next != 0 {
			t.Errorf("%q: %+v", query, page)
		}
	}
	if one := get[session](b, "/v1/sessions/s"); len(one.Anchors) != 2 || one.Anchors[0].Name != "next" || string(one.Anchors[0].State) != `{"n":1}` || one.Counts.Anchors != 2 {
		t.Errorf("%+v", one)
	}
}

// TA-40
func TestATapeAsLinesIsItsExport(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	tp := b.session("s", strings.Repeat("long ", 30_000), "<&>\u2028")
	var export strings.Builder
	if err := tp.Export(t.Context(), &export); err != nil {
		t.Fatal(err)
	}
	for _, accept := range []string{"application/x-ndjson", "application/jsonl"} {
		resp := b.do("GET", "/v1/sessions/s/tape", "", "Accept: "+accept)
		if got := text(t, resp); got != export.String() || resp.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Errorf("%s: %d bytes, want %d", resp.Header.Get("Content-Type"), len(got), export.Len())
		}
	}
	if got := text(t, b.do("GET", "/v1/sessions/s/tape?format=jsonl&after=3", "")); got != "" {
		t.Error(got)
	}
}

func TestAPageIsBoundedInBytesAndHasOneEntryAtLeast(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	b.session("s", strings.Repeat("x", maxPage+1), strings.Repeat("y", maxPage/2), strings.Repeat("z", maxPage/2+100))
	var sizes []int
	for after := int64(0); after > 0 || len(sizes) == 0; {
		page := get[entryPage](b, "/v1/sessions/s/tape?after="+strconv.Itoa(int(after)))
		sizes = append(sizes, len(page.Entries))
		after = page.Next
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1}, sizes); diff != "" {
		t.Errorf("entries of pages: %s", diff)
	}
}

func TestWhatDoesNotFitIsSaidByParameter(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	b.session("s")
	for path, want := range map[string]string{
		"?after=xyz":                    "query parameter after: expected the value next of an earlier list",
		"/s?x=1":                        "query parameter x: unknown parameter; this resource has none",
		"/s/tape?limit=1001":            "query parameter limit: expected a whole number from 1 to 1000; use JSON Lines for more",
		"/s/tape?after=-1":              "query parameter after: expected a whole number from 0, found \"-1\"",
		"/s/tape?kinds=message,,anchor": `query parameter kinds: expected event, message, tool_call, tool_result, reasoning, system, anchor or error, found ""`,
		"/s/tape?kinds=zzz":             `query parameter kinds: expected event, message, tool_call, tool_result, reasoning, system, anchor or error, found "zzz"`, // DV-10
		"/s/tape?format=sse":            `query parameter format: expected jsonl or json, found "sse"`,
	} {
		if p := readProblem(t, b.do("GET", "/v1/sessions"+path, "")); p.Status != 400 || p.Detail != want {
			t.Errorf("%s: %d %s", path, p.Status, p.Detail)
		}
	}
}

// TA-13
func TestAHandoffWritesOneAnchor(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	tp := b.session("a/b", "hello")
	if _, err := tp.Append(t.Context(), tape.NewSetting("model", "demo:fast")); err != nil {
		t.Fatal(err)
	}
	resp := b.do("POST", "/v1/sessions/a%2Fb/handoff", `{"name":"billing","state":{"summary":"<paid> twice"}}`)
	body := text(t, resp)
	e, err := tape.ParseEntry([]byte(strings.TrimSpace(body)))
	if err != nil || resp.StatusCode != 201 || e.ID != 4 || e.Kind != tape.KindAnchor || string(e.Payload) != `{"name":"billing","state":{"summary":"<paid> twice"}}` {
		t.Fatalf("%d %s: %v", resp.StatusCode, body, err)
	}
	// What it answers is what is on the tape, with the settings (AG-30).
	if got := text(t, b.do("GET", "/v1/sessions/a%2Fb/tape?format=jsonl&after=3", "")); got != body || !strings.Contains(got, `"settings":{"model":"demo:fast"}`) {
		t.Error(cmp.Diff(body, got))
	}
	if got := text(t, b.do("POST", "/v1/sessions/a%2Fb/handoff", `{"name":"bare"}`)); !strings.Contains(got, `{"name":"bare","state":null}`) {
		t.Error(got)
	}
	for body, pointer := range map[string]string{
		`{}`: "/name", `{"name":7}`: "/name", `{"name":"` + strings.Repeat("x", 129) + `"}`: "/name", `{"name":"x","state":{"a":1,"a":2}}`: "/state/a",
	} {
		if p := readProblem(t, b.do("POST", "/v1/sessions/a%2Fb/handoff", body)); p.Status != 400 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if got := get[session](b, "/v1/sessions/a%2Fb"); got.Counts.Entries != 5 || got.Counts.Anchors != 3 {
		t.Errorf("%+v", got)
	}
}

// TA-33
func TestASessionIsForkedAtAnEntryAndGoesItsOwnWay(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	tp := b.session("s", "one", "two", "three")
	resp := b.do("POST", "/v1/sessions/s/fork", `{"session":"a/b c","at":3}`)
	var got session
	if err := json.Unmarshal([]byte(text(t, resp)), &got); err != nil || resp.StatusCode != 201 || resp.Header.Get("Location") != "/v1/sessions/a%2Fb%20c" {
		t.Fatalf("%d %v: %v", resp.StatusCode, resp.Header, err)
	}
	if diff := cmp.Diff(got, get[session](b, resp.Header.Get("Location"))); diff != "" || got.ID != "a/b c" || got.Counts.Entries != 4 || got.Title != "one" {
		t.Errorf("%+v %s", got, diff)
	}
	copied := text(t, b.do("GET", resp.Header.Get("Location")+"/tape?format=jsonl&limit=3", ""))
	if diff := cmp.Diff(text(t, b.do("GET", "/v1/sessions/s/tape?format=jsonl&limit=3", "")), copied); diff != "" {
		t.Error(diff)
	}
	if _, err := tp.Append(t.Context(), tape.NewMessage("user", "four")); err != nil {
		t.Fatal(err)
	}
	if again := get[session](b, resp.Header.Get("Location")); again.Counts != got.Counts {
		t.Errorf("%+v", again)
	}
	// Without a body everything is copied, to a session with an id that nobody has.
	resp = b.do("POST", "/v1/sessions/s/fork", "")
	if all := get[session](b, resp.Header.Get("Location")); resp.StatusCode != 201 || all.Counts.Entries != 6 || len(all.ID) < 20 {
		t.Errorf("%+v", all)
	}
	for body, want := range map[string]string{
		`{"session":"s"}`:    `there is a session "s" already`,
		`{"session":"x\ny"}`: `/session: the session id "x\ny" contains control characters; remove them`,
		`{"at":7}`:           "/at: a session is forked at one of its entries 1–5, not at 7",
	} {
		if p := readProblem(t, b.do("POST", "/v1/sessions/s/fork", body)); p.Detail != want || p.Status/100 != 4 {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// TA-41
func TestASessionIsErasedAndTheLogNamesItsTapeOnly(t *testing.T) {
	b := sessionsBench(t, nil).serve()
	tp := b.session("anna:private", "hello")
	b.session("other")
	resp := b.do("DELETE", "/v1/sessions/anna:private", "")
	if body := text(t, resp); resp.StatusCode != 204 || body != "" {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if p := readProblem(t, b.do(method, "/v1/sessions/anna:private", "")); p.Status != 404 {
			t.Errorf("%+v", p)
		}
	}
	if _, err := tp.Append(t.Context(), tape.NewMessage("user", "still here?")); !errors.Is(err, tape.ErrDeleted) {
		t.Error(err)
	}
	if got := get[sessionList](b, "/v1/sessions"); len(got.Sessions) != 1 || got.Sessions[0].ID != "other" {
		t.Errorf("%+v", got)
	}
	if log := b.log.String(); !strings.Contains(log, `msg="session erased" tape=`+tp.Name()) || strings.Contains(log, "anna") {
		t.Error(log)
	}
}

func TestAStoreThatFailsIsAnAnswerThatTellsNothing(t *testing.T) {
	b := sessionsBench(t, func(s tape.Store) tape.Store { return failing{s} }).serve()
	p := readProblem(t, b.do("GET", "/v1/sessions/s", ""))
	if log := b.log.String(); p.Status != 500 || p.Code != wire.CodeInternal || strings.Contains(p.Detail, "secret") || !strings.Contains(log, p.ID) || !strings.Contains(log, "input/output error") {
		t.Errorf("%+v\n%s", p, log)
	}
}

func TestAStreamOfEntriesThatFailsIsBrokenOff(t *testing.T) {
	b := sessionsBench(t, func(s tape.Store) tape.Store { return torn{s, 2} }).serve()
	b.session("s", strings.Repeat("x", 70_000), "y", "z", "last")
	resp := b.do("GET", "/v1/sessions/s/tape?format=jsonl", "")
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err == nil || len(body) < 70_000 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	for _, query := range []string{"", "?format=jsonl&after=2"} { // before anything was sent there is an answer
		if p := readProblem(t, b.do("GET", "/v1/sessions/s/tape"+query, "")); p.Status != 500 {
			t.Errorf("%+v", p)
		}
	}
}

// DA-13: the two ids have one hash, which took five thousand million attempts to find. The table of answers has what reading them is.
func TestSessionWhoseHashIsTakenIsRefusedAndTheLogNamesBoth(t *testing.T) {
	const first, second = "57d915daec76c2cc", "9547bebb3b269de0"
	a := newAgentBench(t, nil)
	a.serve()
	start := func(session string) reply {
		return a.whole("POST", "/v1/runs", `{"agent":"assistant","session":"`+session+`","input":"hello"}`)
	}
	if got := start(first); got.Status != 200 {
		t.Fatalf("%+v", got)
	}
	before := a.tapeOf(first)
	for _, got := range []reply{start(second), a.whole("GET", "/v1/sessions/"+second+"/tape", "")} {
		if got.Status != 409 || !strings.Contains(strings.ToLower(got.Body), "this session id cannot be used") || a.tapeOf(first) != before {
			t.Errorf("%+v", got)
		}
	}
	if log := a.log.String(); !regexp.MustCompile(`level=ERROR msg="two sessions have the same hash".*`+first).MatchString(log) || !strings.Contains(log, second) {
		t.Error(log)
	}
}
