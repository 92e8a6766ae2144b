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

// calls are what the commands were called with.
type calls []string

// funcs returns functions for all commands, which return the text and the error.
func (c *calls) funcs(text string, err error) map[string]command.Func {
	funcs := map[string]command.Func{}
	for _, one := range command.New().Commands(tool.Admin) {
		if one.Name != "help" {
			funcs[one.Name] = func(_ context.Context, args command.Args) (string, error) {
				*c = append(*c, fmt.Sprint(one.Name, " ", map[string]string(args)))
				return text, err
			}
		}
	}
	return funcs
}

func run(t *testing.T, set command.Set, funcs map[string]command.Func, role tool.Role, text string) command.Reply {
	t.Helper()
	m, ok := set.Match(text)
	if !ok {
		t.Fatalf("%q is no command", text)
	}
	return set.Run(t.Context(), funcs, role, m)
}

// AG-50, AG-52
func TestACommandGetsItsArguments(t *testing.T) {
	for text, want := range map[string]string{
		",tape.info": "tape.info map[]",
		`,tape.handoff "lunch" summary='we decided on pizza'`: "tape.handoff map[name:lunch summary:we decided on pizza]",
		",tape.handoff lunch": "tape.handoff map[name:lunch]",
		",tape.handoff name=lunch summary=we decided  on pizza": "tape.handoff map[name:lunch summary:we decided on pizza]",
		",tape.search 天气 今天":                                    "tape.search map[query:天气 今天]",
		",approve c1 remember=session":                          "approve map[id:c1 remember:session]",
		`,deny c1 reason=too dangerous`:                         "deny map[id:c1 reason:too dangerous]",
		`,deny id=c1`:                                           "deny map[id:c1]",
		"，Tape_Fork\n2":                                         "tape.fork map[at:2]",
	} {
		var got calls
		r := run(t, command.New(), got.funcs("done", nil), tool.Admin, text)
		if r.Status != command.OK || r.Err != nil || r.Output != "done" || strings.ToLower(r.Name) != r.Name {
			t.Errorf("got %+v", r)
		}
		if diff := cmp.Diff(calls{want}, got); diff != "" {
			t.Error(diff)
		}
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
		var got calls
		r := run(t, set, got.funcs("", nil), tool.User, text)
		if diff := cmp.Diff(want, r.Output); diff != "" {
			t.Error(diff)
		}
		if r.Status != command.Failed || r.Err != nil || got != nil {
			t.Errorf("%q: %+v, %q", text, r, got)
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
			var got calls
			r := run(t, set, got.funcs("", nil), role, ","+name+" role=admin")
			if refused := r.Status == command.Refused; refused != (role < needed) {
				t.Errorf("%s as %s: %+v", name, role, r)
			}
			if role < needed && (got != nil || r.Output != fmt.Sprintf("`,%s` needs the role %s; yours is %s.", name, needed, role)) {
				t.Errorf("%s as %s: %+v, %q", name, role, r, got)
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
	} {
		var got calls
		r := run(t, set, got.funcs("", nil), tool.Admin, text)
		if diff := cmp.Diff(want, r.Output); diff != "" {
			t.Error(diff)
		}
		if r.Status != command.Failed || got != nil {
			t.Errorf("%q: %+v %q", text, r, got)
		}
	}
}

// TURN 8.9: what went wrong is for the log, unless the command says it for people.
func TestErrorsOfCommandsAreToldApart(t *testing.T) {
	set := command.New()
	var ignored calls
	secret := errors.New("open /srv/secret: no space left")
	r := run(t, set, ignored.funcs("", secret), tool.Admin, ",model")
	if r.Status != command.Failed || r.Output != "`,model` failed because of an internal error." || !errors.Is(r.Err, secret) {
		t.Errorf("%+v", r)
	}
	r = run(t, set, ignored.funcs("", fmt.Errorf("session: %w", &command.Error{Message: "there is no such thing", Cause: secret})), tool.Admin, ",model")
	if r.Status != command.Failed || r.Output != "There is no such thing." || !errors.Is(r.Err, secret) {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, _ := set.Match(",model")
	if r := set.Run(ctx, ignored.funcs("", ctx.Err()), tool.User, m); r.Output != "`,model` was canceled." || r.Err == nil {
		t.Errorf("%+v", r)
	}
	if r := set.Run(t.Context(), ignored.funcs("", context.DeadlineExceeded), tool.User, m); r.Output != "`,model` took too long and was stopped." {
		t.Errorf("%+v", r)
	}
}

func TestTheLengthAndTheTimeOfAReplyAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		funcs := map[string]command.Func{"model": func(context.Context, command.Args) (string, error) {
			time.Sleep(3 * time.Second)
			return strings.Repeat("天", 10_000), nil
		}}
		r := run(t, command.New(), funcs, tool.User, ",model")
		if len(r.Output) > 16<<10 || len(r.Output) < 16<<10-6 || !utf8.ValidString(r.Output) || !strings.HasSuffix(r.Output, "天…") {
			t.Errorf("%d bytes, ending in %q", len(r.Output), r.Output[len(r.Output)-9:])
		}
		if r.Elapsed != 3*time.Second {
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
