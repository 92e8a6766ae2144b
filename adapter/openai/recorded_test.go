package openai

import (
	"flag"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

var update = flag.Bool("update", false, "rewrite the expected chunks in testdata")

// Each file of testdata is a stream as some server sends it, and the chunks that are to come of it (AD-02, FT-01…FT-12, and each
// line of the table of hostile streams).
func TestRecordedStreamsGiveTheirChunks(t *testing.T) {
	adaptertest.Recorded(t, subject, "testdata/*.txtar", *update)
}

// newModel returns a model at a server in this process.
func newModel(t testing.TB, s *fakeproviders.Server, o Options) adapter.Model {
	t.Helper()
	o.Transport, o.BaseURL = s.Transport(), "http://model.test/v1"
	m, err := newProvider(t, o).Model("m")
	if err != nil {
		t.Fatal(err)
	}
	return m
}
