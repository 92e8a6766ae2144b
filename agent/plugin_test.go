package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// AG-10
func TestTheSessionIsThatOfTheEnvelopeOrOfTheChat(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	for _, c := range []struct{ id, channel, chat, want string }{
		{" s 1 ", "x", "y", " s 1 "},
		{"  ", "telegram", "42", "telegram:42"},
		{"", "", "", "default:default"},
	} {
		e := &turn.Envelope{SessionID: c.id, Channel: c.channel, ChatID: c.chat, Content: "hi"}
		if h := w.process(t.Context(), e); h.err != nil || h.Session != c.want || e.SessionID != c.want {
			t.Errorf("%+v: %q, %v", c, h.Session, h.err)
		}
	}
}

// life writes down when it is entered and left.
type life struct {
	log          []string
	enter, leave error
}

func (l *life) Enter(context.Context) error { l.log = append(l.log, "enter"); return l.enter }
func (l *life) Exit(_ context.Context, err error) error {
	l.log = append(l.log, "exit "+map[bool]string{true: "well", false: "failed"}[err == nil])
	return l.leave
}

// broken fails in a stage.
type broken struct{ stage turn.Stage }

var errBroken = errors.New("broken")

func (b broken) LoadState(context.Context, *turn.Envelope, turn.SessionID) (turn.State, error) {
	if b.stage == turn.StageLoad {
		return nil, errBroken
	}
	if b.stage == "panic" {
		panic(errBroken)
	}
	return nil, nil
}

func (b broken) BuildPrompt(context.Context, *turn.Envelope, turn.SessionID, turn.State) (turn.Prompt, bool, error) {
	if b.stage == turn.StagePrompt {
		return turn.Prompt{}, false, errBroken
	}
	return turn.Prompt{}, false, nil
}

// AG-10: a lifespan is left once for each time that it was entered, with the turn's error.
func TestALifespanThatWasEnteredIsLeftOnce(t *testing.T) {
	for name, test := range map[string]struct {
		plugin any
		life   life
		model  say
		want   []string
	}{
		"a good turn":          {broken{}, life{}, answers("ok"), []string{"enter", "exit well"}},
		"a loader fails":       {broken{turn.StageLoad}, life{}, answers("ok"), []string{"enter", "exit failed"}},
		"a loader panics":      {broken{"panic"}, life{}, answers("ok"), []string{"enter", "exit failed"}},
		"a prompt fails":       {broken{turn.StagePrompt}, life{}, answers("ok"), []string{"enter", "exit failed"}},
		"the model fails":      {broken{}, life{}, fails(downError), []string{"enter", "exit failed"}},
		"it cannot be entered": {broken{}, life{enter: errBroken}, answers("ok"), []string{"enter"}},
		"it cannot be left":    {broken{}, life{leave: errBroken}, answers("ok"), []string{"enter", "exit well"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFake(test.model), Options{}, test.plugin)
			e := message("hi")
			e.Life = &test.life
			h := w.process(t.Context(), e)
			if diff := cmp.Diff(test.want, test.life.log); diff != "" {
				t.Error(diff)
			}
			if failed := h.err != nil; failed != (name != "a good turn") {
				t.Errorf("error %v", h.err)
			}
		})
	}
}

// AG-10: what a turn sends goes to the dispatchers, with the routing of what came in; a failure is told there, too.
func TestTheReplyGoesWhereTheMessageCameFrom(t *testing.T) {
	w := newWorld(t, newFake(answers("hello"), fails(downError)), Options{})
	e := &turn.Envelope{SessionID: "s", Channel: "telegram", ChatID: "42", OutputChannel: "sms", Content: "hi"}
	h := w.process(t.Context(), e)
	if len(h.Deliveries) != 1 || h.Deliveries[0] {
		t.Errorf("without a dispatcher: %v", h.Deliveries)
	}
	c := &chat{got: make(chan *turn.Envelope, 10)}
	c.join(w)
	w.model.asked = nil
	if h := w.process(t.Context(), e); len(h.Deliveries) != 1 || !h.Deliveries[0] {
		t.Errorf("with a dispatcher: %v", h.Deliveries)
	}
	want := &turn.Envelope{SessionID: "s", Channel: "telegram", ChatID: "42", OutputChannel: "sms", Content: "hello"}
	if diff := cmp.Diff(want, <-c.got); diff != "" {
		t.Error(diff)
	}
	w.process(t.Context(), e)
	if got := <-c.got; got.Kind != turn.KindError || strings.Contains(got.Content, "down") || got.ChatID != "42" {
		t.Errorf("%+v", got)
	}
}

