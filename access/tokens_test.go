package access_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
)

// keyring are the keys of the issuer, made once: RSA keys take their time.
var keyring = sync.OnceValue(func() map[string]crypto.Signer {
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	es, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	es384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	return map[string]crypto.Signer{"rs": rs, "es": es, "es384": es384, "ed": ed, "foreign": foreign}
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// issuer publishes keys and signs tokens. It is its own transport: nothing goes over a network.
type issuer struct {
	mu     sync.Mutex
	keys   []jose.JSONWebKey
	asked  int
	answer func() (*http.Response, error) // in place of the keys; nil for these
	slow   time.Duration
}

func newIssuer(names ...string) *issuer {
	is := &issuer{}
	is.publish(names...)
	return is
}

// publish replaces what is published.
func (is *issuer) publish(names ...string) {
	is.mu.Lock()
	defer is.mu.Unlock()
	is.keys = nil
	for _, name := range names {
		is.keys = append(is.keys, jose.JSONWebKey{Key: keyring()[name].Public(), KeyID: name, Use: "sig"})
	}
}

func (is *issuer) fails(answer func() (*http.Response, error)) {
	is.mu.Lock()
	defer is.mu.Unlock()
	is.answer = answer
}

func (is *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	is.mu.Lock()
	is.asked++
	answer, slow := is.answer, is.slow
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: is.keys})
	is.mu.Unlock()
	must(err)
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if answer != nil {
		return answer()
	}
	return document(string(text)), nil
}

func document(text string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}
}

func (is *issuer) times() int {
	is.mu.Lock()
	defer is.mu.Unlock()
	return is.asked
}

// sign makes a token with a key of the ring; header has more members for it.
func sign(name, algorithm string, claims map[string]any, header map[string]any) string {
	o := (&jose.SignerOptions{}).WithHeader("kid", name).WithType("at+jwt")
	for k, v := range header {
		if v == nil {
			delete(o.ExtraHeaders, jose.HeaderKey(k))
			continue
		}
		o = o.WithHeader(jose.HeaderKey(k), v)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(algorithm), Key: keyring()[name]}, o)
	must(err)
	payload, err := json.Marshal(claims)
	must(err)
	signed, err := s.Sign(payload)
	must(err)
	text, err := signed.CompactSerialize()
	must(err)
	return text
}

// raw makes a token of texts that need not be right.
func raw(header, payload string, signature []byte) string {
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(header)) + "." + e.EncodeToString([]byte(payload)) + "." + e.EncodeToString(signature)
}

const issuerURL = "https://login.example.com/"

