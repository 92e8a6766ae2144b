package linear_test

import (
	"fmt"

	"github.com/lingserve/lingserve/jsonuri"
	"github.com/lingserve/lingserve/jsonuri/linear"
)

// Two bots write at once: what belongs behind the title waits until the title is complete.
func Example() {
	var w linear.Writer
	show := func() { fmt.Printf("%q\n", w.AppendText(nil)) }
	grow := func(uri, text string) {
		w.Apply(jsonuri.Delta{URI: []byte(uri), Op: jsonuri.Append, Value: []byte(text)})
		show()
	}
	grow("title", "Why the ")
	grow("quiz/0", "What is")
	grow("title", "sky is blue")
	w.Done([]byte("title"))
	show()
	grow("quiz/0", " light?")
	text, err := w.Close(nil)
	fmt.Printf("%q %v\n", text, err)
	// Output:
	// "{\"title\":\"Why the "
	// ""
	// "sky is blue"
	// "\",\"quiz\":{\"0\":\"What is"
	// " light?"
	// "\"}}" <nil>
}
