package run

import (
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
)

// No test may leave a goroutine behind: neither of the server, nor of a run, nor of a connection.
func TestMain(m *testing.M) { longtest.Main(m) }