// AG-10
func TestTheStateHasTheSessionTheAgentAndItsSettings(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{Name: "assistant"})
	s, err := w.LoadState(t.Context(), message("x"), "s")
	if diff := cmp.Diff(turn.State{"session_id": "s", "agent": "assistant"}, s); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := tape.Lookup(t.Context(), w.store, w.dir, "s"); !errors.Is(err, tape.ErrNotFound) {
		t.Errorf("loading a state has made a tape: %v", err)
	}
	w.say("hi")
	if _, err := w.tape().Append(t.Context(), tape.NewSetting("model", "fake:x")); err != nil {
		t.Fatal(err)
	}
	s, _ = w.LoadState(t.Context(), message("x"), "s")
	if got := s[KeySettings].(map[string]json.RawMessage); string(got["model"]) != `"fake:x"` {
		t.Errorf("%s", got)
	}
}

// AG-11
func TestAPromptIsTheTextWithItsFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newFake(answers("ok")), Options{})
		png := turn.Media{Type: "image", MIME: "image/png", Fetch: func(context.Context) ([]byte, error) { return []byte("png"), nil }}
		gone := turn.Media{Type: "file", Name: "a.pdf", Fetch: func(context.Context) ([]byte, error) { return nil, errors.New("404 at https://secret") }}
		huge := turn.Media{Type: "video", Name: "film", Fetch: func(context.Context) ([]byte, error) { return make([]byte, maxMediaBytes+1), nil }}
		slow := turn.Media{Type: "audio", Name: "song", Fetch: func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, context.Cause(ctx) }}
		local := turn.Media{Type: "image", Name: "passwd", URL: "file:///etc/passwd"}
		image := turn.Part{Type: "image_url", ImageURL: &turn.PartURL{URL: "data:image/png;base64,cG5n"}}
		sound := turn.Part{Type: "input_audio", InputAudio: &turn.InputAudio{Data: "AA==", Format: "mp3"}}
		for name, test := range map[string]struct {
			e    turn.Envelope
			want turn.Prompt
			kind turn.Kind
		}{
			"text alone":                    {turn.Envelope{Content: " \ttext\r\n\x00"}, turn.Prompt{Text: " \ttext\r\n\x00"}, ""},
			"a command":                     {turn.Envelope{Content: ",help  x", Media: []turn.Media{png}, Context: []turn.Fact{{Key: "a", Value: "b"}}}, turn.Prompt{Text: ",help  x"}, turn.KindCommand},
			"text that begins with a comma": {turn.Envelope{Content: ",and then"}, turn.Prompt{Text: ",and then"}, ""},
			"a sender without commands":     {turn.Envelope{Content: ",help", Sender: turn.Sender{NoCommands: true}}, turn.Prompt{Text: ",help"}, ""},
			"facts": {
				turn.Envelope{Content: "hi", Context: []turn.Fact{{Key: "from", Value: "Ann\ndate: 1999\r\u2028\u0085x"}, {Key: "_token", Value: "secret"}, {Key: "we\nb", Value: ""}, {Key: "\n_x", Value: "secret"}}},
				turn.Prompt{Text: "from: Ann date: 1999 x\nwe b: \ndate: 2000-01-01T00:00:00Z\n\nhi"},
				"",
			},
			"facts with a time zone": { // DC-17
				turn.Envelope{Content: "hi", Context: []turn.Fact{{Key: "from", Value: "Ann"}}, Timezone: time.FixedZone("Asia/Tokyo", 9*60*60)},
				turn.Prompt{Text: "from: Ann\ndate: 2000-01-01T09:00:00+09:00 Asia/Tokyo\n\nhi"},
				"",
			},
			"private facts alone": {turn.Envelope{Content: "hi", Context: []turn.Fact{{Key: "_a", Value: "b"}}}, turn.Prompt{Text: "date: 2000-01-01T00:00:00Z\n\nhi"}, ""},
			"facts without text":  {turn.Envelope{Context: []turn.Fact{{Key: "from", Value: "Ann"}}}, turn.Prompt{}, ""},
			"media in order": {
				turn.Envelope{Content: "look", Media: []turn.Media{png, {Type: "audio", URL: "data:audio/mpeg;base64,AA=="}, {Type: "image", URL: "https://x/y.png"}}},
				turn.Prompt{Parts: []turn.Part{{Type: "text", Text: "date: 2000-01-01T00:00:00Z\n\nlook"}, image, sound, {Type: "image_url", ImageURL: &turn.PartURL{URL: "https://x/y.png"}}}},
				"",
			},
			"media that are not there": {
				turn.Envelope{Content: "look", Media: []turn.Media{gone, png, huge, local}},
				turn.Prompt{Parts: []turn.Part{{Type: "text", Text: "date: 2000-01-01T00:00:00Z\nnot attached: a.pdf (it could not be fetched); film (it is too large); passwd (it could not be fetched)\n\nlook"}, image}},
				"",
			},
			"none is left": {turn.Envelope{Content: "look", Media: []turn.Media{gone}}, turn.Prompt{Text: "date: 2000-01-01T00:00:00Z\nnot attached: a.pdf (it could not be fetched)\n\nlook"}, ""},
		} {
			e := test.e
			p, ok, err := w.BuildPrompt(t.Context(), &e, "s", nil)
			if diff := cmp.Diff(test.want, p); diff != "" || !ok || err != nil || e.Kind != test.kind {
				t.Errorf("%s: %v %v %q\n%s", name, ok, err, e.Kind, diff)
			}
		}
		begin := time.Now()
		if p, _, _ := w.BuildPrompt(t.Context(), &turn.Envelope{Media: []turn.Media{slow}}, "s", nil); len(p.Parts) > 0 || time.Since(begin) != mediaTimeout {
			t.Errorf("%+v after %v", p, time.Since(begin))
		}
	})
}

