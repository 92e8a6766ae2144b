package logs_test

import (
	"os"
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/internal/postgrestest"
)

func TestMain(m *testing.M) {
	longtest.Checks(10, 50) // a check opens replicas
	longtest.Parallel(4)    // they wait for servers
	os.Exit(postgrestest.Main(m))
}
