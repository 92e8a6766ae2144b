package web

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/web/wire"
	"github.com/lingserve/lingserve/web/wire/agui"
	"github.com/lingserve/lingserve/web/wire/aisdk"
	"github.com/lingserve/lingserve/web/wire/openai"
)

// Access is who may ask, from where, and how much. The zero value lets everybody in as the one user of the server.
type Access struct {
	Door   *access.Door   // nil: no authentication
	Hosts  *access.Hosts  // names that the server is known by; nil answers under any
	CORS   *access.CORS   // sites whose pages may use the server; nil is none but its own
	Limits *access.Limits // of callers; nil is none
	Wrong  *access.Limits // of addresses that send what is no key; nil is none
}

// secureHeaders are headers that every answer has. Their values are shared: what is set for one answer goes in their place.
var secureHeaders = http.Header{
	"X-Content-Type-Options": {"nosniff"},
	"Referrer-Policy":        {"no-referrer"}, // an address may have what a user says in its query
	"X-Frame-Options":        {"DENY"},        // for browsers that do not know the policy
	// For what pages load without asking, as images; it says nothing of what CORS allows.
	"Cross-Origin-Resource-Policy": {"same-origin"},
	// The page at / has another one.
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
}

// enter decides whether a request gets to its handler, and as whose. It returns the request as handlers see it; nil where it has been
// answered. The order counts: what a browser asks before it sends anything comes before who asks, and who asks before how much.
func (s *Server) enter(rec *recorder, r *http.Request) *http.Request {
	if f, ok := cluster.From(r.Context()); ok {
		return s.enterForwarded(rec, r, f)
	}
	a := &s.o.Access
	probe := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
	if a.Hosts != nil && !probe {
		if err := a.Hosts.Check(r); err != nil {
			return s.refuse(rec, r, err)
		}
	}
	if preflight, err := a.CORS.Apply(rec, r); preflight {
		if err != nil {
			return s.refuse(rec, r, err)
		}
		rec.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err := s.checkSite(r); err != nil {
		return s.refuse(rec, r, err)
	}
	if open(r.URL.Path) {
		return access.WithoutTicket(r)
	}
	visitor, err := a.Door.Enter(r)
	rec.visitor = visitor
	if err != nil {
		if refusal, ok := errors.AsType[*access.Refusal](err); ok && refusal.Status == http.StatusUnauthorized && a.Wrong != nil {
			// Only wrong keys are counted, so that clients with a key are not kept out by others behind the same address.
			if limited := a.Wrong.Request(access.Caller(s.o.Proxies.Client(r))); limited != nil {
				err = tooManyWrong(limited.RetryAfter)
			}
		}
		return s.refuse(rec, r, err)
	}
	if a.Limits != nil {
		if name := s.countedFor(r, visitor.Principal); name != "" {
			if limited := a.Limits.Request(name); limited != nil {
				return s.refuse(rec, r, limited)
			}
		}
	}
	return access.WithoutTicket(r).WithContext(access.With(r.Context(), visitor.Principal))
}

// tooManyWrong is the refusal of an address from which much has come that is no key. The log has another word for it: it may be
// an attack.
func tooManyWrong(wait time.Duration) *access.Refusal {
	return &access.Refusal{
		Status: http.StatusTooManyRequests, Code: wire.CodeRateLimited, Reason: "limit_failures", RetryAfter: wait,
		Detail: "your address sent too many requests without a valid key; retry later",
	}
}

// open says whether a path is for everybody: the page and what it loads, the contract, and what watches the server. A channel's webhook
// looks at who asks by itself.
func open(path string) bool {
	switch path {
	case "/", "/openapi.yaml", "/healthz", "/readyz":
		return true
	}
	return strings.HasPrefix(path, "/assets/") || strings.HasPrefix(path, "/v1/channels/") && strings.HasSuffix(path, "/webhook")
}

// countedFor returns the name that a request is counted for: its principal, or without authentication its address. It is "" for requests from
// this machine, which have no limits.
func (s *Server) countedFor(r *http.Request, p access.Principal) string {
	if by := recorderOf(r).by; by != nil {
		return by.Caller
	}
	if p.Name != access.Local.Name {
		return p.Name
	}
	client := s.o.Proxies.Client(r)
	if client.IsLoopback() || client == (netip.Addr{}) {
		return ""
	}
	return access.Caller(client)
}

// refuse answers a request that does not get in, in the words of those who ask at such a path. It returns nil, as enter does then.
func (s *Server) refuse(rec *recorder, r *http.Request, err error) *http.Request {
	writeProblem(rec, r, s.wire.Problem(r.Context(), err))
	return nil
}

// resources are the first segments below /v1/ of what only this server has.
var resources = []string{"agents", "agui", "channels", "files", "history", "runs", "sessions", "tickets", "ui", "workflows"}

// openAIResources are the first segments below /v1/ of what OpenAI's API has, without those that are this server's too.
var openAIResources = []string{
	"assistants", "audio", "batches", "chat", "completions", "containers", "conversations", "edits", "embeddings", "engines", "evals", "fine_tuning",
	"images", "models", "moderations", "organization", "realtime", "responses", "threads", "uploads", "vector_stores", "videos",
}

// ofOpenAI reports whether OpenAI's API has a path.
func ofOpenAI(path string) bool {
	below, ok := strings.CutPrefix(path, "/v1/")
	first, _, _ := strings.Cut(below, "/")
	return ok && slices.Contains(openAIResources, first)
}

// writeProblem answers with a problem as clients of this path read it.
func writeProblem(w http.ResponseWriter, r *http.Request, p *wire.Problem) {
	path := r.URL.Path
	switch {
	case ofOpenAI(path):
		openai.WriteProblem(w, p)
	case strings.HasPrefix(path, "/v1/agui/"):
		agui.WriteProblem(w, p)
	case strings.HasPrefix(path, "/v1/ui/"):
		aisdk.WriteProblem(w, p)
	default:
		p.Write(w)
	}
}

// Refuse answers with a refusal, for listeners beside this server's.
func Refuse(w http.ResponseWriter, r *access.Refusal) { wire.OfRefusal(r).Write(w) }
