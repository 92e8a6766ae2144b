package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/lingserve/lingserve/client"
	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/egress"
	"github.com/lingserve/lingserve/internal/textview"
	"github.com/lingserve/lingserve/tube"
)

// remoteRun is a run on a server.
type remoteRun struct {
	*client.Run
	info flow.Info
}

// newClient returns a client that sends the key of the environment: a command line can be read by others.
func newClient(server string, proxyEnv bool) (*client.Client, error) {
	c, err := client.New(server, strings.TrimSpace(os.Getenv(config.ClientKey)), egress.NewTransport(proxyEnv))
	if err != nil {
		return nil, fmt.Errorf("--server: %w", err)
	}
	return c, nil
}

func startRemote(ctx context.Context, j *job, c *config.Config) (*remoteRun, error) {
	server, err := newClient(j.server, c.Upstream.ProxyEnv)
	if err != nil {
		return nil, err
	}
	// The workflow's schema types the properties of the input, and its graph helps to show the result in order. A server
	// that has neither for us says why when the run is started.
	info, _ := server.Workflow(ctx, j.workflow)
	start := client.Request{
		Workflow: j.workflow, Input: j.input.text(info.Input), Model: j.model, Params: j.params, Done: j.done, HTML: j.html, Strict: j.strict,
	}
	if j.options.read != nil {
		start.Options = &j.options.Options
	}
	r, err := server.Start(ctx, &start)
	if err != nil {
		return nil, remoteError(err)
	}
	return &remoteRun{Run: r, info: info}, nil
}

func (r *remoteRun) Info() flow.Info { return r.info }

func (r *remoteRun) Events(ctx context.Context) iter.Seq2[tube.Event, error] {
	return func(yield func(tube.Event, error) bool) {
		for e, err := range r.Run.Events(ctx) {
			if !yield(e, remoteError(err)) {
				return
			}
		}
	}
}

func (r *remoteRun) Result(ctx context.Context) (json.RawMessage, error) {
	result, err := r.Run.Result(ctx)
	return result, remoteError(err)
}

func (r *remoteRun) Cancel(error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = r.Run.Cancel(ctx)
}

// remoteError adds to an error of a server what to do about it at a command line, and takes out of a server's words what would steer the
// terminal.
func remoteError(err error) error {
	if e, ok := errors.AsType[*client.SchemeError](err); ok {
		return fmt.Errorf("%w; use --server %s://%s", e, e.Scheme, e.Host)
	}
	e, ok := errors.AsType[*client.Refusal](err)
	if !ok {
		return err
	}
	all := []error{errors.New(textview.Clean(e.Error()))}
	if e.Status == 401 {
		all = append(all, errors.New("set the API key in the environment variable "+config.ClientKey))
	}
	for _, part := range e.Errors {
		where := strings.ReplaceAll(strings.TrimPrefix(part.Pointer, "/"), "/", ".") + part.Parameter + part.Header
		if where != "" && part.Detail != "" && part.Detail != e.Detail {
			all = append(all, errors.New(textview.Clean(where+": "+part.Detail)))
		}
	}
	return errors.Join(all...)
}
