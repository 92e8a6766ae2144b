package web

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/web/wire/request"
)

//go:embed explain.html
var explainPage string

const explainStyle = ":root { background: Canvas; color: CanvasText } main { max-width: 45rem; margin: 3rem auto; padding: 0 1rem; font: 1rem/1.6 system-ui, sans-serif } " +
	"pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 1rem; border: 1px solid; border-radius: .5rem }"

// explainPolicy lets the page have its style, and nothing else.
var explainPolicy = func() []string {
	sum := sha256.Sum256([]byte(explainStyle))
	return []string{"default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
}()

// explainStart answers a person who has opened the address of a run in a browser. It is a 403, as the problem for a program is. Of the address
// the page repeats only the name of the workflow or agent, and only if it has plain letters: a stranger may have written the address, and
// people copy commands from this page.
func (s *Server) explainStart(w *recorder, r *http.Request) {
	w.Refused(errNotByPage.Reason)
	query := r.URL.Query()
	kind, name := "workflow", query.Get("workflow")
	if query.Get("agent") != "" {
		kind, name = "agent", query.Get("agent")
	}
	if !plainName(name) {
		name = "NAME"
	}
	key, ticket := "", ""
	if !s.o.Access.Door.Open() {
		key, ticket = `-H "Authorization: Bearer $LINGSERVE_KEY" `, ", "+access.TicketParameter
	}
	page := strings.NewReplacer(
		"{{style}}", explainStyle, "{{kind}}", kind, "{{name}}", name, "{{origin}}", originOf(r), "{{key}}", key, "{{ticket}}", ticket,
	).Replace(explainPage)
	h := w.Header()
	h["Content-Security-Policy"] = explainPolicy
	h.Add("Vary", "Accept")
	s.wire.Send(w, r, http.StatusForbidden, "text/html; charset=utf-8", []byte(page))
}

// plainName reports whether a name has only characters that mean nothing in HTML, in JSON, in an address and in a shell.
func plainName(name string) bool {
	return name != "" && len(name) <= request.MaxName && !strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	})
}

// originOf is where a browser has reached the server. A proxy may have taken the encryption off. Browsers send Sec-Fetch-Site only over https
// and to localhost, so this header tells the two apart.
func originOf(r *http.Request) string {
	at := host(r)
	if r.TLS != nil || r.Header.Get("Sec-Fetch-Site") != "" && !isLocalhost(at) {
		return "https://" + at
	}
	return "http://" + at
}

func isLocalhost(host string) bool {
	u := url.URL{Host: host}
	name := u.Hostname()
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback() || name == "localhost" || strings.HasSuffix(name, ".localhost")
}
