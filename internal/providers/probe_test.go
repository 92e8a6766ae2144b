package providers

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/openai"
	"github.com/lingserve/lingserve/internal/fakeproviders"
	"github.com/lingserve/lingserve/internal/providers/providerstest"
)

// MO-50: what a check finds of a model, and that it ends in time whatever the model does.
func TestACheckFindsWhatAModelDoes(t *testing.T) {
	refuse := func(body string) fakeproviders.Answer {
		return fakeproviders.Answer{Status: http.StatusBadRequest, Body: body}
	}
	for _, row := range []struct {
		name   string
		script func(fakeproviders.Request) fakeproviders.Answer // but for the first word
		want   map[string]string                                // status, and what is said
		took   time.Duration
	}{
		{
			"a model that can do it all", providerstest.Able,
			map[string]string{"tools": "ok", "thinking": "ok", "two messages": "ok", "schema": "ok", "image": "ok"},
			0,
		},
		{
			"one that refuses to think", func(r fakeproviders.Request) fakeproviders.Answer {
				switch {
				case strings.Contains(string(r.Body), "reasoning_effort"):
					return refuse(`{"error":{"message":"no","param":"reasoning_effort"}}`)
				case r.Messages[len(r.Messages)-1].Role == adapter.ToolRole:
					return fakeproviders.Answer{Text: "It is " + r.Messages[len(r.Messages)-1].Content}
				}
				return providerstest.Able(r)
			},
			map[string]string{"tools": "ok", "two messages": "ok", "schema": "ok", "image": "ok"},
			0,
		},
		{
			"one that does not hear its tools", func(r fakeproviders.Request) fakeproviders.Answer {
				if r.Messages[len(r.Messages)-1].Role == adapter.ToolRole {
					return fakeproviders.Answer{Text: "I do not know."}
				}
				return providerstest.Able(r)
			},
			map[string]string{"tools": "fail: did not use the result", "thinking": "ok", "two messages": "ok", "schema": "ok", "image": "ok"},
			0,
		},
		{
			"one whose thoughts may not come back", func(r fakeproviders.Request) fakeproviders.Answer {
				if r.Messages[len(r.Messages)-1].Role == adapter.ToolRole {
					return fakeproviders.Answer{Status: http.StatusInternalServerError, Body: "broken"}
				}
				return providerstest.Able(r)
			},
			map[string]string{"tools": "fail: failed or is overloaded", "thinking": "ok", "two messages": "ok", "schema": "ok", "image": "ok"},
			0,
		},
		{
			"one that goes away", func(fakeproviders.Request) fakeproviders.Answer {
				return fakeproviders.Answer{Raw: []fakeproviders.Raw{{Hang: true}}}
			},
			map[string]string{"tools": "fail: no answer within 30s", "thinking": "skip", "two messages": "skip", "schema": "skip", "image": "skip"},
			30 * time.Second,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &fakeproviders.Server{Script: func(r fakeproviders.Request) fakeproviders.Answer {
					if len(r.Messages) == 1 && r.Messages[0].Content == "Say yes." {
						return fakeproviders.Answer{Text: "Yes"}
					}
					return row.script(r)
				}}
				defer server.Close()
				p, err := openai.New(openai.Options{BaseURL: "http://upstream/v1", Key: "key", Transport: server.Transport()})
				if err != nil {
					t.Fatal(err)
				}
				models := &adapter.Registry{Retries: adapter.Retries{Attempts: 1}}
				models.Register("openai", p)
				c := &Checker{Models: models, Timeout: 30 * time.Second}
				began := time.Now()
				got := c.Check(t.Context(), Result{Model: "openai:m"})
				if took := time.Since(began); took != row.took || got.Status != "ok" {
					t.Errorf("%s after %v", got.Status, took)
				}
				found := map[string]string{}
				for _, p := range got.Checks {
					found[p.Check] = p.Status
					want, says, _ := strings.Cut(row.want[p.Check], ": ")
					if want != "" && (p.Status != want || !strings.Contains(p.Message, says)) {
						t.Errorf("%s: %s: %q, want %s: %q", p.Check, p.Status, p.Message, want, says)
					}
				}
				if diff := cmp.Diff(5, len(found)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
