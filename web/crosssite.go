package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/web/wire"
)

// Refusals of what a page of another site can make a browser send.
var (
	errOtherSite = forbidden("origin", "pages of other sites may not send this request")
	// errNotByPage is also for a person who opens the address: a browser sends the same for a page that opens it.
	errNotByPage = forbidden("navigation",
		"browsers may send this request only with EventSource or fetch, from a page of this server")
	errNoSite = forbidden("origin",
		"the browser did not send the request's origin; use POST or https, or set Referrer-Policy: same-origin on the page")
	errNotEventSource = forbidden("navigation",
		"without Sec-Fetch-Site, a browser can start a run by GET only with Accept: text/event-stream; use EventSource, POST or https")
)

func forbidden(reason, detail string) *access.Refusal {
	return &access.Refusal{Status: http.StatusForbidden, Code: wire.CodeForbidden, Reason: reason, Detail: detail}
}

// checkSite refuses a request that a page of another site may have caused. [http.CrossOriginProtection] judges POST and DELETE. A GET that
// only reads is let through, because a page of another site does not see its answer. A GET that does something is held to more than a
// POST: browsers send GET for much that no script has asked for.
func (s *Server) checkSite(r *http.Request) error {
	h := r.Header
	starts, acts := effectOfGet(r)
	judged := r
	if acts || access.HasTicket(r) {
		post := *r
		post.Method = http.MethodPost
		judged = &post
	}
	if s.guard.Check(judged) != nil {
		return errOtherSite
	}
	if !acts {
		return nil
	}
	switch {
	case h.Get("Sec-Purpose") != "", h.Get("Purpose") != "", h.Get("X-Moz") != "": // prefetch and prerender
		return errNotByPage
	case h.Get("Sec-Fetch-Site") == "none": // the address bar, a bookmark, a prefetch by speculation rules
		return errNotByPage
	case !slices.Contains(modes, h.Get("Sec-Fetch-Mode")), !slices.Contains(destinations, h.Get("Sec-Fetch-Dest")):
		return errNotByPage
	case starts && accepts(h, "text/html", "application/xhtml+xml", "text/css", "image/"): // navigations, frames, images and style sheets
		return errNotByPage
	}
	// Browsers send no Sec-Fetch headers over plain http to a name that is not localhost. Where keys are needed, a foreign page has none.
	if h.Get("Sec-Fetch-Site") != "" || !s.o.Access.Door.Open() || !byBrowser(h) {
		return nil
	}
	if h.Get("Origin") == "" && !s.ownPage(r, h.Get("Referer")) {
		return errNoSite
	}
	if starts && !slices.ContainsFunc(wire.Offers, func(o wire.Offer) bool { return accepts(h, o.Media) }) {
		return errNotEventSource
	}
	return nil
}

// modes and destinations are the values of Sec-Fetch-Mode and Sec-Fetch-Dest with which a script asks. Clients that are no browsers send none.
var (
	modes        = []string{"", "cors", "same-origin"}
	destinations = []string{"", "empty"}
)

// effectOfGet reports whether a request is a GET that starts a run, and whether it is a GET that does something: it starts a run, cancels one
// when its connection ends, or reads an answer that is given only once.
func effectOfGet(r *http.Request) (starts, acts bool) {
	if r.Method != http.MethodGet {
		return false, false
	}
	var query url.Values
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	path := r.URL.Path
	// A request that names an event resumes a run, or is refused.
	starts = path == "/v1/runs" && r.Header.Get("Last-Event-ID") == "" && !query.Has("last_event_id") && !query.Has("lastEventId")
	once := strings.HasPrefix(path, "/v1/ui/") && strings.HasSuffix(path, "/stream")
	return starts, starts || once || query.Has("on_disconnect")
}

// accepts reports whether a request names a media type in the header Accept that begins with one of these. */* names none.
func accepts(h http.Header, media ...string) bool {
	named := strings.ToLower(strings.Join(h["Accept"], ","))
	return slices.ContainsFunc(media, func(m string) bool { return strings.Contains(named, m) })
}

// byBrowser reports whether a request may come from a browser. Browsers always send User-Agent, beginning with Mozilla, and no page can
// change that for a request to another site. A page decides about the other headers, so they only count where they are there.
func byBrowser(h http.Header) bool {
	agent := h.Get("User-Agent")
	return strings.HasPrefix(agent, "Mozilla/") || strings.HasPrefix(agent, "Opera/") ||
		h.Get("Referer") != "" || h.Get("Origin") != "" || h.Get("Cookie") != "" || h.Get("Upgrade-Insecure-Requests") != ""
}

// ownPage reports whether an address in a Referer is that of a page of this server, or of a site that may use it. A page of another site
// can leave its Referer out, but it cannot send another one.
func (s *Server) ownPage(r *http.Request, referer string) bool {
	u, err := url.Parse(referer)
	if err != nil || u.Host == "" {
		return false
	}
	return u.Host == r.Host || s.o.Access.CORS.Allows(u.Scheme+"://"+u.Host)
}
