package cluster_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/cluster"
)

// trio is three replicas in one process. Their database's clock moves only with pass, and began long before the machine's.
type trio struct {
	*database
	time    atomic.Int64
	a, b, c *cluster.Cluster
	front   *httptest.Server // public listener of a; it forwards all requests to the replica in the header To, by default b
}

func newTrio(t *testing.T, holder http.HandlerFunc) *trio {
	n := &trio{}
	n.database = newDatabase(func() time.Time { return time.Date(2001, 1, 1, 0, 0, 0, int(n.time.Load()), time.UTC) })
	n.a = join(t, n.database, cluster.Options{ID: "a", MaxBody: 100})
	n.b = join(t, n.database, cluster.Options{ID: "b", MaxBody: 50})
	n.c = join(t, n.database, cluster.Options{ID: "c"})
	n.a.Serve(http.NotFoundHandler())
	n.b.Serve(holder)
	n.c.Serve(http.NotFoundHandler())
	n.refresh(t, n.a, n.b, n.c)
	n.front = newFront(t, n.a)
	return n
}

func newFront(t *testing.T, c *cluster.Cluster) *httptest.Server {
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		to := r.Header.Get("To")
		if to == "" {
			to = "b"
		}
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Vary", "Origin")
		c.Forward(w, r, cluster.Forwarding{Replica: to, Principal: []byte(`{"name":"ann"}`), Client: "192.0.2.7", Target: "run-1", Body: body})
	}))
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	return front
}

func (n *trio) refresh(t *testing.T, replicas ...*cluster.Cluster) {
	t.Helper()
	for _, c := range replicas {
		if err := c.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
}

// pass lets seconds of the database's clock pass, with a heartbeat of the given replicas in each.
func (n *trio) pass(t *testing.T, seconds int, replicas ...*cluster.Cluster) {
	t.Helper()
	for range seconds {
		n.time.Add(int64(time.Second))
		n.refresh(t, replicas...)
	}
}

// add adds a replica that is only an address.
func (n *trio) add(t *testing.T, id, address string) {
	n.set(func() { n.rows[id] = cluster.Replica{ID: id, Address: address, Seen: n.now()} })
	n.refresh(t, n.a)
}

func (n *trio) request(t *testing.T, method, path, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, n.front.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func do(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close(); http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	return response
}

// text returns a complete body.
func text(t *testing.T, response *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%q, then %v", body, err)
	}
	return string(body)
}

// wantUnavailable checks a response to a request that could not be forwarded, and returns its body.
func wantUnavailable(t *testing.T, response *http.Response) string {
	t.Helper()
	h, body := response.Header, text(t, response)
	status := 503
	if strings.Contains(body, unknown) {
		status = 502
	}
	if response.StatusCode != status || h.Get("Retry-After") != "1" || h.Get("Content-Type") != "application/problem+json" || h.Get("Lingserve-Forward-Refused") != "" {
		t.Errorf("%d %v", response.StatusCode, h)
	}
	if !strings.Contains(body, fmt.Sprintf(`"status":%d`, status)) {
		t.Errorf("body %s", body)
	}
	return body
}

// unknown is part of a body that does not know whether the request was executed.
const unknown = "may have been executed"

// wantBreak checks the response to an EventSource whose request could not be forwarded: a stream that breaks off.
func wantBreak(t *testing.T, response *http.Response) {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err == nil || response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" || string(body) != "retry: 1000\n\n" {
		t.Errorf("%d %v %q %v", response.StatusCode, response.Header, body, err)
	}
}

const events = "Accept: text/event-stream"

func TestRequestIsForwardedAsItIs(t *testing.T) {
	type received struct {
		Method, URI, Host, Body string
		Forwarded               cluster.Forwarded
		Header                  http.Header
	}
	var got received
	n := newTrio(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f, _ := cluster.From(r.Context())
		got = received{r.Method, r.RequestURI, r.Host, string(body), f, r.Header}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Vary", "Accept")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"run-1"}`)
	})
	r := n.request(t, "POST", "/v1/runs/%C3%A4%2Fb/steer?a=1;2&ticket=lst_secret&b=%zz&c", `{"x":1}`,
		"Authorization: Bearer secret", "Cookie: key=secret", "Content-Type: application/json", "Idempotency-Key: k", "Keep-Alive: 5", "Connection: X-Hop, Upgrade",
		"X-Hop: 1", "Expect: 100-continue", "Upgrade: websocket", "User-Agent: test", "Lingserve-Forwarded: forged", "Accept-Encoding: br", "X-Forwarded-For: 1.1.1.1")
	response := do(t, r)
	if body := text(t, response); response.StatusCode != 202 || body != `{"id":"run-1"}` {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	want := received{
		"POST", "/v1/runs/%C3%A4%2Fb/steer?a=1;2&b=%zz&c", r.Host, `{"x":1}`,
		cluster.Forwarded{Sender: "a", Principal: []byte(`{"name":"ann"}`), Client: "192.0.2.7", Target: "run-1"},
		http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}, "Content-Length": {"7"}, "User-Agent": {"test"}, "Accept-Encoding": {"br"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the holder's request (-want +got):\n%s", diff)
	}
	if h := response.Header; len(h["X-Frame-Options"]) != 1 || len(h["Vary"]) != 2 || h.Get("Content-Type") != "application/json" {
		t.Errorf("the client's headers: %v", h)
	}
}

