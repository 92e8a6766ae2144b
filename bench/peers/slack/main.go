// Command slack shows that internal/fakeslack is like Slack and that channel/slack sends what Slack takes, with the libraries that Slack
// publishes: Bolt takes the presses of buttons that the stand-in sends, the Web API client makes the channel's calls, and what the
// channel sends is held to the client's TypeScript types.
//
// It needs Node 20 and what npm install puts beside it; its README says more.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/lingserve/lingserve/bench/peers/node"
	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/slack"
	"github.com/lingserve/lingserve/internal/fakeslack"
	"github.com/lingserve/lingserve/store/db"
)

// Where people write, and who.
const (
	room = "C0ROOM"
	ann  = "U0ANN"
	bob  = "U0BOB"
)

func main() {
	dir := flag.String("dir", "bench/peers/slack", "the folder of the libraries")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("it takes too long"))
	defer cancel()
	c := &checks{}
	if err := run(ctx, *dir, c); err != nil {
		fmt.Fprintln(os.Stderr, "slack:", err)
		os.Exit(1)
	}
	if c.failed > 0 {
		fmt.Fprintf(os.Stderr, "slack: %d of the checks failed\n", c.failed)
		os.Exit(1)
	}
}

// checks prints and counts what is as it should be.
type checks struct{ failed int }

func (c *checks) check(name string, got, want any) {
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		c.failed++
		fmt.Printf("FAIL %s: got %s, expected %s\n", name, a, b)
		return
	}
	fmt.Printf("ok   %s\n", name)
}

func run(ctx context.Context, dir string, c *checks) error {
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@slack", "bolt")); err != nil {
		return fmt.Errorf("the libraries are not installed: run npm install --prefix %s", dir)
	}
	asked, calls, err := approve(ctx)
	if err != nil {
		return fmt.Errorf("channel/slack: %w", err)
	}
	options := &fakeslack.Options{}
	fake := fakeslack.New(options)
	fake.AddConversation(fakeslack.Conversation{ID: room, Kind: fakeslack.Channel})
	fake.AddPerson(ann, "ann", "Ann")
	fake.Put(asked)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: fake, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener)
	defer server.Close()
	defer fake.Close()
	script, err := node.Start(ctx, filepath.Join(dir, "slack.mjs"), "http://"+listener.Addr().String()+"/api", fake.Token(), fake.Secret())
	if err != nil {
		return err
	}
	defer script.Stop()
	do := func(job map[string]any, got any) error {
		var answer struct {
			Got json.RawMessage `json:"got"`
		}
		if err := script.Ask(ctx, job, &answer); err != nil {
			return err
		}
		return json.Unmarshal(answer.Got, got)
	}
	var port int
	if err := do(map[string]any{"job": "start"}, &port); err != nil {
		return err
	}
	if err := bolt(ctx, c, fake, asked, port, do); err != nil {
		return err
	}
	if err := client(c, asked, do); err != nil {
		return err
	}
	return types(c, calls, do)
}

