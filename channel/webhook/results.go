package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Results keeps the answers to messages, for those who send one again to another replica. What is kept goes a day after it was saved.
type Results interface {
	// Save replaces what is kept of a message, which is of a session.
	Save(_ context.Context, message, session string, answer []byte) error
	// Load returns what is kept; nil is nothing.
	Load(_ context.Context, message string) ([]byte, error)
	// Erase removes what is kept of all messages of a session.
	Erase(_ context.Context, session string) error
}

// keeper keeps answers, as well as it can.
type keeper interface {
	open() // removes what is too old
	save(id, session string, text []byte)
	load(_ context.Context, id string) []byte
	erase(session string) error
}

// folder keeps answers in files.
type folder struct {
	dir vfs.Dir

	mu    sync.Mutex
	saved int // since the folder was looked at
}

const (
	maxResults = 256 << 20 // bytes of the files
	lookEvery  = 1000      // files that were written
)

func (f *folder) open() {
	d, err := f.dir.OpenExisting()
	if err != nil {
		return // nothing was kept
	}
	defer d.Close()
	_ = d.List(".", func(e fs.DirEntry) bool {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > keepFor {
			_ = d.Remove(e.Name())
		}
		return true
	})
	vfs.RemoveOldest(d, "", maxResults, "")
}

func (f *folder) save(id, _ string, text []byte) {
	d, err := f.dir.Open()
	if err != nil {
		return
	}
	defer d.Close()
	err = vfs.CacheFile(d, fileOf(id), func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
	if err != nil {
		return
	}
	f.mu.Lock()
	f.saved++
	look := f.saved >= lookEvery
	if look {
		f.saved = 0
	}
	f.mu.Unlock()
	if look {
		vfs.RemoveOldest(d, "", maxResults, "")
	}
}

// fileOf is the file of a message's answer, named after what the id hashes to: a sender may choose any.
func fileOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16]) + ".json"
}

func (f *folder) load(_ context.Context, id string) []byte {
	d, err := f.dir.OpenExisting()
	if err != nil {
		return nil
	}
	defer d.Close()
	info, err := d.Stat(fileOf(id))
	if err != nil || time.Since(info.ModTime()) > keepFor {
		return nil
	}
	text, err := vfs.ReadFile(d, fileOf(id))
	if err != nil {
		return nil
	}
	return text
}

func (f *folder) erase(session string) error { return eraseResults(f.dir, session) }

// EraseResults removes what is kept in a folder of results of the replies in a session. If it returns nil, they do not come back.
func EraseResults(dir, session string) error { return eraseResults(vfs.At(dir), session) }

func eraseResults(dir vfs.Dir, session string) (err error) {
	d, err := dir.OpenExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	names, err := vfs.Names(d, ".")
	errs := []error{err}
	for _, name := range names {
		var k kept
		text, err := vfs.ReadFile(d, name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // its time was over
		case err != nil:
			errs = append(errs, err)
		case json.Unmarshal(text, &k) == nil && k.Session == session:
			errs = append(errs, d.Remove(name))
		}
	}
	return errors.Join(append(errs, d.SyncFolder("."))...)
}

// shared keeps answers where all replicas find them, below the name of the channel.
type shared struct {
	Results
	login string
	log   *slog.Logger
}

// sharedWait bounds how long one is waited for.
const sharedWait = 5 * time.Second

func (shared) open() {}

func (s *shared) name(id string) string { return s.login + "/" + id }

func (s *shared) save(id, session string, text []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), sharedWait)
	defer cancel()
	if err := s.Save(ctx, s.name(id), session, text); err != nil {
		s.log.WarnContext(ctx, "cannot store an answer for retries", "channel", s.login, "error", err)
	}
}

func (s *shared) load(ctx context.Context, id string) []byte {
	ctx, cancel := context.WithTimeout(ctx, sharedWait)
	defer cancel()
	text, err := s.Load(ctx, s.name(id))
	if err != nil {
		s.log.WarnContext(ctx, "cannot read a stored answer", "channel", s.login, "error", err)
	}
	return text
}

func (s *shared) erase(session string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sharedWait)
	defer cancel()
	return s.Erase(ctx, session)
}
