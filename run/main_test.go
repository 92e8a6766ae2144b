package run

import (
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
)

// No test may leave a goroutine behind: neither of the server, nor of a run, nor of a connection.
func TestMain(m *testing.M) {
	OnWrongState = func(err error) { panic(err) } // RU-01
	longtest.Checks(15, 100)
	longtest.Main(m)
}
