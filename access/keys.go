package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/internal/backoff"
)

// Refusals of keys. Only a caller who has the key learns that it is expired or revoked.
var (
	ErrMistypedKey = unauthorized("key_mistyped", "the API key is mistyped or incomplete, because its checksum is wrong; copy it again")
	ErrUnknownKey  = unauthorized("key_unknown", "unknown API key; ask the operator for a valid one")
	ErrExpiredKey  = unauthorized("key_expired", "the API key has expired; ask the operator for a new one")
	ErrRevokedKey  = unauthorized("key_revoked", "the API key was revoked; ask the operator for a new one")
)

// KeysOptions are where keys come from. Those of all places count.
type KeysOptions struct {
	Entries []string // of the configuration, each as ParseKey takes it
	File    string   // a path; "" is none. It is read again when it changes.

	Log  *slog.Logger  // says that the file was read again, or cannot be; nil says nothing
	Poll time.Duration // how soon a changed file is noticed, 2 s
}

const (
	// maxKeys bounds how many keys there are, from all places.
	maxKeys = 10_000
	// maxKeyFile is enough for that many with long lists of scopes.
	maxKeyFile = 4 << 20
	// maxErrors are reported for one place; a file of another kind would be wrong in each line.
	maxErrors = 10
)

// Keys are API keys. Their methods are safe for concurrent use.
type Keys struct {
	o     KeysOptions
	fixed []Key // those that are not of the file
	table atomic.Pointer[keyTable]

	mu   sync.Mutex // guards what follows; held while the file is read
	last [sha256.Size]byte
	said string // the error that was logged last

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// keyTable finds keys by their digests. It is never changed. How long a look-up takes depends on bits of a digest, and a caller who tries keys
// cannot choose these.
type keyTable struct {
	keys     []Key
	byDigest map[[sha256.Size]byte]*Key
	valid    map[string]bool // the tags of keys that are not revoked; see [Grant.KeyTag]
}

// NewKeys reads the keys of all places, and watches the file until Close. Errors name each entry that is wrong, never a key.
func NewKeys(o KeysOptions) (*Keys, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
	k := &Keys{o: o}
	var errs []error
	if k.fixed, errs = parseKeys(o.Entries, "entry %d of the configured keys"); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if _, err := k.load(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	if o.File != "" {
		k.wg.Go(func() { k.watch(ctx) })
	}
	return k, nil
}

// Close ends watching the file. Keys are found as before.
func (k *Keys) Close() {
	k.cancel()
	k.wg.Wait()
}

// watch reads the file again when it changes. It polls, because a rename of one of its folders, by which Kubernetes replaces files, causes no
// notification about the file itself.
func (k *Keys) watch(ctx context.Context) {
	for backoff.Sleep(ctx, k.o.Poll) == nil {
		k.Reload()
	}
}

// Reload reads the file now, if it has changed. Where that cannot be done, the keys are those that were known before; the error is
// also logged, once as long as it is the same one.
func (k *Keys) Reload() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, err := k.load()
	switch {
	case err == nil:
		if changed || k.said != "" {
			k.o.Log.Info("read the key file", "keys", k.Len())
		}
		k.said = ""
	case k.said != err.Error():
		k.said = err.Error()
		k.o.Log.Error("cannot use the key file; keeping the previous keys", "error", err)
	}
	return err
}

// load makes the table; changed says whether it did.
func (k *Keys) load() (changed bool, err error) {
	keys := k.fixed
	var sum [sha256.Size]byte
	if k.o.File != "" {
		data, err := readKeyFile(k.o.File)
		if err != nil {
			return false, err
		}
		if sum = sha256.Sum256(data); sum == k.last && k.table.Load() != nil {
			return false, nil
		}
		of, err := parseKeyFile(k.o.File, data)
		if err != nil {
			return false, err
		}
		keys = slices.Concat(k.fixed, of)
	}
	t, err := newKeyTable(keys)
	if err != nil {
		return false, err
	}
	k.table.Store(t)
	k.last = sum
	return true, nil
}

func newKeyTable(keys []Key) (*keyTable, error) {
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("too many keys: %d; expected at most %d", len(keys), maxKeys)
	}
	t := &keyTable{keys: keys, byDigest: make(map[[sha256.Size]byte]*Key, len(keys)), valid: map[string]bool{}}
	for i := range keys {
		k := &keys[i]
		if other := t.byDigest[k.digest]; other != nil {
			return nil, fmt.Errorf("%s: this key is the same as %s; remove one", k.Place, other.Place)
		}
		t.byDigest[k.digest] = k
		t.valid[Grant{Digest: k.digest}.KeyTag()] = !k.Revoked
	}
	return t, nil
}

