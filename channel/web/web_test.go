package web_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/web"
	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tool"
)

func TestMain(m *testing.M) { longtest.Main(m) }

// CH-151
func TestANameReachesNoSessionOfAnotherPrincipal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Principals and names of few letters, the marks of keys among them, so that some could be taken for others.
		text := rapid.OneOf(
			rapid.StringOfN(rapid.SampledFrom([]rune("ab#:~@!%2 é")), 1, 6, -1),
			rapid.StringN(1, 600, 600),
		)
		alice, bob := text.Draw(t, "principal"), text.Draw(t, "other principal")
		x, y := text.Draw(t, "name"), text.Draw(t, "other name")
		a, b := web.SessionKey(alice, x), web.SessionKey(bob, y)
		if same := alice == bob && x == y; (a == b) != same {
			t.Fatalf("%q of %q is %q, and %q of %q is %q", x, alice, a, y, bob, b)
		}
		if err := tape.CheckSession(a); err != nil {
			t.Fatalf("%q: %v", a, err)
		}
	})
	if got := web.SessionKey("alice", "s-42"); got != "web:alice#s-42" {
		t.Errorf("got %q", got)
	}
	if got := web.SessionKey("", "any name: #1"); got != "any name: #1" {
		t.Errorf("got %q; where there is one user, a name stands for itself", got)
	}
}

// dispatched keeps the turn that it was given.
type dispatched struct{ turn *channel.Turn }

func (d *dispatched) to(_ context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	d.turn = t
	t.Queued()
	return channel.DispatchResult{NoReply: true}, nil
}

// CH-06, CH-151, CH-152
func TestAMessageIsATurnOfItsRun(t *testing.T) {
	for name, tt := range map[string]struct {
		message                      web.Message
		id, sender, session, content string
		command                      bool
	}{
		"of nobody in particular":    {web.Message{Session: "s", Run: "r", Agent: "a", Text: "hello"}, "r", "local", "s", "hello", false},
		"of a principal":             {web.Message{Principal: "alice", Session: "s-42", Run: "r", Agent: "a", Text: "hello"}, "r", "alice", "web:alice#s-42", "hello", false},
		"with a key":                 {web.Message{Session: "s", Run: "r", Key: "k", Agent: "a", Text: "hello"}, "k", "local", "s", "hello", false},
		"with characters of control": {web.Message{Session: "s", Run: "r", Agent: "a", Text: "one\r\ntwo\x1b[2J"}, "r", "local", "s", "one\ntwo[2J", false},
		"a command":                  {web.Message{Session: "s", Run: "r", Agent: "a", Text: ",help"}, "r", "local", "s", ",help", true},
		"a workflow's comma":         {web.Message{Session: "s", Run: "r", Agent: "a", Text: ",help", Workflow: true}, "r", "local", "s", ",help", false},
	} {
		t.Run(name, func(t *testing.T) {
			var d dispatched
			m := tt.message
			m.Dispatch = d.to
			r, err := web.Run(t.Context(), web.NewKernel(nil), &m)
			if err != nil || r.Outcome != channel.OutcomeSilent || r.TurnID != "r" || r.SessionKey != tt.session || d.turn == nil {
				t.Fatalf("%+v %v", r, err)
			}
			c := d.turn.Context
			if d.turn.ID != "r" || d.turn.SessionKey != tt.session || c.Channel != "web" || c.ChatType != channel.Direct ||
				c.MessageID != tt.id || c.SenderID != tt.sender || c.BodyForAgent != tt.content || c.AgentID != "a" || c.Timestamp.IsZero() {
				t.Errorf("%+v %+v", d.turn, c)
			}
			if c.CommandAuthorized != tt.command || c.HasRole == m.Workflow || c.Role != tool.User {
				t.Errorf("a command: %v, the role %v", c.CommandAuthorized, c.Role)
			}
		})
	}
}

// kernelWith has settings of the channel as a configuration would write them.
func kernelWith(t *testing.T, place channel.Place) *kernel.Kernel {
	t.Helper()
	tree, err := channel.NewTree(channel.Configuration{{Channel: web.Name}: web.Shipped(), {Level: channel.OfChannel, Channel: web.Name}: &place})
	if err != nil {
		t.Fatal(err)
	}
	return &kernel.Kernel{Settings: tree}
}

