//go:build nightly

package attacks

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// raw sends bytes over a connection of its own, says that no more will come, and reads all that is answered until the server closes.
func (v *victim) raw(t testing.TB, send string) string {
	t.Helper()
	conn, err := net.Dial("tcp", v.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, send) // it may be refused before all of it was sent
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	b, _ := io.ReadAll(conn) // a reset is an end, too
	conn.Close()
	<-sent
	v.seen.Write(b)
	return string(b)
}

var statusLine = regexp.MustCompile(`(?m)^HTTP/1\.[01] (\d{3}) `)

// SE-18: who reads a request otherwise than we do (a proxy in front, which lets one request through where we would see two) must not
// find anything to disagree about: what can be read in two ways is refused, and nothing behind it is read on that connection.
func TestRequestThatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	v := server(t)
	const hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
	post := func(head, body string) string {
		return "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + head + "\r\n" + body
	}
	const chunked = "Transfer-Encoding: chunked\r\n"
	empty := "0\r\n\r\n" + hidden
	for _, row := range []struct {
		name, send string
		status     string // of the only answer; "" is none at all
	}{
		{"CL and TE", post("Content-Length: 40\r\n"+chunked, empty), "400"},
		{"TE and CL", post(chunked+"Content-Length: 4\r\n", "5c\r\n"+hidden+"\r\n0\r\n\r\n"), "400"},
		{"CL, TE in HTTP/1.0", "POST /v1/runs HTTP/1.0\r\nHost: localhost\r\nContent-Length: 5\r\n" + chunked + "\r\n" + empty, "400"},
		{"TE in HTTP/1.0", "POST /v1/runs HTTP/1.0\r\nHost: localhost\r\n" + chunked + "\r\n" + empty, "400"},
		{"TE: xchunked", post("Transfer-Encoding: xchunked\r\n", empty), "501"},
		{"TE: identity", post("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", empty), "501"},
		{"TE: chunked, identity", post("Transfer-Encoding: chunked, identity\r\n", empty), "501"},
		{"TE: identity, chunked", post("Transfer-Encoding: identity, chunked\r\n", empty), "501"},
		{"TE: gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", empty), "501"},
		{"TE twice", post(chunked+chunked, empty), "501"},
		{"TE twice, one of another kind", post(chunked+"Transfer-Encoding: x\r\n", empty), "501"},
		{"TE with a vertical tab", post("Transfer-Encoding: \x0bchunked\r\n", empty), "400"},
		{"TE with a NUL", post("Transfer-Encoding: chunked\x00\r\n", empty), "400"},
		{"TE in quotes", post("Transfer-Encoding: \"chunked\"\r\n", empty), "501"},
		{"TE with a blank before the colon", post("Transfer-Encoding : chunked\r\nContent-Length: 5\r\n", empty), "400"},
		{"TE with a tab before the colon", post("Transfer-Encoding\t: chunked\r\nContent-Length: 5\r\n", empty), "400"},
		{"TE on a line of its own that begins with a blank", post(" Transfer-Encoding: chunked\r\nContent-Length: "+itoa(len(empty))+"\r\n", empty), "415"},
		{"TE behind a NUL", post("\x00Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", empty), "400"},
		{"TE on a folded line", post("X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: "+itoa(len(empty))+"\r\n", empty), "400"},
		{"folded TE", post("Transfer-Encoding:\r\n chunked\r\n", empty), "400"},
		{"TE behind a bare CR", post("X: y\rTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", empty), "400"},
		{"two CLs", post("Content-Length: 2\r\nContent-Length: 40\r\n", "{}"+hidden), "400"},
		{"two CLs on one line", post("Content-Length: 2, 40\r\n", "{}"+hidden), "400"},
		{"CL with a sign", post("Content-Length: +2\r\n", "{}"+hidden), "400"},
		{"CL below zero", post("Content-Length: -2\r\n", "{}"+hidden), "400"},
		{"CL in hex", post("Content-Length: 0x2\r\n", "{}"+hidden), "400"},
		{"CL with digits of another script", post("Content-Length: ２\r\n", "{}"+hidden), "400"},
		{"CL beyond 64 bits", post("Content-Length: 18446744073709551618\r\n", "{}"+hidden), "400"},
		{"CL with a blank before the colon", post("Content-Length : 2\r\n", "{}"+hidden), "400"},
		{"CL with a blank inside", post("Content-Length: 2 0\r\n", "{}"+hidden), "400"},
		{"empty CL", post("Content-Length:\r\n", "{}"+hidden), "400"},
		{"a chunk size in signs", post(chunked, "+2\r\n{}\r\n"+empty), "400"},
		{"a chunk size with 0x", post(chunked, "0x2\r\n{}\r\n"+empty), "400"},
		{"a chunk size beyond 64 bits", post(chunked, "10000000000000002\r\n{}\r\n"+empty), "400"},
		{"a chunk size that wraps around", post(chunked, "fffffffffffffffff\r\n{}\r\n"+empty), "400"},
		{"an empty chunk size", post(chunked, "\r\n{}\r\n"+empty), "400"},
		{"a chunk that is longer than it says", post(chunked, "2\r\n{}x\r\n"+empty), "400"},
		{"a chunk with a bare CR behind it", post(chunked, "2\r\n{}\r"+empty), "400"},
		{"a chunk size with a bare CR behind it", post(chunked, "2\r{}\r\n"+empty), "400"},
		{"a chunk extension with a line break in it", post(chunked, "2;a\nb\r\n{}\r\n"+empty), "400"},
		{"chunk extensions without end", post(chunked, strings.Repeat("1;"+strings.Repeat("a", 4000)+"\r\n \r\n", 20)+empty), "400"},
		{"a chunk extension that is longer than any", post(chunked, "2;"+strings.Repeat("a", 1<<20)+"\r\n{}\r\n"+empty), "400"},
		{"a trailer that is none", post(chunked, "2\r\n{}\r\n0\r\nGET /hidden HTTP/1.1\r\n\r\n"), "400"},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n" + hidden, "400"},
		{"two hosts", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n" + hidden, "400"},
		{"a host with a slash", "GET /healthz HTTP/1.1\r\nHost: x/y\r\n\r\n" + hidden, "400"},
		{"a blank in the path", "GET /health z HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, "400"},
		{"a bare CR in the request line", "GET /healthz\rX HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, "400"},
		{"a NUL in a header", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n" + hidden, "400"},
		{"a header without a colon", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX\r\n\r\n" + hidden, "400"},
		{"a header without a name", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n: y\r\n\r\n" + hidden, "400"},
		{"a version of the future", "GET /healthz HTTP/3.7\r\nHost: localhost\r\n\r\n" + hidden, "505"},
		{"a version of the past", "GET /healthz\r\n\r\n" + hidden, "400"},
		{"a method with a separator", "GE(T /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, "400"},
		{"CONNECT", "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n" + hidden, "4.."},
		{"headers without end", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: "+strings.Repeat("a", 1000)+"\r\n", 100) + "\r\n" + hidden, "431"},
		{"a request line without end", "GET /" + strings.Repeat("a", 100_000) + " HTTP/1.1\r\nHost: localhost\r\n\r\n" + hidden, "431"},
		{"an expectation that nobody has", post("Expect: 200-ok\r\nContent-Length: 2\r\nConnection: close\r\n", "{}"+hidden), "417"},
		{"a body that is cut off", post("Content-Length: 200\r\n", "{}"), "400"},
		{"a body that is too large", post("Content-Length: 100000000\r\n", strings.Repeat(" ", 2<<20)+hidden), "413"},
		{"chunks that are too large", post(chunked, "2800000\r\n"+strings.Repeat(" ", 40<<20)+hidden), "413"},
		{"what is no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + hidden, "400"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // some wait for half a second before they close
			got := v.raw(t, row.send)
			answers := statusLine.FindAllStringSubmatch(got, -1)
			switch {
			case len(answers) > 1 || strings.Contains(got, "/hidden"):
				t.Errorf("answered %d times: %q", len(answers), got)
			case len(answers) == 0 && got != "":
				t.Errorf("answered %q", got)
			case len(answers) == 1 && !regexp.MustCompile("^"+row.status+"$").MatchString(answers[0][1]):
				t.Errorf("answered %s", answers[0][1])
			}
		})
	}
}

// SE-18: what is answered before its body was read takes nothing of that body for the next request.
func TestBodyOfARefusedRequestIsNotTheNextRequest(t *testing.T) {
	v := server(t)
	const hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, head := range map[string]string{
		"of another kind":      "POST /v1/runs HTTP/1.1\r\nContent-Type: text/html\r\n",
		"from another site":    "POST /v1/runs HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\nContent-Type: application/json\r\n",
		"of another method":    "PUT /v1/runs HTTP/1.1\r\n",
		"to nowhere":           "POST /nowhere HTTP/1.1\r\n",
		"for a GET":            "GET /healthz HTTP/1.1\r\n",
		"to a channel":         "POST /v1/channels/nobody/webhook HTTP/1.1\r\n",
		"without a signature":  "POST /v1/channels/hook/webhook HTTP/1.1\r\n",
		"to an unknown run":    "POST /v1/runs/unknown/cancel HTTP/1.1\r\n",
		"in another coding":    "POST /v1/runs HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Type: application/json\r\n",
		"with its expectation": "POST /nowhere HTTP/1.1\r\nExpect: 100-continue\r\n",
	} {
		body := strings.Repeat(hidden, 10)
		for how, rest := range map[string]string{
			"length": "Content-Length: " + itoa(len(body)) + "\r\n\r\n" + body,
			"chunks": "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x", len(body)) + "\r\n" + body + "\r\n0\r\n\r\n",
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				got := v.raw(t, strings.Replace(head, "\r\n", "\r\nHost: localhost\r\n", 1)+rest)
				got = strings.ReplaceAll(got, "HTTP/1.1 100 Continue\r\n\r\n", "")
				if n := len(statusLine.FindAllString(got, -1)); n != 1 || strings.Contains(got, "/hidden") {
					t.Errorf("answered %d times: %q", n, got)
				}
			})
		}
	}
	// Bodies that are complete lie between the requests.
	got := v.raw(t, "GET /one HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /two HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\nGET /lie HTGET /three HTTP/1.1\r\nHost: localhost\r\n\r\n")
	one, two, three := strings.Index(got, "path /one"), strings.Index(got, "path /two"), strings.Index(got, "path /three")
	if n := len(statusLine.FindAllString(got, -1)); n != 3 || one < 0 || one > two || two > three || strings.Contains(got, "/lie") {
		t.Errorf("three requests at once: answered %d times: %q", n, got)
	}
}

// SE-18: HTTP/2 without TLS is spoken from the first byte or not at all: nothing switches a connection to it.
func TestNoConnectionIsUpgraded(t *testing.T) {
	v := server(t)
	frames := string(headersFrame(t, ":method", "GET", ":scheme", "http", ":authority", "localhost", ":path", "/hidden"))
	for name, send := range map[string]string{
		"by an upgrade": "GET /one HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" +
			http2.ClientPreface + frames,
		"by an upgrade with a body": "POST /one HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 2\r\n\r\n{}" +
			http2.ClientPreface + frames,
		"to websockets": "GET /one HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n" +
			"\x81\x00",
		"behind a request": "GET /one HTTP/1.1\r\nHost: localhost\r\n\r\n" + http2.ClientPreface + frames,
	} {
		t.Run(name, func(t *testing.T) {
			got := v.raw(t, send)
			if !strings.HasPrefix(got, "HTTP/1.1 404") || strings.Contains(got, "/hidden") || !strings.Contains(got, "/one") {
				t.Errorf("answered %q", got)
			}
			for _, answer := range statusLine.FindAllStringSubmatch(got, -1)[1:] {
				if answer[1][0] != '4' && answer[1] != "505" {
					t.Errorf("then %s: %q", answer[1], got)
				}
			}
		})
	}
}

// headersFrame is a whole request of HTTP/2, behind its settings.
func headersFrame(t *testing.T, names ...string) []byte {
	t.Helper()
	var frames, head bytes.Buffer
	f, enc := http2.NewFramer(&frames, nil), hpack.NewEncoder(&head)
	for i := 0; i < len(names); i += 2 {
		if err := enc.WriteField(hpack.HeaderField{Name: names[i], Value: names[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	return frames.Bytes()
}

// SE-18: HTTP/2 has no headers that would mean something in the HTTP/1 of somebody behind it.
func TestHeadersOfHTTP2ThatHTTP1ReadsOtherwiseAreRefused(t *testing.T) {
	v := server(t)
	plain := []string{":method", "GET", ":scheme", "http", ":authority", "localhost", ":path", "/healthz"}
	with := func(more ...string) []string { return append(slices.Clone(plain), more...) }
	for _, row := range []struct {
		name    string
		headers []string
		good    bool
	}{
		{"an ordinary one", plain, true},
		{"transfer-encoding", with("transfer-encoding", "chunked"), false},
		{"connection", with("connection", "close"), false},
		{"upgrade", with("upgrade", "h2c"), false},
		{"a line break in a header", with("x", "a\r\nHost: y"), false},
		{"a line break in a name", with("x\r\nhost", "y"), false},
		{"a NUL in a header", with("x", "a\x00b"), false},
		{"a capital letter in a name", with("X", "y"), false},
		{"a path that is none", []string{":method", "GET", ":scheme", "http", ":authority", "localhost", ":path", "healthz"}, false},
		{"a line break in the path", []string{":method", "GET", ":scheme", "http", ":authority", "localhost", ":path", "/healthz HTTP/1.1\r\nX: y"}, false},
		{"a blank in the method", []string{":method", "GET /x", ":scheme", "http", ":authority", "localhost", ":path", "/healthz"}, false},
		{"a path twice", with(":path", "/healthz"), false},
		{"a pseudo-header behind others", []string{":method", "GET", ":scheme", "http", "x", "y", ":path", "/healthz"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", v.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write(append([]byte(http2.ClientPreface), headersFrame(t, row.headers...)...)); err != nil {
				t.Fatal(err)
			}
			f := http2.NewFramer(io.Discard, conn)
			f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					if row.good {
						t.Error(err)
					}
					return // the connection was closed
				}
				switch frame := frame.(type) {
				case *http2.RSTStreamFrame, *http2.GoAwayFrame:
					if row.good {
						t.Errorf("%v", frame)
					}
					return
				case *http2.MetaHeadersFrame:
					if status := frame.PseudoValue("status"); row.good != (status == "200") {
						t.Errorf("answered %s", status)
					}
					return
				}
			}
		})
	}
}
