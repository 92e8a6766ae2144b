// Package ling manages the bots of one run: their tasks, their tube, and the end of them all.
//
// # Guarantees
//   - What runs is counted: bots, tasks, and through them their callbacks. [Manager.Close] returns when the count is zero, at
//     once and not a moment later; what callbacks and tasks start is counted before they return.
//   - One event ends a run: "finished" with a status, or "canceled".
//   - A bot or task that fails ends nothing but itself. Its error is an "error" event, makes the status "failed", and is what
//     [Manager.Result] returns, unless it was handled ([Manager.OnFailure]).
//   - A panic in a callback or task is that bot's or task's error.
//   - No goroutine of a run outlives it.
//
// Close, Cancel and Result wait for callbacks and tasks. So these must not call them, but may call [Manager.Stop].
package ling

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/bot"
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

// Limits of a run where its options do not say otherwise.
const (
	DefaultMaxBots   = 256
	DefaultMaxTasks  = 1024
	DefaultMaxResult = 16 << 20
)

var (
	// ErrEnded says that the run has ended, or is being ended: nothing more can be started.
	ErrEnded = errors.New("ling: the run has ended")
	// ErrInterrupted as a cause of Cancel or Stop makes the run's end an "error" event, which is the cause's where it is a
	// [bot.Failure], and "finished" with the status "interrupted": its process is about to end.
	ErrInterrupted = errors.New("ling: the run was interrupted")
)

// Options are the settings of a manager; the zero value has the default limits.
type Options struct {
	Run       string // the run's id; default: 128 random bits, URL-safe
	Models    bot.Models
	Log       *slog.Logger
	MaxBots   int    // 256
	MaxTasks  int    // 1024
	MaxResult int    // bytes that models write, 16 MiB
	MaxLog    int    // bytes of the tube's log, 8 MiB
	Workflow  string // named in the started event, with the three below
	Agent     string
	Session   string
	Model     string
	Media     []adapter.Part // images and files that came with the input; bots that the run starts get them beside their message
	First     func()         // called once, when something is written to the document for the first time; see tube.Options
	Finished  func()         // called each time that a bot has ended well; it must not block
	HoldEnd   bool           // readers see the end when it is stored; see tube.Options

	// Resumed is a run that goes on: its events so far and the notes of its work. Nil: the run begins.
	Resumed *Resumed

	// Keep keeps an image or a sound that a model made; see bot.Env.
	Keep func(ctx context.Context, kind string, data []byte) (url string, err error)
}

// Manager runs bots and tasks, and gives what they write one tube. Make one with [New]; it is safe for concurrent use.
type Manager struct {
	options Options
	config  bot.Config
	tube    *tube.Tube
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelCauseFunc
	written atomic.Int64                    // bytes that models wrote
	below   atomic.Pointer[context.Context] // see Trace

	mu       sync.Mutex
	params   map[string]any
	history  []adapter.Message
	active   int                                    // goroutines and bots of others that run
	sent     chan struct{}                          // closed when the end of the run was sent
	turned   chan struct{}                          // closed and replaced when active becomes zero, or something else
	used     bool                                   // something was started
	over     bool                                   // nothing may start any more
	ending   bool                                   // the terminal event is being sent
	closed   func(error)                            // see CloseLater
	canceled error                                  // cause of the cancellation
	fatal    error                                  // what made the manager stop the run
	bots     int                                    // ever made or added
	tasks    int                                    // ever started
	writers  map[*bot.ChatBot]struct{}              // that have not ended
	open     map[string]*bot.ChatBot                // strings and arrays, and who writes there
	others   bool                                   // bots were added that say nothing of where they write
	reported map[string]bool                        // uris whose conflict was reported
	handlers map[bot.Bot]func(error) (handled bool) // see OnFailure
	failures []error                                // of bots and tasks, those that were not handled
	sum      Result                                 // what is known of it before the end, without the document
	notes    []note                                 // that [Manager.Notes] has not returned yet
}

