package demo_test

import (
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/demo"
)

// What every adapter promises, as far as it can be seen without a script (AD-05).
func TestSuite(t *testing.T) {
	for _, model := range []string{demo.Paced, demo.Fast} {
		t.Run(model, func(t *testing.T) {
			adaptertest.Any(t, "demo:"+model, func(testing.TB) adapter.Provider { return demo.New(nil) })
		})
	}
}
