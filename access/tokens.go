package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/lingserve/lingserve/tool"
)

// Refusals of tokens.
var (
	ErrMalformedToken = unauthorized("token_malformed", "the token is not a valid JWT; expected a signed access token")
	ErrTokenType      = unauthorized("token_type", "the server does not accept the token's type (typ in its header); send an access token of type at+jwt, "+
		"not an ID token; the operator can allow other types in auth.token_types")
	ErrIDToken       = unauthorized("token_id_token", "this is an ID token; send an access token")
	ErrAlgorithm     = unauthorized("token_algorithm", "the server does not accept the token's signature algorithm; expected one of auth.algorithms")
	ErrUnknownSigner = unauthorized("token_signer", "the token's issuer does not publish the key of its signature")
	ErrSignature     = unauthorized("token_signature", "the token's signature is invalid")
	ErrIssuer        = unauthorized("token_issuer", "the token is from another issuer; expected the one of auth.issuer")
	ErrAudience      = unauthorized("token_audience", "the token is not for this server; expected an audience of auth.audience")
	ErrExpiredToken  = unauthorized("token_expired", "the token has expired; request a new one")
	ErrEarlyToken    = unauthorized("token_early", "the token is not valid yet; check the clock")
	ErrNoExpiry      = unauthorized("token_no_expiry", "the token has no expiry (exp); request one that expires")
	ErrSubject       = unauthorized("token_subject", "the token does not name its user; expected the claim of auth.subject_claim")
	ErrNoKeys        = &Refusal{
		Status: http.StatusServiceUnavailable, Code: "overloaded", Reason: "token_no_keys",
		Detail: "the server cannot check tokens at the moment, because it has no keys of the issuer yet; retry soon", RetryAfter: 5 * time.Second,
	}
)

// TokensOptions say which tokens are accepted and which principals they give. Issuer, Audiences and Keys are required. The defaults in the tags
// hold here, too.
type TokensOptions struct {
	// Name is in the names of principals, subject@NAME: small letters, digits, ".", "_", "-".
	Name      string   `key:"issuer_name" default:"sso" help:"issuer's short name, behind the @ in its users' names"`
	Issuer    string   `key:"issuer" help:"issuer of accepted JWTs (claim iss), such as https://login.example.com/"`
	Audiences []string `key:"audience" help:"this server's names in the claim aud"`
	// Keys may be an http address only on this machine.
	Keys string `key:"jwks" help:"URL or file of the issuer's JSON Web Key Set"`

	Types      []string      `key:"token_types" help:"accepted typ of tokens, such as JWT; unset: at+jwt, or no typ"`
	Algorithms []string      `key:"algorithms" help:"accepted signatures, such as RS256; unset: all with a public key"`
	Leeway     time.Duration `key:"leeway" default:"1m" help:"tolerated clock difference to the issuer"`
	Refresh    time.Duration // how old the keys may be, 15 min

	SubjectClaim string `key:"subject_claim" default:"sub" help:"claim with the caller's name"`
	// The claim RoleClaim is text or a list; a dot goes into an object.
	RoleClaim string               `key:"role_claim" help:"claim with roles, such as realm_access.roles; unset: every caller is a user"`
	Roles     map[string]tool.Role // what is in RoleClaim, and the role it gives; the highest counts. nil is user, operator and admin
	// The claim ScopeClaim is text with blanks, or a list. It counts only with ScopePrefix.
	ScopeClaim  string `key:"scope_claim" default:"scope" help:"claim with scopes"`
	ScopePrefix string `key:"scope_prefix" help:"prefix of this server's scopes, such as lingserve:; unset: tokens' scopes do not count"`

	Transport http.RoundTripper // to the issuer; nil is a new one
	ProxyEnv  bool              // with a new transport: go through the proxy that the environment names
	Log       *slog.Logger
}

const (
	// maxToken is a header's share of what a server takes of headers. Issuers that list groups come to some KiB.
	maxToken = 16 << 10
	// maxClaim bounds a subject.
	maxClaim = 1024
)

// algorithms are those that can be allowed: all that need a public key. Without a signature ("none"), and with a secret that this
// server would have to know too (HS256 and its like), nothing is accepted.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// accessToken is the type of access tokens (RFC 9068). It tells them from ID tokens, which tell a client who has logged in and open
// nothing, though the same issuer may sign them for the same audience.
const accessToken = "at+jwt"

