package nats_test

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

// serverFolder names the folder of a server that this binary is to be, in a process of its own.
const serverFolder, serverListen = "RUNLOG_TEST_SERVER", "RUNLOG_TEST_LISTEN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverFolder); dir != "" {
		os.Exit(serve(dir, os.Getenv(serverListen)))
	}
	clustertest.Role(nil)
	// A check opens replicas and servers' streams.
	longtest.Checks(5, 50)
	longtest.Parallel(4) // they wait for servers
	os.Exit(m.Run())
}

// serve is a server until its input ends.
func serve(dir, listen string) int {
	s, err := cluster.StartServer(cluster.Options{Name: "alone", Dir: dir, Listen: listen})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
