package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/flow"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/internal/egress"
	"github.com/lingserve/lingserve/tube"
)

// remoteRun is a run on a server. It comes back with the id of the last event when the connection breaks.
type remoteRun struct {
	client  *http.Client
	base    string // of the server
	id      string
	info    flow.Info
	body    io.ReadCloser // of the answer that is being read; nil after it broke
	silence *time.Timer   // breaks an answer that says nothing for too long
	last    string        // id of the last event that was passed on
	ended   bool
}

// Limits for talking to a server.
const (
	maxLine     = 64 << 20         // a snapshot is one line and holds the whole result
	maxSilence  = 90 * time.Second // a server gives a sign of life every 10 s unless it is told otherwise
	maxAttempts = 8                // to come back, in a row, without anything new; about a minute
)

func startRemote(ctx context.Context, j *job, c *config.Config) (*remoteRun, error) {
	base, err := serverURL(j.server)
	if err != nil {
		return nil, err
	}
	r := &remoteRun{client: newClient(base, c.Upstream.ProxyEnv), base: base}
	// The workflow's schema types the properties of the input, and its graph helps to show the result in order. A server
	// that has neither for us says why when the run is started.
	_ = r.getJSON(ctx, "/v1/workflows/"+url.PathEscape(j.workflow), &r.info)

	start := map[string]any{"workflow": j.workflow}
	if input := j.input.text(r.info.Input); input != nil {
		start["input"] = input
	}
	if j.model != "" {
		start["model"] = j.model
	}
	if len(j.params) > 0 {
		start["params"] = j.params
	}
	if j.options.read != nil {
		start["options"] = j.options.Options
	}
	if j.done {
		start["done"] = true
	}
	if j.html {
		start["html"] = true
	}
	if j.strict {
		start["strict"] = true
	}
	body, err := json.Marshal(start)
	if err != nil {
		return nil, err
	}
	// With the key a start that is sent again, because its answer was lost, does not start a second run.
	key := rand.Text()
	err = r.again(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/v1/runs?format=jsonl&keepalive=1", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		return r.open(ctx, req)
	})
	return r, err
}

// newClient talks to a server, and shows it the key that the environment has: a command line can be read by others.
func newClient(base string, proxyEnv bool) *http.Client {
	transport := egress.NewTransport(proxyEnv)
	u, err := url.Parse(base)
	if key := strings.TrimSpace(os.Getenv(config.ClientKey)); key != "" && err == nil {
		return &http.Client{Transport: &bearer{"Bearer " + key, u.Scheme, u.Host, transport}}
	}
	return &http.Client{Transport: transport}
}

// bearer shows a key to one server, and to none that this one sends its clients on to.
type bearer struct {
	credential, scheme, host string
	transport                http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == b.scheme && r.URL.Host == b.host {
		r = r.Clone(r.Context()) // which a transport may not change
		r.Header.Set("Authorization", b.credential)
	}
	return b.transport.RoundTrip(r)
}

// serverURL accepts an address without a scheme, and drops a slash at the end.
func serverURL(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("--server: expected an http or https address, such as http://127.0.0.1:8080")
	}
	return strings.TrimRight(text, "/"), nil
}

// refusal is an answer that will not change when it is asked for again.
type refusal struct{ message string }

func (e *refusal) Error() string { return e.message }

// open sends req and keeps the answer for reading.
func (r *remoteRun) open(ctx context.Context, req *http.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(maxSilence, cancel)
	res, err := r.client.Do(req.WithContext(ctx))
	if err != nil {
		silence.Stop()
		cancel()
		return unreachable(err)
	}
	if id := res.Header.Get("X-Run-Id"); id != "" && r.id == "" {
		r.id = id
	}
	switch {
	case res.StatusCode == http.StatusNoContent:
		r.ended = true
	case res.StatusCode != http.StatusOK:
		defer cancel()
		defer silence.Stop()
		defer res.Body.Close()
		err := problemOf(res)
		if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
			return err // for now
		}
		return &refusal{err.Error()}
	}
	r.body, r.silence = closer{res.Body, cancel}, silence
	return nil
}

// closer ends a request with its answer.
type closer struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c closer) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}

// again calls f until it works, is refused, or has failed too often; it waits longer each time.
func (r *remoteRun) again(ctx context.Context, f func() error) error {
	wait := 250 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil {
			return nil
		}
		if e, ok := errors.AsType[*refusal](err); ok {
			return e
		}
		// A server that was never there is not waited for.
		if attempt == maxAttempts || r.id == "" && attempt == 2 {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait = min(2*wait, 16*time.Second)
	}
}

func (r *remoteRun) ID() string      { return r.id }
func (r *remoteRun) Info() flow.Info { return r.info }

