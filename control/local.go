package control

import (
	"log/slog"

	"github.com/lingserve/lingserve/cluster/replicas"
)

// NewLocal returns the control of a server that has no other replicas: it asks itself, by a call, and nothing is encoded. log may be nil.
func NewLocal(replica string, log *slog.Logger) *Requests {
	return New(replicas.NoBus{}, replicas.Alone(replicas.Options{ID: replica}), log)
}
