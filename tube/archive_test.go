package tube_test

import (
	"github.com/lingserve/lingserve/tube"
)

func documents() *tube.Options {
	return &tube.Options{MaxBytes: 4 << 10}
}
