package https

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	now       atomic.Pointer[tls.Certificate]

	mu        sync.Mutex // of reading
	last      [sha256.Size]byte
	lastError string // the last error, which is not logged again
}

// maxCertificate bounds the size of a file, in bytes; chains of certificates are far smaller.
const maxCertificate = 1 << 20

// read uses the pair in the files if it is new and valid. If only one of the two files is new, it keeps the old pair; a later call finds
// both.
func (f *certificateFiles) read() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cert, err := readFile(f.cert)
	if err != nil {
		return false, err
	}
	key, err := readFile(f.key)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(slices.Concat(cert, []byte{0}, key))
	if sum == f.last {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("cannot use the certificate %s with the key %s: %s", f.cert, f.key, strings.TrimPrefix(err.Error(), "tls: "))
	}
	if f.now.Load() != nil {
		if err := expired(pair.Leaf); err != nil {
			return false, err
		}
	}
	f.last = sum
	f.now.Store(&pair)
	return true, nil
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxCertificate) {
		return nil, fmt.Errorf("%s is not a regular file; expected a PEM file", name)
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(name)
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return nil, fmt.Errorf("cannot read %s: %w", name, e.Err)
	}
	return bytes.TrimSpace(text), err
}

func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.now.Load(), nil
}

func (f *certificateFiles) names() []string {
	return slices.DeleteFunc(slices.Clone(f.now.Load().Leaf.DNSNames), func(name string) bool { return strings.HasPrefix(name, "*") })
}

func (f *certificateFiles) knows(host string) bool {
	return host != "" && f.now.Load().Leaf.VerifyHostname(host) == nil
}

func (f *certificateFiles) reload() {
	changed, err := f.read()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && err.Error() != f.lastError:
		f.log.Error("cannot use the certificate; keeping the previous one", "error", err)
		f.lastError = err.Error()
	case err == nil:
		f.lastError = ""
	}
	if changed {
		leaf := f.now.Load().Leaf
		f.log.Info("new certificate in use", "names", leaf.DNSNames, "until", leaf.NotAfter)
	}
}

func (f *certificateFiles) watch(ctx context.Context) {
	warn := func() {
		if leaf := f.now.Load().Leaf; nearlyOver(leaf) {
			f.log.WarnContext(ctx, "certificate expires soon", "names", leaf.DNSNames, "until", leaf.NotAfter)
		}
	}
	warn()
	look, day := time.NewTicker(certificatesEvery), time.NewTicker(expiryEvery)
	defer look.Stop()
	defer day.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			f.reload()
		case <-day.C:
			warn()
		}
	}
}
