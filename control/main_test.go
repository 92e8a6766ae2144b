package control_test

import (
	"os"
	"testing"

	"github.com/lingserve/lingserve/internal/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
