package wire

import (
	"testing"

	"github.com/lingserve/lingserve/web/wire/frame"
)

func TestAcceptIsReadWithQualities(t *testing.T) {
	for accept, want := range map[string]string{
		"":                  "application/json",
		"*/*":               "application/json",
		"*":                 "application/json",
		"application/*":     "application/json",
		"text/event-stream": "text/event-stream",
		"TEXT/Event-Stream": "text/event-stream",
		"text/*":            "text/event-stream",
		"application/jsonl": "application/jsonl",
		"text/html, application/xhtml+xml, */*;q=0.8":         "application/json",
		"application/json;q=0.5, text/event-stream":           "text/event-stream",
		"application/json; q=0.5 ,text/event-stream;q=0.4":    "application/json",
		"*/*, application/json;q=0":                           "text/event-stream",
		"application/*;q=0.1, application/x-ndjson":           "application/x-ndjson",
		"text/event-stream;q=0, */*;q=0.1":                    "application/json",
		"application/json;charset=utf-8;q=0.3, text/*;q=0.31": "text/event-stream",
		"text/event-stream;q=broken":                          "text/event-stream",
		"text/html":                                           "",
		"application/json;q=0":                                "",
		"text/event-streams":                                  "",
		"a, , ;;q, /":                                         "",
	} {
		got, ok := Negotiate([]string{accept}, Offers)
		if ok != (want != "") || got.Media != want {
			t.Errorf("%q: %q, %v; want %q", accept, got.Media, ok, want)
		}
	}
	if got, _ := Negotiate([]string{"text/html", "text/event-stream"}, Offers); got.Media != "text/event-stream" {
		t.Errorf("two headers: %q", got.Media)
	}
	if got, _ := Negotiate([]string{"*/*"}, StreamOffers); got.Format != frame.SSE {
		t.Errorf("a stream by nature: %q", got.Format)
	}
}

// What is accepted is one of the offers, and what says nothing gets the first.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"", "*/*", "text/event-stream", "application/json;q=0, */*;q=0.1", "text/*;q=1e-400", "a/b;q=NaN,application/json;q=Inf", ";;;,,,", "application/*;q=0.5;q=2"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, from := range [][]Offer{Offers, StreamOffers} {
			o, ok := Negotiate([]string{a, b}, from)
			if !ok {
				continue
			}
			known := false
			for _, one := range from {
				known = known || o == one
			}
			if !known {
				t.Errorf("%+v is not offered", o)
			}
		}
	})
}
