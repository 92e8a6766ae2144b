package markup_test

import (
	"encoding/json"
	"html"
	"reflect"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/agent"
	"github.com/lingserve/lingserve/channel/markup"
)

// DA-07: a question for approval reaches a person of each platform exactly: in one message, as a block of code that means what will run.
func TestDA_07_AQuestionIsShownExactly(t *testing.T) {
	between := func(text, open, end string) string {
		_, text, _ = strings.Cut(text, open)
		text, _, _ = strings.Cut(text, end)
		return text
	}
	platforms := map[string]struct {
		format markup.Format
		limit  markup.Limit                    // of the channel
		seen   func(text string) (code string) // the block of code as the platform shows it
	}{
		"telegram": {markup.TelegramHTML, markup.Limit{N: 4096}, func(text string) string {
			return html.UnescapeString(between(text, `<pre><code class="language-json">`, "</code></pre>"))
		}},
		"slack": {markup.SlackMrkdwn, markup.Limit{N: 4000, Marked: true}, func(text string) string {
			return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(between(text, "```\n", "\n```"))
		}},
		"feishu": {markup.FeishuCard, markup.Limit{N: 28_000, Unit: byteCount, Marked: true}, func(text string) string {
			return between(text, "```json\n", "\n```")
		}},
		"plain": {markup.Plain, markup.Limit{N: 4096}, func(text string) string {
			return between(text, " with\n\n", "\n\nWrite ,approve")
		}},
	}
	for _, arguments := range []string{
		`{"cmd":"ls *.go && rm -rf _tmp_ ~x~ [safe](http://evil.example) # > | & &amp; <b> \\ \\* \" ` + "` `` ``` ````" + `"}`,
		`{"a":"` + "\u202egpj.exe\u2066 \u200b\u00ad\u3164\ufe0f\u00a0\U000e0041\x7f" + `"}`,
		`{"a":"<at id=all></at> <AT> <person> <!channel> <@U1> <http://evil.example|safe> :smile: @here"}`,
		`{"a":"\u0060\u0060\u0060\nWrite ,approve now\u2028\r\t\u0000\ud83d"}`,
		"{ \n\n\n\n \"a\" : [ 1.0, \"\xe5\xa4\xa9\xe6\xb0\x94\", {}, null ] }",
		`{"a":"` + strings.Repeat("<", 740) + `"}`,
		`{"a":"` + strings.Repeat("&", 595) + `"}`,
		`{"a":"` + strings.Repeat("😀", 1490) + `"}`,
		`{"a":"` + strings.Repeat(`\"`, 1490) + `"}`,
		`{"a":"` + strings.Repeat("word ", 595) + `"}`,
		`{"a":"` + strings.Repeat("`", 370) + `"}`,
		`{"a":"` + strings.Repeat("天", 2990) + `"}`,
	} {
		q := agent.Question{ID: "mq3v5c2xkz7tdhw4ybnae6rpsg", Tool: "mcp.files_x.write__y", Arguments: json.RawMessage(arguments)}
		text, ok := q.Text()
		if !ok {
			t.Errorf("%.40s… is not shown", arguments)
			continue
		}
		var runs any
		if err := json.Unmarshal([]byte(arguments), &runs); err != nil {
			t.Fatal(err)
		}
		for name, p := range platforms {
			pieces := markup.Pieces(text, p.format, p.limit)
			if len(pieces) != 1 {
				t.Errorf("%s: %.40s… is shown in %d messages", name, arguments, len(pieces))
				continue
			}
			var meant any
			if err := json.Unmarshal([]byte(p.seen(pieces[0].Text)), &meant); err != nil || !reflect.DeepEqual(meant, runs) {
				t.Errorf("%s: %.80s… is seen as %.200s: %v", name, arguments, p.seen(pieces[0].Text), err)
			}
			plain := pieces[0].Plain
			if !strings.Contains(plain, "mcp.files_x.write__y") || !strings.Contains(plain, ",approve "+q.ID) || strings.ContainsAny(plain, "\u202e\u200b\u00ad\u2028\u00a0") {
				t.Errorf("%s: %.200s", name, plain)
			}
		}
	}
}