// Tokens checks the JWTs of one issuer. Its methods are safe for concurrent use.
//
// go-jose reads tokens and verifies signatures, for the listed algorithms only.
type Tokens struct {
	o       TokensOptions
	allowed []jose.SignatureAlgorithm
	roles   []string // path of the claim
	signers *signers
}

// NewTokens checks the options and begins to read the issuer's keys. That their server cannot be reached is logged and no error:
// there may be other ways in, and it is asked again with the first token.
func NewTokens(o TokensOptions) (*Tokens, error) {
	o.Name, o.SubjectClaim, o.ScopeClaim = cmp.Or(o.Name, "sso"), cmp.Or(o.SubjectClaim, "sub"), cmp.Or(o.ScopeClaim, "scope")
	o.Leeway, o.Refresh = cmp.Or(o.Leeway, time.Minute), cmp.Or(o.Refresh, signersRefresh)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Roles == nil {
		o.Roles = map[string]tool.Role{}
		for _, r := range []tool.Role{tool.User, tool.Operator, tool.Admin} {
			o.Roles[r.String()] = r
		}
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = algorithms
	}
	if len(o.Types) == 0 {
		o.Types = []string{accessToken}
	}
	t := &Tokens{o: o}
	if o.RoleClaim != "" {
		t.roles = strings.Split(o.RoleClaim, ".")
	}
	switch {
	case !plain(o.Name, maxIssuer):
		return nil, fmt.Errorf("the issuer's name: expected at most %d lower-case letters, digits, \".\", \"_\" and \"-\"", maxIssuer)
	case o.Issuer == "":
		return nil, errors.New("the issuer is missing; expected the claim iss of its tokens, such as https://login.example.com/")
	case len(o.Audiences) == 0 || slices.Contains(o.Audiences, ""):
		return nil, errors.New("the audience is missing; set this server's name in the claim aud, so that it does not accept other servers' tokens")
	case o.Leeway < 0 || o.Leeway > 10*time.Minute:
		return nil, fmt.Errorf("the leeway is %v; expected at most 10m", o.Leeway)
	}
	for _, a := range o.Algorithms {
		if !slices.Contains(algorithms, a) {
			return nil, fmt.Errorf("unsupported algorithm %q; expected one or more of %s", short(a), strings.Join(algorithms, ", "))
		}
		t.allowed = append(t.allowed, jose.SignatureAlgorithm(a))
	}
	var err error
	if t.signers, err = newSigners(&t.o); err != nil {
		return nil, err
	}
	return t, nil
}

// Close ends what reads the issuer's keys.
func (t *Tokens) Close() {
	t.signers.cancel()
	_, _, _ = t.signers.reads.Do("", t.signers.refresh)
}

// Check returns whose token a text is, and until when it counts, the leeway included. The error is a [Refusal], or that of ctx.
//
// Where a key comes from is never read in the token: its headers jku, jwk, x5u and x5c have no meaning here.
func (t *Tokens) Check(ctx context.Context, text string) (Visitor, error) {
	if len(text) > maxToken {
		return Visitor{}, ErrMalformedToken
	}
	parsed, err := jwt.ParseSigned(text, t.allowed)
	if err != nil {
		if _, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
			return Visitor{}, ErrAlgorithm
		}
		return Visitor{}, ErrMalformedToken
	}
	// Before its signature, since only a token that could be right is worth asking the issuer for a key that is not known.
	var claims registered
	var all map[string]any
	if err := parsed.UnsafeClaimsWithoutVerification(&claims, &all); err != nil || all == nil {
		return Visitor{}, ErrMalformedToken
	}
	head := parsed.Headers[0]
	if err := t.checkType(head.ExtraHeaders, all); err != nil {
		return Visitor{}, err
	}
	if err := t.validate(&claims); err != nil {
		return Visitor{}, err
	}
	keys, err := t.signers.find(ctx, head.KeyID)
	if err != nil {
		return Visitor{}, err
	}
	for _, key := range keys {
		// A key that the issuer published for one algorithm verifies no other.
		if (key.Algorithm == "" || key.Algorithm == head.Algorithm) && parsed.Claims(key) == nil {
			p, err := t.principal(all)
			return Visitor{Principal: p, By: "token", Grant: Grant{Until: claims.Expiry.Time().Add(t.o.Leeway)}}, err
		}
	}
	return Visitor{}, ErrSignature
}

