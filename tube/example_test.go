package tube_test

import (
	"fmt"
	"regexp"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/tube"
)

func Example() {
	t := tube.New("run-1", &tube.Options{})
	for _, e := range []tube.Event{
		{Kind: tube.Append, URI: []byte("title"), Value: []byte("The colour ")},
		{Kind: tube.Append, URI: []byte("title"), Value: []byte("of the sky")},
		{Kind: tube.Append, URI: []byte("draft"), Value: []byte("not for clients"), Hidden: true},
	} {
		if _, err := t.Send(e); err != nil {
			fmt.Println(err)
		}
	}
	if err := t.Close("completed"); err != nil {
		fmt.Println(err)
	}

	for e := range t.NewReader(0).Waiting() { // from the beginning
		fmt.Printf("%s %s\n", e.AppendID(nil, t.Run()), e.AppendJSON(nil))
	}
	for e := range t.SnapshotReader().Waiting() { // or all at once
		fmt.Printf("%s %s\n", e.AppendID(nil, t.Run()), e.AppendJSON(nil))
	}
	// Output:
	// run-1:0 {"uri":"title","delta":"The colour "}
	// run-1:1 {"uri":"title","delta":"of the sky"}
	// run-1:3 {"event":"finished","data":{"status":"completed"}}
	// run-1:2 {"uri":"","delta":{"title":"The colour of the sky"}}
	// run-1:3 {"event":"finished","data":{"status":"completed"}}
}

// A reader waits for more without a goroutine of the tube's.
func ExampleReader_More() {
	t := tube.New("run-1", &tube.Options{})
	go func() {
		_, _ = t.Send(tube.Event{Kind: tube.Named, Name: "outline-ready", Value: []byte(`{"sections":3}`)})
		_ = t.Cancel("enough")
	}()
	r := t.NewReader(0)
	for {
		for e := range r.Waiting() {
			fmt.Printf("%s\n", e.AppendJSON(nil))
		}
		if r.Ended() {
			return
		}
		<-r.More()
	}
	// Output:
	// {"event":"outline-ready","data":{"sections":3}}
	// {"event":"canceled","data":{"reason":"enough"}}
}

func ExampleTube_AddFilter() {
	t := tube.New("run-1", &tube.Options{})
	notes, err := jsonuri.CompilePattern("article/notes/**")
	if err != nil {
		fmt.Println(err)
	}
	t.AddFilter(tube.Filter{Exclude: []tube.Matcher{notes}})
	for _, uri := range []string{"article/body", "article/notes/0"} {
		_, _ = t.Send(tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte("text")})
	}
	visible, _ := t.Snapshot(false)
	all, _ := t.Snapshot(true)
	fmt.Printf("%s\n%s\n", visible, all)
	// Output:
	// {"article":{"body":"text"}}
	// {"article":{"body":"text","notes":{"0":"text"}}}
}

// A filter hides uris and whole events from clients. A matcher is a uri, a function, a regular expression or a pattern.
func ExampleFilter() {
	t := tube.New("run-1", &tube.Options{})
	t.AddFilter(tube.Filter{Exclude: []tube.Matcher{
		tube.URI("draft"),
		tube.Func(func(uri []byte) bool { return len(uri) > 20 }),
		regexp.MustCompile(`^notes/\d+$`),
		tube.EventFunc(func(e tube.Event) bool { return e.Name == "cost" }),
	}})
	send := func(uri string) {
		_, _ = t.Send(tube.Event{Kind: tube.Append, URI: []byte(uri), Value: []byte("text")})
	}
	send("draft")
	send("notes/1")
	send("title")
	_, _ = t.Send(tube.Event{Kind: tube.Named, Name: "cost", Value: []byte("7")})
	t.ClearFilters()
	send("draft")
	r := t.NewReader(0)
	for e := range r.Waiting() {
		fmt.Printf("%s\n", e.AppendJSON(nil))
	}
	fmt.Println("next:", r.Next())
	// Output:
	// {"uri":"title","delta":"text"}
	// {"uri":"draft","delta":"text"}
	// next: 5
}