// CH-101, CH-105, CH-152
func TestPoliciesCanBeNarrowed(t *testing.T) {
	prompt := "be kind"
	for name, tt := range map[string]struct {
		place     channel.Place
		principal string
		text      string
		workflow  bool
		reason    channel.Reason // "" is let in
		also      func(*channel.Turn) bool
	}{
		"nobody":                      {place: channel.Place{DMPolicy: channel.PolicyDisabled}, reason: channel.ReasonDMDisabled},
		"open, with a list":           {place: channel.Place{DMAllowFrom: []string{"bob"}}, principal: "alice", reason: channel.ReasonDMNotAllowed},
		"the local user, listed":      {place: channel.Place{DMPolicy: channel.PolicyAllowlist, DMAllowFrom: []string{web.Local}}},
		"a command of nobody's":       {place: channel.Place{CommandMode: channel.CommandsAuthorizers}, text: ",help", reason: channel.ReasonCommandNotAllowed},
		"a workflow's comma is no":    {place: channel.Place{CommandMode: channel.CommandsAuthorizers}, text: ",help", workflow: true},
		"commands that are text":      {place: channel.Place{CommandMode: channel.CommandsOff}, text: ",help", also: func(t *channel.Turn) bool { return !t.Context.CommandAuthorized }},
		"an administrator":            {place: channel.Place{Admins: []string{web.Local}}, text: ",help", also: func(t *channel.Turn) bool { return t.Context.Role == tool.Admin }},
		"what the agent is told":      {place: channel.Place{SystemPrompt: &prompt}, also: func(t *channel.Turn) bool { return t.Context.GroupSystemPrompt == prompt }},
		"what a busy session does":    {place: channel.Place{OnBusy: "reject"}, also: func(t *channel.Turn) bool { return t.Policy == "reject" }},
		"as shipped, everybody":       {principal: "anybody"},
		"as shipped, the local one":   {},
		"as shipped, users' commands": {text: ",help", also: func(t *channel.Turn) bool { return t.Context.Role == tool.User && t.Context.CommandAuthorized }},
	} {
		t.Run(name, func(t *testing.T) {
			k := kernelWith(t, tt.place)
			var d dispatched
			r, err := web.Run(t.Context(), k, &web.Message{
				Principal: tt.principal, Session: "s", Run: "r", Agent: "a", Text: tt.text + " ", Workflow: tt.workflow, Dispatch: d.to,
			})
			if err != nil || r.Admission.Reason != tt.reason || (d.turn != nil) != (tt.reason == "") {
				t.Fatalf("%+v %v", r, err)
			}
			if said := web.Refuse(r); (said != nil) != (tt.reason != "") || said != nil && said.Status != http.StatusForbidden {
				t.Errorf("%+v", said)
			}
			if tt.also != nil && !tt.also(d.turn) {
				t.Errorf("%+v", d.turn)
			}
		})
	}
}

// CH-14, CH-152, CH-193
func TestEveryReasonIsAnsweredAsItsTableSays(t *testing.T) {
	statuses := map[channel.Reason]int{}
	for status, reasons := range map[int][]channel.Reason{
		0: { // nothing is refused
			"", channel.ReasonNotATurn, channel.ReasonHandledLocally, channel.ReasonMerged, channel.ReasonDedupe, channel.ReasonMissingMention,
			channel.ReasonObserver, channel.ReasonUnmentioned,
		},
		400: {channel.ReasonIngestNull, channel.ReasonUnsupported},
		403: {
			channel.ReasonPairingRequired, channel.ReasonSelfEcho, channel.ReasonBotNotAllowed, channel.ReasonBotLoop, channel.ReasonNoPolicy,
			channel.ReasonRouteNotAllowed, channel.ReasonDMDisabled, channel.ReasonDMNotAllowed,
			channel.ReasonPairingUnavailable, channel.ReasonGroupDisabled, channel.ReasonGroupNotAllowed,
			channel.ReasonCommandNotAllowed, channel.ReasonChannelLocal, "one that is new",
		},
		404: {channel.ReasonNoRoute},
		409: {channel.ReasonSessionBusy},
		413: {channel.ReasonTooLarge},
		429: {channel.ReasonRateLimited},
		503: {channel.ReasonOverloaded, channel.ReasonDraining},
	} {
		for _, r := range reasons {
			statuses[r] = status
		}
	}
	for reason, status := range statuses {
		said := web.Refuse(channel.Result{Admission: channel.Admission{Reason: reason}})
		if status == 0 {
			if said != nil {
				t.Errorf("%s: %+v", reason, said)
			}
			continue
		}
		if said == nil || said.Status != status || said.Detail == "" {
			t.Errorf("%s: %+v, expected %d", reason, said, status)
			continue
		}
		if waits := said.RetryAfter > 0; waits != (status == 429 || status == 503) {
			t.Errorf("%s: come again after %s", reason, said.RetryAfter)
		}
		for _, s := range channel.SettingsTable() {
			if key := s.Key; strings.Contains(said.Detail, key) && strings.ContainsAny(key, "._") || strings.Contains(said.Detail, "channels.") {
				t.Errorf("%s: %q names %s", reason, said.Detail, key)
			}
		}
		if status == 403 && reason != channel.ReasonCommandNotAllowed && *said != *web.Refuse(channel.Result{Admission: channel.Admission{Reason: channel.ReasonNoPolicy}}) {
			t.Errorf("%s: %+v tells more than that nobody of this name may talk", reason, said)
		}
	}
	later := web.Refuse(channel.Result{Admission: channel.Admission{Reason: channel.ReasonRateLimited}, RetryAfter: time.Minute})
	if later.RetryAfter != time.Minute || web.Refuse(channel.Result{Admission: channel.Admission{Reason: channel.ReasonRateLimited}}).RetryAfter == time.Minute {
		t.Errorf("%+v", later)
	}
}

