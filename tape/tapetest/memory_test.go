package tapetest_test

import (
	"testing"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

func TestMemoryIsAStoreLikeOthers(t *testing.T) {
	tapetest.Run(t, tapetest.Factory{Open: func(string) (tape.Store, error) { return tapetest.NewMemory(nil), nil }})
}
