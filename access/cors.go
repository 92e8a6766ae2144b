package access

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrOrigin is of a page of a site that is not allowed to use the server.
var ErrOrigin = forbidden("origin", "this origin may not use the server; the operator can add it to http.origins")

// CORS lets pages of other sites use the server: those whose origins are in a list, and no others. A nil CORS lets none.
//
// An origin is compared as a whole, and what is answered is the one of the list. There are no patterns and no "*"; "null" is what
// any page can make itself. Cookies never count (no Access-Control-Allow-Credentials): pages send a key, which no browser adds to a
// request by itself. It is written here because whole origins need no more than a map; libraries for it bring patterns, origins that are
// sent back as they came, and empty lists that are everybody.
type CORS struct {
	origins map[string][]string // what is answered, so that nothing is made for a request
	maxAge  []string
}

// Headers of the API that pages of other sites send and see.
var (
	corsMethods = []string{"GET, HEAD, POST, DELETE"}
	corsHeaders = []string{"Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID, Prefer, Cache-Control, traceparent, tracestate"}
	corsExposed = []string{"X-Run-Id, Location, Retry-After, Idempotency-Replayed, X-Follow-Up-Id, X-Keepalive, WWW-Authenticate"}
)

// NewCORS returns CORS for a list of origins, each a scheme, a host and, where it is not the usual one, a port. Browsers keep what they
// are told for maxAge; 0 is 10 minutes, so that one that is taken out of the list is soon out everywhere.
func NewCORS(origins []string, maxAge time.Duration) (*CORS, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	if maxAge <= 0 {
		maxAge = 10 * time.Minute
	}
	c := &CORS{origins: map[string][]string{}, maxAge: []string{strconv.Itoa(int(maxAge / time.Second))}}
	for _, o := range origins {
		o = strings.TrimSpace(o)
		if err := checkOrigin(o); err != nil {
			return nil, err
		}
		c.origins[o] = []string{o}
	}
	return c, nil
}

// checkOrigin takes an origin as browsers write it, so that one that could never be found is no surprise.
func checkOrigin(o string) error {
	wrong := func(why string) error {
		return fmt.Errorf("%q is not a valid origin: %s; expected one such as https://app.example.com", short(o), why)
	}
	u, err := url.Parse(o)
	switch {
	case strings.Contains(o, "*"):
		return wrong("patterns are not supported")
	case o == "null":
		return wrong("any page can send this origin")
	case err != nil || u.Scheme == "" || u.Host == "" || u.Opaque != "" || u.User != nil:
		return wrong("the scheme or the host is missing")
	case u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(o, "#"):
		return wrong("nothing may follow the host")
	case o != strings.ToLower(o):
		return wrong("browsers use lower-case letters")
	case u.Scheme == "http" && u.Port() == "80", u.Scheme == "https" && u.Port() == "443":
		return wrong("browsers omit the default port")
	case strings.HasSuffix(u.Host, ":"):
		return wrong("the port is missing")
	case !strings.HasPrefix(u.Host, "[") && !isHostName(u.Hostname()):
		return wrong("the host has characters other than ASCII")
	}
	return nil
}

// Trust lets the pages do what [http.CrossOriginProtection] keeps other sites from.
func (c *CORS) Trust(guard *http.CrossOriginProtection) error {
	if c == nil {
		return nil
	}
	var errs []error
	for o := range c.origins {
		errs = append(errs, guard.AddTrustedOrigin(o))
	}
	return errors.Join(errs...)
}

// Allows says whether pages of an origin may use the server.
func (c *CORS) Allows(origin string) bool {
	return c != nil && c.origins[origin] != nil
}

// Apply puts the headers of an answer to a request that go with its origin. preflight says that the request only asks whether another
// one may be sent: the answer is then 204 without a body, or what err says. It must come before who asks is found out, since browsers
// send no key with that question. Any other request from an origin that is not allowed goes on, and its page sees no answer: to keep it
// from changing something is what [http.CrossOriginProtection] is for.
func (c *CORS) Apply(h http.Header, r *http.Request) (preflight bool, err error) {
	if c == nil {
		return false, nil
	}
	origin := r.Header["Origin"]
	preflight = r.Method == http.MethodOptions && origin != nil && r.Header["Access-Control-Request-Method"] != nil
	// Also where there is no origin: a cache must not give an answer for one to others.
	vary(h, "Origin")
	if preflight {
		vary(h, "Access-Control-Request-Method")
		vary(h, "Access-Control-Request-Headers")
	}
	var allowed []string
	if len(origin) == 1 {
		allowed = c.origins[origin[0]]
	}
	switch {
	case allowed == nil && preflight:
		return true, ErrOrigin
	case allowed == nil:
		return false, nil
	}
	h["Access-Control-Allow-Origin"] = allowed
	if preflight {
		h["Access-Control-Allow-Methods"] = corsMethods
		h["Access-Control-Allow-Headers"] = corsHeaders
		h["Access-Control-Max-Age"] = c.maxAge
		return true, nil
	}
	h["Access-Control-Expose-Headers"] = corsExposed
	return false, nil
}

// vary adds to a header that may have members already.
func vary(h http.Header, name string) {
	for _, line := range h["Vary"] {
		for member := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(member), name) {
				return
			}
		}
	}
	h["Vary"] = slices.Concat(h["Vary"], []string{name})
}