// Find returns whose key a text is. The key is there, too, with ErrExpiredKey and ErrRevokedKey, to be logged; it must not be changed.
func (k *Keys) Find(text string) (*Key, error) {
	if len(text) > maxKey {
		return nil, ErrUnknownKey
	}
	key := k.table.Load().byDigest[digest(text)]
	switch {
	case key == nil && strings.HasPrefix(text, keyMark) && !own(text):
		return nil, ErrMistypedKey
	case key == nil:
		return nil, ErrUnknownKey
	case key.Revoked:
		return key, ErrRevokedKey
	case key.expired():
		return key, ErrExpiredKey
	}
	return key, nil
}

func (k *Key) expired() bool { return !k.Expires.IsZero() && !time.Now().Before(k.Expires) }

// Len is how many keys there are, expired and revoked ones included.
func (k *Keys) Len() int { return len(k.table.Load().keys) }

// All returns the keys in the order of their places: configuration, environment, file.
func (k *Keys) All() []Key { return slices.Clone(k.table.Load().keys) }

// parseKeys reads entries; place has a %d for the number of one, from 1. Empty ones are left out.
func parseKeys(entries []string, place string) ([]Key, []error) {
	var keys []Key
	var errs []error
	for i, entry := range entries {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		at := fmt.Sprintf(place, i+1)
		key, err := ParseKey(entry)
		if err != nil {
			if errs = append(errs, fmt.Errorf("%s: %w", at, err)); len(errs) == maxErrors {
				break
			}
			continue
		}
		key.Place = at
		keys = append(keys, key)
	}
	return keys, errs
}

// parseKeyFile parses a file of keys: one entry per line, as [ParseKey] takes it. It skips empty lines and those that begin with #.
func parseKeyFile(path string, data []byte) ([]Key, error) {
	lines := strings.Split(string(bytes.TrimPrefix(data, []byte("\ufeff"))), "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines[i] = ""
		}
	}
	keys, errs := parseKeys(lines, strings.ReplaceAll(filepath.Base(path), "%", "%%")+":%d")
	return keys, errors.Join(errs...)
}

// unsafeMode are the bits that a file of keys may not have: others who could write it would let themselves in, and of keys that stand
// there as they are, others could read them. The group may read it, since that is how containers are given secrets.
const unsafeMode = 0o027

func readKeyFile(path string) ([]byte, error) {
	name := filepath.Base(path)
	in, err := os.Stat(path) // before it is opened: to open a pipe is to wait for its other end
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the key file: %w", err)
	case !in.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file; expected a file with one entry per line", name)
	case in.Mode()&unsafeMode != 0 && runtime.GOOS != "windows":
		return nil, fmt.Errorf("other users can read or change %s (mode %04o); run chmod 600 on it", name, in.Mode().Perm())
	case in.Size() > maxKeyFile:
		return nil, fmt.Errorf("%s is too large for a key file; expected at most %d bytes", name, maxKeyFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the key file: %w", err)
	}
	return data, nil
}

// AddKey writes a key at the end of a file, which is made if it is not there. A server that watches the file knows the key at once.
func AddKey(path string, k *Key) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write the key file: %w", err)
	}
	line := k.Entry() + "\n"
	size, err := f.Seek(0, io.SeekEnd)
	last := []byte{'\n'}
	if err == nil && size > 0 {
		_, err = f.ReadAt(last, size-1)
	}
	if last[0] != '\n' {
		line = "\n" + line
	}
	if err == nil {
		_, err = f.WriteString(line) // in one write, so that no reader gets half of it
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write the key file: %w", err)
	}
	return nil
}
