package mcp

import (
	"bytes"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"
)

var errFlood = errors.New("it sends more data than allowed")

// meter bounds what a server sends in a minute.
type meter struct{ bytes, messages *rate.Limiter }

func newMeter() meter {
	return meter{
		bytes:    rate.NewLimiter(rate.Every(time.Minute/maxPerMinute), maxPerMinute),
		messages: rate.NewLimiter(rate.Every(time.Minute/maxMessages), maxMessages),
	}
}

// count adds to what was sent.
func (m meter) count(bytes, messages int) error {
	if now := time.Now(); !m.bytes.AllowN(now, bytes) || !m.messages.AllowN(now, messages) {
		return errFlood
	}
	return nil
}

// metered is the body of an answer; it ends with an error where the server sends too much.
type metered struct {
	io.ReadCloser
	meter meter
	ended func()
}

func (b *metered) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	lines := bytes.Count(p[:n], []byte("\n"))
	if flood := b.meter.count(n, (lines+1)/2); flood != nil { // an event has two lines at least
		return 0, flood
	}
	return n, err
}

func (b *metered) Close() error {
	defer b.ended()
	return b.ReadCloser.Close()
}
