package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/textview"
)

// channelTool is what "lingserve channels" works with.
type channelTool struct {
	streams
	settings config.Flags
	c        *config.Config
	json     bool
	timeout  time.Duration
}

func channelsCommand(s streams) *cobra.Command {
	t := &channelTool{streams: s}
	check := newCommand("channels check", t.action(t.check))
	check.Flags().DurationVar(&t.timeout, "timeout", 15*time.Second, "`TIME` to wait for each platform")
	cmd := newCommand("channels", t.action(t.list),
		newCommand("channels list", t.action(t.list)),
		check,
		newCommand("channels pair", t.pairAction(t.listPairs),
			newCommand("channels pair list", t.pairAction(t.listPairs)),
			newCommand("channels pair approve", t.pairAction(t.approve)),
			newCommand("channels pair remove", t.pairAction(t.remove))),
	)
	cmd.PersistentFlags().BoolVar(&t.json, "json", false, "print one JSON object per line")
	addSettings(cmd.PersistentFlags(), &t.settings)
	return cmd
}

// action loads the configuration and calls do, which a signal interrupts.
func (w *channelTool) action(do func(ctx context.Context, args []string) error) func(args []string) error {
	return func(args []string) (err error) {
		if w.c, err = config.Load(&w.settings, os.Environ()); err != nil {
			return err
		}
		ctx, stop := interruptible()
		defer stop()
		if err = do(ctx, args); ctx.Err() != nil {
			return exitStatus(exitInterrupted)
		}
		return err
	}
}

// pairAction is an action with the stored pairs.
func (w *channelTool) pairAction(do func(ctx context.Context, pairs *channel.Pairs, args []string) error) func(args []string) error {
	return w.action(func(ctx context.Context, args []string) error {
		if err := checkDurable(w.c); err != nil {
			return err
		}
		d, err := openDatabase(w.c, slog.New(slog.DiscardHandler)) // the error says what is wrong with the database
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, d.pairs(), args), d.Close())
	})
}

// channelRow is a channel in the list.
type channelRow struct {
	Channel string `json:"channel"`
	Type    string `json:"type"`
	Agent   string `json:"agent"`
	Direct  string `json:"direct,omitempty"` // the policies; "" admits no senders
	Groups  string `json:"groups,omitempty"`
}

// list prints the channels that are configured.
func (w *channelTool) list(context.Context, []string) error {
	tree, err := newTree(w.c)
	if err != nil {
		return err
	}
	if len(w.c.Channels) == 0 && !w.json {
		fmt.Fprintln(w.err, "no channels are configured; docs/channels.md explains how to add one")
		return nil
	}
	out := newListing(w.out, w.json, "CHANNEL", "TYPE", "AGENT", "DIRECT", "GROUPS")
	for _, ch := range w.c.Channels {
		direct := tree.Policy(channel.PolicyQuery{Channel: ch.Name, Account: ch.Account, Kind: channel.Direct})
		groups := tree.Policy(channel.PolicyQuery{Channel: ch.Name, Account: ch.Account, Kind: channel.Group})
		row := channelRow{kernel.Login(ch.Name, ch.Account), ch.Type, direct.Agent, string(direct.DM), string(groups.Group)}
		out.add(row, row.Channel, row.Type, row.Agent, cmp.Or(row.Direct, "nobody"), cmp.Or(row.Groups, "nobody"))
	}
	return out.end()
}

// describer is a channel that describes its account on the platform, after it was checked.
type describer interface{ About() string }

// channelResult is the result of a check.
type channelResult struct {
	Channel string `json:"channel"`
	Type    string `json:"type"`
	Status  string `json:"status"` // ok, fail, or skip: there was nothing to try
	Message string `json:"message,omitempty"`
}

