package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/web/wire"
)

// Channels are the doors for platforms: what people there write comes in beside the API.
type Channels interface {
	// Webhook is what a platform sends the events of a channel to; nil where no channel of this name is waiting for any.
	Webhook(name string) http.Handler
	// Broken returns why channels do not work, by name, in words for the public.
	Broken() map[string]string
}

// webhookShare is the part of limit.bodies that bodies from one address may have which no channel has checked yet: one of so many. It is large
// beside what a platform sends at once, and leaves room for the others.
const webhookShare = 4

// postWebhook passes an event to its channel, which answers as its platform wants it. The body counts against the limits of bodies.
func (s *Server) postWebhook(w http.ResponseWriter, r *http.Request) *wire.Problem {
	var h http.Handler
	if s.o.Channels != nil {
		h = s.o.Channels.Webhook(chi.URLParam(r, "channel"))
	}
	if h == nil {
		return wire.NewProblem(wire.CodeNotFound, "unknown path; no channel receives events at "+wording.Clip(r.URL.Path))
	}
	counted := s.countBody(r, "webhook "+access.Caller(s.o.Proxies.Client(r)), max(s.shed.o.Bodies/webhookShare, s.o.MaxBody))
	defer counted.release()
	r.Body = counted
	h.ServeHTTP(w, r)
	return nil
}