func Example() {
	k := web.NewKernel(slog.New(slog.DiscardHandler))
	r, err := web.Run(context.Background(), k, &web.Message{
		Principal: "alice", Session: "s-42", Run: "r1", Agent: "assistant", Text: "hello",
		Dispatch: func(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
			if t.Context.ObserveOnly { // nothing is shown of a turn that only observes
				return channel.DispatchResult{}, nil
			}
			return channel.DispatchResult{Sent: true}, nil
		},
	})
	fmt.Println(r.SessionKey, r.Outcome, err)
	// Output: web:alice#s-42 visible <nil>
}

// CH-151
func TestANameIsFoundInItsKeyByItsOwnerAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("ab#:~@!%2 é")), 1, 6, -1), rapid.StringN(1, 40, 120))
		alice, bob, name := text.Draw(t, "principal"), text.Draw(t, "other principal"), text.Draw(t, "name")
		key := web.SessionKey(alice, name)
		if got, ok := web.SessionName(alice, key); !ok || got != name {
			t.Fatalf("%q of %q is told as %q, %v", name, alice, got, ok)
		}
		if !strings.HasPrefix(key, web.SessionPrefix(alice)) {
			t.Fatalf("%q does not begin with %q", key, web.SessionPrefix(alice))
		}
		if got, ok := web.SessionName(bob, key); ok && bob != alice {
			t.Fatalf("%q of %q is %q to %q", name, alice, got, bob)
		}
		if bob != alice && strings.HasPrefix(key, web.SessionPrefix(bob)) {
			t.Fatalf("%q of %q is listed for %q", key, alice, bob)
		}
	})
	if got, ok := web.SessionName("", "web:ann#s"); !ok || got != "web:ann#s" {
		t.Errorf("%q %v", got, ok)
	}
	if _, ok := web.SessionName("ann", web.SessionKey("ann", strings.Repeat("x", 600))); ok {
		t.Error("a key that is a hash has no name")
	}
}

func TestNoListGivesAPrincipalMoreThanItsKeyDoes(t *testing.T) {
	admins := []string{"ann"}
	for name, tt := range map[string]struct {
		place   channel.Place
		role    tool.Role
		want    tool.Role
		command bool
	}{
		"as the key says":                    {channel.Place{}, tool.Operator, tool.Operator, true},
		"a list says more":                   {channel.Place{Admins: admins}, tool.User, tool.User, true},
		"a list says less":                   {channel.Place{Users: admins}, tool.Admin, tool.Admin, true},
		"only those of the lists":            {channel.Place{CommandMode: channel.CommandsAuthorizers}, tool.Admin, tool.User, false},
		"of the lists, no more than the key": {channel.Place{CommandMode: channel.CommandsAuthorizers, Admins: admins}, tool.Operator, tool.Operator, true},
		"nobody":                             {channel.Place{CommandMode: channel.CommandsOff}, tool.Admin, tool.User, false},
	} {
		t.Run(name, func(t *testing.T) {
			var d dispatched
			m := web.Message{Principal: "ann", Role: tt.role, Session: "s", Run: "r", Agent: "a", Text: ",help", Dispatch: d.to}
			_, err := web.Run(t.Context(), kernelWith(t, tt.place), &m)
			if d.turn == nil {
				if tt.command || err != nil {
					t.Fatalf("no turn: %v", err)
				}
				return
			}
			if c := d.turn.Context; c.Role != tt.want || c.CommandAuthorized != tt.command {
				t.Errorf("speaks as %v, commands: %v", c.Role, c.CommandAuthorized)
			}
		})
	}
}
