package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lingserve/lingserve/internal/egress"
)

const (
	// signersCooldown is the least time between two asks for the keys. Whoever makes up ids of keys can cause no more than that, and
	// a token of a new key waits at most that long.
	signersCooldown = 30 * time.Second
	signersTimeout  = 5 * time.Second
	signersRefresh  = 15 * time.Minute
	// maxSigners bounds a set of keys, maxSignerSet its bytes. Issuers have two or three.
	maxSigners   = 64
	maxSignerSet = 512 << 10
	// maxWaiting is how many tokens wait for one answer of the issuer. Others are refused, so that an issuer that is slow keeps no
	// more requests than that.
	maxWaiting = 64
	// Sizes of RSA keys: shorter ones can be broken, longer ones keep the processor busy.
	minRSA, maxRSA = 2048, 8192
)

// signers are the keys that an issuer signs with. The whole set is replaced when it is read, so that a key that the issuer takes back
// is not trusted any more. While it cannot be read, the last one stays.
type signers struct {
	o    *TokensOptions
	load func(context.Context) ([]byte, error)
	set  atomic.Pointer[signerSet]

	mu      sync.Mutex
	asked   time.Time     // when it was begun to read the keys last
	asking  chan struct{} // closed when that has ended; nil when it is not going on
	waiting int
	closed  bool

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// signerSet is never changed.
type signerSet struct {
	at   time.Time
	byID map[string][]*jose.JSONWebKey
	n    int
}

func newSigners(o *TokensOptions) (*signers, error) {
	s := &signers{o: o}
	if o.Refresh <= 0 {
		o.Refresh = signersRefresh
	}
	if err := s.source(); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if !strings.Contains(o.Keys, "://") {
		if err := s.read(s.ctx); err != nil { // a file that is wrong now will be wrong later
			s.cancel()
			return nil, err
		}
		return s, nil
	}
	s.mu.Lock()
	s.ask()
	s.mu.Unlock()
	return s, nil
}

// source decides how the keys are read.
func (s *signers) source() error {
	where := s.o.Keys
	switch {
	case where == "":
		return errors.New("the issuer's keys are missing; set the address of its key set (jwks_uri), or a file")
	case !strings.Contains(where, "://"):
		s.load = func(context.Context) ([]byte, error) { return readSignerFile(where) }
		return nil
	}
	u, err := url.Parse(where)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return errors.New("the address of the issuer's keys: expected https://…, or http://… on this machine")
	}
	transport := s.o.Transport
	if transport == nil {
		transport = &http.Transport{
			Proxy:                  egress.Proxy(s.o.ProxyEnv),
			DialContext:            (&net.Dialer{Timeout: signersTimeout}).DialContext,
			TLSHandshakeTimeout:    signersTimeout,
			ResponseHeaderTimeout:  signersTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true, // minutes lie between two requests
			ForceAttemptHTTP2:      true,
		}
	}
	client := &http.Client{
		Transport: transport,
		// The address was chosen by whoever runs this server; one that it leads to was not.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.load = func(ctx context.Context) ([]byte, error) { return fetchSigners(ctx, client, where) }
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (s *signers) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// find returns the keys with an id that an algorithm can be used with: one, or a few where an issuer uses an id twice. A token that
// names no key is of the only one.
func (s *signers) find(ctx context.Context, id, algorithm string) ([]*jose.JSONWebKey, error) {
	set := s.set.Load()
	if keys := set.find(id, algorithm); keys != nil {
		if s.o.Now().Sub(set.at) >= s.o.Refresh {
			s.mu.Lock()
			s.ask() // nobody waits for it
			s.mu.Unlock()
		}
		return keys, nil
	}
	s.mu.Lock()
	s.ask()
	asking := s.asking
	if asking != nil {
		if s.waiting >= maxWaiting {
			asking = nil
		} else {
			s.waiting++
		}
	}
	s.mu.Unlock()
	if asking != nil {
		var err error
		select {
		case <-asking:
		case <-ctx.Done():
			err = ctx.Err()
		}
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
	set = s.set.Load() // also where nobody had to wait: reading may have ended just before
	if set == nil {
		return nil, ErrNoKeys
	}
	if keys := set.find(id, algorithm); keys != nil {
		return keys, nil
	}
	return nil, ErrUnknownSigner
}

// ask begins to read the keys, unless that goes on already or was begun a short time ago. The lock is held.
func (s *signers) ask() {
	now := s.o.Now()
	// A clock that was set back must not keep the keys from being read.
	if s.closed || s.asking != nil || !s.asked.IsZero() && now.Sub(s.asked) < signersCooldown && now.Sub(s.asked) >= 0 {
		return
	}
	s.asked = now
	done := make(chan struct{})
	s.asking = done
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, signersTimeout)
		defer cancel()
		err := s.read(ctx)
		s.mu.Lock()
		s.asking = nil
		s.mu.Unlock()
		close(done)
		if err != nil && s.ctx.Err() == nil {
			s.o.Log.LogAttrs(s.ctx, slog.LevelWarn, "cannot read the token issuer's keys; keeping the old ones",
				slog.String("issuer", s.o.Name), slog.Int("keys", s.set.Load().len()), slog.Any("error", err))
		}
	})
}