// approve lets the channel ask a question, which a stranger and then an operator answer. It returns the question as it stood, and the calls
// that the channel has made.
func approve(ctx context.Context) (asked fakeslack.Message, calls []fakeslack.Call, err error) {
	var bot *slack.Channel
	fake := fakeslack.New(&fakeslack.Options{Hook: "http://here.test/", Deliver: &http.Client{
		Transport: fakeslack.Local(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { bot.Webhook().ServeHTTP(w, r) })),
	}})
	defer fake.Close()
	fake.AddConversation(fakeslack.Conversation{ID: room, Kind: fakeslack.Channel})
	fake.AddPerson(ann, "ann", "Ann")
	fake.AddPerson(bob, "bob", "Bob")
	settings, err := channel.NewTree(channel.Configuration{
		{Level: channel.OfChannel, Channel: "slack"}: {GroupPolicy: channel.PolicyOpen, Operators: []string{ann}, Agent: "asker"},
	})
	if err != nil {
		return asked, nil, err
	}
	bot, err = slack.New(slack.Settings{
		Token: platform.Secret(fake.Token()), SigningSecret: platform.Secret(fake.Secret()),
		Settings: platform.Settings{API: "http://api.test/api", Client: &http.Client{Transport: fake.Transport()}},
	})
	if err != nil {
		return asked, nil, err
	}
	d, err := db.Open(ctx, "memory", nil)
	if err != nil {
		return asked, nil, err
	}
	defer d.Close()
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		asker := &slow{&channeltest.Asker{Arguments: `{"cmd":"echo <!here> && ls *"}`}, fake}
		q := kernel.NewQueue(&kernel.Kernel{Agent: asker, Settings: settings, Store: d.Events()}, kernel.QueueOptions{Replica: "peer"})
		defer q.Close()
		done <- bot.Serve(serving, q)
	}()
	defer func() {
		stop()
		err = errors.Join(err, <-done)
	}()
	for bot.About() == "" { // it is not connected yet, and takes no events
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return asked, nil, context.Cause(ctx)
		}
	}
	fake.Say(fakeslack.Message{Channel: room, User: ann, Text: "<@" + fakeslack.Bot + "> go"})
	if err := fake.Await(ctx, func() bool { return len(fake.Shown(room)) == 1 }); err != nil {
		return asked, nil, err
	}
	asked = fake.Shown(room)[0]
	fake.Tell(fake.Press(asked, channel.LabelApprove, bob))
	if err := fake.Await(ctx, func() bool { return len(fake.Whispers()) == 1 }); err != nil {
		return asked, nil, err
	}
	fake.Tell(fake.Press(asked, channel.LabelApprove, ann))
	err = fake.Await(ctx, func() bool { return len(fake.Shown(room)) == 2 && len(fake.Calls("reactions.remove")) == 1 })
	return asked, fake.Calls(), err
}

// slow asks when the sign of work is there.
type slow struct {
	*channeltest.Asker
	fake *fakeslack.Server
}

func (s *slow) Dispatch(ctx context.Context, t *channel.Turn) (channel.DispatchResult, error) {
	if err := s.fake.Await(ctx, func() bool { return len(s.fake.Calls("reactions.add")) > 0 }); err != nil {
		return channel.DispatchResult{}, err
	}
	return s.Asker.Dispatch(ctx, t)
}

// bolt has Slack's own receiver take a press of each button, signed by the stand-in, and refuse one that is signed with another secret.
func bolt(ctx context.Context, c *checks, fake *fakeslack.Server, asked fakeslack.Message, port int, do func(map[string]any, any) error) error {
	address := fmt.Sprintf("http://127.0.0.1:%d/slack/events", port)
	send := func(body []byte, secret string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(string(body)))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		fakeslack.Sign(req.Header, secret, body, time.Now())
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	for _, b := range (&channel.Question{ID: channeltest.QuestionID(1)}).Buttons() {
		status, err := send(fake.Press(asked, b.Label, ann), fake.Secret())
		if err != nil {
			return err
		}
		var got map[string]any
		if err := do(map[string]any{"job": "pressed"}, &got); err != nil {
			return err
		}
		c.check("bolt: a press of "+b.Label, []any{status, got}, []any{200, map[string]any{
			"type": "button", "id": "lingserve." + b.Word, "block": "lingserve.question:", "value": b.Press.ID, "user": ann, "team": fakeslack.Team,
			"channel": room, "message": asked.TS, "thread": asked.Thread, "blocks": 2, "respond": "function",
		}})
	}
	status, err := send(fake.Press(asked, channel.LabelDeny, ann), "another secret")
	c.check("bolt: a press with a wrong signature", status, 401)
	return err
}

