package main

import (
	"fmt"
	"log/slog"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/web"
)

// entrance is what is between the network and the server: who may come in, from where, and how often.
type entrance struct {
	door    *access.Door // that lets everybody in where neither keys nor tokens are set up
	hosts   *access.Hosts
	cors    *access.CORS
	proxies access.Proxies
	limits  *access.Limits
	wrong   *access.Limits
}

// newEntrance makes it as the settings say. It is to be closed.
func newEntrance(c *config.Config, log *slog.Logger) (_ *entrance, err error) {
	e := &entrance{door: &access.Door{}}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	a := &c.Auth
	if len(a.Keys) > 0 || a.KeysFile != "" {
		o := access.KeysOptions{File: a.KeysFile, Log: log}
		for _, entry := range a.Keys {
			o.Entries = append(o.Entries, entry.Reveal())
		}
		if e.door.Keys, err = access.NewKeys(o); err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		if e.door.Keys.Len() == 0 {
			log.Warn("no keys, so all requests are refused; run lingserve keys new")
		}
	}
	if a.Issuer != "" {
		roles, err := a.RoleNames()
		if err != nil {
			return nil, fmt.Errorf("auth.roles: %w", err)
		}
		if e.door.Tokens, err = access.NewTokens(access.TokensOptions{
			Name: a.IssuerName, Issuer: a.Issuer, Audiences: a.Audience, Keys: a.JWKS, Types: a.TokenTypes, Algorithms: a.Algorithms, Leeway: a.Leeway,
			SubjectClaim: a.SubjectClaim, RoleClaim: a.RoleClaim, Roles: roles, ScopeClaim: a.ScopeClaim, ScopePrefix: a.ScopePrefix, ProxyEnv: c.Upstream.ProxyEnv, Log: log,
		}); err != nil {
			return nil, fmt.Errorf("auth.issuer (%s): %w", c.Source("auth.issuer"), err)
		}
	}
	// Where a key is asked for, a page that gets the browser to take it for one of this server has none to show.
	hosts := append([]string{}, c.HTTP.Hosts...)
	if len(hosts) == 0 && a.On() {
		hosts = []string{"*"}
	}
	if e.hosts, err = access.NewHosts(append(hosts, c.TLS.ACME...)); err != nil {
		return nil, fmt.Errorf("http.hosts (%s): %w", c.Source("http.hosts"), err)
	}
	if e.cors, err = access.NewCORS(c.HTTP.Origins); err != nil {
		return nil, fmt.Errorf("http.origins (%s): %w", c.Source("http.origins"), err)
	}
	if e.proxies, err = access.ParseProxies(c.HTTP.Proxies); err != nil {
		return nil, fmt.Errorf("http.proxies (%s): %w", c.Source("http.proxies"), err)
	}
	l := c.Limit.Caller
	e.limits = access.NewLimits(access.LimitsOptions{
		Requests: access.Rate{PerMinute: l.Requests, Burst: l.Burst}, Tokens: access.Rate{PerMinute: l.Tokens}, Runs: l.Runs,
	})
	e.wrong = access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: l.Failures}})
	if !a.On() && len(c.MCP) > 0 {
		log.Warn("without keys, a tool that can send requests to this server can approve its agent's own calls; run lingserve keys new")
	}
	if a.On() && !c.Local() && !c.TLS.On() && len(c.HTTP.Proxies) == 0 {
		log.Warn("keys travel unencrypted; set tls.cert and tls.key, or name an encrypting proxy in http.proxies")
	}
	return e, nil
}

// into gives it to a server.
func (e *entrance) into(o *web.Options) {
	o.Access = web.Access{Door: e.door, Hosts: e.hosts, CORS: e.cors, Limits: e.limits, Wrong: e.wrong}
	o.Proxies = e.proxies
}

// reload reads the file of keys again; what is wrong with it is logged, and the keys from before stay.
func (e *entrance) reload(log *slog.Logger) {
	if e.door.Keys != nil && e.door.Keys.Reload() == nil {
		log.Info("API keys reloaded")
	}
}

func (e *entrance) close() {
	if e.door.Keys != nil {
		e.door.Keys.Close()
	}
	if e.door.Tokens != nil {
		e.door.Tokens.Close()
	}
}
