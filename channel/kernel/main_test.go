package kernel_test

import (
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) {
	longtest.Checks(30, 80)
	longtest.Main(m)
}
