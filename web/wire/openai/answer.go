package openai

import (
	"encoding/json"
	"strconv"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/web/wire/frame"
)

// Head is what all of an answer says of itself.
type Head struct {
	ID      string // of the run: its completion's is made of it
	Model   string // as the request names it
	Created int64  // seconds
}

// Reasons for which an answer ends, as clients know them.
const (
	Stop          = "stop"
	Length        = "length"
	ContentFilter = "content_filter"
)

// End is how an answer ends: with a reason, or an error.
type End struct {
	Finish string
	Err    *Error
	Usage  adapter.Usage // of all inferences
}

func (h Head) appendTo(dst []byte, object string) []byte {
	dst = append(dst, `{"id":"chatcmpl-`...)
	dst = append(dst, h.ID...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, h.Created, 10)
	dst = append(dst, `,"model":`...)
	return frame.Quote(dst, h.Model)
}

// count is a member of the details of a usage.
type count struct {
	name   string
	tokens int
}

func appendUsage(dst []byte, u adapter.Usage) []byte {
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.PromptTokens), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.CompletionTokens), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.TotalTokens), 10)
	details := func(name string, counts ...count) {
		first := true
		for _, c := range counts {
			if c.tokens <= 0 {
				continue
			}
			if first {
				dst = append(append(append(dst, `,"`...), name...), `":{`...)
			} else {
				dst = append(dst, ',')
			}
			first = false
			dst = append(append(append(dst, '"'), c.name...), `":`...)
			dst = strconv.AppendInt(dst, int64(c.tokens), 10)
		}
		if !first {
			dst = append(dst, '}')
		}
	}
	details("prompt_tokens_details", count{"cached_tokens", u.CachedTokens}, count{"cache_write_tokens", u.CacheWriteTokens})
	details("completion_tokens_details", count{"reasoning_tokens", u.ReasoningTokens})
	if u.Cost > 0 { // OpenRouter's member
		dst = append(dst, `,"cost":`...)
		dst = strconv.AppendFloat(dst, float64(u.Cost)/1e6, 'f', -1, 64)
	}
	return append(dst, '}')
}

// AppendCompletion appends an answer that is complete. document is that of the run, in JSON; of one that is a string the content is
// that string, of others the JSON text. beside is what stands beside it: thoughts and sources.
func AppendCompletion(dst []byte, h Head, document, beside []byte, end End) []byte {
	thoughts := Thoughts(beside)
	dst = h.appendTo(dst, "chat.completion")
	dst = append(dst, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	if len(document) > 0 && document[0] == '"' {
		dst = append(dst, document...)
	} else {
		dst = frame.Quote(dst, string(document))
	}
	dst = append(dst, `,"refusal":null`...)
	if thoughts != "" {
		for _, name := range reasoning {
			dst = append(dst, `,"`...)
			dst = append(dst, name...)
			dst = append(dst, `":`...)
			dst = frame.Quote(dst, thoughts)
		}
	}
	if list := annotations(beside); list != nil {
		dst = append(dst, `,"annotations":`...)
		dst = append(dst, list...)
	}
	dst = append(dst, `},"logprobs":null,"finish_reason":"`...)
	dst = append(dst, end.Finish...)
	dst = append(dst, `"}],"usage":`...)
	dst = appendUsage(dst, end.Usage)
	return append(dst, "}\n"...)
}

// reasoning are the names under which clients look for thoughts: some know one, some the other.
var reasoning = []string{"reasoning_content", "reasoning"}

// Thoughts joins what the bots of a run have thought. beside is what stands beside its document, an object of values by uri.
func Thoughts(beside []byte) string {
	var all string
	for uri, value := range rawjson.Members(beside) {
		var text string
		if isThought([]byte(uri)) && json.Unmarshal(value, &text) == nil && text != "" {
			if all != "" {
				all += "\n\n"
			}
			all += text
		}
	}
	return all
}
