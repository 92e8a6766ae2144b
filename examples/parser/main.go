// Parser shows the parser alone: JSON that is broken in the ways that models break it comes in small pieces, as models send
// it, and deltas go out while it is still being read. At the end there is the whole document, as a reader of the deltas has it.
//
//	go run ./examples/parser
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/lingserve/lingserve/jsonuri"
)

// broken has a sentence before it, a fence around it, keys without quotes, Python's literals, a comma too many, and no end.
const broken = "Here is the forecast:\n```json\n" + `{
  city: 'Zürich',
  days: [
    {"sky": "blue", "max": 21.50, rain: False,},
    {"sky": "said to be "grey"", "max": 17, "rain": True}
  ],
  "advice": "Take an umbr`

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "parser:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	var document jsonuri.Document // what a reader of the deltas would have
	var failed error
	parser := jsonuri.NewParser(jsonuri.Handler{
		Delta: func(d jsonuri.Delta) {
			fmt.Fprintf(out, "%s\n", d.AppendJSON(nil))
			if err := document.Apply(d); err != nil {
				failed = err
			}
		},
		Object: func(uri, value []byte) { fmt.Fprintf(out, "# complete: %s = %s\n", uri, value) },
	}, &jsonuri.Options{Root: "weather", Repair: true})

	const piece = 11 // bytes; anything does, also in the middle of a character
	for rest := broken; rest != ""; rest = rest[min(piece, len(rest)):] {
		if _, err := parser.WriteString(rest[:min(piece, len(rest))]); err != nil {
			return err
		}
	}
	if err := parser.Close(); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	fmt.Fprintf(out, "# document: %s\n", document.AppendJSON(nil))
	repairs := parser.Repairs()
	for _, kind := range slices.Sorted(maps.Keys(repairs)) {
		fmt.Fprintf(out, "# repaired: %s %d\n", kind, repairs[kind])
	}
	return nil
}
