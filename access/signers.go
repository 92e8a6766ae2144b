package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/lingserve/lingserve/internal/egress"
)

const (
	// signersCooldown is the minimum time between two reads of the keys, however many unknown key ids are sent.
	signersCooldown = 30 * time.Second
	signersTimeout  = 5 * time.Second
	signersRefresh  = 15 * time.Minute
	maxSigners      = 64
	maxSignerSet    = 512 << 10 // bytes
	// Shorter RSA keys can be broken, longer ones keep the processor busy.
	minRSA, maxRSA = 2048, 8192
)

// signers are the keys that an issuer signs with. A read replaces all of them, so a key that the issuer withdraws is no longer trusted. If
// they cannot be read, the last ones stay.
//
// Libraries that read key sets (go-oidc, keyfunc) read them again for each unknown id, or replace good keys by an empty set, or refuse a
// set because of one key, and none bounds its size.
type signers struct {
	o      *TokensOptions
	client *http.Client // nil reads a file
	set    atomic.Pointer[signerSet]
	limit  *rate.Limiter
	reads  singleflight.Group
	ctx    context.Context
	cancel context.CancelFunc
}

// signerSet is a set of keys as it was read. It is never changed.
type signerSet struct {
	at   time.Time
	keys []jose.JSONWebKey
}

func newSigners(o *TokensOptions) (*signers, error) {
	s := &signers{o: o, limit: rate.NewLimiter(rate.Every(signersCooldown), 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if o.Keys == "" {
		return nil, errors.New("the issuer's keys are missing; set the address of its key set (jwks_uri), or a file")
	}
	if !strings.Contains(o.Keys, "://") {
		return s, s.read()
	}
	u, err := url.Parse(o.Keys)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, errors.New("the address of the issuer's keys: expected https://…, or http://… on this machine")
	}
	transport := o.Transport
	if transport == nil {
		// Minutes lie between two requests: an idle connection would be useless.
		transport = &http.Transport{
			Proxy: egress.Proxy(o.ProxyEnv), MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		}
	}
	s.client = &http.Client{
		Transport: transport, Timeout: signersTimeout,
		// The operator chose the address, but not where it redirects to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.reads.DoChan("", s.refresh)
	return s, nil
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// find returns the keys with an id: one, or several if the issuer uses an id twice. Without an id it returns the only key. It reads the
// keys again if no key has this id.
func (s *signers) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	set := s.set.Load()
	keys := set.find(id)
	if keys != nil && time.Since(set.at) < s.o.Refresh {
		return keys, nil
	}
	done := s.reads.DoChan("", s.refresh)
	if keys != nil {
		return keys, nil
	}
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	set = s.set.Load()
	if keys := set.find(id); keys != nil {
		return keys, nil
	}
	if set == nil {
		return nil, ErrNoKeys
	}
	return nil, ErrUnknownSigner
}

// refresh reads the keys unless they were read a short time ago.
func (s *signers) refresh() (any, error) {
	if s.ctx.Err() != nil || !s.limit.Allow() {
		return nil, nil
	}
	if err := s.read(); err != nil && s.ctx.Err() == nil {
		n := 0
		if set := s.set.Load(); set != nil {
			n = len(set.keys)
		}
		s.o.Log.Warn("cannot read the token issuer's keys; keeping the old ones", "issuer", s.o.Name, "keys", n, "error", err)
	}
	return nil, nil
}

// read replaces the keys.
func (s *signers) read() error {
	keys, err := s.fetch()
	if err != nil {
		return fmt.Errorf("the issuer's keys: %w", err)
	}
	s.set.Store(&signerSet{time.Now(), keys})
	return nil
}

func (s *signers) fetch() ([]jose.JSONWebKey, error) {
	source, err := s.open()
	if err != nil {
		return nil, err
	}
	defer source.Close()
	data, err := io.ReadAll(io.LimitReader(source, maxSignerSet+1))
	if err == nil && len(data) > maxSignerSet {
		err = fmt.Errorf("too large; expected at most %d bytes", maxSignerSet)
	}
	if err != nil {
		return nil, err
	}
	return parseSigners(data)
}

// open opens the file of the keys, or requests them from their address.
func (s *signers) open() (io.ReadCloser, error) {
	if s.client == nil {
		return os.Open(s.o.Keys)
	}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.o.Keys, http.NoBody)
	if err != nil {
		return nil, errors.New("the address is not valid")
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	req.Header.Set("Cache-Control", "no-cache") // a cached copy does not have a new key either
	resp, err := s.client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, e.Err // without the address, whose query may be a secret
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the server answered with status %d; expected 200", resp.StatusCode)
	}
	return resp.Body, nil
}

func (s *signerSet) find(id string) (found []jose.JSONWebKey) {
	if s == nil {
		return nil
	}
	if id == "" && len(s.keys) == 1 {
		return s.keys
	}
	for _, key := range s.keys {
		if key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

// parseSigners reads a JSON Web Key Set. It leaves out what cannot verify a signature: other kinds of keys, keys for encryption, private
// keys, secrets, and RSA keys of an unusual size.
func parseSigners(data []byte) (keys []jose.JSONWebKey, err error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &raw); err != nil || raw.Keys == nil {
		return nil, errors.New("expected a JSON object with a list of keys")
	}
	if len(raw.Keys) > maxSigners {
		return nil, fmt.Errorf("too many: %d; expected at most %d", len(raw.Keys), maxSigners)
	}
	for _, text := range raw.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) != nil || key.Use != "" && key.Use != "sig" {
			continue
		}
		switch k := key.Key.(type) {
		case *rsa.PublicKey:
			if bits := k.N.BitLen(); minRSA <= bits && bits <= maxRSA {
				keys = append(keys, key)
			}
		case *ecdsa.PublicKey, ed25519.PublicKey:
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("none of them can verify signatures; expected at least one")
	}
	return keys, nil
}
