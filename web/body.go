package web

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

const (
	// bodyTimeout is how long a client may take to send its body.
	bodyTimeout = 30 * time.Second
	// lingerTime and lingerBytes bound what is read of a refused body: enough for what a client has sent before it sees the answer.
	lingerTime  = time.Second
	lingerBytes = 16 << 20
)

// timedBody is the body of a request. Its read deadline ends with it: net/http then watches whether the client disconnects, and would take
// the deadline for that.
type timedBody struct {
	io.ReadCloser
	rc       *http.ResponseController
	complete atomic.Bool // it was read to its end
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && !b.complete.Swap(true) {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// timeBodies limits the time that bodies take. After the answer, it reads what no handler has read.
//
// A body of HTTP/1 in chunks is the last of its connection. Its request may have had a Content-Length as well, which net/http drops
// silently; a proxy in front that goes by it would take the bytes for another number of requests, and bytes hidden in the body would be
// answered as another request (RFC 9112, section 6.1).
func timeBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		body := &timedBody{ReadCloser: r.Body, rc: http.NewResponseController(w)}
		_ = body.rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // the ResponseWriter of a test has no deadlines
		r.Body = body
		next.ServeHTTP(w, r)
		if !body.complete.Load() {
			linger(r, body)
		}
	})
}

// linger sends the answer and reads what is on its way of a body that was refused: if a connection is closed with unread bytes, it is
// reset, and the client may lose the answer.
func linger(r *http.Request, body *timedBody) {
	_ = body.rc.SetReadDeadline(time.Now().Add(lingerTime))
	if r.ProtoMajor == 1 && r.Header.Get("Expect") == "" && body.rc.Flush() == nil {
		_, _ = io.CopyN(io.Discard, body, lingerBytes)
	}
}

// readBody reads the body to its end: only then does net/http notice that a client goes away.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *wire.Problem) {
	timeout := bodyTimeout
	if r.ContentLength > s.o.MaxBody { // it has a file in it
		timeout = uploadTimeout
	}
	return s.readUpTo(w, r, s.maxBody(r.URL.Path), timeout)
}

// maxBody returns how many bytes a body at a path may have. Runs and messages may have a file in them, in base64, unless the operator has
// lowered the limit of bodies.
func (s *Server) maxBody(path string) int64 {
	mayHaveFiles := path == "/v1/runs" || path == "/v1/chat/completions" || strings.HasPrefix(path, "/v1/ui/") || strings.HasPrefix(path, "/v1/agui/")
	if !mayHaveFiles || s.o.MaxBody < defaultMaxBody {
		return s.o.MaxBody
	}
	withFile := s.o.MaxBody + (s.o.Files.MaxSize+2)/3*4
	return max(s.o.MaxBody, min(withFile, s.shed.o.Bodies/2)) // one caller's bodies together have no more than the latter
}

// defaultMaxBody is the limit of bodies without files.
const defaultMaxBody = 1 << 20

func (s *Server) readUpTo(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) ([]byte, *wire.Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, s.tooLargeBody(r, limit)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	counted := s.countBody(r, s.countedFor(r, wire.Who(r)), s.shed.o.Bodies/2)
	defer counted.release()
	counted.ReadCloser = http.MaxBytesReader(w, r.Body, limit)
	// It is -1 if it is unknown. Otherwise all bytes are counted at once, so that some of many bodies are read to their end.
	length := max(r.ContentLength, 0)
	p := counted.reserve(length)
	if p == nil {
		var body bytes.Buffer
		body.Grow(int(length) + bytes.MinRead)
		_, err := body.ReadFrom(counted)
		if err == nil {
			if s.o.Cluster != nil {
				rec := recorderOf(r)
				rec.read, rec.body = true, body.Bytes()
			}
			return body.Bytes(), nil
		}
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, s.tooLargeBody(r, limit)
		}
		if p, _ = errors.AsType[*wire.Problem](err); p == nil {
			p = wire.Invalid(run.Field{Detail: "the request's body is incomplete; send it again"})
		}
	}
	p.Header = http.Header{"Connection": {"close"}}
	return nil, p
}

