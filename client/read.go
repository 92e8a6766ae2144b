package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/tube"
)

// read passes on the events of one answer, until it breaks off or the run has ended. left reports that the caller has left the loop.
func (r *Run) read(ctx context.Context, yield func(tube.Event, error) bool) (left bool, err error) {
	lines := bufio.NewScanner(r.body)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLine)
	var group []tube.Event // of a snapshot, which counts only as a whole
	for !r.ended && lines.Scan() {
		r.silence.Reset(maxSilence)
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		e, id, err := decodeLine(text)
		if err != nil {
			return false, fmt.Errorf("the server sent an invalid event: %w; check that the address is that of a Lingserve server", err)
		}
		if group = append(group, e); id == "" && !e.Terminal() {
			continue
		}
		for i, e := range group {
			if i == len(group)-1 {
				r.last, r.ended = cmp.Or(id, r.last), e.Terminal()
			}
			if !yield(e, nil) {
				return true, nil
			}
		}
		group = group[:0]
	}
	switch {
	case r.ended:
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return false, fmt.Errorf("the server sent a line longer than %d MiB; expected an event", maxLine>>20)
	}
	return false, nil // also a clean end: only the terminal event is an end
}

// wholeLine is a [bufio.SplitFunc] that leaves out a last line which was cut off.
func wholeLine(data []byte, _ bool) (advance int, token []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	return 0, nil, nil
}

// decodeLine reads an event as JSON Lines carry it.
func decodeLine(text []byte) (e tube.Event, id string, err error) {
	var l struct {
		ID    string          `json:"id"`
		URI   string          `json:"uri"`
		Delta json.RawMessage `json:"delta"`
		Done  bool            `json:"done"`
		Event string          `json:"event"`
		Data  json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return e, "", errors.New("expected a JSON object")
	}
	if _, n, ok := strings.Cut(l.ID, ":"); ok {
		if e.N, err = strconv.ParseUint(n, 10, 64); err != nil {
			return e, "", fmt.Errorf("invalid id %q", l.ID)
		}
	}
	e.Part = l.ID == ""
	switch {
	case l.Event != "":
		e.Kind, e.Name, e.Value = tube.Named, l.Event, l.Data
		if e.Value == nil {
			e.Value = []byte("null")
		}
	case l.Done:
		e.Kind, e.URI = tube.Done, []byte(l.URI)
	case len(l.Delta) == 0:
		return e, "", errors.New("expected a delta or an event")
	case l.Delta[0] == '"':
		e.Kind, e.URI, e.Value = tube.Append, []byte(l.URI), l.Delta[1:len(l.Delta)-1]
	default:
		e.Kind, e.URI, e.Value = tube.Set, []byte(l.URI), l.Delta
	}
	return e, l.ID, nil
}
