package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/agent/skill"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
	"github.com/lingserve/lingserve/tool"
)

// session is a session with a tape. It writes down the other calls.
type session struct {
	tape    *tape.Tape
	library *skill.Library
	calls   []string
	err     error
	empty   bool
	delay   time.Duration
}

// newSession makes a session with two anchors and a message after each; an empty one has only the first anchor. The clock of the
// bubble begins on 2000-01-01.
func newSession(t *testing.T, empty bool) *session {
	t.Helper()
	tp, err := tape.Open(t.Context(), tapetest.NewMemory(nil), "/srv/agent", "telegram:42")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{tape: tp, empty: empty}
	if empty {
		return s
	}
	for _, text := range []string{"今天\n天气很好 " + strings.Repeat("好", 300), "pizza"} {
		if _, err := tp.Append(t.Context(), tape.NewMessage("user", text)); err != nil {
			t.Fatal(err)
		}
		if text == "pizza" {
			break
		}
		if _, err := tp.Handoff(t.Context(), "lunch", nil); err != nil {
			t.Fatal(err)
		}
	}
	s.library = newSkill(t, "pdf", "---\nname: pdf\ndescription: How to fill forms.\n---\n# Forms\n\nOpen them.")
	return s
}

// newSkill returns a library of one skill.
func newSkill(t *testing.T, name, text string) *skill.Library {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o700), os.WriteFile(filepath.Join(dir, name, skill.File), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return skill.New(nil, skill.Dir(dir, "."))
}

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

func (s *session) Tape(_ context.Context, create bool) (*tape.Tape, error) {
	return s.tape, s.call("tape %t", create)
}

func (s *session) Usage(context.Context) (tokens, cost int64, err error) {
	if s.empty {
		return 0, 0, s.err
	}
	return 345, 1_250_000, s.err
}

func (s *session) Model(context.Context) (string, []string, error) {
	return "demo:fast", list(s, "demo:demo", "openai:gpt-4o"), s.call("model")
}

func (s *session) SetModel(_ context.Context, name string) error { return s.call("set model %q", name) }

func (s *session) Tools() []*tool.Tool {
	return list(s, &tool.Tool{Name: "fs.read", Description: "Reads\na file."}, &tool.Tool{Name: "fs.write", Approval: tool.Always})
}

func (s *session) Skills() *skill.Library { return s.library }

func (s *session) Servers(context.Context) ([]command.Server, error) {
	return list(s, command.Server{Name: "files", State: "connected", Tools: 1}, command.Server{Name: "web", State: "trying again"}), s.call("servers")
}

func (s *session) Remembered(context.Context) ([]string, error) {
	return list(s, "fs.write"), s.call("remembered")
}

func (s *session) RevokeApproval(_ context.Context, name string) error {
	return s.call("ask again %q", name)
}

func (s *session) Stop() int {
	_ = s.call("stop")
	return len(list(s, 1, 2))
}

func (s *session) Decide(_ context.Context, d command.Decision) error { return s.call("decide %+v", d) }

func (s *session) Export(context.Context) (command.Exported, error) {
	return command.Exported{Name: "42.jsonl", Entries: 12, Bytes: 3456}, s.call("export")
}

func run(t *testing.T, set *command.Set, s command.Session, role tool.Role, text string) command.Reply {
	t.Helper()
	m, ok := set.Match(text)
	if !ok {
		t.Fatalf("%q is no command", text)
	}
	return set.Run(t.Context(), s, role, m)
}

