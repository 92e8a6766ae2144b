package command_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/tool"
)

// session writes down what is asked of it.
type session struct {
	calls []string
	err   error
	text  string // of a skill
	empty bool
	delay time.Duration
}

var day = time.Date(2026, 3, 1, 9, 0, 0, 0, time.FixedZone("", 3600))

func (s *session) call(format string, args ...any) error {
	time.Sleep(s.delay) // in a bubble
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	return s.err
}

func list[T any](s *session, items ...T) []T {
	if s.empty {
		return nil
	}
	return items
}

func (s *session) Info(context.Context) (command.Info, error) {
	i := command.Info{
		Session: "telegram:42", Tape: "99f5e6effb96d7b9__bd8cdd776d6ba381", Model: "demo:fast", Entries: 12, Anchors: 2, LastAnchor: "lunch",
		Since: 1, Tokens: 345, Created: day, Active: day.Add(time.Hour),
	}
	if s.empty {
		i = command.Info{Session: "web:1", Tape: "t", Entries: 1}
	}
	return i, s.call("info")
}

func (s *session) Anchors(_ context.Context, limit int) ([]command.Anchor, error) {
	return list(s, command.Anchor{ID: 7, Name: "lunch\nbreak", Date: day}, command.Anchor{ID: 1, Name: "session/start", Date: day}), s.call("anchors %d", limit)
}

func (s *session) Handoff(_ context.Context, name, summary string) (int64, error) {
	return 13, s.call("handoff %q %q", name, summary)
}

func (s *session) Search(_ context.Context, query string, limit int) ([]command.Hit, error) {
	return list(s, command.Hit{ID: 4, Kind: "message", Date: day, Excerpt: "今天\n天气很好 " + strings.Repeat("好", 300)}), s.call("search %q %d", query, limit)
}

func (s *session) Model(context.Context) (string, []string, error) {
	return "demo:fast", list(s, "demo:demo", "openai:gpt-4o"), s.call("model")
}

func (s *session) SetModel(_ context.Context, name string) error { return s.call("set model %q", name) }

func (s *session) Tools(context.Context) ([]command.Tool, error) {
	return list(s, command.Tool{Name: "fs.read", Description: "Reads\na file."}, command.Tool{Name: "fs.write", Asks: true}), s.call("tools")
}

func (s *session) Skills(context.Context) ([]command.Skill, error) {
	return list(s, command.Skill{Name: "pdf", Description: "How to fill forms."}), s.call("skills")
}

func (s *session) Skill(_ context.Context, name string) (string, error) {
	return s.text, s.call("skill %q", name)
}

func (s *session) Servers(context.Context) ([]command.Server, error) {
	return list(s, command.Server{Name: "files", State: "connected", Tools: 1}, command.Server{Name: "web", State: "trying again"}), s.call("servers")
}

func (s *session) Remembered(context.Context) ([]string, error) {
	return list(s, "fs.write"), s.call("remembered")
}

func (s *session) AskAgain(_ context.Context, name string) error { return s.call("ask again %q", name) }

func (s *session) Stop(context.Context) (int, error) {
	if s.empty {
		return 0, s.call("stop")
	}
	return 2, s.call("stop")
}

func (s *session) Decide(_ context.Context, d command.Decision) error { return s.call("decide %+v", d) }

func (s *session) Fork(_ context.Context, at int64) (string, error) {
	return "telegram:42-fork", s.call("fork %d", at)
}

func (s *session) Export(context.Context) (command.Exported, error) {
	return command.Exported{Name: "42.jsonl", Entries: 12, Bytes: 3456}, s.call("export")
}
func (s *session) Forget(context.Context) error { return s.call("forget") }

func run(t *testing.T, set *command.Set, s command.Session, role tool.Role, text string) command.Reply {
	t.Helper()
	m, ok := set.Match(text)
	if !ok {
		t.Fatalf("%q is no command", text)
	}
	return set.Run(t.Context(), s, role, m)
}

