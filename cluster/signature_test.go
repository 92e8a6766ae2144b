package cluster_test

import (
	"encoding/base64"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/internal/logtest"
)

// captured is a request as it arrived at a machine between two replicas.
type captured struct {
	method, uri, envelope, body string
}

// sniffer returns a server that captures requests, in place of the listener of a replica.
func sniffer(t *testing.T) (*httptest.Server, *captured) {
	var c captured
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c = captured{r.Method, r.RequestURI, r.Header.Get("Lingserve-Forwarded"), string(body)}
	}))
	t.Cleanup(s.Close)
	return s, &c
}

// logBuffer is a log that the test reads.
type logBuffer = logtest.Buffer

// changeEnvelope changes an envelope, and leaves its signature.
func changeEnvelope(t *testing.T, value, old, replacement string) string {
	t.Helper()
	data, signature, _ := strings.Cut(value, ".")
	text, err := base64.RawURLEncoding.DecodeString(data)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%q is not in %s", old, text)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.ReplaceAll(string(text), old, replacement))) + "." + signature
}

func TestListenerServesOnlyWhatAMemberSigned(t *testing.T) {
	base64Of := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	change := func(old, replacement string) func(t *testing.T, n *attack, c *captured) {
		return func(t *testing.T, _ *attack, c *captured) {
			c.envelope = changeEnvelope(t, c.envelope, old, replacement)
		}
	}
	tests := map[string]struct {
		do     func(t *testing.T, n *attack, c *captured)
		reason string // in the log; "" means that the request is good
	}{
		"nothing":            {func(*testing.T, *attack, *captured) {}, ""},
		"20 s old":           {func(t *testing.T, n *attack, _ *captured) { n.pass(t, 20, n.a, n.b) }, ""},
		"no signature":       {func(_ *testing.T, _ *attack, c *captured) { c.envelope = "" }, "no valid signature"},
		"half a signature":   {func(_ *testing.T, _ *attack, c *captured) { c.envelope = c.envelope[:len(c.envelope)-20] }, "no valid signature"},
		"signature left out": {func(_ *testing.T, _ *attack, c *captured) { c.envelope, _, _ = strings.Cut(c.envelope, ".") }, "no valid signature"},
		"wrong signature":    {func(_ *testing.T, _ *attack, c *captured) { c.envelope = flip(c.envelope) }, "no valid signature"},
		"another principal":  {change(base64Of(`{"name":"ann"}`), base64Of(`{"name":"bob"}`)), "no valid signature"},
		"another client":     {change("192.0.2.7", "192.0.2.8"), "no valid signature"},
		"another target":     {change("run-1", "run-2"), "no valid signature"},
		"another sender":     {change(`"Sender":"a"`, `"Sender":"c"`), "no valid signature"},
		"another receiver":   {func(_ *testing.T, n *attack, _ *captured) { n.victim = n.c }, "signed for another replica"},
		"another body":       {func(_ *testing.T, _ *attack, c *captured) { c.body = `{"x":2}` }, "the request differs from what was signed"},
		"no body":            {func(_ *testing.T, _ *attack, c *captured) { c.body = "" }, "the request differs from what was signed"},
		"another path":       {func(_ *testing.T, _ *attack, c *captured) { c.uri = "/v1/runs/run-2?a=1" }, "the request differs from what was signed"},
		"same path, escaped": {func(_ *testing.T, _ *attack, c *captured) { c.uri = "/v1/runs/run%2D1?a=1" }, "the request differs from what was signed"},
		"another query":      {func(_ *testing.T, _ *attack, c *captured) { c.uri = "/v1/runs/run-1?a=2" }, "the request differs from what was signed"},
		"another method":     {func(_ *testing.T, _ *attack, c *captured) { c.method = "DELETE" }, "the request differs from what was signed"},
		"too old":            {func(t *testing.T, n *attack, _ *captured) { n.pass(t, 31, n.a, n.b) }, "the signature's time is not now"},
		"of the future":      {func(t *testing.T, n *attack, _ *captured) { n.time.Store(-60e9); n.refresh(t, n.b) }, "the signature's time is not now"},
		"a replay":           {func(t *testing.T, n *attack, c *captured) { n.send(t, *c) }, "the request was received before"},
		"a sender that left": {func(_ *testing.T, n *attack, _ *captured) { _ = n.a.Close() }, ""},
		"an unknown sender":  {func(t *testing.T, n *attack, c *captured) { *c = n.forwardAs(t, "stranger", true) }, "the sender is not a member"},
		"another secret":     {func(t *testing.T, n *attack, c *captured) { *c = n.forwardAs(t, "a", false) }, "no valid signature"},
		"a sender that is new": {func(t *testing.T, n *attack, c *captured) {
			*c = n.capture(t, join(t, n.database, cluster.Options{ID: "new"}))
		}, ""},
		"all servers": {func(_ *testing.T, _ *attack, c *captured) { *c = captured{method: "OPTIONS", uri: "*"} }, "no valid signature"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := newAttack(t)
			c := n.capture(t, n.a)
			if c.envelope == "" || c.body != `{"x":1}` || c.uri != "/v1/runs/run-1?a=1" {
				t.Fatalf("captured %+v", c)
			}
			test.do(t, n, &c)
			before := n.calls
			status, header, body := n.send(t, c)
			if test.reason == "" {
				if status != 200 || n.calls != before+1 {
					t.Errorf("%d %s; log: %s", status, body, n.log.String())
				}
				return
			}
			if status != 403 || n.calls != before || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, `"status":403`) {
				t.Errorf("%d %v %s, %d calls", status, header, body, n.calls)
			}
			logged := n.log.String()
			if !strings.Contains(logged, "rejected a forwarded request") || !strings.Contains(logged, `"`+test.reason+`"`) {
				t.Errorf("log: %s", logged)
			}
			if _, signature, _ := strings.Cut(c.envelope, "."); signature != "" && strings.Contains(logged, signature) || strings.Contains(logged, string(n.secret)) {
				t.Errorf("the log has secrets: %s", logged)
			}
		})
	}
}