func TestStreamIsForwardedEventByEvent(t *testing.T) {
	next := make(chan bool)
	n := newTrio(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 20 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next // the client has the event
		}
	})
	response := do(t, n.request(t, "GET", "/v1/runs/run-1", "", events))
	lines := bufio.NewReader(response.Body)
	for i := range 20 {
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		_, _ = lines.ReadString('\n')
		next <- true
	}
	if _, err := lines.ReadByte(); err != io.EOF {
		t.Errorf("the stream ended with %v", err)
	}
}

// holdStream writes an event, and waits for the end of the request.
func holdStream(ended chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}
}

// readEvent reads the event of holdStream.
func readEvent(t *testing.T, response *http.Response) {
	t.Helper()
	event := make([]byte, len("data: 1\n\n"))
	if _, err := io.ReadFull(response.Body, event); err != nil || string(event) != "data: 1\n\n" {
		t.Fatalf("%q, %v", event, err)
	}
}

func TestHolderLearnsThatTheClientDisconnected(t *testing.T) {
	ended := make(chan struct{})
	n := newTrio(t, holdStream(ended))
	response := do(t, n.request(t, "POST", "/v1/runs", `{"stream":true}`))
	readEvent(t, response)
	_ = response.Body.Close()
	<-ended
}

func TestClosedHolderBreaksTheStream(t *testing.T) {
	ended := make(chan struct{})
	n := newTrio(t, func(w http.ResponseWriter, r *http.Request) {
		holdStream(make(chan struct{}))(w, r)
		for range 10_000 { // a handler may have something to do at its end
			runtime.Gosched()
		}
		close(ended)
	})
	response := do(t, n.request(t, "GET", "/", "", events))
	readEvent(t, response)
	if err := n.b.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("Close did not wait for the handler")
	}
	if rest, err := io.ReadAll(response.Body); err == nil || len(rest) > 0 {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
}

func TestDrainedReplicaServesOnlyWhatItHas(t *testing.T) {
	ended := make(chan struct{})
	n := newTrio(t, holdStream(ended))
	response := do(t, n.request(t, "GET", "/", "", events))
	readEvent(t, response)
	if err := n.b.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.pass(t, 60, n.a, n.b, n.c)
	wantAlive(t, n.a, "a", "c")
	wantUnavailable(t, do(t, n.request(t, "POST", "/", "")))
	if got := text(t, do(t, forwardFrom(t, n.b, "c"))); !strings.Contains(got, "not found") {
		t.Errorf("the drained replica cannot forward: %s", got)
	}
	select {
	case <-ended:
		t.Error("the stream has ended")
	default:
	}
	_ = n.b.Close()
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("the stream ended cleanly")
	}
}

// forwardFrom returns a request that a replica forwards to another.
func forwardFrom(t *testing.T, c *cluster.Cluster, to string) *http.Request {
	return (&trio{front: newFront(t, c)}).request(t, "GET", "/", "", "To: "+to)
}

// listenRaw returns the address of a process that answers each connection's first request with raw bytes, and sends the connection.
func listenRaw(t *testing.T, response string) (string, <-chan net.Conn) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 10)
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, response)
			}
			conns <- conn
		}
	}()
	return l.Addr().String(), conns
}

const rawStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"

