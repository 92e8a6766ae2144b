package config

import (
	"fmt"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
)

// ClientKey is the environment variable with the key that a command shows to another server. It is no setting.
const ClientKey = "LINGSERVE_KEY"

// On reports whether callers must authenticate.
func (a *Auth) On() bool { return len(a.Keys) > 0 || a.KeysFile != "" || a.Issuer != "" }

// RoleNames are the roles that a token's claim gives; nil are those that have their own names.
func (a *Auth) RoleNames() (map[string]tool.Role, error) {
	if len(a.Roles) == 0 {
		return nil, nil
	}
	roles := map[string]tool.Role{}
	for _, text := range a.Roles {
		claim, role, ok := strings.Cut(text, "=")
		if !ok || claim == "" {
			return nil, fmt.Errorf("%q is invalid; expected CLAIM=ROLE, such as staff=operator", text)
		}
		r, err := access.ParseRole(role)
		if err != nil {
			return nil, err
		}
		roles[claim] = r
	}
	return roles, nil
}

// finishAuth checks the settings of access, each and together. Its errors show no part of a key.
func (l *loader) finishAuth() {
	a, h := &l.c.Auth, &l.c.HTTP
	for i, entry := range a.Keys {
		if _, err := access.ParseKey(entry.Reveal()); err != nil {
			l.wrong("auth.keys", "entry %d: %v", i+1, err)
		}
	}
	check := func(key string, err error) {
		if err != nil {
			l.wrong(key, "%v", err)
		}
	}
	_, err := access.NewHosts(h.Hosts)
	check("http.hosts", err)
	_, err = access.NewCORS(h.Origins)
	check("http.origins", err)
	_, err = access.ParseProxies(h.Proxies)
	check("http.proxies", err)
	_, err = a.RoleNames()
	check("auth.roles", err)
}
