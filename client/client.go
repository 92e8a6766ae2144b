// Package client talks to a running Lingserve server: it describes workflows, starts runs, reads their events through broken connections,
// and cancels them.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/lingserve/lingserve/flow"
)

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	http *http.Client
	base string
}

// New returns a client of the server at an http or https address; without a scheme it is http. The key, if there is one, is sent to this
// server alone, also where it redirects to others.
func New(address, key string, transport http.RoundTripper) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("expected an http or https address, such as http://127.0.0.1:8080")
	}
	if key != "" {
		transport = &bearer{"Bearer " + key, u.Scheme, u.Host, transport}
	}
	return &Client{http: &http.Client{Transport: transport}, base: strings.TrimRight(address, "/")}, nil
}

// bearer sends a key to one server.
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

// Workflow describes a workflow.
func (c *Client) Workflow(ctx context.Context, name string) (info flow.Info, err error) {
	err = c.get(ctx, "/v1/workflows/"+url.PathEscape(name), &info)
	return info, err
}

// get reads the JSON at a path.
func (c *Client) get(ctx context.Context, path string, into any) error {
	res, err := c.do(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(io.LimitReader(res.Body, maxLine)).Decode(into)
}

// do sends a request without a body. Errors: a *Refusal for any answer that is not a success, and those of the connection.
func (c *Client) do(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		return nil, refusalOf(res)
	}
	return res, nil
}
