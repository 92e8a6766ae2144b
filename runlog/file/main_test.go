package file_test

import (
	"testing"

	"github.com/lingserve/lingserve/internal/longtest"
)

func TestMain(m *testing.M) {
	longtest.Checks(20, 200) // most of the time of one goes into opening files
	m.Run()
}
