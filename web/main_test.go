package web

import (
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
	"github.com/lingserve/lingserve/run"
)

// No test may leave a goroutine behind: neither of the server, nor of a run, nor of a connection.
func TestMain(m *testing.M) {
	run.OnWrongState = func(err error) { panic(err) } // RU-01
	longtest.Run(func() int { return postgrestest.Main(m) })
}
