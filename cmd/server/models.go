package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/providers"
	"github.com/lingserve/lingserve/internal/textview"
)

// modelsAtOnce is how many servers are asked at a time: enough that one that hangs does not hold up the rest, few enough that no
// limit on connections is met.
const modelsAtOnce = 4

// inventory is what "lingserve models" does.
type inventory struct {
	providers.Checker
	named   []string        // by the workflows
	unasked map[string]bool // providers that nobody has set anything for; they may be there all the same
	json    bool
	stdout  io.Writer
	stderr  io.Writer
}

func modelsCommand(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	set, settings := newFlags("models")
	i := inventory{stdout: stdout, stderr: stderr}
	remote := set.Bool("remote", false, "list the models that the providers offer")
	set.BoolVar(&i.json, "json", false, "print one JSON object per line")
	set.BoolVar(&i.Quick, "quick", false, "only test whether a model answers")
	set.DurationVar(&i.Timeout, "timeout", 30*time.Second, "`TIME` to wait for each answer (30s)")
	rest, status, ok := arguments(set, args, stdout, stderr)
	check := len(rest) > 0 && rest[0] == "check"
	switch {
	case !ok:
		return status
	case i.Timeout <= 0:
		return usage(stderr, "models", "--timeout is %v; expected a duration above 0, such as 30s", i.Timeout)
	case check && *remote:
		return usage(stderr, "models", "--remote does not go with check; it lists models")
	case check:
		rest = rest[1:]
	case len(rest) > 0 && strings.Contains(rest[0], ":"):
		return usage(stderr, "models", "unexpected argument %q; to test a model, use \"lingserve models check %s\"", rest[0], rest[0])
	case len(rest) > 0:
		return usage(stderr, "models", "unexpected argument %q%s", rest[0], didYouMean(rest[0], []string{"check"}, ""))
	}
	for _, chain := range rest {
		for _, name := range adapter.Links(chain) {
			if !strings.Contains(name, ":") {
				return usage(stderr, "models", "%q is no model; expected PROVIDER:NAME, such as openai:gpt-4o-mini", name)
			}
		}
	}
	c, err := config.Load(settings, os.Environ())
	if err != nil {
		return fail(stderr, err)
	}
	stop, err := i.open(c)
	if err != nil {
		return fail(stderr, err)
	}
	defer stop()
	if len(rest) == 0 && !*remote {
		workflows, _, err := openWorkflows(c)
		if err != nil { // the others are there nevertheless
			status = fail(stderr, err)
		}
		if workflows != nil {
			i.named = workflows.Models()
		}
	}
	ctx, stopSignals := interruptible()
	defer stopSignals()
	switch {
	case check:
		return cmp.Or(i.check(ctx, rest), status)
	case *remote:
		return i.remote(ctx)
	}
	i.list()
	return status
}

// open makes the models that are configured. stop ends what they run.
func (i *inventory) open(c *config.Config) (stop func(), err error) {
	i.unasked = map[string]bool{}
	for _, p := range c.Providers {
		i.unasked[p.Name] = !p.Set
	}
	i.Models, stop, err = providers.New(c)
	return stop, err
}

// list prints what can be used, the default marked.
func (i *inventory) list() {
	first := adapter.Links(i.Models.Default)[0]
	for _, name := range i.Models.Usable(i.named...) {
		switch {
		case i.json:
			provider, _, _ := strings.Cut(name, ":")
			_ = printJSON(i.stdout, struct {
				Model    string  `json:"model"`
				Provider string  `json:"provider"`
				Default  bool    `json:"default,omitempty"`
				Price    *prices `json:"price,omitempty"`
			}{name, provider, name == first, i.price(name)})
		case name == first:
			i.line("%s  (default)%s", name, i.price(name))
		default:
			i.line("%s%s", name, i.price(name))
		}
	}
	i.unconfigured()
}

