package jsonuri_test

import (
	"fmt"

	"github.com/lingserve/lingserve/jsonuri"
)

func ExampleFormat() {
	fmt.Println(jsonuri.Format("outline", "0", "topic"))
	fmt.Println(jsonuri.Format("files", "src/main.go", "$mode", ""))
	// Output:
	// outline/0/topic
	// files/src\/main.go/\$mode/\e
}

func ExampleParse() {
	segments, err := jsonuri.Parse(`files/src\/main.go/0`)
	fmt.Printf("%q %v\n", segments, err)

	_, err = jsonuri.Parse("outline//topic")
	fmt.Println(err)
	// Output:
	// ["files" "src/main.go" "0"] <nil>
	// uri "outline//topic", byte 8: empty segment; an empty key is written \e
}

func ExampleReserved() {
	fmt.Println(jsonuri.Reserved("article/$reasoning_context"))
	fmt.Println(jsonuri.Reserved(`prices/\$100`))
	// Output:
	// true
	// false
}

func ExampleDocument() {
	var d jsonuri.Document
	for _, delta := range []jsonuri.Delta{
		{URI: []byte("outline"), Op: jsonuri.Set, Value: []byte("[]")},
		{URI: []byte("outline/0/topic"), Op: jsonuri.Append, Value: []byte("Rayleigh ")},
		{URI: []byte("outline/0/topic"), Op: jsonuri.Append, Value: []byte("scattering")},
		{URI: []byte("outline/0/weight"), Op: jsonuri.Set, Value: []byte("1.50")},
		{URI: []byte("$reasoning_context"), Op: jsonuri.Append, Value: []byte("Blue light is …")},
	} {
		if err := d.Apply(delta); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Printf("%s\n", d.AppendJSON(nil))
	fmt.Printf("%s\n", d.AppendReserved(nil))

	topic, ok := d.Get("outline/0/topic")
	fmt.Printf("%s %v\n", topic, ok)
	// Output:
	// {"outline":[{"topic":"Rayleigh scattering","weight":1.50}]}
	// {"$reasoning_context":"Blue light is …"}
	// "Rayleigh scattering" true
}

func ExampleDocument_Walk() {
	var d jsonuri.Document
	if err := d.Set(nil, []byte(`{"title":"Sky","sections":[{"year":1871},"end"]}`)); err != nil {
		fmt.Println(err)
	}
	for uri, value := range d.Walk {
		fmt.Printf("%-16s %s\n", uri, value)
	}
	// Output:
	//                  {"title":"Sky","sections":[{"year":1871},"end"]}
	// title            "Sky"
	// sections         [{"year":1871},"end"]
	// sections/0       {"year":1871}
	// sections/0/year  1871
	// sections/1       "end"
}

func ExamplePattern_Stars() {
	p, err := jsonuri.CompilePattern("sections/*/**/title")
	if err != nil {
		fmt.Println(err)
	}
	for _, uri := range []string{"sections/2/title", "sections/2/parts/0/title", "sections/2/text"} {
		stars, ok := p.Stars(uri)
		fmt.Printf("%q %v\n", stars, ok)
	}
	// Output:
	// ["2" ""] true
	// ["2" "parts/0"] true
	// [] false
}

// The text comes in pieces of any size; what is certain is told at once.
func ExampleParser() {
	var d jsonuri.Document
	p := jsonuri.NewParser(jsonuri.Handler{
		Delta: func(delta jsonuri.Delta) {
			fmt.Printf("%s\n", delta.AppendJSON(nil))
			if err := d.Apply(delta); err != nil {
				fmt.Println(err)
			}
		},
		String: func(uri []byte, value string) { fmt.Printf("%s is complete: %s\n", uri, value) },
	}, nil)
	for _, chunk := range []string{`{"title": "Why is`, ` the sky blue?", "ye`, `ars": [18`, `71]}`} {
		if _, err := p.WriteString(chunk); err != nil {
			fmt.Println(err)
		}
	}
	if err := p.Close(); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s\n", d.AppendJSON(nil))
	// Output:
	// {"uri":"title","delta":"Why is"}
	// {"uri":"title","delta":" the sky blue?"}
	// title is complete: Why is the sky blue?
	// {"uri":"years","delta":[]}
	// {"uri":"years/0","delta":1871}
	// {"title":"Why is the sky blue?","years":[1871]}
}

// What models do to JSON is mended as it is read, where that is asked for.
func ExampleParser_repair() {
	var d jsonuri.Document
	p := jsonuri.NewParser(jsonuri.Handler{
		Delta: func(delta jsonuri.Delta) {
			if err := d.Apply(delta); err != nil {
				fmt.Println(err)
			}
		},
	}, &jsonuri.Options{Root: "article", Repair: true})
	for _, chunk := range []string{"Here it is:\n```json\n{ti", "tle: 'Sky', // a comment\n", `"tags": ["light" "air",],`, `"text": "It is bl`} {
		if _, err := p.WriteString(chunk); err != nil {
			fmt.Println(err)
		}
	}
	if err := p.Close(); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s\n", d.AppendJSON(nil))
	fmt.Println(p.Complete())
	// Output:
	// {"article":{"title":"Sky","tags":["light","air"],"text":"It is bl"}}
	// false
}
