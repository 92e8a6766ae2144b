package wire_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// FT-09, FT-12: messages as the SDK writes them, with headers of all types; and lengths that are not true.
func TestMessagesOfTheStream(t *testing.T) {
	var written bytes.Buffer
	message := eventstream.Message{Payload: []byte(`{"a":1}`)}
	for i, value := range []any{true, false, int8(1), int16(2), int32(3), int64(4), []byte("b"), "c"} {
		v, err := headerOf(value)
		if err != nil {
			t.Fatal(err)
		}
		message.Headers.Set(strings.Repeat("x", i+1), v)
	}
	message.Headers.Set(":message-type", eventstream.StringValue("event"))
	message.Headers.Set(":event-type", eventstream.StringValue("metadata"))
	if err := eventstream.NewEncoder().Encode(&written, message); err != nil {
		t.Fatal(err)
	}
	s := wire.NewAWSStream(iotest.OneByteReader(bytes.NewReader(bytes.Repeat(written.Bytes(), 50))), 1<<10)
	for range 50 {
		if got, err := s.Next(); err != nil || got.Kind != "event" || got.Name != "metadata" || string(got.Payload) != `{"a":1}` {
			t.Fatalf("%v %q %q %q", err, got.Kind, got.Name, got.Payload)
		}
	}
	if _, err := s.Next(); err != io.EOF {
		t.Error(err)
	}
	// Any bit that is wrong is noticed.
	for i := range written.Len() * 8 {
		b := bytes.Clone(written.Bytes())
		b[i/8] ^= 1 << (i % 8)
		s := wire.NewAWSStream(bytes.NewReader(b), 1<<10)
		if _, err := s.Next(); err != wire.ErrDamaged {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for name, row := range map[string]struct {
		max, payload int
		want         string
	}{
		"a message that is larger than allowed": {1 << 10, 1 << 11, "token too long"},
		"one that is just as large":             {1<<10 + 16, 1 << 10, ""},
	} {
		s := wire.NewAWSStream(bytes.NewReader(fakeproviders.AppendFrame(nil, "", "", make([]byte, row.payload))), row.max)
		_, err := s.Next()
		if said := ""; err != nil && !strings.Contains(err.Error(), row.want) || (err == nil) != (row.want == said) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A message that promises 4 MiB and sends nothing takes no memory.
	large := fakeproviders.AppendFrame(nil, "", "", make([]byte, 4<<20-16))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		s := wire.NewAWSStream(bytes.NewReader(large[:100]), 4<<20)
		if _, err := s.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 16<<10 {
		t.Errorf("%d bytes", each)
	}
}

func headerOf(value any) (eventstream.Value, error) {
	switch v := value.(type) {
	case bool:
		return eventstream.BoolValue(v), nil
	case int8:
		return eventstream.Int8Value(v), nil
	case int16:
		return eventstream.Int16Value(v), nil
	case int32:
		return eventstream.Int32Value(v), nil
	case int64:
		return eventstream.Int64Value(v), nil
	case []byte:
		return eventstream.BytesValue(v), nil
	case string:
		return eventstream.StringValue(v), nil
	}
	return nil, errors.New("no such type")
}
