package ling

import (
	"crypto/rand"
	"strings"
)

// NewID makes a run's id: 130 random bits in lower-case base32, fit for urls and for file names of any system.
func NewID() string { return strings.ToLower(rand.Text()) }
