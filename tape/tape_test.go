package tape_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func TestANameIsMadeOfTheWorkspaceAndTheSession(t *testing.T) { // TA-06
	if got := tape.Name("/srv/agent", "telegram:42"); got != "99f5e6effb96d7b9__bd8cdd776d6ba381" {
		t.Errorf("the name is %s", got)
	}
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, same := range []string{link, ".", dir + "/", filepath.Join(dir, "sub", "..")} {
		if tape.Name(same, "s") != tape.Name(dir, "s") {
			t.Errorf("the workspace %q has another name than the folder it is", same)
		}
	}
	if tape.Name(filepath.Join(link, "new"), "s") != tape.Name(filepath.Join(dir, "new"), "s") {
		t.Error("a folder that does not exist yet has another name through a link")
	}
	if err := tape.CheckName(tape.Name(dir, "s")); err != nil {
		t.Error(err)
	}
}

// These two texts have one MD5; Marc Stevens published them in 2024.
const (
	collides     = "TEXTCOLLBYfGiJUETHQ4hAcKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak"
	collidesToo  = "TEXTCOLLBYfGiJUETHQ4hEcKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak"
	withoutTwins = "telegram:42"
)

func TestASessionWithTheNameOfAnotherIsRefused(t *testing.T) { // TA-07
	s := tapetest.NewMemory(nil)
	dir := t.TempDir()
	ctx := t.Context()
	if tape.Name(dir, collides) != tape.Name(dir, collidesToo) {
		t.Fatal("the two sessions have different names: nothing is tested")
	}
	first, err := tape.Open(ctx, s, dir, collides)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tape.Open(ctx, s, dir, collidesToo); !errors.Is(err, tape.ErrNameCollision) {
		t.Errorf("open: %v, want ErrNameCollision", err)
	}
	if _, err := tape.Lookup(ctx, s, dir, collidesToo); !errors.Is(err, tape.ErrNameCollision) {
		t.Errorf("look up: %v, want ErrNameCollision", err)
	}
	if _, err := first.ForkSession(ctx, collidesToo, 0); !errors.Is(err, tape.ErrNameCollision) {
		t.Errorf("fork into it: %v, want ErrNameCollision", err)
	}
	if err := tape.Import(ctx, s, dir, collidesToo, strings.NewReader(`{}`)); !errors.Is(err, tape.ErrNameCollision) {
		t.Errorf("import into it: %v, want ErrNameCollision", err)
	}
	if info, err := first.Info(ctx); err != nil || info.Entries != 1 {
		t.Errorf("the first session has %d entries, %v, want 1", info.Entries, err)
	}
	if _, err := tape.Open(ctx, s, dir, withoutTwins); err != nil {
		t.Errorf("a third session: %v", err)
	}
	for _, bad := range []string{"", strings.Repeat("x", 513), "a\nb", "\xff", "\u0085"} {
		if _, err := tape.Open(ctx, s, dir, bad); !errors.Is(err, tape.ErrInvalid) {
			t.Errorf("session %.10q: %v, want ErrInvalid", bad, err)
		}
	}
}