// good are the claims of a token that is accepted; more replaces some of them, nil takes one away.
func good(more map[string]any) map[string]any {
	claims := map[string]any{
		"iss": issuerURL, "aud": []string{"other", "lingserve"}, "sub": "ann",
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
	}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

func newTokens(t *testing.T, is *issuer, change func(*access.TokensOptions)) *access.Tokens {
	t.Helper()
	o := access.TokensOptions{
		Issuer: issuerURL, Audiences: []string{"lingserve"}, Keys: "https://login.example.com/keys?secret=canary", Transport: is,
	}
	if change != nil {
		change(&o)
	}
	tokens, err := access.NewTokens(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	return tokens
}

func TestATokenOfTheIssuerLeadsToItsSubject(t *testing.T) {
	is := newIssuer("rs", "es", "es384", "ed")
	tokens := newTokens(t, is, nil)
	for name, algorithms := range map[string][]string{
		"rs": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, "es": {"ES256"}, "es384": {"ES384"}, "ed": {"EdDSA"},
	} {
		for _, algorithm := range algorithms {
			got, err := tokens.Check(t.Context(), sign(name, algorithm, good(nil), nil))
			if err != nil || got.Name != "ann@sso" || got.Role != tool.User || !got.Scopes.All() {
				t.Errorf("%s: %+v %v", algorithm, got, err)
			}
		}
	}
	if is.times() != 1 {
		t.Errorf("the keys were read %d times, want once", is.times())
	}
}

func TestDA_14_AnIDTokenOpensNothing(t *testing.T) {
	is := newIssuer("rs")
	byDefault := newTokens(t, is, nil)
	withJWT := newTokens(t, is, func(o *access.TokensOptions) { o.Types = []string{"at+jwt", "JWT"} })
	for name, c := range map[string]struct {
		typ    any            // nil is none
		claims map[string]any // of an ID token
		want   error
		jwt    error // where JWT is accepted
	}{
		"an access token":                {typ: "at+jwt"},
		"an access token in capitals":    {typ: "AT+JWT"},
		"an access token's whole type":   {typ: "application/at+jwt"},
		"the same in capitals":           {typ: "Application/AT+jwt"},
		"an access token with a nonce":   {typ: "at+jwt", claims: map[string]any{"nonce": "x"}},
		"no type":                        {},
		"no type, with a nonce":          {claims: map[string]any{"nonce": "x"}, want: access.ErrIDToken, jwt: access.ErrIDToken},
		"no type, of Cognito":            {claims: map[string]any{"token_use": "id"}, want: access.ErrIDToken, jwt: access.ErrIDToken},
		"no type, of Cognito for access": {claims: map[string]any{"token_use": "access"}},
		"JWT":                            {typ: "JWT", want: access.ErrTokenType},
		"jwt":                            {typ: "jwt", want: access.ErrTokenType},
		"JWT with a nonce":               {typ: "JWT", claims: map[string]any{"nonce": "x"}, want: access.ErrTokenType, jwt: access.ErrIDToken},
		"JWT with at_hash":               {typ: "JWT", claims: map[string]any{"at_hash": "x"}, want: access.ErrTokenType, jwt: access.ErrIDToken},
		"JWT with c_hash":                {typ: "application/jwt", claims: map[string]any{"c_hash": nil}, want: access.ErrTokenType, jwt: nil},
		"JWT of Keycloak":                {typ: "JWT", claims: map[string]any{"typ": "ID"}, want: access.ErrTokenType, jwt: access.ErrIDToken},
		"JWT of Keycloak for access":     {typ: "JWT", claims: map[string]any{"typ": "Bearer"}, want: access.ErrTokenType},
		"a logout token":                 {typ: "logout+jwt", want: access.ErrTokenType, jwt: access.ErrTokenType},
		"no text":                        {typ: 7, want: access.ErrTokenType, jwt: access.ErrTokenType},
		"an empty type":                  {typ: "", want: access.ErrTokenType, jwt: access.ErrTokenType},
		"the prefix alone":               {typ: "application/", want: access.ErrTokenType, jwt: access.ErrTokenType},
	} {
		text := sign("rs", "RS256", good(c.claims), map[string]any{"typ": c.typ})
		if _, err := byDefault.Check(t.Context(), text); err != c.want {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
		if _, err := withJWT.Check(t.Context(), text); err != c.jwt {
			t.Errorf("%s, JWT accepted: %v, expected %v", name, err, c.jwt)
		}
	}
}

// SE-10: whatever is wrong with a token, it lets nobody in, and nothing of it is said.
func TestATokenThatIsNotRightLetsNobodyIn(t *testing.T) {
	is := newIssuer("rs", "es")
	tokens := newTokens(t, is, nil)
	if _, err := tokens.Check(t.Context(), sign("rs", "RS256", good(nil), nil)); err != nil {
		t.Fatal(err)
	}
	right := sign("rs", "RS256", good(nil), nil)
	parts := strings.Split(right, ".")
	der, err := x509.MarshalPKIXPublicKey(keyring()["rs"].Public())
	must(err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	hmac := func(secret []byte) string {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, (&jose.SignerOptions{}).WithHeader("kid", "rs"))
		must(err)
		payload, _ := json.Marshal(good(nil))
		signed, err := s.Sign(payload)
		must(err)
		text, err := signed.CompactSerialize()
		must(err)
		return text
	}
	claims, _ := json.Marshal(good(nil))
	foreignJWK := jose.JSONWebKey{Key: keyring()["foreign"].Public(), KeyID: "foreign"}
	now := time.Now()
	for name, tc := range map[string]struct {
		token string
		want  error
	}{
		"nothing":                        {"", access.ErrMalformedToken},
		"rubbish":                        {"e30", access.ErrMalformedToken},
		"only dots":                      {"..", access.ErrAlgorithm},
		"four parts":                     {right + ".x", access.ErrMalformedToken},
		"a million dots":                 {strings.Repeat(".", 1_000_000), access.ErrMalformedToken},
		"huge":                           {sign("rs", "RS256", good(map[string]any{"x": strings.Repeat("x", 20_000)}), nil), access.ErrMalformedToken},
		"cut off in the signature":       {right[:len(right)-20], access.ErrSignature},
		"cut off in the claims":          {right[:len(parts[0])+40], access.ErrMalformedToken},
		"without signature":              {parts[0] + "." + parts[1] + ".", access.ErrSignature},
		"padding":                        {parts[0] + "==." + parts[1] + "." + parts[2], access.ErrMalformedToken},
		"blanks around":                  {" " + right + " ", access.ErrMalformedToken},
		"another token's signature":      {parts[0] + "." + parts[1] + "." + strings.Split(sign("rs", "RS256", good(map[string]any{"sub": "bob"}), nil), ".")[2], access.ErrSignature},
		"other claims":                   {parts[0] + "." + strings.Split(sign("rs", "RS256", good(map[string]any{"sub": "bob"}), nil), ".")[1] + "." + parts[2], access.ErrSignature},
		"algorithm none":                 {raw(`{"alg":"none"}`, string(claims), nil), access.ErrAlgorithm},
		"algorithm nOnE":                 {raw(`{"alg":"nOnE","kid":"rs"}`, string(claims), nil), access.ErrAlgorithm},
		"no algorithm":                   {raw(`{"kid":"rs"}`, string(claims), []byte("x")), access.ErrAlgorithm},
		"an algorithm of a wrong type":   {raw(`{"alg":["RS256"],"kid":"rs"}`, string(claims), []byte("x")), access.ErrAlgorithm},
		"HS256 with the public key":      {hmac(public), access.ErrAlgorithm},
		"HS256 with the key's bytes":     {hmac(der), access.ErrAlgorithm},
		"the key is for another kind":    {sign("es", "ES256", good(nil), map[string]any{"kid": "rs"}), access.ErrSignature},
		"a key that is not published":    {sign("foreign", "RS256", good(nil), nil), access.ErrUnknownSigner},
		"the id of a published key":      {sign("foreign", "RS256", good(nil), map[string]any{"kid": "rs"}), access.ErrSignature},
		"no id where there are two keys": {sign("rs", "RS256", good(nil), map[string]any{"kid": nil}), access.ErrUnknownSigner},
		"a key in the token":             {sign("foreign", "RS256", good(nil), map[string]any{"jwk": foreignJWK}), access.ErrUnknownSigner},
		"a key in the token, and an id":  {sign("foreign", "RS256", good(nil), map[string]any{"kid": "rs", "jwk": foreignJWK}), access.ErrSignature},
		"a key's address in the token":   {sign("foreign", "RS256", good(nil), map[string]any{"jku": "https://evil.test/keys"}), access.ErrUnknownSigner},
		"a certificate's address":        {sign("foreign", "RS256", good(nil), map[string]any{"kid": "rs", "x5u": "https://evil.test/cert"}), access.ErrSignature},
		"certificates":                   {sign("foreign", "RS256", good(nil), map[string]any{"kid": "rs", "x5c": []string{"AAAA"}}), access.ErrMalformedToken},
		"a path for an id":               {sign("foreign", "RS256", good(nil), map[string]any{"kid": "../../dev/null"}), access.ErrUnknownSigner},
		"a critical header":              {sign("rs", "RS256", good(nil), map[string]any{"crit": []string{"exp"}, "exp": 1}), access.ErrSignature},
		"a header that is a list":        {raw(`[]`, string(claims), []byte("x")), access.ErrMalformedToken},
		"claims that are a list":         {raw(`{"alg":"RS256","kid":"rs"}`, `[]`, []byte("x")), access.ErrMalformedToken},
		"claims that are null":           {raw(`{"alg":"RS256","kid":"rs"}`, `null`, []byte("x")), access.ErrMalformedToken},
		"a claim that stands twice":      {raw(`{"alg":"RS256","kid":"rs"}`, `{"iss":"x","iss":"`+issuerURL+`"}`, []byte("x")), access.ErrMalformedToken},
		"deep claims":                    {raw(`{"alg":"RS256","kid":"rs"}`, strings.Repeat("[", 11_000), []byte("x")), access.ErrMalformedToken},
		"another issuer":                 {sign("rs", "RS256", good(map[string]any{"iss": "https://login.example.com"}), nil), access.ErrIssuer},
		"no issuer":                      {sign("rs", "RS256", good(map[string]any{"iss": nil}), nil), access.ErrIssuer},
		"an issuer of a wrong type":      {sign("rs", "RS256", good(map[string]any{"iss": []string{issuerURL}}), nil), access.ErrMalformedToken},
		"another audience":               {sign("rs", "RS256", good(map[string]any{"aud": "other"}), nil), access.ErrAudience},
		"no audience":                    {sign("rs", "RS256", good(map[string]any{"aud": nil}), nil), access.ErrAudience},
		"an audience that begins right":  {sign("rs", "RS256", good(map[string]any{"aud": "lingserve-2"}), nil), access.ErrAudience},
		"expired":                        {sign("rs", "RS256", good(map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}), nil), access.ErrExpiredToken},
		"no expiry":                      {sign("rs", "RS256", good(map[string]any{"exp": nil}), nil), access.ErrNoExpiry},
		"an expiry in words":             {sign("rs", "RS256", good(map[string]any{"exp": "tomorrow"}), nil), access.ErrMalformedToken},
		"an endless expiry":              {sign("rs", "RS256", good(map[string]any{"exp": 9e18}), nil), access.ErrMalformedToken},
		"a negative expiry":              {sign("rs", "RS256", good(map[string]any{"exp": -1}), nil), access.ErrMalformedToken},
		"not valid yet":                  {sign("rs", "RS256", good(map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}), nil), access.ErrEarlyToken},
		"issued in the future":           {sign("rs", "RS256", good(map[string]any{"iat": now.Add(2 * time.Minute).Unix()}), nil), access.ErrEarlyToken},
		"no subject":                     {sign("rs", "RS256", good(map[string]any{"sub": nil}), nil), access.ErrSubject},
		"an empty subject":               {sign("rs", "RS256", good(map[string]any{"sub": ""}), nil), access.ErrSubject},
		"a number for a subject":         {sign("rs", "RS256", good(map[string]any{"sub": 7}), nil), access.ErrSubject},
		"a line break in the subject":    {sign("rs", "RS256", good(map[string]any{"sub": "ann\nbob"}), nil), access.ErrSubject},
		"a subject without an end":       {sign("rs", "RS256", good(map[string]any{"sub": strings.Repeat("a", 2000)}), nil), access.ErrSubject},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tokens.Check(t.Context(), tc.token)
			if !errors.Is(err, tc.want) || !got.Unknown() {
				t.Fatalf("%+v, %v; want %v", got, err, tc.want)
			}
			refusal, ok := errors.AsType[*access.Refusal](err)
			if !ok || refusal.Status != http.StatusUnauthorized || strings.Contains(err.Error(), "evil") || strings.Contains(err.Error(), "jose") {
				t.Errorf("%#v", err)
			}
			for part := range strings.SplitSeq(tc.token, ".") {
				if len(part) > 10 && strings.Contains(err.Error(), part[:10]) {
					t.Errorf("the token stands in the error: %v", err)
				}
			}
		})
	}
	if is.times() > 2 {
		t.Errorf("the keys were read %d times", is.times())
	}
}

func TestTheClocksOfIssuerAndServerMayDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := newTokens(t, newIssuer("es"), func(o *access.TokensOptions) { o.Leeway = 30 * time.Second })
		begin := time.Now().Add(31 * time.Second)
		at := func(d time.Duration) int64 { return begin.Add(d).Unix() }
		token := sign("es", "ES256", good(map[string]any{"iat": at(0), "nbf": at(0), "exp": at(time.Minute)}), nil)
		for _, step := range []struct {
			after time.Duration
			want  error
		}{
			{-31 * time.Second, access.ErrEarlyToken},
			{-30 * time.Second, nil},
			{0, nil},
			{89 * time.Second, nil},
			{90 * time.Second, access.ErrExpiredToken},
			{time.Hour, access.ErrExpiredToken},
		} {
			time.Sleep(time.Until(begin.Add(step.after)))
			if _, err := tokens.Check(t.Context(), token); !errors.Is(err, step.want) {
				t.Errorf("at %v: %v, want %v", step.after, err, step.want)
			}
		}
	})
}

func TestRolesAndScopesComeFromTheClaimsThatAreConfigured(t *testing.T) {
	is := newIssuer("es")
	for name, tc := range map[string]struct {
		claims map[string]any
		change func(*access.TokensOptions)
		want   func(access.Principal) bool
	}{
		"no claim is configured": {
			map[string]any{"role": "admin", "scope": "lingserve:admin"},
			nil,
			func(p access.Principal) bool { return p.Role == tool.User && p.Scopes.All() && !p.Administers() },
		},
		"a role in words": {
			map[string]any{"role": "operator"},
			func(o *access.TokensOptions) { o.RoleClaim = "role" },
			func(p access.Principal) bool { return p.Role == tool.Operator },
		},
		"the highest of several in an object": {
			map[string]any{"realm_access": map[string]any{"roles": []any{"x", "ops", "boss", 7}}},
			func(o *access.TokensOptions) {
				o.RoleClaim = "realm_access.roles"
				o.Roles = map[string]tool.Role{"ops": tool.Operator, "boss": tool.Admin}
			},
			func(p access.Principal) bool { return p.Role == tool.Admin && p.Administers() },
		},
		"a claim with dots in its name": {
			map[string]any{"https://example.com/role": "admin"},
			func(o *access.TokensOptions) { o.RoleClaim = "https://example.com/role" },
			func(p access.Principal) bool { return p.Role == tool.Admin },
		},
		"a role that is not mapped": {
			map[string]any{"role": "admin"},
			func(o *access.TokensOptions) {
				o.RoleClaim = "role"
				o.Roles = map[string]tool.Role{"boss": tool.Admin}
			},
			func(p access.Principal) bool { return p.Role == tool.User },
		},
		"scopes in words": {
			map[string]any{"scope": "openid lingserve:workflows:team-* email lingserve:sessions"},
			func(o *access.TokensOptions) { o.ScopePrefix = "lingserve:" },
			func(p access.Principal) bool {
				return p.Runs("team-a") && !p.Runs("other") && p.Remembers() && !p.Asks("x") && !p.Runs("")
			},
		},
		"a list of scopes": {
			map[string]any{"scp": []any{"lingserve:agents"}},
			func(o *access.TokensOptions) { o.ScopePrefix, o.ScopeClaim = "lingserve:", "scp" },
			func(p access.Principal) bool { return p.Asks("x") && !p.Runs("x") },
		},
		"no scope that means anything": {
			map[string]any{"scope": "openid workflows"},
			func(o *access.TokensOptions) { o.ScopePrefix = "lingserve:" },
			func(p access.Principal) bool {
				return !p.Runs("x") && !p.Asks("x") && !p.Remembers() && !p.Administers()
			},
		},
		"the scope admin without the role": {
			map[string]any{"scope": "lingserve:admin"},
			func(o *access.TokensOptions) { o.ScopePrefix = "lingserve:" },
			func(p access.Principal) bool { return !p.Administers() },
		},
		"a subject of another claim, and the issuer's name": {
			map[string]any{"email": "Ann@Example.com"},
			func(o *access.TokensOptions) { o.SubjectClaim, o.Name = "email", "corp" },
			func(p access.Principal) bool {
				return strings.HasPrefix(p.Name, "_") && strings.HasSuffix(p.Name, "@corp") && len(p.Name) <= access.MaxName
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newTokens(t, is, tc.change).Check(t.Context(), sign("es", "ES256", good(tc.claims), nil))
			if err != nil || !tc.want(got.Principal) {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
}

func TestANewKeyOfTheIssuerIsFoundAndAnOldOneIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer("rs")
		tokens := newTokens(t, is, nil)
		check := func(name, algorithm string, want error) {
			t.Helper()
			if _, err := tokens.Check(t.Context(), sign(name, algorithm, good(nil), nil)); !errors.Is(err, want) {
				t.Errorf("%v: %v, want %v", name, err, want)
			}
		}
		check("rs", "RS256", nil)
		is.publish("es", "rs")
		check("es", "ES256", access.ErrUnknownSigner) // asked a moment ago
		time.Sleep(31 * time.Second)
		check("es", "ES256", nil)
		check("rs", "RS256", nil)
		// Taken back: known until the set is read again, which the first token after its time causes.
		is.publish("es")
		time.Sleep(16 * time.Minute)
		check("rs", "RS256", nil)
		synctest.Wait()
		check("rs", "RS256", access.ErrUnknownSigner)
		check("es", "ES256", nil)
	})
}

// A flood of tokens with made-up ids of keys causes no flood of requests to the issuer, and does not harm those who are known.
func TestMadeUpIdsOfKeysAskTheIssuerSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer("rs")
		tokens := newTokens(t, is, nil)
		synctest.Wait()
		known := sign("rs", "RS256", good(nil), nil)
		payload, _ := json.Marshal(good(nil))
		for i := range 5000 { // in 50 s
			token := raw(fmt.Sprintf(`{"alg":"RS256","kid":"made-up-%d"}`, i), string(payload), []byte("signature"))
			if _, err := tokens.Check(t.Context(), token); !errors.Is(err, access.ErrUnknownSigner) {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := tokens.Check(t.Context(), known); err != nil {
			t.Error(err)
		}
		if n := is.times(); n > 3 {
			t.Errorf("the issuer was asked %d times in 50 s", n)
		}
		// What could not be right in any case asks nobody at all.
		time.Sleep(time.Hour)
		before := is.times()
		expired, _ := json.Marshal(good(map[string]any{"exp": 1}))
		_, err := tokens.Check(t.Context(), raw(`{"alg":"RS256","kid":"x"}`, string(expired), []byte("signature")))
		if !errors.Is(err, access.ErrExpiredToken) || is.times() != before {
			t.Errorf("%v, asked %d times more", err, is.times()-before)
		}
	})
}

func TestManyTokensWaitForOneAnswerOfTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer("rs")
		is.slow = 2 * time.Second
		tokens := newTokens(t, is, nil)
		token := sign("rs", "RS256", good(nil), nil)
		began := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if _, err := tokens.Check(t.Context(), token); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if is.times() != 1 || time.Since(began) != 2*time.Second {
			t.Errorf("the keys were requested %d times in %v", is.times(), time.Since(began))
		}
		// A request that is canceled does not wait.
		is.publish("es")
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tokens.Check(ctx, sign("es", "ES256", good(nil), nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestWhileTheKeysCannotBeReadTheLastOnesStay(t *testing.T) {
	for name, answer := range map[string]func() (*http.Response, error){
		"unreachable": func() (*http.Response, error) { return nil, errors.New("connection refused") },
		"an error":    func() (*http.Response, error) { r := document("down"); r.StatusCode = 500; return r, nil },
		"a redirect": func() (*http.Response, error) {
			r := document("")
			r.StatusCode = 302
			r.Header.Set("Location", "https://evil.test/")
			return r, nil
		},
		"no JSON":    func() (*http.Response, error) { return document("<html>"), nil },
		"no keys":    func() (*http.Response, error) { return document(`{"keys":[]}`), nil },
		"other JSON": func() (*http.Response, error) { return document(`{"error":"x"}`), nil },
		"too many keys": func() (*http.Response, error) {
			return document(`{"keys":[` + strings.Repeat(`{},`, 100) + `{}]}`), nil
		},
		"without an end": func() (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(endless{})}, nil
		},
		"only secrets": func() (*http.Response, error) {
			return document(`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"rs"}]}`), nil
		},
		"only small keys": func() (*http.Response, error) {
			return document(`{"keys":[{"kty":"RSA","n":"sXchDaQebHnPiGvyDOAT4saGEUetSyo9","e":"AQAB","kid":"rs"}]}`), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := newIssuer("rs")
				tokens := newTokens(t, is, nil)
				token := func() string { return sign("rs", "RS256", good(nil), nil) }
				if _, err := tokens.Check(t.Context(), token()); err != nil {
					t.Fatal(err)
				}
				is.fails(answer)
				for range 20 {
					time.Sleep(10 * time.Minute)
					if _, err := tokens.Check(t.Context(), token()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if is.times() < 5 {
					t.Errorf("the keys were requested %d times", is.times())
				}
				is.publish("es")
				is.fails(nil)
				time.Sleep(time.Minute)
				if _, err := tokens.Check(t.Context(), sign("es", "ES256", good(nil), nil)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAServerThatStartsWhileTheIssuerIsDownAcceptsItsTokensLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer("rs")
		is.fails(func() (*http.Response, error) { return nil, errors.New("connection refused") })
		tokens := newTokens(t, is, nil)
		_, err := tokens.Check(t.Context(), sign("rs", "RS256", good(nil), nil))
		if refusal, ok := errors.AsType[*access.Refusal](err); !ok || !errors.Is(err, access.ErrNoKeys) || refusal.Status != 503 || refusal.RetryAfter == 0 {
			t.Fatalf("%#v", err)
		}
		is.fails(nil)
		time.Sleep(time.Minute)
		if _, err := tokens.Check(t.Context(), sign("rs", "RS256", good(nil), nil)); err != nil {
			t.Error(err)
		}
	})
}

// Issuers publish keys for other things beside those that they sign with, and kinds that are newer than this server.
func TestASetOfKeysMayHaveOthersInIt(t *testing.T) {
	es521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	must(err)
	secret := jose.JSONWebKey{Key: []byte("a secret that everybody knows, now"), KeyID: "oct", Algorithm: "HS256"}
	of := func(v any) string {
		text, err := json.Marshal(v)
		must(err)
		return string(text)
	}
	set := `{"keys":[` + strings.Join([]string{
		`{"kty":"new","kid":"new"}`, `{}`, `7`, `null`, `{"kty":"RSA","kid":"broken","n":"%%%"}`, `{"kty":"OKP","crv":"X25519","kid":"x","x":"AAAA"}`,
		of(secret),
		of(jose.JSONWebKey{Key: keyring()["foreign"].Public(), KeyID: "enc", Use: "enc"}),
		of(jose.JSONWebKey{Key: keyring()["foreign"], KeyID: "private"}),
		of(jose.JSONWebKey{Key: keyring()["rs"].Public(), KeyID: "rs", Algorithm: "RS256"}),
		of(jose.JSONWebKey{Key: keyring()["foreign"].Public(), KeyID: "twice"}),
		of(jose.JSONWebKey{Key: keyring()["rs"].Public(), KeyID: "twice"}),
		of(jose.JSONWebKey{Key: es521.Public(), KeyID: "es521"}),
	}, ",") + `]}`
	tokens, err := access.NewTokens(access.TokensOptions{
		Issuer: issuerURL, Audiences: []string{"lingserve"}, Keys: "https://login.example.com/keys",
		Transport: transport(func(*http.Request) (*http.Response, error) { return document(set), nil }),
	})
	must(err)
	defer tokens.Close()
	for name, tc := range map[string]struct {
		token string
		want  error
	}{
		"the key":                             {sign("rs", "RS256", good(nil), nil), nil},
		"the key, an algorithm it is not for": {sign("rs", "PS256", good(nil), nil), access.ErrSignature},
		"an id that two keys have":            {sign("rs", "RS256", good(nil), map[string]any{"kid": "twice"}), nil},
		"the other one of them":               {sign("foreign", "PS512", good(nil), map[string]any{"kid": "twice"}), nil},
		"a curve of another size":             {sign("es", "ES256", good(nil), map[string]any{"kid": "es521"}), access.ErrSignature},
		"a key for encryption":                {sign("foreign", "RS256", good(nil), map[string]any{"kid": "enc"}), access.ErrUnknownSigner},
		"a private key":                       {sign("foreign", "RS256", good(nil), map[string]any{"kid": "private"}), access.ErrUnknownSigner},
		"no id":                               {sign("rs", "RS256", good(nil), map[string]any{"kid": nil}), access.ErrUnknownSigner},
	} {
		if _, err := tokens.Check(t.Context(), tc.token); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES512, Key: es521}, (&jose.SignerOptions{}).WithHeader("kid", "es521"))
	must(err)
	signed, err := s.Sign([]byte(of(good(nil))))
	must(err)
	token, err := signed.CompactSerialize()
	must(err)
	if p, err := tokens.Check(t.Context(), token); err != nil || p.Name != "ann@sso" {
		t.Error(p, err)
	}
}

// SE-01: over a connection, and nowhere else than to the address that was configured.
func TestTheKeysComeFromTheAddressThatIsConfigured(t *testing.T) {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: keyring()["es"].Public(), KeyID: "es"}}})
	must(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/keys", http.StatusFound)
			return
		}
		w.Write(text)
	}))
	defer server.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for path, want := range map[string]error{"/keys": nil, "/moved": access.ErrNoKeys} {
		var log lines
		tokens := newTokens(t, nil, func(o *access.TokensOptions) {
			o.Keys, o.Transport, o.Log = server.URL+path+"?secret=canary", nil, slog.New(slog.NewTextHandler(&log, nil))
		})
		if _, err := tokens.Check(t.Context(), sign("es", "ES256", good(nil), nil)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		tokens.Close()
		if (want != nil) != strings.Contains(log.String(), "the server answered with status 302") || strings.Contains(log.String(), "canary") {
			t.Errorf("%s: %s", path, log.String())
		}
	}
	tokens := newTokens(t, nil, func(o *access.TokensOptions) { o.Keys, o.Transport = "http://127.0.0.1:1/keys", nil })
	if _, err := tokens.Check(t.Context(), sign("es", "ES256", good(nil), nil)); !errors.Is(err, access.ErrNoKeys) {
		t.Error(err)
	}
}

func TestKeysOfAnIssuerCanBeAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	only := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: keyring()["es"].Public()}}}
	text, err := json.Marshal(only)
	must(err)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	tokens := newTokens(t, nil, func(o *access.TokensOptions) { o.Keys, o.Transport = path, nil })
	// The only key has no id, and so needs none in the token.
	if p, err := tokens.Check(t.Context(), sign("es", "ES256", good(nil), map[string]any{"kid": nil})); err != nil || p.Name != "ann@sso" {
		t.Error(p, err)
	}
	if _, err := access.NewTokens(access.TokensOptions{Issuer: "x", Audiences: []string{"x"}, Keys: path + "x"}); err == nil {
		t.Error("a file that is not there is accepted")
	}
}

func TestWhatIsWrongWithTheSettingsOfTokensIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*access.TokensOptions)
		want   string
	}{
		"no issuer":                {func(o *access.TokensOptions) { o.Issuer = "" }, "the issuer is missing; expected the claim iss of its tokens, such as https://login.example.com/"},
		"no audience":              {func(o *access.TokensOptions) { o.Audiences = nil }, "the audience is missing; set this server's name in the claim aud, so that it does not accept other servers' tokens"},
		"no keys":                  {func(o *access.TokensOptions) { o.Keys = "" }, "the issuer's keys are missing; set the address of its key set (jwks_uri), or a file"},
		"HMAC":                     {func(o *access.TokensOptions) { o.Algorithms = []string{"HS256"} }, `unsupported algorithm "HS256"; expected one or more of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA`},
		"none":                     {func(o *access.TokensOptions) { o.Algorithms = []string{"none"} }, `unsupported algorithm "none"; expected one or more of RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA`},
		"a name with an @":         {func(o *access.TokensOptions) { o.Name = "a@b" }, `the issuer's name: expected at most 24 lower-case letters, digits, ".", "_" and "-"`},
		"a large leeway":           {func(o *access.TokensOptions) { o.Leeway = time.Hour }, "the leeway is 1h0m0s; expected at most 10m"},
		"keys without encryption":  {func(o *access.TokensOptions) { o.Keys = "http://login.example.com/keys" }, "the address of the issuer's keys: expected https://…, or http://… on this machine"},
		"keys of another protocol": {func(o *access.TokensOptions) { o.Keys = "file:///etc/passwd" }, "the address of the issuer's keys: expected https://…, or http://… on this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			o := access.TokensOptions{Issuer: issuerURL, Audiences: []string{"x"}, Keys: "https://login.example.com/keys", Transport: newIssuer("es")}
			tc.change(&o)
			_, err := access.NewTokens(o)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, keys := range []string{"http://localhost:9/keys", "http://127.0.0.1:9/keys", "http://[::1]:9/keys"} {
		tokens, err := access.NewTokens(access.TokensOptions{Issuer: "x", Audiences: []string{"x"}, Keys: keys, Transport: newIssuer("es")})
		if err != nil {
			t.Fatal(err)
		}
		tokens.Close()
	}
}

// Whatever a token holds, it is refused, without a panic, and without a word of it.
func FuzzCheck(f *testing.F) {
	is := newIssuer("rs")
	tokens, err := access.NewTokens(access.TokensOptions{
		Issuer: issuerURL, Audiences: []string{"lingserve"}, Keys: "https://login.example.com/keys", Transport: is,
	})
	must(err)
	f.Cleanup(tokens.Close)
	right := sign("rs", "RS256", good(nil), nil)
	if _, err := tokens.Check(f.Context(), right); err != nil {
		f.Fatal(err)
	}
	f.Add(right[:len(right)-1])
	f.Add(raw(`{"alg":"none"}`, `{}`, nil))
	f.Add(raw(`{"alg":"RS256","kid":"rs","crit":["x"]}`, `{"iss":"`+issuerURL+`","aud":"lingserve","exp":99999999999}`, []byte("x")))
	f.Add("..")
	f.Add("ey.ey.ey")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := tokens.Check(t.Context(), text)
		if err == nil && p.Name == "ann@sso" && strings.HasPrefix(text, right[:strings.LastIndexByte(right, '.')]) {
			return // the last letter of a signature has bits that mean nothing
		}
		refusal, ok := errors.AsType[*access.Refusal](err)
		if !ok || !p.Unknown() || refusal.Detail == "" || refusal.Status/100 != 4 {
			t.Fatalf("%q: %+v %v", text, p, err)
		}
	})
}

// A set of keys is foreign bytes, too.
func FuzzKeySet(f *testing.F) {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: keyring()["es"].Public(), KeyID: "a"}, {Key: keyring()["rs"].Public(), KeyID: "b"}}})
	must(err)
	f.Add(text)
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQ","e":"AQ"},{"kty":"EC","crv":"P-256"},null,7]}`))
	f.Add([]byte(`{"keys":[{"kty":"AKP","alg":"ML-DSA-44","pub":"AA"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tokens, err := access.NewTokens(access.TokensOptions{
			Issuer: issuerURL, Audiences: []string{"lingserve"}, Keys: "https://login.example.com/keys",
			Transport: transport(func(*http.Request) (*http.Response, error) { return document(string(data)), nil }),
		})
		must(err)
		defer tokens.Close()
		if p, err := tokens.Check(t.Context(), sign("foreign", "RS256", good(nil), nil)); err == nil || !p.Unknown() {
			t.Fatalf("%q lets somebody in", data)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
