// Package secret is the type of the tokens and keys that channels are given.
package secret

import "log/slog"

// Text is a text that prints, logs and encodes as stars. Whoever must send it converts it to a string.
type Text string

// MinLength is the least length of a secret that senders of webhooks prove to know: a shorter one could be guessed. What the platforms
// make themselves is longer.
const MinLength = 16

const stars = "***"

// String is "" for an empty text: whether there is one is no secret.
func (t Text) String() string {
	if t == "" {
		return ""
	}
	return stars
}

// GoString, LogValue and MarshalText are for those that do not ask String.
func (t Text) GoString() string             { return `"` + t.String() + `"` }
func (t Text) LogValue() slog.Value         { return slog.StringValue(t.String()) }
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
