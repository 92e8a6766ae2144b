package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/internal/fakefeishu"
)

func TestAFeishuBotIsAnsweredByTheConfiguredAgent(t *testing.T) { // CH-71
	fake := fakefeishu.New(&fakefeishu.Options{Deliver: httpClient(t)})
	t.Cleanup(func() { _ = fake.Close() })
	api := httptest.NewServer(fake)
	t.Cleanup(api.Close)
	o := fake.Options()
	p := serverWith(t, t.TempDir(), `
agents:
  assistant: {model: "demo:fast"}
channels:
  feishu:
    app_id: `+o.AppID+`
    app_secret: "`+o.AppSecret+`"
    encrypt_key: "`+o.Key+`"
    verification_token: "`+o.Token+`"
    api: `+api.URL+`
    agent: assistant
    dm: {policy: allowlist, allow_from: [ou_ann]}
`)
	p.waitFor("channel is connected")
	fake.SetURL(p.base + "/v1/channels/feishu/webhook")
	if got := fake.Post(t.Context(), fake.Challenge("who-are-you")); got.Status != http.StatusOK || !strings.Contains(got.Body, `"who-are-you"`) {
		t.Errorf("the question for the address is answered with %d %s", got.Status, got.Body)
	}
	fake.AddChat("oc_ann", "p2p")
	fake.AddChat("oc_eve", "p2p")
	denied, _ := fake.Say(fakefeishu.Said{Chat: "oc_eve", From: "ou_eve", Text: "Let me in"})
	fake.Deliver(denied)
	event, _ := fake.Say(fakefeishu.Said{Chat: "oc_ann", From: "ou_ann", Text: "Why is the sky blue?"})
	fake.Deliver(event)
	err := fake.Await(t.Context(), func() bool { return strings.Contains(strings.Join(fake.Texts("oc_ann"), ""), "Why is the sky blue?") })
	if err != nil {
		t.Errorf("%v: %q is shown", err, fake.Texts("oc_ann"))
	}
	p.waitFor("dm_not_allowed")
	if got := fake.Texts("oc_eve"); len(got) != 0 {
		t.Errorf("a stranger is told %q", got)
	}
	fake.SetURL("http://" + strings.TrimPrefix(p.base, "http://") + "/v1/channels/other/webhook")
	if got := fake.Post(t.Context(), event); got.Status != http.StatusNotFound {
		t.Errorf("the address of a channel that is not there answers %d", got.Status)
	}
}
