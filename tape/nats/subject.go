package nats

import (
	"strings"

	"github.com/lingserve/lingserve/cluster"
)

const (
	streamName = "TAPES"
	space      = "tapes" // the first token of all subjects

	// The tokens that say what is below a tape.
	entriesToken = "e"
	blobToken    = "b"
	forkToken    = "f"
)

// base is what the subjects of a tape begin with. Those of its forks begin with it too.
func (s *Store) base(name string) string {
	parts := strings.Split(name, ".") // a fork's name is that of its parent, a dot and its own
	tokens := []string{space, cluster.Token(parts[0])}
	for _, part := range parts[1:] {
		tokens = append(tokens, forkToken, cluster.Token(part))
	}
	return s.cluster.Subject(tokens...)
}

// entries is the subject of a tape's batches.
func (s *Store) entries(name string) string { return s.base(name) + "." + entriesToken }

// sessions is the subject of the batches of all tapes that are no forks.
func (s *Store) sessionsSubject() string { return s.cluster.Subject(space, "*", entriesToken) }

// blob is the subject of a blob.
func (s *Store) blob(name, handle string) string {
	return s.base(name) + "." + blobToken + "." + handle
}

// under is all of a tape.
func under(base string) string { return base + ".>" }
