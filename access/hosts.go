package access

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ErrHost is of a request under a name that the server is not known by.
var ErrHost = forbidden("host", "unknown name in the header Host; the operator can add it to http.hosts")

// Hosts are the names that the server is known by. A page of another site can let its name lead to this machine, and then counts as a
// page of this server for the browser; but its requests have that name (DNS rebinding). An address is no name that could be led
// elsewhere, so each is taken, as by probes of a cluster.
type Hosts struct {
	any    bool
	names  map[string]bool
	suffix []string // ".example.com"
}

// NewHosts returns the names of this machine, which are localhost and those below it, and those of a list: "chat.example.com",
// "*.example.com" for all below it, or "*" for any.
func NewHosts(list []string) (*Hosts, error) {
	h := &Hosts{names: map[string]bool{}}
	for _, text := range list {
		name := strings.ToLower(strings.TrimSpace(text))
		if name == "*" {
			h.any = true
			continue
		}
		below, wild := strings.CutPrefix(name, "*.")
		if !isHostName(below) {
			return nil, fmt.Errorf("%q is not a host name; expected one such as chat.example.com, without a port, or *.example.com", short(text))
		}
		if wild {
			h.suffix = append(h.suffix, "."+below)
		} else {
			h.names[name] = true
		}
	}
	return h, nil
}

// isHostName reports whether a name is one of a Host header: in ASCII, without a port and a dot at the end.
func isHostName(name string) bool {
	if name == "" || len(name) > 253 || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// Allows reports whether the server is known by the host of a request, with or without a port.
func (h *Hosts) Allows(host string) bool {
	if h.any {
		return true
	}
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		if _, err := strconv.ParseUint(host[colon+1:], 10, 16); err != nil {
			return false
		}
		host = host[:colon]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		return closed && err == nil && a.Is6()
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if !isHostName(name) {
		return false
	}
	below := func(suffix string) bool { return len(name) > len(suffix) && strings.HasSuffix(name, suffix) }
	if name == "localhost" || below(".localhost") || h.names[name] || slices.ContainsFunc(h.suffix, below) {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Is4()
}

// Check refuses a request under another name.
func (h *Hosts) Check(r *http.Request) error {
	if !h.Allows(r.Host) {
		return ErrHost
	}
	return nil
}