func TestKilledHolderBreaksTheStream(t *testing.T) {
	n := newTrio(t, http.NotFound)
	address, conns := listenRaw(t, rawStream)
	n.add(t, "d", address)
	response := do(t, n.request(t, "GET", "/", "", events, "To: d"))
	readEvent(t, response)
	_ = (<-conns).Close()
	if rest, err := io.ReadAll(response.Body); err == nil || len(rest) > 0 {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
}

func TestHolderThatDiesBeforeItRespondsIsUnavailable(t *testing.T) {
	n := newTrio(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if body := wantUnavailable(t, do(t, n.request(t, "POST", "/", "{}"))); !strings.Contains(body, unknown) {
		t.Errorf("body %s", body)
	}
	for _, path := range []string{"/v1/runs/a/steer", "/v1/sessions/s/cancel"} {
		if body := wantUnavailable(t, do(t, n.request(t, "POST", path, ""))); !strings.Contains(body, unknown) {
			t.Errorf("%s: body %s", path, body)
		}
	}
	for path, method := range map[string]string{"/": "GET", "/v1/sessions/s": "DELETE", "/v1/runs/a/cancel": "POST", "/v1/sessions/s/approvals/c": "POST"} {
		if body := wantUnavailable(t, do(t, n.request(t, method, path, ""))); strings.Contains(body, unknown) {
			t.Errorf("%s %s may be repeated: body %s", method, path, body)
		}
	}
	wantBreak(t, do(t, n.request(t, "GET", "/", "", events)))
}

func TestHolderThatIsDeclaredDeadEndsWhatIsForwardedToIt(t *testing.T) {
	n := newTrio(t, http.NotFound)
	address, silent := listenRaw(t, "") // a stopped process still accepts connections
	n.add(t, "d", address)
	address, streaming := listenRaw(t, rawStream)
	n.add(t, "e", address)
	responses := make(chan *http.Response)
	post, get := n.request(t, "POST", "/", "{}", "To: d"), n.request(t, "GET", "/", "", events, "To: d")
	go func() {
		response, err := http.DefaultTransport.RoundTrip(post)
		if err != nil {
			t.Error(err)
		}
		responses <- response
	}()
	conn1 := <-silent
	stream := do(t, n.request(t, "GET", "/", "", events, "To: e"))
	readEvent(t, stream)
	conn2 := <-streaming
	breaks := make(chan *http.Response)
	go func() {
		response, err := http.DefaultTransport.RoundTrip(get)
		if err != nil {
			t.Error(err)
		}
		breaks <- response
	}()
	conn3 := <-silent
	for _, conn := range []net.Conn{conn1, conn2, conn3} {
		defer conn.Close()
	}
	n.pass(t, 5, n.a, n.b, n.c)
	wantAlive(t, n.a, "a", "b", "c", "d", "e")
	n.pass(t, 2, n.a, n.b, n.c)
	wantAlive(t, n.a, "a", "b", "c")
	response := <-responses
	defer response.Body.Close()
	wantUnavailable(t, response)
	response = <-breaks
	defer response.Body.Close()
	wantBreak(t, response)
	if _, err := io.ReadAll(stream.Body); err == nil {
		t.Error("the stream ended cleanly")
	}

	n.add(t, "e", address) // it goes on
	readEvent(t, do(t, n.request(t, "GET", "/", "", "To: e")))
	_ = (<-streaming).Close()
}

func TestHolderThatCannotBeReachedIsUnavailable(t *testing.T) {
	n := newTrio(t, http.NotFound)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	n.add(t, "closed", l.Addr().String())
	for _, to := range []string{"To: closed", "To: unknown"} {
		if body := wantUnavailable(t, do(t, n.request(t, "POST", "/", "{}", to))); strings.Contains(body, unknown) {
			t.Errorf("body %s", body)
		}
		wantUnavailable(t, do(t, n.request(t, "GET", "/", "", to)))
		wantBreak(t, do(t, n.request(t, "GET", "/", "", to, events)))
	}
}

func TestRequestIsForwardedOnce(t *testing.T) {
	var n *trio
	calls := 0
	n = newTrio(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		n.b.Forward(w, r, cluster.Forwarding{Replica: "c"})
	})
	wantUnavailable(t, do(t, n.request(t, "POST", "/", "{}")))
	wantUnavailable(t, do(t, n.request(t, "GET", "/", "")))
	wantBreak(t, do(t, n.request(t, "GET", "/", "", events)))
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
}

// The transport sends a GET again if its connection breaks off that served others before. The second copy must not reach the handler, nor
// the client as a 403.
func TestRequestIsExecutedOnce(t *testing.T) {
	calls := 0
	n := newTrio(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/break" {
			calls++
			panic(http.ErrAbortHandler)
		}
	})
	text(t, do(t, n.request(t, "GET", "/", "")))
	wantBreak(t, do(t, n.request(t, "GET", "/break", "", events)))
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

func TestBodyOverTheLimitIsRefused(t *testing.T) {
	n := newTrio(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	for size, want := range map[int]int{50: 200, 51: 413, 100: 413, 101: 413} { // b takes 50 bytes, a 100
		response := do(t, n.request(t, "POST", "/", strings.Repeat("x", size)))
		if response.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d", size, response.StatusCode, want)
		}
		text(t, response)
	}
}