// AG-50, AG-52
func TestCommandsAnswer(t *testing.T) {
	const anchored = "Anchor `lunch` is entry #%d: the model sees the conversation from there."
	const approved = "Approved the call of question `c1`"
	for _, c := range []struct {
		name, text string
		empty      bool
		want       string
		calls      []string
	}{
		{"info", ",tape.info", false, "session: telegram:42\ntape: 99f5e6effb96d7b9__bd8cdd776d6ba381\nmodel: demo:fast\nentries: 4\nanchors: 2\n" +
			"last anchor: lunch, 1 entry ago\ntokens of the last turn: 345\ncost so far: $1.2500\nbegun: 2000-01-01 00:00:00Z\nlast activity: 2000-01-01 00:00:00Z", nil},
		{"info of a new session", ",tape.info", true, "session: telegram:42\ntape: 99f5e6effb96d7b9__bd8cdd776d6ba381\nmodel: demo:fast\nentries: 1\nanchors: 1\n" +
			"last anchor: session/start, 0 entries ago\nbegun: 2000-01-01 00:00:00Z\nlast activity: 2000-01-01 00:00:00Z", nil},
		{"anchors", ",tape.anchors", false, "- #3 2000-01-01 00:00:00Z lunch\n- #1 2000-01-01 00:00:00Z session/start", nil},
		{"handoff", `,tape.handoff "lunch" summary='we decided on pizza'`, false, fmt.Sprintf(anchored, 5), nil},
		{"handoff without a summary", ",tape.handoff lunch", true, fmt.Sprintf(anchored, 2), []string{"tape true"}},
		{"handoff with names, and no quotes", ",tape.handoff name=lunch summary=we decided  on pizza", true, fmt.Sprintf(anchored, 2), nil},
		{"search", ",tape.search 天气 今天", false, "- #2 2000-01-01 00:00:00Z message: 今天 天气很好 " + strings.Repeat("好", 72), nil},
		{"search for a name", ",tape.search query=x", false, "No entries match.", nil},
		{"model", ",model", false, "`demo:fast` answers. You can also choose:\n- demo:demo\n- openai:gpt-4o", []string{"model"}},
		{"the only model", ",model", true, "`demo:fast` answers.", []string{"model"}},
		{"another model", ",model openai:gpt-4o", false, "`openai:gpt-4o` now answers in this session.", []string{`set model "openai:gpt-4o"`}},
		{"tools", ",tools", false, "- `fs.read`: Reads a file.\n- `fs.write` (asks)", nil},
		{"what is approved", ",ask", false, "- `fs.write`", []string{"remembered"}},
		{"nothing is approved", ",ask", true, "No tool is approved for this session.", []string{"remembered"}},
		{"ask again", ",ask fs.write", false, "The agent asks again before it calls `fs.write`.", []string{"remembered", `ask again "fs.write"`}},
		{"no tools", ",tools", true, "The agent has no tools.", nil},
		{"skills", ",skill", false, "- `pdf`: How to fill forms.", nil},
		{"no skills", ",skill", true, "The agent has no skills.", nil},
		{"a skill", ",skill pdf", false, "# Forms\n\nOpen them.", nil},
		{"stop", ",stop", false, "Stopped 2 turns.", []string{"stop"}},
		{"stop when nothing runs", ",stop", true, "No answer is running.", []string{"stop"}},
		{"approve", ",approve c1", false, approved + ".", []string{"decide {ID:c1 Approve:true Reason: Remember:false}"}},
		{"approve and remember", ",approve c1 remember=session", false, approved + ", and other calls of this tool in this session.", []string{"decide {ID:c1 Approve:true Reason: Remember:true}"}},
		{"deny", `,deny c1 reason=too dangerous`, false, "Denied the call of question `c1`.", []string{"decide {ID:c1 Approve:false Reason:too dangerous Remember:false}"}},
		{"deny without a reason", `,deny id=c1`, false, "Denied the call of question `c1`.", []string{"decide {ID:c1 Approve:false Reason: Remember:false}"}},
		{"fork", ",tape.fork", false, "The new session `telegram:42-fork-20000101-000000` has all entries.", nil},
		{"fork at an entry", ",tape.fork at=#2", false, "The new session `telegram:42-fork-20000101-000000` has all entries up to #2.", nil},
		{"mcp", ",mcp", false, "- `files` connected, 1 tool\n- `web` trying again, 0 tools", []string{"servers"}},
		{"no mcp", ",mcp", true, "There are no MCP servers.", []string{"servers"}},
		{"export", ",tape.export", false, "Wrote 12 entries (3456 bytes) to the file `42.jsonl`.", []string{"export"}},
		{"the comma of a Chinese keyboard, capitals and an underscore", "，Tape_Fork\n2", false, "The new session `telegram:42-fork-20000101-000000` has all entries up to #2.", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSession(t, c.empty)
				r := run(t, command.New(), s, tool.Admin, c.text)
				if r.Status != command.OK || r.Err != nil || r.Name == "" || strings.ToLower(r.Name) != r.Name {
					t.Errorf("got %+v", r)
				}
				if diff := cmp.Diff(c.want, r.Output); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(c.calls, s.calls); c.calls != nil && diff != "" {
					t.Error(diff)
				}
			})
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
			s := newSession(t, true)
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
		if m, ok := set.Match("," + c.Name); !ok || m.Immediate() != c.Immediate {
			t.Errorf("%s: %+v, %t", c.Name, m, ok)
		}
		if c.Immediate {
			beside = append(beside, c.Name)
		}
	}
	if diff := cmp.Diff([]string{"help", "stop", "approve", "deny"}, beside); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]bool{",stpo": true, ",tape.inof": false} {
		if m, ok := set.Match(text); !ok || m.Immediate() != want {
			t.Errorf("%s: %+v", text, m)
		}
	}
	if (command.Match{}).Immediate() {
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
		",tape.info", ",tape.anchors", ",tape.handoff a", ",tape.search a", ",model", ",model a", ",approve a", ",deny a",
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
	m, _ := set.Match(",model")
	if r := set.Run(ctx, &session{err: ctx.Err()}, tool.User, m); r.Output != "`,model` was canceled." || r.Err == nil {
		t.Errorf("%+v", r)
	}
	if r := set.Run(t.Context(), &session{err: context.DeadlineExceeded}, tool.User, m); r.Output != "`,model` took too long and was stopped." {
		t.Errorf("%+v", r)
	}
}