// prices are those of a model, in dollars for a million tokens.
type prices struct {
	Input      float64 `json:"input"`
	Cached     float64 `json:"cached"`
	CacheWrite float64 `json:"cache_write"`
	Output     float64 `json:"output"`
	Reasoning  float64 `json:"reasoning"`
}

// price returns the prices of a model; nil where they are not known.
func (i *inventory) price(name string) *prices {
	provider, model, _ := strings.Cut(name, ":")
	p, ok := i.Models.Prices(provider, model)
	if !ok {
		return nil
	}
	return &prices{p.Input, p.Cached, p.CacheWrite, p.Output, p.Reasoning}
}

func (p *prices) String() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("  $%g in, $%g cached, $%g out", p.Input, p.Cached, p.Output)
}

// remote prints what the servers say that they have.
func (i *inventory) remote(ctx context.Context) int {
	var listers, silent []string
	for _, prefix := range i.Models.Providers() {
		switch _, lists := i.Models.Provider(prefix).(adapter.Lister); {
		case !i.Models.Configured(prefix):
		case lists:
			listers = append(listers, prefix)
		default:
			silent = append(silent, prefix)
		}
	}
	type answer struct {
		names []string
		err   error
	}
	status := exitOK
	for prefix, a := range inOrder(listers, modelsAtOnce, func(prefix string) answer {
		names, err := i.List(ctx, prefix)
		return answer{names, err}
	}) {
		if ctx.Err() != nil {
			return exitInterrupted
		}
		if a.err != nil && i.unasked[prefix] && providers.Code(a.err) == adapter.CodeUnavailable {
			continue // such as an Ollama that does not run: nobody said that it should
		}
		if a.err != nil {
			status = fail(i.stderr, fmt.Errorf("%s: %s", prefix, providers.Message(a.err)))
			continue
		}
		for _, name := range a.names {
			if i.json {
				_ = printJSON(i.stdout, struct {
					Model    string `json:"model"`
					Provider string `json:"provider"`
				}{prefix + ":" + name, prefix})
				continue
			}
			i.line("%s", prefix+":"+name)
		}
	}
	if len(silent) > 0 {
		fmt.Fprintf(i.stderr, "these providers have no list of models: %s\n", strings.Join(silent, ", "))
	}
	i.unconfigured()
	return status
}

// unconfigured says which providers there would be.
func (i *inventory) unconfigured() {
	var missing []string
	for _, prefix := range i.Models.Providers() {
		if !i.Models.Configured(prefix) {
			missing = append(missing, prefix)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(i.stderr, "not configured: %s (see docs/models.md)\n", strings.Join(missing, ", "))
	}
}

// line prints a line. Names may come from a server, so they are not to steer the terminal.
func (i *inventory) line(format string, args ...any) {
	text := strings.ReplaceAll(textview.Clean(fmt.Sprintf(format, args...)), "\n", " ")
	fmt.Fprintln(i.stdout, strings.TrimRight(text, " "))
}

// inOrder calls f for each item, atOnce at a time, and yields the results in the order of the items, each as soon as it and those
// before it are there. When it returns, nothing runs any more: f should end early where nobody wants its result.
func inOrder[T, R any](items []T, atOnce int, f func(T) R) iter.Seq2[T, R] {
	return func(yield func(T, R) bool) {
		results := make([]chan R, len(items))
		for n := range results {
			results[n] = make(chan R, 1) // so that no worker waits for its turn to be printed
		}
		var next atomic.Int64
		var workers sync.WaitGroup
		defer workers.Wait()
		defer next.Store(int64(len(items))) // nothing more is begun
		for range min(atOnce, len(items)) {
			workers.Go(func() {
				for n := next.Add(1) - 1; n < int64(len(items)); n = next.Add(1) - 1 {
					results[n] <- f(items[n])
				}
			})
		}
		for n, item := range items {
			if !yield(item, <-results[n]) {
				return
			}
		}
	}
}
