package platform

import (
	"net/http"

	"github.com/lingserve/lingserve/channel"
)

// ReadEvent reads the body of a request by which a platform sends an event. limit returns how many bytes a body behind this header may have; valid is
// false if the request cannot come from the platform. ok is false if the request is refused, which is answered here. Without a need, the body is not read.
func ReadEvent(w http.ResponseWriter, r *http.Request, limit func(http.Header) (most int64, valid bool), media ...string) (body []byte, ok bool) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil, false
	}
	most, valid := limit(r.Header)
	if !valid {
		w.WriteHeader(http.StatusUnauthorized)
		return nil, false
	}
	body, refusal := channel.ReadBody(w, r, most, media...)
	if refusal != nil {
		refusal.Header(w.Header())
		w.WriteHeader(refusal.Status)
		return nil, false
	}
	return body, true
}

// Unavailable asks the platform to send an event again later.
func Unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
}
