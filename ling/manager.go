// Package ling manages the bots of one run: their tasks, their tube, and the end of them all.
package ling

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/tube"
)

// Options are the settings of a manager; the zero value has the default limits.
type Options struct {
	Run        string // the run's id; default: 128 random bits, URL-safe
	Models     bot.Models
	Log        *slog.Logger
	MaxBots    int           // 256
	MaxTasks   int           // 1024
	MaxResult  int           // bytes, 16 MiB
	MaxLog     int           // bytes of the tube's log, 8 MiB
	CloseGrace time.Duration // Close waits so long for more work after the last; 0 by default
	Workflow   string        // named in the started event, with the two below
	Session    string
	Model      string
}

// Manager runs bots and tasks, and gives what they write one tube.
type Manager struct{}

// New returns a manager whose work ends when ctx does. config is the default of its bots. The tube begins with a "started"
// event.
func New(ctx context.Context, config bot.Config, o *Options) *Manager { panic("ling: not built yet") }

func (m *Manager) ID() string               { panic("ling: not built yet") }
func (m *Manager) Tube() *tube.Tube         { panic("ling: not built yet") }
func (m *Manager) Context() context.Context { panic("ling: not built yet") }

// SetCustomParams sets the params that the prompts of bots created from now on are rendered with.
func (m *Manager) SetCustomParams(p map[string]any) { panic("ling: not built yet") }

// CreateBot makes a bot that writes below root, with the manager's config changed by edit (which may be nil).
func (m *Manager) CreateBot(name, root string, edit func(*bot.Config)) (*bot.ChatBot, error) {
	panic("ling: not built yet")
}

// AddBot puts any bot under the manager's care: Close waits for it once it has left the state init.
func (m *Manager) AddBot(b bot.Bot) error { panic("ling: not built yet") }

// Go runs a task; its error or panic is reported as an event and by Result, and ends no other work.
func (m *Manager) Go(task func(context.Context) error) error { panic("ling: not built yet") }

// SendEvent sends a status event of the workflow; data is encoded as JSON.
func (m *Manager) SendEvent(name string, data any) error { panic("ling: not built yet") }

// Report sends an "error" event that does not end the run.
func (m *Manager) Report(botName string, err error) { panic("ling: not built yet") }

// Result is what a run made.
type Result struct {
	Run       string                    `json:"run"`
	Session   string                    `json:"session,omitempty"`
	Status    string                    `json:"status"` // running, completed, failed, interrupted, canceled
	Result    json.RawMessage           `json:"result"`
	Reserved  json.RawMessage           `json:"reserved,omitempty"`
	Usage     map[string]adapter.Usage  `json:"usage"` // by bot name, summed
	Repairs   map[string]map[string]int `json:"repairs,omitempty"`
	Truncated bool                      `json:"truncated,omitempty"`
	Errors    []ErrorData               `json:"errors"`
}

// ErrorData is the data of an "error" event.
type ErrorData struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Bot       string `json:"bot,omitempty"`
	Pointer   string `json:"pointer,omitempty"`
	Retryable bool   `json:"retryable"`
	Fatal     bool   `json:"fatal"`
}

// Result waits for every bot's inference and every task. The error is that of the first bot or task that failed; the result
// is then what there is. It may be asked for at any time, any number of times.
func (m *Manager) Result(ctx context.Context) (Result, error) { panic("ling: not built yet") }

// Peek returns what there is, without waiting; all includes what clients may not see.
func (m *Manager) Peek(all bool) Result { panic("ling: not built yet") }

// Close waits for bots, tasks and callbacks, and for what these start, then ends the tube: completed, or failed where a bot
// or task has. It may be called right after the first bot was started.
func (m *Manager) Close() error { panic("ling: not built yet") }

// Cancel stops everything below and returns when nothing runs any more; the tube ends with "canceled" and reason is the
// cause's text. cause may be nil.
func (m *Manager) Cancel(cause error) error { panic("ling: not built yet") }

// Events iterates over what the tube carries, hidden events included.
func (m *Manager) Events(ctx context.Context) iter.Seq2[tube.Event, error] {
	panic("ling: not built yet")
}
