package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/web/playground"
	"github.com/lingserve/lingserve/web/wire"
)

// getIndex is what stands at /: the page for browsers, and a text about what is here for curl and its like.
func (s *Server) getIndex(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if wantsPage(r.Header["Accept"]) {
		playground.Serve(w, r)
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Lingserve %s\n\n", s.o.Version)
	b.WriteString(`  POST /v1/runs                  start a run: {"workflow": "…", "input": {…}}
                                 or talk to an agent: {"agent": "…", "session": "…", "input": "…"}
  GET  /v1/runs?workflow=&input= the same for EventSource
  GET  /v1/runs/{run}            the run's status and result so far
  GET  /v1/runs/{run}/events     follow the run
  POST /v1/runs/{run}/cancel     cancel the run
  POST /v1/runs/{run}/approvals/{approval}  approve or deny a tool call
  GET  /v1/workflows, /v1/agents list workflows and agents
  GET  /v1/models                list models
  POST /v1/chat/completions      for OpenAI's clients; /v1/ui/{agent} for the AI SDK, /v1/agui/{agent} for AG-UI
  GET  /v1/sessions              list sessions; see also /v1/sessions/{id}, …/tape
  POST /v1/tickets               a ticket for clients that cannot send a key, such as EventSource
  GET  /openapi.yaml             the complete description
  GET  / in a browser            a page to try the server
  GET  /healthz, /readyz         health checks

Try it:

`)
	name, key := "NAME", ""
	if !s.o.Access.Door.Open() {
		key = `-H 'Authorization: Bearer KEY' ` // without a key, the names of workflows are secret
	} else if all := s.o.Workflows.All(); len(all) > 0 {
		name = all[0].Info().Name
	}
	fmt.Fprintf(&b, "  curl -N %s'http://%s/v1/runs?format=sse&workflow=%s' --get --data-urlencode 'input=Why is the sky blue?'\n",
		key, host(r), url.QueryEscape(name))
	s.wire.Send(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte(b.String()))
}

// host returns the address of this server as the client has it, if that can be part of a command.
func host(r *http.Request) string {
	if r.Host == "" || strings.ContainsFunc(r.Host, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(".-:[]", c))
	}) {
		return "127.0.0.1:8080"
	}
	return r.Host
}

// wantsPage says whether a client asks for HTML, and not just for anything.
func wantsPage(accept []string) bool {
	text := strings.Join(accept, ",")
	return wire.Quality(text, "text/html") > wire.Quality(text, "text/plain")
}

// getAsset serves what the page loads.
func (s *Server) getAsset(w http.ResponseWriter, r *http.Request) *wire.Problem {
	if !playground.Has(r.URL.Path) {
		return wire.NewProblem(wire.CodeNotFound, "unknown path "+wording.Clip(r.URL.Path))
	}
	playground.Serve(w, r)
	return nil
}
