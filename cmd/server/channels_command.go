package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	json     bool
	timeout  time.Duration
}

func channelsCommand(s streams) *cobra.Command {
	t := &channelTool{streams: s}
	action := func(path string, do func(context.Context, *config.Config, []string) error, actions ...*cobra.Command) *cobra.Command {
		return configured(path, &t.settings, do, actions...)
	}
	check := action("channels check", t.check)
	check.Flags().DurationVar(&t.timeout, "timeout", 15*time.Second, "`TIME` to wait for each platform")
	cmd := action("channels", t.list,
		action("channels list", t.list),
		check,
		action("channels pair", withPairs(t.listPairs),
			action("channels pair list", withPairs(t.listPairs)),
			action("channels pair approve", withPairs(t.approve)),
			action("channels pair remove", withPairs(t.remove))),
	)
	cmd.PersistentFlags().BoolVar(&t.json, "json", false, "print one JSON object per line")
	addSettings(cmd.PersistentFlags(), &t.settings)
	return cmd
}

// withPairs opens the database for an action.
func withPairs(do func(ctx context.Context, d *database, args []string) error) func(context.Context, *config.Config, []string) error {
	return func(ctx context.Context, c *config.Config, args []string) error {
		if err := checkDurable(c); err != nil {
			return err
		}
		d, err := openDatabase(c, slog.New(slog.DiscardHandler)) // the error says what is wrong with the database
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, d, args), d.Close())
	}
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
func (w *channelTool) list(_ context.Context, c *config.Config, _ []string) error {
	tree, err := newTree(c)
	if err != nil {
		return err
	}
	if len(c.Channels) == 0 && !w.json {
		fmt.Fprintln(w.err, "no channels are configured; docs/channels.md explains how to add one")
		return nil
	}
	out := newListing(w.out, w.json, "CHANNEL", "TYPE", "AGENT", "DIRECT", "GROUPS")
	for _, ch := range c.Channels {
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
func (w *channelTool) check(ctx context.Context, c *config.Config, names []string) error {
	if w.timeout <= 0 {
		return usagef("--timeout is %v; expected a duration above 0, such as 15s", w.timeout)
	}
	list, err := channelsNamed(c, names)
	if err != nil {
		return err
	}
	width := 0
	for _, ch := range list {
		width = max(width, len(kernel.Login(ch.Name, ch.Account)))
	}
	failed := false
	for _, t := range inOrder(list, maxChecks, func(ch config.Channel) channelResult { return w.checkOne(ctx, c, ch) }) {
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
		columns := fmt.Sprintf("%-4s  %-*s  ", t.Status, width, t.Channel)
		for line := range strings.SplitSeq(t.Message, "\n") {
			fmt.Fprintln(w.out, strings.TrimRight(columns+textview.Clean(line), " "))
			columns = strings.Repeat(" ", len(columns))
		}
	}
	if failed {
		return exitStatus(exitFailed)
	}
	return nil
}

// checkOne checks one channel.
func (w *channelTool) checkOne(ctx context.Context, c *config.Config, ch config.Channel) channelResult {
	t := channelResult{Channel: kernel.Login(ch.Name, ch.Account), Type: ch.Type, Status: "ok"}
	made, err := makeChannel(c, ch, channelParts{})
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
	if !platform.Admits(c.Access.Channels[ch.Name]) {
		t.Message = strings.TrimPrefix(t.Message+"\nthe channel admits no messages yet; set dm.policy or groups.policy", "\n")
	}
	return t
}

// channelsNamed returns the channels with these names, or all.
func channelsNamed(c *config.Config, names []string) (list []config.Channel, err error) {
	if len(names) == 0 {
		return c.Channels, nil
	}
	var known []string
	for _, ch := range c.Channels {
		known = append(known, kernel.Login(ch.Name, ch.Account))
	}
	for _, name := range names {
		i := slices.Index(known, name)
		switch {
		case i >= 0:
			list = append(list, c.Channels[i])
		case len(known) == 0:
			return nil, fmt.Errorf("unknown channel %s; no channel is configured", show(name))
		default:
			return nil, fmt.Errorf("unknown channel %s%s", show(name), cmp.Or(didYouMean(name, known, ""), "; expected one of "+strings.Join(known, ", ")))
		}
	}
	return list, nil
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
func (w *channelTool) listPairs(ctx context.Context, d *database, _ []string) error {
	list, err := d.pairs().List(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && !w.json {
		fmt.Fprintf(w.err, "there are no paired people and no requests in %s\n", d.name)
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
func (w *channelTool) approve(ctx context.Context, d *database, args []string) error {
	p, err := d.pairs().Approve(ctx, "", args[0])
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
func (w *channelTool) remove(ctx context.Context, d *database, args []string) error {
	name, sender := args[0], args[1]
	ch, account, _ := strings.Cut(name, "@")
	ok, err := d.pairs().Remove(ctx, ch, account, sender)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s is not paired on %s; \"lingserve channels pair\" lists who is", show(sender), name)
	}
	fmt.Fprintf(w.out, "removed the pairing of %s on %s\n", oneLine(sender, 80), name)
	return nil
}
