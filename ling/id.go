package ling

import (
	"crypto/rand"
	"encoding/base64"
)

// NewID makes a run's id: 128 random bits in 22 characters that stand for themselves in a URL. The first one is not a "-",
// so that no command takes an id for a flag.
func NewID() string {
	var bits [16]byte
	for {
		rand.Read(bits[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(bits[:]); id[0] != '-' {
			return id
		}
	}
}