// AG-50, AG-52
func TestEveryCommandAsksTheSessionAndSaysWhatCame(t *testing.T) {
	for _, c := range []struct {
		name, text string
		empty      bool
		want       string
		calls      []string
	}{
		{"info", ",tape.info", false, "session: telegram:42\ntape: 99f5e6effb96d7b9__bd8cdd776d6ba381\nmodel: demo:fast\nentries: 12\nanchors: 2\n" +
			"last anchor: lunch, 1 entry ago\ntokens of the last turn: 345\nbegun: 2026-03-01 08:00:00Z\nlast activity: 2026-03-01 09:00:00Z", []string{"info"}},
		{"info of a new session", ",tape.info", true, "session: web:1\ntape: t\nentries: 1\nanchors: 0", []string{"info"}},
		{"anchors", ",tape.anchors", false, "- #7 2026-03-01 08:00:00Z lunch break\n- #1 2026-03-01 08:00:00Z session/start", []string{"anchors 20"}},
		{"no anchors", ",tape.anchors", true, "There are no anchors.", []string{"anchors 20"}},
		{"handoff", `,tape.handoff "lunch break" summary='we decided on pizza'`, false, "Anchor `lunch break` is entry #13: the model sees the conversation from there.", []string{`handoff "lunch break" "we decided on pizza"`}},
		{"handoff without a summary", ",tape.handoff lunch", false, "Anchor `lunch` is entry #13: the model sees the conversation from there.", []string{`handoff "lunch" ""`}},
		{"handoff with names, and no quotes", ",tape.handoff name=lunch summary=we decided  on pizza", false, "Anchor `lunch` is entry #13: the model sees the conversation from there.", []string{`handoff "lunch" "we decided on pizza"`}},
		{"search", ",tape.search 天气 Rome", false, "- #4 2026-03-01 08:00:00Z message: 今天 天气很好 " + strings.Repeat("好", 192) + "…", []string{`search "天气 Rome" 20`}},
		{"search for a name", ",tape.search query=x", true, "No entries match.", []string{`search "x" 20`}},
		{"model", ",model", false, "`demo:fast` answers. You can also choose:\n- demo:demo\n- openai:gpt-4o", []string{"model"}},
		{"the only model", ",model", true, "`demo:fast` answers.", []string{"model"}},
		{"another model", ",model openai:gpt-4o", false, "`openai:gpt-4o` now answers in this session.", []string{`set model "openai:gpt-4o"`}},
		{"tools", ",tools", false, "- `fs.read`: Reads a file.\n- `fs.write` (asks)", []string{"tools"}},
		{"what is approved", ",ask", false, "- `fs.write`", []string{"remembered"}},
		{"nothing is approved", ",ask", true, "No tool is approved for this session.", []string{"remembered"}},
		{"ask again", ",ask fs.write", false, "The agent asks again before it calls `fs.write`.", []string{"remembered", `ask again "fs.write"`}},
		{"no tools", ",tools", true, "The agent has no tools.", []string{"tools"}},
		{"skills", ",skill", false, "- `pdf`: How to fill forms.", []string{"skills"}},
		{"no skills", ",skill", true, "The agent has no skills.", []string{"skills"}},
		{"a skill", ",skill pdf", false, "# Forms\n\nOpen them.", []string{`skill "pdf"`}},
		{"stop", ",stop", false, "Stopped 2 turns.", []string{"stop"}},
		{"stop when nothing runs", ",stop", true, "No answer is running.", []string{"stop"}},
		{"approve", ",approve c1", false, "Approved the call of question `c1`.", []string{"decide {ID:c1 Approve:true Reason: Remember:false}"}},
		{"approve and remember", ",approve c1 remember=session", false, "Approved the call of question `c1`, and other calls of this tool in this session.", []string{"decide {ID:c1 Approve:true Reason: Remember:true}"}},
		{"deny", `,deny c1 reason=too dangerous`, false, "Denied the call of question `c1`.", []string{"decide {ID:c1 Approve:false Reason:too dangerous Remember:false}"}},
		{"deny without a reason", `,deny id=c1`, false, "Denied the call of question `c1`.", []string{"decide {ID:c1 Approve:false Reason: Remember:false}"}},
		{"fork", ",tape.fork", false, "The new session `telegram:42-fork` has all entries.", []string{"fork 0"}},
		{"fork at an entry", ",tape.fork at=#7", false, "The new session `telegram:42-fork` has all entries up to #7.", []string{"fork 7"}},
		{"mcp", ",mcp", false, "- `files` connected, 1 tool\n- `web` trying again, 0 tools", []string{"servers"}},
		{"no mcp", ",mcp", true, "There are no MCP servers.", []string{"servers"}},
		{"export", ",tape.export", false, "Wrote 12 entries (3456 bytes) to the file `42.jsonl`.", []string{"export"}},
		{"the comma of a Chinese keyboard, capitals and an underscore", "，Tape_Fork\n7", false, "The new session `telegram:42-fork` has all entries up to #7.", []string{"fork 7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &session{empty: c.empty, text: "# Forms\n\nOpen them."}
			r := run(t, command.New(), s, tool.Admin, c.text)
			if r.Status != command.OK || r.Err != nil || r.Name == "" || strings.ToLower(r.Name) != r.Name {
				t.Errorf("got %+v", r)
			}
			if diff := cmp.Diff(c.want, r.Output); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.calls, s.calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// AG-50: other text with a comma is ordinary text.
func TestOrdinaryTextIsNoCommand(t *testing.T) {
	set := command.New()
	for _, text := range []string{
		"", ",", ", help", " ,help", "help", "hello, help", ",,help", ",help!", ",stop,", ",天气", ",123", ",.", ",and then?", ",to be or not to be",
		", and then", ",-", ",weather in Rome", ",no", ",so", ";help", "/help", ",hellothere", "\n,help", "," + strings.Repeat("a", 100), ",help\x00",
	} {
		if m, ok := set.Match(text); ok {
			t.Errorf("%q is taken for %+v", text, m)
		}
	}
}

// AG-51
func TestASlipInTheNameIsAnsweredWithTheCommand(t *testing.T) {
	set := command.New()
	for text, want := range map[string]string{
		",hlep":           "Unknown command `,hlep`. Did you mean `,help [command]`?",
		",Help_":          "Unknown command `,Help_`. Did you mean `,help [command]`?",
		",tape.inf":       "Unknown command `,tape.inf`. Did you mean `,tape.info`?",
		",info":           "Unknown command `,info`. Did you mean `,tape.info`?",
		",search weather": "Unknown command `,search`. Did you mean `,tape.search <query>`?",
		",skills":         "Unknown command `,skills`. Did you mean `,skill [name]`?",
		",aprove c1":      "Unknown command `,aprove`. Did you mean `,approve <id> [remember]`?",
		",forgot":         "Unknown command `,forgot`. `,help` lists the commands.", // which an admin may run, and this is a user
	} {
		s := &session{}
		r := run(t, set, s, tool.User, text)
		if diff := cmp.Diff(want, r.Output); diff != "" {
			t.Error(diff)
		}
		if r.Status != command.Failed || r.Err != nil || s.calls != nil {
			t.Errorf("%q: %+v, %q", text, r, s.calls)
		}
	}
}

// AG-51: each command has the role of AG-52, whatever the text says of one.
func TestTooLowARoleIsRefused(t *testing.T) {
	set := command.New()
	roles := map[string]tool.Role{}
	for _, c := range set.Commands(tool.Admin) {
		roles[c.Name] = c.Role
	}
	want := map[string]tool.Role{
		"help": 0, "tape.info": 0, "tape.anchors": 0, "tape.handoff": 0, "tape.search": 0, "model": 0, "tools": 0, "skill": 0, "stop": 0, "approve": 0, "deny": 0, "ask": 0,
		"tape.fork": tool.Operator, "mcp": tool.Operator, "tape.export": tool.Admin, "forget": tool.Admin,
	}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Fatal(diff)
	}
	for name, needed := range want {
		for _, role := range []tool.Role{tool.User, tool.Operator, tool.Admin} {
			s := &session{}
			r := run(t, set, s, role, ","+name+" role=admin")
			if refused := r.Status == command.Refused; refused != (role < needed) {
				t.Errorf("%s as %s: %+v", name, role, r)
			}
			if role < needed && (s.calls != nil || r.Output != fmt.Sprintf("`,%s` needs the role %s; yours is %s.", name, needed, role)) {
				t.Errorf("%s as %s: %+v, %q", name, role, r, s.calls)
			}
		}
	}
}

// TU-65
func TestFourCommandsAreAnsweredBesideTheLane(t *testing.T) {
	set := command.New()
	var beside []string
	for _, c := range set.Commands(tool.Admin) {
		if m, ok := set.Match("," + c.Name); !ok || m.Beside() != c.Beside {
			t.Errorf("%s: %+v, %t", c.Name, m, ok)
		}
		if c.Beside {
			beside = append(beside, c.Name)
		}
	}
	if diff := cmp.Diff([]string{"help", "stop", "approve", "deny"}, beside); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]bool{",stpo": true, ",tape.inof": false} {
		if m, ok := set.Match(text); !ok || m.Beside() != want {
			t.Errorf("%s: %+v", text, m)
		}
	}
	if (command.Match{}).Beside() {
		t.Error("nothing is beside the lane")
	}
}

func TestHelpShowsWhatThePersonMayRun(t *testing.T) {
	set := command.New()
	for role, want := range map[tool.Role]string{
		tool.User: "`,help [command]` list the commands, or explain one\n" +
			"`,tape.info` show the length of this conversation and what the model sees\n" +
			"`,tape.anchors` list the anchors, where the model's memory starts, newest first\n" +
			"`,tape.handoff <name> [summary]` start a new phase: the model sees only the summary and what follows\n" +
			"`,tape.search <query>` find entries of the conversation that have all these words\n" +
			"`,model [name]` show the model, or choose another one\n" +
			"`,tools` list the agent's tools\n" +
			"`,skill [name]` list the agent's skills, or show one\n" +
			"`,stop` stop the current answer and waiting messages\n" +
			"`,approve <id> [remember]` approve a tool call; remember=session approves the tool for this session\n" +
			"`,deny <id> [reason]` deny a tool call\n" +
			"`,ask [tool]` list the tools that are approved for this session, or ask again before calls of one",
		tool.Operator: "\n`,tape.fork [at]` fork this session, up to an entry or completely\n`,mcp` list the MCP servers and their state",
		tool.Admin:    "\n`,tape.export` write the conversation to a file on the server\n`,forget [code]` erase this session, after a confirmation",
	} {
		r := run(t, set, nil, role, ",help")
		if !strings.HasSuffix(r.Output, want) || role == tool.User && r.Output != want {
			t.Errorf("%s: %s", role, r.Output)
		}
	}
	for text, want := range map[string]string{
		",help ,deny":      "`,deny <id> [reason]`\nDeny a tool call. Write arguments in this order, or by name, such as `reason=…`. Put text with spaces in quotes.",
		",help tape_info":  "`,tape.info`\nShow the length of this conversation and what the model sees.",
		",help stpo":       "Unknown command `,stpo`; did you mean `,stop`?",
		",help forget":     "Unknown command `,forget`; `,help` lists your commands.",
		",help forgot":     "Unknown command `,forgot`; `,help` lists your commands.",
		",help '天气 now'":   "Unknown command `,天气 now`; `,help` lists your commands.",
		",help stop now":   "Unexpected argument \"now\". Write `,help [command]`.",
		",help command=''": "`,help [command]` list the commands",
	} {
		if r := run(t, set, nil, tool.User, text); !strings.HasPrefix(r.Output, want) {
			t.Errorf("%s: %s", text, r.Output)
		}
	}
	if r := run(t, set, nil, tool.Admin, ",help forget"); !strings.HasSuffix(r.Output, "It needs the role admin.") {
		t.Error(r.Output)
	}
}

func TestWrongArgumentsAreSaid(t *testing.T) {
	set := command.New()
	for text, want := range map[string]string{
		",tape.info now":                          "Unexpected argument \"now\". Write `,tape.info`.",
		",tape.handoff":                           "The argument \"name\" is missing. Write `,tape.handoff <name> [summary]`.",
		",tape.handoff ' '":                       "The argument \"name\" is missing. Write `,tape.handoff <name> [summary]`.",
		",tape.handoff a name=b":                  "The argument \"name\" occurs twice; remove one. Write `,tape.handoff <name> [summary]`.",
		",tape.handoff summary= name=a summary=b": "The argument \"summary\" occurs twice; remove one. Write `,tape.handoff <name> [summary]`.",
		",tape.handoff nam=a":                     "`,tape.handoff` has no argument \"nam\" (to use the word as text, put it in quotes). Write `,tape.handoff <name> [summary]`.",
		",tape.handoff name=a b":                  "\"b\" follows name= without a name; put a value with spaces in quotes. Write `,tape.handoff <name> [summary]`.",
		",tape.handoff \"a\nb\"":                  "Invalid name; expected at most 128 bytes without line breaks.",
		",tape.search query='it is not":           "The quote that starts at \"'it is not\" has no end; write \\' for the character itself. Write `,tape.search <query>`.",
		",tape.search \"a\\\"":                    "The quote that starts at \"\\\"a\\\\\\\"\" has no end; write \\\" for the character itself. Write `,tape.search <query>`.",
		",tape.search a\\":                        "The text ends with a backslash; write \\\\ for a backslash. Write `,tape.search <query>`.",
		",tape.fork 0":                            "\"0\" is not an entry; expected a number that `,tape.search` shows.",
		",tape.fork ten":                          "\"ten\" is not an entry; expected a number that `,tape.search` shows.",
		",approve c1 remember=always":             "Remember is \"always\"; expected remember=session, or nothing.",
	} {
		s := &session{}
		r := run(t, set, s, tool.Admin, text)
		if diff := cmp.Diff(want, r.Output); diff != "" {
			t.Error(diff)
		}
		if r.Status != command.Failed || s.calls != nil {
			t.Errorf("%q: %+v %q", text, r, s.calls)
		}
	}
}

// TURN 8.9: what went wrong is for the log, unless the session says it for people.
func TestErrorsOfTheSessionAreToldApart(t *testing.T) {
	set := command.New()
	commands := []string{
		",tape.info", ",tape.anchors", ",tape.handoff a", ",tape.search a", ",model", ",model a", ",tools", ",skill", ",skill a", ",stop", ",approve a", ",deny a",
		",tape.fork", ",mcp", ",tape.export", ",forget",
	}
	secret := errors.New("open /srv/secret: no space left")
	for _, text := range commands {
		name, _, _ := strings.Cut(text[1:], " ")
		r := run(t, set, &session{err: secret}, tool.Admin, text)
		if r.Status != command.Failed || r.Output != fmt.Sprintf("`,%s` failed because of an internal error.", name) || !errors.Is(r.Err, secret) {
			t.Errorf("%s: %+v", text, r)
		}
		r = run(t, set, &session{err: fmt.Errorf("session: %w", &command.Error{Message: "there is no such thing", Cause: secret})}, tool.Admin, text)
		if r.Status != command.Failed || r.Output != "There is no such thing." || !errors.Is(r.Err, secret) {
			t.Errorf("%s: %+v", text, r)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, _ := set.Match(",tools")
	if r := set.Run(ctx, &session{err: ctx.Err()}, tool.User, m); r.Output != "`,tools` was canceled." || r.Err == nil {
		t.Errorf("%+v", r)
	}
	if r := set.Run(t.Context(), &session{err: context.DeadlineExceeded}, tool.User, m); r.Output != "`,tools` took too long and was stopped." {
		t.Errorf("%+v", r)
	}
}

// AG-52
func TestForgetAsksOnceMore(t *testing.T) {
	set, s := command.New(), &session{}
	asked := run(t, set, s, tool.Admin, ",forget")
	const code = "524b09"
	want := "This erases the session `telegram:42` with 12 entries, and all its forks. You cannot undo this. Write `,forget " + code + "` to confirm."
	if diff := cmp.Diff(want, asked.Output); diff != "" {
		t.Error(diff)
	}
	for _, wrong := range []string{"yes", "000000", code + "0"} {
		if r := run(t, set, s, tool.Admin, ",forget "+wrong); r.Status != command.Failed || !strings.HasPrefix(r.Output, "Wrong code for this session; nothing was erased.") {
			t.Errorf("%+v", r)
		}
	}
	if other := run(t, set, &session{empty: true}, tool.Admin, ",forget "+code); other.Status != command.Failed {
		t.Errorf("the code of one session erases another: %+v", other)
	}
	if strings.Contains(strings.Join(s.calls, " "), "forget") {
		t.Fatal("it was erased")
	}
	if r := run(t, set, s, tool.Admin, ",forget "+strings.ToUpper(code)); r.Status != command.OK || r.Output != "The session was erased." {
		t.Errorf("%+v", r)
	}
	if s.calls[len(s.calls)-1] != "forget" {
		t.Errorf("%q", s.calls)
	}
	if r := run(t, set, s, tool.Operator, ",forget "+code); r.Status != command.Refused {
		t.Errorf("%+v", r)
	}
}

func TestARepliesLengthAndTimeAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{text: strings.Repeat("天", 10_000), delay: 3 * time.Second}
		r := run(t, command.New(), s, tool.User, ",skill long")
		if len(r.Output) > 16<<10 || len(r.Output) < 16<<10-6 || !utf8.ValidString(r.Output) || !strings.HasSuffix(r.Output, "天…") {
			t.Errorf("%d bytes, ending in %q", len(r.Output), r.Output[len(r.Output)-9:])
		}
		if r.Elapsed != 3*time.Second {
			t.Error(r.Elapsed)
		}
	})
}

func TestCommandsCanBeAdded(t *testing.T) {
	set := command.New(command.Command{
		Name: "session.why", Role: tool.Operator, Help: "why", Params: []command.Param{{Name: "turn"}},
		Run: func(_ context.Context, _ command.Session, role tool.Role, a command.Args) (string, error) {
			return role.String() + " asks for " + a.Get("turn") + a.Get("other"), nil
		},
	})
	if r := run(t, set, nil, tool.Operator, ",session.why TURN=7"); r.Output != "operator asks for 7" || r.Name != "session.why" {
		t.Errorf("%+v", r)
	}
	for name, c := range map[string]command.Command{"taken": {Name: "help"}, "none": {Name: ""}, "capitals": {Name: "Help"}, "with a space": {Name: "a b"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it is added", name)
				}
			}()
			command.New(c)
		}()
	}
}

func Example() {
	set := command.New()
	m, ok := set.Match(",help stop")
	if !ok {
		fmt.Println("ordinary text")
		return
	}
	reply := set.Run(context.Background(), nil, tool.User, m)
	fmt.Println(reply.Status, reply.Output)
	// Output:
	// ok `,stop`
	// Stop the current answer and waiting messages.
}
