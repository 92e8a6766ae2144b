package htmlpath_test

import (
	"fmt"

	"github.com/lingserve/lingserve/htmlpath"
)

// A page is told while it is written. What is left out, as the ends of the items, is told too.
func ExampleParser() {
	p := htmlpath.NewParser(htmlpath.Handler{
		Open: func(path, _ []byte, attributes []htmlpath.Attribute) {
			fmt.Printf("+ %s", path)
			for _, a := range attributes {
				fmt.Printf(" %s=%q", a.Name, a.Value)
			}
			fmt.Println()
		},
		Text:  func(path, text []byte) { fmt.Printf("  %s: %q\n", path, text) },
		Close: func(path, _ []byte) { fmt.Printf("- %s\n", path) },
	}, nil)
	for _, chunk := range []string{`<ul cla`, `ss="short"><li>Salt &a`, `mp; pepper`, `<li>To`, `ast</ul>`} {
		if _, err := p.WriteString(chunk); err != nil {
			fmt.Println(err)
		}
	}
	if err := p.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// + ul[1] class="short"
	// + ul[1]/li[1]
	//   ul[1]/li[1]: "Salt "
	//   ul[1]/li[1]: "& pepper"
	// - ul[1]/li[1]
	// + ul[1]/li[2]
	//   ul[1]/li[2]: "To"
	//   ul[1]/li[2]: "ast"
	// - ul[1]/li[2]
	// - ul[1]
}

// In repair mode the document is found in what a model has answered.
func ExampleOptions() {
	p := htmlpath.NewParser(htmlpath.Handler{
		Source: func(text []byte) { fmt.Printf("document: %q\n", text) },
		Prose:  func(text []byte) { fmt.Printf("prose: %q\n", text) },
	}, &htmlpath.Options{Repair: true})
	p.WriteString("<think>A list?</think>Here you are:\n```html\n<p>Hi <b>you</b>\n```\nI hope")
	fmt.Println(p.Close(), p.Complete(), p.Repairs())
	// Output:
	// prose: "A list?Here you are:"
	// document: "<p>Hi <b>you</b>"
	// <nil> true map[fence:1 prose:1 think:2 trailing_text:1]
}
