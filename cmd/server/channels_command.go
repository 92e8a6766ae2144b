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
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
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
		return usage(stderr, "channels", "unknown action %q%s", name, didYouMean(name, []string{"list", "check", "pair"}, ""))
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
		row := channelRow{kernel.Login(ch.Name, ch.Account), ch.Type, direct.Agent, string(direct.DM), string(groups.Group)}
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
		width = max(width, len(kernel.Login(ch.Name, ch.Account)))
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
	t := channelTrial{Channel: kernel.Login(ch.Name, ch.Account), Type: ch.Type, Status: "ok"}
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
	if !platform.Admits(w.c.Access.Channels[ch.Name]) {
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
		if kernel.Login(ch.Name, ch.Account) == name {
			return ch, nil
		}
		known = append(known, kernel.Login(ch.Name, ch.Account))
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

// withPairs opens the store of pairs for those who look at it or change it, and closes it.
func (w *ways) withPairs(ctx context.Context, do func(*channel.Pairs) error) error {
	if err := checkDurable(w.c); err != nil {
		return err
	}
	d, err := openDatabase(w.c, slog.New(slog.DiscardHandler)) // what goes wrong is in the error
	if err != nil {
		return err
	}
	return errors.Join(do(d.pairs()), d.close())
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
			fmt.Fprintf(w.stderr, "there are no paired people and no requests in %s\n", w.c.DatabaseName())
			return nil
		}
		out := newListing(w.stdout, w.json, "CHANNEL", "SENDER", "STATE", "CODE", "SINCE", "NAME")
		for _, p := range list {
			row := pairRow{kernel.Login(p.Channel, p.Account), p.Sender, p.Name, "paired", p.Code, p.At}
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
		fmt.Fprintf(w.stdout, "%s is paired on %s\n", oneLine(strings.TrimSpace(p.Sender+" "+p.Name), 80), kernel.Login(p.Channel, p.Account))
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
