package web

import (
	_ "embed"
	"net/http"
	"net/url"
	"strings"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/web/playground"
	"github.com/lingserve/lingserve/web/wire"
)

//go:embed index.txt
var indexText string

// getIndex is what stands at /: the page for browsers, and a text about what is here for curl and its like.
func (s *Server) getIndex(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if wantsPage(r.Header["Accept"]) {
		playground.Serve(w, r)
		return
	}
	name, key := "NAME", ""
	if !s.o.Access.Door.Open() {
		key = `-H 'Authorization: Bearer KEY' ` // without a key, the names of workflows are secret
	} else if all := s.o.Workflows.All(); len(all) > 0 {
		name = all[0].Info().Name
	}
	text := strings.NewReplacer("{{version}}", s.o.Version, "{{key}}", key, "{{host}}", host(r), "{{workflow}}", url.QueryEscape(name)).Replace(indexText)
	s.wire.Send(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte(text))
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
