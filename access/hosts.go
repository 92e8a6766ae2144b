package access

import (
	"fmt"
	"net/http"
	"net/netip"
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

// isHostName takes names as they stand in a Host header: in ASCII, without a port and a dot at the end.
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

// Allows says whether the server is known by a host as it stands in a request, with or without a port.
func (h *Hosts) Allows(host string) bool {
	if h.any {
		return true
	}
	name, ok := hostOnly(host)
	if !ok {
		return false
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && a.Is6()
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".") // makes no copy where it is so already
	if !isHostName(name) {
		return false
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || h.names[name] {
		return true
	}
	for _, suffix := range h.suffix {
		if len(name) > len(suffix) && strings.HasSuffix(name, suffix) {
			return true
		}
	}
	if last := name[len(name)-1]; last < '0' || last > '9' {
		return false // no name that browsers look up ends in a number
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
