package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// exact makes a text of the structured content of a call's result, since the SDK reads it into values that have no exact large numbers. A
// message without one stays as it is. resultOf reads the text.
func exact(message []byte) []byte {
	const structured = "structuredContent"
	if !bytes.Contains(message, []byte(structured)) {
		return message
	}
	var whole, result map[string]json.RawMessage
	if json.Unmarshal(message, &whole) != nil || json.Unmarshal(whole["result"], &result) != nil {
		return message
	}
	content := result[structured]
	if content == nil || string(content) == "null" {
		return message
	}
	var err error
	if result[structured], err = rawjson.Marshal(string(content)); err != nil {
		return message
	}
	if whole["result"], err = rawjson.Marshal(result); err != nil {
		return message
	}
	if out, err := rawjson.Marshal(whole); err == nil {
		return out
	}
	return message
}

// exactBody is the body of an answer: a message, or a stream of events with messages, with [exact] content.
type exactBody struct {
	io.Closer
	from   *bufio.Reader
	events bool
	ready  []byte
}

func newExactBody(body io.ReadCloser, events bool) *exactBody {
	return &exactBody{Closer: body, from: bufio.NewReader(body), events: events}
}

func (b *exactBody) Read(p []byte) (n int, err error) {
	if len(b.ready) == 0 {
		if b.ready, err = b.next(); len(b.ready) == 0 {
			return 0, err
		}
	}
	n = copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// next reads a line of events, or the message. The error comes again where something was read before it.
func (b *exactBody) next() ([]byte, error) {
	if !b.events {
		message, err := io.ReadAll(b.from) // which is bounded, as the message is
		if err != nil {
			return nil, err
		}
		return exact(message), io.EOF
	}
	line, err := readLine(b.from)
	if message, ok := bytes.CutPrefix(line, []byte("data:")); ok && err == nil {
		text := bytes.TrimSpace(message)
		if out := exact(text); len(out) != len(text) { // it is always longer
			return append(append([]byte("data: "), out...), '\n'), nil
		}
	}
	return line, err
}

// readLine reads up to a line feed. The line is valid until the next call.
func readLine(from *bufio.Reader) ([]byte, error) {
	line, err := from.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if line, err = from.ReadSlice('\n'); len(long)+len(line) > maxMessage {
			return nil, errLarge
		}
		long = append(long, line...)
	}
	return long, err
}
