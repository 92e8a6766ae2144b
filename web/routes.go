package web

import (
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/frame"
)

// routes lays out the resources. Everything that answers with a document can be asked for with HEAD, too; what starts or
// follows a run cannot.
func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		nothingAt(r.URL.Path).unknown(w, r)
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) { otherMethod(r, w, req) })
	document := func(path string, h http.HandlerFunc) {
		r.Get(path, h)
		r.Head(path, h)
	}
	document("/", s.getIndex)
	document("/assets/{name}", s.getAsset)
	document("/healthz", s.getHealth)
	document("/readyz", s.getReady)
	document("/openapi.yaml", s.getContract)
	document("/v1/agents", s.getAgents)
	r.Post("/v1/agui/{agent}", s.follows(s.postAGUI))
	r.Get("/v1/agui/{agent}/{thread}", remembers(s.follows(s.getAGUI)))
	r.Post("/v1/chat/completions", s.starts(s.postCompletion))
	document("/v1/models", s.getModels)
	document("/v1/models/*", s.getModel)
	document("/v1/workflows", s.getWorkflows)
	document("/v1/workflows/{name}", s.getWorkflow)
	r.Post("/v1/runs", s.starts(s.postRun))
	r.Get("/v1/runs", s.starts(s.getStart))
	document("/v1/runs/{run}", s.getRun)
	r.Get("/v1/runs/{run}/events", s.follows(s.getEvents))
	r.Post("/v1/runs/{run}/cancel", s.postCancel)
	r.Post("/v1/runs/{run}/approvals/{approval}", s.postApproval)
	r.Post("/v1/ui/{agent}", s.follows(s.postUI))
	r.Post("/v1/ui/{agent}/object", s.starts(s.postUIObject))
	document("/v1/ui/{agent}/{chat}", remembers(s.getUIChat))
	r.Get("/v1/ui/{agent}/{chat}/stream", remembers(s.follows(s.getUIStream)))
	document("/v1/sessions", s.withTapes(s.getSessions))
	document("/v1/sessions/{id}", s.withSession(s.getSession))
	r.Delete("/v1/sessions/{id}", s.withSession(s.deleteSession))
	r.Get("/v1/sessions/{id}/tape", s.withSession(s.getTape))
	r.Get("/v1/sessions/{id}/approvals", s.withSession(s.getApprovals))
	r.Post("/v1/sessions/{id}/approvals/{approval}", s.withSession(s.postSessionApproval))
	r.Post("/v1/sessions/{id}/cancel", s.withSession(s.postSessionCancel))
	r.Post("/v1/sessions/{id}/handoff", s.withSession(s.postHandoff))
	r.Post("/v1/sessions/{id}/fork", s.withSession(s.postFork))
	r.Post(filesPath, s.keepsFiles(s.postFile))
	document("/v1/files/{id}", s.keepsFiles(s.getFile))
	document("/v1/files/{id}/content", s.keepsFiles(s.getFileContent))
	r.Delete("/v1/files/{id}", s.keepsFiles(s.deleteFile))
	r.Post("/v1/tickets", s.postTicket)
	r.Post("/v1/channels/{channel}/webhook", s.postWebhook)
	s.router = r
	return s.outermost(notSurplus(s.sized(r)))
}

// nothingAt is the answer at a path that leads nowhere. Who looks for what other servers have there is told where it is, but not the
// address: it is for others.
func nothingAt(path string) *problem {
	if path == "/metrics" || path == "/debug" || strings.HasPrefix(path, "/debug/") {
		return newProblem(codeNotFound, "metrics and profiles have their own listener; set admin.addr to open it")
	}
	detail := "unknown path " + wording.Clip(path)
	if ofOpenAI(path) {
		detail += "; of OpenAI's API, this server supports /v1/chat/completions and /v1/models"
	}
	return newProblem(codeNotFound, detail)
}

// unknown answers a request for a path or method that the server does not have. Only clients of OpenAI's expect more below /v1/files.
func (p *problem) unknown(w http.ResponseWriter, r *http.Request) {
	if path := r.URL.Path; path == filesPath || strings.HasPrefix(path, filesPath+"/") {
		p.openai(w, nil)
		return
	}
	p.at(w, r)
}

// methods are those that a path may know.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// otherMethod answers a method that a path does not know: with those that it does.
func otherMethod(routes *chi.Mux, w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, m := range methods {
		if routes.Match(chi.NewRouteContext(), m, r.URL.Path) {
			allow = append(allow, m)
		}
	}
	allow = append(allow, http.MethodOptions)
	h := w.Header()
	h.Set("Allow", strings.Join(allow, ", "))
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	p := newProblem(codeInvalid, "the method "+wording.Clip(r.Method)+" is not for "+wording.Clip(r.URL.Path)+
		"; expected "+wording.Alternatives(allow))
	p.Status = http.StatusMethodNotAllowed
	p.unknown(w, r)
}

// outermost stands around all routes: it keeps other sites out, turns panics into answers, and logs what is asked of runs.
func (s *Server) outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, timeout: s.o.WriteTimeout, began: time.Now()}
		defer func() {
			rec.account.Release()
			cause := recover()
			if cause != nil && cause != http.ErrAbortHandler {
				id := run.NewID()
				s.log.ErrorContext(r.Context(), "panic in a handler", "id", id, "path", r.URL.Path, "panic", cause, "stack", string(debug.Stack()))
				if rec.status == 0 {
					p := newProblem(codeInternal, "internal error; find the cause in the server's log under this id")
					p.ID = id
					p.write(rec)
					cause = nil
				} else {
					cause = http.ErrAbortHandler // too late for an answer, but not for a broken one
				}
			}
			s.requested(r, rec, cause != nil)
			if cause != nil {
				panic(cause)
			}
		}()
		secure(rec.Header())
		if s.draining.Load() {
			rec.Header().Set("Connection", "close") // the next request of this connection is for another server
		}
		if in := s.enter(rec, r); in != nil {
			next.ServeHTTP(rec, in)
		}
	})
}

// send answers with a document. Large ones go out in pieces, each with its own time.
func (s *Server) send(w http.ResponseWriter, r *http.Request, status int, media string, body ...[]byte) {
	const piece = 256 << 10
	h := w.Header()
	h.Set("Content-Type", media)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	length := 0
	for _, part := range body {
		length += len(part)
	}
	h.Set("Content-Length", itoa(length))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	out := s.newOutput(w, r)
	for _, part := range body {
		for len(part) > 0 {
			n, err := out.Write(part[:min(piece, len(part))])
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			part = part[n:]
		}
	}
}

// formatOf decides on the framing: the format parameter, or else the Accept header.
func (v *view) formatOf(r *http.Request, from []offer) *problem {
	if v.format != "" {
		return nil
	}
	o, ok := negotiate(r.Header["Accept"], from)
	if !ok {
		var media []string
		for _, o := range from {
			media = append(media, o.media)
		}
		p := invalid(misfit{Header: "Accept", Detail: "expected " + wording.Alternatives(media)})
		p.Status = http.StatusNotAcceptable
		return p
	}
	v.format = o.format
	return nil
}

// ofRun names the run in the headers, as every answer does that has one.
func ofRun(h http.Header, id string) {
	h.Set("Location", "/v1/runs/"+id)
	h.Set("X-Run-Id", id)
}

// isStream says whether a framing is one of events.
func isStream(f frame.Format) bool { return f != frame.JSON }
