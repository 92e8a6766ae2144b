package access

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// storedTicket is a ticket as a store keeps it that has it outside of this process.
type storedTicket struct {
	Principal
	Method  string `json:"method"`
	Path    string `json:"path"`
	Expires int64  `json:"expires"`          // ms
	Digest  []byte `json:"digest,omitempty"` // of the key
	Until   int64  `json:"until,omitempty"`  // ms
}

// MarshalBinary writes all of a ticket, for a store. Times have milliseconds.
func (t Ticket) MarshalBinary() ([]byte, error) {
	s := storedTicket{Principal: t.Principal, Method: t.Method, Path: t.Path, Expires: t.Expires.UnixMilli()}
	if t.Grant.Digest != ([sha256.Size]byte{}) {
		s.Digest = t.Grant.Digest[:]
	}
	if !t.Grant.Until.IsZero() {
		s.Until = t.Grant.Until.UnixMilli()
	}
	return json.Marshal(s)
}

// UnmarshalBinary reads what MarshalBinary has written. A scope that is not known is an error: what is not understood lets nobody in.
func (t *Ticket) UnmarshalBinary(data []byte) error {
	var s storedTicket
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("access: invalid ticket: %w", err)
	}
	switch {
	case s.Name == "" || s.Method == "" || s.Path == "" || s.Expires == 0:
		return errors.New("access: invalid ticket: something is missing")
	case len(s.Digest) != 0 && len(s.Digest) != sha256.Size:
		return errors.New("access: invalid ticket: the key's digest has another length")
	}
	*t = Ticket{Principal: s.Principal, Method: s.Method, Path: s.Path, Expires: time.UnixMilli(s.Expires)}
	copy(t.Grant.Digest[:], s.Digest)
	if s.Until != 0 {
		t.Grant.Until = time.UnixMilli(s.Until)
	}
	return nil
}
