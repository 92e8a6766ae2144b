package wire_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// canary is a key that must never be seen again.
const canary = "sk-CANARY-0123456789abcdef"

func server(key string) *wire.Server {
	return &wire.Server{Prefix: "mine", KeyName: "MINE_API_KEY", Key: func() string { return key }}
}

func TestRetryAfterInAllItsForms(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, row := range []struct {
		header http.Header
		want   time.Duration
	}{
		{http.Header{}, 0},
		{http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		{http.Header{"Retry-After": {" 0.5 "}}, 500 * time.Millisecond},
		{http.Header{"Retry-After": {"0"}}, 0},
		{http.Header{"Retry-After": {"-3"}}, 0},
		{http.Header{"Retry-After": {"1e99"}}, 24 * time.Hour},
		{http.Header{"Retry-After": {"NaN"}}, 0},
		{http.Header{"Retry-After": {"Inf"}}, 24 * time.Hour},
		{http.Header{"Retry-After": {"soon"}}, 0},
		{http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:05:05 GMT"}}, time.Minute},
		{http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:00:05 GMT"}}, 0},
		{http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"9"}}, 1500 * time.Millisecond},
		{http.Header{"Retry-After-Ms": {"?"}, "Retry-After": {"9"}}, 9 * time.Second},
	} {
		if got := wire.RetryAfter(row.header, now); got != row.want {
			t.Errorf("%v: %v", row.header, got)
		}
	}
}

// What a refusal says depends on what there is to do about it (AD-06).
func TestRefusalsSayWhatToDo(t *testing.T) {
	for _, row := range []struct {
		name, key string
		status    int
		body      string
		code      string
		says      string
	}{
		{"no key", "", 401, `{}`, adapter.CodeAuth, "the model's server (mine) asks for a key: set MINE_API_KEY"},
		{"a wrong key", "k", 401, `{}`, adapter.CodeAuth, "the model's server (mine) refused the key: check MINE_API_KEY"},
		{"a member that is not taken", "k", 400, `{"error":{"message":"no","param":"temperature","code":"unsupported_value"}}`, adapter.CodeProtocol, "the model's server (mine) refused the request: the model does not accept temperature as it was given"},
		{"a member that is none of ours", "k", 400, `{"error":{"message":"no","param":"<script>"}}`, adapter.CodeProtocol, "the model's server (mine) refused the request: the model may not support a part of it"},
		{"an account without credit", "k", 429, `{"error":{"code":"insufficient_quota"}}`, adapter.CodeRateLimited, "the model's server (mine) reports that the account has no credit left"},
		{"a filter", "k", 400, `{"error":{"code":"content_filter"}}`, adapter.CodeProtocol, "the provider's content filter stopped the answer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := server(row.key).Failure(row.status, wire.ReadReport([]byte(row.body)))
			if e.Message != row.says || e.Code != row.code {
				t.Errorf("%s: %q", e.Code, e.Message)
			}
		})
	}
}

// Whatever a provider says in an error, our sentence is one of ours (AD-06, SE-06).
func FuzzReport(f *testing.F) {
	for _, body := range []string{``, `[]`, `[{"error":{"message":"x","code":429}}]`, `{"error":"x","code":"y"}`, `{"message":["a"],"status":503}`, `{"detail":[{"msg":"x"}]}`, `{"error":{"param":"model"}}`} {
		f.Add(400, []byte(body))
	}
	s := server(canary)
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		marked := []byte(strings.ReplaceAll(string(body), "x", "CANARY<x>"))
		for _, e := range []*adapter.Error{s.Failed(marked), s.Refused(&wire.Refusal{Status: status, Body: marked})} {
			if e.Message == "" || e.Code == "" || strings.Contains(e.Message, "CANARY") || len(e.Message) > 300 || e.Cause == nil || len(e.Cause.Error()) > 3000 {
				t.Errorf("%+v", e)
			}
		}
	})
}

// DV-01: the author of a message learns that its images were refused, and can send it without them.
func TestTheAuthorLearnsThatImagesAreRefused(t *testing.T) {
	for _, body := range []string{
		`{"error":{"message":"this model does not support images","param":"messages"}}`,
		`{"error":{"message":"image_url is only supported by certain models","param":"messages.[0].content.[1].type"}}`,
	} {
		e := server("key").Refused(&wire.Refusal{Status: 400, Body: []byte(body)})
		if !e.Refused || e.Notice != "The model cannot read such images or files. Please send the message without them." {
			t.Errorf("%s: %v, %q", body, e.Refused, e.Notice)
		}
	}
}