// New returns a manager whose work ends when ctx does. config is the default of its bots; o may be nil. The tube begins with
// a "started" event, unless the run is resumed. Every manager must be ended, with Close or Cancel.
func New(ctx context.Context, config bot.Config, o *Options) *Manager {
	m := &Manager{
		config: config, turned: make(chan struct{}), sent: make(chan struct{}), writers: map[*bot.ChatBot]struct{}{},
		open: map[string]*bot.ChatBot{}, reported: map[string]bool{}, sum: newResult(), handlers: map[bot.Bot]func(error) bool{},
	}
	if o != nil {
		m.options = *o
	}
	m.options.MaxBots = cmp.Or(max(m.options.MaxBots, 0), DefaultMaxBots)
	m.options.MaxTasks = cmp.Or(max(m.options.MaxTasks, 0), DefaultMaxTasks)
	m.options.MaxResult = cmp.Or(max(m.options.MaxResult, 0), DefaultMaxResult)
	m.options.Run = cmp.Or(m.options.Run, NewID())
	m.log = cmp.Or(m.options.Log, slog.New(slog.DiscardHandler)).With(slog.String("run", m.options.Run))
	m.ctx, m.cancel = context.WithCancelCause(ctx)
	if r := m.options.Resumed; r != nil {
		m.resume(r)
		return m
	}
	m.tube = tube.New(m.options.Run, &tube.Options{
		MaxBytes: m.options.MaxLog,
		HoldEnd:  m.options.HoldEnd,
		First:    m.options.First,
	})
	m.send("started", struct {
		Run      string `json:"run"`
		Workflow string `json:"workflow,omitempty"`
		Agent    string `json:"agent,omitempty"`
		Session  string `json:"session,omitempty"`
		Model    string `json:"model,omitempty"`
	}{m.options.Run, m.options.Workflow, m.options.Agent, m.options.Session, m.options.Model})
	return m
}

// Model returns the model that bots ask which name none of their own: "provider:name", or "" for the default one of the models.
func (m *Manager) Model() string { return cmp.Or(m.config.Model, m.options.Model) }

// ID returns the run's id.
func (m *Manager) ID() string { return m.options.Run }

// Tube returns the run's events.
func (m *Manager) Tube() *tube.Tube { return m.tube }

// Context ends with the run: when it is canceled, and when Close has waited for everything.
func (m *Manager) Context() context.Context { return m.ctx }

// SetCustomParams sets the params that the prompts of bots created from now on are rendered with.
func (m *Manager) SetCustomParams(p map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.params = maps.Clone(p)
}

// CustomParams returns what was set.
func (m *Manager) CustomParams() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.params)
}

// Media returns [Options].Media.
func (m *Manager) Media() []adapter.Part { return m.options.Media }

// CreateBot makes a bot that writes below root, with the manager's config changed by edit (which may be nil). Errors: a root
// that is no uri, [ErrEnded], and too many bots, which ends the run.
func (m *Manager) CreateBot(name, root string, edit func(*bot.Config)) (*bot.ChatBot, error) {
	if _, err := jsonuri.Parse(root); err != nil {
		return nil, &bot.Failure{Code: bot.CodeInvalid, Message: fmt.Sprintf("the root of the bot %q is not a valid uri", name), Cause: err}
	}
	config := m.config
	if edit != nil {
		edit(&config)
	}
	if err := m.admit(&m.bots, m.options.MaxBots, "bots"); err != nil {
		return nil, err
	}
	b := bot.New(bot.Env{
		Context: m.work(), Tube: m.tube, Models: m.options.Models, Go: m.spawn, Params: m.CustomParams(), Writes: m.writes, CacheKey: m.cacheKey(),
		Report: m.botReport, Written: m.wrote, Alone: m.alone, Keep: m.options.Keep, Log: m.log.With(slog.String("bot", name)),
	}, name, root, config)
	if history := m.History(); len(history) > 0 {
		b.SetHistory(history...)
	}
	b.Watch(func(t bot.Transition) {
		switch t.To {
		case bot.Chatting:
			m.addWriter(b)
			m.sendBot(b, "started")
		case bot.InferenceDone: // before what waits for the bot's end is started
			m.sendBot(b, "finished")
		case bot.Finished, bot.Error:
			m.botEnded(b, t.Err)
			if t.From == bot.Chatting && m.ctx.Err() == nil { // else the run's end says it
				m.sendBot(b, "failed")
			}
		}
	})
	return b, nil
}

// cacheKey is the same for all that is asked in a session, or in a run without one. The session's name is not told.
func (m *Manager) cacheKey() string {
	if m.options.Session == "" {
		return m.options.Run
	}
	sum := sha256.Sum256([]byte(m.options.Session))
	return hex.EncodeToString(sum[:16])
}

