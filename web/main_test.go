package web

import (
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind: neither of the server, nor of a run, nor of a connection. One that net/http closes waits for half a
// second, to let its answer go out before, which is longer than is waited here behind the last test.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
