package coze

import (
	"testing"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
)

// Whatever comes as a stream.
func FuzzStream(f *testing.F) {
	adaptertest.Fuzz(f, subject,
		[]byte(chatCreated+text("a")+"event:conversation.message.completed\ndata:{\"id\":\"1\",\"type\":\"function_call\",\"content\":\"{\\\"name\\\":\\\"f\\\"}\"}\n\n"+
			"event:conversation.message.completed\ndata:{\"id\":\"2\",\"type\":\"tool_response\",\"content\":\"r\"}\n\n"+chatCompleted),
		[]byte("event:conversation.chat.requires_action\ndata:{\"required_action\":{\"submit_tool_outputs\":{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\"}}]}}}\n\n"),
		[]byte("event:conversation.chat.failed\ndata:{\"last_error\":{\"code\":4015}}\n\n"),
		[]byte(`{"code":4100,"msg":"x"}`),
		[]byte("event:conversation.message.completed\ndata:{\"id\":\"3\",\"type\":\"answer\",\"content\":\" a\"}\n\nevent:done\n\n"),
	)
}

// Whatever Coze says of a failure, our sentence is one of ours, and its code one of those that there are (AD-06, SE-06).
func FuzzFailure(f *testing.F) {
	for _, body := range []string{``, `[]`, `{"code":4000,"msg":"x"}`, `{"code":"4100"}`, `{"code":1e3}`, `{"code":-1}`, `{"error":{"message":"x","code":429}}`, `{"code":99999999999999999999}`} {
		f.Add(400, []byte(body))
		f.Add(200, []byte(body))
	}
	p, err := New(Options{Key: adaptertest.Key}, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := p.(*provider).Refused(&wire.Refusal{Status: status, Body: body})
		switch e.Code {
		case adapter.CodeInvalid, adapter.CodeAuth, adapter.CodeRateLimited, adapter.CodeUnavailable, adapter.CodeTimeout, adapter.CodeProtocol:
		default:
			t.Errorf("the code %q", e.Code)
		}
		if e.Message == "" || len(e.Message) > 300 || e.Cause == nil || len(e.Cause.Error()) > 3000 {
			t.Errorf("%+v", e)
		}
	})
}
