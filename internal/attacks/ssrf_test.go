//go:build nightly

package attacks

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// trap is a server that nobody may talk to.
type trap struct {
	port string
	hits atomic.Int64
}

// newTrap listens on the loopback addresses of both kinds; a connection is enough to be caught.
func newTrap(t *testing.T) *trap {
	t.Helper()
	tr := &trap{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			tr.hits.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	tr.port = u.Port()
	if l, err := net.Listen("tcp", "[::1]:"+tr.port); err == nil {
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				tr.hits.Add(1)
				c.Close()
			}
		}()
	}
	return tr
}

// hosts are spellings of addresses of this machine, of its network, and of what clouds tell their machines.
var hosts = map[string]string{
	"loopback":            "127.0.0.1",
	"short":               "127.1",
	"decimal":             "2130706433",
	"hexadecimal":         "0x7f000001",
	"octal":               "0177.0.0.1",
	"another loopback":    "127.9.9.9",
	"unspecified":         "0.0.0.0",
	"IPv6":                "[::1]",
	"IPv4 in IPv6":        "[::ffff:127.0.0.1]",
	"IPv4 in IPv6, hex":   "[::ffff:7f00:1]",
	"IPv6 unspecified":    "[::]",
	"a name":              "localhost",
	"a name with a dot":   "localhost.",
	"a user before it":    "example.com@127.0.0.1",
	"a user with a slash": "example.com%2f@127.0.0.1",
}

// SE-01: no field of a request makes the server ask anybody: neither one that is an address elsewhere, nor one that looks like it.
func TestNoRequestMakesTheServerAskAnAddress(t *testing.T) {
	v := server(t)
	tr := newTrap(t)
	for name, host := range hosts {
		at := "http://" + host + ":" + tr.port + "/x"
		u := quoted(at)
		fields := map[string][2]string{
			"an image of a message":      {"/v1/chat/completions", `{"model":"openai:m","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":` + u + `}}]}]}`},
			"an image for an agent":      {"/v1/chat/completions", `{"model":"assistant","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":` + u + `}}]}]}`},
			"an image in an old message": {"/v1/chat/completions", `{"model":"assistant","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":` + u + `}}]},{"role":"assistant","content":"x"},{"role":"user","content":"x"}]}`},
			"a file of a message":        {"/v1/chat/completions", `{"model":"openai:m","messages":[{"role":"user","content":[{"type":"file","file":{"file_data":` + u + `}}]}]}`},
			"a file of the AI SDK":       {"/v1/ui/assistant", `{"id":"ssrf","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"x"},{"type":"file","mediaType":"image/png","url":` + u + `}]}]}`},
			"a source of AG-UI":          {"/v1/agui/assistant", `{"threadId":"ssrf","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"binary","mimeType":"image/png","url":` + u + `}]}]}`},
			"an image of AG-UI":          {"/v1/agui/assistant", `{"threadId":"ssrf","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"image","source":{"type":"url","value":` + u + `}}]}]}`},
			"the model":                  {"/v1/runs", `{"workflow":"text","input":"x","model":` + u + `}`},
			"the model's name":           {"/v1/runs", `{"workflow":"text","input":"x","model":` + quoted("openai:"+at) + `}`},
			"a base_url":                 {"/v1/runs", `{"workflow":"text","input":"x","base_url":` + u + `}`},
			"a base_url in options":      {"/v1/runs", `{"workflow":"text","input":"x","options":{"base_url":` + u + `}}`},
			"a base_url in params":       {"/v1/runs", `{"workflow":"text","input":"x","params":{"base_url":` + u + `,"api":` + u + `}}`},
			"a base_url for OpenAI":      {"/v1/chat/completions", `{"model":"openai:m","base_url":` + u + `,"api_base":` + u + `,"messages":[{"role":"user","content":"x"}]}`},
			"a webhook":                  {"/v1/runs", `{"workflow":"text","input":"x","webhook":` + u + `,"callback":` + u + `}`},
			"a schema's reference":       {"/v1/runs", `{"workflow":{"bots":{"w":{"prompt":"x","root":"a","schema":{"$ref":` + u + `}}}}}`},
			"a schema's id":              {"/v1/runs", `{"workflow":{"bots":{"w":{"prompt":"x","root":"a","schema":{"$id":` + u + `,"$schema":` + u + `,"properties":{"a":{"$ref":"other.json"}}}}}}}`},
			"an input's reference":       {"/v1/runs", `{"workflow":{"input":{"type":"object","properties":{"q":{"$ref":` + u + `}}},"bots":{"w":{"prompt":"x","root":"a"}}},"input":{"q":"x"}}`},
			"a format's reference":       {"/v1/chat/completions", `{"model":"openai:m","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"$ref":` + u + `}}},"messages":[{"role":"user","content":"x"}]}`},
			"an inline model":            {"/v1/runs", `{"workflow":{"bots":{"w":{"prompt":"x","root":"a","model":` + u + `}}}}`},
			"inline tools":               {"/v1/runs", `{"workflow":{"mcp":{"x":{"url":` + u + `}},"bots":{"w":{"prompt":"x","root":"a"}}}}`},
			"an inline prompt":           {"/v1/runs", `{"workflow":{"bots":{"w":{"prompt":{"file":` + u + `},"root":"a"}}}}`},
			"an inline template":         {"/v1/runs", `{"workflow":{"bots":{"w":{"prompt":` + quoted(`{% include "`+at+`" %}`) + `,"root":"a"}}}}`},
			"tools of AG-UI":             {"/v1/agui/assistant", `{"threadId":"ssrf","runId":"r","messages":[{"id":"m","role":"user","content":"x"}],"tools":[{"name":"x","description":"x","url":` + u + `}],"forwardedProps":{"model":` + u + `}}`},
			"tools of OpenAI":            {"/v1/chat/completions", `{"model":"assistant","tools":[{"type":"mcp","server_url":` + u + `}],"messages":[{"role":"user","content":"x"}]}`},
			"the input":                  {"/v1/runs", `{"agent":"assistant","input":` + quoted("look at "+at) + `}`},
		}
		for what, f := range fields {
			if got := v.do(t, "POST", f[0], f[1]); got.status >= 500 && got.status != 502 || strings.Contains(got.body, "dial tcp") {
				t.Errorf("%s, %s: %d %s", what, name, got.status, got.body)
			}
			if tr.hits.Swap(0) != 0 {
				t.Errorf("%s, %s: it was asked", what, name)
			}
		}
	}
	// Nor does a request line that is one for a proxy, or a header.
	at := "127.0.0.1:" + tr.port
	for name, send := range map[string]string{
		"an absolute address":  "GET http://" + at + "/x HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
		"another host":         "GET /x HTTP/1.1\r\nHost: " + at + "\r\n\r\n",
		"a tunnel":             "CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\n\r\nGET /x HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a forwarded host":     "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: " + at + "\r\nForwarded: host=" + at + "\r\n\r\n",
		"an address elsewhere": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Original-URL: http://" + at + "/\r\nX-Rewrite-URL: http://" + at + "/\r\nReferer: http://" + at + "/\r\n\r\n",
		"two slashes":          "GET //" + at + "/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		got := v.raw(t, send)
		if tr.hits.Swap(0) != 0 || strings.Contains(got, "Location: http") || strings.Contains(got, "Location: //") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
