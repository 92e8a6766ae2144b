package logs_test

import (
	"os"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) {
	clustertest.Role(nil)
	longtest.Checks(10, 50) // a check opens replicas
	longtest.Parallel(4)    // they wait for servers
	os.Exit(m.Run())
}
