package config

import "github.com/lingserve/lingserve/internal/edits"

// Nearest returns the name of known that was probably meant by a mistyped one, "" where none is near. The last part of a
// dotted name stands for the whole.
func Nearest(name string, known []string) string { return edits.Nearest(name, known) }