// flip changes one character of a signature.
func flip(envelope string) string {
	i := len(envelope) - 10
	other := byte('A')
	if envelope[i] == other {
		other = 'B'
	}
	return envelope[:i] + string(other) + envelope[i+1:]
}

// attack is a cluster in which somebody sees the requests to b, and sends others.
type attack struct {
	trio
	sniffed *captured
	victim  *cluster.Cluster
	calls   int
	log     logBuffer
}

func newAttack(t *testing.T) *attack {
	n := &attack{}
	sniffed, c := sniffer(t)
	n.sniffed = c
	n.database = newDatabase(func() time.Time { return time.Date(2001, 1, 1, 0, 0, 0, int(n.time.Load()), time.UTC) })
	log := slog.New(slog.NewTextHandler(&n.log, nil))
	n.b = join(t, n.database, cluster.Options{ID: "b", Advertise: sniffed.Listener.Addr().String(), Log: log})
	n.c = join(t, n.database, cluster.Options{ID: "c", Log: log})
	n.a = join(t, n.database, cluster.Options{ID: "a"})
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.calls++ })
	n.b.Serve(handler)
	n.c.Serve(handler)
	n.refresh(t, n.b, n.c)
	n.victim = n.b
	return n
}

// capture returns a request that a replica forwards to b.
func (n *attack) capture(t *testing.T, from *cluster.Cluster) captured {
	t.Helper()
	n.front = newFront(t, from)
	if status := do(t, n.request(t, "POST", "/v1/runs/run-1?a=1", `{"x":1}`)).StatusCode; status != 200 {
		t.Fatalf("status %d", status)
	}
	return *n.sniffed
}

// forwardAs returns a request to b of a replica that shares another database.
func (n *attack) forwardAs(t *testing.T, id string, withSecret bool) captured {
	t.Helper()
	other := newDatabase(n.now)
	if withSecret {
		other.secret = n.secret
	}
	other.rows = maps.Clone(n.rows)
	return n.capture(t, join(t, other, cluster.Options{ID: id}))
}

// send sends a request to the victim.
func (n *attack) send(t *testing.T, c captured) (status int, header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+n.victim.ListenerAddress(), strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = c.uri
	if c.envelope != "" {
		r.Header.Set("Lingserve-Forwarded", c.envelope)
	}
	response := do(t, r)
	return response.StatusCode, response.Header, text(t, response)
}