// checkType refuses tokens that are no access tokens. Access tokens and ID tokens may share a type other than at+jwt, or have none. Such a
// token must have no mark of an ID token: the claims of OpenID Connect, those of Keycloak (typ) and of Amazon Cognito (token_use).
func (t *Tokens) checkType(header map[jose.HeaderKey]any, claims map[string]any) error {
	if v, has := header[jose.HeaderType]; has {
		name, _ := v.(string)
		if !slices.ContainsFunc(t.o.Types, func(accepted string) bool { return strings.EqualFold(mediaType(name), mediaType(accepted)) }) {
			return ErrTokenType
		}
		if strings.EqualFold(mediaType(name), accessToken) {
			return nil
		}
	}
	for _, claim := range []string{"nonce", "at_hash", "c_hash"} {
		if _, has := claims[claim]; has {
			return ErrIDToken
		}
	}
	if claims["typ"] == "ID" || claims["token_use"] == "id" {
		return ErrIDToken
	}
	return nil
}

// mediaType is the short form of a type: a prefix "application/" may be left out (RFC 7515).
func mediaType(text string) string {
	const prefix = "application/"
	if len(text) > len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
		return text[len(prefix):]
	}
	return text
}

// registered are the claims with a meaning of their own (RFC 7519).
type registered struct {
	Issuer    string           `json:"iss"`
	Audience  jwt.Audience     `json:"aud"`
	Expiry    *jwt.NumericDate `json:"exp"`
	NotBefore *jwt.NumericDate `json:"nbf"`
	IssuedAt  *jwt.NumericDate `json:"iat"`
}

// latest is the end of what times in tokens can mean, the year 9999: beyond it, adding to a time overflows.
const latest = 253402300799

// validate checks the issuer, the audience and the times of a token.
func (t *Tokens) validate(c *registered) error {
	now := time.Now()
	for _, d := range []*jwt.NumericDate{c.Expiry, c.NotBefore, c.IssuedAt} {
		if d != nil && (*d < 0 || *d > latest) {
			return ErrMalformedToken
		}
	}
	switch {
	case c.Issuer != t.o.Issuer:
		return ErrIssuer
	case !slices.ContainsFunc(t.o.Audiences, c.Audience.Contains):
		return ErrAudience
	case c.Expiry == nil:
		return ErrNoExpiry
	case !now.Add(-t.o.Leeway).Before(c.Expiry.Time()):
		return ErrExpiredToken
	case c.NotBefore != nil && now.Add(t.o.Leeway).Before(c.NotBefore.Time()),
		c.IssuedAt != nil && now.Add(t.o.Leeway).Before(c.IssuedAt.Time()):
		return ErrEarlyToken
	}
	return nil
}

// principal returns the principal of a valid token.
func (t *Tokens) principal(claims map[string]any) (Principal, error) {
	subject, _ := claims[t.o.SubjectClaim].(string)
	if subject == "" || len(subject) > maxClaim || !utf8.ValidString(subject) || strings.ContainsFunc(subject, unicode.IsControl) {
		return Principal{}, ErrSubject
	}
	p := Principal{Name: tokenName(t.o.Name, subject)}
	if t.roles != nil {
		for _, name := range words(dig(claims, t.roles)) {
			if r, ok := t.o.Roles[name]; ok {
				p.Role = max(p.Role, r)
			}
		}
	}
	if t.o.ScopePrefix != "" {
		p.Scopes = scopesOf(words(claims[t.o.ScopeClaim]), t.o.ScopePrefix)
	}
	return p, nil
}

// dig returns the value at a path in nested objects. A claim whose name has dots itself, as that of an address, goes first.
func dig(claims map[string]any, path []string) any {
	if v, ok := claims[strings.Join(path, ".")]; ok {
		return v
	}
	var v any = claims
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// words are those of a claim that is a text with blanks or a list of texts.
func words(claim any) []string {
	switch c := claim.(type) {
	case string:
		return strings.Fields(c)
	case []any:
		var list []string
		for _, one := range c {
			if text, ok := one.(string); ok {
				list = append(list, text)
			}
		}
		return list
	}
	return nil
}
