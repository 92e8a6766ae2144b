package platform

import (
	"net/http"

	"github.com/lingserve/lingserve/channel"
)

// HTTPStatus returns the status of the answer to a message whose turn has ended for a reason; "" is that it was answered (CH-14).
func HTTPStatus(r channel.Reason) int {
	switch r {
	case "", channel.ReasonNotATurn, channel.ReasonHandledLocally, channel.ReasonMerged, channel.ReasonDedupe,
		channel.ReasonMissingMention, channel.ReasonObserver, channel.ReasonUnmentioned:
		return http.StatusOK
	case channel.ReasonIngestNull, channel.ReasonUnsupported:
		return http.StatusBadRequest
	case channel.ReasonTooLarge:
		return http.StatusRequestEntityTooLarge
	case channel.ReasonNoRoute:
		return http.StatusNotFound
	case channel.ReasonRateLimited:
		return http.StatusTooManyRequests
	case channel.ReasonSessionBusy:
		return http.StatusConflict
	case channel.ReasonOverloaded, channel.ReasonDraining:
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden // for every other reason, also a new one
}
