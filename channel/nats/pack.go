package nats

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

const (
	packFrom = 256 << 10 // bytes of a raw form that is compressed: most are far smaller
	maxRaw   = 4 << 20   // as the journal in files has it
)

// pack makes of a raw form what one message has room for.
func pack(raw []byte, room int) (data []byte, packed bool, err error) {
	if len(raw) > maxRaw {
		return nil, false, fmt.Errorf("an event of %d bytes is too large for the journal; expected at most %d", len(raw), maxRaw)
	}
	if len(raw) < packFrom && len(raw) <= room {
		return raw, false, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(raw)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, false, err // a buffer takes everything
	}
	if b.Len() > room {
		return nil, false, fmt.Errorf("an event of %d bytes, compressed %d, is too large for the servers that replicas share; expected at most %d", len(raw), b.Len(), room)
	}
	return b.Bytes(), true, nil
}

// unpack undoes it.
func unpack(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, errDamaged
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxRaw+1))
	if err != nil || len(raw) > maxRaw {
		return nil, errDamaged
	}
	return raw, nil
}
