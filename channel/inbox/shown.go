package inbox

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/owner"
	"github.com/lingserve/lingserve/store"
)

// shownTable has what people see of an answer before it is finished. Its keys are those of the inbox.
var shownTable = store.TableOptions{Name: "shown", MaxBytes: 64 << 20, Oldest: true}

// Shown implements [channel.Shower].
func (j *Inbox) Shown(ctx context.Context, event string, s channel.ShownText) error {
	if j.shown == nil {
		return nil
	}
	token := owner.Token(event)
	defer j.r.Lock(token)()
	e, err := j.mine(token)
	if e == nil || err != nil {
		return err // the text would stay
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, errs := j.shown.Put(ctx, store.Put{Key: token, ID: owner.NewID(), After: store.AnyRev, Body: text, Life: keyLife})
	j.mu.Lock()
	defer j.mu.Unlock()
	e.shown = true
	return errs[0]
}

// LastShown implements [channel.Shower].
func (j *Inbox) LastShown(ctx context.Context, event string) (s channel.ShownText, err error) {
	if j.shown == nil {
		return s, nil
	}
	token := owner.Token(event)
	rec, err := j.shown.Get(ctx, token)
	if errors.Is(err, store.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	j.mu.Lock()
	if e := j.own[token]; e != nil {
		e.shown = true
	}
	j.mu.Unlock()
	return s, json.Unmarshal(rec.Body, &s)
}

// forgetShown removes what people saw of an answer.
func (j *Inbox) forgetShown(ctx context.Context, token string) error {
	if j.shown == nil {
		return nil
	}
	_, errs := j.shown.Put(ctx, store.Put{Key: token, ID: owner.NewID(), After: store.AnyRev, Delete: true})
	if errors.Is(errs[0], store.ErrNotFound) {
		return nil
	}
	return errs[0]
}
