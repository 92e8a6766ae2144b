package replicas

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// CL-02: a message comes out of its bytes as it went in, whatever its texts are; bytes that are cut are refused.
func TestMessagesAsBytes(t *testing.T) {
	for _, m := range []Message{
		{Body: []byte{}},
		{
			ID: "\x00\xff", Command: "say", Run: "r", Session: "web:ada/旅行\r\n", Wait: time.Second, Code: "conflict", Text: "已经",
			Trace: map[string]string{"traceparent": "00-1"}, Body: []byte("{\x00\xff}"),
		},
	} {
		data, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(data)
		if diff := cmp.Diff(m, got); err != nil || diff != "" {
			t.Errorf("%v, (-want +got):\n%s", err, diff)
		}
		for n := range len(data) - len(m.Body) {
			if _, err := Decode(data[:n]); err == nil {
				t.Errorf("%d of %d bytes are a message", n, len(data))
			}
		}
	}
	if _, err := Decode([]byte("\xff\xff\xff\xff{}")); err == nil {
		t.Error("a head that is longer than the message is one")
	}
	nobody := NobodyServes()
	if !errors.Is(nobody.Nobody(), ErrNobody) || (&Message{Code: "x"}).Nobody() != nil {
		t.Error("the answer of a replica that serves nothing is not known")
	}
}

// RU-52: a server that is alone reaches nobody, and nothing waits.
func TestNoBus(t *testing.T) {
	if _, err := (NoBus{}).Ask(t.Context(), "other", Message{}); !errors.Is(err, ErrNobody) {
		t.Errorf("asked: %v", err)
	}
	stop, err := (NoBus{}).Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	stop()
}
