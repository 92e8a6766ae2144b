package kernel_test

import (
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) {
	longtest.Checks(40, 100)
	longtest.Main(m)
}