// AG-52
func TestForgetAsksOnceMore(t *testing.T) {
	set, s := command.New(), newSession(t, false)
	asked := run(t, set, s, tool.Admin, ",forget").Output
	before, rest, _ := strings.Cut(asked, "`,forget ")
	code, after, _ := strings.Cut(rest, "`")
	if before != "This erases the session `telegram:42` with 4 entries, and all its forks. You cannot undo this. Write " || after != " to confirm." {
		t.Error(asked)
	}
	for _, wrong := range []string{"yes", "0", code + "0"} {
		if r := run(t, set, s, tool.Admin, ",forget "+wrong); r.Status != command.Failed || !strings.HasPrefix(r.Output, "Wrong code for this session; nothing was erased.") {
			t.Errorf("%+v", r)
		}
	}
	if other := run(t, set, newSession(t, true), tool.Admin, ",forget "+code); other.Status != command.Failed {
		t.Errorf("the code of one session erases another: %+v", other)
	}
	if r := run(t, set, s, tool.Operator, ",forget "+code); r.Status != command.Refused {
		t.Errorf("%+v", r)
	}
	if r := run(t, set, s, tool.Admin, ",forget "+strings.ToUpper(code)); r.Status != command.OK || r.Output != "The session was erased." {
		t.Errorf("%+v", r)
	}
	if _, err := s.tape.Info(t.Context()); !errors.Is(err, tape.ErrDeleted) {
		t.Error(err)
	}
}

func TestTheLengthAndTheTimeOfAReplyAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t, true)
		s.delay = 3 * time.Second
		s.library = newSkill(t, "long", "---\nname: long\ndescription: x\n---\n"+strings.Repeat("天", 10_000))
		r := run(t, command.New(), s, tool.User, ",skill long")
		if len(r.Output) > 16<<10 || len(r.Output) < 16<<10-6 || !utf8.ValidString(r.Output) || !strings.HasSuffix(r.Output, "天…") {
			t.Errorf("%d bytes, ending in %q", len(r.Output), r.Output[len(r.Output)-9:])
		}
		if r := run(t, command.New(), s, tool.User, ",model"); r.Elapsed != 3*time.Second {
			t.Error(r.Elapsed)
		}
	})
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