// AG-11: the loop refuses an empty prompt.
func TestAnEmptyPromptTouchesNothing(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	for _, e := range []*turn.Envelope{message(""), {SessionID: "s", Context: []turn.Fact{{Key: "from", Value: "Ann"}}}} {
		h := w.process(t.Context(), e)
		if !errors.Is(h.err, turn.ErrNoPrompt) || w.f.Code(h.err) != turn.CodeInvalid || len(w.model.requests()) > 0 {
			t.Error(h.err)
		}
		if _, err := tape.Lookup(t.Context(), w.store, w.dir, "s"); !errors.Is(err, tape.ErrNotFound) {
			t.Errorf("there is a tape: %v", err)
		}
	}
	if h := w.process(t.Context(), message(" ")); h.err != nil { // white space is a prompt
		t.Error(h.err)
	}
}

// AG-11, AG-29: media reach the model, and what is large of them lies beside the tape.
func TestMediaReachTheModelFromTheBlobs(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	data := strings.Repeat("x", 20_000)
	e := message("look")
	e.Media = []turn.Media{{Type: "image", MIME: "image/png", Fetch: func(context.Context) ([]byte, error) { return []byte(data), nil }}, {Type: "video", URL: "https://x/film"}}
	if h := w.process(t.Context(), e); h.err != nil {
		t.Fatal(h.err)
	}
	w.say("and now?")
	for _, r := range w.model.requests() {
		parts := r.Messages[1].Parts
		if len(parts) != 3 || len(parts[1].Image) < 26_000 || !strings.HasPrefix(parts[1].Image, "data:image/png;base64,eHh4") ||
			parts[2].Text != "[video_url: this kind of media cannot be sent to the model]" {
			t.Errorf("%.300v", parts)
		}
	}
	for _, e := range w.entries() {
		if len(e.Payload) > 4_000 {
			t.Errorf("an entry has %d bytes", len(e.Payload))
		}
	}
}

