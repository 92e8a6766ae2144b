package access

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Grant is the right that lets a caller in, and for how long. What takes longer than a request checks it again, see [Door.Holds].
// The zero value lets in for good.
type Grant struct {
	Digest [sha256.Size]byte `json:"digest,omitzero"` // of a key; zero for none
	Until  time.Time         `json:"until,omitzero"`  // when it ends by itself; zero for never
}

// Holds says whether a grant of this door's counts still: its key is there and not revoked, and its time is not over.
func (d *Door) Holds(g Grant) bool {
	if d.Open() {
		return true
	}
	if !g.Until.IsZero() && !time.Now().Before(g.Until) {
		return false
	}
	if g.Digest == ([sha256.Size]byte{}) {
		return true
	}
	return d.Keys != nil && d.Keys.holds(g.Digest)
}

// tagBytes is how many bytes of a digest are in a tag.
const tagBytes = 8

// KeyTag is a short name of the key, for a record of the work that it started; "" without a key. It does not reveal the key.
func (g Grant) KeyTag() string {
	if g.Digest == ([sha256.Size]byte{}) {
		return ""
	}
	return hex.EncodeToString(g.Digest[:tagBytes])
}

// Revoked reports whether the key with a [Grant.KeyTag] was revoked: it is marked so, or is not among the keys any more. A key that has only
// expired was not.
func (d *Door) Revoked(keyTag string) bool {
	return len(keyTag) == 2*tagBytes && d != nil && d.Keys != nil && !d.Keys.table.Load().valid[keyTag]
}

// holds reports whether a valid key has this digest.
func (k *Keys) holds(digest [sha256.Size]byte) bool {
	key := k.table.Load().byDigest[digest]
	return key != nil && !key.Revoked && !key.expired()
}
