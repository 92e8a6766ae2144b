package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lingserve/lingserve/channel"
)

// State stores what channels have learned: texts by name.
type State = channel.Texts

// stateWait bounds how long one is waited for: what is learned is learned while a message is looked at.
const stateWait = 5 * time.Second

// ReadState reads what [ChangeState] has written into v, which stays as it is if it is missing.
func ReadState(s State, name string, v any) error {
	ctx, cancel := context.WithTimeout(context.Background(), stateWait)
	defer cancel()
	text, err := s.Load(ctx, name)
	if err != nil || text == nil {
		return err
	}
	return parseState(name, text, v)
}

// ChangeState adds something to what is known: add is given what is there, as JSON of the type of the value, and returns what is to be
// there, or ok as false where nothing is to be changed. It may be called more than once.
func ChangeState[T any](s State, name string, add func(was T) (now T, ok bool)) error {
	ctx, cancel := context.WithTimeout(context.Background(), stateWait)
	defer cancel()
	return s.Change(ctx, name, func(text []byte) ([]byte, error) {
		var was T
		if text != nil {
			if err := parseState(name, text, &was); err != nil {
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

func parseState(name string, text []byte, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("what was learned as %q is not what was written: %w", name, err)
	}
	return nil
}
