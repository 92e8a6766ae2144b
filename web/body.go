package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// abandon gives up on what has not come of a body. Otherwise the connection would stay for as long as the client likes, since net/http
// waits for the rest of a body.
func abandon(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(abandonTime)) // not every writer of a test can
}

// linger sends the answer and takes in what is on its way of a body that was refused. A connection that is closed with bytes unread is
// reset, and the client may lose the answer. Of many clients at once only some get this, so that a flood costs little: the others have half a
// second to read the answer, as net/http gives it.
func (s *Server) linger(w http.ResponseWriter, r *http.Request) {
	abandon(w)
	if s.lingering.Add(1) <= mostLingering && r.ProtoMajor == 1 && r.Header.Get("Expect") == "" && http.NewResponseController(w).Flush() == nil {
		for n := int64(0); n < lingerBytes; n += lingerStep {
			if _, err := io.CopyN(io.Discard, r.Body, lingerStep); err != nil {
				break
			}
			runtime.Gosched() // a client that sends fast would have a processor for 10 ms
		}
	}
	s.lingering.Add(-1)
}

const (
	// lingerBytes is more than a client has sent before it sees the answer, on most networks.
	lingerBytes = 16 << 20
	lingerStep  = 128 << 10 // is read at a time
	// mostLingering connections at once leave processors to others.
	mostLingering = 8
)

// abandonTime is long enough for what is on its way, so that the client is not cut off before it has read the answer.
const abandonTime = time.Second

// bodyTimeout is how long a client may take to send its body.
const bodyTimeout = 30 * time.Second

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
	if !mayHaveFiles(path) || s.o.MaxBody < defaultMaxBody {
		return s.o.MaxBody
	}
	withFile := s.o.MaxBody + (s.o.Files.MaxSize+2)/3*4
	return max(s.o.MaxBody, min(withFile, s.shed.o.Bodies/2)) // one caller's bodies together have no more than the latter
}

// defaultMaxBody is the limit of bodies without files.
const defaultMaxBody = 1 << 20

// mayHaveFiles reports whether bodies at a path may have files in them.
func mayHaveFiles(path string) bool {
	return path == "/v1/runs" || path == "/v1/chat/completions" || strings.HasPrefix(path, "/v1/ui/") || strings.HasPrefix(path, "/v1/agui/")
}

func (s *Server) readUpTo(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) ([]byte, *wire.Problem) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(timeout)) // not every writer of a test can
	held := s.budget(r, s.countedFor(r, wire.Who(r)), s.shed.o.Bodies/2)
	defer held.free()
	body, err := held.readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
		if rec := recorderOf(r); rec != nil && s.o.Cluster != nil {
			rec.read, rec.body = true, body
		}
		return body, nil
	}
	abandon(w)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLargeBody(w, r, limit)
	}
	if p, ok := errors.AsType[*wire.Problem](err); ok {
		p.Header = http.Header{"Connection": {"close"}}
		return nil, p
	}
	p := wire.Invalid(run.Field{Detail: "the request's body is incomplete; send it again"})
	p.Header = http.Header{"Connection": {"close"}}
	return nil, p
}

// tooLargeBody is the refusal of a body beyond the limit. The rest is not read, so the connection cannot be used again.
func tooLargeBody(w http.ResponseWriter, r *http.Request, limit int64) *wire.Problem {
	abandon(w)
	detail := "the request's body is larger than " + wording.Plural(limit, "byte")
	switch {
	case r.URL.Path == filesPath:
		detail += "; the operator can raise files.max_size"
	case mayHaveFiles(r.URL.Path):
		detail += "; upload files with POST /v1/files and send their ids, or ask the operator to raise http.max_body or files.max_size"
	default:
		detail += "; the operator can raise http.max_body"
	}
	p := wire.NewProblem(wire.CodeTooLarge, detail)
	p.Reason, p.Header = limitBody, http.Header{"Connection": {"close"}}
	return p
}

// sized refuses a body that is too large by its Content-Length, before anything is read or waited for. Channels and files have other
// limits.
func (s *Server) sized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit := s.maxBody(r.URL.Path)
		if r.ContentLength > limit && !strings.HasPrefix(r.URL.Path, "/v1/channels/") && r.URL.Path != filesPath {
			writeProblem(w, r, tooLargeBody(w, r, limit))
			return
		}
		next.ServeHTTP(w, r)
	})
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
