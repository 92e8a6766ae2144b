package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lingserve/lingserve/adapter"
	comma "github.com/lingserve/lingserve/agent/command"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/channel"
	terminal "github.com/lingserve/lingserve/channel/cli"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/turns"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/providers"
	"github.com/lingserve/lingserve/tool"
)

func chatCommand(s streams) *cobra.Command {
	var settings config.Flags
	var agent, session string
	cmd := loaded("chat", &settings, func(c *config.Config, _ []string) error {
		if strings.TrimSpace(session) == "" {
			return usagef("the name of the session is empty")
		}
		// The signals are caught before anything is started, so that none of them leaves the terminal in raw mode.
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, os.Interrupt)
		defer signal.Stop(interrupts)
		return chat(ctx, c, agent, session, interrupts, s)
	})
	cmd.Flags().StringVar(&agent, "agent", "", "`AGENT` to talk with; the default is the terminal channel's")
	cmd.Flags().StringVar(&session, "session", terminal.DefaultSession, "`NAME` of the session to start or to continue")
	addSettings(cmd.Flags(), &settings)
	return cmd
}

// chatGrace is how long an answer may go on after a signal: the terminal no longer shows it.
const chatGrace = 2 * time.Second

// chat makes the parts of a server without its listeners, and talks until the input or ctx ends the chat.
func chat(ctx context.Context, c *config.Config, name, session string, interrupts <-chan os.Signal, s streams) error {
	if err := c.CheckWorkspace(); err != nil {
		return err
	}
	// The log is for servers; the conversation has the errors.
	notes := &notes{to: s.err}
	log := newLog(io.Discard, c)
	if c.Source("log.level").Kind != config.Default {
		log = newLog(notes, c)
	}
	parts := &core{c: c, log: log}
	defer parts.close()
	for _, step := range []func() error{
		parts.openModels, parts.openDatabase,
		func() error { return parts.openTapes(nil, nil) },
		func() error { return parts.openTurns(nil) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := parts.turns.Register("terminal", terminal.Tools{}); err != nil {
		return err
	}
	tree, err := newTree(c)
	if err != nil {
		return err
	}
	k := &kernel.Kernel{
		Settings: tree, Observer: channel.NewSlogObserver(log), Log: log,
	}
	if k.Agent, err = turns.New(parts.turns, &turns.Options{Answer: parts.agents.Answer, Timezone: zone(c), Log: log}); err != nil {
		return err
	}
	o, err := chatOptions(c, tree, parts.agents.Names(), name, session)
	if err != nil {
		return err
	}
	o.In, o.Out, o.Err, o.Interrupts = s.in, s.out, s.err, interrupts
	return talk(ctx, o, k, notes)
}

// chatOptions returns the options of a chat with an agent; "" is the agent that the settings route to.
func chatOptions(c *config.Config, tree *channel.Tree, names []string, name, session string) (o terminal.Options, err error) {
	usual := tree.Policy(channel.PolicyQuery{Channel: terminal.Name, Kind: channel.Direct, Conversation: session}).Agent
	if !slices.Contains(names, usual) {
		usual = names[0]
	}
	name = cmp.Or(name, usual)
	if !slices.Contains(names, name) {
		return o, fmt.Errorf("unknown agent %q%s expected one of %s", name, cmp.Or(edits.Suggest(name, names, ""), ";"), strings.Join(names, ", "))
	}
	return terminal.Options{
		Agent: name, Default: usual, Model: modelOf(c, name), Session: session,
		Commands: comma.New().Commands(tool.Admin), Colors: os.Getenv("NO_COLOR") == "", Reason: reasonOf, Grace: min(c.Grace, chatGrace),
	}, nil
}

// talk talks until the input or ctx ends the chat.
func talk(ctx context.Context, o terminal.Options, k *kernel.Kernel, notes *notes) error {
	in, isFile := o.In.(*os.File)
	out, areFiles := o.Out.(*os.File)
	if isFile && areFiles {
		if t, ok := terminal.OpenTerminal(in, out); ok {
			o.Terminal = t
		}
	}
	talk := terminal.New(o)
	if o.Terminal != nil {
		notes.set(talk)
		defer notes.set(nil)
	}
	err := talk.Serve(ctx, k)
	switch {
	case errors.Is(err, syscall.EPIPE): // the reader has closed its end
		return nil
	case err != nil:
		return err
	case o.Terminal == nil && talk.Interrupted():
		return exitStatus(exitInterrupted)
	case ctx.Err() != nil, o.Terminal == nil && talk.Unanswered():
		return exitStatus(exitFailed)
	}
	return nil
}

// modelOf is the model that an agent asks first, for people; "" where a workflow answers.
func modelOf(c *config.Config, name string) string {
	a, _ := c.Agent(name)
	if a.Workflow != "" {
		return ""
	}
	return adapter.Links(cmp.Or(a.Model, c.Model))[0]
}

// reasonOf is what may be read of an error: what models and bots say of theirs was written for that. Who sits at the terminal also reads what a
// model's server said.
func reasonOf(err error) string {
	f, known := bot.Describe(err)
	if !known {
		return ""
	}
	if words := providers.Cause(err); words != "" {
		return f.Message + " (cause: " + words + ")"
	}
	return f.Message
}

// notes is where the log goes: between the rows of the conversation, while there is one.
type notes struct {
	mu   sync.Mutex
	to   io.Writer
	chat *terminal.Chat
}

func (n *notes) set(c *terminal.Chat) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.chat = c
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.chat != nil && n.chat.Note(string(p)) {
		return len(p), nil
	}
	return n.to.Write(p)
}