// read replaces the set of keys.
func (s *signers) read(ctx context.Context) error {
	data, err := s.load(ctx)
	if err != nil {
		return err
	}
	set, err := parseSigners(data)
	if err != nil {
		return err
	}
	set.at = s.o.Now()
	s.set.Store(set)
	return nil
}

func (s *signerSet) len() int {
	if s == nil {
		return 0
	}
	return s.n
}

func (s *signerSet) find(id, algorithm string) []*jose.JSONWebKey {
	if s == nil {
		return nil
	}
	keys := s.byID[id]
	if id == "" && s.n == 1 {
		for _, only := range s.byID {
			keys = only
		}
	}
	var fit []*jose.JSONWebKey
	for _, key := range keys {
		if fits(key, algorithm) {
			fit = append(fit, key)
		}
	}
	return fit
}

// fits says whether a key is one of an algorithm: only what the issuer published the key for, and what its kind can do.
func fits(key *jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return algorithm == "ES256"
		case elliptic.P384():
			return algorithm == "ES384"
		case elliptic.P521():
			return algorithm == "ES512"
		}
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	}
	return false
}

// parseSigners reads a JSON Web Key Set. Keys that cannot check a signature are left out: those of other kinds, those for encryption,
// secrets, and RSA keys of a size that makes no sense.
func parseSigners(data []byte) (*signerSet, error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &raw); err != nil || raw.Keys == nil {
		return nil, errors.New("the issuer's keys: expected a JSON object with a list of keys")
	}
	if len(raw.Keys) > maxSigners {
		return nil, fmt.Errorf("the issuer's keys: too many: %d; expected at most %d", len(raw.Keys), maxSigners)
	}
	set := &signerSet{byID: map[string][]*jose.JSONWebKey{}}
	for _, text := range raw.Keys {
		key := new(jose.JSONWebKey)
		if key.UnmarshalJSON(text) != nil || key.Use != "" && key.Use != "sig" {
			continue
		}
		switch k := key.Key.(type) {
		case *rsa.PublicKey:
			if bits := k.N.BitLen(); bits < minRSA || bits > maxRSA {
				continue
			}
		case *ecdsa.PublicKey, ed25519.PublicKey:
		default: // a private key or a secret is nothing that an issuer publishes
			continue
		}
		set.byID[key.KeyID] = append(set.byID[key.KeyID], key)
		set.n++
	}
	if set.n == 0 {
		return nil, errors.New("the issuer's keys: none of them can check signatures; expected at least one")
	}
	return set, nil
}

func fetchSigners(ctx context.Context, client *http.Client, where string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, errors.New("the issuer's keys: the address is not valid")
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	req.Header.Set("Cache-Control", "no-cache") // a key that is missing would not be in a copy either
	resp, err := client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // without the address, whose query may be a secret
		}
		return nil, fmt.Errorf("the issuer's keys: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer's keys: the server answered with status %d; expected 200", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSignerSet+1))
	if err != nil {
		return nil, fmt.Errorf("the issuer's keys: %w", err)
	}
	if len(data) > maxSignerSet {
		return nil, fmt.Errorf("the issuer's keys: the answer is too large; expected at most %d bytes", maxSignerSet)
	}
	return data, nil
}

func readSignerFile(path string) ([]byte, error) {
	if in, err := os.Stat(path); err == nil && (!in.Mode().IsRegular() || in.Size() > maxSignerSet) {
		return nil, fmt.Errorf("the issuer's keys: expected a file of at most %d bytes", maxSignerSet)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the issuer's keys: %w", err)
	}
	return data, nil
}
