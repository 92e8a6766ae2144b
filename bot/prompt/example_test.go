package prompt_test

import (
	"encoding/json"
	"fmt"

	"github.com/lingserve/lingserve/bot/prompt"
)

func ExampleTemplate_Render() {
	t, err := prompt.Parse("quiz", "Three questions about {{ topic }} for readers of: {{ result.article | json }}")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := t.Render(nil, map[string]any{
		"topic":  "the sky",
		"result": json.RawMessage(`{"article": {"title": "Why it is blue", "minutes": 1.50}}`),
	})
	fmt.Println(text, err)
	// Output: Three questions about the sky for readers of: {"minutes":1.5,"title":"Why it is blue"} <nil>
}

func ExampleParse() {
	_, err := prompt.Parse("outline", "Answer this:\n{{ input.question|shout }}")
	fmt.Println(err)
	// Output: outline:2:19: unknown filter "shout"
}

func ExampleTemplate_Variables() {
	t, _ := prompt.Parse("list", "{% for s in result.sections %}{{ s.title }}: {{ tone }}\n{% endfor %}")
	for _, v := range t.Variables() {
		fmt.Println(v.Path, v.Line, v.Column)
	}
	// Output:
	// [result sections] 1 13
	// [tone] 1 49
}
