package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/internal/config"
	"github.com/lingserve/lingserve/web"
)

// accessRules say who may send requests, from where, and how often.
type accessRules struct {
	web.Access
	proxies access.Proxies
}

// newAccess makes the rules of the settings. The caller closes them.
func newAccess(c *config.Config, log *slog.Logger) (_ *accessRules, err error) {
	r := &accessRules{Access: web.Access{Door: &access.Door{}}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := r.openKeys(c, log); err != nil {
		return nil, err
	}
	hosts := append([]string{}, c.HTTP.Hosts...)
	if len(hosts) == 0 && c.Auth.On() { // a page that reaches the server under another name has no key
		hosts = []string{"*"}
	}
	var errs [3]error // none, because the configuration has checked the lists
	r.Hosts, errs[0] = access.NewHosts(append(hosts, c.TLS.ACME...))
	r.CORS, errs[1] = access.NewCORS(c.HTTP.Origins)
	r.proxies, errs[2] = access.ParseProxies(c.HTTP.Proxies)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	l := c.Limit.Caller
	r.Limits = access.NewLimits(access.LimitsOptions{
		Requests: access.Rate{PerMinute: l.Requests, Burst: l.Burst}, Tokens: access.Rate{PerMinute: l.Tokens}, Runs: l.Runs,
	})
	r.Wrong = access.NewLimits(access.LimitsOptions{Requests: access.Rate{PerMinute: l.Failures}})
	if !c.Auth.On() && len(c.MCP) > 0 {
		log.Warn("without keys, a tool that can send requests to this server can approve its agent's own calls; run lingserve keys new")
	}
	if c.Auth.On() && !c.Local() && !c.TLS.On() && len(c.HTTP.Proxies) == 0 {
		log.Warn("keys travel unencrypted; set tls.cert and tls.key, or name an encrypting proxy in http.proxies")
	}
	return r, nil
}

// openKeys opens the keys and the tokens of the settings. Without both, everybody may send requests.
func (r *accessRules) openKeys(c *config.Config, log *slog.Logger) (err error) {
	a := &c.Auth
	if len(a.Keys) > 0 || a.KeysFile != "" {
		o := access.KeysOptions{File: a.KeysFile, Log: log}
		for _, entry := range a.Keys {
			o.Entries = append(o.Entries, entry.Reveal())
		}
		if r.Door.Keys, err = access.NewKeys(o); err != nil {
			return fmt.Errorf("auth: %w", err)
		}
		if r.Door.Keys.Len() == 0 {
			log.Warn("no keys, so all requests are refused; run lingserve keys new")
		}
	}
	if a.Issuer == "" {
		return nil
	}
	o := a.TokensOptions
	o.Roles, o.ProxyEnv, o.Log = a.RoleNames(), c.Upstream.ProxyEnv, log
	r.Door.Tokens, err = access.NewTokens(o)
	if err != nil {
		return fmt.Errorf("auth.issuer (%s): %w", c.Source("auth.issuer"), err)
	}
	return nil
}

func (r *accessRules) close() {
	if r.Door.Keys != nil {
		r.Door.Keys.Close()
	}
	if r.Door.Tokens != nil {
		r.Door.Tokens.Close()
	}
}
