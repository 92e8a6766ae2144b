package web

import (
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/internal/edits"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/agui"
	"github.com/lingserve/lingserve/web/wire/aisdk"
	"github.com/lingserve/lingserve/web/wire/native"
	"github.com/lingserve/lingserve/web/wire/openai"
)

// routes lays out the resources. Everything that answers with a document can be asked for with HEAD, too, and so can the events of a run; what
// starts a run or belongs to a protocol of others cannot.
func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		writeUnknown(w, r, nothingAt(r.URL.Path))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) { otherMethod(r, w, req) })
	document := func(path string, h http.HandlerFunc) {
		r.Get(path, h)
		r.Head(path, h)
	}
	document("/", s.getIndex)
	document("/assets/{name}", s.handle(s.getAsset))
	document("/healthz", s.getHealth)
	document("/readyz", s.getReady)
	document("/openapi.yaml", s.getContract)
	document("/v1/agents", s.getAgents)
	document("/v1/workflows", s.getWorkflows)
	document("/v1/workflows/{name}", s.handle(s.getWorkflow))
	s.wireRoutes(r, document)
	document("/v1/history", s.handle(s.getHistory))
	r.Post("/v1/history/cancel", s.handle(s.postHistoryCancel))
	document("/v1/sessions", s.handle(s.withTapes(s.getSessions)))
	document("/v1/sessions/{id}", s.handle(withoutQuery(s.withSession(s.getSession))))
	r.Delete("/v1/sessions/{id}", s.handle(withoutQuery(s.withSession(s.deleteSession))))
	r.Get("/v1/sessions/{id}/tape", s.handle(s.withSession(s.getTape)))
	r.Get("/v1/sessions/{id}/approvals", s.handle(withoutQuery(s.withSession(s.getApprovals))))
	r.Post("/v1/sessions/{id}/approvals/{approval}", s.handle(s.withSession(s.postSessionApproval)))
	r.Post("/v1/sessions/{id}/cancel", s.handle(withoutQuery(s.withSession(s.postSessionCancel))))
	r.Post("/v1/sessions/{id}/handoff", s.handle(s.withSession(s.postHandoff)))
	r.Post("/v1/sessions/{id}/fork", s.handle(s.withSession(s.postFork)))
	r.Post(filesPath, s.handle(s.keepsFiles(s.postFile)))
	document("/v1/files/{id}", s.handle(s.keepsFiles(s.getFile)))
	document("/v1/files/{id}/content", s.handle(s.keepsFiles(s.getFileContent)))
	r.Delete("/v1/files/{id}", s.handle(s.keepsFiles(s.deleteFile)))
	r.Post("/v1/tickets", s.handle(s.postTicket))
	r.Post("/v1/channels/{channel}/webhook", s.handle(s.postWebhook))
	s.router = r
	return timeBodies(s.outermost(r))
}

// handler answers a request, or returns the problem why it does not.
type handler = func(w http.ResponseWriter, r *http.Request) *wire.Problem

// handle makes an http.HandlerFunc of a handler. It writes the problem as clients of the path read it, or forwards the request.
func (s *Server) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p := h(w, r)
		switch {
		case p == nil:
		case p.Replica != "" && s.o.Cluster != nil:
			s.forward(w, r, p.Replica)
		default:
			writeProblem(w, r, p)
		}
	}
}