// check checks whether channels can start.
func (w *channelTool) check(ctx context.Context, names []string) error {
	if w.timeout <= 0 {
		return usagef("--timeout is %v; expected a duration above 0, such as 15s", w.timeout)
	}
	list, err := w.named(names)
	if err != nil {
		return err
	}
	width := 0
	for _, ch := range list {
		width = max(width, len(kernel.Login(ch.Name, ch.Account)))
	}
	failed := false
	for _, t := range inOrder(list, maxChecks, func(ch config.Channel) channelResult { return w.checkOne(ctx, ch) }) {
		if ctx.Err() != nil {
			return nil
		}
		failed = failed || t.Status == "fail"
		if w.json {
			if err := printJSON(w.out, t); err != nil {
				return err
			}
			continue
		}
		for i, line := range strings.Split(t.Message, "\n") {
			if i == 0 {
				fmt.Fprintln(w.out, strings.TrimRight(fmt.Sprintf("%-4s  %-*s  %s", t.Status, width, t.Channel, textview.Clean(line)), " "))
			} else {
				fmt.Fprintf(w.out, "%-*s  %s\n", 6+width, "", textview.Clean(line))
			}
		}
	}
	if failed {
		return exitStatus(exitFailed)
	}
	return nil
}

// checkOne checks one channel.
func (w *channelTool) checkOne(ctx context.Context, ch config.Channel) channelResult {
	t := channelResult{Channel: kernel.Login(ch.Name, ch.Account), Type: ch.Type, Status: "ok"}
	made, err := makeChannel(w.c, ch, channelParts{})
	if made == nil && err == nil {
		t.Status, t.Message = "skip", "this channel is built in; it needs no check"
		return t
	}
	if err == nil {
		if c, ok := made.(interface{ Check(context.Context) error }); ok {
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

// named returns the channels with these names, or all.
func (w *channelTool) named(names []string) ([]config.Channel, error) {
	if len(names) == 0 {
		return w.c.Channels, nil
	}
	var list []config.Channel
	for _, name := range names {
		ch, err := w.find(name)
		if err != nil {
			return nil, err
		}
		list = append(list, ch)
	}
	return list, nil
}

// find returns the channel with a name.
func (w *channelTool) find(name string) (config.Channel, error) {
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

// pairRow is a pair in the list.
type pairRow struct {
	Channel string    `json:"channel"`
	Sender  string    `json:"sender"`
	Name    string    `json:"name,omitempty"`
	State   string    `json:"state"` // paired or asks
	Code    string    `json:"code,omitempty"`
	At      time.Time `json:"at"`
}

// listPairs prints the paired people and the requests.
func (w *channelTool) listPairs(ctx context.Context, pairs *channel.Pairs, _ []string) error {
	list, err := pairs.List(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && !w.json {
		fmt.Fprintf(w.err, "there are no paired people and no requests in %s\n", w.c.DatabaseName())
		return nil
	}
	out := newListing(w.out, w.json, "CHANNEL", "SENDER", "STATE", "CODE", "SINCE", "NAME")
	for _, p := range list {
		row := pairRow{kernel.Login(p.Channel, p.Account), p.Sender, p.Name, "paired", p.Code, p.At}
		if p.Code != "" {
			row.State = "asks"
		}
		out.add(row, row.Channel, oneLine(row.Sender, 40), row.State, cmp.Or(row.Code, "-"),
			row.At.Local().Format(time.DateTime), cmp.Or(oneLine(row.Name, 40), "-"))
	}
	return out.end()
}

// approve pairs the person with a code.
func (w *channelTool) approve(ctx context.Context, pairs *channel.Pairs, args []string) error {
	p, err := pairs.Approve(ctx, "", args[0])
	if errors.Is(err, channel.ErrNoCode) {
		return fmt.Errorf("no pairing request has the code %s; codes expire after an hour, and \"lingserve channels pair\" lists the open ones", show(args[0]))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(w.out, "%s is paired on %s\n", oneLine(strings.TrimSpace(p.Sender+" "+p.Name), 80), kernel.Login(p.Channel, p.Account))
	return nil
}

// remove removes the pairing of a sender on a channel.
func (w *channelTool) remove(ctx context.Context, pairs *channel.Pairs, args []string) error {
	name, sender := args[0], args[1]
	ch, account, _ := strings.Cut(name, "@")
	ok, err := pairs.Remove(ctx, ch, account, sender)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s is not paired on %s; \"lingserve channels pair\" lists who is", show(sender), name)
	}
	fmt.Fprintf(w.out, "removed the pairing of %s on %s\n", oneLine(sender, 80), name)
	return nil
}
