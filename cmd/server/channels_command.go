package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/manager"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/textview"
)

// ways is what "lingserve channels" works with.
type ways struct {
	c       *config.Config
	json    bool
	timeout time.Duration
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
}

// channelAction is what the command can do: with how many arguments at least and at most, and what is missing with fewer.
type channelAction struct {
	least, most int
	missing     string
	do          func(w *ways, ctx context.Context, args []string) (int, error)
}

var channelActions = map[string]channelAction{
	"list":         {do: plainAction(func(w *ways, _ context.Context, _ []string) error { return w.list() })},
	"check":        {most: 64, do: (*ways).check},
	"explain":      {1, 2, "the channel", plainAction((*ways).explain)},
	"pair list":    {do: plainAction((*ways).pairs)},
	"pair approve": {1, 1, "the code", plainAction((*ways).approve)},
	"pair remove":  {2, 2, "the channel or the sender", plainAction((*ways).remove)},
}

// plainAction makes an action of a function that succeeds or fails.
func plainAction(do func(*ways, context.Context, []string) error) func(*ways, context.Context, []string) (int, error) {
	return func(w *ways, ctx context.Context, args []string) (int, error) { return exitOK, do(w, ctx, args) }
}

func channelsCommand(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	set, settings := newFlags("channels")
	w := ways{stdin: stdin, stdout: stdout, stderr: stderr}
	set.BoolVar(&w.json, "json", false, "print one JSON object per line")
	set.DurationVar(&w.timeout, "timeout", 15*time.Second, "`TIME` to wait for each platform (15s)")
	rest, status, ok := arguments(set, args, stdout, stderr)
	if !ok {
		return status
	}
	name := "list"
	if len(rest) > 0 {
		name, rest = rest[0], rest[1:]
	}
	if name == "pair" {
		name = "pair list"
		if len(rest) > 0 {
			name, rest = "pair "+rest[0], rest[1:]
		}
	}
	a, ok := channelActions[name]
	switch {
	case !ok && strings.HasPrefix(name, "pair "):
		return usage(stderr, "channels", "unknown action %q%s", name, didYouMean(strings.TrimPrefix(name, "pair "), []string{"list", "approve", "remove"}, "pair "))
	case !ok:
		return usage(stderr, "channels", "unknown action %q%s", name, didYouMean(name, []string{"list", "check", "explain", "pair"}, ""))
	case len(rest) < a.least:
		return usage(stderr, "channels", "%s is missing", a.missing)
	case len(rest) > a.most:
		return usage(stderr, "channels", "unexpected argument %q", rest[a.most])
	case w.timeout <= 0:
		return usage(stderr, "channels", "--timeout is %v; expected a duration above 0, such as 15s", w.timeout)
	}
	var err error
	if w.c, err = config.Load(settings, os.Environ()); err != nil {
		return fail(stderr, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err = a.do(&w, ctx, rest)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		return cmp.Or(status, fail(stderr, err))
	}
	return status
}

// channelRow is a channel in the list.
type channelRow struct {
	Channel string `json:"channel"`
	Type    string `json:"type"`
	Agent   string `json:"agent"`
	Direct  string `json:"direct,omitempty"` // the policies; "" admits nobody
	Groups  string `json:"groups,omitempty"`
}

// list prints the channels that are configured.
func (w *ways) list() error {
	tree, err := newTree(w.c)
	if err != nil {
		return err
	}
	if len(w.c.Channels) == 0 && !w.json {
		fmt.Fprintln(w.stderr, "no channels are configured; docs/channels.md explains how to add one")
		return nil
	}
	out := newListing(w.stdout, w.json, "CHANNEL", "TYPE", "AGENT", "DIRECT", "GROUPS")
	for _, ch := range w.c.Channels {
		direct := tree.Policy(channel.PolicyQuery{Channel: ch.Name, Account: ch.Account, Kind: channel.Direct})
		groups := tree.Policy(channel.PolicyQuery{Channel: ch.Name, Account: ch.Account, Kind: channel.Group})
		row := channelRow{manager.Login(ch.Name, ch.Account), ch.Type, direct.Agent, string(direct.DM), string(groups.Group)}
		out.add(row, row.Channel, row.Type, row.Agent, cmp.Or(row.Direct, "nobody"), cmp.Or(row.Groups, "nobody"))
	}
	return out.end()
}

// Abilities of channels that the command asks for.
type (
	// checker says whether the channel could start, and changes nothing.
	checker interface{ Check(context.Context) error }
	// describer says in words who the channel is on its platform, once it was asked.
	describer interface{ About() string }
	// explainer says what would become of a recorded event.
	explainer interface {
		Explain(_ context.Context, k *channel.Kernel, recorded []byte) (channel.Explanation, error)
	}
)

// channelTrial is what came of a check.
type channelTrial struct {
	Channel string `json:"channel"`
	Type    string `json:"type"`
	Status  string `json:"status"` // ok, fail, or skip: there was nothing to try
	Message string `json:"message,omitempty"`
}

// check asks channels whether they could start.
func (w *ways) check(ctx context.Context, names []string) (int, error) {
	list, err := w.named(names)
	if err != nil {
		return exitFailed, err
	}
	width := 0
	for _, ch := range list {
		width = max(width, len(manager.Login(ch.Name, ch.Account)))
	}
	status := exitOK
	for _, t := range inOrder(list, modelsAtOnce, func(ch config.Channel) channelTrial { return w.try(ctx, ch) }) {
		if ctx.Err() != nil {
			return exitInterrupted, nil
		}
		if t.Status == "fail" {
			status = exitFailed
		}
		if w.json {
			if err := printJSON(w.stdout, t); err != nil {
				return exitFailed, err
			}
			continue
		}
		for i, line := range strings.Split(t.Message, "\n") {
			if i == 0 {
				fmt.Fprintln(w.stdout, strings.TrimRight(fmt.Sprintf("%-4s  %-*s  %s", t.Status, width, t.Channel, textview.Clean(line)), " "))
			} else {
				fmt.Fprintf(w.stdout, "%-*s  %s\n", 6+width, "", textview.Clean(line))
			}
		}
	}
	return status, nil
}

// try asks one channel.
func (w *ways) try(ctx context.Context, ch config.Channel) channelTrial {
	t := channelTrial{Channel: manager.Login(ch.Name, ch.Account), Type: ch.Type, Status: "ok"}
	made, err := makeChannel(w.c, ch, channelParts{})
	if made == nil && err == nil {
		t.Status, t.Message = "skip", "this channel is built in; it needs no check"
		return t
	}
	if err == nil {
		if c, ok := made.(checker); ok {
			ctx, cancel := context.WithTimeout(ctx, w.timeout)
			defer cancel()
			err = c.Check(ctx)
		}
	}
	if err != nil {
		t.Status, t.Message = "fail", strings.TrimPrefix(strings.Replace(err.Error(), ch.Where()+": ", "", 1), ch.Type+": ")
		return t
	}
	if d, ok := made.(describer); ok {
		t.Message = d.About()
	}
	if !manager.Admits(w.c.Access.Channels[ch.Name]) {
		t.Message = strings.TrimPrefix(t.Message+"\nthe channel admits no messages yet; set dm.policy or groups.policy", "\n")
	}
	return t
}

// named are the channels with these names, or all.
func (w *ways) named(names []string) ([]config.Channel, error) {
	if len(names) == 0 {
		return w.c.Channels, nil
	}
	var list []config.Channel
	for _, name := range names {
		ch, err := w.one(name)
		if err != nil {
			return nil, err
		}
		list = append(list, ch)
	}
	return list, nil
}

// one is the channel of a name.
func (w *ways) one(name string) (config.Channel, error) {
	var known []string
	for _, ch := range w.c.Channels {
		if manager.Login(ch.Name, ch.Account) == name {
			return ch, nil
		}
		known = append(known, manager.Login(ch.Name, ch.Account))
	}
	if len(known) == 0 {
		return config.Channel{}, fmt.Errorf("unknown channel %s; no channel is configured", show(name))
	}
	hint := didYouMean(name, known, "")
	if hint == "" {
		hint = "; expected one of " + strings.Join(known, ", ")
	}
	return config.Channel{}, fmt.Errorf("unknown channel %s%s", show(name), hint)
}

// maxRecorded bounds an event that is read from a file, in bytes: doors take no larger ones.
const maxRecorded = 16 << 20

// explained is what is said of an event as JSON.
type explained struct {
	Channel   string    `json:"channel"`
	Admission string    `json:"admission"`
	Reason    string    `json:"reason,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Event     string    `json:"event"`
	Agent     string    `json:"agent,omitempty"`
	Session   string    `json:"session,omitempty"`
	ReplyTo   string    `json:"reply_to,omitempty"`
	Thread    string    `json:"thread,omitempty"`
	Verdicts  []gateRow `json:"verdicts"`
}

// gateRow is the verdict of a gate.
type gateRow struct {
	Gate    string `json:"gate"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Setting string `json:"setting,omitempty"`
	Value   string `json:"value,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// explain prints what would become of a recorded event (CH-110).
func (w *ways) explain(ctx context.Context, args []string) error {
	ch, err := w.one(args[0])
	if err != nil {
		return err
	}
	made, err := makeChannel(w.c, ch, channelParts{})
	if err != nil {
		return err
	}
	asked, ok := made.(explainer)
	if !ok {
		return fmt.Errorf("channels of type %s cannot explain recorded events", ch.Type)
	}
	from := w.stdin
	if len(args) == 2 && args[1] != "-" {
		f, err := os.Open(args[1])
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", show(args[1]), cmp.Or(errors.Unwrap(err), err))
		}
		defer f.Close()
		from = f
	}
	recorded, err := io.ReadAll(io.LimitReader(from, maxRecorded))
	if err != nil {
		return fmt.Errorf("cannot read the event: %w", err)
	}
	tree, err := newTree(w.c)
	if err != nil {
		return err
	}
	k := &channel.Kernel{Settings: tree, Routes: tree}
	if tree.Policy(channel.PolicyQuery{Channel: ch.Name, Account: ch.Account, Kind: channel.Direct}).DM == channel.PolicyPairing {
		pairs, release, err := w.openPairs(ctx)
		if err != nil {
			return err
		}
		defer release()
		k.Pairing = pairs
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	e, err := asked.Explain(ctx, k, recorded)
	if err != nil {
		return fmt.Errorf("%s: cannot explain the event: %s", manager.Login(ch.Name, ch.Account), strings.TrimPrefix(err.Error(), ch.Type+": "))
	}
	x := explained{
		Channel: manager.Login(ch.Name, ch.Account), Admission: string(e.Admission.Kind), Reason: string(e.Admission.Reason), Detail: e.Admission.Detail,
		Event: string(e.Class.Kind), Agent: e.Route.AgentID, Session: e.SessionKey, ReplyTo: e.Reply.Target(), Verdicts: []gateRow{},
	}
	x.Thread, _ = e.Reply.MessageThreadID.Get()
	for _, v := range e.Verdicts {
		x.Verdicts = append(x.Verdicts, gateRow{v.Gate, string(v.State), string(v.Reason), v.Setting, v.Value, v.Hint})
	}
	if w.json {
		return printJSON(w.stdout, x)
	}
	return w.say(x)
}

// say prints an explanation for people: what would happen, then every gate, then what to change.
func (w *ways) say(x explained) error {
	out := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(out, "%s\t%s\n", name, textview.Clean(text))
		}
	}
	what := x.Admission
	if x.Reason != "" {
		what += " (" + strings.Trim(x.Reason+" "+x.Detail, " ") + ")"
	}
	row("admission", what)
	row("event", x.Event)
	row("agent", x.Agent)
	row("session", x.Session)
	row("reply to", x.ReplyTo)
	row("thread", x.Thread)
	if err := out.Flush(); err != nil {
		return err
	}
	if len(x.Verdicts) == 0 {
		return nil
	}
	fmt.Fprintln(w.stdout)
	fmt.Fprintln(out, "GATE\tVERDICT\tREASON\tSETTING\tVALUE")
	for _, v := range x.Verdicts {
		fmt.Fprintln(out, strings.TrimRight(strings.Join([]string{v.Gate, v.State, cmp.Or(v.Reason, "-"), cmp.Or(v.Setting, "-"), textview.Clean(cmp.Or(v.Value, "-"))}, "\t"), "\t"))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, v := range x.Verdicts {
		if v.State == string(channel.Blocked) && v.Hint != "" {
			fmt.Fprintf(w.stdout, "\n%s: %s\n", v.Gate, textview.Clean(v.Hint))
		}
	}
	return nil
}

// openPairs opens the store of pairs, which replicas share. Without them and a data folder a server has it in its memory alone.
func (w *ways) openPairs(ctx context.Context) (pairs *channel.Pairs, release func(), err error) {
	quiet := slog.New(slog.DiscardHandler) // what goes wrong with the database is in the error
	shared, err := openEngine(ctx, w.c, quiet)
	if err != nil {
		return nil, nil, err
	}
	tables, err := openTablesBeside(w.c, shared, quiet)
	if err != nil {
		shared.close(quiet)
		return nil, nil, err
	}
	release = func() {
		if shared == nil { // else shared closes them
			_ = tables.Close()
		}
		shared.close(quiet)
	}
	if pairs, err = openPairs(ctx, w.c, tables); err != nil {
		release()
		return nil, nil, err
	}
	return pairs, release, nil
}

// withPairs opens the store of pairs for those who look at it or change it, and closes it.
func (w *ways) withPairs(ctx context.Context, do func(*channel.Pairs) error) error {
	if w.c.Data == "" && w.c.Engine == config.EngineLocal {
		return fmt.Errorf("data (%s): pairing needs a data folder, but none is set", w.c.Source("data"))
	}
	pairs, release, err := w.openPairs(ctx)
	if err != nil {
		return err
	}
	defer release()
	return do(pairs)
}

// pairRow is a pair in the list.
type pairRow struct {
	Channel string    `json:"channel"`
	Sender  string    `json:"sender"`
	Name    string    `json:"name,omitempty"`
	State   string    `json:"state"` // paired or asks
	Code    string    `json:"code,omitempty"`
	At      time.Time `json:"at"`
}

// pairs prints who is paired and who asks.
func (w *ways) pairs(ctx context.Context, _ []string) error {
	return w.withPairs(ctx, func(store *channel.Pairs) error {
		list, err := store.List(ctx)
		if err != nil {
			return err
		}
		if len(list) == 0 && !w.json {
			fmt.Fprintf(w.stderr, "there are no paired people and no requests in %s\n", enginePlace(w.c))
			return nil
		}
		out := newListing(w.stdout, w.json, "CHANNEL", "SENDER", "STATE", "CODE", "SINCE", "NAME")
		for _, p := range list {
			row := pairRow{manager.Login(p.Channel, p.Account), p.Sender, p.Name, "paired", p.Code, p.At}
			if p.Code != "" {
				row.State = "asks"
			}
			out.add(row, row.Channel, oneLine(row.Sender, 40), row.State, cmp.Or(row.Code, "-"),
				row.At.Local().Format(time.DateTime), cmp.Or(oneLine(row.Name, 40), "-"))
		}
		return out.end()
	})
}

// approve pairs who asks with a code.
func (w *ways) approve(ctx context.Context, args []string) error {
	return w.withPairs(ctx, func(store *channel.Pairs) error {
		p, err := store.Approve(ctx, "", args[0])
		if errors.Is(err, channel.ErrNoCode) {
			return fmt.Errorf("no pairing request has the code %s; codes expire after an hour, and \"lingserve channels pair\" lists the open ones", show(args[0]))
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(w.stdout, "%s is paired on %s\n", oneLine(strings.TrimSpace(p.Sender+" "+p.Name), 80), manager.Login(p.Channel, p.Account))
		return nil
	})
}

// remove takes a pair away: of the channel and the sender that args name.
func (w *ways) remove(ctx context.Context, args []string) error {
	return w.withPairs(ctx, func(store *channel.Pairs) error {
		name, sender := args[0], args[1]
		ch, account, _ := strings.Cut(name, "@")
		ok, err := store.Remove(ctx, ch, account, sender)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s is not paired on %s; \"lingserve channels pair\" lists who is", show(sender), name)
		}
		fmt.Fprintf(w.stdout, "removed the pairing of %s on %s\n", oneLine(sender, 80), name)
		return nil
	})
}
