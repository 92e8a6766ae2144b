package markup_test

import (
	"fmt"
	"unicode/utf8"

	"github.com/lingserve/lingserve/channel/markup"
)

func ExampleConvert() {
	answer := "Use **`go vet`** first: a < b is fine, see [the guide](https://example.com/guide)."
	fmt.Println(markup.Convert(answer, markup.TelegramHTML))
	fmt.Println(markup.Convert(answer, markup.SlackMrkdwn))
	fmt.Println(markup.Convert(answer, markup.Plain))
	// Output:
	// Use <code>go vet</code> first: a &lt; b is fine, see <a href="https://example.com/guide">the guide</a>.
	// Use `go vet` first: a &lt; b is fine, see <https://example.com/guide|the guide>.
	// Use go vet first: a < b is fine, see the guide (https://example.com/guide).
}

func ExamplePieces() {
	answer := "Two steps:\n\n```sh\nmake build\nmake test\n```"
	for i, p := range markup.Pieces(answer, markup.FeishuCard, markup.Limit{N: 22, Unit: markup.UTF16}) {
		fmt.Printf("%d:\n%s\n", i+1, p.Text)
	}
	// Output:
	// 1:
	// Two steps:
	// 2:
	// ```sh
	// make build
	// make test
	// ```
}

func ExampleCut() {
	for _, piece := range markup.Cut("One sentence. And another one.", 20, utf8.RuneCountInString) {
		fmt.Println(piece)
	}
	// Output:
	// One sentence.
	// And another one.
}