func TestAnImportedSessionIsItsNewOwners(t *testing.T) { // TA-08, TA-40
	s := tapetest.NewMemory(nil)
	ctx := t.Context()
	line := `{"kind":"anchor","payload":{"name":"session/start","state":null},"meta":{"session":"old","workspace":"/elsewhere"}}`
	if err := tape.Import(ctx, s, t.TempDir(), "new", strings.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	info := func() tape.Info {
		for i, err := range s.Sessions(ctx, tape.SessionQuery{}) {
			if err == nil {
				return i
			}
		}
		t.Fatal("no session is listed")
		return tape.Info{}
	}
	was := info()
	// What the entries alone say, as after the loss of an index: they are another session's.
	lost := tapetest.NewMemory(nil)
	if _, err := lost.Append(ctx, was.Tape, tape.Batch{Create: true, Entries: []tape.Entry{tape.NewAnchor("x", nil).With(tape.Meta{Session: "old", Workspace: "/elsewhere"})}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := tape.Open(ctx, lost, was.Workspace, "new"); err != nil {
			t.Fatal(err)
		}
	}
	if i, err := lost.Info(ctx, was.Tape); err != nil || i.Session != "new" || i.Workspace != was.Workspace || i.Entries != 2 {
		t.Errorf("opened twice, the tape is %+v, %v, want one event that says whose it is", i, err)
	}
}

func TestALineIsAsTheFormatSays(t *testing.T) { // TA-02, TA-04
	date := time.Date(2026, 3, 1, 9, 0, 0, 100_000, time.UTC)
	for want, e := range map[string]tape.Entry{
		`{"id":1,"kind":"anchor","payload":{"name":"session/start","state":{"owner":"human"}},"meta":{"session":"telegram:42","workspace":"/srv/agent"},"date":"2026-03-01T09:00:00.000100Z"}`:       tape.NewAnchor("session/start", map[string]string{"owner": "human"}).With(tape.Meta{Session: "telegram:42", Workspace: "/srv/agent"}),
		`{"id":1,"kind":"event","payload":{"name":"turn.start","data":{"model":"demo:echo"}},"meta":{"turn":"t-5Qd"},"date":"2026-03-01T09:00:00.000100Z"}`:                                          tape.NewEvent("turn.start", map[string]string{"model": "demo:echo"}).With(tape.Meta{Turn: "t-5Qd"}),
		`{"id":1,"kind":"event","payload":{"name":"x"},"meta":{},"date":"2026-03-01T09:00:00.000100Z"}`:                                                                                              tape.NewEvent("x", nil),
		`{"id":1,"kind":"system","payload":{"content":"You are …"},"meta":{},"date":"2026-03-01T09:00:00.000100Z"}`:                                                                                  tape.NewSystem("You are …"),
		"{\"id\":1,\"kind\":\"message\",\"payload\":{\"role\":\"user\",\"content\":\"天气? <b>&\u2028\u2029\\\\u2028\"},\"meta\":{},\"date\":\"2026-03-01T09:00:00.000100Z\"}":                         tape.NewMessage("user", "天气? <b>&\u2028\u2029\\u2028"),
		`{"id":1,"kind":"reasoning","payload":{"content":"They ask …"},"meta":{},"date":"2026-03-01T09:00:00.000100Z"}`:                                                                              tape.NewReasoning("They ask …"),
		`{"id":1,"kind":"tool_call","payload":{"content":"","calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{}"}}]},"meta":{},"date":"2026-03-01T09:00:00.000100Z"}`: tape.NewToolCall("", tape.Call{ID: "c1", Function: tape.FunctionCall{Name: "weather", Arguments: "{}"}}),
		`{"id":1,"kind":"tool_result","payload":{"ids":["c1"],"results":["sunny"]},"meta":{},"date":"2026-03-01T09:00:00.000100Z"}`:                                                                  tape.NewToolResult([]string{"c1"}, "sunny"),
		`{"id":1,"kind":"error","payload":{"kind":"upstream_timeout","message":"first token after 30s"},"meta":{},"date":"2026-03-01T09:00:00.000100Z"}`:                                             tape.NewError("upstream_timeout", "first token after 30s"),
	} {
		e.ID, e.Date = 1, date
		got := string(e.AppendJSON(nil))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", e.Kind, diff)
		}
		back, err := tape.ParseEntry([]byte(got))
		if diff := cmp.Diff(e, back); err != nil || diff != "" {
			t.Errorf("%s, read again: %v (-want +got):\n%s", e.Kind, err, diff)
		}
	}
	// A caller's calls are not changed.
	calls := []tape.Call{{ID: "a"}}
	if tape.NewToolCall("", calls...); calls[0].Type != "" {
		t.Error("NewToolCall wrote into its argument")
	}
}

func TestMetaKeepsWhatItDoesNotKnow(t *testing.T) { // TA-05
	e := tape.NewMessage("user", "x")
	e.Meta = json.RawMessage(`{"z":[1, 2],"turn":"old","a":{"b":1.0},"run":7}`)
	full := tape.Meta{
		Turn: "t", Run: "r", ContextHidden: true, Partial: true, Steered: true, Fork: "f",
		Spill: []tape.Spill{{Index: 1, Handle: "h", Size: 3}}, Refs: []int64{1, 2}, Source: []int64{1, 9},
		Title: "a word", Session: "s", Workspace: "/w", Settings: map[string]json.RawMessage{"model": json.RawMessage(`"m"`)},
	}
	got := e.With(full)
	want := `{"z":[1, 2],"turn":"t","a":{"b":1.0},"run":"r","partial":true,"steered":true,"fork":"f","spill":[{"index":1,"handle":"h","size":3}],` +
		`"refs":[1,2],"source":[1,9],"title":"a word","session":"s","workspace":"/w","settings":{"model":"m"},"context":false}`
	if diff := cmp.Diff(want, string(got.Meta)); diff != "" {
		t.Errorf("meta (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(full, tape.MetaOf(got)); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	if m := tape.MetaOf(e); m.Turn != "old" || m.Run != "" {
		t.Errorf("a member of another type than ours is read as %+v", m)
	}
	if got := string(e.With(tape.Meta{Turn: "new"}).Meta); got != `{"z":[1, 2],"turn":"new","a":{"b":1.0},"run":7}` {
		t.Errorf("one member changed: %s", got)
	}
	if got := tape.NewSystem("x").With(tape.Meta{}); got.Meta != nil {
		t.Errorf("nothing set gives the meta %s", got.Meta)
	}
	if string(e.Meta) != `{"z":[1, 2],"turn":"old","a":{"b":1.0},"run":7}` {
		t.Errorf("With changed the entry it was called on: %s", e.Meta)
	}
}

func TestAHitShowsTheMatchAndWhatIsAroundIt(t *testing.T) { // TA-24
	before, after := strings.Repeat("vor ", 50), strings.Repeat(" 之后", 50)
	for name, row := range map[string]struct{ text, query, want string }{
		"a short text":     {"今天天气很好", "天气", "今天天气很好"},
		"in the middle":    {before + "Nadel" + after, "nadel", ""},
		"at the beginning": {"Nadel" + after, "nadel", ""},
		"at the end":       {before + "nadel", "NADEL", ""},
		"a long match":     {strings.Repeat("x", 200), strings.Repeat("X", 100), strings.Repeat("x", 80)},
		"lines":            {"a\n\n\tnadel\nb", "nadel", "a nadel b"},
		"a ligature":       {"ﬁndig", "find", "ﬁndig"},
	} {
		tp := open(t)
		put(t, tp, tape.NewMessage("user", row.text))
		var hits []tape.Hit
		for h, err := range tp.Search(t.Context(), tape.Query{Text: row.query}) {
			if err != nil {
				t.Fatal(err)
			}
			hits = append(hits, h)
		}
		if len(hits) != 1 {
			t.Errorf("%s: %d hits, want 1", name, len(hits))
			continue
		}
		got := hits[0].Text
		if n := len([]rune(got)); n > 80 || row.want == "" && n < 78 {
			t.Errorf("%s: %q has %d code points, want 80", name, got, n)
		}
		if row.want != "" && got != row.want || !strings.Contains(strings.ToLower(got), strings.ToLower(row.query)) && row.want == "" {
			t.Errorf("%s: the hit is %q, want %q", name, got, row.want)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, line := range []string{
		`{"id":1,"kind":"x","payload":{},"meta":{},"date":"2026-03-01T09:00:00.000000Z"}`,
		` { "date":"2026-03-01T09:00:00.000000Z", "meta":{"a":[{}]},"payload":{"b":"\""},"kind":"\u0078","id":12 } `,
		`{"id":1,"kind":"x","payload":{"a":"}"},"meta":{"b":[1,"\\"]},"date":"2026-03-01T09:00:00.000000Z"}`,
		`{"id":1,"kind":"x","payload":{"a,"meta":{},"date":"2026-03-01T09:00:00.000000Z"}`,
		`{}`, `[]`, `{"id":1`, "{\"id\":1,\"kind\":\"\xff\"}", `{"\u0069d":1}`, `{"id":1,"id":2}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := tape.ParseEntry(line)
		tape.MetaOf(e)
		tape.AnchorOf(e)
		if err != nil || !json.Valid(line) {
			return // what no store has written: no panic
		}
		again, err := tape.ParseEntry(e.AppendJSON(nil))
		if diff := cmp.Diff(e, again); err != nil || diff != "" {
			t.Fatalf("%q, written and read: %v\n%s", line, err, diff)
		}
	})
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(`{"kind":"message","payload":{"role":"user","content":"hi"},"timestamp":1.5}` + "\n" + `{"id":7,"kind":"x","payload":{}}`))
	f.Add([]byte(`{"kind":"tool_call","payload":{"calls":[{"id":"a"},7]}}` + "\n" + `{"kind":"tool_result","payload":{"results":[1,"x"]}}`))
	f.Add([]byte("{\"kind\":\"anchor\",\"payload\":{\"name\":\"\u2028\",\"state\":[]},\"meta\":null}\r\n\n"))
	f.Add([]byte(`{"kind":"message","payload":{"role":"tool","content":[{"type":"image_url","url":"tape-blob:x"},7]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx := t.Context()
		s := tapetest.NewMemory(nil)
		err := tape.Import(ctx, s, "/srv/agent", "a", bytes.NewReader(data))
		first, lookErr := tape.Lookup(ctx, s, "/srv/agent", "a")
		if (err == nil) != (lookErr == nil) {
			t.Fatalf("the import says %v, and the tape is there: %v", err, lookErr)
		}
		if err != nil {
			return
		}
		var out, again bytes.Buffer
		if err := first.Export(ctx, &out); err != nil {
			t.Fatal(err)
		}
		if err := tape.Import(ctx, s, "/srv/agent", "b", bytes.NewReader(out.Bytes())); err != nil {
			t.Fatalf("what was exported is not imported: %v", err)
		}
		second, err := tape.Lookup(ctx, s, "/srv/agent", "b")
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Export(ctx, &again); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
			t.Fatalf("export, import, export: %v\n%s\n%s", err, out.Bytes(), again.Bytes())
		}
		v, err := first.View(ctx, tape.Selection{From: tape.Start{Whole: true}})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range v.Messages {
			if !json.Valid(m.JSON) {
				t.Fatalf("a message is no JSON: %s", m.JSON)
			}
		}
		for _, err := range first.Search(ctx, tape.Query{Text: "a"}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := first.Settings(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
