package tube_test

import (
	"bytes"
	"testing"

	"github.com/lingserve/lingserve/tube"
)

// DM-02: a filter may look at whole events, named ones included; the terminal one is never hidden.
func TestAFilterSeesWholeEvents(t *testing.T) {
	tb := tube.New("r", &tube.Options{})
	hidesSecrets := tube.EventFunc(func(e tube.Event) bool { return bytes.Contains(e.Value, []byte("secret")) || e.Name == "finished" })
	remove := tb.AddFilter(tube.Filter{Exclude: []tube.Matcher{tube.URI("c"), hidesSecrets}})
	tb.AddFilter(tube.Filter{Root: "below", Exclude: []tube.Matcher{tube.EventFunc(func(e tube.Event) bool { return e.Kind == tube.Append || e.Name == "own" })}})
	for _, e := range []tube.Event{
		{Kind: tube.Append, URI: []byte("a"), Value: []byte("open")},
		{Kind: tube.Append, URI: []byte("a"), Value: []byte("secret")}, // the same uri, another verdict
		{Kind: tube.Append, URI: []byte("a"), Value: []byte("open")},
		{Kind: tube.Append, URI: []byte("c"), Value: []byte("open")},
		{Kind: tube.Named, Name: "note", Value: []byte(`"secret"`)},
		{Kind: tube.Named, Name: "note", Value: []byte(`"open"`)},
		{Kind: tube.Named, Name: "own", Value: []byte(`"open"`)},
		{Kind: tube.Append, URI: []byte("below/x"), Value: []byte("open")},
		{Kind: tube.Append, URI: []byte("belows"), Value: []byte("open")},
	} {
		if _, err := tb.Send(e); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	if _, err := tb.Send(tube.Event{Kind: tube.Named, Name: "note", Value: []byte(`"secret"`)}); err != nil {
		t.Fatal(err)
	}
	tb.AddFilter(tube.Filter{Exclude: []tube.Matcher{hidesSecrets}})
	tb.Close("completed")
	got := ""
	for e, err := range tb.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		got += string(e.URI) + e.Name + "=" + string(e.Value) + " "
	}
	if want := `a=open a=open note="open" belows=open note="secret" finished={"status":"completed"} `; got != want {
		t.Errorf("clients see %s, expected %s", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("an EventFunc cannot include")
		}
	}()
	tb.AddFilter(tube.Filter{Include: []tube.Matcher{hidesSecrets}})
}
