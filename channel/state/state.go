// Package state keeps what a channel has learned of its platform and cannot ask for again: little, in one text, which processes share.
package state

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Store keeps what channels have learned: texts by name. A channel.Texts is one.
type Store interface {
	// Load reads a text; nil is none.
	Load(_ context.Context, name string) ([]byte, error)
	// Change replaces a text by what do makes of it. do is called again if another process was faster.
	Change(_ context.Context, name string, do func(text []byte) ([]byte, error)) error
}

// wait bounds how long one is waited for: what is learned is learned while a message is looked at.
const wait = 5 * time.Second

// Read reads what [Change] has written into v, which stays as it is where there is none.
func Read(s Store, name string, v any) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	text, err := s.Load(ctx, name)
	if err != nil || text == nil {
		return err
	}
	return parse(name, text, v)
}

// Change adds something to what is known: add is given what is there, as JSON of the type of the value, and returns what is to be
// there, or ok as false where nothing is to be changed. It may be called more than once.
func Change[T any](s Store, name string, add func(was T) (now T, ok bool)) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return s.Change(ctx, name, func(text []byte) ([]byte, error) {
		var was T
		if text != nil {
			if err := parse(name, text, &was); err != nil {
				return nil, err
			}
		}
		now, ok := add(was)
		if !ok {
			return text, nil
		}
		return json.Marshal(now)
	})
}

func parse(name string, text []byte, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("what was learned as %q is not what was written: %w", name, err)
	}
	return nil
}
