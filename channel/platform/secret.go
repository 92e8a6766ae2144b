package platform

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
)

// Secret is a text that prints, logs and encodes as stars. Convert it to a string to send it.
type Secret string

// MinSecret is the least length of a secret that senders of webhooks prove to know: a shorter one could be guessed. What the platforms
// make themselves is longer.
const MinSecret = 16

const stars = "***"

// String is "" for an empty text: whether there is one is no secret.
func (t Secret) String() string {
	if t == "" {
		return ""
	}
	return stars
}

// GoString, LogValue and MarshalText are for those that do not ask String.
func (t Secret) GoString() string             { return `"` + t.String() + `"` }
func (t Secret) LogValue() slog.Value         { return slog.StringValue(t.String()) }
func (t Secret) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Reveal returns the text itself.
func (t Secret) Reveal() string { return string(t) }

// ErrControl is the error of a secret that no header can have.
var ErrControl = errors.New("contains a control character or a line break; remove it")

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Secret) UnmarshalText(text []byte) error {
	if bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ErrControl
	}
	*t = Secret(text)
	return nil
}

// Matches reports whether a text is the secret. The time it takes depends on neither the secret nor its length.
func (t Secret) Matches(text string) bool {
	want, got := sha256.Sum256([]byte(t)), sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
