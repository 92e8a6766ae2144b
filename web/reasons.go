package web

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire"
)

// The lists below are the closed sets of values that an [Observer] gets, so that metrics can have all of them from the start.

// Reasons lists the values of [Exchange.Reason].
func Reasons() []string {
	reasons := []string{
		// Of who asks.
		"none", "malformed", "host", "origin", "navigation",
		"key_mistyped", "key_unknown", "key_expired", "key_revoked",
		"token_malformed", "token_algorithm", "token_signer", "token_signature", "token_issuer", "token_audience", "token_expired",
		"token_early", "token_no_expiry", "token_subject", "token_no_keys", "token_type", "token_id_token",
		"ticket", "tickets", "ticket_method", "ticket_path", "database",
		// Of limits.
		"limit_requests", "limit_tokens", "limit_runs", "limit_failures",
		run.LimitMemory, run.LimitAllRuns, limitStreams, limitStreamsPerCaller, limitBody, limitBodies, limitBodiesPerCaller, run.LimitInput, run.LimitImages,
		run.LimitQueue, run.LimitSessions, limitFiles, run.LimitDisk,
	}
	// Codes stand for refusals without a word of their own.
	for code, status := range wire.Statuses {
		if wire.IsRefusal(status) {
			reasons = append(reasons, code)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// RunEnd is what [RunObserver.End] gets.
type RunEnd struct{ Status, Code string }

// RunEnds lists the ways in which runs end.
func RunEnds() []RunEnd {
	ends := []RunEnd{{Status: run.StatusCompleted}, {Status: run.StatusCanceled}, {Status: run.StatusInterrupted}, {Status: run.StatusMoved}}
	for _, code := range append(adapter.Codes(), wire.CodeOutput, wire.CodeRefused, wire.CodeInternal, wire.CodeCrashed) {
		ends = append(ends, RunEnd{run.StatusFailed, code})
	}
	return ends
}

// Route is a pattern of paths and a method that it takes, as an [Exchange] has them.
type Route struct{ Pattern, Method string }

// Routes lists the routes of the server, and the one of all other paths.
func (s *Server) Routes() []Route {
	routes := []Route{{noRoute, http.MethodGet}}
	_ = chi.Walk(s.router, func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routes = append(routes, Route{pattern, method})
		return nil
	})
	return routes
}
