package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
)

// Auth says how callers authenticate. Its zero value is no authentication.
type Auth struct {
	Keys     []Secret // entries of API keys
	KeysFile string

	Issuer       string // of tokens; "" is none
	Audience     []string
	JWKS         string
	IssuerName   string
	TokenTypes   []string
	Algorithms   []string
	Leeway       time.Duration
	SubjectClaim string
	RoleClaim    string
	Roles        []string // "claim=role"
	ScopeClaim   string
	ScopePrefix  string

	TicketLife time.Duration
}

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

// Caller bounds what each caller may use.
type Caller struct {
	Requests int // in a minute; 0 is no limit
	Burst    int
	Failures int // in a minute, of an address
	Tokens   int // in a minute; 0 is no limit
	Runs     int // at once; 0 is no limit
}

var authSettings = []Setting{
	{
		Key: "auth.keys", Env: []string{"LINGSERVE_API_KEYS"}, Secret: true,
		Help: "API keys, each NAME:KEY:ROLE; then every request needs one",
	},
	{Key: "auth.keys_file", Help: "file of API keys, one per line; reloaded on change"},
	{Key: "auth.issuer", Help: "issuer of accepted JWTs (claim iss), such as https://login.example.com/"},
	{Key: "auth.audience", Help: "this server's names in the claim aud"},
	{Key: "auth.jwks", Help: "URL or file of the issuer's JSON Web Key Set"},
	{Key: "auth.issuer_name", Default: "sso", Help: "issuer's short name, behind the @ in its users' names"},
	{Key: "auth.token_types", example: "JWT", Help: "accepted typ of tokens, such as JWT; unset: at+jwt, or no typ"},
	{Key: "auth.algorithms", Help: "accepted signatures, such as RS256; unset: all with a public key"},
	{Key: "auth.leeway", Default: "1m", Help: "tolerated clock difference to the issuer"},
	{Key: "auth.subject_claim", Default: "sub", Help: "claim with the caller's name"},
	{Key: "auth.role_claim", Help: "claim with roles, such as realm_access.roles; unset: every caller is a user"},
	{Key: "auth.roles", Help: "roles for values of that claim, each CLAIM=ROLE; unset: user, operator, admin"},
	{Key: "auth.scope_claim", Default: "scope", Help: "claim with scopes"},
	{Key: "auth.scope_prefix", Help: "prefix of this server's scopes, such as lingserve:; unset: tokens' scopes do not count"},
	{Key: "auth.ticket_life", Default: "1m", Min: "1s", Help: "lifetime of an unused ticket"},
}

// callerSettings belong to the section limit.
var callerSettings = []Setting{
	{Key: "limit.requests", Default: "600", Min: "0", Help: "a caller's requests per minute; 0: no limit"},
	{Key: "limit.burst", Default: "120", Min: "1", Help: "a caller's requests at once"},
	{Key: "limit.failures", Default: "30", Min: "0", Help: "wrong keys from one address per minute; 0: no limit"},
	{Key: "limit.tokens", Default: "0", Min: "0", Help: "a caller's model tokens per minute; 0: no limit"},
	{Key: "limit.runs", Default: "100", Min: "0", Help: "a caller's concurrent runs; 0: no limit"},
}

// finishAuth checks the settings of access, each and together. Its errors show no part of a key.
func (l *loader) finishAuth() {
	a, h := &l.c.Auth, &l.c.HTTP
	for i, entry := range a.Keys {
		if _, err := access.ParseKey(entry.Reveal()); err != nil {
			l.wrong("auth.keys", "entry %d: %v", i+1, err)
		}
	}
	_, hosts := access.NewHosts(h.Hosts)
	_, origins := access.NewCORS(h.Origins)
	_, proxies := access.ParseProxies(h.Proxies)
	_, roles := a.RoleNames()
	for _, of := range []struct {
		key string
		err error
	}{{"http.hosts", hosts}, {"http.origins", origins}, {"http.proxies", proxies}, {"auth.roles", roles}} {
		if of.err != nil {
			l.wrong(of.key, "%v", of.err)
		}
	}
	of := map[string]bool{
		"auth.audience": len(a.Audience) > 0, "auth.jwks": a.JWKS != "", "auth.algorithms": len(a.Algorithms) > 0, "auth.token_types": len(a.TokenTypes) > 0,
		"auth.role_claim": a.RoleClaim != "", "auth.roles": len(a.Roles) > 0, "auth.scope_prefix": a.ScopePrefix != "",
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if a.Issuer == "" && of[key] {
			l.warn("%s has no effect without auth.issuer; set auth.issuer to accept tokens", key)
		}
	}
}
