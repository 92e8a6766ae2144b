package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/backoff"
	"github.com/lingserve/lingserve/tube"
)

// Request is a run to start: the body of POST /v1/runs.
type Request struct {
	Workflow string           `json:"workflow"`
	Input    json.RawMessage  `json:"input,omitempty"`
	Model    string           `json:"model,omitempty"`
	Params   map[string]any   `json:"params,omitempty"`
	Options  *adapter.Options `json:"options,omitempty"`
	Done     bool             `json:"done,omitempty"`   // each completed value is followed by a done event
	HTML     bool             `json:"html,omitempty"`   // bots that write HTML also send html events
	Strict   bool             `json:"strict,omitempty"` // an answer that does not fit its schema fails its bot
}

// Run is a run on a server. Its methods are not safe for concurrent use.
type Run struct {
	c       *Client
	id      string
	body    io.ReadCloser      // of the answer that is being read; nil after it broke
	cancel  context.CancelFunc // of its request
	silence *time.Timer        // breaks an answer that says nothing for too long
	last    string             // id of the last event that was passed on
	ended   bool
}

// Limits for talking to a server.
const (
	maxLine     = 64 << 20         // a snapshot is one line and holds the whole result
	maxSilence  = 90 * time.Second // a server sends something every 10 s by default
	maxAttempts = 8                // to reconnect, in a row, without anything new; about a minute
)

// Start starts a run. A start whose answer is lost is sent again and does not start a second run.
func (c *Client) Start(ctx context.Context, start *Request) (*Run, error) {
	body, err := json.Marshal(start)
	if err != nil {
		return nil, err
	}
	r := &Run{c: c}
	key := rand.Text()
	return r, r.retry(ctx, func() error {
		return r.open(ctx, http.MethodPost, "/v1/runs", bytes.NewReader(body), http.Header{
			"Content-Type": {"application/json"}, "Idempotency-Key": {key},
		})
	})
}

// open sends a request for events, and stores the answer for reading.
func (r *Run) open(ctx context.Context, method, path string, body io.Reader, header http.Header) error {
	req, err := http.NewRequest(method, r.c.base+path+"?format=jsonl&keepalive=1", body)
	if err != nil {
		return err
	}
	req.Header = header
	ctx, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(maxSilence, cancel)
	res, err := r.c.http.Do(req.WithContext(ctx))
	if err != nil {
		silence.Stop()
		cancel()
		return unreachable(err)
	}
	if id := res.Header.Get("X-Run-Id"); id != "" && r.id == "" {
		r.id = id
	}
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent:
		r.ended = true
	default:
		defer cancel()
		defer silence.Stop()
		defer res.Body.Close()
		return refusalOf(res)
	}
	r.body, r.silence, r.cancel = res.Body, silence, cancel
	return nil
}

// retry calls f until it succeeds, is refused for good, or has failed too often; it waits longer each time.
func (r *Run) retry(ctx context.Context, f func() error) error {
	pauses := backoff.New(250*time.Millisecond, 16*time.Second)
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil {
			return nil
		}
		if e, ok := errors.AsType[*SchemeError](err); ok {
			return e
		}
		if e, ok := errors.AsType[*Refusal](err); ok && e.Status != http.StatusTooManyRequests && e.Status != http.StatusServiceUnavailable {
			return e // for good
		}
		// Do not wait for a server that never answered.
		if attempt == maxAttempts || r.id == "" && attempt == 2 {
			return err
		}
		if err := backoff.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return err
		}
	}
}

// ID is the id of the run.
func (r *Run) ID() string { return r.id }

// Events yields what the server sends, up to the terminal event; it reconnects where a connection breaks. A second call goes on after the
// first. An error is the last pair.
func (r *Run) Events(ctx context.Context) iter.Seq2[tube.Event, error] {
	return func(yield func(tube.Event, error) bool) {
		fruitless := 0
		for !r.ended {
			if r.body == nil {
				if err := r.retry(ctx, func() error { return r.attach(ctx) }); err != nil {
					yield(tube.Event{}, err)
					return
				}
			}
			before := r.last
			left, err := r.read(ctx, yield)
			r.cancel()
			r.body.Close()
			r.silence.Stop()
			r.body = nil
			if err != nil {
				yield(tube.Event{}, err)
			}
			if left || err != nil {
				return
			}
			if fruitless++; r.last != before {
				fruitless = 0
			}
			if fruitless == maxAttempts {
				yield(tube.Event{}, errors.New("the server closed every connection before the run ended; check the network and proxies in between"))
				return
			}
		}
	}
}

// attach asks for the events after the last one.
func (r *Run) attach(ctx context.Context) error {
	header := http.Header{}
	if r.last != "" {
		header.Set("Last-Event-ID", r.last)
	}
	return r.open(ctx, http.MethodGet, "/v1/runs/"+url.PathEscape(r.id)+"/events", nil, header)
}

// Result returns the run's document as GET /v1/runs/{id} has it.
func (r *Run) Result(ctx context.Context) (json.RawMessage, error) {
	var result json.RawMessage
	err := r.c.get(ctx, "/v1/runs/"+url.PathEscape(r.id), &result)
	return bytes.TrimSpace(result), err
}

// Cancel asks the server to stop the run.
func (r *Run) Cancel(ctx context.Context) error {
	if r.id == "" || r.ended {
		return nil
	}
	res, err := r.c.do(ctx, http.MethodPost, "/v1/runs/"+url.PathEscape(r.id)+"/cancel")
	if err != nil {
		return err
	}
	return res.Body.Close()
}
