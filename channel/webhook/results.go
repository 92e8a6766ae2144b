package webhook

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lingserve/lingserve/store"
)

// Results keeps the answers to messages, for senders who send one again after a restart, or to another replica. An answer goes a day after it
// was saved.
type Results interface {
	// Save replaces what is kept of a message, which is of a session.
	Save(_ context.Context, message, session string, answer []byte) error
	// Load returns what is kept; nil is nothing.
	Load(_ context.Context, message string) ([]byte, error)
	// Erase removes what is kept of all messages of a session.
	Erase(_ context.Context, session string) error
}

// ResultTable are the options of the table of answers.
var ResultTable = store.TableOptions{Name: "results", MaxBytes: 128 << 20, Oldest: true}

// TableResults are [Results] in a table. The key of a record is the login and the hash of the message's id, its meta stands for the session.
type TableResults struct{ table store.Table }

var _ Results = (*TableResults)(nil)

// OpenResults opens the table of answers.
func OpenResults(ctx context.Context, e store.Engine) (*TableResults, error) {
	t, err := e.Table(ctx, ResultTable)
	if err != nil {
		return nil, err
	}
	return &TableResults{t}, nil
}

// resultKey is where the answer to a message is: "login/id".
func resultKey(message string) string {
	login, id, _ := strings.Cut(message, "/")
	return store.KeyPart(login) + "/" + hashOf(id)
}

// hashOf stands for a text in the table, which tells nothing about it: a sender may choose any id.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Save implements [Results].
func (r *TableResults) Save(ctx context.Context, message, session string, answer []byte) error {
	return r.put(ctx, store.Put{Key: resultKey(message), After: store.AnyRev, Meta: []byte(hashOf(session)), Body: answer, Life: keepFor})
}

func (r *TableResults) put(ctx context.Context, p store.Put) error {
	rand.Read(p.ID[:])
	if _, errs := r.table.Put(ctx, p); errs[0] != nil {
		return fmt.Errorf("keep an answer: %w", errs[0])
	}
	return nil
}

// Load implements [Results].
func (r *TableResults) Load(ctx context.Context, message string) ([]byte, error) {
	kept, err := r.table.Get(ctx, resultKey(message))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	return kept.Body, nil
}

// Erase implements [Results].
func (r *TableResults) Erase(ctx context.Context, session string) error {
	var puts []store.Put
	for kept, err := range r.table.Range(ctx, "", false) {
		if err != nil {
			return fmt.Errorf("erase answers: %w", err)
		}
		if !bytes.Equal(kept.Meta, []byte(hashOf(session))) {
			continue
		}
		p := store.Put{Key: kept.Key, After: store.AnyRev, Delete: true} // one that was saved again is of the same session
		rand.Read(p.ID[:])
		puts = append(puts, p)
	}
	if len(puts) == 0 {
		return nil
	}
	_, errs := r.table.Put(ctx, puts...)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("erase answers: %w", err)
	}
	return nil
}

// keeper keeps the answers of a login, as well as it can.
type keeper struct {
	Results
	login string
	log   *slog.Logger
}

// keeperWait bounds a call.
const keeperWait = 5 * time.Second

func (k *keeper) name(id string) string { return k.login + "/" + id }

func (k *keeper) save(id, session string, text []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), keeperWait)
	defer cancel()
	if err := k.Save(ctx, k.name(id), session, text); err != nil {
		k.log.WarnContext(ctx, "cannot store an answer for retries", "channel", k.login, "error", err)
	}
}

func (k *keeper) load(ctx context.Context, id string) []byte {
	ctx, cancel := context.WithTimeout(ctx, keeperWait)
	defer cancel()
	text, err := k.Load(ctx, k.name(id))
	if err != nil {
		k.log.WarnContext(ctx, "cannot read a stored answer", "channel", k.login, "error", err)
	}
	return text
}

func (k *keeper) erase(session string) error {
	ctx, cancel := context.WithTimeout(context.Background(), keeperWait)
	defer cancel()
	return k.Erase(ctx, session)
}