// AddBot puts any bot under the manager's care: Close waits for it while it is in a state between init and the end.
func (m *Manager) AddBot(b bot.Bot) error {
	if err := m.admit(&m.bots, m.options.MaxBots, "bots"); err != nil {
		return err
	}
	m.mu.Lock()
	m.others = true
	m.mu.Unlock()
	var mu sync.Mutex
	last := bot.Init
	see := func(state func() bot.State) {
		mu.Lock()
		from, to := last, state() // with the lock: a state that comes later is seen later
		last = to
		mu.Unlock()
		if from == to {
			return
		}
		if from == bot.Init || from.Ended() {
			m.mu.Lock()
			m.add()
			m.mu.Unlock()
		}
		if to.Ended() {
			if err := b.Err(); err != nil {
				m.failed(b, err)
			}
			go m.done() // which may call Close, and the bot may call other watchers next
		}
	}
	b.Watch(func(t bot.Transition) { see(func() bot.State { return t.To }) })
	see(b.State) // it may have been started before
	return nil
}

// Go runs a task; its error or panic is reported as an event and by Result, makes the run a failed one, and ends no other
// work. Errors: [ErrEnded], and too many tasks, which ends the run.
func (m *Manager) Go(task func(context.Context) error) error {
	if err := m.admit(&m.tasks, m.options.MaxTasks, "tasks"); err != nil {
		return err
	}
	if !m.spawn(func(ctx context.Context) {
		if err := m.try(ctx, task); err != nil {
			m.failed(nil, err)
		}
	}) {
		return ErrEnded
	}
	return nil
}

func (m *Manager) try(ctx context.Context, task func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = bot.Panicked(ctx, m.log, "task", p)
		}
	}()
	return task(ctx)
}

// ownEvents are sent by the manager alone: a reader can rely on them.
var ownEvents = map[string]bool{"started": true, "error": true, "usage": true, "bot": true, "restarted": true, "finished": true, "canceled": true, "html": true}

// SendEvent sends a status event of the workflow; data is encoded as JSON. Errors: a name that is not allowed or is
// reserved, data that has no JSON form, [tube.ErrEnded].
func (m *Manager) SendEvent(name string, data any) error {
	if ownEvents[name] {
		return fmt.Errorf("ling: the event name %q is reserved", name)
	}
	return m.send(name, data)
}

// Events iterates over the events that clients see, up to the terminal one.
func (m *Manager) Events(ctx context.Context) iter.Seq2[tube.Event, error] {
	return m.tube.Events(ctx, 0)
}

// admit counts one more of something that is limited.
func (m *Manager) admit(count *int, limit int, what string) error {
	m.mu.Lock()
	if m.over {
		m.mu.Unlock()
		return ErrEnded
	}
	if *count >= limit {
		m.mu.Unlock()
		err := &bot.Failure{Code: bot.CodeTooLarge, Message: fmt.Sprintf("the run exceeds its limit of %d %s", limit, what)}
		m.stopFor(err)
		return err
	}
	*count++
	m.mu.Unlock()
	return nil
}

// spawn runs f in a goroutine that Close waits for.
func (m *Manager) spawn(f func(context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return false
	}
	m.add()
	go func() {
		defer m.done()
		f(m.work())
	}()
	return true
}

// add counts one more. It is called with mu held.
func (m *Manager) add() {
	m.used = true
	if m.active++; m.active == 1 {
		m.turn()
	}
}

// done counts one less. After the last one, it does what CloseLater has asked for.
func (m *Manager) done() {
	var closed func(error)
	m.mu.Lock()
	if m.active--; m.active == 0 {
		m.turn()
		closed, m.closed = m.closed, nil
	}
	m.mu.Unlock()
	if closed != nil {
		closed(m.Close())
	}
}

// turn wakes those who wait for the count.
func (m *Manager) turn() {
	close(m.turned)
	m.turned = make(chan struct{})
}

// wrote counts what models write, which is what the result can grow to.
func (m *Manager) wrote(bytes int) bool {
	if m.written.Add(int64(bytes)) <= int64(m.options.MaxResult) {
		return true
	}
	m.stopFor(&bot.Failure{Code: bot.CodeTooLarge, Message: fmt.Sprintf("the run's result exceeds the limit of %d bytes", m.options.MaxResult)})
	return false
}

// within says whether one root is at or below the other.
func within(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == "" || strings.HasPrefix(b, a) && (len(a) == len(b) || b[len(a)] == '/')
}
