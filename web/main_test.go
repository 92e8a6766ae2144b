package web

import (
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind: neither of the server, nor of a run, nor of a connection.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
