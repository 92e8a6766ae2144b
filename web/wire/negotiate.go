package wire

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/run"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Offer is a media type that runs are answered in.
type Offer struct {
	Media  string
	Format frame.Format
}

// Offers are what runs can be answered in. Where a client likes several equally, the first wins, so a client that takes
// anything gets one JSON document.
var Offers = []Offer{
	{"application/json", frame.JSON},
	{"text/event-stream", frame.SSE},
	{"application/x-ndjson", frame.JSONL},
	{"application/jsonl", frame.JSONL},
}

// StreamOffers are those of a resource that is a stream by nature: a client that takes anything gets events.
var StreamOffers = []Offer{Offers[1], Offers[2], Offers[3], Offers[0]}

// Negotiate picks the framing that the Accept headers like best (RFC 9110, section 12.5.1): the most specific range that
// covers a media type gives its quality; 0 refuses it. It returns false where nothing is acceptable.
func Negotiate(accept []string, from []Offer) (Offer, bool) {
	text := strings.TrimSpace(strings.Join(accept, ","))
	if text == "" {
		return from[0], true
	}
	var best Offer
	var bestQ float64
	for _, o := range from {
		if q := Quality(text, o.Media); q > bestQ {
			best, bestQ = o, q
		}
	}
	return best, bestQ > 0
}

// Quality returns how much an Accept header likes a media type, 0 to 1.
func Quality(accept, media string) float64 {
	major, _, _ := strings.Cut(media, "/")
	var q float64
	specific := -1
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := mime.ParseMediaType(part) // of a broken parameter, the name
		var s int
		switch name {
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
		// A quality that cannot be read counts as missing.
		if v, err := strconv.ParseFloat(params["q"], 64); err == nil && v >= 0 && v <= 1 {
			q = v
		}
	}
	return q
}

// Choose decides on the framing of an answer: by the format parameter, or if that is "", by the Accept header.
func Choose(r *http.Request, format frame.Format, from []Offer) (frame.Format, *Problem) {
	if format != "" {
		return format, nil
	}
	o, ok := Negotiate(r.Header["Accept"], from)
	if ok {
		return o.Format, nil
	}
	var media []string
	for _, o := range from {
		media = append(media, o.Media)
	}
	p := Invalid(run.Field{Header: "Accept", Detail: "expected " + wording.Alternatives(media)})
	p.Status = http.StatusNotAcceptable
	return "", p
}
