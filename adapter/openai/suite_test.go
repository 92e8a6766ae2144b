package openai

import (
	"fmt"
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
)

// subject is this adapter, as the suite of all adapters sees it.
var subject = adaptertest.Subject{
	Prefix:  "openai",
	KeyName: "OPENAI_API_KEY",
	New: func(t testing.TB, o adaptertest.Options) adapter.Provider {
		return newProvider(t, Options{
			BaseURL: o.BaseURL + "/v1", Key: o.Key, Transport: o.Transport, MaxEvent: o.MaxEvent, Timeouts: o.Timeouts,
		})
	},
	Wire: adaptertest.Wire{
		ContentType: "text/event-stream",
		Open:        `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n",
		Text:        delta,
		Reasoning: func(text string) string {
			return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"reasoning_content":%q},"finish_reason":null}]}`+"\n\n", text)
		},
		Finish: finish,
		Done:   "data: [DONE]\n\n",
		Ping:   ": ping\n\n",
		Error:  `data: {"error":{"message":"overloaded ` + adaptertest.Key + `","type":"server_error"}}` + "\n\n",
	},
}

// AD-01, AD-06, AD-07 and what else every adapter promises.
func TestSuite(t *testing.T) { adaptertest.Run(t, subject) }
