//go:build nightly && unix

package faults

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// DO-05: a request whose Content-Length is beyond the limit is refused at once, wherever it goes: nothing of its body is waited for. Without a
// key that is the answer. Small requests by other connections are answered as ever.
func TestDO_05_ABodyThatIsTooLargeByItsLengthIsRefusedAtOnce(t *testing.T) {
	const key = "ann-has-a-key-of-her-own"
	s := serve(t, serving{
		env:    []string{"LINGSERVE_API_KEYS=ann:" + key + ":user"},
		config: "channels:\n  hook: {type: webhook, secret: whsec_aG9va2hvb2tob29raG9va2hvb2tob29r, agent: assistant, ack: result, dm: {policy: open}}\n",
	})
	const atOnce = 10 * time.Second // a body has 30 s
	var asking sync.WaitGroup
	for _, path := range []string{
		"/v1/runs", "/v1/agui/assistant", "/v1/chat/completions", "/v1/ui/assistant", "/v1/ui/assistant/object", "/v1/tickets",
		"/v1/runs/none/cancel", "/v1/runs/none/approvals/call", "/v1/sessions/none/handoff", "/v1/sessions/none/fork", "/v1/none",
		"/v1/channels/hook/webhook",
	} {
		for _, with := range []struct {
			header string
			status int
		}{
			{"Authorization: Bearer " + key + "\r\n", 413},
			{"Authorization: Bearer " + key + "\r\nExpect: 100-continue\r\n", 413},
			{"", 401},
		} {
			if strings.HasPrefix(path, "/v1/channels/") { // which looks at signatures: the headers' form is right
				with.header += fmt.Sprintf("webhook-id: m1\r\nwebhook-timestamp: %d\r\nwebhook-signature: v1,YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\r\n", time.Now().Unix())
				with.status = 413
			}
			asking.Go(func() {
				c, err := s.tcp("POST " + path + " HTTP/1.1\r\nHost: " + s.process.Addr() + "\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\n" + with.header + "\r\n{")
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				c.SetReadDeadline(time.Now().Add(atOnce))
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Errorf("%s with %q: %v", path, with.header, err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != with.status || !resp.Close || err != nil {
					t.Errorf("%s with %q: status %d, closes %v, %v, want %d: %s", path, with.header, resp.StatusCode, resp.Close, err, with.status, clip(string(body)))
				}
			})
		}
	}
	asking.Wait()
	s.http.Transport = &http.Transport{DisableKeepAlives: true}
	a, err := s.do("POST", "/v1/runs", runOf("m", "small"), "Accept: application/json", "Authorization: Bearer "+key)
	if err != nil || a.status != 200 {
		t.Errorf("a small one: %v, %v", a, err)
	}
}
