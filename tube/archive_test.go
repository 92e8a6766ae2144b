package tube_test

import (
	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

func documents() *tube.Options {
	return &tube.Options{MaxBytes: 4 << 10, Document: func() tube.Document { return new(jsonuri.Document) }}
}