// wireRoutes lays out the resources by which clients start and follow runs.
func (s *Server) wireRoutes(r chi.Router, document func(path string, h http.HandlerFunc)) {
	own := native.Handlers{Server: s.wire}
	r.Post("/v1/runs", s.handle(s.follows(own.PostRun)))
	r.Get("/v1/runs", s.handle(s.follows(own.GetStart)))
	document("/v1/runs/{run}", s.handle(own.GetRun))
	r.Get("/v1/runs/{run}/events", s.handle(s.follows(own.GetEvents)))
	r.Head("/v1/runs/{run}/events", s.handle(own.GetEvents))
	r.Post("/v1/runs/{run}/cancel", s.handle(own.PostCancel))
	r.Post("/v1/runs/{run}/approvals/{approval}", s.handle(own.PostApproval))
	completions := openai.Handlers{Server: s.wire}
	r.Post("/v1/chat/completions", s.handle(s.follows(completions.PostCompletion)))
	document("/v1/models", completions.GetModels)
	document("/v1/models/*", s.handle(completions.GetModel))
	threads := agui.Handlers{Server: s.wire}
	r.Post("/v1/agui/{agent}", s.handle(s.follows(threads.PostRun)))
	r.Get("/v1/agui/{agent}/{thread}", s.handle(remembers(s.follows(threads.GetThread))))
	chats := aisdk.Handlers{Server: s.wire}
	r.Post("/v1/ui/{agent}", s.handle(s.follows(chats.PostChat)))
	r.Post("/v1/ui/{agent}/object", s.handle(s.follows(chats.PostObject)))
	document("/v1/ui/{agent}/{chat}", s.handle(remembers(chats.GetChat)))
	r.Get("/v1/ui/{agent}/{chat}/stream", s.handle(remembers(s.follows(chats.GetStream))))
}

// nothingAt is the answer at an unknown path. For paths that other servers have, it names the setting or the path to use.
func nothingAt(path string) *wire.Problem {
	if path == "/metrics" || path == "/debug" || strings.HasPrefix(path, "/debug/") {
		return wire.NewProblem(wire.CodeNotFound, "metrics and profiles have their own listener; set admin.addr to open it")
	}
	detail := "unknown path " + wording.Clip(path)
	below, ok := strings.CutPrefix(path, "/v1/")
	first, _, _ := strings.Cut(below, "/")
	switch {
	case ofOpenAI(path):
		detail += "; of OpenAI's API, this server supports /v1/chat/completions and /v1/models"
	case ok && !slices.Contains(resources, first):
		if near := edits.Nearest(first, slices.Concat(resources, openAIResources)); near != "" {
			detail += "; did you mean /v1/" + near + "?"
		}
	}
	return wire.NewProblem(wire.CodeNotFound, detail)
}

// writeUnknown answers a request for a path or method that the server does not have. Only clients of OpenAI's expect more below /v1/files.
func writeUnknown(w http.ResponseWriter, r *http.Request, p *wire.Problem) {
	if path := r.URL.Path; path == filesPath || strings.HasPrefix(path, filesPath+"/") {
		openai.WriteProblem(w, p)
		return
	}
	writeProblem(w, r, p)
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
	p := wire.NewProblem(wire.CodeInvalid, "the method "+wording.Clip(r.Method)+" is not for "+wording.Clip(r.URL.Path)+
		"; expected "+wording.Alternatives(allow))
	p.Status = http.StatusMethodNotAllowed
	writeUnknown(w, r, p)
}

// outermost stands around all routes: it keeps other sites out, turns panics into answers, and logs what is asked of runs.
func (s *Server) outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, timeout: s.o.WriteTimeout, began: time.Now()}
		r = rec.request(r)
		defer func() {
			rec.account.Release()
			cause := recover()
			if cause != nil && cause != http.ErrAbortHandler {
				p := wire.Internal(r.Context(), s.log, "panic in a handler", "path", r.URL.Path, "panic", cause, "stack", string(debug.Stack()))
				if cause = http.ErrAbortHandler; rec.status == 0 { // otherwise it is too late for an answer, but not for a broken one
					p.Write(rec)
					cause = nil
				}
			}
			s.requested(r, rec, cause != nil)
			if cause != nil {
				panic(cause)
			}
		}()
		maps.Copy(rec.Header(), secureHeaders)
		if s.draining.Load() {
			rec.Header().Set("Connection", "close") // the next request of this connection is for another server
		}
		if in := s.enter(rec, r); in != nil {
			next.ServeHTTP(rec, in)
		}
	})
}
