package https

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// certificatesEvery is how often the files of a certificate are checked. They change every few weeks.
const certificatesEvery = 10 * time.Second

// certificateFiles are a certificate and its key in files, which are reloaded when they change.
type certificateFiles struct {
	cert, key string
	log       *slog.Logger
	current   atomic.Pointer[tls.Certificate]

	mu        sync.Mutex // of reload
	lastError string     // which is not logged again
}

// read uses the pair in the files if it is new and valid. If only one of the two files is new, it keeps the old pair; a later call finds
// both.
func (f *certificateFiles) read() (changed bool, err error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return false, fmt.Errorf("cannot use the certificate %s with the key %s: %w", f.cert, f.key, err)
	}
	if current := f.current.Load(); current != nil {
		if slices.EqualFunc(pair.Certificate, current.Certificate, bytes.Equal) {
			return false, nil
		}
		if err := expired(pair.Leaf); err != nil {
			return false, err
		}
	}
	f.current.Store(&pair)
	return true, nil
}

func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.current.Load(), nil
}

func (f *certificateFiles) names() []string {
	return slices.DeleteFunc(slices.Clone(f.current.Load().Leaf.DNSNames), func(name string) bool { return strings.HasPrefix(name, "*") })
}

func (f *certificateFiles) knows(host string) bool {
	return host != "" && f.current.Load().Leaf.VerifyHostname(host) == nil
}

func (f *certificateFiles) reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, err := f.read()
	if err != nil {
		if err.Error() != f.lastError {
			f.log.Error("cannot use the certificate; keeping the previous one", "error", err)
		}
		f.lastError = err.Error()
		return
	}
	f.lastError = ""
	if changed {
		leaf := f.current.Load().Leaf
		f.log.Info("new certificate in use", "names", leaf.DNSNames, "until", leaf.NotAfter)
	}
}

func (f *certificateFiles) watch(ctx context.Context) {
	var warned time.Time
	for {
		if leaf := f.current.Load().Leaf; nearlyOver(leaf) && time.Since(warned) >= expiryEvery {
			f.log.WarnContext(ctx, "certificate expires soon", "names", leaf.DNSNames, "until", leaf.NotAfter)
			warned = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(certificatesEvery):
			f.reload()
		}
	}
}