// MO-25: what a channel has loaded reaches the model as what it is, also where the platform does not say the type.
func TestFilesOfChannelsReachTheModelByWhatIsInThem(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{})
	e := message("look")
	fetch := func(data string) func(context.Context) ([]byte, error) {
		return func(context.Context) ([]byte, error) { return []byte(data), nil }
	}
	e.Media = []turn.Media{
		{Type: "file", Name: "a.pdf", Fetch: fetch("%PDF-1.7")},
		{Type: "file", MIME: "application/octet-stream", Name: "b", Fetch: fetch("\x89PNG\r\n\x1a\n")},
		{Type: "audio", Fetch: fetch("OggS\x00")},
		{Type: "file", Name: "c.csv", Fetch: fetch("a,b\n")},
	}
	if h := w.process(t.Context(), e); h.err != nil {
		t.Fatal(h.err)
	}
	var got []string
	for _, p := range w.model.requests()[0].Messages[1].Parts[1:] {
		head, _, _ := strings.Cut(p.Image+p.File, ";")
		got = append(got, p.Type+" "+head+" "+p.Name)
	}
	want := []string{"file data:application/pdf a.pdf", "image_url data:image/png ", "file data:audio/ogg ", "file data:text/csv c.csv"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// prompts is a plugin with a system prompt.
type prompts string

func (p prompts) SystemPrompt(context.Context, turn.Prompt, turn.State) (string, error) {
	return string(p), nil
}

// AG-12
func TestTheSystemPromptIsMadeOfWhatAllSay(t *testing.T) {
	skills := t.TempDir()
	if err := os.MkdirAll(filepath.Join(skills, "pdf"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(skills, "pdf", "SKILL.md"), "---\nname: pdf\ndescription: Forms.\n---\nOpen them.")
	w := newWorld(t, newFake(calls("", `c1:skill:{"name":"pdf"}`), answers("ok")), Options{Instructions: "Be kind.\n", Skills: skill.New(nil, skill.Dir(skills, "."))},
		prompts("second"), prompts(""), prompts("third"))
	today := regexp.MustCompile(`\n\nToday is \w+, \d+ \w+ \d{4} \(UTC\)\.`)
	system := func(i int) string {
		text := w.model.requests()[i].Messages[0].Content
		if !today.MatchString(text) {
			t.Errorf("the date is missing in %q", text)
		}
		return today.ReplaceAllString(text, "")
	}
	w.say("one")
	const list = "\n\nSkills, to be read with the tool skill before a task that one of them is for:\n- pdf: Forms."
	if want := "Be kind.\n\nsecond\n\nthird" + list; system(0) != want {
		t.Errorf("%q", system(0))
	}
	if got := seen(w.model.requests()[1]); !strings.Contains(got[len(got)-1], `{"text":"Open them."}`) {
		t.Errorf("%q", got)
	}
	write(filepath.Join(w.dir, "AGENTS.md"), "\nBe brief.\n"+strings.Repeat("天", maxAgentsFile))
	w.say("two")
	got := system(2)
	if !strings.HasPrefix(got, "Be kind.\n\nBe brief.\n天天") || !strings.HasSuffix(got, "天\n\nsecond\n\nthird"+list) || len(got) > maxAgentsFile+300 {
		t.Errorf("%d bytes: %.80q", len(got), got)
	}
	write(filepath.Join(w.dir, "AGENTS.md"), "Be long.")
	w.say("three")
	if got := system(3); !strings.HasPrefix(got, "Be kind.\n\nBe long.\n\nsecond") {
		t.Errorf("%.80q", got)
	}
	if err := os.Remove(filepath.Join(w.dir, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	w.say("four")
	if got := system(4); !strings.HasPrefix(got, "Be kind.\n\nsecond") {
		t.Errorf("%.80q", got)
	}
}

// DV-04
func TestTheModelLearnsTheDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight UTC before the first of January 2000
		w := newWorld(t, newFake(answers("ok")), Options{})
		zone, err := time.LoadLocation("America/New_York")
		if err != nil {
			t.Fatal(err)
		}
		e := message("hi")
		e.Timezone = zone
		if h := w.process(t.Context(), e); h.err != nil {
			t.Fatal(h.err)
		}
		if got, want := w.model.requests()[0].Messages[0].Content, "Today is Friday, 31 December 1999 (America/New_York)."; !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %q at its end", got, want)
		}
	})
}

// AG-12: AGENTS.md is read below the workspace, and is a file.
func TestAgentsFileIsAFileOfTheWorkspace(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "AGENTS.md")); err != nil {
		t.Skip(err)
	}
	if got := readAgentsFile(dir); got != "" {
		t.Errorf("a link led out: %q", got)
	}
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "AGENTS.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := readAgentsFile(dir); got != "" {
		t.Errorf("%q", got)
	}
}

