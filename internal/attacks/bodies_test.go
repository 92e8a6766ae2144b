//go:build nightly

package attacks

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

// unsent sends the headers of a webhook's request and the beginning of its body, and leaves the connection open.
func (v *victim) unsent(t testing.TB, channel string, length int, body string, header ...string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", v.Addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	head := fmt.Sprintf("POST /v1/channels/%s/webhook HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", channel, length)
	if len(header) > 0 {
		head += strings.Join(header, "\r\n") + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"+body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answered reads the answer that comes although the body has not; the error is that of the waiting.
func answered(conn net.Conn, within time.Duration) (*http.Response, error) {
	_ = conn.SetReadDeadline(time.Now().Add(within))
	return http.ReadResponse(bufio.NewReader(conn), nil)
}

// headersOf are such as a channel's platform could send, whose signature is of nobody.
func headersOf(channel string, at time.Time) []string {
	seconds, zeros := strconv.FormatInt(at.Unix(), 10), strings.Repeat("0", 64)
	switch channel {
	case "slack":
		return []string{"X-Slack-Request-Timestamp: " + seconds, "X-Slack-Signature: v0=" + zeros}
	case "feishu":
		return []string{"X-Lark-Request-Timestamp: " + seconds, "X-Lark-Request-Nonce: n", "X-Lark-Signature: " + zeros}
	case "telegram":
		return []string{"X-Telegram-Bot-Api-Secret-Token: " + telegramSecret}
	}
	return []string{"Webhook-Id: i", "Webhook-Timestamp: " + seconds, "Webhook-Signature: v1," + base64.StdEncoding.EncodeToString([]byte(zeros[:32]))}
}

// DA-02: what cannot be valid is refused while its body has not come.
func TestDA_02_AWebhookWhoseHeadersCannotBeValidIsRefusedBeforeItsBodyIsRead(t *testing.T) {
	v := server(t)
	const large = 1 << 20
	old := time.Now().Add(-time.Hour)
	for _, row := range []struct {
		name, channel string
		length        int
		header        []string
		status        int
	}{
		{"slack, not signed", "slack", large, nil, 401},
		{"slack, signed long ago", "slack", large, headersOf("slack", old), 401},
		{"slack, half a signature", "slack", large, []string{"X-Slack-Request-Timestamp: " + strconv.FormatInt(time.Now().Unix(), 10), "X-Slack-Signature: v0=00"}, 401},
		{"slack, too large", "slack", large + 1, headersOf("slack", time.Now()), 413},
		{"feishu, not signed and larger than a challenge", "feishu", large, nil, 413},
		{"feishu, signed long ago", "feishu", large, headersOf("feishu", old), 401},
		{"feishu, too large", "feishu", large + 1, headersOf("feishu", time.Now()), 413},
		{"telegram, another secret", "telegram", large, []string{"X-Telegram-Bot-Api-Secret-Token: x"}, 401},
		{"telegram, too large", "telegram", large + 1, headersOf("telegram", time.Now()), 413},
		{"webhook, not signed", "hook", large, nil, 401},
		{"webhook, signed long ago", "hook", large, headersOf("hook", old), 401},
		{"webhook, no signature of ours", "hook", large, append(headersOf("hook", time.Now())[:2], "Webhook-Signature: v1a,AAAA"), 401},
		{"webhook, too large", "hook", large + 1, headersOf("hook", time.Now()), 413},
	} {
		t.Run(row.name, func(t *testing.T) {
			res, err := answered(v.unsent(t, row.channel, row.length, "", row.header...), 5*time.Second)
			if err != nil {
				t.Fatalf("%v; expected %d at once", err, row.status)
			}
			if res.StatusCode != row.status {
				t.Errorf("%s; expected %d", res.Status, row.status)
			}
		})
	}
}

// DA-02: bodies that nobody has signed yet count against the budget of all bodies, and those of one address have a part of it. What comes by
// the API has the rest.
func TestDA_02_BodiesThatNobodyHasSignedHaveAPartOfTheBudget(t *testing.T) {
	v := ownServer(t, setup{args: []string{"--limit-bodies", "2MiB"}})
	const length, part = 1_000_000, 400_000
	beginning := strings.Repeat(" ", part)
	refused := 0
	for range 4 { // one address may have 1 MiB
		res, err := answered(v.unsent(t, "slack", length, beginning, headersOf("slack", time.Now())...), 500*time.Millisecond)
		if err != nil { // it waits for the rest
			continue
		}
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("%s with Retry-After %q; expected 503 with one", res.Status, res.Header.Get("Retry-After"))
		}
		refused++
	}
	if refused != 2 {
		t.Errorf("%d of 4 bodies of %d bytes were refused; expected 2", refused, part)
	}
	word := v.answer(fakeproviders.Answer{Text: "blue"})
	body := fmt.Sprintf(`{"workflow":"text","input":{"q":%q}}`, word+strings.Repeat(" word", 100_000))
	if r := v.do(t, "POST", "/v1/runs", body, "Content-Type: application/json", "Accept: application/json"); r.status != http.StatusOK {
		t.Errorf("a run beside them: %d %s", r.status, clip(r.body))
	}
}
