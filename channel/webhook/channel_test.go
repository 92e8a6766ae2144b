package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lingserve/lingserve/channel/channeltest"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/channel/webhook"
	"github.com/lingserve/lingserve/internal/fakecallback"
)

// stage is a backend over real sockets.
type stage struct {
	t    *testing.T
	back *fakecallback.Server
	in   *httptest.Server // of the channel
	out  *httptest.Server // the callback
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, q *kernel.Queue, grace time.Duration) channeltest.Platform {
	p := &stage{t: t, back: fakecallback.New(vectorSecret), done: make(chan error, 1)}
	p.out = httptest.NewServer(p.back)
	c, err := webhook.New(webhook.Settings{
		Secret: vectorSecret, Callback: p.out.URL, AllowInsecure: true, AllowPrivate: []string{"127.0.0.1"}, Settings: platform.Settings{Grace: grace},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.in = httptest.NewServer(c.Webhook())
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.done <- c.Serve(ctx, q) }()
	return p
}

// Send sends a message until the channel serves.
func (p *stage) Send(ctx context.Context, m channeltest.Message) error {
	for {
		status, err := p.post(ctx, m)
		switch {
		case err != nil:
			return err
		case status == http.StatusAccepted:
			return nil
		case status != http.StatusServiceUnavailable:
			return fmt.Errorf("the answer has status %d", status)
		}
	}
}

func (p *stage) post(ctx context.Context, m channeltest.Message) (status int, err error) {
	kind := "direct"
	if m.Group {
		kind = "group"
	}
	body := fmt.Appendf(nil, `{"sender":{"id":"s%d"},"conversation":{"id":"%s-%d","kind":"%s"},"text":%q,"mentioned":%t}`,
		max(m.Sender, 1), kind, max(m.Chat, 1), kind, m.Text, m.Mention)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.in.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	parseSecrets(p.t, vectorSecret).Sign(req.Header, fmt.Sprint("msg-", m.ID), time.Now(), body)
	res, err := p.in.Client().Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

func (p *stage) Shown() []string { return texts(p.back) }

func (p *stage) Writes() int { return len(p.back.Requests()) }

func (p *stage) Fail(how channeltest.Failure) bool {
	switch how {
	case channeltest.FailRefused:
		p.back.Then(fakecallback.Step{Status: http.StatusForbidden})
	case channeltest.FailUnknown:
		p.back.Then(fakecallback.Step{Cut: true})
	default: // a message is sent as a whole
		return false
	}
	return true
}

func (p *stage) Stop() error {
	p.stop()
	err := <-p.done
	p.in.Close()
	p.out.Close()
	return err
}

func TestTheChannelPassesTheSuite(t *testing.T) {
	channeltest.Run(t, channeltest.Fixture{Start: start, Groups: true, Redelivers: true})
}
