package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A key is lsk_ID_SECRET with a checksum behind the secret: "lsk_" for those who search texts for secrets, an id that may be logged,
// 160 random bits, and 32 bits that tell a mistyped key from a wrong one without asking anybody. Its stored form is
// lsk_ID_sha256_DIGEST.
//
// SHA-256 without salt and without cost is right here. Slow hashes are for passwords, of which a thief who has the hashes can try
// all likely ones; 2^160 keys are too many to try. A slow hash would only let senders of wrong keys keep the server busy.
const (
	keyMark    = "lsk_"
	digestMark = "_sha256_"

	idLength  = 8 // 40 bits
	sumLength = 7 // 32 bits and three that are 0

	// minKey is for keys that were made elsewhere: 20 letters of any usual alphabet are too many to be guessed, where they are random.
	minKey, maxKey = 20, 512
)

// keyForm is that of keys as NewKey makes them.
var keyForm = regexp.MustCompile(`^lsk_[a-z2-7]{8}_[a-z2-7]{39}$`)

// Key is what is known of an API key: never the key itself.
type Key struct {
	ID        string // may be logged
	Principal Principal
	Expires   time.Time // zero is never
	Revoked   bool
	Place     string // where it stands, as "keys.txt:3"

	digest [sha256.Size]byte
}

// NewKey makes a key for a principal, and returns its secret text too.
func NewKey(p Principal, expires time.Time) (Key, string) {
	var id [5]byte
	var secret [20]byte
	rand.Read(id[:]) // it never fails
	rand.Read(secret[:])
	text := keyMark + letters.EncodeToString(id[:]) + "_" + letters.EncodeToString(secret[:])
	text += checksum(text)
	return Key{ID: idOf(text), Principal: p, Expires: expires, digest: digest(text)}, text
}

// checksum is that of a key's text before it.
func checksum(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	return letters.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// own says whether a text is a key as NewKey makes it, with the checksum that belongs to it.
func own(text string) bool {
	end := len(text) - sumLength
	return keyForm.MatchString(text) && checksum(text[:end]) == text[end:]
}

// idOf returns the id of a key: the one in its text, or else the beginning of its digest, which does not reveal the key.
func idOf(text string) string {
	if own(text) {
		return text[len(keyMark):][:idLength]
	}
	d := digest(text)
	return letters.EncodeToString(d[:5])
}

// Entry writes the key as a line of a key file: NAME:DIGEST:ROLE and its other properties.
func (k *Key) Entry() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%s%s%s%s:%s", k.Principal.Name, keyMark, k.ID, digestMark, hex.EncodeToString(k.digest[:]), k.Principal.Role)
	if !k.Principal.Scopes.All() {
		fmt.Fprintf(&b, " scopes=%s", k.Principal.Scopes)
	}
	if !k.Expires.IsZero() {
		fmt.Fprintf(&b, " expires=%s", k.Expires.UTC().Format(time.RFC3339))
	}
	if k.Revoked {
		b.WriteString(" revoked")
	}
	return b.String()
}

// ParseKey reads an entry: NAME:KEY:ROLE, where KEY is a key or its stored form. After a blank may follow scopes=SCOPE+SCOPE,
// expires=TIME and revoked. Errors hold nothing of the entry that could be the key, wherever it was put by mistake.
func ParseKey(entry string) (Key, error) {
	fields := strings.Fields(entry)
	if len(fields) == 0 {
		return Key{}, errors.New("the entry is empty; expected NAME:KEY:ROLE")
	}
	parts := strings.Split(fields[0], ":")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("found %d instead of 3 parts before the first space; expected NAME:KEY:ROLE", len(parts))
	}
	var k Key
	if err := k.parseText(parts[1]); err != nil {
		return Key{}, err
	}
	if strings.HasPrefix(parts[0], keyMark) {
		return Key{}, errors.New("found a key in place of the name; expected NAME:KEY:ROLE")
	}
	k.Principal.Name = parts[0]
	if err := CheckName(parts[0]); err != nil {
		return Key{}, err
	}
	// From here on a key stands where it belongs, and the name can be said.
	wrong := func(format string, args ...any) (Key, error) {
		return Key{}, fmt.Errorf("of %s: %w", parts[0], fmt.Errorf(format, args...))
	}
	if err := k.Principal.Role.UnmarshalText([]byte(parts[2])); err != nil {
		return wrong("the third part is not a role; expected user, operator or admin")
	}
	seen := map[string]bool{}
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, "=")
		if seen[name] {
			return wrong("%s occurs twice; remove one", name) // it is one of those below
		}
		var err error
		switch {
		case field == "revoked":
			k.Revoked = true
		case name == "scopes":
			k.Principal.Scopes, err = ParseScopes(strings.Split(value, "+"))
		case name == "expires":
			k.Expires, err = ParseExpiry(value)
		default:
			return wrong("unknown text after the role; expected scopes=SCOPE+SCOPE, expires=TIME or revoked")
		}
		if err != nil {
			return wrong("%w", err)
		}
		seen[name] = true
	}
	if err := checkAdmin(k.Principal); err != nil {
		return wrong("%w", err)
	}
	return k, nil
}

// checkAdmin refuses a scope that the role does not have: scopes narrow, and its author may have thought that they widen.
func checkAdmin(p Principal) error {
	if slices.Contains(p.Scopes, admin) && !p.Administers() {
		return fmt.Errorf("the scope %s needs the role admin", admin)
	}
	return nil
}

// parseText reads a key or its stored form.
func (k *Key) parseText(text string) error {
	if id, sum, ok := strings.Cut(strings.TrimPrefix(text, keyMark), digestMark); ok && strings.HasPrefix(text, keyMark) {
		d, err := hex.DecodeString(sum)
		if err != nil || len(d) != len(k.digest) || len(id) != idLength || strings.Trim(id, alphabet) != "" {
			return errors.New("the digest in the second part is incomplete or changed; copy the whole line that \"lingserve keys new\" prints")
		}
		k.ID, k.digest = id, [sha256.Size]byte(d)
		return nil
	}
	switch {
	case strings.HasPrefix(text, keyMark) && !own(text):
		return errors.New("the key in the second part is mistyped or incomplete; copy it again")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("the key in the second part has characters that a header cannot contain; create a key with \"lingserve keys new\"")
	case len(text) < minKey || len(text) > maxKey:
		return fmt.Errorf("the key in the second part has %d characters; expected a key of \"lingserve keys new\", or %d to %d random characters",
			len(text), minKey, maxKey)
	}
	k.ID, k.digest = idOf(text), digest(text)
	return nil
}

// ParseExpiry reads when a key expires: a day, at whose beginning in UTC it does, or a time as 2027-01-31T12:00:00Z.
func ParseExpiry(text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time; expected one such as 2027-01-31 or 2027-01-31T12:00:00Z", short(text))
}

// digest is what is kept of a key.
func digest(text string) [sha256.Size]byte {
	var buf [maxKey]byte // on the stack, where a conversion of the text would not be
	if len(text) <= len(buf) {
		return sha256.Sum256(buf[:copy(buf[:], text)])
	}
	return sha256.Sum256([]byte(text))
}
