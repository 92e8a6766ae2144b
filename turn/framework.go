package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/tape"
)

// Limits where the options do not say otherwise.
const (
	DefaultConcurrency = 256
	DefaultQueue       = 16
	DefaultQueueTotal  = 4096
)

// saveTimeout is for each plugin in save_state.
const saveTimeout = 10 * time.Second

// Options are the settings of a framework; the zero value has the default limits.
type Options struct {
	Workspace   string // the folder that sessions work in; "" is the current one
	Log         *slog.Logger
	Timeout     time.Duration // of a turn, from load_state to the last dispatch; 0 is none
	Concurrency int           // turns that run at once, 256
	Queue       int           // submissions that wait per session, 16
	QueueTotal  int           // submissions that wait in all, 4096
	// Code returns the code of an error that this package does not know, such as a model's; "" if it does not know it either.
	// It does not unwrap the error: it is called for each error inside too.
	Code func(error) string
	// Caller names the one whose session it is. Where turns wait for a slot, callers take turns. Nil is one caller for all.
	Caller func(SessionID) string
	// Within returns the context in which a turn runs, and what is called at its end. It may be nil.
	Within func(context.Context) (within context.Context, release func())
}

// Framework has the plugins and the lanes. Make one with [New]; it is safe for concurrent use.
type Framework struct {
	options Options
	log     *slog.Logger
	plugins atomic.Pointer[[]Named[any]] // in calling order; replaced, never changed: a turn keeps its own
	lanes   lanes

	mu       sync.Mutex                       // of those who replace plugins
	declared map[string]func(plugin any) bool // by name of the hook: whether a plugin implements it
	store    struct {
		sync.Mutex
		tape.Store // nil until a plugin provides one
	}
}

// New returns a framework without plugins.
func New(o Options) *Framework {
	orDefault(&o.Concurrency, DefaultConcurrency)
	orDefault(&o.Queue, DefaultQueue)
	orDefault(&o.QueueTotal, DefaultQueueTotal)
	if abs, err := filepath.Abs(o.Workspace); err == nil {
		o.Workspace = abs
	}
	f := &Framework{options: o, log: o.Log, declared: map[string]func(any) bool{}}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.plugins.Store(new([]Named[any]))
	f.lanes.options, f.lanes.run, f.lanes.lanes = o, f.work, map[SessionID]*lane{}
	return f
}

func orDefault(n *int, def int) {
	if *n <= 0 {
		*n = def
	}
}

// Workspace is the absolute path of the folder that sessions work in.
func (f *Framework) Workspace() string { return f.options.Workspace }

// Timeout is how long a turn may take before it ends with [ErrTimeout]; 0 is no limit.
func (f *Framework) Timeout() time.Duration { return f.options.Timeout }

// Register adds a plugin, which comes before all that are there, in every stage. Turns that have begun go on without it.
// Errors: a name that is empty or taken, and a plugin without a hook: one whose method misses its interface by the
// signature has none.
func (f *Framework) Register(name string, plugin any) error {
	if name == "" {
		return errors.New("turn: a plugin needs a name")
	}
	if a, ok := plugin.(Attacher); ok {
		if err := a.AttachFramework(f); err != nil {
			return fmt.Errorf("turn: the plugin %q: %w", name, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := *f.plugins.Load()
	if slices.ContainsFunc(old, func(p Named[any]) bool { return p.Name == name }) {
		return fmt.Errorf("turn: the plugin %q is already registered", name)
	}
	all := append([]Named[any]{{name, plugin}}, old...)
	if !f.hasHook(plugin) {
		return fmt.Errorf("turn: the plugin %q (%T) has no hook; expected a method with a hook's name and signature", name, plugin)
	}
	f.plugins.Store(&all)
	return nil
}

// Declare makes H a hook, under this name, of an interface that belongs to another package: plugins with nothing but this hook
// can be registered. Its owner finds them with [Implementers].
func Declare[H any](f *Framework, hook string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.declared[hook] = implements[H]
}

// Implementers returns the plugins that implement H, in the order in which they are called. Within a turn, [PluginsOf] has those
// of the turn.
func Implementers[H any](f *Framework) []Named[H] { return pluginsWith[H](*f.plugins.Load()) }

// PluginsOf returns the plugins of a turn that implement H, in the order in which they are called.
func PluginsOf[H any](t *Turn) []Named[H] { return pluginsWith[H](t.plugins) }

// Store returns the store of tapes that a plugin provides; nil where none does. The plugins are asked until there is one, and
// never again.
func (f *Framework) Store(ctx context.Context) (tape.Store, error) {
	f.store.Lock()
	defer f.store.Unlock()
	if f.store.Store != nil {
		return f.store.Store, nil
	}
	store, _, _, err := first(ctx, f.newTurn(nil), StageStore, func(h StoreProvider) (tape.Store, bool, error) {
		store, ok, err := h.ProvideTapeStore(ctx)
		return store, ok && store != nil, err
	})
	f.store.Store = store
	return store, err
}

// Code returns the code of an error: of the first in its tree, as errors.Is goes through it, that has one. An error has the code
// that it says itself ([Coded]), that a tape's error means, or that Options.Code knows; "internal" if none has, and "" of no error.
func (f *Framework) Code(err error) string {
	if err == nil {
		return ""
	}
	return cmp.Or(f.code(err), CodeInternal)
}

func (f *Framework) code(err error) (code string) {
	switch e := err.(type) {
	case nil:
		return ""
	case Coded:
		return e.ErrorCode()
	case *StageError:
		return f.code(e.Err)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			code = cmp.Or(code, f.code(err))
		}
		return code
	}
	switch {
	case err == tape.ErrDeleted:
		return CodeGone
	case err == tape.ErrTooLarge:
		return CodeTooLarge
	case f.options.Code != nil:
		code = f.options.Code(err)
	}
	return cmp.Or(code, f.code(errors.Unwrap(err)))
}