// client has Slack's own client make the channel's calls, and some that the stand-in has to refuse.
func client(c *checks, asked fakeslack.Message, do func(map[string]any, any) error) error {
	var blocks []any
	if err := json.Unmarshal([]byte(asked.Blocks), &blocks); err != nil {
		return err
	}
	long := json.RawMessage(strings.ReplaceAll(asked.Blocks, channeltest.QuestionID(1), strings.Repeat("x", 2001)))
	here := func(more map[string]any) map[string]any {
		more["channel"] = room
		return more
	}
	for _, step := range []struct {
		name, method string
		params       map[string]any
		want         map[string]any
	}{
		{"a question", "chat.postMessage", here(map[string]any{"text": "may it run?", "blocks": blocks}), map[string]any{"ok": true, "ts": "string", "blocks": 2}},
		{"its change", "chat.update", here(map[string]any{"ts": asked.TS, "text": "it may", "blocks": blocks[:1]}), map[string]any{"ok": true, "ts": "string", "blocks": 0}},
		{"an answer that one person sees", "chat.postEphemeral", here(map[string]any{"user": ann, "text": "no"}), map[string]any{"ok": true, "ts": "undefined", "blocks": 0}},
		{"an answer for nobody", "chat.postEphemeral", here(map[string]any{"user": "U0NOBODY", "text": "no"}), map[string]any{"error": "user_not_in_channel"}},
		{"a reaction", "reactions.add", here(map[string]any{"timestamp": asked.TS, "name": "eyes"}), map[string]any{"ok": true, "ts": "undefined", "blocks": 0}},
		{"the same once more", "reactions.add", here(map[string]any{"timestamp": asked.TS, "name": "eyes"}), map[string]any{"error": "already_reacted"}},
		{"without it", "reactions.remove", here(map[string]any{"timestamp": asked.TS, "name": "eyes"}), map[string]any{"ok": true, "ts": "undefined", "blocks": 0}},
		{"without it, once more", "reactions.remove", here(map[string]any{"timestamp": asked.TS, "name": "eyes"}), map[string]any{"error": "no_reaction"}},
		{"a button with too long a value", "chat.postMessage", here(map[string]any{"text": "x", "blocks": long}), map[string]any{"error": "invalid_blocks"}},
		{"a block that is none", "chat.postMessage", here(map[string]any{"text": "x", "blocks": []any{map[string]any{"type": "nothing"}}}), map[string]any{"error": "invalid_blocks"}},
	} {
		var got map[string]any
		if err := do(map[string]any{"job": "call", "method": step.method, "params": step.params}, &got); err != nil {
			return err
		}
		c.check("@slack/web-api: "+step.name, got, step.want)
	}
	return nil
}

// arguments are the types of what methods are called with.
var arguments = map[string]string{
	"chat.postMessage": "ChatPostMessageArguments", "chat.update": "ChatUpdateArguments", "chat.postEphemeral": "ChatPostEphemeralArguments",
	"reactions.add": "ReactionsAddArguments", "reactions.remove": "ReactionsRemoveArguments",
}

// types holds the channel's calls to the types of Slack's own client.
func types(c *checks, calls []fakeslack.Call, do func(map[string]any, any) error) error {
	var values []map[string]any
	seen := map[string]bool{}
	for _, call := range calls {
		name := arguments[call.Method]
		if name == "" {
			continue
		}
		seen[call.Method] = true
		value := map[string]any{}
		for member, text := range call.Params {
			switch member {
			case "blocks", "unfurl_links", "unfurl_media": // written as JSON
				value[member] = json.RawMessage(text)
			default:
				value[member] = text
			}
		}
		values = append(values, map[string]any{"type": name, "value": value})
	}
	c.check("the channel makes all of its calls", len(seen), len(arguments))
	var problems []string
	if err := do(map[string]any{"job": "types", "values": values}, &problems); err != nil {
		return err
	}
	c.check(fmt.Sprintf("types: %d calls of the channel", len(values)), problems, []string{})
	values = append(values, map[string]any{"type": "ChatPostMessageArguments", "value": map[string]any{"channel": room, "text": "x", "nothing": 1}})
	if err := do(map[string]any{"job": "types", "values": values}, &problems); err != nil {
		return err
	}
	c.check("types: a member that there is not is seen", len(problems), 1)
	return nil
}
