package control_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/lingserve/lingserve/cluster/clustertest"
	"github.com/lingserve/lingserve/internal/postgrestest"
)

func TestMain(m *testing.M) {
	clustertest.Role(nil)
	if database, databaseMissing = postgrestest.Start("fsync=off"); databaseMissing != nil && !errors.Is(databaseMissing, postgrestest.ErrMissing) {
		fmt.Fprintln(os.Stderr, databaseMissing)
		os.Exit(1)
	}
	code := m.Run()
	if databaseMissing == nil {
		if err := database.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
