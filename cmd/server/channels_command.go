package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
}

func channelsCommand(s streams) *cobra.Command {
	t := &channelTool{streams: s}
	cmd := newCommand("channels", nil,
		configured("channels check", &t.settings, t.check),
		withDatabase("channels pair", &t.settings, openDurable, t.listPairs,
			withDatabase("channels pair approve", &t.settings, openDurable, t.approve),
			withDatabase("channels pair remove", &t.settings, openDurable, t.remove)),
	)
	cmd.PersistentFlags().BoolVar(&t.json, "json", false, "print one JSON object per line")
	addSettings(cmd.PersistentFlags(), &t.settings)
	return cmd
}

// checkTime is how long a platform may take to answer a check.
const checkTime = 15 * time.Second

// channelResult is the result of a check.
type channelResult struct {
	Channel string `json:"channel"`
	Type    string `json:"type"`
	Status  string `json:"status"` // ok or fail
	Message string `json:"message,omitempty"`
}

// check signs in to the platforms of the named channels, or of all.
func (t *channelTool) check(ctx context.Context, c *config.Config, names []string) error {
	var known []string
	for _, ch := range c.Channels {
		known = append(known, kernel.Login(ch.Name, ch.Account))
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("unknown channel %s; expected one of: %s", show(name), strings.Join(known, ", "))
		}
	}
	out := newListing(t.out, t.json, "STATUS", "CHANNEL", "MESSAGE")
	failed := false
	for i, ch := range c.Channels {
		if channelMakers[ch.Type] == nil || len(names) > 0 && !slices.Contains(names, known[i]) {
			continue
		}
		r := channelResult{Channel: known[i], Type: ch.Type, Status: "ok"}
		about, err := checkChannel(ctx, c, ch)
		if ctx.Err() != nil {
			return nil
		}
		if r.Message = about; err != nil {
			failed, r.Status, r.Message = true, "fail", err.Error()
		}
		out.add(r, r.Status, r.Channel, strings.ReplaceAll(textview.Clean(r.Message), "\n", "; "))
	}
	if err := out.end(); err != nil {
		return err
	}
	if failed {
		return exitStatus(exitFailed)
	}
	return nil
}

// checkChannel signs in to the platform of a channel. It returns a description of the channel's account there.
func checkChannel(ctx context.Context, c *config.Config, ch config.Channel) (about string, err error) {
	made, err := makeChannel(c, ch, platform.Settings{}, nil)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if p, ok := made.(interface{ Check(context.Context) error }); ok {
		err = p.Check(ctx)
	}
	if p, ok := made.(interface{ About() string }); ok {
		about = p.About()
	}
	return about, err
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
func (t *channelTool) listPairs(ctx context.Context, d *database, _ []string) error {
	list, err := d.pairs().List(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && !t.json {
		fmt.Fprintf(t.err, "there are no paired people and no requests in %s\n", d.c.DatabaseName())
		return nil
	}
	out := newListing(t.out, t.json, "CHANNEL", "SENDER", "STATE", "CODE", "SINCE", "NAME")
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
func (t *channelTool) approve(ctx context.Context, d *database, args []string) error {
	p, err := d.pairs().Approve(ctx, "", args[0])
	if errors.Is(err, channel.ErrNoCode) {
		return fmt.Errorf("no pairing request has the code %s; codes expire after an hour, and \"lingserve channels pair\" lists the open ones", show(args[0]))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s is paired on %s\n", oneLine(strings.TrimSpace(p.Sender+" "+p.Name), 80), kernel.Login(p.Channel, p.Account))
	return nil
}

// remove removes the pairing of a sender on a channel.
func (t *channelTool) remove(ctx context.Context, d *database, args []string) error {
	name, sender := args[0], args[1]
	ch, account, _ := strings.Cut(name, "@")
	ok, err := d.pairs().Remove(ctx, ch, account, sender)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s is not paired on %s; \"lingserve channels pair\" lists who is", show(sender), name)
	}
	fmt.Fprintf(t.out, "removed the pairing of %s on %s\n", oneLine(sender, 80), name)
	return nil
}