// AG-60
func TestToolsBelongToTheirAgent(t *testing.T) {
	one, two := newWorld(t, newFake(answers("ok")), Options{Tools: setOf(t, echoTool(t))}), newWorld(t, newFake(answers("ok")), Options{})
	if _, ok := one.Tools().Find("echo"); !ok {
		t.Error("the agent has lost its tool")
	}
	if _, ok := two.Tools().Find("echo"); ok {
		t.Error("the other agent has it too")
	}
	for _, name := range []string{"tape.info", "tape_info"} {
		if tl, ok := one.Tools().Find(name); !ok || tl.Name != "tape.info" {
			t.Errorf("%s does not resolve", name)
		}
	}
	one.say("hi")
	for _, tl := range one.model.requests()[0].Tools {
		if strings.Contains(tl.Name, ".") {
			t.Errorf("the model sees %q", tl.Name)
		}
	}
	if _, err := New(Options{Models: newFake(), Tools: setOf(t, echoTool(t, func(tl *tool.Tool) { tl.Name = "tape_info" }))}); err == nil {
		t.Error("names clash and nobody says so")
	}
}

// AG-62
func TestTheDefaultToolsOnlyRead(t *testing.T) {
	w := newWorld(t, newFake(answers("ok")), Options{Skills: skill.New(nil)})
	var names []string
	for _, tl := range w.Tools().Tools() {
		names = append(names, tl.Name)
	}
	if diff := cmp.Diff([]string{"fs.list", "fs.read", "skill", "spill.read", "subagent", "tape.anchors", "tape.handoff", "tape.info", "tape.search"}, names); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "a.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.model.script = []say{calls("", `c1:fs_read:{"path":"a.txt"}`, `c2:fs_read:{"path":"../../etc/passwd"}`), answers("ok")}
	results := map[string]string{}
	for _, e := range w.say("read").events {
		for _, r := range e.Results {
			results[r.ID] = r.Text()
		}
	}
	if !strings.Contains(results["c1"], "hello") || !strings.Contains(results["c2"], "error") || strings.Contains(results["c2"], "root") {
		t.Errorf("%q", results)
	}
	if bare := newWorld(t, newFake(answers("ok")), Options{Bare: true}).Tools().Tools(); len(bare) > 0 {
		t.Error(bare)
	}
}

// TA-08: what is known of a message stands before its words, but the session is called by these.
func TestASessionIsCalledByTheWordsOfItsFirstMessage(t *testing.T) {
	for name, e := range map[string]turn.Envelope{
		"words alone": {Content: "Hello  there\nall"},
		"facts":       {Content: "Hello  there\nall", Context: []turn.Fact{{Key: "from", Value: "Ann"}}},
		"media":       {Content: "Hello  there\nall", Media: []turn.Media{{Type: "image", URL: "https://x/y.png"}}},
		"words of others": { // DC-07: of a group
			Content: "[earlier]\n> x\n\nHello there all", Context: []turn.Fact{{Key: "a", Value: "b"}}, OwnWords: new("Hello there all"),
		},
		"facts and media": {Content: "Hello there all", Context: []turn.Fact{{Key: "a", Value: "b"}}, Media: []turn.Media{{Type: "image", URL: "https://x/y.png"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newFake(answers("one"), answers("two")), Options{})
			e.SessionID = "s"
			if h := w.process(t.Context(), &e); h.err != nil {
				t.Fatal(h.err)
			}
			w.process(t.Context(), &turn.Envelope{SessionID: "s", Content: "another", Context: []turn.Fact{{Key: "from", Value: "Ann"}}})
			for e, err := range w.tape().Read(t.Context(), tape.Query{Kinds: []tape.Kind{tape.KindMessage}, Newest: true}) { // DC-07: each has its own
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(e.Payload), "another") && tape.MetaOf(e).Title != "another" {
					t.Errorf("%s", e.Meta)
				}
			}
			info, err := w.tape().Info(t.Context())
			if err != nil || info.Title != "Hello there all" {
				t.Errorf("%q, %v", info.Title, err)
			}
		})
	}
}