// tooLargeBody is the refusal of a body beyond the limit. The rest is not read, so the connection cannot be used again.
func (s *Server) tooLargeBody(r *http.Request, limit int64) *wire.Problem {
	if r.URL.Path == filesPath {
		limit = s.o.Files.MaxSize // without the form around the file
	}
	p := limited(wire.CodeTooLarge, limitBody, "the request's body is larger than "+wording.Plural(limit, "byte")+
		"; upload files with POST /v1/files and send their ids, or ask the operator to raise http.max_body or files.max_size", 0)
	p.Header = http.Header{"Connection": {"close"}}
	return p
}

// readJSON reads a body that must be JSON by its headers. [wire.CheckBody] checks whether it is.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request) ([]byte, *wire.Problem) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		media, _, err := mime.ParseMediaType(ct)
		if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
			detail := "expected application/json, found " + wording.Clip(ct)
			if media == "application/x-www-form-urlencoded" {
				detail += "; with curl, use --json"
			}
			p := wire.Invalid(run.Field{Header: "Content-Type", Detail: detail})
			p.Status = http.StatusUnsupportedMediaType
			p.Header = http.Header{"Accept": {"application/json"}, "Connection": {"close"}}
			return nil, p
		}
	}
	if ce := r.Header.Get("Content-Encoding"); ce != "" && !strings.EqualFold(ce, "identity") {
		p := wire.Invalid(run.Field{Header: "Content-Encoding", Detail: "expected a body that is not compressed, found " + wording.Clip(ce)})
		p.Status = http.StatusUnsupportedMediaType
		p.Header = http.Header{"Accept-Encoding": {"identity"}, "Connection": {"close"}}
		return nil, p
	}
	return s.readBody(w, r)
}

// smallBody is the size of bodies that cost little.
const smallBody = 16 << 10

// countedBody is a body whose bytes, as they come, count against the limits of all bodies and of those of one caller, until release. The request's account
// pays for them, also later, when they have become a run.
type countedBody struct {
	io.ReadCloser
	sh      *shed
	account *adapter.Account
	caller  string // "" has only the limit of all
	share   int64  // bytes that the caller's bodies may have
	read    int64
	counted int64
}

// countBody returns the body of a request.
func (s *Server) countBody(r *http.Request, caller string, share int64) *countedBody {
	rec := recorderOf(r)
	if rec.account == nil {
		rec.account = s.o.Ledger.Open()
	}
	return &countedBody{ReadCloser: r.Body, sh: s.shed, account: rec.account, caller: caller, share: share}
}

// reserve counts n more bytes. It returns a problem if there are too many.
func (b *countedBody) reserve(n int64) *wire.Problem {
	if p := b.sh.bodies.admit(b.caller, n, func(total, ofCaller int64) *wire.Problem {
		limit := b.sh.o.Bodies
		if n > smallBody && total > n { // large bodies, however slow, leave space for small ones
			limit -= limit / 16
		}
		switch {
		case total > limit:
			return limited(wire.CodeOverloaded, limitBodies, "the server is reading too many request bodies at once; retry later", bodiesRetry)
		case b.caller != "" && ofCaller > b.share:
			return limited(wire.CodeRateLimited, limitBodiesPerCaller,
				"the server is reading too many of your request bodies at once; send them one after the other", bodiesRetry)
		}
		return nil
	}); p != nil {
		return p
	}
	b.counted += n
	switch b.account.Admit(n) {
	case adapter.Refused:
		return littleMemory("the server has no memory for this request now; retry later")
	case adapter.Impossible:
		return limited(wire.CodeTooLarge, run.LimitMemory, "the request's body exceeds this server's memory limit; send a smaller one", 0)
	}
	return nil
}

// release ends the count.
func (b *countedBody) release() { b.sh.bodies.add(b.caller, -b.counted) }

// Read reads a part of the body. The error may be a *wire.Problem.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if more := b.read - b.counted; more > 0 {
		if p := b.reserve(more); p != nil {
			return 0, p
		}
	}
	return n, err
}