func (r *remoteRun) Events(ctx context.Context) iter.Seq2[tube.Event, error] {
	return func(yield func(tube.Event, error) bool) {
		fruitless := 0
		for !r.ended {
			if r.body == nil {
				if err := r.again(ctx, func() error { return r.attach(ctx) }); err != nil {
					yield(tube.Event{}, err)
					return
				}
			}
			before := r.last
			err := r.read(ctx, yield)
			r.body.Close()
			r.silence.Stop()
			r.body = nil
			if err != nil {
				if !errors.Is(err, errLeft) {
					yield(tube.Event{}, err)
				}
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
func (r *remoteRun) attach(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/v1/runs/"+url.PathEscape(r.id)+"/events?format=jsonl&keepalive=1", nil)
	if err != nil {
		return err
	}
	if r.last != "" {
		req.Header.Set("Last-Event-ID", r.last)
	}
	return r.open(ctx, req)
}

var errLeft = errors.New("the caller has left the loop")

// read passes on the events of one answer. It returns nil when the answer breaks off or the run has ended.
func (r *remoteRun) read(ctx context.Context, yield func(tube.Event, error) bool) error {
	lines := bufio.NewReaderSize(r.body, 64<<10)
	var group []tube.Event // of a snapshot, which counts only as a whole
	for !r.ended {
		text, err := readLine(lines)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, errTooLong) {
			return err
		}
		if err != nil {
			return nil // also a clean end: only the terminal event is an end
		}
		r.silence.Reset(maxSilence)
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		e, id, err := decodeLine(text)
		if err != nil {
			return fmt.Errorf("the server sent an invalid event: %w; check that --server is the address of a Lingserve server", err)
		}
		group = append(group, e)
		if id == "" && !e.Terminal() {
			continue
		}
		for i, e := range group {
			if i == len(group)-1 {
				if id != "" {
					r.last = id
				}
				r.ended = e.Terminal()
			}
			if !yield(e, nil) {
				return errLeft
			}
		}
		group = group[:0]
	}
	return nil
}

var errTooLong = fmt.Errorf("the server sent a line longer than %d MiB; expected an event", maxLine>>20)

func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		piece, err := r.ReadSlice('\n')
		text = append(text, piece...)
		if len(text) > maxLine {
			return nil, errTooLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// decodeLine reads an event as JSON Lines carry it.
func decodeLine(text []byte) (e tube.Event, id string, err error) {
	var l struct {
		ID    string          `json:"id"`
		URI   string          `json:"uri"`
		Delta json.RawMessage `json:"delta"`
		Done  bool            `json:"done"`
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return e, "", errors.New("expected a JSON object")
	}
	if _, n, ok := strings.Cut(l.ID, ":"); ok {
		if e.N, err = strconv.ParseUint(n, 10, 64); err != nil {
			return e, "", fmt.Errorf("invalid id %q", l.ID)
		}
	}
	e.Part = l.ID == ""
	switch {
	case l.Event != "":
		e.Kind, e.Name, e.Value = tube.Named, l.Event, l.Data
		if e.Value == nil {
			e.Value = []byte("null")
		}
	case l.Done:
		e.Kind, e.URI = tube.Done, []byte(l.URI)
	case len(l.Delta) == 0:
		return e, "", errors.New("expected a delta or an event")
	case l.Delta[0] == '"':
		e.Kind, e.URI, e.Value = tube.Append, []byte(l.URI), l.Delta[1:len(l.Delta)-1]
	default:
		e.Kind, e.URI, e.Value = tube.Set, []byte(l.URI), l.Delta
	}
	return e, l.ID, nil
}

func (r *remoteRun) Result(ctx context.Context) (json.RawMessage, error) {
	var result json.RawMessage
	err := r.getJSON(ctx, "/v1/runs/"+url.PathEscape(r.id), &result)
	return bytes.TrimSpace(result), err
}

func (r *remoteRun) Cancel(error) {
	if r.id == "" || r.ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+"/v1/runs/"+url.PathEscape(r.id)+"/cancel", nil)
	if err != nil {
		return
	}
	if res, err := r.client.Do(req); err == nil {
		res.Body.Close()
	}
}

func (r *remoteRun) getJSON(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return problemOf(res)
	}
	return json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(into)
}

// problemOf puts an answer that is not what was asked for into words.
func problemOf(res *http.Response) error {
	var p struct {
		Title, Detail, Code string
		Errors              []struct{ Pointer, Parameter, Header, Detail string }
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if u := res.Request.URL; res.StatusCode == http.StatusBadRequest && u.Scheme == "http" && wantsTLS(text) {
		return fmt.Errorf("%s uses TLS; use --server https://%s", u.Host, u.Host)
	}
	if json.Unmarshal(text, &p) != nil || p.Title == "" && p.Detail == "" {
		return fmt.Errorf("the server answered %s", res.Status)
	}
	words := p.Detail
	if words == "" {
		words = p.Title
	}
	if p.Code != "" {
		words += " (" + p.Code + ")"
	}
	all := []error{errors.New(clean(words))}
	if res.StatusCode == http.StatusUnauthorized {
		all = append(all, errors.New("set the API key in the environment variable "+config.ClientKey))
	}
	for _, e := range p.Errors {
		where := strings.ReplaceAll(strings.TrimPrefix(e.Pointer, "/"), "/", ".") + e.Parameter + e.Header
		if where != "" && e.Detail != "" && e.Detail != p.Detail {
			all = append(all, errors.New(clean(where+": "+e.Detail)))
		}
	}
	return errors.Join(all...)
}

// wantsTLS says whether a server that speaks TLS has answered to plain HTTP with this: Go's, and with it this one, nginx and
// Apache in their own words.
func wantsTLS(text []byte) bool {
	for _, words := range []string{
		"Client sent an HTTP request to an HTTPS server", "plain HTTP request was sent to HTTPS port", "speaking plain HTTP to an SSL-enabled server port",
	} {
		if bytes.Contains(text, []byte(words)) {
			return true
		}
	}
	return false
}

// unreachable says in words why a server could not be talked to.
func unreachable(err error) error {
	ue, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	host := "the server"
	if u, perr := url.Parse(ue.URL); perr == nil {
		host = u.Host
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return &refusal{fmt.Sprintf("%s uses plain HTTP, without TLS; use --server http://%s", host, host)}
	}
	if oe, ok := errors.AsType[*net.OpError](err); ok && oe.Op == "dial" {
		return fmt.Errorf("cannot connect to %s: %w", host, oe.Err)
	}
	return fmt.Errorf("cannot talk to %s: %w", host, ue.Err)
}
