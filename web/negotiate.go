package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/web/frame"
)

// offer is a media type that runs are answered in.
type offer struct {
	media  string
	format frame.Format
}

// offers are what runs can be answered in. Where a client likes several equally, the first wins, so a client that takes
// anything gets one JSON document.
var offers = []offer{
	{"application/json", frame.JSON},
	{"text/event-stream", frame.SSE},
	{"application/x-ndjson", frame.JSONL},
	{"application/jsonl", frame.JSONL},
}

// streamOffers are those of a resource that is a stream by nature: a client that takes anything gets events.
var streamOffers = []offer{offers[1], offers[2], offers[3], offers[0]}

// negotiate picks the framing that the Accept headers like best (RFC 9110, section 12.5.1): the most specific range that
// covers a media type gives its quality; 0 refuses it. It returns false where nothing is acceptable.
func negotiate(accept []string, from []offer) (offer, bool) {
	text := strings.TrimSpace(strings.Join(accept, ","))
	if text == "" {
		return from[0], true
	}
	var best offer
	var bestQ float64
	for _, o := range from {
		if q := quality(text, o.media); q > bestQ {
			best, bestQ = o, q
		}
	}
	return best, bestQ > 0
}

// quality returns how much an Accept header likes a media type, 0 to 1.
func quality(accept, media string) float64 {
	major, _, _ := strings.Cut(media, "/")
	var q float64
	specific := -1
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(part, ";")
		var s int
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case media:
			s = 2
		case major + "/*":
			s = 1
		case "*/*", "*": // a lone star is what some old clients send
			s = 0
		default:
			continue
		}
		if s <= specific {
			continue
		}
		specific, q = s, 1
		for param := range strings.SplitSeq(params, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "q") {
				continue
			}
			// A quality that cannot be read counts as none given: refusing to answer would help nobody.
			if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && v >= 0 && v <= 1 {
				q = v
			}
		}
	}
	return q
}

// prefersAsync says whether the request asks not to wait (RFC 7240): Prefer: respond-async.
func prefersAsync(h http.Header) bool {
	for _, line := range h["Prefer"] {
		for part := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}
