package access

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/cors"
)

// ErrOrigin is of a page of a site that is not allowed to use the server.
var ErrOrigin = forbidden("origin", "this origin may not use the server; the operator can add it to http.origins")

// CORS lets pages of listed origins use the server, with any headers. A nil CORS lets none. There are no patterns, and cookies never count:
// pages send a key, which no browser adds to a request by itself.
type CORS struct {
	origins []string
	headers http.Handler // sets the headers of an answer
}

// NewCORS returns CORS for a list of origins: a scheme, a host and, unless it is the default, a port. Browsers cache an answer for ten
// minutes, so a removed origin is soon locked out.
func NewCORS(origins []string) (*CORS, error) {
	if len(origins) == 0 {
		return nil, nil
	}
	c := &CORS{}
	for _, o := range origins {
		o = strings.TrimSpace(o)
		if !isOrigin(o) {
			return nil, fmt.Errorf("%q is not a valid origin; expected one such as https://app.example.com, in lower-case ASCII letters, without a pattern, a path or the default port", short(o))
		}
		c.origins = append(c.origins, o)
	}
	c.headers = cors.Handler(cors.Options{
		AllowOriginFunc: func(r *http.Request, origin string) bool {
			return len(r.Header["Origin"]) == 1 && c.Allows(origin)
		},
		AllowedMethods: []string{"GET", "HEAD", "POST", "DELETE"},
		// Clients send headers of their own, such as OpenAI's x-stainless-lang. A page of a listed origin may send any.
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{
			"X-Run-Id", "Location", "Retry-After", "Idempotency-Replayed", "X-Follow-Up-Id", "X-Keepalive", "WWW-Authenticate",
		},
		MaxAge: 600, OptionsPassthrough: true,
	})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return c, nil
}

// isOrigin reports whether o is an origin as browsers write it. Others, such as null, would match no request, or requests of any page.
func isOrigin(o string) bool {
	u, err := url.Parse(o)
	if err != nil || u.Scheme == "" || u.Scheme+"://"+u.Host != o || o != strings.ToLower(o) || strings.HasSuffix(o, ":") {
		return false
	}
	if u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" {
		return false
	}
	return strings.HasPrefix(u.Host, "[") || isHostName(u.Hostname())
}

// Trust exempts the origins from the checks of [http.CrossOriginProtection].
func (c *CORS) Trust(guard *http.CrossOriginProtection) error {
	if c == nil {
		return nil
	}
	var errs []error
	for _, o := range c.origins {
		errs = append(errs, guard.AddTrustedOrigin(o))
	}
	return errors.Join(errs...)
}

// Allows reports whether pages of an origin may use the server.
func (c *CORS) Allows(origin string) bool { return c != nil && slices.Contains(c.origins, origin) }

// Apply sets the headers of the answer to a request. It reports whether the request is a preflight, which is answered by a 204 without a
// body, or by err. Call it before authentication: browsers send no key with a preflight. A request from an origin that is not allowed goes
// on, and its page cannot read the answer; [http.CrossOriginProtection] keeps it from changing something.
func (c *CORS) Apply(w http.ResponseWriter, r *http.Request) (preflight bool, err error) {
	if c == nil {
		return false, nil
	}
	c.headers.ServeHTTP(w, r)
	if r.Method != http.MethodOptions || r.Header["Origin"] == nil || r.Header.Get("Access-Control-Request-Method") == "" {
		return false, nil
	}
	if !c.Allows(r.Header.Get("Origin")) {
		return true, ErrOrigin
	}
	return true, nil
}
